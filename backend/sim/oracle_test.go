package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"weir/backend"
	"weir/sampler"
)

func openOracle(cfg OracleConfig) func(backend.Spec) (backend.Backend, error) {
	return func(s backend.Spec) (backend.Backend, error) { return NewOracle(s, cfg) }
}

// equal reports whether two sequences got the same tokens, log-probabilities, ranks and top
// tokens.
func (s *sequence) equal(p *sequence) bool {
	return slices.Equal(s.tokens, p.tokens) && slices.Equal(s.logprobs, p.logprobs) && slices.Equal(s.ranks, p.ranks) && slices.Equal(s.top, p.top)
}

// TestOracleIsAFunctionOfTheSequence: a sequence gets the same results, whatever the schedule,
// the size of blocks, the steps in flight and the reading.
func TestOracleIsAFunctionOfTheSequence(t *testing.T) {
	check := func(t *testing.T, depth int, reading Reading) {
		for seed := range uint64(10) {
			want := newDriver(t, seed, 1, 16, 0, openOracle(OracleConfig{}))
			want.run()
			for _, block := range []int{1, 3, 16, 64} {
				d := newDriver(t, seed, depth, block, seed*100+uint64(block), openOracle(OracleConfig{Reading: reading}))
				d.run()
				for i, s := range d.seqs {
					if !s.equal(want.seqs[i]) {
						t.Fatalf("seed %d, blocks of %d: sequence %d\n got %v\nwant %v", seed, block, i, s.tokens, want.seqs[i].tokens)
					}
				}
			}
		}
	}
	for _, depth := range []int{1, 2} {
		for _, reading := range []Reading{Eager, Lazy} {
			t.Run(fmt.Sprintf("depth=%d/reading=%d", depth, reading), func(t *testing.T) { check(t, depth, reading) })
		}
	}
}

// TestOracleTokensAreVaried: the driver's sequences are not trivial. They differ, bad words
// do not occur, and some end by the stop token, others by their length.
func TestOracleTokensAreVaried(t *testing.T) {
	seen, stops, full := map[int32]bool{}, 0, 0
	for seed := range uint64(10) {
		d := newDriver(t, seed, 1, 16, 0, openOracle(OracleConfig{}))
		d.run()
		for _, s := range d.seqs {
			for _, tok := range s.tokens[s.prompt:] {
				seen[tok] = true
			}
			if s.tokens[len(s.tokens)-1] == stop {
				stops++
			} else {
				full++
			}
		}
	}
	if len(seen) < 30 || stops == 0 || full == 0 || seen[5] {
		t.Errorf("%d different tokens; %d sequences stopped, %d reached their length; the bad word occurs: %v", len(seen), stops, full, seen[5])
	}
}

// TestOracleTokensDependOnEveryToken: the logits of a row depend on every token of its history
// and on their order, and on nothing else.
func TestOracleTokensDependOnEveryToken(t *testing.T) {
	base := func() *backend.Batch { b := first(); b.Tokens = b.Tokens[:9]; return b }
	logits := func(b *backend.Batch) []float32 {
		d := draws()
		d.Rows[0].Host = true
		out := outFor(2)
		out.Logits = make([]float32, 40)
		if _, err := runStep(newOracle(t, small, OracleConfig{}), b, d, out); err != nil {
			t.Fatal(err)
		}
		return out.Logits
	}
	want := logits(base())
	if !slices.Equal(want, logits(base())) {
		t.Fatal("the same batch gives different logits")
	}
	for i := range 6 {
		b := base()
		b.Tokens[i] = 0
		if slices.Equal(want, logits(b)) {
			t.Errorf("the logits do not depend on token %d", i)
		}
	}
	b := base()
	b.Tokens[0], b.Tokens[1] = b.Tokens[1], b.Tokens[0]
	if slices.Equal(want, logits(b)) {
		t.Error("the logits do not depend on the order of tokens")
	}
	b = base()
	b.Tokens[7] = 0
	if !slices.Equal(want, logits(b)) {
		t.Error("the logits depend on a token of another sequence")
	}
	d := draws()
	d.Rows[0].Host = true
	out := outFor(2)
	out.Logits = make([]float32, 40)
	if _, err := runStep(newOracle(t, small, OracleConfig{Seed: 1}), base(), d, out); err != nil || slices.Equal(want, out.Logits) {
		t.Errorf("the logits do not depend on the seed (error %v)", err)
	}
}

// calls runs a script of the letters b, d and e, which stand for Begin, Draw and End, and
// returns the error of the last call. The others must succeed.
func calls(t *testing.T, be backend.Backend, script string) error {
	t.Helper()
	n, ends := 0, 0
	var err error
	for i, c := range script {
		if err != nil {
			t.Fatalf("%s: call %d: %v", script, i-1, err)
		}
		switch c {
		case 'b':
			b := first()
			if n++; n > 1 { // another sequence, in other blocks
				b = &backend.Batch{Tokens: []int32{1}, Pos: []int32{0}, Slots: []int32{int32(4 * (8 + n%2))}, QueryEnd: []int32{1}, KVLen: []int32{1}, TableEnd: []int32{1}, Tables: []int32{int32(8 + n%2)}}
			}
			err = be.Begin(b)
		case 'd':
			d := draws()
			if n > 1 {
				d.Rows = nil
			}
			err = be.Draw(d)
		case 'e':
			rows := 0
			if ends++; ends == 1 {
				rows = 2
			}
			err = be.End(outFor(rows))
		}
	}
	return err
}

// TestCallsOutOfTurn: both backends refuse calls that are not in the order of the contract.
func TestCallsOutOfTurn(t *testing.T) {
	for _, c := range []struct {
		depth  int
		script string
		text   string // of the error; "": none
	}{
		{1, "bdebde", ""},
		{2, "bdbedbede", ""},
		{2, "bdebde", ""},
		{1, "d", "before its Begin"},
		{1, "e", "End of step 0 before its Draw"},
		{1, "be", "End of step 0 before its Draw"},
		{1, "bb", "Begin of step 1 before Draw of step 0"},
		{1, "bdb", "1 in flight, at depth 1"},
		{1, "bdd", "Draw of step 1 before its Begin"},
		{1, "bdee", "End of step 1 before its Draw"},
		{2, "bdbd", "Draw of step 1 before End of step 0"},
		{2, "bdbeb", "Begin of step 2 before Draw of step 1"},
		{2, "bdbee", "End of step 1 before its Draw"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			s := small
			s.Depth = c.depth
			for _, be := range []backend.Backend{newOracle(t, s, OracleConfig{Reading: reading}), newPaced(t, s, Instant())} {
				err := calls(t, be, c.script)
				if c.text != "" {
					wantBroken(t, err, c.text)
				} else if err != nil {
					t.Errorf("%s: %v", c.script, err)
				}
			}
		}
	}
}

// TestOracleRefusesBlocksGivenAwayInFlight: with two steps in flight, a block that the step
// before still writes to can only be used by the same sequence.
func TestOracleRefusesBlocksGivenAwayInFlight(t *testing.T) {
	s := small
	s.Depth = 2
	for _, c := range []struct {
		name string
		b    backend.Batch
		text string
	}{
		{"continued", *second(), ""},
		{"block at another place", backend.Batch{Tokens: []int32{1}, Pos: []int32{0}, Slots: []int32{20}, QueryEnd: []int32{1}, KVLen: []int32{1}, TableEnd: []int32{1}, Tables: []int32{5}}, "block 5 was given away"},
		{"block at another place, later", backend.Batch{Tokens: []int32{1, 2, 3, 4, 5, 6, 7}, Pos: []int32{0, 1, 2, 3, 4, 5, 6}, Slots: []int32{20, 21, 22, 23, 32, 33, 34}, QueryEnd: []int32{7}, KVLen: []int32{7}, TableEnd: []int32{2}, Tables: []int32{5, 8}}, "block 5 was given away"},
		{"shorter sequence", backend.Batch{Tokens: []int32{1}, Pos: []int32{0}, Slots: []int32{28}, QueryEnd: []int32{1}, KVLen: []int32{1}, TableEnd: []int32{1}, Tables: []int32{7}}, "block 7 was given away"},
		{"longer sequence", backend.Batch{Tokens: []int32{1, 2, 3, 4}, Pos: []int32{0, 1, 2, 3}, Slots: []int32{28, 29, 30, 31}, QueryEnd: []int32{4}, KVLen: []int32{4}, TableEnd: []int32{1}, Tables: []int32{7}}, "still written by the step before"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			o := newOracle(t, s, OracleConfig{Reading: reading})
			d := draws()
			d.Rows = d.Rows[:len(c.b.At)]
			err := o.Begin(first())
			for _, f := range []func() error{
				func() error { return o.Draw(draws()) },
				func() error { return o.Begin(&c.b) },
				func() error { return o.End(outFor(2)) },
				func() error { return o.Draw(d) },
				func() error { return o.End(outFor(len(d.Rows))) },
			} {
				if err == nil {
					err = f()
				}
			}
			if c.text == "" {
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				continue
			}
			t.Run(c.name, func(t *testing.T) { wantBroken(t, err, c.text) })
		}
	}
	// When the step has ended, its blocks may be used by any sequence.
	o := newOracle(t, small, OracleConfig{})
	if _, err := runStep(o, first(), draws(), outFor(2)); err != nil {
		t.Fatal(err)
	}
	b := backend.Batch{Tokens: []int32{1}, Pos: []int32{0}, Slots: []int32{20}, QueryEnd: []int32{1}, KVLen: []int32{1}, TableEnd: []int32{1}, Tables: []int32{5}}
	if _, err := runStep(o, &b, &backend.Draws{}, outFor(0)); err != nil {
		t.Error(err)
	}
}

// TestOracleRefusesDeadRows: a batch cannot name a token that a dead row draws.
func TestOracleRefusesDeadRows(t *testing.T) {
	for _, reading := range []Reading{Eager, Lazy} {
		o := newOracle(t, small, OracleConfig{Reading: reading})
		d := draws()
		d.Rows[1].Dead = true
		if _, err := runStep(o, first(), d, outFor(2)); err != nil {
			t.Fatal(err)
		}
		_, err := runStep(o, second(), draws(), outFor(2))
		wantBroken(t, err, "row 1 of the step before is dead")
	}
}

// TestOracleNoLegalToken: a row without a legal token draws -1. A step whose batch names it
// runs nevertheless.
func TestOracleNoLegalToken(t *testing.T) {
	o := newOracle(t, small, OracleConfig{})
	d := draws()
	d.Masks = make([]uint32, 2)
	d.Rows[1].Mask = 0
	got, err := runStep(o, first(), d, outFor(2))
	if err != nil || got[1] != -1 || got[0] < 0 {
		t.Fatalf("%v, %v", got, err)
	}
	if _, err := runStep(o, second(), draws(), outFor(2)); err != nil {
		t.Error(err)
	}
}

// TestOracleNoticesChanges: what the engine handed over must not change until the step ends.
func TestOracleNoticesChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *backend.Batch, d *backend.Draws)
		text   string
	}{
		{"batch", func(b *backend.Batch, d *backend.Draws) { b.Tables[0] = 8 }, "the batch changed"},
		{"batch emptied", func(b *backend.Batch, d *backend.Draws) { b.Reset() }, "the batch changed"},
		{"rows", func(b *backend.Batch, d *backend.Draws) { d.Rows[1].Index = 7 }, "draws changed"},
		{"edits", func(b *backend.Batch, d *backend.Draws) { d.Edits[0].Bias = 1 }, "edits or masks changed"},
		{"masks", func(b *backend.Batch, d *backend.Draws) { d.Masks[1] = 0 }, "edits or masks changed"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			o := newOracle(t, small, OracleConfig{Reading: reading})
			b, d := first(), draws()
			d.Edits = []backend.Edit{{Token: 3, Repeat: 1}}
			d.Masks = []uint32{math.MaxUint32, math.MaxUint32}
			d.Rows[0].EditEnd, d.Rows[1].EditEnd, d.Rows[1].Mask = 1, 1, 0
			if err := errors.Join(o.Begin(b), o.Draw(d)); err != nil {
				t.Fatal(err)
			}
			c.change(b, d)
			err := o.End(outFor(2))
			t.Run(c.name, func(t *testing.T) { wantBroken(t, err, c.text) })
		}
	}
}

// TestOracleReady: edits and masks count as they are after Ready has returned. A lazy oracle
// calls it in End.
func TestOracleReady(t *testing.T) {
	for _, reading := range []Reading{Eager, Lazy} {
		ready := 0
		d := draws()
		d.Masks = make([]uint32, 2)
		d.Rows[0].Mask = 0
		d.Ready = func() { ready++; d.Masks[0] = 1 << 9 }
		o := newOracle(t, small, OracleConfig{Reading: reading})
		if err := errors.Join(o.Begin(first()), o.Draw(d)); err != nil {
			t.Fatal(err)
		}
		if want := map[Reading]int{Eager: 1, Lazy: 0}[reading]; ready != want {
			t.Errorf("reading %d: Ready called %d times before End", reading, ready)
		}
		out := outFor(2)
		if err := o.End(out); err != nil || out.Tokens[0] != 9 || ready != 1 {
			t.Errorf("token %d, %v, Ready called %d times", out.Tokens[0], err, ready)
		}
	}
}

// TestOracleHook: the hook is called first in every call, and its error fails the backend.
func TestOracleHook(t *testing.T) {
	boom := errors.New("boom")
	for _, call := range []Call{Begin, Draw, End} {
		var log []string
		o := newOracle(t, small, OracleConfig{Hook: func(c Call, n int) error {
			log = append(log, fmt.Sprintf("%v%d", c, n))
			if c == call && n == 1 {
				return boom
			}
			return nil
		}})
		if _, err := runStep(o, first(), draws(), outFor(2)); err != nil {
			t.Fatal(err)
		}
		if _, err := runStep(o, second(), draws(), outFor(2)); !errors.Is(err, boom) {
			t.Errorf("%v: %v", call, err)
		}
		if want := append([]string{"Begin0", "Draw0", "End0"}, []string{"Begin1", "Draw1", "End1"}[:call+1]...); !slices.Equal(log, want) {
			t.Errorf("%v: calls %v", call, log)
		}
		if err := o.Begin(first()); !errors.Is(err, boom) {
			t.Errorf("%v: the next Begin returns %v", call, err)
		}
		o.Close()
		if err := o.Begin(first()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestOracleDrawsWithPicker: Host rows are the logits before any change, and the results of
// rows are those of sampler.Picker from these logits.
func TestOracleDrawsWithPicker(t *testing.T) {
	d := draws()
	d.Rows[0] = backend.Draw{Temperature: 1, TopP: 0.9, Seed: 5, Mask: -1, Allow: -1, Target: -1, Logprobs: backend.ProcessedLogprobs, Top: 3, Host: true, EditEnd: 1}
	d.Rows[1] = backend.Draw{TopP: 1, Mask: 0, Allow: -1, Target: 12, Logprobs: backend.RawLogprobs, Top: 2, Host: true, EditEnd: 1}
	d.Edits = []backend.Edit{{Token: 3, Bias: 50, Repeat: 1}}
	d.Masks = []uint32{0xffff, 0}
	out, want := outFor(2), outFor(2)
	for _, o := range []*backend.Out{out, want} {
		o.TopTokens, o.TopLogprobs = make([]int32, 5), make([]float32, 5)
	}
	out.Logits = make([]float32, 80)
	if _, err := runStep(newOracle(t, small, OracleConfig{}), first(), d, out); err != nil {
		t.Fatal(err)
	}
	var p sampler.Picker
	p.Pick(out.Logits[:40], d, 0, want, 0)
	p.Pick(out.Logits[40:], d, 1, want, 3)
	if !slices.Equal(out.Tokens, want.Tokens) || !slices.Equal(out.Logprobs, want.Logprobs) || !slices.Equal(out.Ranks, want.Ranks) || !slices.Equal(out.TopTokens, want.TopTokens) || !slices.Equal(out.TopLogprobs, want.TopLogprobs) {
		t.Errorf("got %+v\nwant %+v", out, want)
	}
	if out.Tokens[0] != 3 || out.Tokens[1] != 12 {
		t.Errorf("tokens %v", out.Tokens)
	}
}
