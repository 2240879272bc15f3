package cpu

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weir/backend"
	"weir/internal/invariants"
	"weir/model"
	"weir/weights"
)

// referenceTokens is the length of TestReferenceLogits' sequence: more than one partial
// result of attention, and more than a window.
const referenceTokens = partTokens + 44

// TestReferenceLogits: the logits of a whole decoder are those of double precision
// arithmetic, whatever implementation, weight format and KV format.
func TestReferenceLogits(t *testing.T) {
	type decoder struct {
		dtype   weights.DType
		headDim int
	}
	known := map[decoder]*referenceTest{}
	for _, c := range []struct {
		decoder
		as, kv Format
		limit  float64
	}{
		{decoder{weights.F32, 32}, Auto, F32, 5e-6},
		{decoder{weights.F16, 20}, Auto, F32, 5e-6},
		{decoder{weights.BF16, 16}, Auto, F32, 5e-6},
		{decoder{weights.BF16, 48}, F32, F32, 5e-6},
		{decoder{weights.BF16, 16}, Auto, F16, 1e-3},
		{decoder{weights.BF16, 16}, Auto, BF16, 1e-2},
		{decoder{weights.BF16, 32}, Auto, Int8, 3e-2},
		{decoder{weights.F32, 20}, Auto, Int8, 3e-2},
		{decoder{weights.F32, 16}, BF16, F32, 2e-2},
	} {
		t.Run(fmt.Sprintf("%s_as_%s_kv_%s_%d", c.dtype, c.as, c.kv, c.headDim), func(t *testing.T) {
			r := known[c.decoder]
			if r == nil {
				r = newReferenceTest(t, c.dtype, c.headDim)
				known[c.decoder] = r
			}
			eachImpl(t, func(t *testing.T, im *impl) {
				limit := c.limit
				if im.narrow != nil && (c.as == BF16 || c.as == Auto && c.dtype == weights.BF16) {
					limit = max(limit, 4e-2) // rows are rounded too
				}
				r.check(t, Config{Threads: 2, WeightType: c.as, KVType: c.kv, Impl: im.name}, limit)
			})
		})
	}
}

// referenceTest is a sequence and its logits in double precision.
type referenceTest struct {
	n      *net
	tokens []int32
	want   [][]float64
	size   float64 // the largest magnitude of a logit
}

func newReferenceTest(t *testing.T, dtype weights.DType, headDim int) *referenceTest {
	t.Helper()
	rnd := newRand(1)
	n := newNet(rnd, dtype, headDim)
	r := &referenceTest{n: n, tokens: randomTokens(rnd, referenceTokens, n.vocab)}
	r.want = n.reference(r.tokens)
	for _, row := range r.want {
		for _, v := range row {
			r.size = max(r.size, math.Abs(v))
		}
	}
	if r.size < 3 {
		t.Fatalf("the largest logit is %v: nothing is tested", r.size)
	}
	return r
}

// check computes the sequence in one step. limit is relative to the largest logit.
func (r *referenceTest) check(t *testing.T, cfg Config, limit float64) {
	t.Helper()
	f := newFeeder(newRand(2), testSpec)
	f.add(&sequence{tokens: r.tokens}, len(r.tokens), true)
	worst := 0.0
	for i, row := range f.run(t, newRunner(t, r.n, cfg, testSpec)) {
		for v := range row {
			worst = max(worst, math.Abs(float64(row[v])-r.want[i][v]))
			if math.IsNaN(float64(row[v])) {
				t.Fatalf("position %d, token %d: NaN", i, v)
			}
		}
		if best := argmax(row); f.out.Tokens[i] != best {
			t.Fatalf("position %d: drew %d, the best is %d", i, f.out.Tokens[i], best)
		}
	}
	t.Logf("off by %.3g of %.3g, relative %.3g", worst, r.size, worst/r.size)
	if worst > limit*r.size {
		t.Errorf("off by %.3g of %.3g, relative %.3g > %.3g", worst, r.size, worst/r.size, limit)
	}
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
	want := n.reference(s.tokens)
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

// TestNoAllocation: a steady step allocates nothing, in prefill and decode,
// with one thread and several.
func TestNoAllocation(t *testing.T) {
	if invariants.Enabled {
		t.Skip("checked builds format messages")
	}
	rnd := newRand(6)
	n := newNet(rnd, weights.BF16, 32)
	for _, weight := range []Format{Auto, Q8, Q4, W8A8} {
		for i, threads := range []int{1, 2, 2} {
			for _, chunk := range []int{1, 400} {
				r := newRunner(t, n, Config{Threads: threads, WeightType: weight, KVType: []Format{BF16, BF16, Int8}[i]}, testSpec)
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
}

// TestPlanErrors: a shape that cannot work is refused with a reason.
func TestPlanErrors(t *testing.T) {
	good := newNet(newRand(7), weights.F32, 16).shape(testSpec)
	cases := map[string]func(*model.Shape){
		"no layers":                 func(s *model.Shape) { s.KV = nil },
		"heads no multiple":         func(s *model.Shape) { s.KV = model.UniformKV(1, 6, 4, 16) },
		"block size 24":             func(s *model.Shape) { s.Spec.BlockTokens = 24 },
		"no blocks":                 func(s *model.Shape) { s.Spec.NumBlocks = 0 },
		"no vocabulary":             func(s *model.Shape) { s.Spec.VocabSize = 0 },
		"depth 2":                   func(s *model.Shape) { s.Spec.Depth = 2 },
		"activation of no width":    func(s *model.Shape) { s.Acts = []model.ActShape{{}} },
		"rope wider than a head":    func(s *model.Shape) { s.Ropes = []model.Rope{{InvFreq: make([]float32, 9)}} },
		"KV cache beyond an int":    func(s *model.Shape) { s.Spec.NumBlocks = math.MaxInt },
		"KV cache beyond addresses": func(s *model.Shape) { s.Spec.NumBlocks = math.MaxInt >> 25 },
		"activation beyond an int":  func(s *model.Shape) { s.Acts = []model.ActShape{{Width: math.MaxInt / 2}} },
		"logits beyond addresses":   func(s *model.Shape) { s.Spec.VocabSize = math.MaxInt >> 13 },
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
	for kv, want := range map[Format]int64{F32: 4 * 32, F16: 2 * 32, BF16: 2 * 32, Int8: 32 + 4} {
		r := newRunner(t, n, Config{Threads: 2, KVType: kv}, testSpec)
		token, err := KVBytesPerToken(kv, n.shape(testSpec))
		if err != nil {
			t.Fatal(err)
		}
		if want *= int64(2 * n.layers * n.kvHeads); token != want {
			t.Errorf("%s: a token has %d bytes, not %d", kv, token, want)
		}
		if got := r.Memory().KV; got != token*int64(testSpec.BlockTokens*testSpec.NumBlocks) {
			t.Errorf("%s: KV %d bytes for %d blocks of %d tokens of %d", kv, got, testSpec.NumBlocks, testSpec.BlockTokens, token)
		}
	}
	r := newRunner(t, n, Config{Threads: 2, KVType: BF16}, testSpec)
	m := r.Memory()
	if m.Weights < int64(len(n.head.Data)) || m.Activations < 4*700*50*2 || m.Scratch <= 0 {
		t.Errorf("%+v", m)
	}
}

// TestClose: after Close no worker is left.
func TestClose(t *testing.T) {
	workers := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*workers).serve(")
	}
	before := workers()
	d, err := Open(Config{Threads: 8, KVType: BF16})
	if err != nil {
		t.Fatal(err)
	}
	for workers()-before != 7 { // they start when they start
		runtime.Gosched()
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := workers() - before; n > 0 {
		t.Errorf("%d workers left", n)
	}
}

// TestMisuse: operands that do not fit each other panic before a kernel runs.
func TestMisuse(t *testing.T) {
	n := newNet(newRand(12), weights.BF16, 32)
	r := newRunner(t, n, Config{Threads: 1, KVType: BF16}, testSpec)
	f := newFeeder(newRand(13), testSpec)
	f.add(&sequence{tokens: []int32{1, 2}}, 2, false)
	r.Begin(&f.batch)
	act := func(width int) model.Act { return model.Act{Buf: actQKV, Width: width} }
	q, kv := n.heads*n.headDim, n.kvHeads*n.headDim
	noRope := model.Heads{Rope: model.NoRope}
	for name, op := range map[string]func(){
		"MatMul, input":     func() { r.MatMul(act(n.dim), r.w.out[0], act(q-1)) },
		"MatMul, output":    func() { r.MatMul(act(n.dim+1), r.w.out[0], act(q)) },
		"beyond the buffer": func() { r.MatMul(model.Act{Buf: actX, Off: 1, Width: n.dim}, r.w.out[0], act(q)) },
		"negative offset":   func() { r.Gather(model.Act{Buf: actD, Off: -1, Width: 5}, act(5)) },
		"no columns":        func() { r.Gather(model.Act{Buf: actD}, act(0)) },
		"Embed":             func() { r.Embed(act(n.dim+1), r.w.embed, 1) },
		"Norm, groups":      func() { r.Norm(act(n.dim+1), act(n.dim+1), model.Norm{W: r.w.norms[0], B: model.NoWeight}) },
		"Norm, widths":      func() { r.Norm(act(n.dim), act(2*n.dim), model.Norm{W: r.w.norms[0], B: model.NoWeight}) },
		"StoreKV, queries":  func() { r.StoreKV(0, act(q+1), act(kv), act(kv), noRope) },
		"StoreKV, values":   func() { r.StoreKV(0, act(q), act(kv), act(kv+1), noRope) },
		"StoreKV, layer":    func() { r.StoreKV(n.layers, act(q), act(kv), act(kv), noRope) },
		"StoreKV, norms": func() {
			r.StoreKV(0, act(q), act(kv), act(kv), model.Heads{QNorm: model.HeadNorm{On: true}, Rope: model.NoRope})
		},
		"StoreKV, table": func() { r.StoreKV(0, act(q), act(kv), act(kv), model.Heads{Rope: 1}) },
		"Attend, width":  func() { r.Attend(act(q), act(q-1), 0, model.Attention{Scale: 1, Sinks: model.NoWeight}) },
		"Attend, layer":  func() { r.Attend(act(q), act(q), -1, model.Attention{Scale: 1, Sinks: model.NoWeight}) },
		"MatMulGate": func() {
			r.MatMulGate(model.Act{Buf: actH, Width: n.inner}, r.w.gateUp[0], act(n.dim), model.Act{Buf: actG, Width: 2*n.inner - 1}, model.Activation{Kind: model.SiLU})
		},
		"MatMulAdd": func() {
			r.MatMulAdd(model.Act{Buf: actX, Width: n.dim - 1}, r.w.out[0], act(q), model.Act{Buf: actN, Width: n.dim})
		},
		"scratch is the input":    func() { r.MatMulAdd(model.Act{Buf: actX, Width: n.dim}, r.w.out[0], act(q), act(n.dim)) },
		"Gather":                  func() { r.Gather(model.Act{Buf: actD, Width: 10}, act(11)) },
		"Draw, head":              func() { r.Draw(model.Head{W: r.w.out[0], Scale: 1}, act(q), &f.draws) },
		"Draw, width":             func() { r.Draw(model.Head{W: r.w.head, Scale: 1}, act(n.dim+1), &f.draws) },
		"a slot beyond the cache": func() { f.batch.Slots[1] = 1 << 30; r.StoreKV(0, act(q), act(kv), act(kv), noRope) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			op()
		})
	}
}
