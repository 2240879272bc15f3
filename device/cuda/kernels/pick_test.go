package kernels

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"weir/backend"
	"weir/sampler"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/pick.bin anew")

// TestDrawLayout: pick.cu reads the memory of backend.Draw and backend.Edit.
func TestDrawLayout(t *testing.T) {
	var d backend.Draw
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"Seed", unsafe.Offsetof(d.Seed), 0}, {"Index", unsafe.Offsetof(d.Index), 8}, {"Temperature", unsafe.Offsetof(d.Temperature), 12},
		{"TopP", unsafe.Offsetof(d.TopP), 16}, {"MinP", unsafe.Offsetof(d.MinP), 20}, {"TopK", unsafe.Offsetof(d.TopK), 24},
		{"EditEnd", unsafe.Offsetof(d.EditEnd), 28}, {"Mask", unsafe.Offsetof(d.Mask), 32}, {"Allow", unsafe.Offsetof(d.Allow), 36},
		{"Target", unsafe.Offsetof(d.Target), 40}, {"Top", unsafe.Offsetof(d.Top), 44}, {"Logprobs", unsafe.Offsetof(d.Logprobs), 48},
		{"Host", unsafe.Offsetof(d.Host), 49}, {"Dead", unsafe.Offsetof(d.Dead), 50}, {"size of Draw", unsafe.Sizeof(d), 56},
		{"size of Edit", unsafe.Sizeof(backend.Edit{}), 16}, {"size of PickResult", unsafe.Sizeof(PickResult{}), 24}, {"size of PickTop", unsafe.Sizeof(PickTop{}), 8},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, pick.cu has %d", c.name, c.got, c.want)
		}
	}
}

// pickCase is a row set whose logits come from a hash, so that the C++ test
// (emu/test_pick.cc) makes the same.
type pickCase struct {
	vocab, style int
	seed         uint32
	d            backend.Draws
}

// pickLogit is logit i of a row; emu/test_pick.cc has the same function.
func pickLogit(style int, seed uint32, i int) float32 {
	h := uint32(i)*0x9e3779b9 + seed
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	bell := float32(int32(h&255)+int32(h>>8&255)+int32(h>>16&255)+int32(h>>24)-510) / 32
	switch style {
	case 1: // many ties
		return float32(int32(h%37) - 18)
	case 2: // what a model should not say
		switch h % 23 {
		case 0:
			return float32(math.NaN())
		case 1:
			return float32(math.Inf(1))
		case 2:
			return float32(math.Inf(-1))
		case 3:
			return math.MaxFloat32
		case 4:
			return float32(math.Copysign(0, -1))
		case 5:
			return 0
		}
		return bell
	case 3:
		return float32(math.Inf(-1))
	case 4: // flat: no token can be skipped
		return bell / 1024
	case 5: // zeros of both signs and little else
		if h&3 == 0 {
			return float32(math.Copysign(0, -1))
		}
		return 0
	}
	return bell
}

func pickCases() []pickCase {
	rng := rand.New(rand.NewPCG(1, 2))
	var cases []pickCase
	for i, vocab := range []int{1, 3, 31, 100, 1000, 1027, 2050, 5000} {
		for style := range 6 {
			if (i+style)%2 == 0 && style != 0 {
				continue
			}
			c := pickCase{vocab: vocab, style: style, seed: rng.Uint32()}
			words := (vocab + 31) / 32
			for m := range 2 {
				for range words {
					c.d.Masks = append(c.d.Masks, rng.Uint32()|rng.Uint32()>>m)
				}
			}
			for range 11 {
				c.d.Rows = append(c.d.Rows, randomDraw(rng, vocab))
				for _, id := range rng.Perm(vocab)[:min(vocab, rng.IntN(3)*rng.IntN(20))] {
					c.d.Edits = append(c.d.Edits, randomEdit(rng, id))
				}
				c.d.Rows[len(c.d.Rows)-1].EditEnd = int32(len(c.d.Edits))
			}
			cases = append(cases, c)
		}
	}
	return cases
}

func randomEdit(rng *rand.Rand, token int) backend.Edit {
	e := backend.Edit{Token: int32(token), Repeat: 1}
	switch rng.IntN(4) {
	case 0:
		e.Bias = backend.Forbid
	case 1:
		e.Bias = float32(rng.NormFloat64() * 5)
	case 2:
		e.Repeat, e.Minus = 1+rng.Float32(), rng.Float32()
	case 3:
		e.Minus = float32(rng.NormFloat64())
	}
	return e
}

func randomDraw(rng *rand.Rand, vocab int) backend.Draw {
	d := backend.Draw{Seed: rng.Uint64(), Index: uint32(rng.IntN(1000)), TopP: 1, Mask: -1, Allow: -1, Target: -1}
	if rng.IntN(4) > 0 {
		d.Temperature = []float32{0.01, 0.7, 1, 1.3, 40, 1e-40}[rng.IntN(6)]
	}
	if rng.IntN(2) == 0 {
		d.TopP = []float32{0.05, 0.5, 0.9, 0.999, 1e-6}[rng.IntN(5)]
	}
	if rng.IntN(3) == 0 {
		d.TopK = int32([]int{1, 2, 40, 1000}[rng.IntN(4)])
	}
	if rng.IntN(4) == 0 {
		d.MinP = []float32{0.01, 0.3, 1}[rng.IntN(3)]
	}
	if rng.IntN(3) == 0 {
		d.Mask = int32(rng.IntN(2))
	}
	if rng.IntN(3) == 0 {
		d.Allow = int32(rng.IntN(2))
	}
	if rng.IntN(5) == 0 {
		d.Target = int32(rng.IntN(vocab))
	}
	d.Logprobs = backend.LogprobMode(rng.IntN(3))
	d.Top = int32([]int{0, 0, 1, 5, 20, 0, 3, 1, 1024}[rng.IntN(9)])
	d.Dead = rng.IntN(12) == 0
	return d
}

// TestPickGolden: testdata/pick.bin, which the emulator's test holds the kernel
// pick against, is what package sampler draws.
func TestPickGolden(t *testing.T) {
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range pickCases() {
		n := len(c.d.Rows)
		put([]int32{int32(c.vocab), int32(c.style), int32(c.seed), int32(n), int32(len(c.d.Edits)), int32(len(c.d.Masks))})
		tops := 0
		for _, r := range c.d.Rows {
			put(r.Seed)
			put(r.Index)
			put([]float32{r.Temperature, r.TopP, r.MinP})
			put([]int32{r.TopK, r.EditEnd, r.Mask, r.Allow, r.Target, r.Top})
			dead := byte(0)
			if r.Dead {
				dead = 1
			}
			put([]byte{byte(r.Logprobs), 0, dead, 0, 0, 0, 0, 0})
			tops += int(r.Top)
		}
		put(c.d.Edits)
		put(c.d.Masks)
		out := backend.Out{
			Tokens: make([]int32, n), Logprobs: make([]float32, n), Ranks: make([]int32, n),
			TopTokens: make([]int32, tops), TopLogprobs: make([]float32, tops),
		}
		var p sampler.Picker
		logits := make([]float32, c.vocab)
		at := 0
		for row := range c.d.Rows {
			for i := range logits {
				logits[i] = pickLogit(c.style, c.seed+uint32(row), i)
			}
			p.Pick(logits, &c.d, row, &out, at)
			at += int(c.d.Rows[row].Top)
		}
		put(out.Tokens)
		put(out.Ranks)
		put(out.Logprobs)
		put(out.TopTokens)
		put(out.TopLogprobs)
	}
	if *rewrite {
		if err := os.WriteFile("testdata/pick.bin", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/pick.bin")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Error("package sampler draws otherwise than testdata/pick.bin says: go test -run PickGolden -rewrite, then make test-cuda-kernels")
	}
}
