package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// ageTwin is the reference implementation of ageing. It sees the chunks of each plan and which
// sequences there are, and keeps its own accounts of them.
type ageTwin struct {
	*crowd
	classes map[*classAge]*classAge // the twin of each
	saved   int64                   // what may be spent on lifting
	paid    map[*Sequence]int       // of those that were lifted: the tokens that are paid for
	charged map[*Sequence]int       // tokens that were computed once
	lifted  int
}

func (w *ageTwin) of(class *part) *classAge {
	if w.classes[class.age] == nil {
		w.classes[class.age] = &classAge{}
	}
	return w.classes[class.age]
}

// waitingOf returns the waiting sequences with a rank.
func (w *ageTwin) waitingOf(rank int64) (all []*Sequence) {
	for _, q := range w.s.Live() {
		if q.rank == rank && q.Status == Waiting {
			all = append(all, q)
		}
	}
	return all
}

// age is what a plan begins with.
func (w *ageTwin) age() {
	if len(w.s.classes) < 2 {
		return
	}
	urgent := int64(0)
	for _, class := range w.s.classes {
		c := w.of(class)
		if c.waits {
			c.owed += urgent
		}
		c.owed = max(0, c.owed-15*c.own)
		c.owed = min(c.owed, 16*int64(w.s.cfg.MaxTokens))
		urgent += c.given
		c.given, c.own = 0, 0
	}
}

// ageBefore is what a plan finds.
type ageBefore struct {
	rank     map[*Sequence]int64
	computed map[*Sequence]int
	classes  map[int64]*classAge
	waiting  map[int64]int
	top      int64
}

func (w *ageTwin) before() *ageBefore {
	b := &ageBefore{map[*Sequence]int64{}, map[*Sequence]int{}, map[int64]*classAge{}, map[int64]int{}, w.s.classes[0].priority}
	for _, q := range w.s.Live() {
		b.rank[q], b.computed[q] = q.rank, q.Computed
	}
	for _, class := range w.s.classes {
		b.classes[class.priority], b.waiting[class.priority] = w.of(class), len(w.waitingOf(class.priority))
	}
	return b
}

// step makes a step of the scheduler and of its twin, and compares them.
func (w *ageTwin) step() error {
	w.age()
	b := w.before()
	chunks := slices.Clone(w.s.Schedule())
	if err := w.lift(b); err != nil {
		return err
	}
	chosen := map[*Sequence]bool{}
	for _, chunk := range chunks {
		chosen[chunk.Seq] = true
	}
	taken := false
	for q := range b.rank {
		if !chosen[q] && q.Account.charged > w.charged[q] {
			// Its chunk was planned, and taken out for somebody else. It stays paid for, and is free when
			// it is computed.
			taken = true
			w.charge(q, q.Account.charged)
		}
	}
	for _, chunk := range chunks {
		w.charge(chunk.Seq, chunk.Start+chunk.N)
	}
	if taken && max(w.saved-w.s.lifts, w.s.lifts-w.saved) <= 15*int64(w.s.cfg.MaxTokens) {
		w.saved = w.s.lifts // what was saved up was full between two chunks whose order is not known
	}
	if err := w.compare(chosen); err != nil {
		return err
	}
	for _, chunk := range chunks {
		w.s.Commit(chunk, 1)
	}
	w.s.EndStep()
	return nil
}

// lift checks who was lifted, and makes them pay.
func (w *ageTwin) lift(b *ageBefore) error {
	var lifted []*Sequence
	for q, rank := range b.rank {
		if q.rank != rank {
			lifted = append(lifted, q)
		}
	}
	slices.SortFunc(lifted, func(a, b *Sequence) int { return int(a.Arrival) - int(b.Arrival) })
	most := 16 * int64(w.s.cfg.MaxTokens)
	for _, q := range lifted {
		rank := b.rank[q]
		c := b.classes[rank]
		if w.saved <= 0 || c.owed < most || q.rank != b.top || rank == b.top {
			return fmt.Errorf("sequence %d was lifted from %d to %d, of %d; its class is owed %d of %d, and %d are saved up", q.ID, rank, q.rank, b.top, c.owed, most, w.saved)
		}
		price := 15 * int64(len(q.Tokens)-b.computed[q])
		c.owed, w.saved, w.paid[q] = max(0, c.owed-price), w.saved-price, len(q.Tokens)
		w.lifted++
	}
	for rank, c := range b.classes {
		if rank != b.top && c.owed == most && b.waiting[rank] > 0 && w.saved > 0 {
			return fmt.Errorf("nobody was lifted of class %d, which is owed all, has %d waiting sequences, and %d are saved up", rank, b.waiting[rank], w.saved)
		}
	}
	return nil
}

// compare compares the accounts after a plan.
func (w *ageTwin) compare(chosen map[*Sequence]bool) error {
	for _, class := range w.s.classes {
		c := w.of(class)
		c.waits = len(w.waitingOf(class.priority)) > 0
		for _, q := range w.s.Live() {
			c.waits = c.waits || q.rank == class.priority && q.Status == Running && !chosen[q] && w.s.demand(q) > 0
		}
		if *c != *class.age {
			return fmt.Errorf("class %d has %+v, want %+v", class.priority, *class.age, *c)
		}
	}
	if w.saved != w.s.lifts || uint64(w.lifted) != w.s.counters.Aged {
		return fmt.Errorf("%d are saved up and %d were lifted, want %d and %d", w.s.lifts, w.s.counters.Aged, w.saved, w.lifted)
	}
	return nil
}

// charge counts the tokens of q up to an end for the class that they are computed in and for the
// one that q is of.
func (w *ageTwin) charge(q *Sequence, end int) {
	fresh := int64(end - w.charged[q])
	if fresh <= 0 {
		return
	}
	w.charged[q] = end
	paid, lifted := w.paid[q]
	for _, class := range w.s.classes {
		if len(w.s.classes) == 1 && !lifted {
			break // who is alone owes nothing
		}
		if class.priority == q.rank {
			w.of(class).given += fresh
		}
		if class.priority == q.Priority {
			w.of(class).own += fresh
		}
	}
	if !lifted {
		w.saved = min(16*int64(w.s.cfg.MaxTokens), w.saved+fresh)
	} else if end > paid {
		w.saved -= 15 * int64(end-paid)
		w.paid[q] = end
	}
}

// script makes random steps, in which urgent work comes and goes.
func (w *ageTwin) script(g *rand.Rand) error {
	var all []*Sequence
	urgent, change := true, 0 // change: steps until urgent work begins or ends
	for i := range 1000 {
		if change--; change < 0 {
			urgent, change = g.IntN(4) > 0, g.IntN(300)
		}
		if urgent && len(w.waitingOf(0)) < 6 {
			w.priority = 0
			all = append(all, w.add(string(rune('a'+g.IntN(3))), "", 2, 1+g.IntN(200), 1+g.IntN(30))...)
		}
		if g.IntN(4) == 0 {
			w.priority = []int64{1, 2, 7, Background}[g.IntN(4)]
			all = append(all, w.add(string(rune('a'+g.IntN(4))), fmt.Sprint(g.IntN(2)), 1, 1+g.IntN(120), 1+g.IntN(20))...)
		}
		if g.IntN(20) == 0 && len(all) > 0 {
			w.s.Abort(all[g.IntN(len(all))])
		}
		if len(w.s.classes) == 0 {
			continue
		}
		err := w.step()
		if err == nil && i%16 == 0 {
			err = w.s.Check()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// TestAgeingAgainstTwin: the scheduler owes and lifts what its twin does.
func TestAgeingAgainstTwin(t *testing.T) {
	lifted := 0
	for seed := range uint64(6) {
		g := rand.New(rand.NewPCG(seed, 21))
		cfg := Config{MaxTokens: 8 + g.IntN(40), MaxSeqs: 2 + g.IntN(8), MaxSeqTokens: 2048, MaxPrefill: g.IntN(2) * (1 + g.IntN(8)), Priority: true}
		w := &ageTwin{crowd: newCrowd(t, cfg, 150+g.IntN(300)), classes: map[*classAge]*classAge{}, paid: map[*Sequence]int{}, charged: map[*Sequence]int{}}
		if err := w.script(g); err != nil {
			t.Fatalf("seed %d, %v", seed, err)
		}
		lifted += w.lifted
	}
	if t.Logf("%d sequences were lifted", lifted); lifted < 30 {
		t.Errorf("only %d sequences were lifted", lifted)
	}
}
