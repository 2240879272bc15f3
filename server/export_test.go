package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"weir/metrics"
	"weir/server/failure"
	"weir/server/transport"
)

// What the tests of this package need of its inside.

// Paths in front of the two interfaces of records.
const (
	FeedbackPath  = feedbackPath
	PreviewModels = previewModels
)

// InterfaceOf is the interface that a path belongs to.
func InterfaceOf(path string) failure.Interface { return interfaceOf(path) }

// Find returns the route of a path.
func (s *Server) Find(path string) (transport.Route, bool) { return router{s}.Find(path) }

// FixedPaths are the paths of routes without anything variable in them.
func FixedPaths() []string { return slices.Collect(maps.Keys(routes)) }

// AllRoutes are all routes, by path as the OpenAPI document writes it. Those that need no
// key are open; methods are separated by spaces.
func AllRoutes() map[string]transport.Route {
	all := map[string]transport.Route{"/v1/models/{id}": {Methods: "GET"}, feedbackPath + "{id}": {Methods: "GET"}, previewModels: {Methods: "GET"}}
	for path, r := range routes {
		all[path] = transport.Route{Methods: strings.ReplaceAll(r.methods, ",", ""), Open: r.open}
	}
	for name, r := range feedbackRoutes {
		all[feedbackPath+name] = transport.Route{Methods: r.methods}
	}
	names := map[string]string{"/logs/*": "/logs/{log_id}", "/trajectories/*/*/*": "/trajectories/{log_id}/{g}/{t}"}
	for _, p := range previews {
		path := previewModels + "/{model_id}" + cmp.Or(names[p.path], p.path)
		methods := append(strings.Fields(all[path].Methods), p.method)
		slices.Sort(methods)
		all[path] = transport.Route{Methods: strings.Join(methods, " ")}
	}
	return all
}

// Counts are the server's metrics.
func (s *Server) Counts() *metrics.Metrics { return s.counts }

// SetRewards sets the rewards from feedback that have come.
func (s *Server) SetRewards(ctx context.Context) error { return s.linker.Pass(ctx) }

// Uploads is how many log requests are being read.
func (s *Server) Uploads() int64 { return s.uploads.Load() }
