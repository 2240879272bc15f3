package server_test

import (
	"strings"
	"testing"

	"weir/server"
	"weir/server/failure"
	"weir/server/liveapi"
	"weir/server/servertest"
)

// TestEveryRouteWantsItsKey: of all routes only the open ones answer without a key. OPTIONS
// comes before keys, and pages of other origins may read every answer.
func TestEveryRouteWantsItsKey(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.APIKeys = []string{"secret"}
		s.Config.Functions = server.Functions{Dev: true, TokenizerInfo: true}
	})
	open := map[string]bool{"/health": true, "/health_generate": true, "/ping": true, "/ready": true, "/version": true, "/metrics": true, "/openapi.json": true, "/docs": true, "/": true, "/api/version": true}
	for _, path := range append(server.FixedPaths(), "/v1/models/tiny", "/v1/models/nobody", "/v1/nothing") {
		method := "POST"
		if r, ok := h.Instance.Find(path); ok {
			method, _, _ = strings.Cut(r.Methods, ",")
		}
		status, answer, header := h.Get(method, path, "")
		if open[path] != (status != 401) {
			t.Errorf("%s %s without a key: %d %s", method, path, status, answer)
		}
		want := `{"error":"Unauthorized"}`
		if server.InterfaceOf(path) == failure.Messages {
			want = `{"type":"error","error":{"type":"authentication_error","message":"Unauthorized"},"request_id":"` + header.Get("X-Request-Id") + `"}`
		}
		if !open[path] && answer != want {
			t.Errorf("%s: %s", path, answer)
		}
		if header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: no page may read the refusal", path)
		}
		for _, key := range []string{"Authorization: Bearer secret", "X-Api-Key: secret"} {
			if path == liveapi.Path {
				method = "HEAD" // its stream has no end
			}
			if status, answer, _ := h.Get(method, path, "", key); status == 401 {
				t.Errorf("%s with %s: %s", path, key, answer)
			}
		}
		if path == liveapi.Path {
			method = "GET"
		}
		status, _, header = h.Get("OPTIONS", path, "", "Origin: http://page", "Access-Control-Request-Method: "+method, "Access-Control-Request-Headers: authorization,x-stainless-os")
		if status != 204 || header.Get("Access-Control-Allow-Headers") != "authorization,x-stainless-os" || header.Get("Access-Control-Allow-Methods") != method || header.Get("Access-Control-Max-Age") != "86400" {
			t.Errorf("OPTIONS %s: %d %v", path, status, header)
		}
	}
}
