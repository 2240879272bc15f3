package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/backend/sim"
	"weir/engine"
)

// TestChatWithStates: eight chats at once over a network with a recurrent state, in which each turn
// repeats what came before but for the last tokens of the prompt, and continues with something
// else than the answer, as templates do that drop thoughts. A turn computes what is new and a block
// at most, however long the chat is.
func TestChatWithStates(t *testing.T) {
	const turns, chats, block, suffix, added = 20, 8, 16, 5, 44
	eachDepth(t, func(t *testing.T, depth int) {
		spec := withStates(1+4*chats, simSpec(2000, block, 64, chats, depth))
		spec.MaxSeqTokens = 2 * turns * added
		e := start(t, engine.Config{Caching: true, MaxLive: 100}, configuredOracle(spec, sim.OracleConfig{Reading: sim.Lazy}))
		var history [chats][]int32
		for turn := range turns {
			var streams [chats]*engine.Stream
			for c := range chats {
				for i := range added {
					history[c] = append(history[c], int32((turn*7+c*31+i)%simVocab))
				}
				r := request(1, 25)
				r.Tokens, r.Suffix = append(slices.Clone(history[c]), 1, 2, 3, 4, 5), suffix
				streams[c] = e.mustSubmit(t, r)
			}
			for c, s := range streams {
				if got := collect(t.Context(), s, job{}); got.err != nil || len(got.choices[0].tokens) != 25 {
					t.Fatalf("turn %d of chat %d: %+v", turn, c, got)
				}
				cached, before := s.Cached(), len(history[c])-added
				if cached <= before-block || cached > before {
					t.Errorf("turn %d of chat %d: %d tokens are cached, of %d that came before", turn, c, cached, before)
				}
			}
		}
		e.mustStop(t)
	})
}

// TestSharedBeginning: prompts have only their beginning in common. The second one computes it once more and
// keeps the state where it parts from the first, and the others begin there.
func TestSharedBeginning(t *testing.T) {
	const common, block = 70, 16
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{Caching: true, MaxLive: 100}, oracle(withStates(20, simSpec(200, block, 64, 4, depth))))
		for i, want := range []int{0, 0, common / block * block, common / block * block} {
			r := request(common, 5)
			for j := range 30 {
				r.Tokens = append(r.Tokens, int32(100+20*i+j))
			}
			s := e.mustSubmit(t, r)
			if got := collect(t.Context(), s, job{req: r}); got.err != nil || s.Cached() != want {
				t.Errorf("prompt %d: %d tokens are cached, want %d (error %v)", i, s.Cached(), want, got.err)
			}
		}
		e.mustStop(t)
	})
}

// TestStateBeforeALateMask: a sequence whose mask is late goes back to the state before its token, and is not
// computed anew.
func TestStateBeforeALateMask(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		const hostile = 4
		spec := withStates(1+4*hostile, simSpec(200, 4, 40, 10, depth))
		e := start(t, engine.Config{MaxLive: 100}, configuredOracle(spec, sim.OracleConfig{Reading: sim.Lazy}))
		for _, got := range e.submitHeld(t, hostile, true)() {
			if want := slices.Repeat([]int32{7}, 20); got.err != nil || !slices.Equal(got.choices[0].tokens, want) {
				t.Errorf("after its mask was filled: %+v", got)
			}
		}
		e.mustStop(t)
		if s := e.Stats(); s.Postponed < hostile || s.Preemptions > 0 || s.StatesUsed != 0 {
			t.Errorf("at the end: %+v", s)
		}
	})
}

// TestSuffixIsChecked: a prompt cannot end in fewer than no tokens, but in more than it has.
func TestSuffixIsChecked(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(withStates(5, simSpec(40, 4, 64, 4, 1))))
	r := request(10, 3)
	r.Suffix = -1
	if _, err := e.Submit(r); fmt.Sprint(err) != "engine: invalid request: the prompt ends in -1 tokens that are not repeated" {
		t.Error(err)
	}
	r.Suffix = 99
	e.mustRun(t, r)
	e.mustStop(t)
}
