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
	Runner    *model.Runner // with the options that Config.Options returned
	Stopwatch *Stopwatch    // the runner's device
	Quantized bool          // products are of 8-bit integers

	WeightBytes     float64 // of all matrices in the device's format
	KVBytesPerToken float64
	Threads         int
}

// Run measures all cases in order. progress, if not nil, is called with each case before
// it starts. When ctx ends, Run returns the rows that are complete, and an error.
func Run(ctx context.Context, s Subject, c Config, progress func(Case)) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := c.plan(s.Network, s.KVBytesPerToken)
	r := &Report{Threads: s.Threads, Quantized: s.Quantized, WeightBytes: s.WeightBytes, KVBytesPerToken: s.KVBytesPerToken, Config: c, Skipped: p.skipped}
	d := newDriver(s, c, p.lengths)
	if c.Memory > 0 {
		m, err := limits.Open(c.Memory)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		d.meter = m
	}
	r.Limits.measure(d.meter, s.Threads, c.passes)
	stop := allocateGarbage(c.Garbage)
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
	r.Limits.measure(d.meter, s.Threads, c.passes) // the speed of the machine may have changed meanwhile
	return r, nil
}

// Limits are what the machine can do, measured before and after the rows, with one thread
// and with as many as compute.
type Limits struct {
	ReadForm, FMAForm, Int8Form string
	Read, FMA, Int8             [2]limits.Rates // per second
}

// measure measures each limit this number of times; the best result counts.
func (l *Limits) measure(m *limits.Meter, threads, passes int) {
	if m == nil {
		return
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
}

// Row is what was measured of a case.
type Row struct {
	Case
	Rates []float64       // tokens per second, of each repetition
	Bytes []float64       // bytes per second that the steps had to read, of each repetition
	Reads []float64       // bytes per second that the machine can read, before each repetition and after the last
	Steps []time.Duration // times of all steps of all repetitions, in order
	Cost  Cost            // what all these steps had to do
	Spent Spent           // where the time of all these steps went
	Heap  Heap            // what they allocated
}

// Heap is what the Go heap did meanwhile.
type Heap struct {
	Allocs, Bytes uint64 // of the steps alone, unless garbage is allocated beside them
	Cycles        uint32 // garbage collections
	Paused        time.Duration
}

func (h *Heap) add(before, after *runtime.MemStats) {
	h.Allocs += after.Mallocs - before.Mallocs
	h.Bytes += after.TotalAlloc - before.TotalAlloc
	h.Cycles += after.NumGC - before.NumGC
	h.Paused += time.Duration(after.PauseTotalNs - before.PauseTotalNs)
}

// driver gives the runner the steps that the engine would give it.
type driver struct {
	s       Subject
	c       Config
	states  bool          // the network has recurrent states
	meter   *limits.Meter // nil: no limits are measured
	tables  [][]int32     // [sequence] blocks, scattered over the pool
	filled  []int         // [sequence] positions in the cache
	batch   backend.Batch
	draws   backend.Draws
	out     backend.Out
	numbers *rand.Rand
}

func newDriver(s Subject, c Config, lengths []int) *driver {
	s.Stopwatch.ledger.kvBytes = s.KVBytesPerToken
	d := &driver{s: s, c: c, states: s.Runner.Spec().StateSlots > 0, filled: make([]int, len(lengths)), numbers: rand.New(rand.NewPCG(1, 2))}
	// Blocks are taken in random order, as from a cache that has been in use for a while.
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

// row measures a case: a repetition to warm up, which is not counted, and then those that
// are.
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
	row.Rates, row.Bytes, row.Steps = make([]float64, 0, d.c.Repeats), make([]float64, 0, d.c.Repeats), make([]time.Duration, 0, n*d.c.Repeats)
	d.read(&row)
	for range d.c.Repeats {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := d.repeat(ctx, x, &row, n); err != nil {
			return row, err
		}
		runtime.ReadMemStats(&after)
		row.Heap.add(&before, &after)
		d.read(&row)
	}
	row.Spent = d.s.Stopwatch.take()
	return row, nil
}

// read measures the memory's speed between repetitions. On a shared machine it changes from
// second to second.
func (d *driver) read(row *Row) {
	if d.meter != nil {
		row.Reads = append(row.Reads, d.meter.Read(d.s.Threads, 1).Best())
	}
}

// steps is how many steps a repetition has. To warm up, two are enough.
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

// repeat runs the first steps of a case. The row's slices must have room, so that nothing is
// allocated.
func (d *driver) repeat(ctx context.Context, x Case, row *Row, steps int) error {
	tokens, before := 0, row.Cost.Bytes()
	d.s.Stopwatch.ledger.take()
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
		row.Cost.add(d.s.Stopwatch.ledger.take())
	}
	row.Rates = append(row.Rates, float64(tokens)/spent.Seconds())
	row.Bytes = append(row.Bytes, (row.Cost.Bytes()-before)/spent.Seconds())
	return nil
}

// begin empties the batch.
func (d *driver) begin() {
	d.batch.Reset()
	d.draws.Reset()
}

// decode makes step i of a case: one token for each sequence, the one that it drew in the
// step before.
func (d *driver) decode(x Case, i int) {
	d.begin()
	for s := range x.Batch {
		d.chunk(s, x.Context+i, x.Context+i+1, true)
		if i > 0 {
			d.batch.Tokens[s] = max(0, d.out.Tokens[s])
		}
	}
}

// chunk adds positions [first, end) of sequence s to the batch. If draw is set, a token is
// drawn at the last of them.
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
	if d.states {
		in := int32(s + 1) // each sequence has a slot of its own
		b.StateOut = append(b.StateOut, in)
		if first == 0 {
			in = 0
		}
		b.StateIn = append(b.StateIn, in)
	}
	if draw {
		b.At = append(b.At, int32(len(b.Tokens)-1))
		d.draws.Rows = append(d.draws.Rows, backend.Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1})
	}
}

// step runs the batch as one step with greedy draws.
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

// fill computes keys and values until sequence s has n positions in the cache.
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

// allocateGarbage allocates this many bytes per second until stop is called, in pieces as
// requests do, so that garbage collections run as under the load of a server.
func allocateGarbage(perSecond int) (stop func()) {
	if perSecond == 0 {
		return func() {}
	}
	const every = 2 * time.Millisecond
	const piece = 4 << 10
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		var live [256][]byte // 1 MiB that is in use at any time, as by requests in flight
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
