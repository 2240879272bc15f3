package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// SweepConfig says which loads RunSweep puts on which servers.
type SweepConfig struct {
	ServeConfig         // the load of every cell, but for its rate or concurrency, its size and its seed
	Name        string  // of the server of ServeConfig
	Versus      []Rival // further servers

	Rates         []float64 // requests per second of the cells
	Concurrencies []int     // largest numbers of requests in flight of further cells
	Rounds        int       // turns of each server at each cell
	// Time is how long a cell sends requests, if it has a rate; PerStream is how many requests a cell with
	// a concurrency sends for each of its streams. Both are for cells whose NumPrompts is 0.
	Time      time.Duration
	PerStream int

	// Search looks for the highest rate at which at least Share of the requests meet Goodput.
	Search    bool
	Share     float64
	Start     float64 // requests per second of the first probe
	Tolerance float64 // how close the highest rate that passed and the lowest that failed must come, as a share
}

// Rival is a server that is compared with another.
type Rival struct {
	Name string
	Target
}

// DefaultSweepConfig is a sweep over no cells yet.
func DefaultSweepConfig() SweepConfig {
	c := SweepConfig{ServeConfig: DefaultServeConfig(), Name: "server", Rounds: 1, Time: 30 * time.Second, PerStream: 10, Share: 0.99, Start: 1, Tolerance: 0.05}
	c.NumPrompts = 0
	return c
}

// Limits of a sweep.
const (
	maxCells    = 10000
	leastCell   = 20   // requests
	maxProbes   = 40   // of a search
	leastProbed = 1024 // a search goes down to Start divided by this, and up to Start times its square
)

// Validate returns an error if RunSweep would refuse the configuration.
func (c *SweepConfig) Validate() error {
	if len(c.Rates)+len(c.Concurrencies) == 0 && !c.Search {
		return fmt.Errorf("bench: a sweep needs rates or concurrencies, or a search")
	}
	if c.Ramp.Strategy != "" || c.SelfTimed {
		return fmt.Errorf("bench: a cell of a sweep has a rate or a concurrency, not a ramp or the times of a trace")
	}
	if c.Rounds < 1 || c.Rounds*(len(c.Rates)+len(c.Concurrencies)) > maxCells || c.Time <= 0 || c.PerStream < 1 {
		return fmt.Errorf("bench: %d rounds of cells of %v or %d requests per stream", c.Rounds, c.Time, c.PerStream)
	}
	if c.Search && (c.Goodput == Goodput{} || !(c.Share > 0 && c.Share <= 1) || !(c.Start > 0) || !(c.Tolerance > 0)) {
		return fmt.Errorf("bench: a search needs conditions of goodput, a share in (0, 1], a rate to start from and a tolerance")
	}
	names := map[string]bool{}
	for _, r := range c.rivals() {
		if r.Name == "" || names[r.Name] {
			return fmt.Errorf("bench: two servers are named %q, or one has no name", r.Name)
		}
		names[r.Name] = true
	}
	for _, cell := range c.cells() {
		for i := range c.rivals() {
			one := c.load(cell, i)
			if err := one.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rivals are all servers, the first of which is that of ServeConfig.
func (c *SweepConfig) rivals() []Rival {
	return append([]Rival{{c.Name, c.Target}}, c.Versus...)
}

// cell is a load that every server gets once. All of them get it with the same seed, and no other cell has
// this seed, so that no prefix cache answers.
type cell struct {
	rate        float64
	concurrency int // 0: the cell has a rate
	round       int
	seed        uint64
}

// cells are those of all rounds, in the order in which they are measured.
func (c *SweepConfig) cells() (list []cell) {
	for round := range c.Rounds {
		for _, rate := range c.Rates {
			list = append(list, cell{rate: rate, round: round})
		}
		for _, n := range c.Concurrencies {
			list = append(list, cell{rate: math.Inf(1), concurrency: n, round: round})
		}
	}
	for i := range list {
		list[i].seed = c.Seed + uint64(i)
	}
	return list
}

// order is in which order n servers take their turns: each turn of a cell is in the reverse order of the one before,
// so that what drifts with time falls on all alike.
func order(n, turn int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	if turn%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

// load is that of a cell on server i.
func (c *SweepConfig) load(x cell, i int) ServeConfig {
	s := c.ServeConfig
	s.Target = c.rivals()[i].Target
	s.Seed, s.Variant = x.seed, uint64(i)
	s.Rate = x.rate
	if x.concurrency > 0 {
		s.MaxConcurrency = x.concurrency
	}
	if s.NumPrompts == 0 {
		n := float64(x.concurrency * c.PerStream)
		if x.concurrency == 0 {
			n = x.rate * c.Time.Seconds()
		}
		s.NumPrompts = int(min(max(math.Ceil(n), leastCell), maxPrompts))
	}
	return s
}

// Sweep is what RunSweep measured.
type Sweep struct {
	Date        time.Time
	Config      SweepConfig
	Interrupted bool
	Points      []*Point // those that were measured, at least in part
	Found       []*Found // of each server, if there was a search
}

// Point is a load, and what each server made of it.
type Point struct {
	Rate        float64     // +Inf: Concurrency counts
	Concurrency int         // 0: Rate counts
	Reports     [][]*Report // of each server, of each round
}

// Found is what a search found for one server.
type Found struct {
	Rate   float64 // the highest at which enough requests were good; 0: there was none
	Failed float64 // the lowest at which too few were; 0: there was none
	Probes []Probe
}

// Probe is a rate that a search tried.
type Probe struct {
	Rate   float64 `json:"rate"`
	Share  float64 `json:"good_share"` // of the requests
	Passed bool    `json:"passed"`
}

// Empty reports whether nothing was measured.
func (w *Sweep) Empty() bool {
	measured := slices.ContainsFunc(w.Points, func(p *Point) bool {
		return slices.ContainsFunc(p.Reports, func(r []*Report) bool { return len(r) > 0 })
	})
	return !measured && !slices.ContainsFunc(w.Found, func(f *Found) bool { return len(f.Probes) > 0 })
}

// sweeper runs a sweep.
type sweeper struct {
	c     *SweepConfig
	run   func(ctx context.Context, c ServeConfig) (*Report, error)
	begin func(title string)
	out   *Sweep
}

// RunSweep measures cells of loads, on one server or on several, which take turns: never more than one of
// them has a load. begin is told what is measured next. When ctx ends, the sweep has what was
// measured by then.
func RunSweep(ctx context.Context, c SweepConfig, begin func(title string)) (*Sweep, error) {
	s := sweeper{c: &c, run: RunServe, begin: begin}
	return s.sweep(ctx)
}

func (s *sweeper) sweep(ctx context.Context) (*Sweep, error) {
	if err := s.c.Validate(); err != nil {
		return nil, err
	}
	s.out = &Sweep{Date: time.Now(), Config: *s.c}
	err := s.measureCells(ctx)
	if err == nil && s.c.Search && ctx.Err() == nil {
		err = s.search(ctx)
	}
	s.out.Interrupted = ctx.Err() != nil
	if s.out.Interrupted {
		err = nil
	}
	return s.out, err
}

func (s *sweeper) measureCells(ctx context.Context) error {
	n := len(s.c.rivals())
	for turn, x := range s.c.cells() {
		p := s.out.point(x, n)
		for _, i := range order(n, turn+x.round) {
			r, err := s.measure(ctx, x, i, fmt.Sprintf("round %d of %d", x.round+1, s.c.Rounds))
			if err != nil {
				return err
			}
			if r.Interrupted {
				return nil
			}
			p.Reports[i] = append(p.Reports[i], r)
		}
	}
	return nil
}

// point finds or makes the point of a cell.
func (w *Sweep) point(x cell, servers int) *Point {
	for _, p := range w.Points {
		if p.Rate == x.rate && p.Concurrency == x.concurrency {
			return p
		}
	}
	p := &Point{Rate: x.rate, Concurrency: x.concurrency, Reports: make([][]*Report, servers)}
	w.Points = append(w.Points, p)
	return p
}

// measure puts the load of a cell on server i.
func (s *sweeper) measure(ctx context.Context, x cell, i int, what string) (*Report, error) {
	rival := s.c.rivals()[i]
	load := s.c.load(x, i)
	s.begin(fmt.Sprintf("%s, %s, %s", rival.Name, loadName(x.rate, x.concurrency), what))
	r, err := s.run(ctx, load)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rival.Name, err)
	}
	return r, nil
}

// loadName is the load of a cell in words.
func loadName(rate float64, concurrency int) string {
	if concurrency > 0 {
		return fmt.Sprintf("%d at a time", concurrency)
	}
	return decimal(math.Round(rate*1000)/1000) + " requests/s"
}

// search looks for the highest rate of each server. Servers whose search goes on take turns.
func (s *sweeper) search(ctx context.Context) error {
	n := len(s.c.rivals())
	searches := make([]*rateSearch, n)
	for i := range searches {
		searches[i] = newRateSearch(s.c.Start, s.c.Tolerance)
		s.out.Found = append(s.out.Found, &Found{})
	}
	first := s.c.Seed + uint64(len(s.c.cells()))
	for turn := 0; turn < maxProbes && slices.ContainsFunc(searches, func(r *rateSearch) bool { return !r.done() }); turn++ {
		for _, i := range order(n, turn) {
			if searches[i].done() {
				continue
			}
			if err := s.probe(ctx, searches[i], i, first+uint64(turn)); err != nil || ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

// probe tries the next rate on server i.
func (s *sweeper) probe(ctx context.Context, search *rateSearch, i int, seed uint64) error {
	rate := search.next()
	r, err := s.measure(ctx, cell{rate: rate, seed: seed}, i, "search")
	if err != nil || r.Interrupted {
		return err
	}
	p := Probe{Rate: rate, Share: r.goodShare()}
	p.Passed = p.Share >= s.c.Share
	search.report(p.Passed)
	f := s.out.Found[i]
	f.Probes = append(f.Probes, p)
	f.Rate, f.Failed = search.low, search.high
	return nil
}

// goodShare is the share of the requests that were good ones. A request that failed is not; one whose client
// left does not count.
func (r *Report) goodShare() float64 {
	return float64(r.Good) / float64(max(1, r.Completed+r.Failed+r.Cut))
}

// rateSearch finds the highest rate that passes, if all below it pass too: it doubles the rate until one fails, or
// halves it until one passes, and then halves the distance on a logarithmic scale.
type rateSearch struct {
	start, tolerance float64
	low, high        float64 // highest rate that passed, lowest that failed; 0: none yet
}

func newRateSearch(start, tolerance float64) *rateSearch {
	return &rateSearch{start: start, tolerance: tolerance}
}

// next is the rate to try.
func (s *rateSearch) next() float64 {
	switch {
	case s.low == 0 && s.high == 0:
		return s.start
	case s.high == 0:
		return 2 * s.low
	case s.low == 0:
		return s.high / 2
	}
	return math.Sqrt(s.low * s.high)
}

// report says whether the rate that next returned passed.
func (s *rateSearch) report(passed bool) {
	if rate := s.next(); passed {
		s.low = rate
	} else {
		s.high = rate
	}
}

func (s *rateSearch) done() bool {
	switch {
	case s.low == 0:
		return s.high > 0 && s.high <= s.start/leastProbed
	case s.high == 0:
		return s.low >= s.start*leastProbed*leastProbed
	}
	return s.high <= s.low*(1+s.tolerance)
}

// figures are the means over rounds of what server i made of a point, with their variation.
func (p *Point) figures(i int) (figures []figure, v []Variation) {
	s := Series{Reports: p.Reports[i]}
	if len(s.Reports) == 0 {
		return nil, nil
	}
	return s.variations()
}

// value is the mean of the figure with this key, or NaN if there is none.
func (p *Point) value(i int, key string) float64 {
	figures, v := p.figures(i)
	for j, f := range figures {
		if f.key == key {
			return v[j].Mean
		}
	}
	return math.NaN()
}

// sorted are the points, those with rates first, from the smallest load on.
func (w *Sweep) sorted() []*Point {
	list := slices.Clone(w.Points)
	slices.SortStableFunc(list, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.Concurrency, b.Concurrency), cmp.Compare(a.Rate, b.Rate))
	})
	return list
}
