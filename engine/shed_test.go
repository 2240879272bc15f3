package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestShed holds what is given up against a simple queue: requests of one project begin in their order,
// each when what is before it has been computed, and those go that would begin too late. What they would
// have taken, those behind them do not wait for.
func TestShed(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		e := New(Config{MaxLive: 1000}, nil)
		const speed = 1000.0
		now := time.Duration(rnd.Int64N(int64(time.Minute)))
		var want, got, all []*submission
		ahead := int64(0)
		for range rnd.IntN(50) {
			s := &submission{requests: []*request{{Request: Request{Tenant: "a", Project: "p"}}}, live: 1, place: true}
			s.prompt = rnd.Int64N(500)
			if rnd.IntN(3) > 0 {
				s.due = max(1, now+time.Duration(rnd.Int64N(int64(10*time.Second)))-time.Second)
			}
			s.onLost = func(err error) { got = append(got, s) }
			if _, ok := e.mu.places.admit(s); !ok {
				t.Fatal("no place")
			}
			all = append(all, s)
			begins := now + time.Duration(float64(ahead)/speed*float64(time.Second))
			if s.due > 0 && (begins > s.due || now > s.due) {
				want = append(want, s)
			} else {
				ahead += s.tokens
			}
		}
		e.shed(now, speed)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d are given up of %d, want %d", seed, len(got), len(all), len(want))
		}
		if n := e.mu.places.all.live; n != len(all)-len(want) {
			t.Errorf("seed %d: %d places are taken", seed, n)
		}
		checkEmptied(t, &e.mu.places, all)
	}
}

// checkEmptied gives back what submissions still hold, and checks that nothing is left then.
func checkEmptied(t *testing.T, p *places, all []*submission) {
	t.Helper()
	for _, s := range all {
		if !s.evicted {
			p.leave(s)
		}
	}
	if p.all.queued != (sums{}) || p.timed != 0 || len(p.all.parts) != 0 {
		t.Errorf("at the end there are %+v, %d timed, %d parts", p.all.queued, p.timed, len(p.all.parts))
	}
}

// Tenants share the machine, so that one with a short queue begins before another's long one is done.
func TestShedShares(t *testing.T) {
	e := New(Config{MaxLive: 1000}, nil)
	p := &e.mu.places
	reserve := func(tenant string, due time.Duration) *submission {
		s := &submission{requests: []*request{{Request: Request{Tenant: tenant}}}, live: 1, place: true}
		s.prompt, s.due = 1000-firstOutput, due
		if _, ok := p.admit(s); !ok {
			t.Fatal("no place")
		}
		return s
	}
	const speed = 1000 // a second for each
	var long []*submission
	for range 10 {
		long = append(long, reserve("long", 5*time.Second))
	}
	short := []*submission{reserve("short", 5*time.Second), reserve("short", 5*time.Second)}
	e.shed(time.Second, speed)
	gone := func(all []*submission) (n string) {
		for i, s := range all {
			if s.evicted {
				n += fmt.Sprint(i, " ")
			}
		}
		return n
	}
	// The long queue begins one in two seconds while the short one is there, and one in a second then.
	if l, s := gone(long), gone(short); l != "3 4 5 6 7 8 9 " || s != "" {
		t.Errorf("of the long queue go %q, of the short one %q", l, s)
	}
}
