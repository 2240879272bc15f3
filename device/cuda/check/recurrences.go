//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
	"weir/model"
)

// aSequence is a sequence of one run, which starts from the state of slot 0 and leaves it in slot 1.
type aSequence struct {
	rows         int
	states, runs uint64
	size         int
}

func (c *checker) sequence(rows, size int) (s aSequence, err error) {
	s.rows, s.size = rows, size
	if s.states, err = c.lab.Alloc(2 * size * 4); err != nil {
		return s, err
	}
	if err := c.lab.Fill(s.states, 0, size*4); err != nil {
		return s, err
	}
	s.runs, err = cuda.Put(c.lab, []kernels.StateRun{{End: int32(rows), Out: 1}})
	return s, err
}

// recurrence checks one kernel against rows that a reference computed: it launches it over rows of x and compares what it writes.
func (c *checker) recurrence(name string, s aSequence, width int, want []float64, launch func(y uint64, ldy int) error) error {
	ld := stride(width)
	y, err := repeat[float32](c, name, s.rows*ld, func(y uint64) error { return launch(y, ld) })
	if err == nil {
		c.compare(name, columns(y, width, ld), want, 3e-5)
	}
	return err
}

// convolutions checks conv.
func (c *checker) convolutions() error {
	rows, n := pick(c, 13, 300), pick(c, 70, 4096)
	for _, taps := range []int{3, 4, 7} {
		x, xf := c.floats(rows * n)
		w, wf := c.floats(n * taps)
		b, bf := c.floats(n)
		ld := stride(n)
		at, err := c.put(padded(x, n, ld), w, b)
		if err != nil {
			return err
		}
		s, err := c.sequence(rows, n*(taps-1))
		if err != nil {
			return err
		}
		want := make([]float64, 0, rows*n)
		for i := range rows * n {
			sum := bf[i%n]
			for t := range taps {
				if from := i/n - taps + 1 + t; from >= 0 {
					sum += wf[i%n*taps+t] * xf[from*n+i%n]
				}
			}
			want = append(want, activation(model.Activation{Kind: model.SiLU}, sum))
		}
		err = c.recurrence(fmt.Sprintf("conv %dx%dx%d", rows, n, taps), s, n, want, func(y uint64, ldy int) error {
			return c.lab.Launch("conv", (n+127)/128, 1, 1, y, at[0], at[1], at[2], s.states, s.runs, s.size, 0, n, taps, ldy, ld, 3, int(model.SiLU), float32(0), float32(0), float32(0), float32(0))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// deltas checks delta_d128 and delta_d256, with a decay for each head and for each channel.
func (c *checker) deltas(most int) error {
	for _, channels := range []bool{false, true} {
		d := deltaCase{rows: pick(c, 9, 200), keyHeads: 2, each: 2, keys: pick(c, most/2+4, most), values: pick(c, 40, 128), channels: channels}
		if err := c.delta(most, d); err != nil {
			return err
		}
	}
	return nil
}

// deltaCase is a delta rule: keyHeads key heads of keys dimensions, each for so many value heads of values dimensions.
type deltaCase struct {
	rows, keyHeads, each, keys, values int
	channels                           bool // a decay for each key dimension
}

func (d *deltaCase) heads() int { return d.keyHeads * d.each }

func (d *deltaCase) decays() int {
	if d.channels {
		return d.heads() * d.keys
	}
	return d.heads()
}

// columns is where a row's keys, values, decays and strengths begin, behind its queries, and its width.
func (d *deltaCase) columns() (k, v, a, b, width int) {
	k = d.keyHeads * d.keys
	v = 2 * k
	a = v + d.heads()*d.values
	b = a + d.decays()
	return k, v, a, b, b + d.heads()
}

func (c *checker) delta(most int, d deltaCase) error {
	k, v, a, b, width := d.columns()
	heads := d.heads()
	x, xf := c.floats(d.rows * width)
	A, bias := make([]float32, heads), make([]float32, d.decays())
	for i := range A {
		A[i] = -0.05 - 2*c.rng.Float32()
	}
	for i := range bias {
		bias[i] = 4*c.rng.Float32() - 4
	}
	ld := stride(width)
	at, err := c.put(padded(x, width, ld), A, bias)
	if err != nil {
		return err
	}
	s, err := c.sequence(d.rows, heads*d.keys*d.values)
	if err != nil {
		return err
	}
	scale := float32(1 / math.Sqrt(float64(d.keys)))
	want := make([]float64, d.rows*heads*d.values)
	parallel(heads, func(h int) { d.head(h, xf, A, bias, float64(scale), want) })
	name := fmt.Sprintf("delta_d%d %dx%dx%dx%d", most, d.rows, heads, d.keys, d.values)
	return c.recurrence(name, s, heads*d.values, want, func(y uint64, ldy int) error {
		return c.lab.Launch(fmt.Sprintf("delta_d%d", most), (d.values+31)/32, heads, 1, y, at[0], at[0]+uint64(4*k), at[0]+uint64(4*v), at[0]+uint64(4*a), at[0]+uint64(4*b), at[1], at[2],
			s.states, s.runs, s.size, 0, d.keys, d.values, d.each, number(d.channels), ldy, ld, 3, scale, float32(1e-6), float32(1))
	})
}

// head computes a value head of rows x in float64, token by token.
func (d *deltaCase) head(h int, x []float64, A, bias []float32, scale float64, want []float64) {
	k, v, a, b, width := d.columns()
	state := make([]float64, d.keys*d.values)
	for r := range d.rows {
		row := x[r*width:][:width]
		first := h / d.each * d.keys
		for i := range state {
			at := h
			if d.channels {
				at = h*d.keys + i/d.values
			}
			state[i] *= math.Exp(float64(A[h]) * softplus(row[a+at]+float64(bias[at])))
		}
		deltaStep(state, unit(row[k+first:][:d.keys]), unit(row[first:][:d.keys]), row[v+h*d.values:][:d.values], 1/(1+math.Exp(-row[b+h])), scale,
			want[(r*d.heads()+h)*d.values:][:d.values])
	}
}

// deltaStep changes a state that has decayed by one token, and writes what is read of it.
func deltaStep(state, key, query, value []float64, strength, scale float64, out []float64) {
	values := len(value)
	for j, v := range value {
		sum := 0.0
		for i, k := range key {
			sum += k * state[i*values+j]
		}
		for i, k := range key {
			state[i*values+j] += k * strength * (v - sum)
			out[j] += scale * query[i] * state[i*values+j]
		}
	}
}

func unit(x []float64) []float64 {
	sum := 1e-6
	for _, v := range x {
		sum += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / math.Sqrt(sum)
	}
	return y
}

// scans checks scan_d128 and scan_d256.
func (c *checker) scans(most int) error {
	rows, groups, each, size := pick(c, 9, 200), 2, 3, pick(c, 40, 64)
	state := pick(c, most/2+4, most)
	heads := groups * each
	b, cc := heads*size, heads*size+groups*state
	dt := cc + groups*state
	width := dt + heads
	x, xf := c.floats(rows * width)
	A, D := make([]float32, heads), make([]float32, heads)
	for i := range A {
		A[i], D[i] = -0.1-c.rng.Float32(), c.rng.Float32()
	}
	bias, bf := c.floats(heads)
	ld := stride(width)
	at, err := c.put(padded(x, width, ld), A, D, bias)
	if err != nil {
		return err
	}
	s, err := c.sequence(rows, heads*size*state)
	if err != nil {
		return err
	}
	const least, greatest = 0.1, 1.5
	want := make([]float64, rows*heads*size)
	parallel(heads, func(h int) {
		in := make([]float64, state*size)
		for r := range rows {
			row := xf[r*width:][:width]
			step := min(max(softplus(row[dt+h]+bf[h]), float64(float32(least))), greatest)
			by := math.Exp(step * float64(A[h]))
			for p := range size {
				v := row[h*size+p]
				out := float64(D[h]) * v
				for i := range state {
					in[i*size+p] = in[i*size+p]*by + step*v*row[b+h/each*state+i]
					out += in[i*size+p] * row[cc+h/each*state+i]
				}
				want[(r*heads+h)*size+p] = out
			}
		}
	})
	name := fmt.Sprintf("scan_d%d %dx%dx%dx%d", most, rows, heads, size, state)
	return c.recurrence(name, s, heads*size, want, func(y uint64, ldy int) error {
		return c.lab.Launch(fmt.Sprintf("scan_d%d", most), (size+31)/32, heads, 1, y, at[0], at[0]+uint64(4*b), at[0]+uint64(4*cc), at[0]+uint64(4*dt), at[1], at[2], at[3],
			s.states, s.runs, s.size, 0, size, state, each, ldy, ld, 3, float32(least), float32(greatest))
	})
}
