package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/backend"
	"weir/internal/invariants"
)

// place is where something is published.
type place struct {
	group         uint16
	state, copied bool
	hash          Hash
}

// changeIndex is what can be known of a cache from its changes alone.
type changeIndex struct {
	block  int
	there  map[place]bool
	chains map[string]Hash // by parent and tokens
	lost   int
}

func (x *changeIndex) chain(parent Hash, tokens []int32) string { return fmt.Sprint(parent, tokens) }

// apply takes changes in. Something is stored only if it is not there, and removed only if it is.
func (x *changeIndex) apply(c *Changes) error {
	if c.Lost {
		x.lost++
		clear(x.there)
	}
	for _, e := range c.List {
		p := place{e.Group, e.State, e.Copied, e.Hash}
		switch e.Kind {
		case Cleared:
			clear(x.there)
		case Stored:
			if x.there[p] {
				return fmt.Errorf("%+v was stored already", e)
			}
			x.there[p] = true
			if e.Tokens >= 0 {
				x.chains[x.chain(e.Parent, c.Tokens[e.Tokens:][:x.block])] = e.Hash
			} else if !e.State {
				return fmt.Errorf("%+v has no tokens", e)
			}
		case Removed:
			if !x.there[p] {
				return fmt.Errorf("%+v was removed, and was not there", e)
			}
			delete(x.there, p)
		}
	}
	c.Reset()
	return nil
}

// predict is how many of the tokens will be found in the pool.
func (x *changeIndex) predict(c *copying, salt Hash, tokens []int32) int {
	var hashes []Hash
	h := salt
	for n := x.block; n < len(tokens); n += x.block {
		next, ok := x.chains[x.chain(h, tokens[n-x.block:n])]
		if !ok {
			break
		}
		h, hashes = next, append(hashes, next)
	}
	for entries := len(hashes); entries > 0; entries-- {
		all := !c.m.Stateful() || x.there[place{group: uint16(c.m.Groups()), state: true, hash: hashes[entries-1]}]
		for g := range c.m.Groups() {
			for i := range entries {
				if i == entries-1 || c.dumb.sees(g, entries*x.block, i) {
					all = all && x.there[place{group: uint16(g), hash: hashes[i]}]
				}
			}
		}
		if all {
			return entries * x.block
		}
	}
	return 0
}

// TestChanges runs random sequences over small pools, with windows and states, evictions, blocks that are copied back and a
// cache that is emptied. An index that is made of the changes alone knows exactly what each prompt will find.
func TestChanges(t *testing.T) {
	hits := 0
	for round := range 40 {
		groups := [][]backend.KVGroup{{{}}, {{}, {Window: 5}}, {{Window: 3}, {}, {Chunk: 8}, {Window: 1}}, {{Window: 9}}}[round%4]
		states := 0
		if round%3 == 0 && round%4 != 3 {
			states = 8
		}
		c := &copying{Rand: rand.New(rand.NewPCG(uint64(round), 10)), m: New(14+len(groups)*12, 4, states, true, groups...),
			dumb: newReference(1, 4, groups), blocks: map[int32]string{}, states: map[int32]string{}, copies: map[Key]string{}, texts: map[string]bool{}}
		c.m.Copies()
		c.m.Watch(1000)
		x := &changeIndex{block: 4, there: map[place]bool{}, chains: map[string]Hash{}}
		for step := range 400 {
			err := c.operate()
			if err == nil {
				err = x.apply(c.m.Changes())
			}
			if err != nil {
				t.Fatalf("round %d, step %d: %v", round, step, err)
			}
			salt, tokens := Hash{byte(c.IntN(2))}, c.prompt()
			want := x.predict(c, salt, tokens)
			var q Table
			if got := c.m.Share(&q, tokens, salt, true); got != want {
				t.Fatalf("round %d, step %d: %d tokens are found, %d were predicted", round, step, got, want)
			}
			c.m.Release(&q)
			if hits += want; x.lost > 0 {
				t.Fatal("changes were lost")
			}
		}
	}
	if t.Logf("%d tokens were found", hits); hits < 20_000 {
		t.Error("there were too few for the test to mean anything")
	}
}

// TestChangesOfCopies: what is known of a block is said of its copy, too.
func TestChangesOfCopies(t *testing.T) {
	m := New(10, 4, 4, true)
	m.Copies()
	m.Watch(100)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	var q Table
	m.Share(&q, tokens, Hash{7}, true)
	m.Grow(&q, 8)
	m.Advance(&q, 0, 8, Overwrite, 0)
	m.Publish(&q, tokens, 8)
	m.Release(&q)
	m.Changes().Reset()
	for {
		c, ok := m.NextCopy()
		if !ok {
			break
		}
		m.CopyStored(c)
		m.Copied(c)
	}
	got := ""
	var last Hash
	for _, e := range m.Changes().List {
		got += fmt.Sprintf("%d %v %v first=%v %v\n", e.Kind, e.Copied, e.State, e.First, m.Changes().Tokens[e.Tokens:][:4])
		if e.First && e.Parent != (Hash{7}) || !e.State && !e.First && e.Parent != last {
			t.Errorf("%+v: another parent", e)
		}
		last = e.Hash
	}
	if want := "0 true true first=false [5 6 7 8]\n0 true false first=true [1 2 3 4]\n0 true false first=false [5 6 7 8]\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestChangesLost: what there is no room for is lost as a whole, and whoever asks is told.
func TestChangesLost(t *testing.T) {
	m := New(10, 4, 0, true)
	m.Watch(2)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	var q Table
	m.Share(&q, tokens, Hash{}, true)
	m.Grow(&q, 8)
	m.Publish(&q, tokens, 4)
	if c := m.Changes(); c.Lost || len(c.List) != 2 || c.List[0].Kind != Cleared || c.List[1].Kind != Stored {
		t.Errorf("%+v", c)
	}
	m.Publish(&q, tokens, 8)
	if c := m.Changes(); !c.Lost || len(c.List) != 0 {
		t.Errorf("%+v", c)
	}
	m.Changes().Reset()
	m.Release(&q)
	m.Forget()
	if c := m.Changes(); c.Lost || len(c.List) != 1 || c.List[0].Kind != Cleared {
		t.Errorf("%+v", c)
	}
	if invariants.Enabled {
		return // their checks allocate
	}
	if testing.AllocsPerRun(100, func() {
		m.Share(&q, tokens, Hash{}, true)
		m.Grow(&q, 8)
		m.Publish(&q, tokens, 8)
		m.Release(&q)
		m.Forget()
		m.Changes().Reset()
	}) != 0 {
		t.Error("changes allocate memory")
	}
}
