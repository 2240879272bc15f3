package compute

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"weir/backend"
	"weir/device/cpu/limits"
	"weir/model"
)

// Subject is what is measured.
type Subject struct {
	Network   *model.Config
	Runner    *model.Runner // of the options that Config.Options gave
	Stopwatch *Stopwatch    // the runner's device
	Quantized bool          // products are of 8-bit integers

	WeightBytes     float64 // of all matrices as the device holds them
	KVBytesPerToken float64
	Threads         int
}

// Run measures all cases in order. progress, if not nil, hears of each before
// it starts. When ctx ends, the rows measured so far are returned with its error.
func Run(ctx context.Context, s Subject, c Config, progress func(Case)) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := c.plan(s.Network, s.KVBytesPerToken)
	r := &Report{Threads: s.Threads, Quantized: s.Quantized, WeightBytes: s.WeightBytes, KVBytesPerToken: s.KVBytesPerToken, Config: c, Skipped: p.skipped}
	if err := r.Limits.measure(c.Memory, s.Threads); err != nil {
		return nil, err
	}
	d := newDriver(s, c, p.lengths)
	stop := litter(c.Garbage)
	defer stop()
	for _, x := range p.cases {
		if progress != nil {
			progress(x)
		}
		row, err := d.row(ctx, x)
		if err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, row)
	}
	// The machine's speed may have changed meanwhile.
	return r, r.Limits.measure(c.Memory, s.Threads)
}

// Limits are what the machine can do, measured before and after the rows, with
// one thread and with as many as compute.
type Limits struct {
	ReadForm, FMAForm, Int8Form string
	Read, FMA, Int8             [2]limits.Rates // per second
}

// passes of each measurement of a limit; the best counts.
const passes = 5

func (l *Limits) measure(bytes, threads int) error {
	if bytes == 0 {
		return nil
	}
	m, err := limits.Open(bytes)
	if err != nil {
		return err
	}
	l.ReadForm, l.FMAForm, l.Int8Form = limits.Forms()
	for i, n := range [2]int{1, threads} {
		if i == 1 && threads == 1 {
			l.Read[1], l.FMA[1], l.Int8[1] = l.Read[0], l.FMA[0], l.Int8[0]
			break
		}
		l.Read[i] = append(l.Read[i], m.Read(n, passes)...)
		l.FMA[i] = append(l.FMA[i], limits.FMA(n, passes)...)
		l.Int8[i] = append(l.Int8[i], limits.Int8(n, passes)...)
	}
	return m.Close()
}

// Row is what was measured of a case.
type Row struct {
	Case
	Rates []float64       // tokens per second, of each repetition
	Steps []time.Duration // of all repetitions, in order
	Cost  Cost            // of all these steps
	Spent Spent           // in all these steps
	Heap  Heap            // over all these steps
}

// Heap is what the Go heap saw.
type Heap struct {
	Allocs, Bytes uint64 // of the steps alone if there is no garbage beside them
	Cycles        uint32 // of the collector
	Paused        time.Duration
}

// driver gives the runner steps as the engine would.
type driver struct {
	s       Subject
	c       Config
	net     *network
	tables  [][]int32 // [sequence] blocks, scattered over the pool
	filled  []int     // [sequence] positions in the cache
	batch   backend.Batch
	draws   backend.Draws
	out     backend.Out
	numbers *rand.Rand
}

func newDriver(s Subject, c Config, lengths []int) *driver {
	d := &driver{s: s, c: c, net: newNetwork(s.Network, s.WeightBytes, s.KVBytesPerToken), filled: make([]int, len(lengths)), numbers: rand.New(rand.NewPCG(1, 2))}
	// A cache that has been in use for a while hands out blocks in no order.
	free := d.numbers.Perm(c.blocks(lengths) - 1)
	for _, n := range lengths {
		table := make([]int32, (n+c.BlockTokens-1)/c.BlockTokens)
		for i := range table {
			table[i] = int32(free[i]) + 1
		}
		d.tables, free = append(d.tables, table), free[len(table):]
	}
	return d
}

// row measures a case: one repetition that warms up and is not counted, then
// those that are.
func (d *driver) row(ctx context.Context, x Case) (Row, error) {
	row := Row{Case: x}
	if x.Phase == Decode {
		for s := range x.Batch {
			if err := d.fill(ctx, s, x.Context); err != nil {
				return row, err
			}
		}
	}
	if err := d.repeat(ctx, x, &Row{}, d.steps(x, true)); err != nil {
		return row, err
	}
	d.s.Stopwatch.take()
	n := d.steps(x, false)
	row.Rates, row.Steps = make([]float64, 0, d.c.Repeats), make([]time.Duration, 0, n*d.c.Repeats)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range d.c.Repeats {
		if err := d.repeat(ctx, x, &row, n); err != nil {
			return row, err
		}
	}
	runtime.ReadMemStats(&after)
	row.Heap = Heap{after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc, after.NumGC - before.NumGC, time.Duration(after.PauseTotalNs - before.PauseTotalNs)}
	row.Spent = d.s.Stopwatch.take()
	return row, nil
}

// steps is how many steps a repetition has; what only warms up need not be a
// whole one.
func (d *driver) steps(x Case, warm bool) int {
	n := d.c.Steps
	if x.Phase == Prefill {
		n = (x.Context + d.c.MaxTokens - 1) / d.c.MaxTokens
	}
	if warm {
		return min(n, 2)
	}
	return n
}

// repeat takes the first steps of a case. Its slices have room.
func (d *driver) repeat(ctx context.Context, x Case, row *Row, steps int) error {
	tokens := 0
	var spent time.Duration
	for i := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.Phase == Prefill {
			first := i * d.c.MaxTokens
			end := min(first+d.c.MaxTokens, x.Context)
			d.begin()
			d.chunk(0, first, end, end == x.Context)
			d.filled[0] = max(d.filled[0], end)
		} else {
			d.decode(x, i)
		}
		start := time.Now()
		if err := d.step(); err != nil {
			return err
		}
		took := time.Since(start)
		spent += took
		tokens += len(d.batch.Tokens)
		row.Steps = append(row.Steps, took)
		row.Cost.add(d.net.cost(&d.batch))
	}
	row.Rates = append(row.Rates, float64(tokens)/spent.Seconds())
	return nil
}

// begin empties the batch.
func (d *driver) begin() {
	d.batch.Reset()
	d.draws.Reset()
}

// decode is step i of a case: a token for each sequence, the one that it drew in
// the step before.
func (d *driver) decode(x Case, i int) {
	d.begin()
	for s := range x.Batch {
		d.chunk(s, x.Context+i, x.Context+i+1, true)
		if i > 0 {
			d.batch.Tokens[s] = max(0, d.out.Tokens[s])
		}
	}
}

// chunk adds positions [first, end) of sequence s to the batch, and draws the
// last one if asked.
func (d *driver) chunk(s, first, end int, draw bool) {
	b := &d.batch
	for pos := first; pos < end; pos++ {
		b.Tokens = append(b.Tokens, int32(d.numbers.IntN(d.s.Network.VocabSize)))
		b.Pos = append(b.Pos, int32(pos))
		b.Slots = append(b.Slots, d.tables[s][pos/d.c.BlockTokens]*int32(d.c.BlockTokens)+int32(pos%d.c.BlockTokens))
	}
	b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
	b.KVLen = append(b.KVLen, int32(end))
	b.Tables = append(b.Tables, d.tables[s][:(end+d.c.BlockTokens-1)/d.c.BlockTokens]...)
	b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
	if draw {
		b.At = append(b.At, int32(len(b.Tokens)-1))
		d.draws.Rows = append(d.draws.Rows, backend.Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1})
	}
}

// step runs the batch as one step of greedy draws.
func (d *driver) step() error {
	if n := len(d.batch.At); cap(d.out.Tokens) < n {
		d.out.Tokens, d.out.Logprobs, d.out.Ranks = make([]int32, n), make([]float32, n), make([]int32, n)
	} else {
		d.out.Tokens, d.out.Logprobs, d.out.Ranks = d.out.Tokens[:n], d.out.Logprobs[:n], d.out.Ranks[:n]
	}
	r := d.s.Runner
	if err := r.Begin(&d.batch); err != nil {
		return fmt.Errorf("compute: begin a step: %w", err)
	}
	if err := r.Draw(&d.draws); err != nil {
		return fmt.Errorf("compute: draw: %w", err)
	}
	if err := r.End(&d.out); err != nil {
		return fmt.Errorf("compute: end a step: %w", err)
	}
	return nil
}

// fill gives sequence s n positions in the cache.
func (d *driver) fill(ctx context.Context, s, n int) error {
	for d.filled[s] < n {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(d.filled[s]+d.c.MaxTokens, n)
		d.begin()
		d.chunk(s, d.filled[s], end, false)
		if err := d.s.Runner.FillCache(&d.batch); err != nil {
			return fmt.Errorf("compute: fill the cache: %w", err)
		}
		d.filled[s] = end
	}
	return nil
}

// litter allocates so many bytes per second until stop is called, in pieces as
// requests do, so that collections run as they do under load.
func litter(perSecond int) (stop func()) {
	if perSecond == 0 {
		return func() {}
	}
	const every = 2 * time.Millisecond
	const piece = 4 << 10
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		var live [256][]byte // what requests hold meanwhile: 1 MiB
		tick := time.NewTicker(every)
		defer tick.Stop()
		last, debt := time.Now(), 0.0
		for n := 0; ; {
			select {
			case <-done:
				return
			case now := <-tick.C:
				debt += now.Sub(last).Seconds() * float64(perSecond)
				for last = now; debt >= piece; debt -= piece {
					live[n%len(live)] = make([]byte, piece)
					n++
				}
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}
