package cpu

import (
	"math"
	"slices"
	"testing"

	"weir/model"
	"weir/weights"
)

// TestStoreKVKeepsKeys: StoreKV norms and rotates the queries in their buffer, and the keys on
// their way to the cache, so that the buffers of keys and values do not change.
func TestStoreKVKeepsKeys(t *testing.T) {
	n := newNet(newRand(21), weights.F32, 32)
	r := newRunner(t, n, Config{Threads: 1, KVType: F32}, testSpec)
	f := newFeeder(newRand(22), testSpec)
	f.add(&sequence{tokens: []int32{1, 2, 3}}, 3, false)
	r.Begin(&f.batch)
	width, kvWidth := n.heads*n.headDim, n.kvHeads*n.headDim
	all := model.Act{Buf: actQKV, Width: width + 2*kvWidth}
	rnd := newRand(23)
	var before [][]float32
	for row := range f.batch.Tokens {
		v := r.view(all).row(row)
		for i := range v {
			v[i] = float32(rnd.NormFloat64())
		}
		before = append(before, slices.Clone(v))
	}
	r.StoreKV(1, all.Cols(0, width), all.Cols(width, kvWidth), all.Cols(width+kvWidth, kvWidth),
		model.Heads{QNorm: model.HeadNorm{On: true, W: r.w.headNorm, Eps: netEps}, KNorm: model.HeadNorm{On: true, W: r.w.headNorm, Eps: netEps}})
	for row, was := range before {
		is := r.view(all).row(row)
		if slices.Equal(is[:width], was[:width]) {
			t.Errorf("the queries of row %d have not changed", row)
		}
		if !slices.Equal(is[width:], was[width:]) {
			t.Errorf("the keys or values of row %d have changed", row)
		}
	}
	// Position 0 is not rotated, so its first key in the cache is the normed one.
	norm := values(n.headNorm)
	square := 0.0
	for _, v := range before[0][width : width+n.headDim] {
		square += float64(v) * float64(v) / float64(n.headDim)
	}
	slot := int(f.batch.Slots[0])
	unit := r.caches[0].data[r.caches[1].at(0)+r.caches[1].offset(int32(slot/r.caches[1].blockTokens), slot%r.caches[1].blockTokens):]
	for d := range n.headDim {
		got := float64(number(weights.F32, unit, d*rowsPerTile+slot%rowsPerTile))
		want := float64(before[0][width+d]) / math.Sqrt(square+netEps) * norm[d]
		if math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
			t.Errorf("number %d of the key in the cache is %v, want %v", d, got, want)
		}
	}
}
