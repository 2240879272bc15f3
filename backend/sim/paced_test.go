package sim

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
	"weir/internal/invariants"
)

func newPaced(t testing.TB, s backend.Spec, p Profile) *Paced {
	t.Helper()
	b, err := NewPaced(s, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestProfileFormula(t *testing.T) {
	p := Profile{Overhead: 1000, Prefill: 10, Decode: 100, Context: 500}
	// The batch has 9 tokens, 2 sequences and 6+3 positions.
	if got, want := p.Step(first()), 1000*time.Microsecond+90*time.Microsecond+200*time.Microsecond+4500*time.Nanosecond; got != want {
		t.Errorf("the step takes %v, want %v", got, want)
	}
	if got := (&Profile{}).Step(first()); got != 0 {
		t.Errorf("a step of the zero profile takes %v", got)
	}
}

func TestProfileValidate(t *testing.T) {
	for _, p := range Profiles() {
		if err := p.Validate(1); err != nil || p.Name == "" {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, edit := range []func(*Profile){
		func(p *Profile) { p.Overhead = -1 },
		func(p *Profile) { p.Prefill = math.NaN() },
		func(p *Profile) { p.Decode = math.Inf(1) },
		func(p *Profile) { p.Context = 1e10 },
		func(p *Profile) { p.Tokens = []int32{40} },
		func(p *Profile) { p.Avoid = []int32{-1} },
	} {
		p := H100Llama8B()
		edit(&p)
		if err := p.Validate(40); err == nil {
			t.Errorf("Validate accepts %+v", p)
		}
		if _, err := NewPaced(small, p); err == nil {
			t.Errorf("NewPaced accepts %+v", p)
		}
	}
}

// TestProfileJSON: users write profiles in JSON, so the names must not change.
func TestProfileJSON(t *testing.T) {
	var p Profile
	text := `{"name":"x","overhead_us":1,"prefill_us_per_token":2,"decode_us_per_sequence":3,"context_ns_per_position":4,"tokens":[5],"avoid_tokens":[6]}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p.Overhead != 1 || p.Prefill != 2 || p.Decode != 3 || p.Context != 4 || p.Tokens[0] != 5 || p.Avoid[0] != 6 {
		t.Errorf("%+v", p)
	}
	if back, _ := json.Marshal(p); string(back) != text {
		t.Errorf("%s", back)
	}
}

// tenMS takes 10 ms for every step.
var tenMS = Profile{Overhead: 10_000}

// TestPacedTimeDepth1: with one step in flight, a step takes its time from Begin on.
func TestPacedTimeDepth1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		be := newPaced(t, small, tenMS)
		start := time.Now()
		for i := range 5 {
			if _, err := runStep(be, first(), draws(), outFor(2)); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(start), time.Duration(i+1)*10*time.Millisecond; got != want {
				t.Fatalf("step %d ended after %v, want %v", i, got, want)
			}
		}
		// Between steps the device is idle; from Begin on it works beside the host.
		time.Sleep(7 * time.Millisecond)
		b, d, out := first(), draws(), outFor(2)
		start = time.Now()
		err := be.Begin(b)
		time.Sleep(4 * time.Millisecond)
		err = errors.Join(err, be.Draw(d), be.End(out))
		if got := time.Since(start); err != nil || got != 10*time.Millisecond {
			t.Errorf("the step took %v, error %v", got, err)
		}
		// If Draw comes late, End does not sleep.
		start = time.Now()
		err = be.Begin(b)
		time.Sleep(14 * time.Millisecond)
		err = errors.Join(err, be.Draw(d), be.End(out))
		if got := time.Since(start); err != nil || got != 14*time.Millisecond {
			t.Errorf("step of %v, %v", got, err)
		}
	})
}

// TestPacedTimeDepth2: with two steps in flight, the host works while the device does.
func TestPacedTimeDepth2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small
		s.Depth = 2
		be := newPaced(t, s, tenMS)
		b, d, out := first(), draws(), outFor(2)
		start := time.Now()
		if err := errors.Join(be.Begin(b), be.Draw(d)); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if err := be.Begin(b); err != nil {
				t.Fatal(err)
			}
			if err := be.End(out); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(start), time.Duration(i+1)*10*time.Millisecond; got != want {
				t.Fatalf("step %d ended after %v, want %v", i, got, want)
			}
			time.Sleep(6 * time.Millisecond) // the host books tokens and fills masks
			if err := be.Draw(d); err != nil {
				t.Fatal(err)
			}
		}
		// A host that is slower than the device determines the time of a step.
		for range 3 {
			begun := time.Now()
			err := errors.Join(be.Begin(b), be.End(out))
			time.Sleep(15 * time.Millisecond)
			err = errors.Join(err, be.Draw(d))
			if got := time.Since(begun); err != nil || got > 19*time.Millisecond || got < 15*time.Millisecond {
				t.Fatalf("step of %v, %v", got, err)
			}
		}
	})
}

// TestPacedInstantDoesNotSleep: 100 steps take no virtual time.
func TestPacedInstantDoesNotSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		be := newPaced(t, small, Instant())
		start := time.Now()
		for range 100 {
			if _, err := runStep(be, first(), draws(), outFor(2)); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("100 steps took %v", got)
		}
	})
}

// pacedToken draws the token of a row that edit changes.
func pacedToken(t *testing.T, p Profile, edit func(d *backend.Draws)) int32 {
	t.Helper()
	d := draws()
	edit(d)
	got, err := runStep(newPaced(t, small, p), first(), d, outFor(2))
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// maskOf is a mask row of the small vocabulary that allows these tokens.
func maskOf(ids ...int32) []uint32 {
	m := make([]uint32, small.MaskWords())
	for _, id := range ids {
		m[id/32] |= 1 << (id % 32)
	}
	return m
}

// banned bans tokens in row 0, and gives token 5 a bias that is large but no ban.
func banned(ids ...int32) func(*backend.Draws) {
	return func(d *backend.Draws) {
		for _, id := range ids {
			d.Edits = append(d.Edits, backend.Edit{Token: id, Bias: backend.Forbid, Repeat: 1})
		}
		d.Edits = append(d.Edits, backend.Edit{Token: 5, Bias: -100, Repeat: 1})
		d.Rows[0].EditEnd = int32(len(d.Edits))
		d.Rows[1].EditEnd = d.Rows[0].EditEnd
	}
}

// masked gives row 0 a mask, which also has a bit beyond the vocabulary.
func masked(ids ...int32) func(*backend.Draws) {
	return func(d *backend.Draws) {
		d.Masks = maskOf(ids...)
		d.Masks[1] |= 1 << 31
		d.Rows[0].Mask = 0
	}
}

// allowed is masked, for Draw.Allow.
func allowed(ids ...int32) func(*backend.Draws) {
	return func(d *backend.Draws) {
		masked(ids...)(d)
		d.Rows[0].Mask, d.Rows[0].Allow = -1, 0
	}
}

// TestPacedTokens: under many seeds, a row draws exactly the tokens that it may draw.
func TestPacedTokens(t *testing.T) {
	list := Profile{Tokens: []int32{4, 5, 6, 7, 8}, Avoid: []int32{7, 2}}
	for _, c := range []struct {
		name string
		edit func(*backend.Draws)
		want []int32
	}{
		{"the list without the tokens to avoid", func(*backend.Draws) {}, []int32{4, 5, 6, 8}},
		{"banned tokens", banned(4, 8), []int32{5, 6}},
		{"a mask", masked(4, 7, 39), []int32{4}},
		{"allowed tokens", allowed(8), []int32{8}},
		{"a mask without tokens of the list", masked(39, 7), []int32{39}},
		{"only a token to avoid is legal", masked(7), []int32{7}},
		{"no token is legal", allowed(), []int32{-1}},
		{"a mask and allowed tokens", func(d *backend.Draws) {
			d.Masks = append(maskOf(4, 5, 20), maskOf(5, 6, 20)...)
			d.Rows[0].Mask, d.Rows[0].Allow = 0, 1
		}, []int32{5}},
		{"a target", func(d *backend.Draws) { d.Rows[0].Target = 2 }, []int32{2}},
	} {
		seen := seenTokens(t, list, 100, func(d *backend.Draws, seed uint64) {
			c.edit(d)
			d.Rows[0].Seed, d.Rows[0].Index = seed, uint32(seed%3)
		})
		if !slices.Equal(seen, c.want) {
			t.Errorf("%s: tokens %v, want %v", c.name, seen, c.want)
		}
	}
}

// TestPacedDrawsTheWholeVocabulary: without a list all tokens are drawn except those to avoid,
// and different ones at different places of the output.
func TestPacedDrawsTheWholeVocabulary(t *testing.T) {
	seen := seenTokens(t, Profile{Avoid: []int32{2}}, 1000, func(d *backend.Draws, i uint64) { d.Rows[0].Seed = i })
	if len(seen) != 39 || slices.Contains(seen, 2) {
		t.Errorf("tokens %v, want all but 2", seen)
	}
	seen = seenTokens(t, Profile{}, 1000, func(d *backend.Draws, i uint64) { d.Rows[0].Index = uint32(i) })
	if len(seen) != 40 {
		t.Errorf("tokens %v, want all", seen)
	}
}

// seenTokens draws n tokens and returns the different ones, in order. edit changes the i-th
// draw.
func seenTokens(t *testing.T, p Profile, n uint64, edit func(d *backend.Draws, i uint64)) []int32 {
	t.Helper()
	var seen []int32
	for i := range n {
		seen = append(seen, pacedToken(t, p, func(d *backend.Draws) { edit(d, i) }))
	}
	slices.Sort(seen)
	return slices.Compact(seen)
}

// TestPacedRowsAreIndependent: a ban in one row does not apply to the next.
func TestPacedRowsAreIndependent(t *testing.T) {
	d := draws()
	d.Edits = []backend.Edit{{Token: 4, Bias: backend.Forbid, Repeat: 1}}
	d.Rows[0].EditEnd, d.Rows[1].EditEnd = 1, 1
	got, err := runStep(newPaced(t, small, Profile{Tokens: []int32{4}}), first(), d, outFor(2))
	if err != nil || got[0] == 4 || got[1] != 4 {
		t.Errorf("tokens %v, %v", got, err)
	}
}

// TestPacedLogprobs: log-probabilities fall, sum up to at most 1, and are those of legal tokens.
func TestPacedLogprobs(t *testing.T) {
	d := draws()
	d.Masks = []uint32{0b11110000, 0}
	d.Rows[0].Mask, d.Rows[0].Top, d.Rows[0].Logprobs = 0, 6, backend.RawLogprobs
	d.Rows[1].Target, d.Rows[1].Top, d.Rows[1].Host = 9, 1, true
	out := outFor(2)
	out.TopTokens, out.TopLogprobs, out.Logits = make([]int32, 7), make([]float32, 7), []float32{7: 1, 39: 1}
	if _, err := runStep(newPaced(t, small, Profile{}), first(), d, out); err != nil {
		t.Fatal(err)
	}
	if out.Tokens[0] != out.TopTokens[0] || out.Logprobs[0] != out.TopLogprobs[0] || out.Ranks[0] != 1 || out.Tokens[1] != 9 {
		t.Errorf("%+v", out)
	}
	sum := 0.0
	for i, id := range out.TopTokens[:6] {
		if i < 4 != (id >= 4 && id < 8) || i > 0 && i < 4 && out.TopLogprobs[i] >= out.TopLogprobs[i-1] {
			t.Errorf("entry %d: token %d, %v", i, id, out.TopLogprobs[i])
		}
		sum += math.Exp(float64(out.TopLogprobs[i]))
	}
	if sum > 1 || out.TopTokens[4] != -1 || out.TopTokens[6] != -1 {
		t.Errorf("the probabilities add up to %v, top tokens %v", sum, out.TopTokens)
	}
	if slices.Max(out.Logits) != 0 {
		t.Errorf("logits %v", out.Logits)
	}
}

// TestPacedRefuses: a paced backend checks what it is given.
func TestPacedRefuses(t *testing.T) {
	b := first()
	b.KVLen = b.KVLen[:1]
	_, err := runStep(newPaced(t, small, Profile{}), b, draws(), outFor(2))
	wantBroken(t, err, "2 sequences have 1 KV lengths")
	d := draws()
	d.Rows[0].Mask = 3
	_, err = runStep(newPaced(t, small, Profile{}), first(), d, outFor(2))
	wantBroken(t, err, "mask rows 3")
	d = draws()
	d.Edits = []backend.Edit{{Token: 40}}
	d.Rows[1].EditEnd = 1
	_, err = runStep(newPaced(t, small, Profile{}), first(), d, outFor(2))
	wantBroken(t, err, "edits token 40")
	_, err = runStep(newPaced(t, small, Profile{}), first(), draws(), outFor(1))
	wantBroken(t, err, "room for 1 tokens")
	be := newPaced(t, small, Profile{})
	wantBroken(t, be.End(outFor(0)), "before its Draw")
	be.Close()
	if err := be.Begin(first()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if !be.Spec().Equal(small) {
		t.Errorf("%+v", be.Spec())
	}
}

// TestPacedIsAFunctionOfTheSequence: a sequence gets the same tokens, whatever the schedule and
// the steps in flight.
func TestPacedIsAFunctionOfTheSequence(t *testing.T) {
	open := func(s backend.Spec) (backend.Backend, error) { return NewPaced(s, Profile{Avoid: []int32{stop}}) }
	want := newDriver(t, 4, 1, 16, 0, open)
	want.run()
	for schedule := range uint64(10) {
		d := newDriver(t, 4, 1+int(schedule%2), 16, schedule, open)
		d.run()
		for i, s := range d.seqs {
			if !slices.Equal(s.tokens, want.seqs[i].tokens) {
				t.Fatalf("sequence %d: %v, want %v", i, s.tokens, want.seqs[i].tokens)
			}
			if len(s.tokens)-s.prompt != s.max {
				t.Errorf("sequence %d stopped after %d of %d tokens", i, len(s.tokens)-s.prompt, s.max)
			}
		}
	}
}

// TestPacedAllocatesNothing: a step allocates nothing, with one and with two steps in flight.
func TestPacedAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	for _, depth := range []int{1, 2} {
		s := small
		s.Depth = depth
		be := newPaced(t, s, Profile{Avoid: []int32{3}})
		b, d, out := first(), draws(), outFor(2)
		d.Rows[0].Logprobs, d.Rows[0].Top = backend.RawLogprobs, 4
		d.Edits = []backend.Edit{{Token: 4, Bias: backend.Forbid, Repeat: 1}}
		d.Rows[1].EditEnd = 1
		out.TopTokens, out.TopLogprobs = make([]int32, 4), make([]float32, 4)
		var err error
		if depth == 2 {
			err = errors.Join(be.Begin(b), be.Draw(d))
		}
		do := func(e error) { err = errors.Join(err, e) }
		n := testing.AllocsPerRun(100, func() {
			do(be.Begin(b))
			if depth == 2 {
				do(be.End(out))
			}
			do(be.Draw(d))
			if depth == 1 {
				do(be.End(out))
			}
		})
		if n != 0 || err != nil {
			t.Errorf("depth %d: %v allocations per step, %v", depth, n, err)
		}
	}
}

func BenchmarkPacedStep(b *testing.B) {
	s := small
	s.VocabSize = 151936
	be := newPaced(b, s, Instant())
	batch, d, out := first(), draws(), outFor(2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := runStep(be, batch, d, out); err != nil {
			b.Fatal(err)
		}
	}
}
