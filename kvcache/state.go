package kvcache

import (
	"fmt"

	"weir/internal/invariants"
)

// StateID names a state slot of the device. Slot 0 is never handed out: it holds the state of an
// empty sequence.
type StateID = int32

// Keep says what a state is kept for when its sequence goes on.
type Keep uint8

const (
	Overwrite  Keep = iota // nothing: the next run of tokens may overwrite it
	Return                 // the sequence may go back to it, see Rewind
	Checkpoint             // other sequences may begin with it
	Rolling                // the same, until the sequence has a newer one to offer
)

// tableStates has the states of one sequence. With a prompt of 22 tokens in blocks of 4, of which
// 21 are computed, it may be
//
//	slot   6    9      2
//	after  8   20     21 tokens
//	       |    kept   own
//
// where slot 6 was published and is not held any more, slot 9 is held as long as a step that
// reads it is in flight, and the next run of tokens goes from slot 2 to slot 2.
type tableStates struct {
	own  StateID // the slot that the next run of tokens writes to; no other table lists it. 0: none yet
	at   int     // number of tokens after which own has the state; -1: it has none
	kept []keptState
	roll publishedState // the newest Rolling one
	from publishedState // the one that the sequence began with

	branch int // see Table.Branch
}

// keptState is an older state of a sequence, in a slot that is not written any more.
type keptState struct {
	slot StateID
	at   int // number of tokens that it comes after; -1: nobody needs it once the steps in flight have ended
	keep Keep
}

// publishedState is a state that was published under a hash. The table holds no reference to it, so
// that it may have been evicted: then the slot is not published under this hash any more.
type publishedState struct {
	slot StateID
	hash Hash
}

// Stateful reports whether sequences have a recurrent state.
func (m *Manager) Stateful() bool { return len(m.states.entries) > 0 }

// FreeStates is the number of state slots that can still be handed out, including published ones
// that no table holds.
func (m *Manager) FreeStates() int { return m.states.free }

// TotalStates is the number of state slots that can be handed out when none is in use.
func (m *Manager) TotalStates() int { return m.states.total() }

// KeptStates is the number of free state slots that are found at the end of a prefix until they are handed out.
func (m *Manager) KeptStates() int { return m.states.kept }

// States is the number of state slots that t holds.
func (t *Table) States() int {
	if t.states.own == 0 {
		return len(t.states.kept)
	}
	return len(t.states.kept) + 1
}

// Branch is the number of tokens for which Share found blocks, but no state at their end, or 0. Somebody else's
// tokens begin with the same ones, so that a state that is kept there may be of use to a third one.
func (t *Table) Branch() int { return t.states.branch }

// startFrom lets the empty table t go on from the state of another one.
func (m *Manager) startFrom(t *Table, state StateID) {
	m.states.ref(state)
	m.begun[state]++
	t.states.from = publishedState{state, m.states.entries[state].hash}
	t.states.kept = append(t.states.kept, keptState{slot: state, at: m.Holds(t)})
}

// forkAt returns the newest state within the first n tokens that is never overwritten again, and
// after how many blocks it comes.
func (s *tableStates) forkAt(n, blockTokens int) (blocks int, state StateID) {
	for _, k := range s.kept {
		if k.at <= n && k.at%blockTokens == 0 && k.at/blockTokens > blocks {
			blocks, state = k.at/blockTokens, k.slot
		}
	}
	return blocks, state
}

// ownState makes sure that t has a slot to write to. If none is free, it may still be that t goes
// on from a state that nobody else goes on from: then it gets that one.
func (m *Manager) ownState(t *Table) bool {
	s := &t.states
	switch {
	case s.own != 0:
	case m.states.free > 0:
		s.own, s.at = m.states.take(), -1
	case len(s.kept) == 1 && m.states.entries[s.kept[0].slot].refs == 1:
		s.own, s.at = s.kept[0].slot, s.kept[0].at
		m.states.unpublish(s.own)
		s.kept = s.kept[:0]
	default:
		return false
	}
	return true
}

// Advance plans a run of the tokens [from, to) of the sequence with table t, which has a slot of its
// own (Grow): the run goes on from the state in slot in, which comes after the first from tokens,
// and leaves its state in slot out. With keep, the state in slot in is not overwritten, if more than
// reserve slots are free. Where it is to be found by others, from has to be the end of a block.
func (m *Manager) Advance(t *Table, from, to int, keep Keep, reserve int) (in, out StateID) {
	s := &t.states
	invariants.Check(s.own != 0, "kvcache: a sequence goes on without a state slot")
	if s.at != from || from == 0 {
		in = s.find(from)
	} else if in = s.own; keep != Overwrite && m.states.free > reserve {
		s.kept = append(s.kept, keptState{s.own, from, keep})
		s.own = m.states.take()
		if t.rooted && t.chained*m.blockTokens == from && m.Caching() {
			m.publishKept(t, from)
		}
	}
	s.at = to
	return in, s.own
}

// find is the slot of the kept state after the first n tokens.
func (s *tableStates) find(n int) StateID {
	if n == 0 {
		return 0
	}
	for _, k := range s.kept {
		if k.at == n {
			return k.slot
		}
	}
	invariants.Check(false, "kvcache: the state after %d tokens is not there", n)
	return 0
}

// publishKept publishes what was kept after the first n tokens, which t.chain covers, to be found.
func (m *Manager) publishKept(t *Table, n int) {
	for i := range t.states.kept {
		if k := &t.states.kept[i]; k.at == n && k.keep >= Checkpoint {
			m.publishState(t, k.slot, k.keep)
		}
	}
}

// publishState publishes a state under t.chain. A rolling one takes the place of the one before it.
// A checkpoint comes after that with which the sequence began: if that is the sequence's alone, as the
// one of the turn before is in a chat, it is evicted before all others.
func (m *Manager) publishState(t *Table, slot StateID, keep Keep) {
	published := m.states.publish(slot, t.chain)
	if published {
		m.begun[slot] = 0
		m.storedState(t.chain, false)
	}
	if keep == Checkpoint {
		if f := t.states.from; m.unused(f) && m.begun[f.slot] <= 1 {
			m.states.unlink(f.slot)
			m.states.link(f.slot, m.states.lastUnpublished())
		}
		return
	}
	if r := t.states.roll; m.unused(r) {
		m.states.unpublish(r.slot)
		m.states.unlink(r.slot)
		m.states.link(r.slot, 0)
	}
	t.states.roll = publishedState{}
	if published {
		t.states.roll = publishedState{slot, t.chain}
	}
}

// unused reports whether p is still published, and no table has it.
func (m *Manager) unused(p publishedState) bool {
	e := &m.states.entries[p.slot]
	return p.slot != 0 && e.published && e.hash == p.hash && e.refs == 0
}

// Settle lets go of the states that t keeps after computed tokens or less, because all steps that
// go on from there have ended. The one after hold tokens is held nevertheless.
func (m *Manager) Settle(t *Table, computed, hold int) {
	s := &t.states
	n := 0
	for _, k := range s.kept {
		if k.at <= computed && k.at != hold {
			m.states.unref(k.slot)
			continue
		}
		s.kept[n] = k
		n++
	}
	s.kept = s.kept[:n]
}

// Rewind makes the state after the first n tokens the newest one of t, which its next run of tokens
// goes on from. It reports false, and does nothing, if there is none any more. Steps in flight
// may still compute later ones, and have to end before t goes on.
func (m *Manager) Rewind(t *Table, n int) bool {
	s := &t.states
	found := n == 0
	for _, k := range s.kept {
		found = found || k.at == n
	}
	if !found {
		return false
	}
	for i := range s.kept {
		if k := &s.kept[i]; k.at > n {
			k.at, k.keep = -1, Overwrite
		}
	}
	s.at = -1
	return true
}

// releaseStates gives the states of t back. The last one is published if it comes after whole
// blocks that are: the steps that computed it have ended then.
func (m *Manager) releaseStates(t *Table) {
	s := &t.states
	for _, k := range s.kept {
		m.states.unref(k.slot)
	}
	if s.own == 0 {
		return
	}
	if m.Caching() && t.rooted && s.at > 0 && t.chained*m.blockTokens == s.at {
		m.publishState(t, s.own, Rolling)
	}
	m.states.unref(s.own)
}

// checkStates recounts the books of the state slots.
func (m *Manager) checkStates(tables []*Table) error {
	refs := make([]int32, len(m.states.entries))
	own := make([]bool, len(refs))
	count := func(slot StateID) error {
		if slot <= 0 || int(slot) >= len(refs) {
			return fmt.Errorf("kvcache: a table has state slot %d of %d", slot, len(refs))
		}
		refs[slot]++
		return nil
	}
	for _, t := range tables {
		for _, k := range t.states.kept {
			if err := count(k.slot); err != nil {
				return err
			}
		}
		if t.states.own == 0 {
			continue
		}
		if err := count(t.states.own); err != nil {
			return err
		}
		own[t.states.own] = true
	}
	for i := range own {
		if own[i] && (refs[i] != 1 || m.states.entries[i].published) {
			return fmt.Errorf("kvcache: state slot %d is written to and has %d references, or can be found", i, refs[i])
		}
	}
	return m.states.check(refs)
}
