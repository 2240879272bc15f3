package cpu

import (
	"math"
	"slices"

	"weir/weights"
)

// The scales of NVFP4 are E4M3, eeee mmm, times or by a float32 of the tensor, rounded to
// float32. They differ by powers of two if they have the same mantissa. So a unit has the scales
// of all mantissas, and a scale is an index in four bits, and an exponent that is added to it in
// four more. Indexes from 8 on are the numbers of E4M3 below its normal ones, whose exponent is
// 0. The scales are halved, because the values of E2M1 are doubled (blocks.go).

// nvfp4Format is NVFP4 if tiles can be expected to hold t. All rows of a tile have the scales of
// one tensor.
func nvfp4Format(t *weights.Tensor) Format {
	p := t.Packed
	if p.Order != nil || p.Scales.DType != weights.F8E4M3 || p.GroupRows != 1 || p.GroupColumns != halfColumns || p.Transposed ||
		t.Shape[0]%rowsPerTile != 0 || t.Shape[1]%NVFP4.blocks().unitColumns() != 0 {
		return Auto
	}
	return NVFP4
}

// mantissaScales has the halved scales of all mantissas, with the exponent 0.
func mantissaScales(p *weights.Packed) *[16]float32 {
	one := weights.Tensor{Shape: []int{1, 1}, Packed: &weights.Packed{
		GroupRows: 1, GroupColumns: 1, Global: p.Global, Divides: p.Divides, Scales: weights.Tensor{DType: weights.F8E4M3, Shape: []int{1}},
	}}
	var list [16]float32
	for m := range 8 {
		one.Packed.Scales.Data = []byte{byte(1<<3 | m)} // the exponent 1 is the least of normal numbers
		list[m] = one.GroupScale(0, 0) / 4
		one.Packed.Scales.Data = []byte{byte(m)}
		list[8+m] = one.GroupScale(0, 0) / 2
	}
	return &list
}

// holdsMantissas reports whether no scale of t is negative, and none leaves the normal numbers.
func holdsMantissas(t *weights.Tensor) bool {
	if slices.ContainsFunc(t.Packed.Scales.Data, func(c byte) bool { return c >= 0x80 }) {
		return false
	}
	list := mantissaScales(t.Packed)
	const least, most = 0x1p-120, math.MaxFloat32 / (1 << 20)
	return list[0] >= least && list[9] >= least && list[7] <= most && list[15] <= most
}

// halves sets the scales of the halves of a block, which are in groups g and g+1.
func (p *packedRow) halves(w *rawBlock, g int) {
	if p.mantissas == nil {
		p.mantissas = mantissaScales(p.t.Packed)
	}
	w.mantissas = p.mantissas
	for i := range w.factors {
		c := p.t.Packed.Scales.Data[p.row*p.t.Groups()+g+i]
		if c == 0x7f {
			p.scale = float32(math.NaN())
		}
		w.factors[i] = c>>3<<4 | c&7
		if c < 8 {
			w.factors[i] = 8 | c
		}
	}
}
