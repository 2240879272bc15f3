package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"weir/backend"
	"weir/model"
	"weir/sampler"
	"weir/weights"
)

// TestDrafts: rows that need no logits draw, from chunks of the head's product,
// the tokens that Pick draws from their logits, by any number of threads.
func TestDrafts(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(5)
		for _, f := range []Format{Auto, Q8, Q4, W8A8} {
			if f != Auto && im.narrow != nil && im.name != "amx" {
				continue // the kernels of the next tier
			}
			// Less than a tile; some tiles; chunks for all threads, the last one short.
			for _, vocab := range []int{1, 15, 33, 1000, 2505} {
				for _, threads := range []int{1, 3} {
					if im.name == "generic" && vocab > 1000 {
						continue
					}
					t.Run(fmt.Sprintf("%s/vocab=%d/threads=%d", f, vocab, threads), func(t *testing.T) {
						h := newHeadTest(t, rnd, Config{Threads: threads, WeightType: f, KVType: BF16, Impl: im.name}, vocab)
						// One row, a pass, several passes, and more than draftRows.
						for _, n := range []int{1, 13, draftRows + 1} {
							h.check(t, randomRows(rnd, n))
						}
					})
				}
			}
		}
	})
}

// headTest is a device with nothing but a head and the rows that it multiplies.
type headTest struct {
	*Device
	vocab int
	head  model.Head
	w, b  weights.Tensor
}

const headColumns, headRows = 70, draftRows + 1

func newHeadTest(t *testing.T, rnd *rand.Rand, cfg Config, vocab int) *headTest {
	t.Helper()
	spec := backend.Spec{VocabSize: vocab, BlockTokens: 16, NumBlocks: 2, MaxTokens: headRows, MaxSeqs: headRows, MaxSeqTokens: 99, Depth: 1}
	d := openPlanned(t, cfg, model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: []model.ActShape{{Width: headColumns, Drawn: true}}, Spec: spec})
	h := &headTest{d, vocab, model.Head{Scale: 1}, tensor(rnd, weights.BF16, 1, vocab, headColumns), tensor(rnd, weights.F32, 5, vocab)}
	var err error
	if h.head.W, err = d.Load(model.Matrix{Rows: []weights.Tensor{h.w}, Bias: []weights.Tensor{h.b}}); err != nil {
		t.Fatal(err)
	}
	for i := range d.acts[0].data {
		d.acts[0].data[i] = float32(rnd.NormFloat64())
	}
	return h
}

// randomRows are draws without filters, a third of them greedy and some of them dead.
func randomRows(rnd *rand.Rand, n int) []backend.Draw {
	rows := make([]backend.Draw, n)
	for i := range rows {
		rows[i] = backend.Draw{Seed: rnd.Uint64(), Index: uint32(i), Mask: -1, Allow: -1, Target: -1, TopP: 1, Dead: i%11 == 5}
		if i%3 > 0 {
			rows[i].Temperature = float32(math.Exp(3 * rnd.NormFloat64()))
		}
	}
	return rows
}

// check draws with logits and without, and one row after the other in Go.
func (h *headTest) check(t *testing.T, rows []backend.Draw) {
	t.Helper()
	want := h.draw(t, rows, true)
	for i, token := range want.Tokens {
		if alone := h.pickInGo(rows[i], want.Logits[i*h.vocab:(i+1)*h.vocab]); token != alone {
			t.Fatalf("row %d of %d: token %d, in Go %d", i, len(rows), token, alone)
		}
	}
	for i, got := range h.draw(t, rows, false).Tokens {
		if got != want.Tokens[i] || rows[i].Dead != (got == -1) {
			t.Fatalf("row %d of %d: token %d, from its logits %d", i, len(rows), got, want.Tokens[i])
		}
	}
}

// draw draws all rows, from their logits if the host wants those.
func (h *headTest) draw(t *testing.T, rows []backend.Draw, host bool) backend.Out {
	t.Helper()
	n := len(rows)
	out := backend.Out{Tokens: make([]int32, n), Logprobs: make([]float32, n), Ranks: make([]int32, n), Hidden: make([]float32, n*headColumns), Logits: make([]float32, n*h.vocab)}
	draws := backend.Draws{Rows: slices.Clone(rows)}
	for i := range draws.Rows {
		draws.Rows[i].Host = host
	}
	h.batch = &backend.Batch{Tokens: make([]int32, n), At: make([]int32, n)}
	h.Draw(h.head, model.Act{Width: headColumns}, &draws)
	if err := h.End(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// pickInGo has a mask that allows all, with which Pick does without drafts.
func (h *headTest) pickInGo(row backend.Draw, logits []float32) int32 {
	row.Mask = 0
	draws := backend.Draws{Rows: []backend.Draw{row}, Masks: slices.Repeat([]uint32{math.MaxUint32}, (h.vocab+31)/32)}
	out := backend.Out{Tokens: make([]int32, 1)}
	new(sampler.Picker).Pick(logits, &draws, 0, &out, 0)
	return out.Tokens[0]
}

// TestNear: what may win is found, and little else. Nothing is read or written
// beside the arguments.
func TestNear(t *testing.T) {
	eachKernel(t, func(im *impl) uintptr { return kernel(im.pick.Near) }, func(t *testing.T, im *impl) {
		rnd := newRand(6)
		for words := range 10 {
			for _, limit := range []float32{float32(math.Inf(-1)), -3, 0, 2, 9, float32(math.Inf(1))} {
				logits := beforeGuardOf[float32](t, 32*words)
				brokenLogits(rnd, logits)
				var keys [20]uint32
				for i := 0; i < 20; i += 2 {
					keys[i], keys[i+1] = uint32(i/2)*0x9E3779B9+77, uint32(i/2)*0xBB67AE85+uint32(words)
				}
				got := beforeGuardOf[uint32](t, words)
				least, most := make([]uint32, words), make([]uint32, words)
				im.pick.Near(got, logits, &keys, 1<<31-9, 5, 0.7, limit)
				sampler.NearGo(least, logits, &keys, 1<<31-9, 5, 0.7, limit+1e-4)
				sampler.NearGo(most, logits, &keys, 1<<31-9, 5, 0.7, limit-1e-4)
				for i := range got {
					if got[i]&least[i] != least[i] || got[i]&^most[i] != 0 {
						t.Fatalf("limit %g, word %d of %d: %032b, at least %032b, at most %032b", limit, i, words, got[i], least[i], most[i])
					}
				}
			}
		}
	})
}

// brokenLogits are random numbers, every ninth of them NaN or infinite.
func brokenLogits(rnd *rand.Rand, logits []float32) {
	for i := range logits {
		logits[i] = float32(rnd.NormFloat64()) * 3
		if rnd.IntN(9) == 0 {
			logits[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[rnd.IntN(3)]
		}
	}
}

// beforeGuardOf is beforeGuard for n numbers of four bytes.
func beforeGuardOf[T float32 | uint32](t testing.TB, n int) []T {
	t.Helper()
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(beforeGuard(t, 4*n)))), n)
}

// TestMaxNaN: NaN hides no number.
func TestMaxNaN(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		for n := 16; n <= 64; n += 16 {
			for i := range n {
				for j := range n {
					x := make([]float32, n)
					x[i], x[j] = 5, float32(math.NaN())
					if got := im.max(x); got == got && got != 5 && i != j {
						t.Fatalf("%d numbers: %g, with 5 at %d and NaN at %d", n, got, i, j)
					}
				}
			}
		}
	})
}

// BenchmarkHead is the head's product and the draws of rows at temperature 1
// with and without their logits, of 128 k tokens.
func BenchmarkHead(b *testing.B) {
	for _, f := range []Format{Q8, Q4} {
		for _, rows := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/rows=%d", f, rows), func(b *testing.B) { benchHead(b, f, rows) })
		}
	}
}

func benchHead(b *testing.B, f Format, rows int) {
	const vocab, k = 128256, 2048
	d, err := Open(Config{Threads: 2, WeightType: f, KVType: BF16, HugePages: true})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	spec := backend.Spec{VocabSize: vocab, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: 99, Depth: 1}
	if err := d.Plan(model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: []model.ActShape{{Width: k, Drawn: true}}, Spec: spec}); err != nil {
		b.Fatal(err)
	}
	head, err := d.Load(model.Matrix{Rows: []weights.Tensor{tensor(newRand(1), weights.BF16, 1, vocab, k)}})
	if err != nil {
		b.Fatal(err)
	}
	rnd := newRand(2)
	for i := range d.acts[0].data {
		d.acts[0].data[i] = float32(rnd.NormFloat64())
	}
	for _, temperature := range []float32{0, 1} {
		for _, host := range []bool{true, false} { // one row's logits make all rows go by theirs
			b.Run(fmt.Sprintf("temperature=%g/logits=%v", temperature, host), func(b *testing.B) {
				draws := backend.Draws{Rows: make([]backend.Draw, rows)}
				for i := range draws.Rows {
					draws.Rows[i] = backend.Draw{Temperature: temperature, Index: uint32(i), Mask: -1, Allow: -1, Target: -1, TopP: 1}
				}
				draws.Rows[0].Host = host
				out := backend.Out{Tokens: make([]int32, rows), Logits: make([]float32, vocab)}
				s := best(b, func(int) {
					d.batch = &backend.Batch{Tokens: make([]int32, rows), At: make([]int32, rows)}
					d.Draw(model.Head{W: head, Scale: 1}, model.Act{Width: k}, &draws)
					if err := d.End(&out); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(s*1e3, "best-ms")
			})
		}
	}
}
