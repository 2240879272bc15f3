package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// headsTest is a StoreKV of some rows with everything that it does to heads.
type headsTest struct {
	model.KVShape
	ropes []model.Rope
	heads model.Heads
	norms map[model.Weight][]float64
	// What keys and values are: columns of their own, the same, or values the first columns of keys.
	kind keyKind
}

type keyKind int

const (
	separate keyKind = iota
	equal
	partOfKey
	absent
)

// newHeadsTest draws norms, a rotation and sizes.
func newHeadsTest(t *testing.T, rnd *rand.Rand, i int, open func(model.Shape) *Device) (*headsTest, *Device) {
	t.Helper()
	h := &headsTest{KVShape: model.KVShape{Heads: 6, KVHeads: 2, KeyDim: []int{16, 40, 96, 26}[i%4], ValueDim: 24}, kind: keyKind(i / 2 % 4), norms: map[model.Weight][]float64{}}
	switch h.kind {
	case equal:
		h.ValueDim = h.KeyDim
	case partOfKey:
		h.KVHeads, h.ValueDim = 1, h.KeyDim-8
	}
	h.heads = model.Heads{Rope: model.NoRope, NormAfterRope: i%3 == 1}
	if i%5 > 0 {
		r := model.Rope{Scale: 1, Interleaved: i%2 == 0}
		if i%3 == 0 {
			r.Scale = 0.8
		}
		r.Offset = []int{0, h.KeyDim - 8, 3}[i%3]
		for p := range (h.KeyDim - r.Offset) / 2 {
			f := float32(math.Pow(1000, -float64(p)/8))
			if i%7 == 1 && p > 2 {
				f = 0 // pairs that a proportional rope leaves alone
			}
			r.InvFreq = append(r.InvFreq, f)
		}
		if i%4 == 3 {
			r.InvFreq = r.InvFreq[:len(r.InvFreq)/2]
		}
		h.ropes, h.heads.Rope = []model.Rope{{InvFreq: []float32{1}, Scale: 1}, r}, 1
	}
	if i%2 == 1 {
		h.heads.Temper = model.Temper{Beta: 0.1, Floor: 5, Shift: i / 2 % 2}
	}
	spec := backend.Spec{VocabSize: 16, BlockTokens: 32, NumBlocks: 3, MaxTokens: 40, MaxSeqs: 1, MaxSeqTokens: 64, Depth: 1}
	width := h.Heads*h.KeyDim + h.KVHeads*(h.KeyDim+h.ValueDim)
	d := open(model.Shape{KV: []model.KVShape{{Heads: 1, KVHeads: 1, KeyDim: 8, ValueDim: 8}, h.KVShape}, Acts: []model.ActShape{{Width: width}}, Ropes: h.ropes, Spec: spec})
	for n, norm := range []*model.HeadNorm{&h.heads.QNorm, &h.heads.KNorm, &h.heads.VNorm} {
		if rnd.IntN(4) == 0 {
			continue
		}
		*norm = model.HeadNorm{On: true, W: model.NoWeight, Eps: 1e-3, LayerNorm: rnd.IntN(2) == 0, PerHead: rnd.IntN(2) == 0}
		if rnd.IntN(4) == 0 {
			continue
		}
		size := []int{h.KeyDim, h.KeyDim, h.ValueDim}[n]
		if norm.PerHead {
			size *= []int{h.Heads, h.KVHeads, h.KVHeads}[n]
		}
		w := tensor(rnd, weights.F32, 1, size)
		var err error
		if norm.W, err = d.Load(model.Matrix{Use: model.Vector, Rows: []weights.Tensor{w}}); err != nil {
			t.Fatal(err)
		}
		h.norms[norm.W] = values(w)
	}
	return h, d
}

// norm norms head n of some in double precision.
func (h *headsTest) norm(x []float64, n model.HeadNorm, head int) {
	if !n.On {
		return
	}
	mean, square := 0.0, 0.0
	for _, v := range x {
		if n.LayerNorm {
			mean += v / float64(len(x))
		}
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	w := h.norms[n.W]
	for i, v := range x {
		x[i] = (v - mean) / math.Sqrt(square+float64(n.Eps))
		switch {
		case w != nil && n.PerHead:
			x[i] *= w[head*len(x)+i]
		case w != nil:
			x[i] *= w[i]
		}
	}
}

// want is a head of queries or keys of a position, in double precision.
func (h *headsTest) want(from []float32, n model.HeadNorm, head, pos int) []float64 {
	x := make([]float64, len(from))
	for i, v := range from {
		x[i] = float64(v)
	}
	if !h.heads.NormAfterRope {
		h.norm(x, n, head)
	}
	if h.heads.Rope != model.NoRope {
		r := h.ropes[h.heads.Rope]
		for i, f := range r.InvFreq {
			a, b := r.Offset+i, r.Offset+i+len(r.InvFreq)
			if r.Interleaved {
				a, b = r.Offset+2*i, r.Offset+2*i+1
			}
			sin, cos := math.Sincos(float64(float32(pos) * f))
			sin, cos = sin*float64(r.Scale), cos*float64(r.Scale)
			x[a], x[b] = x[a]*cos-x[b]*sin, x[b]*cos+x[a]*sin
		}
	}
	if h.heads.NormAfterRope {
		h.norm(x, n, head)
	}
	return x
}

// TestStoreKVHeads: norms of every kind before and after rotations of every kind, queries that grow
// with their position, and values that are keys, a part of them, or columns of their own; a layer
// that shares another one's cache changes nothing but its queries.
func TestStoreKVHeads(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(40)
		for i := range 32 {
			h, d := newHeadsTest(t, rnd, i, func(s model.Shape) *Device {
				return openPlanned(t, Config{Threads: 2, KVType: F32, Impl: im.name}, s)
			})
			t.Run(fmt.Sprintf("%d_keys_%d_%+v", i, h.kind, h.heads), func(t *testing.T) { h.check(t, rnd, d) })
		}
	})
}

func (h *headsTest) check(t *testing.T, rnd *rand.Rand, d *Device) {
	t.Helper()
	const rows = 35
	f := newFeeder(rnd, d.shape.Spec)
	f.add(&sequence{tokens: make([]int32, rows)}, rows, false)
	d.Begin(&f.batch)
	width, kw, vw := h.Heads*h.KeyDim, h.KVHeads*h.KeyDim, h.KVHeads*h.ValueDim
	all := model.Act{Width: width + kw + vw}
	q, k, v := all.Cols(0, width), all.Cols(width, kw), all.Cols(width+kw, vw)
	switch h.kind {
	case equal:
		v = k
	case partOfKey:
		v = k.Cols(0, vw)
	}
	var before [][]float32
	for r := range rows {
		row := d.view(all).row(r)
		for i := range row {
			row[i] = float32(rnd.NormFloat64())
		}
		before = append(before, slices.Clone(row))
	}
	data := d.caches[0].data
	for i := range data {
		data[i] = 0xff
	}
	was := slices.Clone(data)
	if h.kind == absent {
		d.StoreKV(1, q, k.Cols(0, 0), v.Cols(0, 0), h.heads)
	} else {
		d.StoreKV(1, q, k, v, h.heads)
	}
	for r := range rows {
		pos := int(f.batch.Pos[r])
		by := 1.0
		if m := h.heads.Temper; m.Beta != 0 {
			by += float64(m.Beta) * math.Log(1+math.Floor(float64(pos+m.Shift)/float64(m.Floor)))
		}
		for head := range h.Heads {
			for i, want := range h.want(before[r][head*h.KeyDim:][:h.KeyDim], h.heads.QNorm, head, pos) {
				h.near(t, d.view(q).row(r)[head*h.KeyDim+i], want*by, "row %d, query %d, number %d", r, head, i)
			}
		}
		if !slices.Equal(d.view(all).row(r)[width:], before[r][width:]) {
			t.Fatalf("row %d: the buffer of keys and values has changed", r)
		}
		if h.kind != absent {
			h.checkStored(t, d, before[r], int(f.batch.Slots[r]), pos, k.Off, v.Off)
		}
	}
	if h.kind == absent && !slices.Equal(data, was) {
		t.Error("the cache has changed")
	}
}

// checkStored compares what is in the cache with a row before StoreKV, whose keys start at column k
// and values at v.
func (h *headsTest) checkStored(t *testing.T, d *Device, row []float32, slot, pos, k, v int) {
	t.Helper()
	c := &d.caches[1]
	at := slot % rowsPerTile
	for head := range h.KVHeads {
		unit := c.data[c.at(head)+c.offset(int32(slot/c.blockTokens), slot%c.blockTokens):]
		for i, want := range h.want(row[k+head*h.KeyDim:][:h.KeyDim], h.heads.KNorm, head, pos) {
			h.near(t, number(weights.F32, unit, i*rowsPerTile+at), want, "position %d, key %d, number %d", pos, head, i)
		}
		value := make([]float64, h.ValueDim)
		for i := range value {
			value[i] = float64(row[v+head*h.ValueDim+i])
		}
		h.norm(value, h.heads.VNorm, head)
		for i, want := range value {
			h.near(t, number(weights.F32, unit[c.keys+i/rowsPerTile*c.valueT:], at*rowsPerTile+i%rowsPerTile), want, "position %d, value %d, number %d", pos, head, i)
		}
	}
}

func (h *headsTest) near(t *testing.T, got float32, want float64, format string, args ...any) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= 3e-6*(1+math.Abs(want))) {
		t.Fatalf("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}
