package metrics

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSpread: a percentile of times over seven orders of magnitude is within 6 % of the exact one, and what was counted
// before is left out.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s, before Spread
	for range 1000 {
		s.Add(time.Duration(r.Int64N(1e12)), 1)
	}
	before = s
	var times []time.Duration
	for range 20_000 {
		d := time.Duration(float64(2*time.Microsecond) * float64(r.Int64N(1e7)+1) * r.Float64())
		d = max(d, 2*time.Microsecond)
		s.Add(d, 1)
		times = append(times, d)
	}
	slices.Sort(times)
	diff := s.Since(&before)
	if n := diff.Total(); n != 20_000 {
		t.Errorf("%d times", n)
	}
	for _, q := range []float64{.001, .5, .9, .99, 1} {
		want := times[max(1, int(q*20_000+.5))-1]
		if got := diff.Quantile(q); float64(got) < .94*float64(want) || float64(got) > 1.0625*float64(want) {
			t.Errorf("the %v-quantile is %v, want %v", q, got, want)
		}
	}
	var few Spread
	if few.Quantile(.5) != 0 {
		t.Error("a time where there is none")
	}
	few.Add(0, 1)
	few.Add(-time.Second, 1) // clocks
	few.Add(1<<62, 3)
	if few.Total() != 5 || few.Quantile(.4) > 2*time.Microsecond || few.Quantile(1) < 8*time.Hour {
		t.Errorf("%v %v", few.Quantile(.4), few.Quantile(1))
	}
}

// TestWatch: waits are counted while somebody watches, and not otherwise; a project without a series of its own is among the
// others.
func TestWatch(t *testing.T) {
	m := New()
	var at Moment
	if m.Moment(&at) {
		t.Error("a moment without an engine")
	}
	m.Used("a/b", 3, 4)
	m.Used("", 1, 2)
	m.Rejected(QueueFull)
	if list := m.Projects(func(p string) bool { return p == "" }); !slices.Equal(list, []Used{{"", 1, 1, 2}}) {
		t.Errorf("%v", list)
	}
	if counts := m.Refused(); len(counts) != 1 || counts[QueueFull] != 1 {
		t.Errorf("%v", counts)
	}
}
