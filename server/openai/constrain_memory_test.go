package openai_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/server/servertest"
)

// distinct returns a request with a schema that no other one has.
func distinct(i int) map[string]any {
	var b strings.Builder
	for k := range 24 {
		fmt.Fprintf(&b, `"field_%d_%d":{"type":"string","maxLength":%d},"choice_%d_%d":{"enum":["a%d","b%d"]},`, i, k, 3+(i+k)%200, i, k, i, k)
	}
	f := schemaFormat(`{"type":"object","properties":{` + b.String() + `"last":{"type":"string","pattern":"^[a-f0-9]{` + fmt.Sprint(1+i%50) + `}$"}}}`)
	return with(f, "max_tokens", 4)
}

// However many different schemas come, one after another and then all at once, they are
// answered or refused with 503, the heap stays within the limit and a margin, an ordinary
// request is answered beside them, and nothing is reserved for requests in the end.
func TestManySchemas(t *testing.T) {
	const limit, schemas = 64 << 20, 560
	h := newServer(t, func(s *servertest.Setup) { s.Config.Memory, s.Config.MemoryWait = limit, 50*time.Millisecond })
	h.Complete(t, distinct(schemas)) // prepares the vocabulary
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most := heap(), int64(0)
	account := h.Instance.Transport().Memory()
	for i := range schemas {
		if status, answer := h.Chat(distinct(i)); status != 200 {
			t.Fatalf("schema %d: %d %s", i, status, answer)
		}
		if i%80 == 0 {
			most = max(most, heap()-before)
		}
	}
	var all sync.WaitGroup
	for i := range schemas {
		all.Go(func() {
			if status, answer := h.Chat(distinct(i + schemas)); status != 200 && status != 503 {
				t.Errorf("schema %d: %d %s", i, status, answer)
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for busy := true; busy; {
		select {
		case <-ended:
			busy = false
		default:
			// Requests that are being prepared have places in the engine, of which other projects have their share.
			if status, answer := h.Chat(nil, "Compat-Project: team/neighbour"); status != 200 {
				t.Errorf("a neighbour: %d %s", status, answer)
			}
			most = max(most, heap()-before)
		}
	}
	if s := account.Stats(); s.Cached == 0 || s.Used > limit {
		t.Errorf("%+v", s)
	}
	if most > limit/4*5+(64<<20) { // the connections of both sides are in the same heap
		t.Errorf("the heap has grown by %d MiB", most>>20)
	}
	servertest.WaitFor(t, "the memory of the requests", func() bool { return h.Instance.Transport().Held().Memory == 0 })
	t.Logf("heap %d MiB, %+v", most>>20, account.Stats())
}

// A constraint that can never be compiled within the limit is 400 and says why; the next
// request is answered.
func TestConstraintThatNeverFits(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.Config.Memory = 48 << 20 })
	words := make([]string, 60_000)
	for i := range words {
		words[i] = fmt.Sprint("a long word", i)
	}
	status, answer := h.Chat(structured("choice", words))
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "more memory than the server has") {
		t.Error(f.Message)
	}
	if status, answer := h.Chat(with(structured("choice", []string{"a", "b"}), "max_tokens", 4)); status != 200 {
		t.Errorf("%d: %s", status, answer)
	}
}
