package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"weir/internal/invariants"
	"weir/kvcache"
)

// checkWork recounts the work of a step.
func checkWork(c Config, step []Chunk) error {
	work, draws, scored, scoring := 0, 0, 0, 0
	for _, chunk := range step {
		q := chunk.Seq
		if chunk.Draw && q.Work.Draw > 0 {
			work += q.Work.Draw
			draws++
		}
		n := 0
		for p := chunk.Start; p < chunk.Start+chunk.N; p++ {
			if q.Work.Scored && p+1 < q.Prompt {
				n++
			}
		}
		if scored += n; n > 0 {
			scoring++
		}
	}
	switch {
	case c.MaxWork > 0 && work > c.MaxWork && draws > 1:
		return fmt.Errorf("a step has %d units of work of %d sequences, more than %d", work, draws, c.MaxWork)
	case c.MaxScored > 0 && scored > c.MaxScored && !(c.WholePrompts && scoring == 1):
		return fmt.Errorf("a step scores %d tokens of %d prompts, more than %d", scored, scoring, c.MaxScored)
	}
	return nil
}

// workTest is a scheduler with sequences that never end.
type workTest struct {
	*testing.T
	cfg       Config
	s         *Scheduler
	sequences []*Sequence
	waits     map[*Sequence]int // steps since it last drew
	longest   map[*Sequence]int
}

func newWorkTest(t *testing.T, cfg Config) *workTest {
	cfg.MaxTokens, cfg.MaxSeqs, cfg.MaxSeqTokens = 400, 300, 4000
	return &workTest{T: t, cfg: cfg, s: New(cfg, kvcache.New(3000, 16, 0, false)), waits: map[*Sequence]int{}, longest: map[*Sequence]int{}}
}

// add adds n sequences whose tokens cost some work each.
func (w *workTest) add(n int, tenant string, draw int) (added []*Sequence) {
	for range n {
		id := uint64(len(w.sequences) + 1)
		q := &Sequence{ID: id, Arrival: id, Account: Account{Tenant: tenant}, Tokens: []int32{1, 2, 3}, Prompt: 3, Limits: Limits{MaxTokens: 3000, EOS: -1}, Work: Work{Draw: draw}}
		w.sequences = append(w.sequences, q)
		w.s.Add(q)
		added = append(added, q)
	}
	return added
}

// run computes steps and checks each of them. It returns how many tokens each sequence drew.
func (w *workTest) run(steps int) map[*Sequence]int {
	w.Helper()
	drawn := map[*Sequence]int{}
	for range steps {
		step := slices.Clone(w.s.Schedule())
		if err := checkWork(w.cfg, step); err != nil {
			w.Fatal(err)
		}
		for _, q := range w.sequences {
			w.waits[q]++
			w.longest[q] = max(w.longest[q], w.waits[q])
		}
		for _, c := range step {
			if c.Draw {
				drawn[c.Seq]++
				w.waits[c.Seq] = 0
			}
			w.s.Commit(c, 5)
		}
		w.s.EndStep()
		if err := w.s.Check(); err != nil {
			w.Fatal(err)
		}
	}
	return drawn
}

// between fails if a number is not in a range.
func (w *workTest) between(what string, n, least, most int) {
	w.Helper()
	if n < least || n > most {
		w.Errorf("%s: %d, want %d to %d", what, n, least, most)
	}
}

// TestWorkIsShared: a step has no more work than it may, tenants have equal parts of it,
// a sequence that costs little draws in every step, and nobody starves.
func TestWorkIsShared(t *testing.T) {
	w := newWorkTest(t, Config{MaxWork: 1000})
	many := w.add(120, "many", 100)
	one := w.add(1, "one", 100)[0]
	light := w.add(1, "light", 1)[0]
	free := w.add(1, "many", 0)[0]
	w.run(20) // until all have begun
	clear(w.longest)
	drawn := w.run(400)
	w.between("tokens of the tenant with one sequence", drawn[one], 400, 400)
	w.between("tokens of a sequence that costs little", drawn[light], 400, 400)
	w.between("tokens of a sequence that costs nothing", drawn[free], 400, 400)
	for _, q := range many {
		w.between(fmt.Sprintf("tokens of sequence %d of many", q.ID), drawn[q], 25, 28) // 8 of 120 draw in a step
		w.between(fmt.Sprintf("longest wait of sequence %d of many", q.ID), w.longest[q], 14, 17)
	}
	w.between("sequences that were left out", w.s.LeftOut(), 112, 112)
}

// TestWorkOfOneStep: tenants share work also if a step has enough for one sequence only, or
// for less than that. Ever new tenants keep nobody out.
func TestWorkOfOneStep(t *testing.T) {
	for _, most := range []int{1, 100, 199} {
		w := newWorkTest(t, Config{MaxWork: most})
		many := w.add(50, "many", 100)
		one := w.add(1, "one", 100)[0]
		w.run(60)
		drawn := w.run(300)
		w.between("tokens of the tenant with one sequence", drawn[one], 149, 151)
		for _, q := range many {
			w.between("tokens of one of many", drawn[q], 2, 4)
		}
		clear(w.longest)
		for i := range 100 { // they come and stay
			w.add(1, fmt.Sprintf("new %d", i), 100)
			w.run(1)
		}
		w.run(1000)
		for _, q := range w.sequences {
			if q.Account.Tenant != "many" {
				w.between("longest wait of a tenant with one sequence", w.longest[q], 1, 210)
			}
		}
		if w.longest[one] > 110 {
			t.Errorf("while others came, a sequence has waited for %d steps", w.longest[one])
		}
	}
}

// TestWorkAllocatesNothing: neither a step with enough work for all nor one with too little
// allocates.
func TestWorkAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	for _, most := range []int{1000, 100_000} {
		w := newWorkTest(t, Config{MaxWork: most})
		for i := range 60 {
			q := w.add(1, fmt.Sprint(i%7), 100)[0]
			q.Tokens = slices.Grow(q.Tokens, 1000)
			q.Table.Blocks = make([]kvcache.BlockID, 0, 100)
		}
		step := func() {
			for _, c := range w.s.Schedule() {
				w.s.Commit(c, 5)
			}
			w.s.EndStep()
		}
		for range 20 {
			step()
		}
		if n := testing.AllocsPerRun(300, step); n != 0 {
			t.Errorf("%v allocations in a step with %d units of work", n, most)
		}
	}
}

// TestScoredPrompts: a step scores no more prompt tokens than it may, and prompts whose scores
// are wanted keep out neither each other nor those that want none.
func TestScoredPrompts(t *testing.T) {
	w := newWorkTest(t, Config{MaxScored: 10})
	scored := w.add(5, "a", 0)
	for _, q := range scored {
		q.Tokens, q.Prompt, q.Work.Scored = make([]int32, 101), 101, true
	}
	plain := w.add(3, "b", 0)
	late := w.add(1, "c", 0)[0]
	late.Tokens, late.Prompt, late.Work.Scored = make([]int32, 31), 31, true
	drawn := w.run(1)
	for _, q := range plain {
		w.between("tokens of a prompt without scores", drawn[q], 1, 1)
	}
	w.between("tokens of a tenant with one short prompt", w.run(7)[late], 1, 8)
	drawn = w.run(50)
	for _, q := range scored {
		w.between("tokens of a prompt with scores", drawn[q], 1, 50)
	}
}
