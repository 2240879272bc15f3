package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"weir/backend/sim"
	"weir/engine"
	"weir/kvcache"
)

// prefixIndex is what can be known of the prefix cache from its changes.
type prefixIndex struct {
	sync.Mutex
	there   map[kvcache.Hash]bool
	chains  map[string]kvcache.Hash // by parent and tokens
	cleared int
}

// take takes changes in.
func (x *prefixIndex) take(c *kvcache.Changes) {
	x.Lock()
	defer x.Unlock()
	for _, e := range c.List {
		switch e.Kind {
		case kvcache.Cleared:
			clear(x.there)
			x.cleared++
		case kvcache.Removed:
			delete(x.there, e.Hash)
		case kvcache.Stored:
			x.there[e.Hash] = true
			x.chains[fmt.Sprint(e.Parent, c.Tokens[e.Tokens:][:4])] = e.Hash
		}
	}
}

// predict is how many of the tokens will be found.
func (x *prefixIndex) predict(tokens []int32) (n int) {
	x.Lock()
	defer x.Unlock()
	var h kvcache.Hash
	for ; n+4 < len(tokens); n += 4 {
		next, ok := x.chains[fmt.Sprint(h, tokens[n:n+4])]
		if !ok || !x.there[next] {
			break
		}
		h = next
	}
	return n
}

// nextPrompt is a random prompt, which may begin like one of the sequences that have ended.
func nextPrompt(g *rand.Rand, ended [][]int32) (tokens []int32) {
	if len(ended) > 0 && g.IntN(3) > 0 {
		old := ended[max(0, len(ended)-1-g.IntN(3))] // a change that comes late is missed
		tokens = slices.Clone(old[:g.IntN(len(old))])
	}
	for range 1 + g.IntN(30) {
		tokens = append(tokens, int32(1+g.IntN(simVocab-1)))
	}
	return tokens[:min(len(tokens), simLen-20)]
}

// TestChanges: before a reader sees that a request has ended, all that has changed in the prefix cache was handed over, so that an
// index made of that predicts what the next request finds. That the cache begins or was emptied are changes, too.
func TestChanges(t *testing.T) {
	x := &prefixIndex{there: map[kvcache.Hash]bool{}, chains: map[string]kvcache.Hash{}}
	g := seeded(t)
	for _, depth := range []int{1, 2} {
		var ended [][]int32
		hits := 0
		e := start(t, engine.Config{Caching: true, MaxLive: 10, Changes: x.take, MostChanges: 1000}, oracle(simSpec(60, 4, 30, 4, depth)))
		for i := range 150 {
			r := request(1, 1+g.IntN(12))
			r.Tokens = nextPrompt(g, ended)
			want, before := x.predict(r.Tokens), e.Stats().PrefixHits
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
	if x.cleared != 2*(1+3) {
		t.Errorf("the cache was cleared %d times", x.cleared)
	}
}

// TestChangesOfLostBackend: when the backend has failed and was opened again, the cache is another one. That is a change, and what
// is found afterwards is announced again.
func TestChangesOfLostBackend(t *testing.T) {
	x := &prefixIndex{there: map[kvcache.Hash]bool{}, chains: map[string]kvcache.Hash{}}
	fail := false // set between two requests
	hook := func(c sim.Call, _ int) error {
		if c != sim.End || !fail {
			return nil
		}
		fail = false
		return errors.New("it is lost")
	}
	e := start(t, engine.Config{Caching: true, MaxLive: 10, Changes: x.take, MostChanges: 1000}, configuredOracle(simSpec(60, 4, 30, 4, 1), sim.OracleConfig{Hook: hook}))
	e.mustRun(t, request(20, 1))
	if n := x.predict(prompt(21)); n != 20 || x.cleared != 1 {
		t.Errorf("%d tokens are predicted, cleared %d times", n, x.cleared)
	}
	fail = true
	if res := e.run(t, request(4, 1)); res.err == nil {
		t.Error("the step did not fail")
	}
	e.mustRun(t, request(9, 1))
	if n := x.predict(prompt(21)); n != 8 || x.cleared != 2 {
		t.Errorf("%d tokens are predicted, cleared %d times", n, x.cleared)
	}
	e.mustStop(t)
}

// TestChangesComeFirst: when a reader sees a token, the changes of the step that gave it were handed over. No step ends before the
// reader has looked, so that a change which comes with a later one is missed.
func TestChangesComeFirst(t *testing.T) {
	x := &prefixIndex{there: map[kvcache.Hash]bool{}, chains: map[string]kvcache.Hash{}}
	looked := make(chan struct{}, 1)
	hook := func(c sim.Call, _ int) error {
		if c == sim.End {
			<-looked
		}
		return nil
	}
	e := start(t, engine.Config{Caching: true, MaxLive: 10, Changes: x.take, MostChanges: 1000}, configuredOracle(simSpec(60, 4, 30, 4, 1), sim.OracleConfig{Hook: hook}))
	looked <- struct{}{}
	r := request(6, 30)
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	tokens := slices.Clone(r.Tokens)
	var events engine.Events
	for len(tokens) < len(r.Tokens)+30 {
		if err := s.Next(t.Context(), &events); err != nil {
			t.Fatal(err)
		}
		for _, ev := range events.Items {
			tokens = append(tokens, ev.Token)
		}
		if got, want := x.predict(tokens), (len(tokens)-1)/4*4; got != want { // the last token is not computed yet
			t.Fatalf("%d tokens are there, of which %d would be found; by the changes it is %d", len(tokens), want, got)
		}
		looked <- struct{}{}
	}
	e.mustStop(t)
}
