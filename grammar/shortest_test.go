package grammar

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// ends estimates how many bytes it takes from each state of a network to the end of its
// rule. It leaves out that the counters may forbid to leave a loop.
type ends struct {
	n    *network
	base []int32 // of the states of the common rules
	own  []int32
}

// farAway is more than what any text of the tests needs.
const farAway = int32(1 << 28)

var commonEnds = sync.OnceValue(func() []int32 {
	e := &ends{n: commonRules()}
	e.estimate()
	return e.own
})

func newEnds(n *network) *ends {
	e := &ends{n: n}
	if n.base != nil {
		e.base = commonEnds()
	}
	e.estimate()
	return e
}

func (e *ends) estimate() {
	e.own = slices.Repeat([]int32{farAway}, len(e.n.states))
	for changed := true; changed; {
		changed = false
		for i := len(e.own) - 1; i >= 0; i-- {
			if d := e.better(&e.n.states[i]); d < e.own[i] {
				e.own[i], changed = d, true
			}
		}
	}
}

func (e *ends) at(s int32) int32 {
	if s < e.n.common {
		return e.base[s]
	}
	return e.own[s-e.n.common]
}

func (e *ends) better(st *state) int32 {
	if st.accept {
		return 0
	}
	d := farAway
	for _, x := range st.edges {
		d = min(d, 1+e.at(x.to))
	}
	for _, s := range st.steps {
		switch {
		case s.kind == stepCall && s.tail:
			d = min(d, s.need+e.at(e.n.starts[s.rule]))
		case s.kind == stepCall:
			d = min(d, s.need+e.at(e.n.starts[s.rule])+e.at(s.to))
		default:
			d = min(d, e.at(s.to))
		}
	}
	return d
}

// position estimates how many bytes it takes to end the text.
func (e *ends) position(p *position) int32 {
	if p.accept {
		return 0
	}
	d := farAway
	for _, top := range p.tops {
		sum := int32(0)
		for f := top; f != bottom; f = f.parent {
			sum = min(farAway, sum+e.at(f.st)+max(0, f.need))
		}
		d = min(d, sum)
	}
	return d
}

// drawnText draws a text as a model would whose every output is random: long tokens that are
// each one of the legal ones. After that it takes the bytes that end the text soonest. The
// text ends earlier if the end comes up, or is all that is legal. It reports false if the
// text does not end.
func drawnText(t *testing.T, name string, g *Grammar, e *ends, rng *rand.Rand, long int) (string, bool) {
	t.Helper()
	w := newRandomWalk(t, name, g, rng)
	for i := range long + 4000 {
		w.fill()
		if w.m.Done() && (i >= long || rng.IntN(4) == 0) {
			return string(w.text), true
		}
		tok := randomLegal(rng, w.mask, w.v.size)
		if i >= long {
			tok = w.soonest(e)
		}
		if !w.accept(tok) {
			return string(w.text), true
		}
	}
	return string(w.text), false
}

// soonest is the legal byte after which the end is nearest, a random one of those.
func (w *randomWalk) soonest(e *ends) int32 {
	best, least := int32(-1), farAway+1
	first := w.rng.IntN(256)
	for i := range 256 {
		b := (first + i) % 256
		if !legal(w.mask, int32(b)) { // the first 256 tokens are the bytes
			continue
		}
		if d := e.position(w.m.m.step(w.m.at, byte(b))); d < least {
			best, least = int32(b), d
		}
	}
	return best
}
