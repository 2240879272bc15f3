package compute

import (
	"testing"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
)

// tally is a device that counts what it is asked to do, with the simplest loops.
type tally struct {
	model.Device
	shape     model.Shape
	sizes     [][2]int // by Weight: rows and columns of a matrix
	batch     *backend.Batch
	products  int
	read      map[model.Weight]bool
	pairs     int
	positions map[[3]int]bool // layer, sequence, position
}

func (d *tally) Plan(s model.Shape) error {
	d.shape = s
	return d.Device.Plan(s)
}

func (d *tally) Load(m model.Matrix) (model.Weight, error) {
	w, err := d.Device.Load(m)
	var size [2]int
	if m.Use == model.Linear || m.Use == model.Gated {
		for _, r := range m.Rows {
			size[0], size[1] = size[0]+r.Shape[0], r.Shape[1]
		}
	}
	d.sizes = append(d.sizes, size)
	return w, err
}

func (d *tally) Begin(b *backend.Batch) {
	d.batch, d.products, d.pairs = b, 0, 0
	d.read, d.positions = map[model.Weight]bool{}, map[[3]int]bool{}
	d.Device.Begin(b)
}

func (d *tally) MatMul(dst model.Act, w model.Weight, src model.Act) {
	d.product(w, d.rows(dst))
	d.Device.MatMul(dst, w, src)
}

func (d *tally) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	d.product(w, d.rows(dst))
	d.Device.MatMulAdd(dst, w, src, scratch)
}

func (d *tally) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, a model.Activation) {
	d.product(w, d.rows(dst))
	d.Device.MatMulGate(dst, w, src, scratch, a)
}

// rows is how many rows an operation on dst has.
func (d *tally) rows(dst model.Act) int {
	if d.shape.Acts[dst.Buf].Drawn {
		return len(d.batch.At)
	}
	return len(d.batch.Tokens)
}

func (d *tally) product(w model.Weight, rows int) {
	for range rows {
		d.products += 2 * d.sizes[w][0] * d.sizes[w][1]
		d.read[w] = true
	}
}

func (d *tally) Draw(head model.Head, src model.Act, draws *backend.Draws) {
	d.product(head.W, len(draws.Rows))
	d.Device.Draw(head, src, draws)
}

func (d *tally) Attend(dst, q model.Act, layer int, a model.Attention) {
	row := 0
	for s, end := range d.batch.QueryEnd {
		for ; row < int(end); row++ {
			for pos := range int(d.batch.Pos[row]) + 1 {
				if a.Window == 0 || int(d.batch.Pos[row])-pos < a.Window {
					d.pairs += d.shape.KV[0].Heads * d.shape.KV[0].KeyDim
					d.positions[[3]int{layer, s, pos}] = true
				}
			}
		}
	}
	d.Device.Attend(dst, q, layer, a)
}

func (d *tally) weights() (n int) {
	for w := range d.read {
		n += d.sizes[w][0] * d.sizes[w][1]
	}
	return n
}

// TestCostIsWhatTheDeviceIsAskedFor: the calculated cost is what the device counts, in decode
// and prefill, with and without drawn rows, inside and beyond a sliding window.
func TestCostIsWhatTheDeviceIsAskedFor(t *testing.T) {
	c := small(t)
	cfg := cpu.Default()
	cfg.Threads, cfg.HugePages = 1, false
	dev, err := cpu.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	count := &tally{Device: dev}
	runner, err := model.NewRunner(t.Context(), count, synthetic(t, c), model.Options{MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: 128, NumBlocks: 65})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	const perToken = 3 * 2 * 2 * 32 * 2 // layers, keys and values, heads, dimensions, bytes
	n := newNetwork(&c, 1000, perToken)
	if n.perByte = 1; n.weights() != float64(3*(64*(128+2*64)+128*64+3*64*96)+64*300) {
		t.Errorf("%v weights", n.weights())
	}
	conf := Config{MaxTokens: 64, BlockTokens: 16}
	d := newDriver(Subject{Network: &c, Runner: runner}, conf, []int{128, 128, 128})
	type run struct {
		seq, first, end int
		draw            bool
	}
	for name, runs := range map[string][]run{
		"decode":                   {{0, 7, 8, true}, {1, 0, 1, true}, {2, 100, 101, true}},
		"a chunk, nothing drawn":   {{0, 0, 40, false}},
		"the last chunk":           {{0, 40, 75, true}},
		"short of a window":        {{1, 0, 19, true}},
		"a prompt beside a decode": {{0, 30, 31, true}, {1, 10, 40, false}},
	} {
		d.begin()
		for _, r := range runs {
			d.chunk(r.seq, r.first, r.end, r.draw)
		}
		if err := d.step(); err != nil {
			t.Fatal(err)
		}
		want := Cost{
			WeightBytes: float64(count.weights()), Products: float64(count.products),
			KVBytes: float64(len(count.positions) * perToken / 3), Attention: 4 * float64(count.pairs),
		}
		if got := n.cost(&d.batch); got != want {
			t.Errorf("%s: %+v, the device was asked for %+v", name, got, want)
		}
	}
	// A step that draws reads all weights.
	n = newNetwork(&c, 1000, perToken)
	d.begin()
	d.chunk(0, 5, 6, true)
	if got := n.cost(&d.batch); got.WeightBytes < 999.999 || got.WeightBytes > 1000.001 || got.Bytes() != got.WeightBytes+got.KVBytes {
		t.Errorf("%+v", got)
	}
}
