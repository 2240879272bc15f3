package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/backend"
)

// copying is a manager with the memory of a device that is as simple as can be: what a block or a slot holds is the text
// of its group, salt and tokens. There are copies in a map.
type copying struct {
	*rand.Rand
	m      *Manager
	dumb   *reference // for what a group of layers sees
	blocks map[int32]string
	states map[int32]string
	copies map[Key]string
	texts  map[string]bool // of copies
	tables []*copiedTable
	gained int
}

type copiedTable struct {
	Table
	salt   byte
	tokens []int32
}

func stateText(salt byte, tokens []int32) string { return "state " + content(0, salt, tokens) }

// begin lets a sequence begin with a random prompt, of which there are few, and computes it. What it finds in the pool has to
// be what it would have computed.
func (c *copying) begin() error {
	t := &copiedTable{salt: byte(c.IntN(2)), tokens: c.prompt()}
	b := c.m.BlockTokens()
	n := c.m.Share(&t.Table, t.tokens, Hash{t.salt}, c.IntN(8) > 0)
	for i, id := range t.Blocks {
		g := i % c.m.Groups()
		if want := content(g, t.salt, t.tokens[:(i/c.m.Groups()+1)*b]); id != 0 && c.blocks[id] != want {
			return fmt.Errorf("block %d holds %s, and is found for %s", id, c.blocks[id], want)
		}
	}
	if c.m.Stateful() && n > 0 {
		if at := t.states.kept[0].slot; c.states[at] != stateText(t.salt, t.tokens[:n]) {
			return fmt.Errorf("state slot %d holds %s, and is found for %s", at, c.states[at], stateText(t.salt, t.tokens[:n]))
		}
	}
	if !c.m.Grow(&t.Table, len(t.tokens)) {
		c.m.Release(&t.Table)
		return nil
	}
	for n < len(t.tokens) {
		to := min(len(t.tokens), n+b-n%b)
		c.compute(t, n, to)
		n = to
	}
	c.m.Slide(&t.Table, n)
	c.tables = append(c.tables, t)
	return nil
}

// compute computes the tokens [from, to), which lie in one block.
func (c *copying) compute(t *copiedTable, from, to int) {
	b := c.m.BlockTokens()
	if c.m.Stateful() {
		keep := Overwrite
		if from%b == 0 && from > 0 {
			keep = Keep(c.IntN(4))
		}
		_, out := c.m.Advance(&t.Table, from, to, keep, 0)
		c.states[out] = stateText(t.salt, t.tokens[:to])
	}
	for g := range c.m.Groups() {
		c.blocks[t.Blocks[from/b*c.m.Groups()+g]] = content(g, t.salt, t.tokens[:to])
	}
	c.m.Publish(&t.Table, t.tokens, to)
	c.m.Settle(&t.Table, from, 0)
}

func (c *copying) prompt() []int32 {
	tokens := make([]int32, 1+c.IntN(30))
	for i := range tokens {
		tokens[i] = int32(i)
		if i > 20 || i == 9 {
			tokens[i] += int32(c.IntN(2))
		}
	}
	return tokens
}

// save makes some copies.
func (c *copying) save() error {
	for range c.IntN(12) {
		x, ok := c.m.NextCopy()
		if !ok {
			return nil
		}
		text := c.blocks[x.ID]
		if x.Key.State {
			text = c.states[x.ID]
		}
		if old, there := c.copies[x.Key]; text == "" || there && old != text {
			return fmt.Errorf("%v is a copy of %q, and was one of %q", x, text, old)
		}
		c.copies[x.Key] = text
		c.texts[text] = true
		c.m.Copied(x)
	}
	return nil
}

// longest is the longest prefix of tokens that is there, of all lengths the longest that can be had.
func (c *copying) longest(salt byte, tokens []int32, have func(text string) bool) int {
	b := c.m.BlockTokens()
	for n := (len(tokens) - 1) / b * b; n > 0; n -= b {
		all := !c.m.Stateful() || have(stateText(salt, tokens[:n]))
		for g := range c.m.Groups() {
			for i := range n / b {
				if i == n/b-1 || c.dumb.sees(g, n, i) {
					all = all && have(content(g, salt, tokens[:(i+1)*b]))
				}
			}
		}
		if all {
			return n
		}
	}
	return 0
}

// published are the texts of what can be found in the pool.
func (c *copying) published() map[string]bool {
	texts := map[string]bool{}
	for i, e := range c.m.blocks.entries {
		if e.published {
			texts[c.blocks[int32(i)]] = true
		}
	}
	for i, e := range c.m.states.entries {
		if e.published {
			texts[c.states[int32(i)]] = true
		}
	}
	return texts
}

// restore copies back what a random prompt can have of copies. It has to be as much as possible, and no more than needed.
func (c *copying) restore() error {
	salt, tokens := byte(c.IntN(2)), c.prompt()
	pool := c.published()
	inPool := c.longest(salt, tokens, func(text string) bool { return pool[text] })
	most := c.longest(salt, tokens, func(text string) bool { return pool[text] || c.texts[text] })
	missing, gain := c.m.Missing(nil, tokens, Hash{salt}, func(k Key) bool { return c.copies[k] != "" })
	if gain == 0 && most > inPool && c.m.Free() < 2*len(tokens) { // there may be too few free blocks
		return nil
	}
	if gain != most-inPool || (gain > 0) != (len(missing) > 0) {
		return fmt.Errorf("%d tokens are gained by %v, and could be from %d to %d", gain, missing, inPool, most)
	}
	room := !c.m.Stateful() || c.m.FreeStates() > 1
	for _, k := range missing {
		if c.copies[k] == "" || pool[c.copies[k]] {
			return fmt.Errorf("%v is %q, which is not there, or in the pool", k, c.copies[k])
		}
		id, ok := c.m.Restore(k)
		if !ok {
			if room {
				return fmt.Errorf("there is no room for %v", k)
			}
			continue
		}
		whole := c.IntN(10) > 0
		if text := c.blocks; k.State {
			c.states[id] = c.copies[k]
		} else {
			text[id] = c.copies[k]
		}
		c.m.Restored(k, id, whole)
		room = room && whole
	}
	if !room {
		return nil
	}
	c.gained += gain
	t := &copiedTable{}
	if n := c.m.Share(&t.Table, tokens, Hash{salt}, true); n != most {
		return fmt.Errorf("after all was copied back, %d tokens are found, not %d", n, most)
	}
	c.m.Release(&t.Table)
	return nil
}

func (c *copying) operate() error {
	switch c.IntN(8) {
	case 0, 1:
		return c.begin()
	case 2, 3:
		return c.save()
	case 4, 5:
		return c.restore()
	case 6:
		if c.IntN(20) == 0 {
			c.m.Forget()
		}
	}
	if len(c.tables) > 0 {
		i := c.IntN(len(c.tables))
		c.m.Release(&c.tables[i].Table)
		c.tables = append(c.tables[:i], c.tables[i+1:]...)
	}
	return nil
}

// TestCopies runs random sequences over a pool whose blocks and states are copied and copied back. Whatever a sequence finds
// is what it would have computed, and what is copied back is as much as there is, compared with a search of all lengths.
func TestCopies(t *testing.T) {
	gained, lost := 0, uint64(0)
	for round := range 60 {
		groups := [][]backend.KVGroup{{{}}, {{}, {Window: 5}}, {{Window: 3}, {}, {Chunk: 8}, {Window: 1}}, {{Window: 9}}}[round%4]
		states := 0
		if round%3 == 0 && round%4 != 3 {
			states = 8
		}
		c := &copying{Rand: rand.New(rand.NewPCG(uint64(round), 9)), m: New(14+len(groups)*12, 4, states, true, groups...),
			dumb: newReference(1, 4, groups), blocks: map[int32]string{}, states: map[int32]string{}, copies: map[Key]string{}, texts: map[string]bool{}}
		c.m.Copies()
		for step := range 600 {
			err := c.operate()
			if err == nil {
				var tables []*Table
				for _, q := range c.tables {
					tables = append(tables, &q.Table)
				}
				err = c.m.Check(tables...)
			}
			if err != nil {
				t.Fatalf("round %d, step %d: %v", round, step, err)
			}
		}
		gained += c.gained
		lost += c.m.Uncopied()
	}
	t.Logf("%d tokens were gained by copies, %d blocks and states handed out before they were copied", gained, lost)
	if gained < 10_000 || lost < 100 {
		t.Error("there were too few of these for the test to mean anything")
	}
}
