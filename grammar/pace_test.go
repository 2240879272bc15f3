package grammar

import (
	"errors"
	"slices"
	"testing"
)

// pacedMatchers returns two matchers of an ambiguous grammar in a place where no mask has
// been filled before.
func pacedMatchers(t *testing.T) (a, b *Matcher) {
	t.Helper()
	g := mustCompile(t, ambiguousRules(24), syntheticVocabulary(t, 20_000, false))
	a, b = g.NewMatcher(), g.NewMatcher()
	for _, m := range []*Matcher{a, b} {
		if m.at = g.m.run(m.at, []byte("a")); m.at == dead {
			t.Fatal("the grammar does not accept the text")
		}
	}
	return a, b
}

// unpacedMask is the mask in the place of pacedMatchers, made in one go.
func unpacedMask(t *testing.T) []uint32 {
	t.Helper()
	m, _ := pacedMatchers(t)
	mask := make([]uint32, m.m.voc.words())
	if err := m.Fill(mask); err != nil {
		t.Fatal(err)
	}
	return mask
}

// TestPacedFill: a fill of an ambiguous grammar comes up for air often, and may then be
// stopped for as long as the caller likes. Meanwhile others go on with the same grammar,
// and only a second fill has to wait. A fill that is paced gives the same mask.
func TestPacedFill(t *testing.T) {
	m, other := pacedMatchers(t)
	mask, second := make([]uint32, m.m.voc.words()), make([]uint32, m.m.voc.words())
	var token int32
	for m.m.voc.tokens[token] == nil || m.m.run(m.at, m.m.voc.tokens[token]) == dead {
		token++
	}
	calls, waits, visits, most := 0, 0, m.m.visits.Load(), int64(0)
	err := m.FillPaced(mask, func(waiting bool) bool {
		if waiting {
			t.Error("nobody else builds a mask, but the fill waits")
		}
		calls++
		most = max(most, m.m.visits.Load()-visits)
		visits = m.m.visits.Load()
		if calls%10 == 1 {
			if other.QuickFill() || !other.QuickAccept(token) || !other.Accept(token) {
				t.Error("another matcher of the grammar is in the wrong place")
			}
			other.Rollback(1)
			refused := other.FillPaced(second, func(waiting bool) bool { waits++; return !waiting })
			if !errors.Is(refused, ErrAbandoned) {
				t.Errorf("a second fill that does not want to wait: %v", refused)
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls, at most %d visits between two of them", calls, most)
	if calls < 50 || waits == 0 || most > 20_000 {
		t.Errorf("%d calls, %d of them of a fill that waits, at most %d visits between two", calls, waits, most)
	}
	if !slices.Equal(mask, unpacedMask(t)) {
		t.Error("the mask is wrong")
	}
	if !m.QuickFill() || !other.QuickFill() {
		t.Error("the next fill in the same place is not quick")
	}
}

// TestAbandonedFill: a fill ends when nobody waits for it any more, and leaves nothing
// half built.
func TestAbandonedFill(t *testing.T) {
	m, _ := pacedMatchers(t)
	mask := make([]uint32, m.m.voc.words())
	for last := 1; ; last = last*3/2 + 1 {
		calls := 0
		err := m.FillPaced(mask, func(bool) bool { calls++; return calls < last })
		if err == nil {
			t.Logf("%d calls in a whole fill", calls)
			break
		}
		if !errors.Is(err, ErrAbandoned) || m.QuickFill() {
			t.Fatalf("abandoned after %d calls: %v", last, err)
		}
	}
	if !slices.Equal(mask, unpacedMask(t)) {
		t.Error("the mask after abandoned ones is wrong")
	}
}

// TestQuickAccept: only the first text that goes somewhere has to work for it.
func TestQuickAccept(t *testing.T) {
	g := mustCompile(t, re("x[a-c]+y"), testVocabulary)
	first, second := g.NewMatcher(), g.NewMatcher()
	for i, c := range "xabcab" {
		quick := first.QuickAccept(c) // compiling has built the first mask, and with it the first byte
		if !first.Accept(c) || i == 1 && quick || i == 5 && !quick {
			t.Errorf("token %d of the first text: quick %v", i, quick)
		}
	}
	for i, c := range "xabcab" {
		if !second.QuickAccept(c) || !second.Accept(c) {
			t.Errorf("token %d of the second text is not quick", i)
		}
	}
}
