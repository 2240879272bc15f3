package server

import (
	"maps"
	"slices"
	"strings"

	"weir/metrics"
	"weir/server/batchesapi"
	"weir/server/benchapi"
	"weir/server/failure"
	"weir/server/feedbackapi"
	"weir/server/responsesapi"
	"weir/server/trajectoryapi"
	"weir/server/transport"
)

// What the tests of this package need of its inside.

// InterfaceOf is the interface that a path belongs to.
func InterfaceOf(path string) failure.Interface { return interfaceOf(path) }

// Find returns the route of a path.
func (s *Server) Find(path string) (transport.Route, bool) { return router{s}.Find(path) }

// FixedPaths are the paths of routes without anything variable in them.
func FixedPaths() []string { return slices.Collect(maps.Keys(routes)) }

// AllRoutes are all routes, by path as the OpenAPI document writes it. Those that need no
// key are open; methods are separated by spaces.
func (s *Server) AllRoutes() map[string]transport.Route {
	all := map[string]transport.Route{"/v1/models/{id}": {Methods: "GET"}}
	for path, r := range routes {
		all[path] = transport.Route{Methods: strings.ReplaceAll(r.methods, ",", ""), Open: r.open}
	}
	for path, r := range feedbackapi.New(feedbackapi.Config{}).Routes() {
		all[path] = transport.Route{Methods: r.Methods}
	}
	for _, path := range []string{"", "/compact", "/input_tokens", "/{id}", "/{id}/cancel", "/{id}/input_items"} {
		_, methods, _ := s.responses.Find(responsesapi.Path + path)
		list := strings.Split(methods, ", ")
		slices.Sort(list)
		all[responsesapi.Path+path] = transport.Route{Methods: strings.Join(list, " ")}
	}
	for _, path := range []string{batchesapi.FilesPath, batchesapi.FilesPath + "/{id}", batchesapi.FilesPath + "/{id}/content",
		batchesapi.UploadsPath, batchesapi.UploadsPath + "/{id}/parts", batchesapi.UploadsPath + "/{id}/complete", batchesapi.UploadsPath + "/{id}/cancel",
		batchesapi.BatchesPath, batchesapi.BatchesPath + "/{id}", batchesapi.BatchesPath + "/{id}/cancel"} {
		_, methods, _ := s.batches.Find(path)
		list := strings.Split(methods, ", ")
		slices.Sort(list)
		all[path] = transport.Route{Methods: strings.Join(list, " ")}
	}
	for _, path := range []string{benchapi.Path, benchapi.Path + "/{id}", benchapi.Path + "/{id}/cancel"} {
		_, methods, _ := s.bench.Find(path)
		list := strings.Split(methods, ", ")
		slices.Sort(list)
		all[path] = transport.Route{Methods: strings.Join(list, " ")}
	}
	names := strings.NewReplacer("/models/*", "/models/{model_id}", "/logs/*", "/logs/{log_id}", "/trajectories/*/*/*", "/trajectories/{log_id}/{g}/{t}", "/training-jobs/*", "/training-jobs/{job_id}")
	for path, methods := range trajectoryapi.New(trajectoryapi.Config{}, s.http, nil, nil).Routes() {
		slices.Sort(methods)
		all[names.Replace(path)] = transport.Route{Methods: strings.Join(methods, " ")}
	}
	return all
}

// Counts are the server's metrics.
func (s *Server) Counts() *metrics.Metrics { return s.counts }
