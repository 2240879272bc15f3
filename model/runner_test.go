package model_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/backend"
	"weir/internal/testkit"
	"weir/model"
	"weir/models"
	"weir/weights"
)

// recorder is a device that logs its calls. Buffers are named by their number.
type recorder struct {
	log    *strings.Builder // nil: nothing is kept
	shape  model.Shape
	loaded []model.Matrix
	fail   string // the call that fails
	closed bool
}

func (d *recorder) note(format string, args ...any) {
	if d.log != nil {
		fmt.Fprintf(d.log, format+"\n", args...)
	}
}

var errRecorder = errors.New("recorder: broken")

func (d *recorder) Plan(s model.Shape) error {
	d.shape = s
	if d.fail == "plan" {
		return errRecorder
	}
	return nil
}

func (d *recorder) Load(m model.Matrix) (model.Weight, error) {
	if d.fail == "load" && len(d.loaded) == 3 {
		return 0, errRecorder
	}
	d.loaded = append(d.loaded, m)
	return model.Weight(len(d.loaded) - 1), nil
}

// act avoids formatting an Act, which would allocate, where nothing is kept.
func (d *recorder) act(a model.Act) string {
	if d.log == nil {
		return ""
	}
	s := fmt.Sprint(a.Buf)
	if d.shape.Acts[a.Buf].Drawn {
		s += "d"
	}
	if w := d.shape.Acts[a.Buf].Width; a.Width != w {
		s += fmt.Sprintf("[%d:%d]", a.Off, a.Off+a.Width)
	}
	return s
}

func (d *recorder) op(name string, w model.Weight, acts ...model.Act) {
	if d.log == nil {
		return
	}
	line := name
	for _, a := range acts {
		line += " " + d.act(a)
	}
	if w >= 0 {
		line += " " + d.loaded[w].Rows[0].Name
	}
	d.note("%s", line)
}

func (d *recorder) Begin(b *backend.Batch)                         { d.op("begin", -1) }
func (d *recorder) Embed(dst model.Act, w model.Weight, _ float32) { d.op("embed", w, dst) }
func (d *recorder) EmbedAdd(dst model.Act, w model.Weight, _ model.Index, _ int) {
	d.op("embed-add", w, dst)
}
func (d *recorder) Select(q, weights model.Act, _ int, _ model.Selection) {
	d.op("select", -1, q, weights)
}
func (d *recorder) Activate(dst, src model.Act, _ model.Activation) { d.op("activate", -1, dst, src) }
func (d *recorder) Gate(dst, src, gate model.Act, _ model.Activation) {
	d.op("gate", -1, dst, src, gate)
}
func (d *recorder) Add(dst, src model.Act, _ float32)   { d.op("add", -1, dst, src) }
func (d *recorder) Scale(dst, src model.Act, _ float32) { d.op("scale", -1, dst, src) }
func (d *recorder) Experts(dst, src, logits model.Act, _ *model.Experts) {
	d.op("experts", -1, dst, src, logits)
}
func (d *recorder) Conv(dst, src model.Act, c *model.Conv) { d.op("conv", c.W, dst, src) }
func (d *recorder) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) {
	d.op("delta", x.A, dst, q, k, v, a, b)
}
func (d *recorder) Scan(dst, x, b, c, dt model.Act, s *model.Scan) {
	d.op("scan", s.A, dst, x, b, c, dt)
}
func (d *recorder) Norm(dst, src model.Act, n model.Norm) { d.op("norm", n.W, dst, src) }
func (d *recorder) MatMul(dst model.Act, w model.Weight, src model.Act) {
	d.op("matmul", w, dst, src)
}
func (d *recorder) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	d.op("matmul-add", w, dst, src, scratch)
}
func (d *recorder) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, _ model.Activation) {
	d.op("matmul-gate", w, dst, src, scratch)
}
func (d *recorder) StoreKV(_ int, q, k, v model.Act, h model.Heads) {
	if h.QNorm.On {
		d.op("norm-rotate-store", h.QNorm.W, q, k, v)
	} else {
		d.op("rotate-store", -1, q, k, v)
	}
}
func (d *recorder) EndForward()                                       { d.op("end-forward", -1) }
func (d *recorder) Gather(dst, src model.Act)                         { d.op("gather", -1, dst, src) }
func (d *recorder) Attend(dst, q model.Act, _ int, _ model.Attention) { d.op("attend", -1, dst, q) }
func (d *recorder) Draw(head model.Head, src model.Act, _ *backend.Draws) {
	d.op("draw", head.W, src)
}
func (d *recorder) End(*backend.Out) error { d.op("end", -1); return nil }
func (d *recorder) Close() error           { d.closed = true; return nil }

// TestLayerOrder compares the operations of a step with a golden file: their order,
// which of them work on drawn rows alone, and what a step without drawn rows leaves out.
func TestLayerOrder(t *testing.T) {
	var log strings.Builder
	for _, rows := range []int{1, 0} {
		fmt.Fprintf(&log, "-- rows drawn: %d\n", rows)
		h := newHarness(t, openModel(t, cut(t, "qwen3", 2)), &recorder{log: &log}, model.Options{}, 1)
		h.step(chunk{&sequence{tokens: []int32{5, 6}}, 2, positions(2-rows, 2)})
	}
	testkit.Golden(t, "testdata/order.txt", []byte(log.String()))
}

// TestDepth: at depth 1 the device gets a step in End, so that the engine can deliver
// tokens first. At depth 2 it gets the pass in Begin and the draws in Draw.
func TestDepth(t *testing.T) {
	for depth, want := range map[int][3]string{
		1: {"", "", "begin compute draw end"},
		2: {"begin compute", "draw", "end"},
	} {
		var log strings.Builder
		h := newHarness(t, openModel(t, cut(t, "llama2", 1)), &recorder{log: &log}, model.Options{Depth: depth, ThreadBound: true}, 1)
		if s := h.b.Spec(); s.Depth != depth || !s.ThreadBound {
			t.Errorf("spec %+v", s)
		}
		logged := func() string {
			var calls []string
			for line := range strings.Lines(log.String()) {
				call := strings.Fields(line)[0]
				if call != "begin" && call != "draw" && call != "end" {
					call = "compute"
				}
				calls = append(calls, call)
			}
			log.Reset()
			return strings.Join(slices.Compact(calls), " ")
		}
		h.begin(chunk{&sequence{tokens: []int32{5}}, 1, []int{0}})
		var got [3]string
		err := h.b.Begin(&h.batch)
		got[0] = logged()
		err = errors.Join(err, h.b.Draw(&h.draws))
		got[1] = logged()
		err = errors.Join(err, h.b.End(&h.out))
		got[2] = logged()
		if err != nil || got != want {
			t.Errorf("depth %d: %q, %v; want %q", depth, got, err, want)
		}
	}
}

// TestDepthTwo: two steps in flight, of which the second computes the tokens that the
// first draws, give the same tokens as one step at a time.
func TestDepthTwo(t *testing.T) {
	g := readGolden(t, "mistral")
	h := newHarness(t, openModel(t, checkpointFS("mistral")), newReference(), model.Options{MaxSeqTokens: 256, Depth: 2}, 1)
	s := &sequence{tokens: slices.Clone(g.Prompt)}
	var steps [2]harness // each its own batch, draws and result
	begin := func(i int) *harness {
		x := &steps[i%2]
		x.t, x.b, x.free = t, h.b, h.free
		x.begin(chunk{s, len(s.tokens) - s.computed, []int{len(s.tokens) - 1}})
		h.free = x.free
		if err := h.b.Begin(&x.batch); err != nil {
			t.Fatal(err)
		}
		return x
	}
	draw := func(x *harness) {
		if err := h.b.Draw(&x.draws); err != nil {
			t.Fatal(err)
		}
	}
	x := begin(0)
	draw(x)
	for i, want := range g.Greedy {
		s.tokens = append(s.tokens, ^int32(0))
		next := begin(i + 1)
		if err := h.b.End(&x.out); err != nil {
			t.Fatal(err)
		}
		if x.out.Tokens[0] != want {
			t.Fatalf("token %d is %d, want %d", i, x.out.Tokens[0], want)
		}
		draw(next)
		x = next
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, depth := range []int{1, 2} {
		h := newHarness(t, openModel(t, checkpointFS("qwen3")), &recorder{}, model.Options{Depth: depth}, 1)
		h.begin(chunk{&sequence{tokens: []int32{5, 6}}, 2, []int{1}})
		n := testing.AllocsPerRun(100, func() {
			if h.b.Begin(&h.batch) != nil || h.b.Draw(&h.draws) != nil || h.b.End(&h.out) != nil {
				t.Error("a step failed")
			}
		})
		if n != 0 {
			t.Errorf("depth %d: %v allocations per step", depth, n)
		}
	}
}

func TestBatchThatDoesNotFit(t *testing.T) {
	m := openModel(t, checkpointFS("llama2"))
	for name, spoil := range map[string]func(*backend.Batch){
		"no token": func(b *backend.Batch) { b.Reset() },
		"too many tokens": func(b *backend.Batch) {
			b.Tokens = append(b.Tokens, 1)
			b.Pos = append(b.Pos, 2)
			b.Slots = append(b.Slots, 18)
		},
		"positions":        func(b *backend.Batch) { b.Pos = b.Pos[:1] },
		"slots":            func(b *backend.Batch) { b.Slots = b.Slots[:1] },
		"no sequence":      func(b *backend.Batch) { b.QueryEnd, b.KVLen, b.TableEnd = nil, nil, nil },
		"lengths":          func(b *backend.Batch) { b.KVLen = nil },
		"tables":           func(b *backend.Batch) { b.TableEnd = nil },
		"more rows than T": func(b *backend.Batch) { b.At = []int32{0, 1, 1} },
	} {
		h := newHarness(t, m, newReference(), model.Options{MaxTokens: 2}, 1)
		h.begin(chunk{&sequence{tokens: []int32{5, 6}}, 2, []int{1}})
		spoil(&h.batch)
		if err := h.b.Begin(&h.batch); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	h := newHarness(t, m, newReference(), model.Options{MaxTokens: 2}, 1)
	h.begin(chunk{&sequence{tokens: []int32{5, 6}}, 2, []int{1}})
	h.draws.Rows = nil
	if err := errors.Join(h.b.Begin(&h.batch), h.b.Draw(&h.draws)); err == nil {
		t.Error("fewer draws than rows: accepted")
	}
}

func TestLoad(t *testing.T) {
	for _, name := range append(checkpoints, models.Name) {
		m := openModel(t, checkpointFS(name))
		var dev recorder
		var seen []int64
		r, err := model.NewRunner(context.Background(), &dev, m, model.Options{Progress: func(done, total int64) { seen = append(seen, done, total) }})
		if err != nil {
			t.Fatal(err)
		}
		var loaded int64
		for _, x := range dev.loaded {
			for _, row := range slices.Concat(x.Rows, x.Bias) {
				loaded += int64(len(row.Data))
			}
			if len(x.Bias) != 0 && len(x.Bias) != len(x.Rows) {
				t.Errorf("%s: %d biases for %d matrices", x.Rows[0].Name, len(x.Bias), len(x.Rows))
			}
		}
		for i := 2; i < len(seen); i += 2 {
			if seen[i] <= seen[i-2] || seen[i+1] != loaded {
				t.Errorf("%s: progress %v", name, seen)
			}
		}
		if seen[0] != 0 || seen[1] != loaded || seen[len(seen)-2] != loaded {
			t.Errorf("%s: progress %v of %d", name, seen, loaded)
		}
		if err := r.Close(); err != nil || !dev.closed {
			t.Errorf("%s: the device stays open (%v)", name, err)
		}
	}
}

func TestLoadFails(t *testing.T) {
	m := openModel(t, checkpointFS("llama2"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	half := func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}
	for _, c := range []struct {
		dev  recorder
		opt  model.Options
		want error
	}{
		{dev: recorder{fail: "plan"}, want: errRecorder},
		{dev: recorder{fail: "load"}, want: errRecorder},
		{opt: model.Options{BlockTokens: 8}, want: model.ErrOptions},
		{opt: model.Options{Progress: half}, want: context.Canceled}, // the last: ctx ends
	} {
		r, err := model.NewRunner(ctx, &c.dev, m, c.opt)
		if !errors.Is(err, c.want) || r != nil || !c.dev.closed {
			t.Errorf("want %v: %v, closed %v", c.want, err, c.dev.closed)
		}
		if n := len(c.dev.loaded); c.want == context.Canceled && (n == 0 || n > 20) {
			t.Errorf("%d matrices were loaded", n)
		}
	}
}

func TestOptions(t *testing.T) {
	m := openModel(t, checkpointFS("llama2"))
	o := m.Options(model.Options{})
	if o.BlockTokens != 16 || o.NumBlocks != 17 || o.MaxTokens != 512 || o.MaxSeqs != 256 || o.MaxSeqTokens != 256 || o.Depth != 1 {
		t.Errorf("defaults %+v", o)
	}
	for _, o := range []model.Options{
		{BlockTokens: 24}, {BlockTokens: -16}, {BlockTokens: 1 << 30}, {NumBlocks: 1}, {NumBlocks: 1 << 28}, {MaxTokens: -1},
		{MaxSeqs: -1}, {MaxSeqTokens: 257}, {MaxSeqTokens: -1}, {Depth: 3}, {Depth: -1},
	} {
		if _, err := model.NewRunner(context.Background(), newReference(), m, o); !errors.Is(err, model.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestStoredTiedHead: a tied head that is stored as a copy of the embedding is the
// embedding. Another matrix is the head, as in transformers.
func TestStoredTiedHead(t *testing.T) {
	dir := os.DirFS("testdata/qwen2")
	for _, copied := range []bool{true, false} {
		m := openModel(t, withTensors(t, dir, func(tensors map[string]weights.Tensor) {
			head := tensors["model.embed_tokens.weight"]
			head.Name = "lm_head.weight"
			if !copied {
				head.Data = slices.Clone(head.Data)
				head.Data[0]++
			}
			tensors[head.Name] = head
		}))
		var dev recorder
		if _, err := model.NewRunner(context.Background(), &dev, m, model.Options{}); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "model.embed_tokens.weight", false: "lm_head.weight"}[copied]
		// The embedding itself is loaded after the head.
		if got := dev.loaded[len(dev.loaded)-2].Rows[0].Name; got != want {
			t.Errorf("copied %v: the head is %s", copied, got)
		}
	}
}

func TestSizes(t *testing.T) {
	m := openModel(t, models.Bundled())
	if n := m.Parameters(); n != 5_639_808 {
		t.Errorf("%d parameters", n)
	}
	if m.WeightBytes() != 2*m.Parameters() {
		t.Errorf("%d bytes of weights", m.WeightBytes())
	}
	// 6 layers, 4 KV heads of 32, key and value, 2 bytes
	if n := m.Config.KVBytesPerToken(weights.BF16); n != 6*4*32*2*2 {
		t.Errorf("%d bytes of KV per token", n)
	}
	// x, h: 256; qkv: 512; attn: 256; gateUp: 1536; mid: 768; all but qkv twice
	if n := m.Config.ActivationBytes(10); n != 10*4*(2*(256+256+256+1536+768)+512) {
		t.Errorf("%d bytes of activations", n)
	}
}

// TestShorten: the longest sequence of a runner can become shorter, and never longer.
func TestShorten(t *testing.T) {
	m := openModel(t, models.Bundled())
	r, err := model.NewRunner(t.Context(), &recorder{}, m, model.Options{MaxSeqTokens: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tokens, after int }{{101, 100}, {0, 100}, {-1, 100}, {60, 60}, {61, 60}, {60, 60}} {
		err := r.Shorten(c.tokens)
		if got := r.Spec().MaxSeqTokens; got != c.after || (err == nil) != (c.tokens == c.after) {
			t.Errorf("shortened to %d: %d tokens, %v", c.tokens, got, err)
		}
	}
}
