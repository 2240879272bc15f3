package feedbackapi_test

import (
	"strings"
	"testing"
	"time"

	"weir/server/servertest"
)

// TestImportsReserve: a batch of records reserves what it takes to decode and to write them. One
// that can never fit is 413, one that does not fit now is 503, and nothing is written.
func TestImportsReserve(t *testing.T) {
	const limit = 12 << 20
	s := newServer(t, func(o *servertest.Setup) {
		o.Config.Memory, o.Config.MaxBody, o.Config.MaxBodies, o.Config.MemoryWait = limit, 3<<20, 12<<20, time.Millisecond
	})
	batch := func(size int) string {
		item := servertest.Item("feedback_id", nil, "payload", map[string]any{"s": strings.Repeat("x", size)})
		return `{"batch":[` + item + "," + item + `]}`
	}
	if status, _, text := s.post("batch/create", batch(1000<<10)); status != 413 {
		t.Errorf("a batch that never fits: %d %s", status, text)
	}
	account := s.Instance.Transport().Memory()
	other, err := account.Reserve(t.Context(), limit-account.Stats().Used-(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if status, _, text := s.post("batch/create", batch(100<<10)); status != 503 {
		t.Errorf("a batch without room: %d %s", status, text)
	}
	other.Release()
	if status, _, text := s.post("batch/create", batch(100<<10)); status != 200 {
		t.Errorf("the batch, sent again: %d %s", status, text)
	}
	servertest.WaitFor(t, "the memory of the batches", func() bool { return s.Instance.Transport().Held().Memory == 0 })
}

// TestQueriesReserve: a query that can never fit into the memory of the server is 400, one
// that does not fit now is 503 after the wait, and what queries have reserved is given back
// (docs/interface/operations.md, section 6).
func TestQueriesReserve(t *testing.T) {
	const limit = 8 << 20
	s := newServer(t, func(o *servertest.Setup) {
		o.Config.Memory, o.Config.MaxBody, o.Config.MaxBodies, o.Config.MemoryWait = limit, 1<<20, 1<<20, time.Millisecond
	})
	var items []string
	for range 50 {
		items = append(items, servertest.Item("feedback_id", nil, "payload", map[string]any{"s": strings.Repeat("x", 300)}))
	}
	if status, _, text := s.post("batch/create", `{"batch":[`+strings.Join(items, ",")+`]}`); status != 200 {
		t.Fatal(text)
	}
	sorted := `{"project_id":"acme/support","sort_by":[{"field":"payload.s","direction":"asc"}]}`
	wide := `{"project_id":"acme/support","query":{"$expr":{"$in":[{"$getField":"payload.s"},[` + strings.Repeat(`{"$literal":"abc"},`, 9999) + `{"$literal":"x"}]]}}}`
	if status, _, text := s.post("query", wide+strings.Repeat(" ", 200<<10)); status != 400 || !strings.Contains(text, "more memory than the server has") {
		t.Errorf("a query that never fits: %d %s", status, text)
	}
	if status, _, text := s.post("query", sorted); status != 200 {
		t.Errorf("a query that sorts: %d %s", status, text)
	}
	account := s.Instance.Transport().Memory()
	other, err := account.Reserve(t.Context(), limit-account.Stats().Used-(800<<10))
	if err != nil {
		t.Fatal(err)
	}
	if status, _, text := s.post("query", sorted); status != 503 {
		t.Errorf("a query without room for its rows: %d %s", status, text)
	}
	other.Release()
	if status, _, text := s.post("query", sorted); status != 200 {
		t.Errorf("the query, sent again: %d %s", status, text)
	}
	servertest.WaitFor(t, "the memory of the queries", func() bool { return s.Instance.Transport().Held().Memory == 0 })
}
