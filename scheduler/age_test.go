package scheduler

import (
	"fmt"
	"testing"
)

// rush keeps a scheduler full of urgent work of two tenants, with prompts and outputs of all kinds.
func (c *crowd) rush() {
	c.priority = 0
	for i, tenant := range []string{"a", "b"} {
		if p := c.s.projectOf(tenant, ""); p == nil || len(p.queue) < 8 {
			c.add(tenant, "", 8, 30+200*i, 40-30*i)
		}
	}
}

func (c *crowd) total() (n int) {
	for _, tenant := range []string{"a", "b", "low"} {
		n += c.given[tenant]
	}
	return n
}

// The least urgent request is computed within the bound that the documentation states, whatever
// more urgent ones come: after 16 full steps, with its tenant's part of the machine, here a third. Work in
// the background is such a request, too.
func TestLowestPriorityFinishes(t *testing.T) {
	for _, priority := range []int64{1, 1000, Background} {
		for _, prompt := range []int{1, 500, 6000} {
			c := newCrowd(t, Config{MaxTokens: 128, MaxSeqs: 8, MaxSeqTokens: 8192, MaxPrefill: 32, Priority: true}, 2000)
			for range 100 {
				c.rush()
				c.step()
			}
			c.priority = priority
			const output = 20
			begun, ended := c.inRush(c.add("low", "", 1, prompt, output)[0])
			const longest = 230 + 40 // a place becomes free, or is taken back for its tenant
			if most := ageSteps*128 + 8*longest; begun > most {
				t.Errorf("priority %d, prompt %d: it began after %d tokens of others, want %d at most", priority, prompt, begun, most)
			}
			if most := ageSteps*128 + 8*longest + 3*(prompt+output*128); ended > most {
				t.Errorf("priority %d, prompt %d: it ended after %d tokens, want %d at most", priority, prompt, ended, most)
			}
			if c.s.Counters().Aged != 1 {
				t.Errorf("%d sequences were lifted", c.s.Counters().Aged)
			}
		}
	}
}

// inRush makes steps in a rush until q has finished, and returns how many tokens were computed
// until it began and until then.
func (c *crowd) inRush(q *Sequence) (begun, ended int) {
	from := c.total()
	for q.Status != Finished {
		c.rush()
		if c.step(); q.Computed > 0 && begun == 0 {
			begun = c.total() - from
		}
		if c.total()-from > 1_000_000 {
			c.Fatalf("nothing has come of sequence %d", q.ID)
		}
	}
	return begun, c.total() - from
}

// However much of it waits, less urgent work gets about a sixteenth and no more, also when a
// client invents a class for each of its requests.
func TestUrgentWorkLosesASixteenth(t *testing.T) {
	for _, classes := range []int{1, 3, 500} {
		c := newCrowd(t, Config{MaxTokens: 128, MaxSeqs: 16, MaxSeqTokens: 8192, MaxPrefill: 64, Priority: true}, 2000)
		for i := range 500 {
			c.priority = int64(1 + i%classes)
			c.add("low", fmt.Sprint("p", i%3), 1, 100+i%400, 10+i%50)
		}
		for range 2000 {
			c.rush()
			c.step()
		}
		part := float64(c.given["low"]) / float64(c.total())
		t.Logf("%d classes: %.4f of %d tokens, %d were lifted", classes, part, c.total(), c.s.Counters().Aged)
		if part < 0.045 || part > 0.07 {
			t.Errorf("%d classes: the less urgent have got %.3f of the tokens", classes, part)
		}
	}
}

// Without a more urgent class nothing ages, and a class that is served is owed nothing.
func TestNothingAgesAlone(t *testing.T) {
	c := newCrowd(t, Config{MaxTokens: 64, MaxSeqs: 4, MaxSeqTokens: 4096, Priority: true}, 2000)
	c.priority = Background
	c.add("low", "", 100, 100, 20)
	for range 300 {
		c.step()
	}
	if n := c.s.Counters().Aged; n > 0 {
		t.Errorf("%d sequences were lifted", n)
	}
}
