//go:build cuda && linux && amd64

package check

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"weir/device/cuda"
)

// bf16 rounds to nearest even.
func bf16(f float32) uint16 {
	u := math.Float32bits(f)
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

func wide(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }

// normals returns n normally distributed numbers, as bf16 and widened.
func (c *checker) normals(n int) ([]uint16, []float64) {
	h, f := make([]uint16, n), make([]float64, n)
	for i := range h {
		h[i] = bf16(float32(c.rng.NormFloat64()))
		f[i] = wide(h[i])
	}
	return h, f
}

// floats returns n normally distributed float32 numbers, also widened.
func (c *checker) floats(n int) ([]float32, []float64) {
	s, f := make([]float32, n), make([]float64, n)
	for i := range s {
		s[i] = float32(c.rng.NormFloat64())
		f[i] = float64(s[i])
	}
	return s, f
}

// round rounds rows of k weights as a format stores them, by the rules of device/cpu:
// blocks of 32 columns in units of a float16.
func round(w []float64, k int, as cuda.Format) {
	if as == cuda.BF16 {
		return
	}
	for at := 0; at < len(w); at += k {
		for b := 0; b < k; b += 32 {
			roundBlock(w[at+b:at+min(b+32, k)], as)
		}
	}
}

func roundBlock(w []float64, as cuda.Format) {
	if as == cuda.MXFP4 {
		unit, codes := e2m1Block(w)
		for i, code := range codes {
			w[i] = e2m1[code] * unit
		}
		return
	}
	top := 0.0 // the first of the greatest magnitude
	for _, v := range w {
		if math.Abs(v) > math.Abs(top) {
			top = v
		}
	}
	lo, hi, unit := -127.0, 127.0, 0.0
	if as == cuda.Q8 {
		top = math.Abs(top)
		unit = float16(float32(top) / 127)
		if float32(unit)*127.49 < float32(top) {
			unit += float16Step(unit)
		}
	} else {
		lo, hi, unit = -8, 7, float16(float32(top)/-8)
	}
	for i, v := range w {
		q := 0.0
		if unit != 0 {
			q = math.RoundToEven(float64(float32(v) * (1 / float32(unit))))
		}
		w[i] = min(max(q, lo), hi) * unit
	}
}

// e2m1 are the numbers of MXFP4's codes.
var e2m1 = [16]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// e2m1Block is a scale, a power of two, and codes for up to 32 columns of a row. It does not matter which of the
// nearest numbers they are, because the reference multiplies the same ones.
func e2m1Block(w []float64) (unit float64, codes []byte) {
	top := 0.0
	for _, v := range w {
		top = max(top, math.Abs(v))
	}
	unit = 1
	if top > 0 {
		unit = math.Ldexp(1, math.Ilogb(top)-2)
	}
	for _, v := range w {
		best := 0
		for code, number := range e2m1 {
			if math.Abs(v-number*unit) < math.Abs(v-e2m1[best]*unit) {
				best = code
			}
		}
		codes = append(codes, byte(best))
	}
	return unit, codes
}

// e2m1Tiles packs rows of bfloat16 into tiles of MXFP4 (kernels/src/quant.h).
func e2m1Tiles(src []uint16, n, k int) []byte {
	size := cuda.TileBytes(cuda.MXFP4, 64, 64)
	tiles := make([]byte, cuda.TileBytes(cuda.MXFP4, n, k))
	for r := range n {
		for b := 0; b < k; b += 32 {
			var w []float64
			for _, v := range src[r*k+b : r*k+min(b+32, k)] {
				w = append(w, wide(v))
			}
			unit, codes := e2m1Block(w)
			tile := tiles[(r/64*((k+63)/64)+b/64)*size:][:size]
			in, kb := r%64, b%64/32
			scale := bf16(float32(unit))
			at := size - 256 + (kb*64+in)*2
			tile[at], tile[at+1] = byte(scale), byte(scale>>8)
			for c, code := range codes {
				lane, word, nibble := in%8*4+c%8/2, c/16, in%16/8+c%16/8*2+c%2*4
				tile[((in/16*2+kb)*32+lane)*8+word*4+nibble/2] |= code << (nibble % 2 * 4)
			}
		}
	}
	return tiles
}

// float16 rounds to nearest even. float16Step is the distance between the numbers of
// float16 around v.
func float16(v float32) float64 {
	u := float16Step(float64(v))
	return math.RoundToEven(float64(v)/u) * u
}

func float16Step(v float64) float64 {
	if v == 0 {
		return 0x1p-24
	}
	return math.Ldexp(1, max(math.Ilogb(v), -14)-10)
}

// padded copies rows of this width so that they are ld apart, with zeros between.
func padded[T any](s []T, width, ld int) []T {
	rows := len(s) / width
	out := make([]T, rows*ld)
	for r := range rows {
		copy(out[r*ld:], s[r*width:(r+1)*width])
	}
	return out
}

// stride is the distance between an activation's rows.
func stride(width int) int { return (width + 63) / 64 * 64 }

// parallel calls f for [0, n) on all processors: the arithmetic in float64 takes longer
// than what it is compared with.
func parallel(n int, f func(i int)) {
	var wait sync.WaitGroup
	var next atomic.Int64
	const chunk = 16
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				at := int(next.Add(chunk)) - chunk
				if at >= n {
					return
				}
				for i := at; i < min(at+chunk, n); i++ {
					f(i)
				}
			}
		})
	}
	wait.Wait()
}

const guard = 1024 // bytes after an output that must not change

// repeat runs a kernel three times into an output of n values of T, which is filled with
// NaN before each run, and returns it. The runs must agree in every bit and write nothing
// after the output. The next records are about what they launch.
func repeat[T ~uint16 | ~float32 | ~int32](c *checker, name string, n int, run func(out uint64) error) ([]T, error) {
	var first []T
	size := n * 4
	if _, ok := any(first).([]uint16); ok {
		size = n * 2
	}
	out, err := c.lab.Alloc(size + guard)
	if err != nil {
		return nil, err
	}
	same, intact := true, true
	c.begin()
	for i := range 3 {
		if err := errors.Join(c.lab.Fill(out, 0xff, size+guard), run(out)); err != nil {
			return nil, err
		}
		got, err := cuda.Take[T](c.lab, out, n)
		if err != nil {
			return nil, err
		}
		behind, err := cuda.Take[byte](c.lab, out+uint64(size), guard)
		if err != nil {
			return nil, err
		}
		for _, b := range behind {
			intact = intact && b == 0xff
		}
		if i == 0 {
			first = got
			continue
		}
		for j := range got {
			same = same && bits(got[j]) == bits(first[j])
		}
	}
	if !same || !intact {
		c.record(name, Wrong, "runs_agree", same, "nothing_behind", intact)
	}
	return first, nil
}

func bits[T ~uint16 | ~float32 | ~int32](v T) uint32 {
	switch v := any(v).(type) {
	case uint16:
		return uint32(v)
	case float32:
		return math.Float32bits(v)
	case int32:
		return uint32(v)
	}
	return 0
}

// compare records the norm of the error relative to that of the wanted values, and the
// largest error of a value relative to the root mean square of its row.
func (c *checker) compare(name string, got, want []float64, limit float64) {
	var e, w, most float64
	for i := range want {
		d := got[i] - want[i]
		e += d * d
		w += want[i] * want[i]
		if !(math.Abs(d) <= most) {
			most = math.Abs(d)
		}
	}
	rms := math.Sqrt(w / float64(len(want)))
	rel := math.Sqrt(e / math.Max(w, 1e-300))
	// One bad value among many does not show in the norm.
	c.record(name, verdict(rel <= limit && most <= 40*limit*math.Max(rms, 1e-30)), "rel", finite(rel), "most", finite(most/math.Max(rms, 1e-150)), "limit", limit)
}

// finite replaces what JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return -1
	}
	return v
}

// columns widens an output whose rows are ld apart.
func columns[T ~uint16 | ~float32](s []T, width, ld int) []float64 {
	var out []float64
	for r := 0; r < len(s); r += ld {
		for _, v := range s[r : r+width] {
			switch v := any(v).(type) {
			case uint16:
				out = append(out, wide(v))
			case float32:
				out = append(out, float64(v))
			}
		}
	}
	return out
}

const (
	bfLimit  = 5e-3
	f32Limit = 1e-5
)
