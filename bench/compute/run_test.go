package compute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/device/cpu"
	"weir/model"
)

// subject opens the small network in order to measure it.
func subject(t *testing.T, conf Config) Subject {
	t.Helper()
	c := small(t)
	const perToken = 3 * 2 * 2 * 32 * 2
	opt, _, err := conf.Options(&c, perToken)
	if err != nil {
		t.Fatal(err)
	}
	cfg := cpu.Default()
	cfg.Threads, cfg.HugePages = 2, false
	dev, err := cpu.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	watch := Watch(dev, dev)
	runner, err := model.NewRunner(t.Context(), watch, synthetic(t, c), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runner.Close() })
	return Subject{Network: &c, Runner: runner, Stopwatch: watch, WeightBytes: float64(dev.Memory().Weights), KVBytesPerToken: perToken, Threads: 2}
}

func tiny() Config {
	c := DefaultConfig()
	c.Batches, c.Contexts, c.Prefills = []int{1, 3}, []int{0, 40}, []int{5, 100}
	c.Steps, c.Repeats, c.MaxTokens, c.Memory, c.passes = 3, 2, 64, 2<<20, 1
	return c
}

// TestRun measures all rows of a small network, with limits of the machine and garbage.
func TestRun(t *testing.T) {
	conf := tiny()
	conf.Garbage = 8 << 20
	var started []Case
	r, err := Run(t.Context(), subject(t, conf), conf, func(x Case) { started = append(started, x) })
	if err != nil {
		t.Fatal(err)
	}
	if want := conf.cases(); !slices.Equal(started, want) || len(r.Rows) != len(want) || len(r.Skipped) != 0 {
		t.Errorf("measured %v, skipped %v, want %v", started, r.Skipped, want)
	}
	for i := range 2 {
		for _, rates := range []int{len(r.Limits.Read[i]), len(r.Limits.FMA[i]), len(r.Limits.Int8[i])} {
			if rates != 2*conf.passes {
				t.Errorf("a limit was measured %d times, want %d before and as many after", rates, conf.passes)
			}
		}
	}
	for i := range r.Rows {
		checkRow(t, r, &r.Rows[i])
	}
	// Every decode step reads all weights once; norms, which are not counted, are a few of them.
	if row := r.Rows[4]; row.Case != (Case{Decode, 1, 40}) || row.Cost.WeightBytes > float64(len(row.Steps))*r.WeightBytes || row.Cost.WeightBytes < 0.95*float64(len(row.Steps))*r.WeightBytes {
		t.Errorf("%v: %+v", row.Case, row.Cost)
	}
}

// checkRow: a row has as many measurements as it should, and they agree with each other.
func checkRow(t *testing.T, r *Report, row *Row) {
	t.Helper()
	conf := &r.Config
	steps, tokens := conf.Steps, row.Batch
	if row.Phase == Prefill {
		steps, tokens = (row.Context+conf.MaxTokens-1)/conf.MaxTokens, row.Context
	}
	if len(row.Rates) != conf.Repeats || len(row.Steps) != steps*conf.Repeats {
		t.Errorf("%v: %d repetitions, %d steps, want %d and %d", row.Case, len(row.Rates), len(row.Steps), conf.Repeats, steps*conf.Repeats)
	}
	if len(row.Reads) != conf.Repeats+1 || len(row.Bytes) != conf.Repeats {
		t.Errorf("%v: the memory was measured %d times around %d repetitions", row.Case, len(row.Reads), conf.Repeats)
	}
	if row.Phase == Prefill { // the rates are those of the steps' times
		if want := float64(tokens*conf.Repeats) / row.seconds(); quantile(row.Rates, 0) > 1.001*want || quantile(row.Rates, 1) < 0.999*want {
			t.Errorf("%v: rates %v, together %v", row.Case, row.Rates, want)
		}
	}
	for _, spent := range []time.Duration{row.Spent.Products, row.Spent.Attention, row.Spent.Draw, row.Spent.Cache, row.Spent.Other} {
		if spent <= 0 {
			t.Errorf("%v: no time for an operation: %+v", row.Case, row.Spent)
		}
	}
	if total := row.Spent.Total().Seconds(); total > row.seconds() {
		t.Errorf("%v: operations took %v seconds of %v", row.Case, total, row.seconds())
	}
	if s := r.Shares(row); !(s.Read > 0 && s.Products > 0 && s.Floor > 0) || row.Cost.KVBytes <= 0 || row.Cost.Attention <= 0 {
		t.Errorf("%v: %+v, %+v", row.Case, s, row.Cost)
	}
}

// TestRunEnds: after an interrupt, the report has the rows that are complete.
func TestRunEnds(t *testing.T) {
	conf := tiny()
	conf.Memory = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := 0
	r, err := Run(ctx, subject(t, conf), conf, func(Case) {
		if started++; started == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(r.Rows) != 2 {
		t.Errorf("%v after %d rows", err, len(r.Rows))
	}
	conf.Steps = 0
	if _, err := Run(t.Context(), Subject{}, conf, nil); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

// TestDecodeFeedsItsOwnTokens: each sequence continues at its own position with the token
// that it drew, and every repetition begins at the same position.
func TestDecodeFeedsItsOwnTokens(t *testing.T) {
	conf := tiny()
	s := subject(t, conf)
	d := newDriver(s, conf, conf.plan(s.Network, 1).lengths)
	x := Case{Decode, 3, 40}
	for seq := range x.Batch {
		if err := d.fill(t.Context(), seq, x.Context); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for i := range 3 {
			drawn := slices.Clone(d.out.Tokens)
			d.decode(x, i)
			checkDecodeStep(t, d, x, i, drawn)
			if err := d.step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkTables(t, d.tables)
}

// checkDecodeStep looks at step i before it runs. drawn are the tokens of the step before.
func checkDecodeStep(t *testing.T, d *driver, x Case, i int, drawn []int32) {
	t.Helper()
	b := &d.batch
	for seq := range x.Batch {
		pos := x.Context + i
		slot := d.tables[seq][pos/16]*16 + int32(pos%16)
		if int(b.Pos[seq]) != pos || int(b.KVLen[seq]) != pos+1 || b.Slots[seq] != slot || i > 0 && b.Tokens[seq] != drawn[seq] {
			t.Errorf("step %d, sequence %d: %+v, drawn before %d", i, seq, b, drawn)
		}
	}
}

// checkTables: the tables of the sequences share no block, and have blocks in random
// order.
func checkTables(t *testing.T, tables [][]int32) {
	t.Helper()
	seen, inOrder := map[int32]bool{0: true}, 0
	for _, table := range tables {
		for i, block := range table {
			if seen[block] {
				t.Errorf("block %d twice", block)
			}
			if seen[block] = true; i > 0 && block == table[i-1]+1 {
				inOrder++
			}
		}
	}
	if inOrder > 4 {
		t.Errorf("tables %v", tables)
	}
}

// TestAlloc: neither the measurement nor the steps allocate.
func TestAlloc(t *testing.T) {
	if checked {
		t.Skip("this build allocates to check steps")
	}
	conf := tiny()
	s := subject(t, conf)
	d := newDriver(s, conf, conf.plan(s.Network, 1).lengths)
	for _, x := range []Case{{Decode, 3, 40}, {Prefill, 1, 100}} {
		var row Row
		if err := d.repeat(t.Context(), x, &row, d.steps(x, false)); err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(5, func() {
			row.Rates, row.Bytes, row.Steps = row.Rates[:0], row.Bytes[:0], row.Steps[:0]
			if err := d.repeat(t.Context(), x, &row, d.steps(x, false)); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%v: %v allocations in a repetition", x, n)
		}
	}
}

// TestValidate: the error names the field that is wrong.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"":                               func(*Config) {},
		"batch 0":                        func(c *Config) { c.Batches = []int{1, 0} },
		"context -1":                     func(c *Config) { c.Contexts = []int{-1} },
		"prompt 0":                       func(c *Config) { c.Prefills = []int{0} },
		"steps 0":                        func(c *Config) { c.Steps = 0 },
		"repetitions 0":                  func(c *Config) { c.Repeats = 0 },
		"garbage -1":                     func(c *Config) { c.Garbage = -1 },
		"tokens of a step 0":             func(c *Config) { c.MaxTokens = 0 },
		"block size 24 is no":            func(c *Config) { c.BlockTokens = 24 },
		"memory to read -1":              func(c *Config) { c.Memory = -1 },
		"neither batches with contexts ": func(c *Config) { c.Contexts, c.Prefills = nil, nil },
	} {
		c := DefaultConfig()
		change(&c)
		err := c.Validate()
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestPlan: a case that does not fit is left out with the reason, small cases are chosen
// first, and the cache is as large as the chosen cases need.
func TestPlan(t *testing.T) {
	m := small(t) // 512 positions
	c := Config{Batches: []int{4, 1}, Contexts: []int{100, 500, 10}, Prefills: []int{64, 600}, Steps: 12, MaxTokens: 64, BlockTokens: 16}
	const perToken = 100
	c.MaxKV = 100 * 16 * (1 + 32 + 3*7) // sequence 0 of 512 positions, three of 112
	p := c.plan(&m, perToken)
	want := []Case{{Prefill, 1, 64}, {Decode, 4, 100}, {Decode, 1, 100}, {Decode, 1, 500}, {Decode, 4, 10}, {Decode, 1, 10}}
	if !slices.Equal(p.cases, want) || !slices.Equal(p.lengths, []int{512, 112, 112, 112}) {
		t.Errorf("%v with lengths %v, want %v", p.cases, p.lengths, want)
	}
	if len(p.skipped) != 2 || p.skipped[0].Case != (Case{Prefill, 1, 600}) || p.skipped[0].Why != "the model was made for 512 positions" ||
		p.skipped[1].Case != (Case{Decode, 4, 500}) || !strings.HasPrefix(p.skipped[1].Why, "needs 0 MiB of keys") {
		t.Errorf("skipped %v", p.skipped)
	}
	o, skipped, err := c.Options(&m, perToken)
	if err != nil || len(skipped) != 2 || o.BlockTokens != 16 || o.NumBlocks != 1+32+21 || o.MaxTokens != 64 || o.MaxSeqs != 4 || o.MaxSeqTokens != 512 {
		t.Errorf("%+v, %v", o, err)
	}
	c.MaxKV = 1
	if _, _, err := c.Options(&m, perToken); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "there is room for 0") {
		t.Error(err)
	}
}
