package trajectoryapi_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"weir/server/servertest"
)

// TestQueriesReserve: lists, single trajectories, searches, metrics and exports reserve what they
// hold. What can never fit into the memory of the server is 400, what does not fit now is 503
// after the wait, and everything is given back.
func TestQueriesReserve(t *testing.T) {
	const limit, free = 24 << 20, 4 << 20
	s, _ := servertest.NewTrajectories(t, func(o *servertest.Setup) {
		o.Config.Memory, o.Config.MaxBody, o.Config.MaxBodies, o.Config.MemoryWait = limit, 1<<20, 8<<20, time.Millisecond
	})
	s.LogGroups(t, servertest.AgentPath, servertest.Group(`{"messages_and_choices":[{"role":"user","content":"`+strings.Repeat("x", 1<<20)+`"}]}`))
	s.LogGroups(t, "/v1/preview/models/huge", servertest.Group(`{"messages_and_choices":[`+strings.Repeat(`{},`, 200_000)+`{}]}`))
	s.LogGroups(t, "/v1/preview/models/many", servertest.Group(strings.Repeat(`{"reward":1},`, 30_000)+`{}`))
	get := func(path string) (int, string) {
		t.Helper()
		resp := s.Do("GET", path, "", "Accept-Encoding: identity")
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, path := range []string{"/trajectories", "/export", "/export?format=trl", "/trajectories?q=nowhere"} {
		want := 400
		if path == "/export" { // turns are not taken apart
			want = 200
		}
		if status, text := get("/v1/preview/models/huge" + path); status != want || want == 400 && !strings.Contains(text, "more memory than the server has") {
			t.Errorf("%s, which never fits: %d %.200s", path, status, text)
		}
	}
	account := s.Instance.Transport().Memory()
	entries, _ := s.List(t, servertest.AgentPath+"/trajectories")
	for path, free := range map[string]int64{
		servertest.AgentPath + "/trajectories":                              free,
		servertest.AgentPath + "/trajectories?q=nowhere":                    free,
		servertest.AgentPath + "/trajectories/" + entries[0]["id"].(string): 3 << 20,
		servertest.AgentPath + "/export":                                    free,
		servertest.AgentPath + "/export?format=verl":                        free,
		"/v1/preview/models/many/metrics":                                   2 << 20,
	} {
		if status, text := get(path); status != 200 {
			t.Errorf("%s: %d %.200s", path, status, text)
		}
		servertest.WaitFor(t, "the memory of the query", func() bool { return s.Instance.Transport().Held().Memory == 0 })
		other, err := account.Reserve(t.Context(), limit-account.Stats().Used-free)
		if err != nil {
			t.Fatal(err)
		}
		if status, text := get(path); status != 503 {
			t.Errorf("%s without room: %d %.200s", path, status, text)
		}
		other.Release()
		servertest.WaitFor(t, "the memory of the query", func() bool { return s.Instance.Transport().Held().Memory == 0 })
	}
}
