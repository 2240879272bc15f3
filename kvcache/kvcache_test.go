package kvcache

import "testing"

// TestCheckNoticesDamage breaks the books by hand and expects Check to say so.
func TestCheckNoticesDamage(t *testing.T) {
	damage := map[string]func(m *Manager, table *Table){
		"a block is missing from its table":   func(m *Manager, table *Table) { table.Blocks = table.Blocks[1:] },
		"a table lists a block twice":         func(m *Manager, table *Table) { table.Blocks[1] = table.Blocks[0] },
		"a table lists the null block":        func(m *Manager, table *Table) { table.Blocks[0] = 0 },
		"a used block is on the free list":    func(m *Manager, table *Table) { m.blocks.link(table.Blocks[0], 0) },
		"the number of free blocks is wrong":  func(m *Manager, table *Table) { m.blocks.free-- },
		"published blocks are not in the map": func(m *Manager, table *Table) { clear(m.blocks.byHash) },
		"a chain covers more than its table":  func(m *Manager, table *Table) { table.chained = 9 },
		"a state slot is lost":                func(m *Manager, table *Table) { table.states.own = 0 },
		"a table has state slot 0":            func(m *Manager, table *Table) { table.states.kept[0].slot = 0 },
		"a kept state is overwritten":         func(m *Manager, table *Table) { table.states.kept[0].slot = table.states.own },
		"a state that is written can be found": func(m *Manager, table *Table) {
			m.states.publish(table.states.own, Hash{1})
		},
		"the number of free state slots is wrong": func(m *Manager, table *Table) { m.states.free++ },
	}
	for name, breakBooks := range damage {
		m := New(8, 2, 5, true)
		var table Table
		tokens := []int32{1, 2, 3, 4, 5}
		m.Share(&table, tokens, Hash{}, true)
		m.Grow(&table, 5)
		m.Advance(&table, 0, 4, Overwrite, 0)
		m.Advance(&table, 4, 5, Checkpoint, 0)
		m.Publish(&table, tokens, 5)
		if err := m.Check(&table); err != nil {
			t.Fatal(err)
		}
		breakBooks(m, &table)
		if m.Check(&table) == nil {
			t.Errorf("%s: Check does not notice", name)
		}
	}
}

// TestC146ForgottenPrefixes: Forget is refused and changes nothing while a block
// is in use; afterwards no prefix is found.
func TestC146ForgottenPrefixes(t *testing.T) {
	m := New(10, 4, 0, true)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	// open computes the tokens through a new table; wantHit of them should be found.
	open := func(wantHit int) *Table {
		t.Helper()
		table := new(Table)
		if hit := m.Share(table, tokens, Hash{}, true); hit != wantHit {
			t.Errorf("%d tokens found, want %d", hit, wantHit)
		}
		if !m.Grow(table, len(tokens)) {
			t.Fatal("the pool has no room")
		}
		m.Publish(table, tokens, len(tokens))
		return table
	}
	release := func(table *Table) {
		t.Helper()
		m.Release(table)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	release(open(0))
	used := open(8)
	if m.Forget() {
		t.Error("Forget succeeds while blocks are in use")
	}
	release(used)
	release(open(8))
	if !m.Forget() {
		t.Error("Forget is refused although no block is in use")
	}
	release(open(0))
}

// TestForgottenStates: Forget is refused while a state slot is in use, and forgets states, too.
func TestForgottenStates(t *testing.T) {
	m := New(10, 4, 4, true)
	tokens := []int32{1, 2, 3, 4, 5, 6}
	compute := func(keep Keep) (hit int) {
		var table Table
		hit = m.Share(&table, tokens, Hash{}, true)
		if !m.Grow(&table, len(tokens)) {
			t.Fatal("the pool has no room")
		}
		if hit == 0 {
			m.Advance(&table, 0, 4, Overwrite, 0)
		}
		m.Publish(&table, tokens, 4)
		m.Advance(&table, 4, 6, keep, 0)
		m.Release(&table)
		return hit
	}
	if first, second := compute(Checkpoint), compute(Overwrite); first != 0 || second != 4 {
		t.Fatalf("%d and %d tokens are found", first, second)
	}
	var table Table
	m.Grow(&table, 0)
	if m.Forget() {
		t.Error("Forget succeeds while a state slot is in use")
	}
	m.Release(&table)
	if !m.Forget() {
		t.Error("Forget is refused although nothing is in use")
	}
	if first, second := compute(Overwrite), compute(Overwrite); first != 0 || second != 0 {
		t.Errorf("%d and %d tokens are found afterwards", first, second)
	}
}

// BenchmarkShareHit finds a prompt of 8192 cached tokens and releases it.
func BenchmarkShareHit(b *testing.B) {
	m := New(1000, 16, 0, true)
	tokens := make([]int32, 8193)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	var table Table
	m.Share(&table, tokens, Hash{}, true)
	m.Grow(&table, len(tokens))
	m.Publish(&table, tokens, len(tokens))
	b.ReportAllocs()
	for b.Loop() {
		var other Table
		if m.Share(&other, tokens, Hash{}, true) != 8192 {
			b.Fatal("the prefix is not found")
		}
		m.Release(&other)
	}
}
