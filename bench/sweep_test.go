package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

// madeUp is what a server that can do so many requests per second makes of a load: answers of two tokens
// that take 100 ms until then, and 1 s beyond.
func madeUp(c *ServeConfig, capacity float64) *Report {
	took := 100 * msec
	if c.Rate > capacity || float64(c.MaxConcurrency) > capacity {
		took = time.Second
	}
	var outcomes []outcome
	for i := range c.NumPrompts {
		at := time.Duration(i) * 10 * msec
		outcomes = append(outcomes, outcome{begun: true, due: at, arrived: at, sent: at, first: at + took/2, last: at + took, gaps: []time.Duration{took / 2}, prompt: 5, completion: 2, usage: true, outputs: 2})
	}
	return newReport(c, outcomes)
}

// turns runs a sweep over servers of these capacities, and lists the turns that they took.
func turns(t *testing.T, c SweepConfig, capacities ...float64) (w *Sweep, list []string) {
	t.Helper()
	busy := false
	s := sweeper{c: &c, begin: func(string) {}, run: func(_ context.Context, load ServeConfig) (*Report, error) {
		if busy {
			t.Error("two servers at once")
		}
		busy = true
		defer func() { busy = false }()
		list = append(list, fmt.Sprintf("%s rate=%v max=%d n=%d seed=%d variant=%d", strings.TrimPrefix(load.BaseURL, "http://"), load.Rate, load.MaxConcurrency, load.NumPrompts, load.Seed, load.Variant))
		return madeUp(&load, capacities[load.Variant]), nil
	}}
	w, err := s.sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w, list
}

func twoServers() SweepConfig {
	c := DefaultSweepConfig()
	c.BaseURL, c.Name = "http://a", "alpha"
	c.Versus = []Rival{{"beta", Target{BaseURL: "http://b", Endpoint: Chat}}}
	c.Seed, c.Goodput, c.Time = 100, Goodput{E2EL: 500}, 10*time.Second
	return c
}

// TestSweepTurns: servers take turns, in an order that is reversed each time; every cell has a seed of its own, that
// all servers get, and the words of each server differ.
func TestSweepTurns(t *testing.T) {
	c := twoServers()
	c.Rates, c.Concurrencies, c.Rounds = []float64{4}, []int{8}, 2
	w, got := turns(t, c, 10, 10)
	want := []string{
		"a rate=4 max=0 n=40 seed=100 variant=0", "b rate=4 max=0 n=40 seed=100 variant=1",
		"b rate=+Inf max=8 n=80 seed=101 variant=1", "a rate=+Inf max=8 n=80 seed=101 variant=0",
		"b rate=4 max=0 n=40 seed=102 variant=1", "a rate=4 max=0 n=40 seed=102 variant=0",
		"a rate=+Inf max=8 n=80 seed=103 variant=0", "b rate=+Inf max=8 n=80 seed=103 variant=1",
	}
	if len(want) != len(got) {
		t.Fatalf("%q", got)
	}
	if w.Points[0].Rate != 4 || len(w.Points) != 2 || len(w.Points[1].Reports[1]) != 2 {
		t.Errorf("%+v", w.Points)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRateSearch: bisection finds what trying every rate would, for capacities above and below its start.
func TestRateSearch(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		capacity := math.Exp(rnd.Float64()*12 - 4)
		s := newRateSearch(math.Exp(rnd.Float64()*6-3), 0.05)
		probes := 0
		for ; !s.done(); probes++ {
			s.report(s.next() <= capacity)
		}
		if s.low > capacity || s.high <= capacity || s.high > s.low*1.05 || probes > maxProbes {
			t.Errorf("capacity %v from %v: between %v and %v after %d probes", capacity, s.start, s.low, s.high, probes)
		}
	}
	for want, s := range map[bool]*rateSearch{true: newRateSearch(1, 0.05), false: newRateSearch(1, 0.05)} {
		probes := 0
		for ; !s.done() && probes < 100; probes++ {
			s.report(want)
		}
		if probes > maxProbes || want && (s.high != 0 || s.low < 1e6) || !want && (s.low != 0 || s.high > 1./leastProbed) {
			t.Errorf("%v for ever: %+v after %d probes", want, s, probes)
		}
	}
}

// TestSweepSearch: each server is searched for the highest rate at which enough requests are good. They take turns, and
// one that is done takes none.
func TestSweepSearch(t *testing.T) {
	c := twoServers()
	c.Search, c.Start = true, 4
	w, list := turns(t, c, 23, 3)
	if a, b := w.Found[0], w.Found[1]; a.Rate > 23 || a.Failed <= 23 || a.Failed > a.Rate*1.05 || b.Rate > 3 || b.Failed <= 3 || b.Failed > b.Rate*1.05 {
		t.Errorf("%+v %+v", a, b)
	}
	if len(list) != len(w.Found[0].Probes)+len(w.Found[1].Probes) || list[0][:1] != "a" || list[1][:1] != "b" || list[2][:1] != "b" {
		t.Errorf("%q", list)
	}
	seen := map[string]bool{}
	for _, turn := range list {
		server, seed := turn[:1], turn[strings.Index(turn, "seed="):]
		if seen[server+seed] {
			t.Errorf("%s twice: %s", seed, turn)
		}
		seen[server+seed] = true
	}
}

// TestGoodShare: failed requests are not good, and those whose clients left do not count.
func TestGoodShare(t *testing.T) {
	p := steady(1, 2, 100*msec, 100*msec)
	slow := steady(1, 2, time.Second, 100*msec)
	f, prompts := plansInTurn(p, slow, plan{status: 500}, p)
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.Goodput = Goodput{TTFT: 200} })
	if got := r.goodShare(); got != 0.5 {
		t.Errorf("%v", got)
	}
	if got := (&Report{Good: 3, Completed: 4, Left: 6}).goodShare(); got != 0.75 {
		t.Errorf("%v", got)
	}
}

// TestSweepGolden: the table, the CSV, the JSON and the data of the page.
func TestSweepGolden(t *testing.T) {
	c := twoServers()
	c.Rates, c.Concurrencies, c.Rounds, c.Search = []float64{8, 2}, []int{4}, 2, true
	w, _ := turns(t, c, 9, 3)
	w.Date = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, p := range w.Points {
		for _, reports := range p.Reports {
			for _, r := range reports {
				r.Date = w.Date
			}
		}
	}
	var text, line, table, object, pretty bytes.Buffer
	for _, err := range []error{w.WriteText(&text), w.WriteBenchmark(&line), w.WriteCSV(&table), w.WriteJSON(&object)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Indent(&pretty, object.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	page, err := json.MarshalIndent(w.page(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/sweep.txt", append(text.Bytes(), line.Bytes()...))
	testkit.Golden(t, "testdata/sweep.csv", table.Bytes())
	testkit.Golden(t, "testdata/sweep.json", pretty.Bytes())
	testkit.Golden(t, "testdata/sweep.page.json", page)
}

// TestSweepEnds: a server that cannot be reached ends a sweep with what was measured by then, and so does
// an interrupt.
func TestSweepEnds(t *testing.T) {
	c := twoServers()
	c.Rates, c.Rounds = []float64{2}, 3
	for _, interrupt := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		runs := 0
		s := sweeper{c: &c, begin: func(string) {}, run: func(_ context.Context, load ServeConfig) (*Report, error) {
			if runs++; runs < 4 {
				return madeUp(&load, 9), nil
			}
			if !interrupt {
				return nil, errors.New("refused")
			}
			cancel()
			return &Report{Interrupted: true}, nil
		}}
		w, err := s.sweep(ctx)
		if (err == nil) != interrupt || w.Interrupted != interrupt || len(w.Points[0].Reports[0])+len(w.Points[0].Reports[1]) != 3 || err != nil && err.Error() != "beta: refused" {
			t.Errorf("%v: %v %+v", interrupt, err, w.Points[0])
		}
	}
}

func TestSweepConfig(t *testing.T) {
	for want, change := range map[string]func(*SweepConfig){
		"":                     func(c *SweepConfig) {},
		"needs rates":          func(c *SweepConfig) { c.Rates = nil },
		"0 rounds":             func(c *SweepConfig) { c.Rounds = 0 },
		"not a ramp":           func(c *SweepConfig) { c.Ramp.Strategy = "linear" },
		"conditions":           func(c *SweepConfig) { c.Search, c.Goodput = true, Goodput{} },
		"a share":              func(c *SweepConfig) { c.Search, c.Share = true, 1.5 },
		`named "alpha"`:        func(c *SweepConfig) { c.Versus[0].Name = "alpha" },
		"no http":              func(c *SweepConfig) { c.Versus[0].BaseURL = "b" },
		"a request rate of -1": func(c *SweepConfig) { c.Rates = []float64{-1} },
	} {
		c := twoServers()
		c.Rates = []float64{1}
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
