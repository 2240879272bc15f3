//go:build cuda && linux && amd64

package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"
	"sync"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/model"
	"weir/weights"
)

// Matrices that a checkpoint stores as whole numbers with scales are packed into the tiles of
// Q8 and Q4 as they are, if these hold them: the numbers of blocks of 32 columns in [-128, 127]
// or [-8, 7], and a scale that is a float16. MXFP4 has tiles of its own. The host does this, because each stored form
// would need a kernel of its own, and reading the file takes longer.

// StoredAs is the format in which Load keeps a matrix or a table of embeddings. exact says that
// its tensors are quantized, and kept as they are. If Load refuses them the error is
// ErrStored, or a fault of a file that was cut: the scales are read.
func (c Config) StoredAs(m model.Matrix) (f Format, exact bool, err error) {
	defer weights.CatchFault(debug.SetPanicOnFault(true), m.Rows, &err)
	if m.Use == model.Exact {
		return BF16, true, nil // as float32, which holds all numbers as they are
	}
	coded := -1
	for i := range m.Rows {
		if m.Rows[i].Quantized() {
			coded = i
		}
	}
	if m.Use != model.Embedding || coded >= 0 {
		f = c.Weights
	}
	if coded < 0 || c.Weights != BF16 {
		return f, false, nil
	}
	if f, exact = keeps(m.Rows); exact && (f != MXFP4 || m.Use != model.Embedding) { // of which no kernel reads rows
		return f, true, nil
	}
	if t := &m.Rows[coded]; !c.Widen {
		return BF16, false, fmt.Errorf("%w: tensor %q is stored as %s, which no kernel reads", ErrStored, t.Name, t.TypeName())
	}
	return BF16, false, nil
}

// blockColumns is how many columns share a scale in tiles.
const blockColumns = 32

// keeps is the format whose tiles hold all of a matrix as its tensors are stored, if there is
// one.
func keeps(rows []weights.Tensor) (f Format, ok bool) {
	for i := range rows {
		g, ok := keepsOne(&rows[i])
		if !ok || i > 0 && g != f {
			return 0, false
		}
		f = g
	}
	return f, true
}

func keepsOne(t *weights.Tensor) (Format, bool) {
	p := t.Packed
	switch {
	case p == nil && t.DType == weights.Q8_0:
		return Q8, true
	case p == nil && t.DType == weights.Q4_0:
		return Q4, true
	case p == nil && t.DType == weights.MXFP4:
		return MXFP4, true
	case p != nil && t.DType == weights.F4:
		return MXFP4, p.Scales.DType == weights.F8E8M0 && p.GroupColumns == blockColumns && p.GroupRows == 1 && p.Global == 0 && p.Order == nil && t.Pairs == 0
	case p == nil || p.Order != nil || t.DType != weights.I8 && t.DType != weights.I32 || t.Pairs != 0:
		return 0, false
	case p.GroupColumns%blockColumns != 0 && p.GroupColumns < t.Shape[1]:
		return 0, false
	}
	low, high := int32(math.MaxInt32), int32(math.MinInt32) // zero points
	for r := 0; r < t.Shape[0]; r += p.GroupRows {
		for g := range t.Groups() {
			if s := t.GroupScale(r, g); weights.FromFloat16(toHalf(s)) != s {
				return 0, false
			}
		}
	}
	for r := range t.Shape[0] {
		for g := range t.Groups() {
			z := t.GroupZero(r, g)
			low, high = min(low, z), max(high, z)
		}
	}
	most := int32(1)<<p.Bits - 1 // of a code
	least := int32(0)
	if t.DType == weights.I8 {
		least, most = -128, 127
	}
	switch {
	case least-high >= -8 && most-low <= 7:
		return Q4, true
	case least-high >= -128 && most-low <= 127:
		return Q8, true
	}
	return 0, false
}

// toHalf is the float16 nearest to v, for v that are float16 numbers; what else it is of others
// does not matter.
func toHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b >= 0x47800000: // 65536
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: the unit is 2^-24, which is the last bit of a float32 in [0.5, 1)
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-0x38000000)>>13)
}

// block reads block b of 32 columns of row r: whole numbers, zeros behind the row's end, and
// the scale, which is a float16. Of MXFP4 it reads codes, and the scale is a bfloat16.
func block(q *[blockColumns]int8, t *weights.Tensor, r, b int) (scale uint16) {
	switch {
	case t.Packed != nil:
		return packedBlock(q, t, r, b)
	case t.DType == weights.Q8_0:
		const size = 2 + blockColumns
		at := t.Data[t.StoredRow(r)*t.DType.RowBytes(t.Shape[1])+b*size:][:size]
		for i, v := range at[2:] {
			q[i] = int8(v)
		}
		return binary.LittleEndian.Uint16(at)
	case t.DType == weights.MXFP4:
		const size = 1 + blockColumns/2
		at := t.Data[t.StoredRow(r)*t.DType.RowBytes(t.Shape[1])+b*size:][:size]
		for i, v := range at[1:] {
			q[i], q[i+blockColumns/2] = int8(v&15), int8(v>>4)
		}
		if at[0] == 0 {
			return 0x0040 // 2^-127, which is subnormal
		}
		return uint16(at[0]) << 7
	default: // Q4_0
		const size = 2 + blockColumns/2
		at := t.Data[t.StoredRow(r)*t.DType.RowBytes(t.Shape[1])+b*size:][:size]
		for i, v := range at[2:] {
			q[i], q[i+blockColumns/2] = int8(v&15)-8, int8(v>>4)-8
		}
		return binary.LittleEndian.Uint16(at)
	}
}

func packedBlock(q *[blockColumns]int8, t *weights.Tensor, r, b int) (scale uint16) {
	var codes [blockColumns]uint8
	k := b * blockColumns
	n := min(blockColumns, t.Shape[1]-k)
	t.Codes(codes[:n], r, k)
	g := t.Group(k)
	*q = [blockColumns]int8{}
	if t.DType == weights.F4 {
		for i, c := range codes[:n] {
			q[i] = int8(c)
		}
		return uint16(math.Float32bits(t.GroupScale(r, g)) >> 16)
	}
	zero := t.GroupZero(r, g)
	for i, c := range codes[:n] {
		v := int32(c)
		if t.DType == weights.I8 {
			v = int32(int8(c))
		}
		q[i] = int8(v - zero)
	}
	return toHalf(t.GroupScale(r, g))
}

// packExact writes the tiles of a matrix whose tensors p.as holds exactly.
func (d *Device) packExact(p *param, m model.Matrix) error {
	tile, perRow := formats[p.as].tile, cdiv(p.k, kernels.Tile)
	row := tile * perRow // bytes of 64 rows
	step := max(stageBytes/row, 1)
	if err := d.stage.grow(d, step*row); err != nil {
		return err
	}
	total := cdiv(p.n, kernels.Tile)
	for at := 0; at < total; at += step {
		n := min(step, total-at)
		s, i := &d.stage, d.stage.turn
		s.turn ^= 1
		if err := s.done[i].Synchronize(); err != nil {
			return deviceError("wait for a copy", err)
		}
		if err := packTiles(s.host[i].mem[:n*row], p, m.Rows, at, row); err != nil {
			return err
		}
		if err := cu.MemcpyHtoDAsync(cu.DevicePtr(p.data+uint64(at*row)), s.host[i].pointer(), int64(n*row), d.run.stream); err != nil {
			return deviceError("copy to the device", err)
		}
		if err := s.done[i].Record(d.run.stream); err != nil {
			return deviceError("mark a copy", err)
		}
	}
	return nil
}

// packTiles writes rows of tiles from number first on into dst, each of so many bytes, on all
// processors.
func packTiles(dst []byte, p *param, rows []weights.Tensor, first, bytes int) error {
	const most = 8 // goroutines: reading the file is the limit beyond
	n := len(dst) / bytes
	errs := make([]error, min(most, n))
	var done sync.WaitGroup
	for w := range errs {
		done.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				errs[w] = packTileRow(dst[i*bytes:][:bytes], p, rows, first+i)
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// packTileRow writes row nt of tiles.
func packTileRow(dst []byte, p *param, rows []weights.Tensor, nt int) (err error) {
	defer weights.CatchFault(debug.SetPanicOnFault(true), rows, &err)
	clear(dst)
	tile := formats[p.as].tile
	var q [blockColumns]int8
	for in := range kernels.Tile {
		t, r := p.source(rows, nt, in)
		if t == nil {
			continue
		}
		for b := range cdiv(p.k, blockColumns) {
			scale := block(&q, t, r, b)
			if most := p.as.infinite(); scale&most == most {
				return fmt.Errorf("%w: the scale of row %d, columns from %d on, is not a number (tensor %q)", weights.ErrDamaged, r, b*blockColumns, t.Name)
			}
			p.as.place(dst[b/2*tile:][:tile], in, b%2, scale, &q)
		}
	}
	return nil
}

// infinite are the bits of a scale's exponent, which all are 1 if it is not a number.
func (f Format) infinite() uint16 {
	if f == MXFP4 {
		return 0x7f80
	}
	return 0x7c00
}

// source is the tensor and its row that row in of row nt of tiles holds; nil: none.
func (p *param) source(rows []weights.Tensor, nt, in int) (*weights.Tensor, int) {
	if p.gated {
		const half = kernels.Tile / 2
		t, r := &rows[in/half], nt*half+in%half
		if r < t.Shape[0] {
			return t, r
		}
		return nil, 0
	}
	r := nt*kernels.Tile + in
	for i := range rows {
		if t := &rows[i]; r < t.Shape[0] {
			return t, r
		} else {
			r -= t.Shape[0]
		}
	}
	return nil, 0
}

// place writes block kb of row in of a tile, whose layout src/quant.h describes.
func (f Format) place(tile []byte, in, kb int, scale uint16, q *[blockColumns]int8) {
	mi, h := in/16, in%16/8
	binary.LittleEndian.PutUint16(tile[len(tile)-256+(kb*kernels.Tile+in)*2:], scale)
	for c, v := range q {
		reader, step, upper := in%8*4+c%8/2, c/16, c%16/8
		if f == Q8 {
			tile[((mi*2+kb)*32+reader)*16+step*8+(h+2*upper)*2+c&1] = byte(int(v) + 128)
			continue
		}
		if f == Q4 {
			v += 8
		}
		tile[((mi*2+kb)*32+reader)*8+step*4+upper+2*(c&1)] |= byte(v) << (4 * h)
	}
}
