// Package server puts the HTTP server of weir together: its configuration, its routes, and
// the functions that are about the server itself.
//
//	s, err := server.New(config)
//	go s.Serve(listener)          // answers 503 until there is a model
//	err = s.SetModel(model)
//	err = s.Shutdown(ctx)         // lets requests in flight end
//
// # The packages below it
//
//	transport      connections, clients that leave, bodies, keys, projects, the
//	               preparation queue, and what a request leaves in log and metrics
//	failure        what the client, the log and the metrics are told of every error
//	openai         chat completions, completions, models, tokenize, render
//	routerapi      what routers ask for, and /generate
//	feedbackapi    the functions below /feedback/
//	liveapi        what the server is doing now, as a stream
//	trajectoryapi  the functions below /v1/preview/models
//	recording      completions as trajectories, and their rewards from feedback
//	ui             the page for browsers
//	servertest     a whole server over the simulated backend, for tests
//
// Each surface speaks one interface and knows nothing of the others. A surface finds its
// functions and answers a transport.Call; route.go here asks the surfaces by the beginning
// of a path. None of these packages imports this one, except servertest.
//
// # Here
//
// config.go has the configuration, server.go the wiring, route.go the table of routes,
// health.go the probes, page.go what browsers get at /, operate.go the metrics page, usage by project and what developers
// need, openapi.go the document of the interface. Tests that need all surfaces are here.
package server
