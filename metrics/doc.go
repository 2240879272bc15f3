// Package metrics will publish the engine's statistics as Prometheus series.
// Nothing is here yet.
package metrics
