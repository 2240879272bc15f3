package sampler

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"weir/backend"
	"weir/internal/testkit"
)

// goldenRow is a row that is easy to compute in any language: integers divided by a
// power of two.
func goldenRow(v int, seed uint32) []float32 {
	row := make([]float32, v)
	for i := range row {
		x := seed + uint32(i)*0x9E3779B9
		x = (x ^ x>>16) * 0x85EBCA6B
		x = (x ^ x>>13) * 0xC2B2AE35
		x ^= x >> 16
		// The sum of two bytes, and for one token in 64 something larger on top.
		n := int32(x&0xff) + int32(x>>8&0xff) - 255
		if x>>16&0x3f == 0 {
			n += int32(x >> 22)
		}
		row[i] = float32(n) / 64
	}
	return row
}

// TestGolden pins the bits of the arithmetic and of whole draws. It notices another
// architecture, a compiler that fuses operations, and any change of the definition.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	goldenFunctions(&b)
	goldenDraws(t, &b)
	testkit.Golden(t, "testdata/golden.txt", b.Bytes())
}

func goldenFunctions(b *bytes.Buffer) {
	hex := math.Float32bits
	fmt.Fprintln(b, "# exp32: x, exp32(x) (bits), weight(x)")
	for i := range 60 {
		x := -float32(i*i) / 128
		fmt.Fprintf(b, "exp32 %08x %08x %d\n", hex(x), hex(exp32(x)), weight(x))
	}
	fmt.Fprintln(b, "# gumbel: random word, gumbel (bits)")
	for i := range uint32(64) {
		x := i*0x04104105 + i
		if i >= 32 {
			x = 1<<(i-32) + i
		}
		fmt.Fprintf(b, "gumbel %08x %08x\n", x, hex(gumbel(x)))
	}
	fmt.Fprintln(b, "# logmass: total, ln(total/2^40) (bits of a float64)")
	for i := range 40 {
		total := uint64(fullWeight)<<(i%20) + uint64(i)*987654321
		fmt.Fprintf(b, "logmass %d %016x\n", total, math.Float64bits(logMass(total)))
	}
}

func goldenDraws(t *testing.T, b *bytes.Buffer) {
	fmt.Fprintln(b, "# draw: V, seed of the row, seed, index, T, top_p, min_p, top_k, mode = token, logprob (bits), rank, top 3")
	filters := []backend.Draw{{TopP: 1}, {TopP: 0.9}, {TopP: 1, MinP: 0.05}, {TopP: 1, TopK: 5}, {TopP: 0.7, MinP: 0.01, TopK: 40}}
	var p Picker
	n := 0
	for _, v := range []int{7, 64, 1000, 32003} {
		for _, temperature := range []float32{0, 0.25, 1, 1.7} {
			for _, d := range filters {
				n++
				d.Temperature, d.Seed, d.Index = temperature, uint64(n)*0x9E3779B97F4A7C15, uint32(n)
				d.Mask, d.Allow, d.Target, d.Top = -1, -1, -1, 3
				d.Logprobs = backend.RawLogprobs + backend.LogprobMode(n%2)
				r := pick(t, &p, [][]float32{goldenRow(v, uint32(n))}, &backend.Draws{Rows: []backend.Draw{d}})[0]
				fmt.Fprintf(b, "draw %d %d %d %d %g %g %g %d %d = %d %08x %d", v, n, d.Seed, d.Index, temperature, d.TopP, d.MinP, d.TopK, d.Logprobs, r.token, math.Float32bits(r.logprob), r.rank)
				for i := range r.top {
					fmt.Fprintf(b, " %d:%08x", r.top[i], math.Float32bits(r.topLP[i]))
				}
				fmt.Fprintln(b)
			}
		}
	}
}
