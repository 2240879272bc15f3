package cpu

import (
	"encoding/binary"
	"math"

	"weir/weights"
)

// Quantized checkpoints of Hugging Face (weights.Packed) become tiles without a change of any
// number where a format of tiles can hold them:
//
//	Q4     integers of 4 bits or fewer whose differences from the zero point are in [-8, 7],
//	       with float16 scales of groups that are whole blocks
//	Q8     the same with 8 bits, and differences in [-128, 127]
//	I4Z    integers of 4 bits with any zero points, and such scales
//	I8Z    the same with 8 bits
//	W8A8   int8 with one float32 scale for each row
//	MXFP4  E2M1 with powers of two for 32 columns
//	NVFP4  E2M1 with scales for 16 columns, which are E4M3 times a number of the tensor
//	FP8    E4M3 with scales of any type for rows or blocks of a multiple of 64 columns
//
// Which one it is to be is decided by what the header and the config of a checkpoint say, so
// that the memory is known before anything is read. The scales and zero points are looked at
// when the matrix is loaded (holds); if they contradict, the matrix is widened.

// packedFormat is the format of tiles that can be expected to keep the codes of t, Auto if
// there is none.
func packedFormat(t *weights.Tensor) Format {
	p := t.Packed
	if len(t.Shape) != 2 || p.Order != nil && !evenGroups(t) {
		return Auto
	}
	whole := p.GroupColumns >= t.Shape[1]
	if t.DType == weights.F8E4M3 {
		if whole || p.GroupColumns%fp8Columns == 0 {
			return FP8
		}
		return Auto
	}
	if t.DType == weights.F4 {
		if p.Scales.DType == weights.F8E8M0 && p.GroupColumns == blockColumns && p.Global == 0 {
			return MXFP4
		}
		return nvfp4Format(t)
	}
	if t.DType != weights.I8 && t.DType != weights.I32 || p.Global != 0 {
		return Auto
	}
	short := p.Scales.DType == weights.F16 || p.Scales.DType == weights.BF16
	switch symmetric := p.Zeros.Data == nil || p.Symmetric; {
	case whole && symmetric && p.Bits == 8 && t.Shape[1] <= maxWhole && (!short || p.Activations == weights.I8):
		return W8A8
	case !short || p.Order == nil && !whole && p.GroupColumns%blockColumns != 0:
		return Auto
	case p.Bits < 4, p.Bits == 4 && symmetric:
		return Q4
	case p.Bits < 8 && p.Bits > 4, p.Bits == 8 && symmetric:
		return Q8
	}
	return withZeros(t)
}

// withZeros is the format that has zero points for codes of 4 or 8 bits; Auto if the columns
// are not whole units of it, which networks have.
func withZeros(t *weights.Tensor) Format {
	f := I4Z
	if t.Packed.Bits > 4 {
		f = I8Z
	}
	if t.Shape[1]%f.blocks().unitColumns() != 0 {
		return Auto
	}
	return f
}

// packedAs is packedFormat for a matrix that is loaded, and is looked at.
func (d *Device) packedAs(t *weights.Tensor) Format {
	f := packedFormat(t)
	if f == Auto || f.holds(t) {
		return f
	}
	if z := withZeros(t); (f == Q4 || f == Q8) && z != Auto && d.impl.multiplies(z) && z.holds(t) {
		return z // it says that it is symmetric, and is not
	}
	return Auto
}

// holds reports whether tiles of f can hold all numbers of t, for which f is expected.
func (f Format) holds(t *weights.Tensor) bool {
	p := t.Packed
	if p == nil || f == MXFP4 || f == FP8 {
		return true
	}
	if f == NVFP4 {
		return holdsMantissas(t)
	}
	if p.Scales.DType == weights.BF16 && f != W8A8 {
		for s := p.Scales.Data; len(s) > 0; s = s[2:] {
			v := math.Float32frombits(uint32(float16Bits(s)) << 16)
			if fromF16(toF16(v)) != v {
				return false
			}
		}
	}
	low, high := f.zeroRange(t)
	if p.Zeros.Data == nil {
		return low <= p.Zero && p.Zero <= high
	}
	least, most := int32(0), int32(1)<<p.Bits-1 // of zero points in words
	if p.Zeros.DType == weights.I8 {
		least, most = p.Zero-128, p.Zero+127
	}
	if low <= least && most <= high {
		return true
	}
	n, groups := t.Shape[0], t.Groups()
	if p.Zeros.DType == weights.I32 && 32%p.Bits == 0 && repeats(p.Zeros.Data) {
		n, groups = min(n, 32/p.Bits), 1 // those of a word
	}
	for r := range n {
		for g := range groups {
			if z := t.GroupZero(r, g); z < low || z > high {
				return false
			}
		}
	}
	return true
}

// repeats reports whether all words are the same.
func repeats(words []byte) bool {
	for i := 4; i < len(words); i += 4 {
		if word(words[i:]) != word(words) {
			return false
		}
	}
	return true
}

// zeroRange is the range of zero points that tiles of f can hold, with any codes of t.
func (f Format) zeroRange(t *weights.Tensor) (low, high int32) {
	least, most := int32(0), int32(1)<<t.Packed.Bits-1 // of codes
	if t.DType == weights.I8 {
		least, most = -128, 127
	}
	switch f {
	case I4Z, I8Z:
		return least, most // stored as they are
	case Q4:
		return most - 7, least + 8 // the differences are in [-8, 7]
	}
	return most - 127, least + 128
}

// evenGroups reports whether all groups of t have as many columns, and these are whole blocks.
func evenGroups(t *weights.Tensor) bool {
	count := make([]int, t.Groups())
	for _, g := range t.Packed.Order {
		count[g]++
	}
	for _, n := range count {
		if n == 0 || n != count[0] || n%blockColumns != 0 {
			return false
		}
	}
	return true
}

// columnOrder has the columns of t by their groups, in which they are stored so that blocks
// have one scale; nil if they are in groups as they are. The rows that the matrix is multiplied
// with are brought into this order before they are rounded.
func columnOrder(t *weights.Tensor) []int32 {
	if t.Packed == nil || t.Packed.Order == nil {
		return nil
	}
	next := make([]int32, t.Groups()+1)
	for _, g := range t.Packed.Order {
		next[g+1]++
	}
	for g := range next[1:] {
		next[g+1] += next[g]
	}
	order := make([]int32, t.Shape[1])
	for k, g := range t.Packed.Order {
		order[next[g]] = int32(k)
		next[g]++
	}
	return order
}

// packedRow reads a row of t by blocks of 32 columns.
type packedRow struct {
	t     *weights.Tensor
	row   int
	order []int32 // columnOrder; nil: none
	all   []uint8 // the codes of the row, if there is an order
	group int     // whose scale and zero point these are; -1: none yet
	scale float32
	zero  int32

	mantissas *[16]float32 // of NVFP4
}

// block has the differences of columns [k0, k0+len(dst)) from their zero point, plus an offset,
// in dst. They are in one group.
func (p *packedRow) block(dst []uint8, k0 int, offset int32) {
	p.codes(dst, k0)
	for i, c := range dst {
		dst[i] = uint8(int32(c) - p.zero + offset)
	}
}

// codes has the codes of columns [k0, k0+len(dst)), which are in one group, without sign: 128 is
// added to those that have one, and to their zero point.
func (p *packedRow) codes(dst []uint8, k0 int) {
	signed := p.t.DType == weights.I8
	column := k0
	if p.order != nil {
		column = int(p.order[k0])
	}
	if g := p.t.Group(column); g != p.group {
		p.group, p.scale, p.zero = g, p.t.GroupScale(p.row, g), p.t.GroupZero(p.row, g)
		if signed {
			p.zero += 128
		}
	}
	if p.order == nil {
		p.t.Codes(dst, p.row, k0)
	} else {
		for i := range dst {
			dst[i] = p.all[p.order[k0+i]]
		}
	}
	if signed {
		for i := range dst {
			dst[i] ^= 128
		}
	}
}

// repackPacked stores columns [k0, k1) of row i of t as row r of the tile. It reports false if a
// scale is infinite or NaN.
func (f Format) repackPacked(tile []byte, r int, t *weights.Tensor, i, k0, k1 int) bool {
	if f == FP8 {
		return repackFP8(tile, r, t, i, k0, k1)
	}
	return f.repackBlocks(tile, r, &packedRow{t: t, row: i, group: -1}, k0, k1)
}

// repackOrdered stores row i of t as row r of the tile, its columns in this order. It reports
// false if a scale is infinite or NaN.
func (f Format) repackOrdered(tile []byte, r int, t *weights.Tensor, i int, order []int32) bool {
	p := packedRow{t: t, row: i, group: -1, order: order, all: make([]uint8, len(order))}
	t.Codes(p.all, i, 0)
	return f.repackBlocks(tile, r, &p, 0, len(order))
}

// repackBlocks stores columns [k0, k1) of a row as row r of the tile.
func (f Format) repackBlocks(tile []byte, r int, p *packedRow, k0, k1 int) bool {
	t, i := p.t, p.row
	offset := int32(128)
	if f == Q4 {
		offset = 8
	}
	var b [blockColumns]uint8
	for ; k0 < k1; k0 += blockColumns {
		n, at := min(blockColumns, k1-k0), k0/blockColumns
		var w rawBlock
		switch f {
		case MXFP4:
			t.Codes(b[:n], i, k0)
			w.scale = uint16(t.Packed.Scales.Data[i*t.Groups()+at])
			if w.scale > maxExponent {
				return false
			}
		case NVFP4:
			t.Codes(b[:n], i, k0)
			p.halves(&w, 2*at)
		case I4Z, I8Z:
			p.codes(b[:n], k0)
			w.scale, w.minFactors[0] = toF16(p.scale), uint8(p.zero)
			clear(b[n:])
		default:
			p.block(b[:n], k0, offset)
			w.scale = toF16(p.scale)
			for j := n; j < blockColumns; j++ {
				b[j] = uint8(offset)
			}
		}
		if !finite(p.scale) {
			return false
		}
		for j := range w.codes {
			w.codes[j] = word(b[4*j:])
		}
		if s := f.blocks(); s != nil {
			s.put(tile, at, r, &w)
		} else {
			f.putBlock(tile, at, r, w.scale, &w.codes)
		}
	}
	return true
}

// repackWhole stores row i of t as row r of a tile of W8A8. It reports false if the scale is
// infinite or NaN.
func repackWhole(tile []byte, r int, t *weights.Tensor, i int) bool {
	k := t.Shape[1]
	p := packedRow{t: t, row: i, group: -1}
	var b [packColumns]uint8
	for k0 := 0; k0 < k; k0 += packColumns {
		row := b[:min(packColumns, k-k0)]
		p.block(row, k0, 128)
		for j, v := range row {
			c := k0 + j
			tile[c/4*4*rowsPerTile+r*4+c%4] = v
		}
	}
	for c := k; c < groups(k)*groupColumns; c++ {
		tile[c/4*4*rowsPerTile+r*4+c%4] = 128
	}
	binary.LittleEndian.PutUint32(tile[groups(k)*groupWhole+4*r:], math.Float32bits(p.scale))
	return finite(p.scale)
}

// widenWhole writes a tile of W8A8 with n groups of columns as a tile of F32.
func widenWhole(dst, tile []byte, n int) {
	scales := tile[n*groupWhole:][:wholeScale]
	for i, v := range tile[:n*groupWhole] {
		c, r := i/(4*rowsPerTile)*4+i%4, i/4%rowsPerTile
		binary.LittleEndian.PutUint32(dst[c*codeLine+4*r:], math.Float32bits(float32(int(v)-128)*lineFloat(scales, r)))
	}
}
