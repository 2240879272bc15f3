package trajectoryapi_test

import (
	"io"
	"strconv"
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

// TestRewritingReserves: a batch that is written again, because some of its trajectories are
// deleted or rewarded, reserves what that takes. What can never fit is 400 and what does not
// fit now is 503, and nothing is changed then.
func TestRewritingReserves(t *testing.T) {
	const limit = 24 << 20
	s, a := servertest.NewTrajectories(t, func(o *servertest.Setup) {
		o.Config.Memory, o.Config.MaxBody, o.Config.MaxBodies, o.Config.MemoryWait = limit, 1<<20, 8<<20, time.Millisecond
	})
	text := func(reward int) string {
		return `{"reward":` + strconv.Itoa(reward) + `,"recorded":true,"logs":["` + strings.Repeat("x", 1<<20) + `"]}`
	}
	receipt := s.LogGroups(t, servertest.AgentPath, servertest.Group(text(0), text(1)))
	account := s.Instance.Transport().Memory()
	remove := func() int {
		status, _, _ := s.Get("DELETE", servertest.AgentPath+"/trajectories?confirm=m&min_reward=1", "")
		return status
	}
	reward := func() int {
		status, _, _ := s.Get("POST", servertest.AgentPath+"/rewards", `{"rewards":[{"id":"`+receipt["id"].(string)+`/0/0","reward":0.5}]}`)
		return status
	}
	for what, change := range map[string]func() int{"rewarding": reward, "deleting": remove} {
		servertest.WaitFor(t, "the memory before", func() bool { return s.Instance.Transport().Held().Memory == 0 })
		blocks := a.Keys(t, 'B')
		// There is room to read a text of the batch, and none to write it.
		others, err := account.Reserve(t.Context(), limit-account.Stats().Used-(3<<20))
		if err != nil {
			t.Fatal(err)
		}
		if status := change(); status != 503 {
			t.Errorf("%s without room: %d", what, status)
		}
		others.Release()
		if n := a.Keys(t, 'B'); n != blocks {
			t.Errorf("%s without room: %d batches, want %d", what, n, blocks)
		}
	}
	if n := reward(); n != 200 {
		t.Errorf("rewarding: %d", n)
	}
	if n := remove(); n != 200 {
		t.Errorf("deleting: %d", n)
	}
	servertest.WaitFor(t, "the memory of the changes", func() bool { return s.Instance.Transport().Held().Memory == 0 })
}
