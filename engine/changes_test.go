package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"weir/engine"
	"weir/kvcache"
)

// TestChanges: before a reader sees that a request has ended, all that has changed in the prefix cache was handed over, so that an
// index made of that predicts what the next request finds. That the cache begins or was emptied are changes, too.
func TestChanges(t *testing.T) {
	var mu sync.Mutex
	there, chains := map[kvcache.Hash]bool{}, map[string]kvcache.Hash{}
	cleared := 0
	take := func(c *kvcache.Changes) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range c.List {
			switch e.Kind {
			case kvcache.Cleared:
				clear(there)
				cleared++
			case kvcache.Removed:
				delete(there, e.Hash)
			case kvcache.Stored:
				there[e.Hash] = true
				chains[fmt.Sprint(e.Parent, c.Tokens[e.Tokens:][:4])] = e.Hash
			}
		}
	}
	predict := func(tokens []int32) (n int) {
		mu.Lock()
		defer mu.Unlock()
		var h kvcache.Hash
		for ; n+4 < len(tokens); n += 4 {
			next, ok := chains[fmt.Sprint(h, tokens[n:n+4])]
			if !ok || !there[next] {
				break
			}
			h = next
		}
		return n
	}
	g := seeded(t)
	for _, depth := range []int{1, 2} {
		var ended [][]int32
		hits := 0
		e := start(t, engine.Config{Caching: true, MaxLive: 10, Changes: take, MostChanges: 1000}, oracle(simSpec(60, 4, 30, 4, depth)))
		for i := range 150 {
			r := request(1, 1+g.IntN(12))
			r.Tokens = nil
			if len(ended) > 0 && g.IntN(3) > 0 {
				old := ended[g.IntN(len(ended))]
				r.Tokens = slices.Clone(old[:g.IntN(len(old))])
			}
			for range 1 + g.IntN(30) {
				r.Tokens = append(r.Tokens, int32(1+g.IntN(simVocab-1)))
			}
			r.Tokens = r.Tokens[:min(len(r.Tokens), simLen-20)]
			want, before := predict(r.Tokens), e.Stats().PrefixHits
			res := e.mustRun(t, r)
			if got := e.Stats().PrefixHits - before; got != uint64(want) {
				t.Fatalf("request %d: %d tokens were found, %d were predicted", i, got, want)
			}
			hits += want
			ended = append(ended, append(slices.Clone(r.Tokens), res.choices[0].tokens...))
			if i%50 == 49 {
				if err := e.ForgetPrefixes(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				e.mustRun(t, request(1, 1)) // the change is handed over by now
			}
		}
		e.mustStop(t)
		if hits < 100 {
			t.Errorf("%d hits are too few to mean anything", hits)
		}
	}
	if cleared != 2*(1+3) {
		t.Errorf("the cache was cleared %d times", cleared)
	}
}
