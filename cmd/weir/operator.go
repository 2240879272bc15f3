package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"weir/metrics"
)

// startOperator serves the operator's listener (--admin-listen) and returns a function that ends that. It
// has no keys: a Unix socket is for its owner, and a loopback port for those who have an account on this
// machine. The profiles of pprof show what requests are about, so that no other port has them.
func (s *service) startOperator(ln net.Listener) (end func()) {
	if ln == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/steps", s.answerSteps)
	mux.HandleFunc("GET /metrics", s.answerMetrics)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answerState(w, s.http.Alive()) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { answerState(w, s.http.Ready()) })
	mux.HandleFunc("GET /drain", func(w http.ResponseWriter, _ *http.Request) { s.answerDrain(w, nil) })
	mux.HandleFunc("POST /drain", s.startDrain)
	mux.HandleFunc("DELETE /drain", func(w http.ResponseWriter, _ *http.Request) { s.answerDrain(w, s.undrain()) })
	server := &http.Server{Handler: withoutPages(mux), ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // it ends when the server is closed
	}()
	s.log.Info("the operator's listener is open", "address", ln.Addr().Network()+":"+ln.Addr().String())
	return func() {
		_ = server.Close()
		<-ended
	}
}

// withoutPages refuses what web pages send, whose programs reach loopback ports too: requests with Origin
// or Sec-Fetch-Site, and those that name another host, whose name may have been made to lead here.
func withoutPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		ip := net.ParseIP(host)
		local := r.Host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
			local = true
		}
		if !local || r.Header.Get("Origin") != "" || site != "" && site != "none" && site != "same-origin" {
			http.Error(w, "Web pages may not call this address.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *service) answerSteps(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	_ = writeSteps(w, s.engine.engine.Steps(nil)) // the client has left
}

func (s *service) answerMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", metrics.ContentType)
	_ = s.http.WriteMetrics(w) // the client has left
}

func answerState(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// startDrain answers POST /drain.
func (s *service) startDrain(w http.ResponseWriter, r *http.Request) {
	exit := r.URL.Query().Get("exit")
	if exit != "" && exit != "true" && exit != "false" {
		http.Error(w, "exit must be true or false.", http.StatusBadRequest)
		return
	}
	err := s.drain()
	if err == nil && exit == "true" {
		s.drains.exit()
	}
	s.answerDrain(w, err)
}

// answerDrain says how far draining is.
func (s *service) answerDrain(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	t := s.http.Transport()
	state := "no"
	switch {
	case t.Draining():
		state = "refusing"
	case t.Leaving():
		state = "leaving"
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"draining":%q,"requests":%d}`, state, t.InFlight())
}
