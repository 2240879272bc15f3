package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// TestScripts runs testdata: tables are named, tokens are written as
// base:length, which stands for base, base+1, ...
func TestScripts(t *testing.T) {
	testkit.Scripts(t, "testdata", func(t *testing.T) func(testkit.Command) string {
		var m *Manager
		tables := map[string]*Table{}
		tokens := map[string][]int32{}
		all := func() (out []*Table) {
			for _, x := range tables {
				out = append(out, x)
			}
			return out
		}
		return func(c testkit.Command) string {
			name := c.Str("t")
			tab := tables[name]
			if tab == nil && name != "" {
				tab = &Table{}
				tables[name] = tab
			}
			var out string
			switch c.Verb {
			case "pool":
				m = New(c.Int("blocks", 0), c.Int("block", 4), !c.Has("nocache"))
			case "share":
				var ids []int32
				for _, part := range strings.Split(c.Str("tokens"), "+") {
					var base, n int
					fmt.Sscanf(part, "%d:%d", &base, &n)
					for i := range n {
						ids = append(ids, int32(base+i))
					}
				}
				tokens[name] = ids
				n := m.Share(tab, ids, Hash{byte(c.Int("salt", 0))}, !c.Has("noread"))
				out = fmt.Sprintf("%s: hit %d tokens, blocks %v\n", name, n, tab.Blocks)
			case "grow":
				ok := m.Grow(tab, c.Int("to", len(tokens[name])))
				out = fmt.Sprintf("%s: %v, blocks %v, free %d\n", name, ok, tab.Blocks, m.Free())
			case "publish":
				m.Publish(tab, tokens[name], c.Int("computed", len(tokens[name])))
			case "fork":
				tokens[name] = tokens[c.Str("from")]
				n := m.Fork(tab, tables[c.Str("from")], c.Int("n", 0), Hash{byte(c.Int("salt", 0))})
				out = fmt.Sprintf("%s: %d tokens, blocks %v\n", name, n, tab.Blocks)
			case "release":
				m.Release(tab)
				delete(tables, name)
			case "forget":
				out = fmt.Sprintf("%v\n", m.Forget())
			case "order":
				var ids []BlockID
				for b := m.blocks[0].next; b != 0; b = m.blocks[b].next {
					ids = append(ids, b)
				}
				out = fmt.Sprintf("next to be handed out: %v\n", ids)
			default:
				t.Fatalf("unknown verb %q", c.Verb)
			}
			if err := m.Check(all()...); err != nil {
				t.Fatal(err)
			}
			return out
		}
	})
}

// twin is the obvious cache: a prefix is the salt and the token ids themselves,
// written out as a string; the free list is a slice.
type twin struct {
	block   int
	content map[BlockID]string // published content
	refs    map[BlockID]int
	free    []BlockID
}

type twinTable struct {
	blocks    []BlockID
	published int
	salt      byte
}

func key(salt byte, tokens []int32) string { return fmt.Sprint(salt, tokens) }

func (w *twin) share(salt byte, tokens []int32) *twinTable {
	t := &twinTable{salt: salt}
	for n := w.block; n < len(tokens); n += w.block {
		hit := BlockID(0)
		for b, c := range w.content {
			if c == key(salt, tokens[:n]) {
				hit = b
			}
		}
		if hit == 0 {
			break
		}
		w.take(t, hit)
	}
	t.published = len(t.blocks)
	return t
}

func (w *twin) take(t *twinTable, b BlockID) {
	if w.refs[b]++; w.refs[b] == 1 {
		w.free = slices.DeleteFunc(w.free, func(x BlockID) bool { return x == b })
	}
	t.blocks = append(t.blocks, b)
}

func (w *twin) grow(t *twinTable, n int) bool {
	need := (n+w.block-1)/w.block - len(t.blocks)
	if need > len(w.free) {
		return false
	}
	for range need {
		b := w.free[0]
		delete(w.content, b)
		w.take(t, b)
	}
	return true
}

func (w *twin) publish(t *twinTable, tokens []int32, computed int) {
	for ; (t.published+1)*w.block <= computed; t.published++ {
		k := key(t.salt, tokens[:(t.published+1)*w.block])
		known := false
		for _, c := range w.content {
			known = known || c == k
		}
		if !known {
			w.content[t.blocks[t.published]] = k
		}
	}
}

func (w *twin) release(t *twinTable) {
	for _, b := range slices.Backward(t.blocks) {
		if w.refs[b]--; w.refs[b] == 0 {
			if w.content[b] != "" {
				w.free = append(w.free, b)
			} else {
				w.free = slices.Insert(w.free, 0, b)
			}
		}
	}
}

// TestTwin runs random operations against the twin: every hit, every block id
// and every refusal must be the same.
func TestTwin(t *testing.T) {
	for seed := range uint64(60) {
		g := rand.New(rand.NewPCG(seed, 1))
		blocks, bt := 3+g.IntN(20), 1+g.IntN(4)
		m := New(blocks, bt, true)
		w := &twin{block: bt, content: map[BlockID]string{}, refs: map[BlockID]int{}}
		for b := 1; b < blocks; b++ {
			w.free = append(w.free, BlockID(b))
		}
		type seq struct {
			tab      *Table
			tw       *twinTable
			tokens   []int32
			computed int
		}
		var live []*seq
		for op := range 400 {
			var i int
			if len(live) > 0 {
				i = g.IntN(len(live))
			}
			switch r := g.IntN(10); {
			case r < 3 || len(live) == 0: // a new sequence; few distinct tokens, so that prefixes meet
				q := &seq{tab: &Table{}}
				salt := byte(g.IntN(2))
				for range 1 + g.IntN(12) {
					q.tokens = append(q.tokens, int32(g.IntN(2)))
				}
				q.computed = m.Share(q.tab, q.tokens, Hash{salt}, true)
				q.tw = w.share(salt, q.tokens)
				live = append(live, q)
			case r < 4: // a fork of what is computed
				src := live[i]
				n := g.IntN(src.computed + 1)
				q := &seq{tab: &Table{}, tokens: slices.Clone(src.tokens), tw: &twinTable{salt: src.tw.salt}}
				q.computed = m.Fork(q.tab, src.tab, n, Hash{src.tw.salt})
				for _, b := range src.tw.blocks[:n/bt] {
					w.take(q.tw, b)
				}
				live = append(live, q)
			case r < 8: // grow, compute, publish
				q := live[i]
				if g.IntN(3) == 0 {
					q.tokens = append(q.tokens, int32(g.IntN(2)))
				}
				n := q.computed + g.IntN(len(q.tokens)-q.computed+1)
				ok := m.Grow(q.tab, n)
				if ok != w.grow(q.tw, n) {
					t.Fatalf("seed %d op %d: grow to %d says %v", seed, op, n, ok)
				}
				if ok {
					q.computed = n
					m.Publish(q.tab, q.tokens, n)
					w.publish(q.tw, q.tokens, n)
				}
			default:
				q := live[i]
				m.Release(q.tab)
				w.release(q.tw)
				live = slices.Delete(live, i, i+1)
			}
			var tabs []*Table
			for _, q := range live {
				tabs = append(tabs, q.tab)
				if !slices.Equal(q.tab.Blocks, q.tw.blocks) {
					t.Fatalf("seed %d op %d: blocks %v, twin %v", seed, op, q.tab.Blocks, q.tw.blocks)
				}
			}
			if m.Free() != len(w.free) {
				t.Fatalf("seed %d op %d: %d free, twin %d", seed, op, m.Free(), len(w.free))
			}
			if err := m.Check(tabs...); err != nil {
				t.Fatalf("seed %d op %d: %v", seed, op, err)
			}
		}
	}
}

// TestCheckNoticesDamage breaks the books by hand: a check that cannot fail
// checks nothing.
func TestCheckNoticesDamage(t *testing.T) {
	damage := map[string]func(m *Manager, tab *Table){
		"lost block":       func(m *Manager, tab *Table) { tab.Blocks = tab.Blocks[1:] },
		"doubled block":    func(m *Manager, tab *Table) { tab.Blocks[1] = tab.Blocks[0] },
		"null block":       func(m *Manager, tab *Table) { tab.Blocks[0] = 0 },
		"free with a user": func(m *Manager, tab *Table) { m.link(tab.Blocks[0], 0) },
		"wrong count":      func(m *Manager, tab *Table) { m.free-- },
		"unfindable":       func(m *Manager, tab *Table) { clear(m.byHash) },
		"long chain":       func(m *Manager, tab *Table) { tab.chained = 9 },
	}
	for name, f := range damage {
		m := New(8, 2, true)
		var tab Table
		tokens := []int32{1, 2, 3, 4, 5}
		m.Share(&tab, tokens, Hash{}, true)
		m.Grow(&tab, 5)
		m.Publish(&tab, tokens, 5)
		if err := m.Check(&tab); err != nil {
			t.Fatal(err)
		}
		f(m, &tab)
		if m.Check(&tab) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func BenchmarkShareHit(b *testing.B) {
	m := New(1000, 16, true)
	tokens := make([]int32, 8193)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	var tab Table
	m.Share(&tab, tokens, Hash{}, true)
	m.Grow(&tab, len(tokens))
	m.Publish(&tab, tokens, len(tokens))
	b.ReportAllocs()
	for b.Loop() {
		var other Table
		if m.Share(&other, tokens, Hash{}, true) != 8192 {
			b.Fatal("no hit")
		}
		m.Release(&other)
	}
}

// TestC146ForgottenPrefixes: after Forget nothing is found; while a block is in
// use it changes nothing.
func TestC146ForgottenPrefixes(t *testing.T) {
	m := New(10, 4, true)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	look := func() (hit int, table *Table) {
		t.Helper()
		table = new(Table)
		hit = m.Share(table, tokens, Hash{}, true)
		if !m.Grow(table, len(tokens)) {
			t.Fatal("no room")
		}
		m.Publish(table, tokens, len(tokens))
		return hit, table
	}
	done := func(table *Table) {
		m.Release(table)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	_, first := look()
	done(first)
	hit, used := look()
	if hit != 8 {
		t.Fatalf("%d tokens found again, want 8", hit)
	}
	if m.Forget() {
		t.Error("forgot what is in use")
	}
	done(used)
	if hit, table := look(); hit != 8 {
		t.Errorf("%d tokens after a refused Forget", hit)
	} else {
		done(table)
	}
	if !m.Forget() {
		t.Error("refused although nothing is in use")
	}
	if hit, table := look(); hit != 0 {
		t.Errorf("%d tokens found after Forget", hit)
	} else {
		done(table)
	}
}
