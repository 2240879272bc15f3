//go:build !purego

package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestImpls: a tier is offered if and only if the processor has its instructions. The
// log has the tiers, so one can see which kernels the other tests have run.
func TestImpls(t *testing.T) {
	t.Log(Impls())
	x := cpu.X86
	for name, has := range map[string]bool{
		"amx":        x.HasAMXTile && x.HasAMXInt8 && x.HasAMXBF16 && permitTiles(),
		"avx512bf16": x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VNNI && x.HasAVX512BF16,
		"avx512vnni": x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VNNI,
		"avx512":     x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL,
		"avxvnni":    x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasAVXVNNI,
		"avx2":       x.HasAVX2 && x.HasFMA && x.HasF16C,
		"generic":    true,
	} {
		if slices.Contains(Impls(), name) != has {
			t.Errorf("%s: the processor has it: %t; offered: %v", name, has, Impls())
		}
	}
	if x.HasAVX2 && find("").name == "generic" {
		t.Error("the best implementation is plain Go")
	}
}

// TestSumsOfAVXVNNI: rows for AVX-VNNI are rounded without it, so every processor with AVX2
// tests that.
func TestSumsOfAVXVNNI(t *testing.T) {
	if !slices.Contains(Impls(), "avx2") {
		t.Skip("no AVX2")
	}
	rnd, im := newRand(33), &impl{blocks: blocksAVXVNNI()}
	for n := range 258 {
		for kind := range rowKinds {
			x, got := rowOfKind(rnd, n, kind), make([]byte, groups(n)*2*sumBlock)
			im.blocks.round(got, x.v)
			checkSums(t, im, got, x.v)
		}
	}
}

// TestExponents: scaling by an exponent gives the bits of a multiplication, for
// zeros, infinities and NaN too, so it does not matter which of the two a
// processor gets; and a processor runs both here whoever made it.
func TestExponents(t *testing.T) {
	if !slices.Contains(Impls(), "avx512vnni") {
		t.Skip("no VPDPBUSD with 512 bits")
	}
	rnd := newRand(11)
	for _, f := range blockFormats {
		for k := 1; k < 400; k += 1 + k/20 {
			w := make([]byte, f.tileBytes(k))
			randomTile(rnd, f, k, w)
			testExponents(t, f, w, exponentRows(rnd, k))
		}
	}
}

// exponentRows are rows of k numbers: in the first four zeros, infinite scales and sums
// of zero, very large or small numbers, and NaN.
func exponentRows(rnd *rand.Rand, k int) [][]float32 {
	inf := float32(math.Inf(1))
	rows := make([][]float32, 12)
	for r := range rows {
		x := randomBanded(rnd, k, 0).v
		for i := range x {
			switch r {
			case 0:
				x[i] = 0
			case 1:
				x[i] = []float32{0, 0, inf, -inf}[rnd.IntN(4)]
			case 2:
				x[i] *= float32(math.Ldexp(1, rnd.IntN(220)-110))
			case 3:
				if rnd.IntN(k) == 0 {
					x[i] = float32(math.NaN())
				}
			}
		}
		rows[r] = x
	}
	return rows
}

// testExponents multiplies the rows with a tile in both ways.
func testExponents(t *testing.T, f Format, w []byte, rows [][]float32) {
	t.Helper()
	k := len(rows[0])
	n := groups(k)
	ldx := n * groupRow
	plain, exponents := make([]byte, len(rows)*ldx), make([]byte, len(rows)*ldx)
	for r, x := range rows {
		quantizeTail(quantizeAVX512)(plain[r*ldx:][:ldx], x)
		exponentTail(quantizeExponentsAVX512)(exponents[r*ldx:][:ldx], x)
	}
	for m := 1; m <= len(rows); m++ {
		got, want := make([]float32, m*rowsPerTile), make([]float32, m*rowsPerTile)
		dotAVX512VNNI[f][m](w, []int{0}, []int{0}, n, plain[:m*ldx], ldx, want, rowsPerTile, nil)
		dotAVX512VNNIExponents[f][m](w, []int{0}, []int{0}, n, exponents[:m*ldx], ldx, got, rowsPerTile, nil)
		for i := range got {
			if !equalBits(got[i], want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
				t.Fatalf("%s, %d columns, row %d of %d: %v by exponents, %v by products", f, k, i/rowsPerTile, m, got[i], want[i])
			}
		}
	}
}
