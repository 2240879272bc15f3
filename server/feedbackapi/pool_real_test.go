package feedbackapi_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/auth"
	"weir/server/servertest"
	"weir/server/transport"
)

// poolServer is a server on a socket with one worker for queries, whose two keys are tenants
// of their own, and so many records with payloads of 900 KB.
func poolServer(t *testing.T, places, records int) *servertest.Server {
	t.Helper()
	keys, err := auth.New([]string{"one", "two"}, "")
	if err != nil {
		t.Fatal(err)
	}
	h := servertest.NewFeedback(t).Serve(t, func(s *servertest.Setup) {
		s.TCP, s.Config.Keys = true, keys
		s.Config.Queries.Workers, s.Config.Queries.Places, s.Config.Queries.Begun, s.Config.Queries.Rest = 1, places, 8, 0
	})
	item := servertest.Item("feedback_id", nil, "payload", map[string]any{"text": strings.Repeat("abcdefgh ", 100_000)})
	for range records {
		if status, answer, _ := h.Get("POST", "/feedback/create", item, as("one")); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	return h
}

func as(key string) string { return servertest.Basic("api", key) }

// begin sends a request of the first key on a connection of its own, and reads nothing.
func begin(t *testing.T, h *servertest.Server, path, body string) *servertest.Raw {
	t.Helper()
	c := h.Raw(t)
	c.Send(servertest.PostTo(path, len(body), as("one")) + body)
	return c
}

// open waits until so many queries have not ended.
func open(t *testing.T, h *servertest.Server, n int) {
	t.Helper()
	servertest.WaitFor(t, fmt.Sprint(n, " queries in the pool"), func() bool { return h.Instance.Transport().Turns().Open() == n })
}

// beginExport is begin for an export that is too large to be sent while its client does not read
// it. It waits until the export has begun: one that has not may lose its place to another tenant.
func beginExport(t *testing.T, h *servertest.Server) *servertest.Raw {
	t.Helper()
	c := begin(t, h, "/feedback/export", `{"project_id":"acme/support"}`)
	if line, err := c.R.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("%q, %v", line, err)
	}
	return c
}

// TestFullPool: when all places for queries are taken, here by exports whose clients do not
// read them, another one is refused as docs/interface/errors.md says, whoever sends it; other
// requests are answered; and when a client has left there is a place again.
func TestFullPool(t *testing.T) {
	h := poolServer(t, 2, 24)
	const all, count = `{"project_id":"acme/support"}`, `{"project_id":"acme/support","fields":["count(*)"]}`
	first, second := beginExport(t, h), beginExport(t, h)
	open(t, h, 2)
	for _, q := range []struct{ path, body string }{
		{"query", count}, {"export", all}, {"stats", `{"project_id":"acme/support","start":"2026-01-01"}`}, {"payload_schema", `{"project_id":"acme/support","start":"2026-01-01"}`},
	} {
		status, answer, header := h.Get("POST", "/feedback/"+q.path, q.body, as("two"))
		if status != 503 || answer != `{"reason":"Too many queries are waiting"}` || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %.200s %v", q.path, status, answer, header)
		}
	}
	if status, answer, _ := h.Get("POST", "/feedback/create", servertest.Item("feedback_id", nil), as("two")); status != 200 {
		t.Errorf("a write: %d %s", status, answer)
	}
	first.Close()
	open(t, h, 1)
	if status, answer, _ := h.Get("POST", "/feedback/query", count, as("two")); status != 200 || !strings.Contains(answer, "25") {
		t.Errorf("with a free place: %d %s", status, answer)
	}
	second.Close()
	open(t, h, 0)
}

// TestQueriesLeave: queries whose clients close their connections end, those that wait as
// well as one that computes: it would go over 6 GB of text.
func TestQueriesLeave(t *testing.T) {
	h := poolServer(t, 100, 24)
	nodes := make([]string, 300)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(`{"$contains":{"input":{"$getField":"payload.text"},"substr":{"$literal":"zz%d"},"case_insensitive":true}}`, i)
	}
	long := `{"project_id":"acme/support","query":{"$expr":{"$or":[` + strings.Join(nodes, ",") + `]}}}`
	var clients []*servertest.Raw
	for range 40 {
		clients = append(clients, begin(t, h, "/feedback/query", long))
	}
	open(t, h, 40)
	for _, c := range clients[1:] {
		c.Close()
	}
	open(t, h, 1)
	began := time.Now()
	clients[0].Close()
	open(t, h, 0)
	t.Logf("the last one ended after %v", time.Since(began))
}

// TestFairQueries: 200 queries of one key with large lists wait for the one worker; a query of
// another key that comes after them has its answer long before the last of them.
func TestFairQueries(t *testing.T) {
	h := poolServer(t, 500, 1)
	list := make([]string, 3_000)
	for i := range list {
		list[i] = fmt.Sprintf(`{"$literal":"value %d"}`, i)
	}
	many := `{"project_id":"acme/support","query":{"$expr":{"$in":[{"$getField":"creator"},[` + strings.Join(list, ",") + `]]}}}`
	release := make(chan struct{})
	var running sync.WaitGroup
	turns := h.Instance.Transport().Turns()
	running.Go(func() { // has the worker until all wait
		_ = turns.Do(context.Background(), "test", func(context.Context) error { <-release; return nil })
	})
	open(t, h, 1)
	const queries = 200
	var ended atomic.Int64
	ask := func(key, body string) {
		if status, answer, _ := h.Get("POST", "/feedback/query", body, as(key)); status != 200 {
			t.Errorf("%s: %d %.200s", key, status, answer)
		}
	}
	for range queries {
		running.Go(func() { ask("one", many); ended.Add(1) })
	}
	open(t, h, 1+queries)
	before := make(chan int64, 1)
	running.Go(func() {
		ask("two", `{"project_id":"acme/support","fields":["id"]}`)
		before <- ended.Load()
	})
	open(t, h, 2+queries)
	close(release)
	n := <-before
	t.Logf("%d of %d queries of the other key had ended", n, queries)
	if n > queries/2 {
		t.Errorf("%d of %d queries of another key were answered first", n, queries)
	}
	running.Wait()
	open(t, h, 0)
}

// TestLargeWritesTakeTurns: a large body of a function that writes is decoded in turns with the
// queries, so it waits while another one has the only worker. A small one does not wait.
func TestLargeWritesTakeTurns(t *testing.T) {
	h := poolServer(t, 100, 0)
	release := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { // has the worker until all wait
		_ = h.Instance.Transport().Turns().Do(context.Background(), "test", func(context.Context) error { <-release; return nil })
	})
	open(t, h, 1)
	item := func(size int) string {
		return servertest.Item("feedback_id", nil, "payload", map[string]any{"text": strings.Repeat("x", size)})
	}
	replaced := func(size int) string {
		return servertest.Item("payload", map[string]any{"text": strings.Repeat("x", size)})
	}
	ids := func(n int) string {
		return `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"}]}}` + strings.Repeat(" ", n) + `}`
	}
	bodies := []struct {
		path string
		body func(size int) string
	}{
		{"create", item}, {"replace", replaced}, {"batch/create", func(size int) string { return `{"batch":[` + item(size) + `]}` }}, {"purge", ids},
	}
	for i, b := range bodies {
		if status, answer, _ := h.Get("POST", "/feedback/"+b.path, b.body(100), as("one")); status != 200 {
			t.Errorf("%s, small: %d %.200s", b.path, status, answer)
		}
		running.Go(func() {
			if status, answer, _ := h.Get("POST", "/feedback/"+b.path, b.body(transport.LargeBody), as("one")); status != 200 {
				t.Errorf("%s, large: %d %.200s", b.path, status, answer)
			}
		})
		open(t, h, 2+i)
	}
	close(release)
	running.Wait()
	open(t, h, 0)
}
