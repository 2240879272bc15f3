package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/kvcache"
)

// crowd is a scheduler whose sequences belong to tenants, with a device that draws token 1.
type crowd struct {
	testing.TB
	s     *Scheduler
	last  uint64
	steps int
	given map[string]int // tokens computed for the first time, by tenant and by tenant/project
	again int            // tokens computed again
	seen  map[*Sequence]int

	weights  map[string]int // by tenant and by tenant/project; 0: the usual one
	priority int64          // of sequences that are added
}

func newCrowd(t testing.TB, cfg Config, blocks int) *crowd {
	return &crowd{TB: t, s: New(cfg, kvcache.New(blocks, 16, 0, false)), given: map[string]int{}, seen: map[*Sequence]int{}}
}

// add queues n sequences of a project.
func (c *crowd) add(tenant, project string, n, prompt, output int) (all []*Sequence) {
	for range n {
		c.last++
		q := &Sequence{ID: c.last, Arrival: c.last, Priority: c.priority, Prompt: prompt, Tokens: make([]int32, prompt),
			Account: Account{Tenant: tenant, Project: project, Weight: c.weights[tenant], ProjectWeight: c.weights[tenant+"/"+project]},
			Limits:  Limits{MaxTokens: output, EOS: -1}}
		c.s.Add(q)
		all = append(all, q)
	}
	return all
}

// step plans, runs and books a step.
func (c *crowd) step() {
	c.Helper()
	if err := c.s.checkCandidate(); err != nil {
		c.Fatal(err)
	}
	chunks := slices.Clone(c.s.Schedule())
	for _, chunk := range chunks {
		q := chunk.Seq
		fresh := max(0, chunk.Start+chunk.N-max(chunk.Start, c.seen[q]))
		c.seen[q] = max(c.seen[q], chunk.Start+chunk.N)
		c.given[q.Account.Tenant] += fresh
		c.given[q.Account.Tenant+"/"+q.Account.Project] += fresh
		c.again += chunk.N - fresh
		c.s.Commit(chunk, 1)
	}
	c.s.EndStep()
	c.steps++
	if c.steps%16 == 0 {
		if err := c.s.Check(); err != nil {
			c.Fatal(err)
		}
	}
}

// until steps until q has finished, and returns the number of steps.
func (c *crowd) until(q *Sequence, most int) int {
	c.Helper()
	from := c.steps
	for q.Status != Finished {
		if c.step(); c.steps-from > most {
			c.Fatalf("sequence %d of tenant %s has not finished after %d steps", q.ID, q.Account.Tenant, most)
		}
	}
	return c.steps - from
}

// checkCandidate compares the sequence that is to be admitted next with the one that a look
// at all sequences finds. It is the reference implementation.
func (s *Scheduler) checkCandidate() error {
	less := func(a, b *part) bool { return a.served < b.served || a.served == b.served && a.turn < b.turn }
	var best *Sequence
	for _, q := range s.Live() {
		if q.Status != Waiting || !s.canRun(q) {
			continue
		}
		if best == nil {
			best = q
			continue
		}
		a, b := q.Account.in, best.Account.in
		switch {
		case q.rank != best.rank:
			if q.rank < best.rank {
				best = q
			}
		case a.within != b.within:
			if less(a.within, b.within) {
				best = q
			}
		case a != b:
			if less(a, b) {
				best = q
			}
		case s.order(q, best) < 0:
			best = q
		}
	}
	got := s.candidate()
	s.restore()
	if got != best {
		return fmt.Errorf("the next sequence is %v, want %v", ids([]*Sequence{got}), ids([]*Sequence{best}))
	}
	return nil
}

// Tenants that always want more get the same number of tokens, however many sequences and
// projects they have and however long these are, and so do the projects of a tenant.
func TestTenantsShareEqually(t *testing.T) {
	for _, priority := range []bool{false, true} {
		c := newCrowd(t, Config{MaxTokens: 512, MaxSeqs: 32, MaxSeqTokens: 8192, MaxPrefill: 128, Priority: priority}, 4000)
		c.add("long", "", 80, 4000, 20)
		c.add("short", "", 3500, 20, 60)
		c.add("split", "1", 120, 1000, 100)
		c.add("split", "2", 2500, 30, 30)
		for range 100 {
			c.step() // the first steps fill the places
		}
		clear(c.given)
		for range 800 {
			c.step()
		}
		for _, pair := range [][2]string{{"long", "short"}, {"long", "split"}, {"split/1", "split/2"}} {
			a, b := c.given[pair[0]], c.given[pair[1]]
			if d := a - b; max(d, -d) > max(a, b)/20+8192 {
				t.Errorf("priority %v: %s has got %d tokens and %s %d", priority, pair[0], a, pair[1], b)
			}
		}
	}
}

// claims are tenants with two projects each, their weights, and the part of all tokens that each
// has a right to.
type claims struct {
	*crowd
	parts map[string]float64 // by tenant and tenant/project
	more  []func()           // each adds sequences of a project, if few of them wait
}

func newClaims(c *crowd, g *rand.Rand) *claims {
	all := &claims{crowd: c, parts: map[string]float64{}}
	c.weights = map[string]int{}
	weight := func() int { return []int{50, 100, 200, 300, 500}[g.IntN(5)] }
	whole := 0
	tenants := 2 + g.IntN(2)
	for i := range tenants {
		tenant := fmt.Sprint("t", i)
		c.weights[tenant] = weight()
		whole += c.weights[tenant]
		for _, project := range []string{"p0", "p1"} {
			c.weights[tenant+"/"+project] = weight()
			prompt, output := 20+g.IntN(400), 20+g.IntN(100)
			all.more = append(all.more, func() {
				if a := c.s.projectOf(tenant, project); a == nil || len(a.queue) < 20 {
					c.add(tenant, project, 20, prompt, output)
				}
			})
		}
	}
	for i := range tenants {
		tenant := fmt.Sprint("t", i)
		part := float64(c.weights[tenant]) / float64(whole)
		p0, p1 := float64(c.weights[tenant+"/p0"]), float64(c.weights[tenant+"/p1"])
		all.parts[tenant], all.parts[tenant+"/p0"], all.parts[tenant+"/p1"] = part, part*p0/(p0+p1), part*p1/(p0+p1)
	}
	return all
}

// run makes so many steps in which everybody wants more.
func (c *claims) run(steps int) {
	for range steps {
		for _, f := range c.more {
			f()
		}
		c.step()
	}
}

// Tenants and projects that always want more get tokens in proportion to their weights, whatever
// they ask for. The same holds for the memory and the places that they have to share.
func TestWeightedShares(t *testing.T) {
	for seed := range uint64(8) {
		g := rand.New(rand.NewPCG(seed, 9))
		c := newClaims(newCrowd(t, Config{MaxTokens: 256, MaxSeqs: 16 + g.IntN(48), MaxSeqTokens: 8192, MaxPrefill: 128, Priority: seed%2 == 0}, 1200+g.IntN(4000)), g)
		c.run(100) // the first steps fill the places
		clear(c.given)
		c.run(1200)
		total := 0
		for name, n := range c.given {
			if strings.Contains(name, "/") {
				total += n
			}
		}
		for name, part := range c.parts {
			if got := float64(c.given[name]) / float64(total); max(got-part, part-got) > 0.02 {
				t.Errorf("seed %d: %s has got %.3f of the tokens, want %.3f (%v)", seed, name, got, part, c.weights)
			}
		}
		if c.again > total/creditRate+8192 {
			t.Errorf("seed %d: %d tokens and %d again", seed, total, c.again)
		}
	}
}

// projectOf returns a project in the most urgent class; nil: there is none.
func (s *Scheduler) projectOf(tenant, project string) *part {
	if len(s.classes) == 0 || s.classes[0].parts[tenant] == nil {
		return nil
	}
	return s.classes[0].parts[tenant].parts[project]
}

// A tenant whose part is not wanted by others gets all, whatever its weight.
func TestWeightsConserveWork(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 64, MaxSeqs: 64, MaxSeqTokens: 4096}, 4000)
	c.weights = map[string]int{"light": 1, "heavy": MaxWeight}
	c.add("light", "", 200, 100, 500)
	for range 20 {
		c.step()
	}
	if got := c.given["light"]; got != 20*64 {
		t.Errorf("alone it has got %d tokens in 20 steps", got)
	}
	q := c.add("heavy", "", 1, 40, 10)[0]
	if n := c.until(q, 100); n > 13 {
		t.Errorf("the heavy one took %d steps for 10 tokens", n)
	}
	clear(c.given)
	for range 20 {
		c.step()
	}
	if got := c.given["light"]; got != 20*64 {
		t.Errorf("alone again it has got %d tokens in 20 steps", got)
	}
}

// A weight that changes holds from the next sequence on.
func TestWeightChanges(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: 4096}, 4000)
	c.add("a", "", 600, 50, 20)
	c.add("b", "", 400, 50, 20)
	for range 100 {
		c.step()
	}
	c.weights = map[string]int{"a": 300}
	c.add("a", "", 1, 50, 20)
	clear(c.given)
	for range 500 {
		c.step()
	}
	if a, b := c.given["a"], c.given["b"]; a < b*28/10 || a > b*32/10 {
		t.Errorf("at three times the weight a has got %d tokens and b %d", a, b)
	}
	if err := c.s.Check(); err != nil {
		t.Error(err)
	}
}

// A tenant's few words are answered at once, whatever another one has sent before.
func TestNewcomerWaitsFewSteps(t *testing.T) {
	cfg := Config{MaxTokens: 512, MaxSeqs: 256, MaxSeqTokens: 131072, MaxPrefill: 128}
	for _, test := range []struct {
		name   string
		blocks int
		before func(*crowd)
		steps  int // before the newcomer
	}{
		{"alone", 40000, func(*crowd) {}, 0},
		{"3,000 prompts of 4,096 tokens", 40000, func(c *crowd) { c.add("flood", "", 3000, 4096, 100) }, 50},
		{"the same, at once", 40000, func(c *crowd) { c.add("flood", "", 3000, 4096, 100) }, 0},
		{"a prompt that fills the context", 40000, func(c *crowd) { c.add("flood", "", 3, 130000, 100) }, 50},
		{"all places taken by long outputs", 40000, func(c *crowd) { c.add("flood", "", 1000, 16, 30000) }, 100},
		{"all memory taken by many", 2000, func(c *crowd) { c.add("flood", "", 1000, 500, 3000) }, 200},
		{"all memory taken by one", 2000, func(c *crowd) { c.add("flood", "", 10, 31000, 900) }, 300},
		{"1,000 projects", 40000, func(c *crowd) {
			for i := range 1000 {
				c.add("flood", fmt.Sprint(i), 3, 4096, 100)
			}
		}, 50},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCrowd(t, cfg, test.blocks)
			test.before(c)
			for range test.steps {
				c.step()
			}
			const output = 10
			for i := range 5 {
				q := c.add("newcomer", "", 1, 5, output)[0]
				if n := c.until(q, 1000); n > output+8 {
					t.Errorf("request %d took %d steps for %d tokens", i, n, output)
				}
			}
			c.add("flood", "other", 1, 5, output)
		})
	}
}

// The same for another project of the tenant.
func TestNewProjectWaitsFewSteps(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 512, MaxSeqs: 64, MaxSeqTokens: 8192}, 40000)
	c.add("flood", "one", 3000, 16, 4000)
	for range 100 {
		c.step()
	}
	q := c.add("flood", "two", 1, 5, 10)[0]
	if n := c.until(q, 1000); n > 18 {
		t.Errorf("it took %d steps", n)
	}
}

// Sequences of different tenants that want the same memory do not take it from each other
// for ever, and all of them together compute little more again than if they were of one.
func TestTakingBackIsBounded(t *testing.T) {
	work := func(tenants int) (steps, fresh, again int) {
		for seed := range uint64(30) {
			g := rand.New(rand.NewPCG(seed, 3))
			c := newCrowd(t, Config{MaxTokens: 64, MaxSeqs: 1 + g.IntN(6), MaxSeqTokens: 1600}, 102+g.IntN(50))
			var all []*Sequence
			for range 12 {
				all = append(all, c.add(fmt.Sprint(g.IntN(4)%tenants), "", 1+g.IntN(3), 1+g.IntN(1000), 1+g.IntN(600))...)
				for range g.IntN(60) {
					c.step()
				}
			}
			for _, q := range all {
				c.until(q, 100000)
				fresh += len(q.Tokens)
			}
			steps += c.steps
			again += c.again
		}
		return steps, fresh, again
	}
	steps1, fresh, again1 := work(1)
	steps4, _, again4 := work(4)
	t.Logf("%d tokens; of one tenant %d again in %d steps, of four %d in %d", fresh, again1, steps1, again4, steps4)
	if again4 > again1+again1/2+fresh/creditRate || steps4 > steps1+steps1/2 {
		t.Error("four tenants take memory from each other too often")
	}
}

// With places alone, at most a fifth of the work is lost.
func TestPlacesTakenBackCostLittle(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 512, MaxSeqs: 8, MaxSeqTokens: 8192}, 40000)
	c.add("flood", "", 200, 2000, 2000)
	for range 20000 {
		if c.steps%3 == 0 {
			c.add("newcomer", "", 1, 5, 2)
		}
		c.step()
	}
	fresh := c.given["flood"] + c.given["newcomer"]
	if c.again > fresh/creditRate+int(c.s.maxCredit())/creditRate+8192 {
		t.Errorf("%d tokens were computed and %d again", fresh, c.again)
	}
	if c.again == 0 {
		t.Error("nothing was preempted")
	}
}

// Nobody can keep a sequence waiting for ever by new names.
func TestNewTenantsDoNotOvertakeForEver(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 64, MaxSeqs: 4, MaxSeqTokens: 4096}, 4000)
	q := c.add("old", "", 1, 2000, 50)[0]
	for range 3 {
		c.step()
	}
	for q.Status != Finished {
		for range 4 {
			c.add(fmt.Sprint("new ", c.last), "", 1, 40, 3)
		}
		if c.step(); c.steps > 5000 {
			t.Fatalf("%d tokens of 2050 are computed after %d steps", q.Computed, c.steps)
		}
	}
	t.Logf("%d steps", c.steps)
}

// What is kept of tenants and projects is bounded, whatever names clients invent, and a
// tenant that goes away for a moment does not get more by it.
func TestIdlePartsAreForgotten(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 512, MaxSeqs: 64, MaxSeqTokens: 4096}, 4000)
	c.add("steady", "", 1, 10, 4000)
	for i := range 30000 {
		c.add(fmt.Sprint("tenant ", i%7000), fmt.Sprint("project ", i), 1, 1, 1)
		if i%50 == 49 {
			c.step()
		}
	}
	for c.s.waiting > 0 {
		c.step()
	}
	n := 0
	for _, class := range c.s.classes {
		for _, tenant := range class.parts {
			n += 1 + len(tenant.parts)
		}
	}
	if n > maxIdle+10 || len(c.s.idle) > maxIdle {
		t.Errorf("%d tenants and projects and %d entries are kept", n, len(c.s.idle))
	}
}

// A sequence that is preempted does not pay a second time.
func TestRecomputationIsFree(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 512, MaxSeqs: 4, MaxSeqTokens: 4096}, 4000)
	q := c.add("a", "", 1, 1000, 50)[0]
	c.until(c.add("b", "", 1, 100, 10)[0], 100)
	c.s.ForgetPrefixes(true)
	c.until(q, 1000)
	if got, want := (q.tenant().served-q.tenant().within.parts["b"].served)*UsualWeight/tokenPrice, int64(940); got < want-120 || got > want+10 {
		t.Errorf("a has paid %d tokens more than b, want about %d", got, want)
	}
}

// TestFullOfDecodes: where running sequences that want a token each take all of a step, one that waits
// still gets its turn, and of several projects the one that has been served least.
func TestFullOfDecodes(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 4, MaxSeqs: 8, MaxSeqTokens: 4096}, 4000)
	c.add("a", "", 4, 1, 1000)
	for range 20 {
		if c.step(); len(c.s.plan) != 4 {
			t.Fatalf("a step has %d chunks", len(c.s.plan))
		}
	}
	c.until(c.add("b", "", 1, 8, 4)[0], 40)
	c.add("b", "", 4, 1, 1000)
	before := maps.Clone(c.given)
	for range 200 {
		c.step()
	}
	if a, b := c.given["a"]-before["a"], c.given["b"]-before["b"]; a+b != 800 || a-b > 20 || b-a > 20 {
		t.Errorf("a got %d tokens and b %d of 800", a, b)
	}
}

// BenchmarkFullOfDecodes is the plan of a step in which each running sequence gets a token, and
// nothing else has room, while others wait or not.
func BenchmarkFullOfDecodes(b *testing.B) {
	for _, waiting := range []int{0, 64} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			const n = 1024
			c := newCrowd(b, Config{MaxTokens: n, MaxSeqs: n, MaxSeqTokens: 1 << 20}, 1<<20)
			c.add("a", "", n+waiting, 16, 1<<19)
			for range 100 {
				c.step()
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, chunk := range c.s.Schedule() {
					c.s.Commit(chunk, 1)
				}
				c.s.EndStep()
			}
		})
	}
}

// BenchmarkSchedule is the plan of a step: 256 running sequences, of as many tenants as there
// are, and 4,096 waiting ones of up to 1,000 tenants.
func BenchmarkSchedule(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		for _, waiting := range []int{0, 4096} {
			b.Run(fmt.Sprintf("tenants=%d/waiting=%d", tenants, waiting), func(b *testing.B) {
				c := newCrowd(b, Config{MaxTokens: 512, MaxSeqs: 256, MaxSeqTokens: 1 << 20, MaxPrefill: 128}, 1<<20)
				for i := range 256 + waiting {
					c.add(fmt.Sprint(i%tenants), "", 1, 100, 1<<19)
				}
				for range 400 {
					c.step()
				}
				b.ReportAllocs()
				for b.Loop() {
					for _, chunk := range c.s.Schedule() {
						c.s.Commit(chunk, 1)
					}
					c.s.EndStep()
				}
			})
		}
	}
}
