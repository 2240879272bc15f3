package engine

import "testing"

// constantMask always allows the same single token, and says so at once.
type constantMask struct{ token int32 }

func (m constantMask) Only() int32         { return m.token }
func (m constantMask) Accept(t int32) bool { return t == m.token }
func (m constantMask) Quick(int32) bool    { return true }
func (m constantMask) Fill(row []uint32, _ func(bool) bool) error {
	clear(row)
	row[m.token/32] = 1 << (m.token % 32)
	return nil
}

// constant makes the choices of r put out nothing but one token.
func constant(r *Request) {
	for range r.N {
		r.Masks = append(r.Masks, constantMask{300})
	}
}

// TestForcedTokensOfAStep: a step books a bounded number of tokens that masks leave no
// alternative to, and the rest of them later.
func TestForcedTokensOfAStep(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		s := newStepBench(t, 129, depth)
		s.streams = s.streams[:2]
		s.submitWorst(t, benchOutput-100, constant)
		most := uint64(0)
		for more := true; more; more = !s.idle() {
			before := s.e.counts.ForcedTokens
			s.step(t)
			most = max(most, s.e.counts.ForcedTokens-before)
		}
		if n := s.e.counts.ForcedTokens; most > mostForced || depth == 1 && n < 128*(benchOutput-100)*9/10 {
			t.Errorf("depth %d: %d tokens forced, up to %d in a step", depth, n, most)
		}
		if n := s.streams[0].Drawn(); n != 128*(benchOutput-100) {
			t.Errorf("depth %d: %d tokens", depth, n)
		}
	}
}

// TestForcedTokensWithRepetition: a step books fewer such tokens if repetition detection looks
// at thousands of patterns for each of them.
func TestForcedTokensWithRepetition(t *testing.T) {
	s := newStepBench(t, 129, 1)
	s.streams = s.streams[:2]
	s.submitWorst(t, benchOutput-100, func(r *Request) {
		constant(r)
		r.Limits.Repetition = Repetition{MinPattern: 1, MaxPattern: 2048, MinCount: 2048}
	})
	most := uint64(0)
	for more := true; more; more = !s.idle() {
		before := s.e.counts.ForcedTokens
		s.step(t)
		most = max(most, s.e.counts.ForcedTokens-before)
	}
	if want := uint64(mostForced / (1 + 2048/patternsOfToken)); most > want || most < want/2 {
		t.Errorf("up to %d tokens forced in a step, of at most %d", most, want)
	}
	if n := s.streams[0].Drawn(); n != 128*(benchOutput-100) {
		t.Errorf("%d tokens", n)
	}
}

// BenchmarkForcedRun is a request of 128 choices whose masks leave no alternative to any
// token. The longest of its steps is reported, too.
func BenchmarkForcedRun(b *testing.B) {
	s := newStepBench(b, 129, 1)
	s.streams = s.streams[:2]
	longest := 0.0
	for b.Loop() {
		s.submitWorst(b, benchOutput-100, constant)
		for more := true; more; more = !s.idle() {
			began := s.e.clock()
			s.step(b)
			longest = max(longest, (s.e.clock() - began).Seconds())
		}
	}
	b.ReportMetric(1e3*longest, "longest-ms")
}
