//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"slices"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
	"weir/model"
)

// turned is one case of rope_kv_x.
type turned struct {
	heads, kvHeads, key, value, half, offset int
	how                                      int // as the launch table has it
	temper                                   model.Temper
}

// turns checks rope_kv_x: large heads, values of another size, queries scaled by their position, and a
// layer that stores nothing.
func (c *checker) turns() error {
	const norm = kernels.NormQ | kernels.NormK
	small := []turned{{3, 1, 18, 12, 9, 0, norm, model.Temper{Beta: 0.1, Floor: 5, Shift: 1}}, {4, 0, 32, 32, 16, 0, kernels.NormQ, model.Temper{}}}
	full := []turned{{16, 1, 576, 512, 32, 512, kernels.RopePairs, model.Temper{Beta: 0.1, Floor: 8}}, {8, 2, 512, 512, 64, 0, norm | kernels.NormV | kernels.NormAfter, model.Temper{}}}
	for _, s := range pick(c, small, append(small, full...)) {
		if err := c.turn(s); err != nil {
			return err
		}
	}
	return nil
}

func (s turned) name() string {
	return fmt.Sprintf("rope_kv_x %d/%d heads of %d and %d, how %d, temper %v", s.heads, s.kvHeads, s.key, s.value, s.how, s.temper)
}
func (s turned) width() int    { return s.heads*s.key + s.kvHeads*(s.key+s.value) }
func (s turned) elements() int { return kernels.KVBlock(s.kvHeads, s.key, s.value, rotationBlock) }

func (c *checker) turn(s turned) error {
	qkv, f := c.normals(rotationTokens * s.width())
	w, wf := c.floats(s.key)
	table := make([]float32, 64*s.half*2)
	for i := 0; i < len(table); i += 2 {
		sin, cos := math.Sincos(float64(i/2/s.half) / math.Pow(100, float64(i/2%s.half)/float64(s.half)))
		table[i], table[i+1] = float32(cos), float32(sin)
	}
	ld, cached := stride(s.width()), max(1, 3*s.elements())
	var put [5]uint64 // rows, weights, angles, positions, slots
	var err error
	for i, f := range []func() (uint64, error){
		func() (uint64, error) { return cuda.Put(c.lab, padded(qkv, s.width(), ld)) },
		func() (uint64, error) { return cuda.Put(c.lab, w) },
		func() (uint64, error) { return cuda.Put(c.lab, table) },
		func() (uint64, error) { return cuda.Put(c.lab, rotationPos) },
		func() (uint64, error) { return cuda.Put(c.lab, rotationSlots) },
	} {
		if put[i], err = f(); err != nil {
			return err
		}
	}
	rows, err := c.lab.Alloc(rotationTokens * ld * 2)
	if err != nil {
		return err
	}
	kv, err := repeat[uint16](c, s.name(), cached, func(kv uint64) error {
		if err := c.lab.Fill(kv, 0, cached*2); err != nil {
			return err
		}
		if err := c.lab.Copy(rows, put[0], rotationTokens*ld*2); err != nil {
			return err
		}
		k := rows + uint64(s.heads*s.key*2)
		return c.lab.Launch("rope_kv_x", rotationTokens, (s.heads+2*s.kvHeads+3)/4, 1, rows, k, k+uint64(s.kvHeads*s.key*2), kv, put[2], put[3], put[4], put[1], put[1], put[1],
			s.heads, s.kvHeads, s.key, s.value, s.half, s.offset, ld, ld, ld, rotationBlock, s.elements(), s.how, float32(1e-6), float32(1e-6), float32(1e-6),
			s.temper.Beta, s.temper.Floor, s.temper.Shift)
	})
	if err != nil {
		return err
	}
	q, err := cuda.Take[uint16](c.lab, rows, rotationTokens*ld)
	if err != nil {
		return err
	}
	var got, want []float64
	for t := range rotationTokens {
		for h := range s.heads {
			got = append(got, columns(q[t*ld+h*s.key:][:s.key], s.key, s.key)...)
			want = append(want, s.head(f[t*s.width()+h*s.key:][:s.key], wf, table, t, kernels.NormQ)...)
		}
	}
	krow, vrow := kernels.KVRow(s.key), kernels.KVRow(s.value)
	for t, slot := range rotationSlots {
		if slot < 0 {
			continue
		}
		block := kv[int(slot)/rotationBlock*s.elements():]
		for h := range s.kvHeads {
			at := h*rotationBlock + int(slot)%rotationBlock
			got = append(got, columns(block[at*krow:][:s.key], s.key, s.key)...)
			got = append(got, columns(block[s.kvHeads*rotationBlock*krow+at*vrow:][:s.value], s.value, s.value)...)
			own := f[t*s.width()+s.heads*s.key:]
			want = append(want, s.head(own[h*s.key:][:s.key], wf, table, t, kernels.NormK)...)
			want = append(want, s.head(own[s.kvHeads*s.key+h*s.value:][:s.value], wf, table, t, kernels.NormV)...)
		}
	}
	c.compare(s.name(), got, want, bfLimit)
	written := 0
	for _, v := range kv {
		if v != 0 {
			written++
		}
	}
	c.record(s.name()+": writes its slots alone", verdict(written <= 2*s.kvHeads*(s.key+s.value)), "written", written)
	return nil
}

// head is what becomes of a head of token t: of queries, keys or values, as the bit says.
func (s turned) head(x, w []float64, table []float32, t, bit int) []float64 {
	x = slices.Clone(x)
	normed := func() {
		if s.how&bit != 0 {
			x = rmsnorm(x, w[:len(x)], 1e-6)
		}
	}
	if s.how&kernels.NormAfter == 0 {
		normed()
	}
	if bit != kernels.NormV {
		turnPairs(x, table[int(rotationPos[t])*s.half*2:][:s.half*2], s.offset, s.how&kernels.RopePairs != 0)
	}
	if s.how&kernels.NormAfter != 0 {
		normed()
	}
	if m := s.temper; bit == kernels.NormQ && m.Beta != 0 {
		factor := 1 + float64(m.Beta)*math.Log1p(math.Floor(float64(float32(int(rotationPos[t])+m.Shift)/m.Floor)))
		for i := range x {
			x[i] *= factor
		}
	}
	return x
}
