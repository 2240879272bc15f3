package cpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"weir/backend"
	"weir/internal/invariants"
	"weir/model"
	"weir/weights"
)

// sequence is a request as a test feeds it.
type sequence struct {
	tokens   []int32
	computed int
	table    []int32
}

// feeder makes batches of sequences that share a pool of blocks.
type feeder struct {
	blockTokens int
	free        []int32 // blocks in the order in which they are handed out
	batch       backend.Batch
	draws       backend.Draws
	out         backend.Out
}

func newFeeder(rnd *rand.Rand, spec backend.Spec) *feeder {
	f := &feeder{blockTokens: spec.BlockTokens}
	for _, b := range rnd.Perm(spec.NumBlocks - 1) {
		f.free = append(f.free, int32(b)+1)
	}
	return f
}

func (f *feeder) reset() {
	f.batch.Reset()
	f.draws.Reset()
}

// add puts the next n tokens of s into the batch; all of them draw, and give
// their logits to the host, or only the last.
func (f *feeder) add(s *sequence, n int, all bool) {
	b := &f.batch
	for i := range n {
		pos := s.computed + i
		if pos/f.blockTokens == len(s.table) {
			s.table, f.free = append(s.table, f.free[0]), f.free[1:]
		}
		if all || i == n-1 {
			b.At = append(b.At, int32(len(b.Tokens)))
			f.draws.Rows = append(f.draws.Rows, backend.Draw{Mask: -1, Allow: -1, Target: -1, Host: true})
		}
		b.Tokens = append(b.Tokens, s.tokens[pos])
		b.Pos = append(b.Pos, int32(pos))
		b.Slots = append(b.Slots, s.table[pos/f.blockTokens]*int32(f.blockTokens)+int32(pos%f.blockTokens))
	}
	s.computed += n
	b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
	b.KVLen = append(b.KVLen, int32(s.computed))
	b.Tables = append(b.Tables, s.table...)
	b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
}

// run does the step and returns the host rows.
func (f *feeder) run(t testing.TB, r *runner) [][]float32 {
	t.Helper()
	n := len(f.batch.At)
	v := r.n.vocab
	f.out = backend.Out{Tokens: make([]int32, n), Logprobs: make([]float32, n), Ranks: make([]int32, n), Logits: make([]float32, n*v)}
	if err := r.step(&f.batch, &f.draws, &f.out); err != nil {
		t.Fatal(err)
	}
	var rows [][]float32
	for i := range n {
		rows = append(rows, f.out.Logits[i*v:(i+1)*v])
	}
	return rows
}

func randomTokens(rnd *rand.Rand, n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rnd.IntN(vocab))
	}
	return tokens
}

var testSpec = backend.Spec{BlockTokens: 16, NumBlocks: 100, MaxTokens: 700, MaxSeqs: 16, MaxSeqTokens: 700, Depth: 1}

// TestTwin: the logits of a whole decoder are those of double precision
// arithmetic, whatever implementation, weight format and KV format.
func TestTwin(t *testing.T) {
	cases := []struct {
		weight  weights.DType
		as, kv  Format
		headDim int
		limit   float64
	}{
		{weights.F32, Auto, F32, 32, 2e-5},
		{weights.F16, Auto, F32, 20, 2e-5},
		{weights.BF16, Auto, F32, 16, 2e-5},
		{weights.BF16, F32, F32, 64, 2e-5},
		{weights.BF16, Auto, F16, 16, 5e-3},
		{weights.BF16, Auto, BF16, 16, 4e-2},
		{weights.F32, BF16, F32, 16, 1e-1},
	}
	eachImpl(t, func(t *testing.T, im *impl) {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s_as_%s_kv_%s_%d", c.weight, c.as, c.kv, c.headDim), func(t *testing.T) {
				rnd := newRand(1)
				n := newNet(rnd, c.weight, c.headDim)
				s := &sequence{tokens: randomTokens(rnd, 300, n.vocab)}
				want := n.twin(s.tokens)
				r := newRunner(t, n, Config{Threads: 2, WeightType: c.as, KVType: c.kv, Impl: im.name}, testSpec)
				f := newFeeder(rnd, testSpec)
				f.add(s, len(s.tokens), true)
				worst, size := 0.0, 0.0
				for i, row := range f.run(t, r) {
					for v := range row {
						worst = max(worst, math.Abs(float64(row[v])-want[i][v]))
						size = max(size, math.Abs(want[i][v]))
						if math.IsNaN(float64(row[v])) {
							t.Fatalf("position %d, token %d: NaN", i, v)
						}
					}
					if best := argmax(row); f.out.Tokens[i] != best {
						t.Fatalf("position %d: drew %d, the best is %d", i, f.out.Tokens[i], best)
					}
				}
				if size < 3 {
					t.Fatalf("the largest logit is %v: nothing is tested", size)
				}
				if worst > c.limit*size {
					t.Errorf("off by %.3g of %.3g, relative %.3g > %.3g", worst, size, worst/size, c.limit)
				}
			})
		}
	})
}

func argmax(v []float32) int32 {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return int32(best)
}

// TestBatchInvariance: every bit of every logit is the same, however sequences
// are cut into chunks, with whom they share a batch, which blocks and block
// size they have and how many threads compute.
func TestBatchInvariance(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		for _, kv := range []Format{F32, F16, BF16} {
			t.Run(kv.String(), func(t *testing.T) { testBatchInvariance(t, im, kv) })
		}
	})
}

func testBatchInvariance(t *testing.T, im *impl, kv Format) {
	rnd := newRand(2)
	n := newNet(rnd, weights.BF16, 32)
	lengths := []int{1, 2, 15, 16, 17, 70, 255, 256, 257, 600}
	if testing.Short() || invariants.Enabled {
		lengths = []int{1, 16, 17, 70, 300}
	}
	var seqs []*sequence
	for _, l := range lengths {
		seqs = append(seqs, &sequence{tokens: randomTokens(rnd, l, n.vocab)})
	}
	// One sequence at a time, in one chunk, on one thread.
	want := make([][][]float32, len(seqs))
	{
		r := newRunner(t, n, Config{Threads: 1, KVType: kv, Impl: im.name}, testSpec)
		for i, s := range seqs {
			s.computed, s.table = 0, nil
			f := newFeeder(rnd, testSpec)
			f.add(s, len(s.tokens), true)
			want[i] = f.run(t, r)
		}
	}
	for round := range 6 {
		spec := testSpec
		spec.BlockTokens = []int{16, 48, 64, 32, 16, 256}[round]
		spec.NumBlocks = 110
		threads := []int{1, 2, 4, 3, 2, 2}[round]
		r := newRunner(t, n, Config{Threads: threads, KVType: kv, Impl: im.name}, spec)
		f := newFeeder(rnd, spec)
		for _, s := range seqs {
			s.computed, s.table = 0, nil
		}
		for left := len(seqs); left > 0; {
			f.reset()
			room := 1 + rnd.IntN(300)
			var who, from []int
			for _, i := range rnd.Perm(len(seqs)) {
				s := seqs[i]
				size := []int{1, 2, 7, 16, 64, 500}[rnd.IntN(6)]
				if c := min(size, len(s.tokens)-s.computed, room); c > 0 {
					room -= c
					for k := range c {
						who, from = append(who, i), append(from, s.computed+k)
					}
					f.add(s, c, true)
					if s.computed == len(s.tokens) {
						left--
					}
				}
			}
			for row, got := range f.run(t, r) {
				if !slices.Equal(bitsOf(got), bitsOf(want[who[row]][from[row]])) {
					t.Fatalf("round %d, %d threads, blocks of %d: position %d of the sequence of %d differs", round, threads, spec.BlockTokens, from[row], len(seqs[who[row]].tokens))
				}
			}
		}
	}
}

func bitsOf(v []float32) []uint32 {
	b := make([]uint32, len(v))
	for i := range v {
		b[i] = math.Float32bits(v[i])
	}
	return b
}

// TestPartialDraw: only some rows draw, more of them than logits are kept at a
// time; dead rows are skipped; the next step takes its tokens by row.
func TestPartialDraw(t *testing.T) {
	rnd := newRand(3)
	n := newNet(rnd, weights.BF16, 16)
	r := newRunner(t, n, Config{Threads: 3, KVType: BF16}, testSpec)
	f := newFeeder(rnd, testSpec)
	s := &sequence{tokens: randomTokens(rnd, 100, n.vocab)}
	f.add(s, 99, true)
	ready := 0
	f.draws.Ready = func() { ready++ }
	for i := range f.draws.Rows {
		row := &f.draws.Rows[i]
		row.Host, row.Dead = i%3 == 1, i%7 == 5
		row.Logprobs, row.Top = backend.RawLogprobs, int32(i%4)
	}
	rows := len(f.batch.At)
	f.out = backend.Out{Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows), TopTokens: make([]int32, 4*rows), TopLogprobs: make([]float32, 4*rows), Logits: make([]float32, rows*n.vocab)}
	if err := r.step(&f.batch, &f.draws, &f.out); err != nil {
		t.Fatal(err)
	}
	if ready != 1 {
		t.Errorf("Ready was called %d times", ready)
	}
	want := n.twin(s.tokens)
	host, top := 0, 0
	for i := range rows {
		row := f.draws.Rows[i]
		if row.Host {
			got := f.out.Logits[host*n.vocab:][:n.vocab]
			if d := math.Abs(float64(got[7]) - want[i][7]); d > 0.3 {
				t.Errorf("host row %d is not row %d: off by %v", host, i, d)
			}
			if !row.Dead && f.out.Tokens[i] != argmax(got) {
				t.Errorf("row %d: drew %d, the best is %d", i, f.out.Tokens[i], argmax(got))
			}
			host++
		}
		switch {
		case row.Dead && f.out.Tokens[i] != -1:
			t.Errorf("row %d is dead and drew %d", i, f.out.Tokens[i])
		case !row.Dead && row.Top > 0 && (f.out.TopTokens[top] != f.out.Tokens[i] || f.out.TopLogprobs[top] != f.out.Logprobs[i]):
			t.Errorf("row %d: token %d, best of the top list at %d is %d", i, f.out.Tokens[i], top, f.out.TopTokens[top])
		}
		top += int(row.Top)
	}

	// By value and by name of the row that drew it.
	last := f.out.Tokens[rows-1]
	if last < 0 {
		t.Fatal("the last row drew nothing")
	}
	dead := int32(5)
	logits := make([][]uint32, 2)
	for i, token := range []int32{^int32(rows - 1), last} {
		f.reset()
		s.computed, s.tokens[99] = 99, token
		f.add(s, 1, false)
		logits[i] = bitsOf(f.run(t, r)[0])
	}
	if !slices.Equal(logits[0], logits[1]) {
		t.Error("^r is not the token that row r drew")
	}
	r.drawn = append(r.drawn[:0], 1, 1, 1, 1, 1, -1)
	for i, token := range []int32{^dead, 0} {
		f.reset()
		s.computed, s.tokens[99] = 99, token
		f.add(s, 1, false)
		logits[i] = bitsOf(f.run(t, r)[0])
	}
	if !slices.Equal(logits[0], logits[1]) {
		t.Error("^r of a row that drew nothing is not token 0")
	}
}

// TestStaleBlocks: what a sequence left in a block, infinities and NaN
// included, reaches nobody who gets the block next.
func TestStaleBlocks(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(4)
		n := newNet(rnd, weights.BF16, 32)
		s := &sequence{tokens: randomTokens(rnd, 75, n.vocab)}
		var want []uint32
		for _, poison := range []byte{0, 0xff} {
			r := newRunner(t, n, Config{Threads: 2, KVType: BF16, Impl: im.name}, testSpec)
			for i := range r.cache.data {
				r.cache.data[i] = poison
			}
			f := newFeeder(newRand(5), testSpec)
			s.computed, s.table = 0, nil
			for _, c := range []int{33, 1, 41} {
				f.reset()
				f.add(s, c, false)
				got := bitsOf(f.run(t, r)[0])
				if s.computed < len(s.tokens) {
					continue
				}
				if poison == 0 {
					want = got
				} else if !slices.Equal(got, want) {
					t.Error("old contents of a block changed a logit")
				}
			}
		}
	})
}

// TestNoAllocation: a steady step allocates nothing, in prefill and decode,
// with one thread and several.
func TestNoAllocation(t *testing.T) {
	if invariants.Enabled {
		t.Skip("checked builds format messages")
	}
	rnd := newRand(6)
	n := newNet(rnd, weights.BF16, 32)
	for _, threads := range []int{1, 2} {
		for _, chunk := range []int{1, 400} {
			r := newRunner(t, n, Config{Threads: threads, KVType: BF16}, testSpec)
			f := newFeeder(rnd, testSpec)
			s := &sequence{tokens: randomTokens(rnd, 700, n.vocab)}
			f.add(s, 300, false)
			f.run(t, r)
			f.reset()
			f.add(s, chunk, false)
			f.run(t, r)
			if got := testing.AllocsPerRun(5, func() {
				if err := r.step(&f.batch, &f.draws, &f.out); err != nil {
					t.Fatal(err)
				}
			}); got != 0 {
				t.Errorf("%d threads, %d tokens: %v allocations per step", threads, chunk, got)
			}
		}
	}
}

// TestPlanErrors: a shape that cannot work is refused in words.
func TestPlanErrors(t *testing.T) {
	good := newNet(newRand(7), weights.F32, 16).shape(testSpec)
	cases := map[string]func(*model.Shape){
		"no layers":                 func(s *model.Shape) { s.Layers = 0 },
		"heads no multiple":         func(s *model.Shape) { s.KVHeads = 4 },
		"block size 24":             func(s *model.Shape) { s.Spec.BlockTokens = 24 },
		"no blocks":                 func(s *model.Shape) { s.Spec.NumBlocks = 0 },
		"no vocabulary":             func(s *model.Shape) { s.Spec.VocabSize = 0 },
		"depth 2":                   func(s *model.Shape) { s.Spec.Depth = 2 },
		"activation of no width":    func(s *model.Shape) { s.Acts = []model.ActShape{{}} },
		"rope wider than a head":    func(s *model.Shape) { s.Ropes = []model.Rope{{InvFreq: make([]float32, 9)}} },
		"KV cache beyond an int":    func(s *model.Shape) { s.Spec.NumBlocks = math.MaxInt },
		"KV cache beyond addresses": func(s *model.Shape) { s.Spec.NumBlocks = 1 << 38 },
		"activation beyond an int":  func(s *model.Shape) { s.Acts = []model.ActShape{{Width: math.MaxInt / 2}} },
		"logits beyond addresses":   func(s *model.Shape) { s.Spec.VocabSize = 1 << 50 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := Open(Config{Threads: 1, KVType: BF16})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			s := good
			change(&s)
			if err := d.Plan(s); err == nil {
				t.Fatal("no error")
			} else {
				t.Log(err)
			}
			if err := d.Plan(good); err != nil {
				t.Errorf("a good plan after a bad one: %v", err)
			}
			if err := d.Plan(good); !errors.Is(err, ErrConfig) {
				t.Errorf("a second plan: %v", err)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []Config{{Threads: -1, KVType: BF16}, {Threads: 5000, KVType: BF16}, {}, {KVType: 9}, {KVType: BF16, WeightType: 9}, {KVType: BF16, Impl: "mmx"}} {
		if _, err := Open(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// TestLoadErrors: tensors that cannot be what the model says are refused.
func TestLoadErrors(t *testing.T) {
	rnd := newRand(8)
	d, err := Open(Config{Threads: 1, KVType: BF16})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mat := func(n, k int) weights.Tensor { return tensor(rnd, weights.F32, 1, n, k) }
	vec := func(n int) weights.Tensor { return tensor(rnd, weights.F32, 1, n) }
	short := mat(3, 4)
	short.Data = short.Data[:40]
	odd := mat(3, 4)
	odd.DType = weights.Invalid
	negative := mat(2, 2)
	negative.Shape = []int{-2, -2}
	list := func(t ...weights.Tensor) []weights.Tensor { return t }
	for name, m := range map[string]model.Matrix{
		"nothing":             {},
		"short data":          {Rows: list(short)},
		"unknown type":        {Rows: list(odd)},
		"negative shape":      {Rows: list(negative)},
		"empty":               {Rows: list(mat(0, 4))},
		"different widths":    {Rows: list(mat(3, 4), mat(3, 5))},
		"vector as matrix":    {Rows: list(vec(4))},
		"matrix as vector":    {Use: model.Vector, Rows: list(mat(3, 4))},
		"vector as embedding": {Use: model.Embedding, Rows: list(vec(3))},
		"embedding with bias": {Use: model.Embedding, Rows: list(mat(3, 4)), Bias: list(vec(3))},
		"too few biases":      {Rows: list(mat(3, 4), mat(3, 4)), Bias: list(vec(3))},
		"bias of wrong size":  {Rows: list(mat(3, 4)), Bias: list(vec(4))},
		"bias is a matrix":    {Rows: list(mat(3, 4)), Bias: list(mat(3, 1))},
		"unknown use":         {Use: 7, Rows: list(mat(3, 4))},
	} {
		if _, err := d.Load(m); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, use := range []model.Use{model.Linear, model.Embedding} {
		if w, err := d.Load(model.Matrix{Use: use, Rows: list(mat(3, 4))}); err != nil || int(w) != i {
			t.Errorf("a good matrix: %d, %v", w, err)
		}
	}
}

// TestMemory: what is reported is what the sizes say.
func TestMemory(t *testing.T) {
	n := newNet(newRand(9), weights.BF16, 32)
	r := newRunner(t, n, Config{Threads: 2, KVType: BF16}, testSpec)
	block, err := r.BlockBytes(n.shape(testSpec))
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * 2 * n.layers * n.kvHeads * n.headDim * testSpec.BlockTokens; block != want {
		t.Errorf("a block has %d bytes, not %d", block, want)
	}
	m := r.Memory()
	if m.KV != int64(block*testSpec.NumBlocks) {
		t.Errorf("KV %d bytes for %d blocks of %d", m.KV, testSpec.NumBlocks, block)
	}
	if m.Weights < int64(len(n.head.Data)) || m.Activations < 4*700*50*2 || m.Scratch <= 0 {
		t.Errorf("%+v", m)
	}
}

// TestClose: no goroutine is left.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	d, err := Open(Config{Threads: 8, KVType: BF16})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.NumGoroutine() != before+7 {
		t.Errorf("%d goroutines for 8 threads", runtime.NumGoroutine()-before)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A goroutine is counted until it has left its last function, a moment
	// after it said that it is done.
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i > 1e7 {
			t.Fatalf("%d goroutines left", runtime.NumGoroutine()-before)
		}
		runtime.Gosched()
	}
}
