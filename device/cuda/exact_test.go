//go:build cuda && linux && amd64

package cuda

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"weir/device/cuda/kernels"
	"weir/weights"
)

// at reads weight (r, c) of tiles by the words of src/quant.h.
func (f Format) at(tiles []byte, r, c, k int) float32 {
	tile := tiles[(r/64*((k+63)/64)+c/64)*formats[f].tile:][:formats[f].tile]
	in, kb := r%64, c%64/32
	mi, step, reg, lane, e := in/16, c%32/16, in%16/8+c%16/8*2, in%8*4+c%8/2, c%2
	var q int
	if f == Q8 {
		q = int(tile[((mi*2+kb)*32+lane)*16+8*step+2*reg+e]) - 128
	} else {
		word := binary.LittleEndian.Uint32(tile[((mi*2+kb)*32+lane)*8+4*step:])
		q = int(word>>(4*(reg+4*e))&15) - 8
	}
	scales := tile[len(tile)-256:]
	if f == MXFP4 {
		code := q + 8
		number := [8]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}[code&7]
		if code > 8 { // the negative zero is a zero
			number = -number
		}
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(scales[(kb*64+in)*2:]))<<16) * number
	}
	return weights.FromFloat16(binary.LittleEndian.Uint16(scales[(kb*64+in)*2:])) * float32(q)
}

// randomBlocks is a matrix of Q8_0, Q4_0 or MXFP4 with all codes and finite scales.
func randomBlocks(rng *rand.Rand, d weights.DType, n, k int) weights.Tensor {
	t := weights.Tensor{Name: d.String(), DType: d, Shape: []int{n, k}, Data: make([]byte, n*d.RowBytes(k))}
	_, size := d.Block()
	for i := range t.Data {
		t.Data[i] = byte(rng.Uint32())
		switch {
		case d == weights.MXFP4 && i%size == 0:
			t.Data[i] %= 252 // all numbers can be doubled
		case d != weights.MXFP4 && i%size == 1 && t.Data[i]&0x7c == 0x7c:
			t.Data[i] ^= 0x40
		}
	}
	return t
}

// randomWords is a matrix as GPTQ packs it, with float16 scales.
func randomWords(rng *rand.Rand, bits, n, k, group int, zero func() uint32) weights.Tensor {
	bytes := func(size int, v func() uint32) []byte {
		var b []byte
		for range size / 4 {
			b = binary.LittleEndian.AppendUint32(b, v())
		}
		return b
	}
	groups := k / group
	p := &weights.Packed{Layout: weights.ColumnWords, Bits: bits, GroupRows: 1, GroupColumns: group, Transposed: true}
	p.Scales = weights.Tensor{DType: weights.F16, Shape: []int{groups, n}, Data: bytes(groups*n*2, func() uint32 { return rng.Uint32() & 0x3bff3bff })}
	p.Zeros = weights.Tensor{DType: weights.I32, Shape: []int{groups, n * bits / 32}, Data: bytes(groups*n*bits/8, zero)}
	return weights.Tensor{Name: "words", DType: weights.I32, Shape: []int{n, k}, Packed: p, Data: bytes(n*k*bits/8, rng.Uint32)}
}

// randomPairs is a matrix as gpt-oss stores it.
func randomPairs(rng *rand.Rand, n, k int) weights.Tensor {
	t := randomBlocks(rng, weights.I8, n, k/2+k/32)
	p := &weights.Packed{Layout: weights.RowPairs, Bits: 4, GroupRows: 1, GroupColumns: 32}
	p.Scales = weights.Tensor{DType: weights.F8E8M0, Shape: []int{n, k / 32}, Data: t.Data[n*k/2:]}
	for i := range p.Scales.Data {
		p.Scales.Data[i] %= 252
	}
	return weights.Tensor{Name: "pairs", DType: weights.F4, Shape: []int{n, k}, Packed: p, Data: t.Data[:n*k/2]}
}

// TestExact: tiles of matrices that are stored in codes hold the same numbers.
func TestExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	permuted := randomBlocks(rng, weights.Q8_0, 32, 64)
	permuted.Pairs = 16
	eights := func() uint32 { return 0x88888888 }
	for name, c := range map[string]struct {
		rows  []weights.Tensor
		gated bool
		want  Format
	}{
		"q8_0":           {rows: []weights.Tensor{randomBlocks(rng, weights.Q8_0, 70, 96)}, want: Q8},
		"q4_0":           {rows: []weights.Tensor{randomBlocks(rng, weights.Q4_0, 64, 160)}, want: Q4},
		"stacked":        {rows: []weights.Tensor{permuted, randomBlocks(rng, weights.Q8_0, 100, 64), randomBlocks(rng, weights.Q8_0, 3, 64)}, want: Q8},
		"gated":          {rows: []weights.Tensor{randomBlocks(rng, weights.Q4_0, 40, 64), randomBlocks(rng, weights.Q4_0, 40, 64)}, gated: true, want: Q4},
		"mxfp4":          {rows: []weights.Tensor{randomBlocks(rng, weights.MXFP4, 70, 96), randomBlocks(rng, weights.MXFP4, 10, 96)}, want: MXFP4},
		"mxfp4, gated":   {rows: []weights.Tensor{randomPairs(rng, 40, 160), randomPairs(rng, 40, 160)}, gated: true, want: MXFP4},
		"int4":           {rows: []weights.Tensor{randomWords(rng, 4, 24, 128, 64, eights)}, want: Q4},
		"int4, any zero": {rows: []weights.Tensor{randomWords(rng, 4, 24, 128, 32, rng.Uint32)}, want: Q8},
		"int8":           {rows: []weights.Tensor{randomWords(rng, 8, 24, 64, 64, func() uint32 { return 0x80808080 })}, want: Q8},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.rows {
				if err := c.rows[i].CheckSize(); err != nil {
					t.Fatal(err)
				}
			}
			f, ok := keeps(c.rows)
			if !ok || f != c.want {
				t.Fatalf("stored as %v, %v", f, ok)
			}
			p := &param{k: c.rows[0].Shape[1], as: f, gated: c.gated}
			for i := range c.rows {
				p.n += c.rows[i].Shape[0]
			}
			if c.gated {
				p.n = 2 * int(roundUp(int64(p.n/2), kernels.Tile/2))
			}
			rowBytes := formats[f].tile * cdiv(p.k, kernels.Tile)
			tiles := make([]byte, cdiv(p.n, kernels.Tile)*rowBytes)
			if err := packTiles(tiles, p, c.rows, 0, rowBytes); err != nil {
				t.Fatal(err)
			}
			sameNumbers(t, p, c.rows, tiles)
		})
	}
}

// sameNumbers compares tiles with what the tensors are widened to.
func sameNumbers(t *testing.T, p *param, rows []weights.Tensor, tiles []byte) {
	t.Helper()
	want, first := make([]float32, p.k), 0
	for i := range rows {
		for r := range rows[i].Shape[0] {
			rows[i].Widen(want, r, 0)
			at := first + r
			if p.gated {
				at = r/32*64 + 32*i + r%32
			}
			for c, v := range want {
				if got := p.as.at(tiles, at, c, p.k); got != v {
					t.Fatalf("tensor %d, row %d, column %d: %v, not %v", i, r, c, got, v)
				}
			}
		}
		first += rows[i].Shape[0]
	}
}

// TestNotExact: matrices that tiles cannot hold are not taken for ones that they can.
func TestNotExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	q8 := randomBlocks(rng, weights.Q8_0, 16, 64)
	scale := func(v float32) weights.Tensor {
		return weights.Tensor{DType: weights.I8, Shape: []int{16, 64}, Data: q8.Data[:16*64], Packed: &weights.Packed{Layout: weights.RowCodes, Bits: 8,
			GroupRows: 16, GroupColumns: 64, Scales: weights.Tensor{DType: weights.F32, Shape: []int{1}, Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}}}
	}
	ordered := randomWords(rng, 4, 8, 64, 32, rng.Uint32)
	ordered.Packed.Order = make([]int32, 64)
	for name, rows := range map[string][]weights.Tensor{
		"mixed":            {q8, randomBlocks(rng, weights.Q4_0, 16, 64)},
		"with numbers":     {q8, {DType: weights.BF16, Shape: []int{1, 64}, Data: make([]byte, 128)}},
		"q4_1":             {randomBlocks(rng, weights.Q4_1, 16, 64)},
		"a scale's bits":   {scale(1.0001)},
		"a great scale":    {scale(65536)},
		"a small scale":    {scale(0x1p-26)},
		"groups of 16":     {randomWords(rng, 4, 8, 64, 16, rng.Uint32)},
		"columns in order": {ordered},
		"8 bits, any zero": {randomWords(rng, 8, 16, 64, 64, rng.Uint32)},
	} {
		if f, ok := keeps(rows); ok {
			t.Errorf("%s: stored as %s", name, f)
		}
	}
	if f, ok := keeps([]weights.Tensor{scale(0x1p-24)}); !ok || f != Q8 {
		t.Errorf("the least scale: %v, %v", f, ok)
	}
}
