package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sink is what one system has got of one kind of record.
type Sink struct {
	Sink, Feed                       string
	Sent, Failed, Omitted, Snapshots uint64
	Lag                              uint64 // entries
	Age                              time.Duration
	Up                               bool
	LastErrorAt                      time.Time // zero: never
}

// sinks collects the series of sinks.
type sinks func() []Sink

// SetSinks adds the series of sinks. It may be called once.
func (m *Metrics) SetSinks(read func() []Sink) { m.registry.MustRegister(sinks(read)) }

func (s sinks) Describe(chan<- *prometheus.Desc) {}

func (s sinks) Collect(ch chan<- prometheus.Metric) {
	for _, of := range s() {
		up, at := 0.0, 0.0
		if of.Up {
			up = 1
		}
		if !of.LastErrorAt.IsZero() {
			at = float64(of.LastErrorAt.UnixMilli()) / 1000
		}
		for _, c := range []struct {
			name, help string
			kind       prometheus.ValueType
			value      float64
		}{
			{"weir:sink_sent_total", "Messages that a sink has taken.", prometheus.CounterValue, float64(of.Sent)},
			{"weir:sink_failed_total", "Attempts to write to a sink that failed.", prometheus.CounterValue, float64(of.Failed)},
			{"weir:sink_omitted_total", "Values that were larger than a sink takes, so that it got a note of their size.", prometheus.CounterValue, float64(of.Omitted)},
			{"weir:sink_snapshots_total", "Snapshots of all records that a sink began to get, because it was new or had missed too much.", prometheus.CounterValue, float64(of.Snapshots)},
			{"weir:sink_lag_entries", "Changes that a sink has not got.", prometheus.GaugeValue, float64(of.Lag)},
			{"weir:sink_lag_seconds", "Age of the first change that a sink has not got.", prometheus.GaugeValue, of.Age.Seconds()},
			{"weir:sink_up", "1 if the last attempt to write to a sink succeeded, or there was none.", prometheus.GaugeValue, up},
			{"weir:sink_last_error_timestamp_seconds", "When writing to a sink failed last, in seconds since 1970; 0: never.", prometheus.GaugeValue, at},
		} {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(c.name, c.help, []string{"feed", "sink"}, nil), c.kind, c.value, of.Feed, of.Sink)
		}
	}
}
