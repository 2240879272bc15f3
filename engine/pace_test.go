package engine

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// device is a simple device: a step costs something, each token, and each position that a
// prompt's tokens look back to.
type device struct{ step, token, position float64 } // seconds

func (d device) took(prompt, before int) time.Duration {
	s := d.step + float64(prompt)*(d.token+d.position*(float64(before)+float64(prompt)/2))
	return time.Duration(s * float64(time.Second))
}

var devices = map[string]device{
	"a large step":    {5e-3, 27e-6, 4e-9},
	"dear tokens":     {20e-3, 500e-6, 0},
	"dear attention":  {10e-3, 50e-6, 20e-9},
	"a tiny network":  {100e-6, 1e-6, 0},
	"cheap positions": {2e-3, 10e-6, 1e-10},
}

// TestPacer: beside running answers steps approach the target and stay there while the prompt gets
// dearer, and the prompt takes at most three times as long as alone, whatever the target is.
func TestPacer(t *testing.T) {
	for name, d := range devices {
		for _, factor := range []float64{0.1, 1, 1.5, 2, 4, 1000} {
			target := time.Duration(factor * d.step * float64(time.Second))
			t.Run(fmt.Sprint(name, ", target ", target), func(t *testing.T) { testPacer(t, d, target) })
		}
	}
}

func testPacer(t *testing.T, d device, target time.Duration) {
	const prompt, most = 32768, 4096
	p := pacer{target: target, most: most}
	if p.budget() != 0 {
		t.Error("a budget without a measurement")
	}
	for range 20 {
		p.observe(d.took(0, 0), 32, 0)
	}
	p.observe(d.took(most, 0), 0, most)
	var all, alone time.Duration
	want := max(target, d.took(0, 0)*19/10)
	before := 0
	for at, steps := 0, 0; at < prompt; steps++ {
		n := min(p.budget(), prompt-at)
		took := d.took(n, at)
		p.observe(took, 32, n)
		all += took
		if settled := steps > 20 && at+n < prompt; settled {
			if off := float64(took) / float64(want); n < most && n > leastPrompt && (off > 1.1 || off < 0.75) {
				t.Errorf("step %d at %d takes %v, want about %v", steps, at, took, want)
			}
			if math.Abs(float64(n-before)) > float64(before)/8+1 {
				t.Errorf("step %d has %d tokens after %d", steps, n, before)
			}
		}
		at, before = at+n, n
	}
	for at := 0; at < prompt; at += most {
		alone += d.took(most, at)
	}
	if all > 3*alone+alone/10 { // the first steps have to find out
		t.Errorf("the prompt takes %v, and alone %v", all, alone)
	}
}

// A step that the system has held up changes little, and what has become cheaper is noticed.
func TestPacerForgives(t *testing.T) {
	d := device{5e-3, 27e-6, 0}
	p := pacer{target: 10 * time.Millisecond, most: 2048}
	for range 50 {
		p.observe(d.took(0, 0), 32, 0)
		p.observe(d.took(100, 0), 32, 100)
	}
	n := p.budget()
	p.observe(3*d.took(n, 0), 32, n)
	if m := p.budget(); m < n/2 {
		t.Errorf("after one slow step there are %d tokens instead of %d", m, n)
	}
	for range 40 {
		p.observe(d.took(p.budget(), 0), 32, p.budget())
	}
	if m := p.budget(); m < n*9/10 || m > n*11/10 {
		t.Errorf("some steps later there are %d tokens instead of %d", m, n)
	}
	var off pacer
	if off.observe(time.Second, 1, 1); off.budget() != 0 || off != (pacer{}) {
		t.Error("without a target something is measured")
	}
}
