//go:build cuda && linux && amd64

package check

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
	"weir/model"
)

// exact checks the product in float32, for rows of both kinds.
func (c *checker) exact() error {
	rows, n, k := pick(c, 5, 130), pick(c, 19, 128), pick(c, 70, 2048)
	ld := stride(k)
	w, wf := c.floats(n * k)
	bias, bf := c.floats(n)
	x, xf := c.floats(rows * k)
	h, hf := c.normals(rows * k)
	put, err := c.put(w, bias, padded(x, k, ld))
	if err != nil {
		return err
	}
	dh, err := cuda.Put(c.lab, padded(h, k, ld))
	if err != nil {
		return err
	}
	for _, from := range []struct {
		x     uint64
		f     []float64
		types int
	}{{put[2], xf, 3}, {dh, hf, 1}} {
		name := fmt.Sprintf("exact %dx%dx%d of types %d", rows, n, k, from.types)
		y, err := repeat[float32](c, name, rows*stride(n), func(y uint64) error {
			return c.lab.Launch("exact", (n+kernels.ExactCols-1)/kernels.ExactCols, (rows+kernels.ExactRows-1)/kernels.ExactRows, 1, y, from.x, put[0], put[1], rows, n, k, ld, stride(n), from.types)
		})
		if err != nil {
			return err
		}
		want := multiplied(from.f, wf, n, k)
		for i := range want {
			want[i] += bf[i%n]
		}
		c.compare(name, columns(y, n, stride(n)), want, f32Limit)
	}
	return nil
}

// put copies slices of float32 to the device.
func (c *checker) put(list ...[]float32) (at []uint64, err error) {
	for _, s := range list {
		p, err := cuda.Put(c.lab, s)
		if err != nil {
			return nil, err
		}
		at = append(at, p)
	}
	return at, nil
}

// multiplied is x·wᵀ of rows of k numbers in float64.
func multiplied(x, w []float64, n, k int) []float64 {
	y := make([]float64, len(x)/k*n)
	parallel(len(y), func(at int) {
		for i, v := range x[at/n*k:][:k] {
			y[at] += v * w[at%n*k+i]
		}
	})
	return y
}

// routers are one for each kind of score.
var routers = []model.Router{
	{TopK: 4, Score: model.Softmax, Renorm: true, Scale: 1},
	{TopK: 4, Score: model.SoftmaxTop, Scale: 2.5},
	{TopK: 6, Score: model.SigmoidScore, Groups: 8, TopGroups: 3, GroupBest2: true, Renorm: true, RenormAdd: 1e-20, Scale: 1.5},
	{TopK: 4, Score: model.SqrtSoftplus, Renorm: true, Floor: 0.5, Scale: 1},
	{TopK: 2, Score: model.SparseMixer, Jitter: 0.01, Scale: 1},
}

// routes checks route. Logits and biases are multiples of 1/8, so that there are ties, which the lower number wins.
func (c *checker) routes() error {
	rows, experts := pick(c, 5, 600), pick(c, 64, 256)
	ld := stride(experts)
	logits, bias := make([]float32, rows*experts), make([]float32, experts)
	for i := range logits {
		logits[i] = float32(c.rng.IntN(81)-40) / 8
	}
	for i := range bias {
		bias[i] = float32(c.rng.IntN(5)-2) / 8
	}
	at, err := c.put(padded(logits, experts, ld), bias)
	if err != nil {
		return err
	}
	live, err := cuda.Put(c.lab, []int32{0, int32(rows)})
	if err != nil {
		return err
	}
	for _, r := range routers {
		name := fmt.Sprintf("route by score %d of %dx%d", r.Score, rows, experts)
		given := uint64(0)
		if r.Groups > 0 {
			given = at[1]
		}
		var chosen []int32
		weight, err := repeat[float32](c, name, rows*r.TopK, func(y uint64) error {
			to, err := c.lab.Alloc(rows * r.TopK * 4)
			if err != nil {
				return err
			}
			if err := c.lab.Launch("route", rows, 1, 1, to, y, at[0], given, uint64(0), live, 1, experts, r.TopK, ld, int(r.Score), r.Groups, r.TopGroups,
				number(r.GroupBest2), number(r.Renorm), r.Floor, r.RenormAdd, r.Jitter, r.Scale); err != nil {
				return err
			}
			chosen, err = cuda.Take[int32](c.lab, to, rows*r.TopK)
			return err
		})
		if err != nil {
			return err
		}
		var wantChosen []int32
		var want []float64
		for row := range rows {
			e, w := routed(&r, logits[row*experts:][:experts], bias)
			wantChosen, want = append(wantChosen, e...), append(want, w...)
		}
		c.record(name+": experts", verdict(slices.Equal(chosen, wantChosen)))
		c.compare(name, columns(weight, len(weight), len(weight)), want, 3e-6)
	}
	return nil
}

// routed is what a router chooses, in float64.
func routed(r *model.Router, logits, bias []float32) (chosen []int32, weight []float64) {
	scores, key := make([]float64, len(logits)), make([]float64, len(logits))
	sum, top := 0.0, float64(slices.Max(logits))
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	for i, x := range logits {
		v := float64(x)
		switch r.Score {
		case model.Softmax:
			v = math.Exp(v-top) / sum
		case model.SigmoidScore:
			v = 1 / (1 + math.Exp(-v))
		case model.SqrtSoftplus:
			v = math.Sqrt(math.Log1p(math.Exp(v)))
		}
		scores[i], key[i] = v, v
		if r.Groups > 0 {
			key[i] += float64(bias[i])
		}
	}
	leaveGroups(r, key)
	picked := map[int]float64{}
	for range r.TopK {
		at := first(key, picked)
		w := scores[at]
		if r.Score == model.SparseMixer {
			part := 0.0
			for i, v := range scores {
				if _, taken := picked[i]; !taken && (scores[at]-v)/max(math.Abs(v), scores[at]) <= 2*float64(r.Jitter) {
					part += math.Exp(v - scores[at])
				}
			}
			w = 1 / part
		}
		picked[at] = w
	}
	return weighed(r, picked)
}

// weighed are the experts in ascending order with their weights.
func weighed(r *model.Router, picked map[int]float64) (chosen []int32, weight []float64) {
	sum := 0.0
	for i, w := range picked {
		chosen = append(chosen, int32(i))
		if r.Score == model.SoftmaxTop {
			w = math.Exp(w)
		}
		sum += w
	}
	slices.Sort(chosen)
	for _, i := range chosen {
		w := picked[int(i)]
		switch {
		case r.Score == model.SoftmaxTop:
			w = math.Exp(w) / sum
		case r.Renorm:
			w /= max(sum+float64(r.RenormAdd), float64(r.Floor))
		}
		weight = append(weight, w*float64(r.Scale))
	}
	return chosen, weight
}

// first is the place of the greatest number, without some; the first of equal ones.
func first(key []float64, without map[int]float64) int {
	at := -1
	for i, v := range key {
		if _, no := without[i]; !no && (at < 0 || v > key[at]) {
			at = i
		}
	}
	return at
}

// leaveGroups takes what is outside of the best groups out of the choice.
func leaveGroups(r *model.Router, key []float64) {
	if r.Groups == 0 {
		return
	}
	size := len(key) / r.Groups
	best, in := make([]float64, r.Groups), map[int]float64{}
	for g := range best {
		of := slices.Sorted(slices.Values(key[g*size:][:size]))
		best[g] = of[size-1] + of[size-2]
	}
	for range r.TopGroups {
		in[first(best, in)] = 0
	}
	for i := range key {
		if _, yes := in[i/size]; !yes {
			key[i] = math.Inf(-1)
		}
	}
}

// mixture is experts on the device, and rows that chose some of them.
type mixture struct {
	rows, topK, experts, n, k int
	chosen                    []int32
	x                         []float64
	w                         [][]float64
	dx, dChosen, loaded       uint64
}

func (c *checker) mixture(as cuda.Format) (m *mixture, err error) {
	m = &mixture{rows: pick(c, 11, 200), topK: 3, experts: pick(c, 5, 16), n: pick(c, 66, 768), k: pick(c, 136, 1024)}
	var x []uint16
	x, m.x = c.normals(m.rows * m.k)
	if m.dx, err = cuda.Put(c.lab, padded(x, m.k, stride(m.k))); err != nil {
		return nil, err
	}
	table := make([]kernels.Loaded, m.experts)
	for e := range table {
		w, wf := c.normals(m.n * m.k)
		round(wf, m.k, as)
		at, err := c.matrix(as, w, m.n, m.k)
		if err != nil {
			return nil, err
		}
		m.w, table[e] = append(m.w, wf), kernels.Loaded{W: at, Format: int32(as)}
	}
	if m.loaded, err = cuda.Put(c.lab, table); err != nil {
		return nil, err
	}
	for range m.rows {
		of := c.rng.Perm(m.experts)[:m.topK]
		slices.Sort(of)
		for _, e := range of {
			m.chosen = append(m.chosen, int32(e))
		}
	}
	m.dChosen, err = cuda.Put(c.lab, m.chosen)
	return m, err
}

// want is the product of each entry in float64.
func (m *mixture) want() []float64 {
	y := make([]float64, len(m.chosen)*m.n)
	parallel(len(y), func(at int) {
		i, col := at/m.n, at%m.n
		w := m.w[m.chosen[i]][col*m.k:][:m.k]
		for j, v := range m.x[i/m.topK*m.k:][:m.k] {
			y[at] += v * w[j]
		}
	})
	return y
}

// grouped checks the lists of experts' rows and the products of one format, in tiles of each size, with the same bits.
func (c *checker) grouped(as cuda.Format) error {
	m, err := c.mixture(as)
	if err != nil {
		return err
	}
	entries, ld := len(m.chosen), stride(m.n)
	want := m.want()
	var same []float32
	for _, per := range kernels.GemmRows {
		most := kernels.MostTiles(entries, m.experts, per)
		var at [3]uint64
		for i, n := range []int{entries * 4, most * int(unsafe.Sizeof(kernels.ExpertTile{})), 16} {
			if at[i], err = c.lab.Alloc(n); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("grouped %s in tiles of %d, %dx%dx%d", as, per, entries, m.n, m.k)
		y, err := repeat[float32](c, name, entries*ld, func(y uint64) error {
			return errors.Join(c.lab.Launch("group_rows", m.experts, 1, 1, at[0], at[1], at[2], m.dChosen, entries, m.experts, per),
				c.lab.Launch(fmt.Sprintf("grouped_%s_n%d", as, per), (m.n+63)/64, most, 1, y, m.dx, m.loaded, at[0], at[1], at[2], 0, 1, m.topK, m.n, m.k, stride(m.k), ld, kernels.StoreF32))
		})
		if err != nil {
			return err
		}
		c.compare(name, columns(y, m.n, ld), want, f32Limit)
		if same == nil {
			same = y
		}
		c.record(name+": bits of tiles of 8", verdict(slices.EqualFunc(y, same, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })))
	}
	return nil
}

// expertSums checks sum_experts.
func (c *checker) expertSums() error {
	rows, topK, n := pick(c, 3, 600), pick(c, 4, 8), pick(c, 70, 2048)
	ld := stride(n)
	x, xf := c.floats(rows * topK * n)
	w, wf := c.floats(rows * topK)
	at, err := c.put(padded(x, n, ld), w)
	if err != nil {
		return err
	}
	chosen := make([]int32, rows*topK)
	dc, err := cuda.Put(c.lab, chosen)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("sum_experts %dx%dx%d", rows, topK, n)
	y, err := repeat[float32](c, name, rows*ld, func(y uint64) error {
		return c.lab.Launch("sum_experts", rows, (n+1023)/1024, 1, y, at[0], dc, at[1], topK, n, ld, ld, 1, 1)
	})
	if err != nil {
		return err
	}
	want := make([]float64, rows*n)
	for i, v := range xf {
		want[i/(topK*n)*n+i%n] += wf[i/n] * v
	}
	c.compare(name, columns(y, n, ld), want, f32Limit)
	return nil
}
