package cpu

import (
	"fmt"
	"math"
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
	const k, rows = 70, 200
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(5)
		for _, f := range []Format{Auto, Q8, Q4, W8A8} {
			for _, vocab := range []int{1, 15, 33, 1000, 5003} {
				for _, threads := range []int{1, 3} {
					if im.name == "generic" && vocab > 1000 {
						continue
					}
					d, err := Open(Config{Threads: threads, WeightType: f, KVType: BF16, Impl: im.name})
					if err != nil {
						t.Fatal(err)
					}
					spec := backend.Spec{VocabSize: vocab, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: 99, Depth: 1}
					if err := d.Plan(model.Shape{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 16, Acts: []model.ActShape{{Width: k, Drawn: true}}, Spec: spec}); err != nil {
						t.Fatal(err)
					}
					head, err := d.Load(model.Matrix{Rows: []weights.Tensor{tensor(rnd, weights.BF16, 1, vocab, k)}})
					if err != nil {
						t.Fatal(err)
					}
					for i := range d.acts[0].data {
						d.acts[0].data[i] = float32(rnd.NormFloat64())
					}
					for _, n := range []int{1, 2, 13, 97, rows} {
						draws := backend.Draws{Rows: make([]backend.Draw, n)}
						for i := range draws.Rows {
							draws.Rows[i] = backend.Draw{Seed: uint64(rnd.Uint64()), Index: uint32(i), Mask: -1, Allow: -1, Target: -1, TopP: 1, Dead: i%11 == 5}
							if i%3 > 0 {
								draws.Rows[i].Temperature = float32(math.Exp(3 * rnd.NormFloat64()))
							}
						}
						at := make([]int32, n)
						draw := func(host bool) backend.Out {
							out := backend.Out{Tokens: make([]int32, n), Logits: make([]float32, n*vocab)}
							for i := range draws.Rows {
								draws.Rows[i].Host = host
							}
							d.batch = &backend.Batch{Tokens: make([]int32, n), At: at}
							d.Draw(head, model.Act{Width: k}, &draws)
							if err := d.End(&out); err != nil {
								t.Fatal(err)
							}
							return out
						}
						want := draw(true)
						for i, token := range want.Tokens {
							// With a mask that allows all, Pick does without drafts.
							masked := backend.Draws{Rows: []backend.Draw{draws.Rows[i]}, Masks: slices.Repeat([]uint32{math.MaxUint32}, (vocab+31)/32)}
							masked.Rows[0].Mask = 0
							alone := backend.Out{Tokens: make([]int32, 1)}
							new(sampler.Picker).Pick(want.Logits[i*vocab:(i+1)*vocab], &masked, 0, &alone, 0)
							if token != alone.Tokens[0] {
								t.Fatalf("%s, vocabulary %d, %d threads, row %d of %d: token %d, in Go %d", f, vocab, threads, i, n, token, alone.Tokens[0])
							}
						}
						for i, got := range draw(false).Tokens {
							if got != want.Tokens[i] || draws.Rows[i].Dead != (got == -1) {
								t.Fatalf("%s, vocabulary %d, %d threads, row %d of %d: token %d, from its logits %d", f, vocab, threads, i, n, got, want.Tokens[i])
							}
						}
					}
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// TestNear: what may win is found, and little else. Nothing is read or written
// beside the arguments.
func TestNear(t *testing.T) {
	rnd := newRand(6)
	eachImpl(t, func(t *testing.T, im *impl) {
		if im.pick.Near == nil {
			t.Skip("Go's")
		}
		for words := range 10 {
			for _, limit := range []float32{float32(math.Inf(-1)), -3, 0, 2, 9, float32(math.Inf(1))} {
				got := beforeGuardOf[uint32](t, words)
				logits := beforeGuardOf[float32](t, 32*words)
				for i := range logits {
					logits[i] = float32(rnd.NormFloat64()) * 3
					if rnd.IntN(9) == 0 {
						logits[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[rnd.IntN(3)]
					}
				}
				var keys [20]uint32
				for i := 0; i < 20; i += 2 {
					keys[i], keys[i+1] = uint32(i/2)*0x9E3779B9+77, uint32(i/2)*0xBB67AE85+uint32(words)
				}
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
	if err := d.Plan(model.Shape{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 16, Acts: []model.ActShape{{Width: k, Drawn: true}}, Spec: spec}); err != nil {
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
					d.Draw(head, model.Act{Width: k}, &draws)
					if err := d.End(&out); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(s*1e3, "best-ms")
			})
		}
	}
}
