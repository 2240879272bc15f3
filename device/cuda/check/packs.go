//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// packs checks the kernels that write tiles of weights, number by number: from
// every type that a checkpoint may have, in parts, and with halves that take
// turns.
func (c *checker) packs(as cuda.Format) error {
	small := []packed{{64, 70, 64, 0, false}, {5, 30, 44, 1, false}, {30, 20, 200, 2, false}, {64, 64, 72, 0, true}}
	for _, p := range pick(c, small, append(small, packed{1024, 500, 4104, 2, false}, packed{2048, 2048, 1024, 0, true})) {
		if err := c.pack(as, p); err != nil {
			return err
		}
	}
	return nil
}

// packed is a matrix of two parts.
type packed struct {
	first, second, k int
	dtype            int // as pack_bf16 has it
	interleave       bool
}

func (c *checker) pack(as cuda.Format, p packed) error {
	rows, src, err := c.packSource(p)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("pack_%s %d+%dx%d of type %d, interleaved %v", as, p.first, p.second, p.k, p.dtype, p.interleave)
	bytes := cuda.TileBytes(as, p.rows(), p.k)
	out, err := repeat[uint16](c, name, bytes/2, func(w uint64) error {
		if err := c.lab.Fill(w, 0, bytes); err != nil {
			return err
		}
		return c.packParts(as, p, w, src)
	})
	if err != nil {
		return err
	}
	want := make([]float64, len(rows)) // in the order of the tiles
	for r := range p.rows() {
		to := r
		if p.interleave {
			to = r%p.first/32*64 + r/p.first*32 + r%p.first%32
		}
		copy(want[to*p.k:], rows[r*p.k:(r+1)*p.k])
	}
	if as == cuda.BF16 {
		for i := range want {
			want[i] = wide(bf16(float32(want[i])))
		}
	}
	round(want, p.k, as)
	got := make([]float64, 0, len(want))
	for r := range p.rows() {
		for col := range p.k {
			got = append(got, element(as, out, r, col, p.k))
		}
	}
	c.compare(name, got, want, 0)
	return nil
}

func (p packed) rows() int { return p.first + p.second }

// packSource makes random rows, rounded to the stored type, and copies them to
// the device.
func (c *checker) packSource(p packed) (rows []float64, src uint64, err error) {
	rows = make([]float64, p.rows()*p.k)
	halves, floats := make([]uint16, len(rows)), make([]float32, len(rows))
	for i := range rows {
		v := c.rng.NormFloat64() / 16
		switch i / p.k % 5 {
		case 3:
			v *= 1e-5 // scales below the normal numbers of float16
		case 4:
			v = 0
		}
		switch p.dtype {
		case 0:
			halves[i] = bf16(float32(v))
			v = wide(halves[i])
		case 1:
			v = float16(float32(v))
			halves[i] = float16Bits(v)
		case 2:
			floats[i] = float32(v)
			v = float64(floats[i])
		}
		rows[i] = v
	}
	if p.dtype == 2 {
		src, err = cuda.Put(c.lab, floats)
	} else {
		src, err = cuda.Put(c.lab, halves)
	}
	return rows, src, err
}

// packParts packs the two parts at src into tiles at w.
func (c *checker) packParts(as cuda.Format, p packed, w, src uint64) error {
	size := 2
	if p.dtype == 2 {
		size = 4
	}
	at := 0
	for part, count := range []int{p.first, p.second} {
		row0, interleave, per := at, 0, 64
		if p.interleave {
			row0, interleave, per = 0, 1, 32
		}
		first := row0 % per
		if as == cuda.BF16 {
			first, per = 0, 64
		}
		err := c.lab.Launch("pack_"+as.String(), (first+count+per-1)/per, (p.k+63)/64, 1, w, src+uint64(at*p.k*size), count, p.k, row0, p.rows(), p.dtype, interleave, part)
		if err != nil {
			return err
		}
		at += count
	}
	return nil
}

// element is number (r, col) of a matrix in tiles, as abi.go and quant.h lay
// them out.
func element(as cuda.Format, tiles []uint16, r, col, k int) float64 {
	size := map[cuda.Format]int{cuda.BF16: kernels.BF16Tile, cuda.Q8: kernels.Q8Tile, cuda.Q4: kernels.Q4Tile}[as]
	t := tiles[(r/64*((k+63)/64)+col/64)*size/2:][:size/2]
	r, col = r%64, col%64
	if as == cuda.BF16 {
		return wide(t[r*64+(col/8^r%8)*8+col%8])
	}
	at := func(i int) int { return int(t[i/2]>>(i%2*8)) & 255 }
	mi, kb, step, lane := r/16, col/32, col%32/16, r%8*4+col%8/2
	register, e := r%16/8+col%16/8*2, col%2
	q := 0
	if as == cuda.Q8 {
		q = at(((mi*2+kb)*32+lane)*16+8*step+2*register+e) - 128
	} else {
		nibble := register + 4*e
		q = at(((mi*2+kb)*32+lane)*8+4*step+nibble/2)>>(nibble%2*4)&15 - 8
	}
	return float64(q) * fromFloat16(t[len(t)-128+kb*64+r])
}

func fromFloat16(h uint16) float64 {
	v, e := float64(h&0x3ff), int(h>>10&31)
	if e > 0 {
		v, e = v+1024, e-1
	}
	v = math.Ldexp(v, e-24)
	if h>>15 == 1 {
		v = -v
	}
	return v
}

// float16Bits is a number that float16 has, as its bits.
func float16Bits(v float64) uint16 {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 1<<15, -v
	}
	if v == 0 {
		return sign
	}
	e := max(math.Ilogb(v), -14)
	m := uint16(math.Ldexp(v, 10-e)) // with the leading one, if it is normal
	return sign | uint16(e+14)<<10 + m
}
