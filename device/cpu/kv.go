package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/model"
)

// cache is the paged KV memory. Only this file and attend.go know its layout:
//
//	[block][cache][KV head][unit of 16 positions]{ keys, values }
//
// where each cache has sizes of its own, and is usually a layer's. With groups of layers a block has one cache
// of each index (model.KVPlace), and is as large as the largest ones. keys are one tile of 16
// positions by KeyDim, columns rounded up to whole fours, values one tile of 16
// dimensions by 16 positions for each 16 dimensions. So P·V needs no transposition. With Int8, keys and values are each
// followed by their scales, float32 for each of the 16 positions, and a tile is
//
//	[column/4][16 rows][4]
//
// Where values are the first columns of keys (model.KVShape.ValueInKey), a unit has no values of its own:
// attention turns these columns into tiles of values (turn.go). With Int8 such keys have two parts, values and
// what is behind them, a tile with scales for each, because the rotated part of a latent key is of another size than the
// latent.
//
// A block is contiguous over all caches, so that memory becomes resident in whole huge
// pages, block by block, as the cache fills, and a block can be copied at once.
type cache struct {
	format      Format
	data        []byte // of all caches
	heads       int    // KV heads
	group       int    // query heads for each of them, at most
	keyDim      int
	valueDim    int
	inKey       bool // values are the first columns of keys
	blockTokens int
	table       int // the group whose block tables and slots it uses

	columns    int  // of keys; Int8: of their first part
	more       int  // Int8: columns of keys behind the first part, which is the value
	moreAt     int  // Int8: where they are in a unit
	keys       int  // bytes of a unit's keys
	valueT     int  // bytes of one value tile
	valueScale int  // Int8: where the values' scales are in a unit
	bias       byte // Int8: what is added to keys, 0 or keyBias
	unit       int
	head       int
	first      int // where the cache starts in a block
	block      int // bytes of a block of all caches
}

// KVBytesPerToken is how many bytes a position takes in a block of the caches of a model of this
// shape, padding and scales included. With groups of layers, it takes so many in each.
func KVBytesPerToken(f Format, s model.Shape) (int64, error) {
	s.Spec.BlockTokens = rowsPerTile
	caches, err := cacheLayout(f, s)
	if err != nil {
		return 0, err
	}
	return int64(caches[0].block / rowsPerTile), nil
}

// cacheLayout lays out the caches of a block, one after another.
func cacheLayout(f Format, s model.Shape) ([]cache, error) {
	caches := make([]cache, len(s.KV))
	sizes := make([]int, len(s.KV)) // of the caches with an index, the largest
	for i, kv := range s.KV {
		c := cache{format: f, heads: kv.KVHeads, group: kv.Heads / kv.KVHeads, keyDim: kv.KeyDim, valueDim: kv.ValueDim, inKey: kv.ValueInKey, blockTokens: s.Spec.BlockTokens, table: s.Place(i).Group}
		c.layoutUnit()
		c.head = s.Spec.BlockTokens / rowsPerTile * c.unit
		size, err := sizeOf(kv.KVHeads, s.Spec.BlockTokens/rowsPerTile, c.unit)
		if err != nil {
			return nil, err
		}
		index := s.Place(i).Index
		sizes[index] = max(sizes[index], size)
		caches[i] = c
	}
	starts, at := make([]int, len(sizes)), 0
	for i, size := range sizes {
		if at > math.MaxInt-size {
			return nil, fmt.Errorf("%w: a KV block of more than %d bytes", ErrConfig, math.MaxInt)
		}
		starts[i], at = at, at+size
	}
	for i := range caches {
		caches[i].first, caches[i].block = starts[s.Place(i).Index], at
	}
	return caches, nil
}

// layoutUnit lays out the keys and values of 16 positions.
func (c *cache) layoutUnit() {
	scales, first := 0, c.keyDim
	if c.format == Int8 {
		scales = rowsPerTile * 4
		if c.inKey {
			first = c.valueDim
		}
	}
	c.columns = quads(first)
	c.keys = c.format.tileBytes(c.columns) + scales
	c.valueT = c.format.tileBytes(rowsPerTile)
	c.valueScale = c.keys - scales
	if first < c.keyDim {
		c.more, c.moreAt = quads(c.keyDim-first), c.keys
		c.keys += c.format.tileBytes(c.more) + scales
	}
	c.unit = c.keys
	if !c.inKey && c.valueDim > 0 {
		c.valueScale = c.keys + c.valueColumns()/rowsPerTile*c.valueT
		c.unit = c.valueScale + scales
	}
}

// queryColumns are those of a query as attention keeps it, each part rounded up to whole vectors.
func (c *cache) queryColumns() int {
	if c.more > 0 {
		return padded(c.valueDim) + padded(c.more)
	}
	return padded(c.keyDim)
}

// quads is n rounded up to whole fours.
func quads(n int) int { return (n + 3) &^ 3 }

// valueColumns is the size of a head's values, rounded up to whole tiles.
func (c *cache) valueColumns() int { return padded(c.valueDim) }

// padded is n rounded up to whole tiles.
func padded(n int) int { return (n + rowsPerTile - 1) / rowsPerTile * rowsPerTile }

func newCaches(mem *arena, f Format, s model.Shape) ([]cache, error) {
	caches, err := cacheLayout(f, s)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(s.Spec.NumBlocks, caches[0].block)
	if err != nil {
		return nil, err
	}
	data, err := mem.bytes(size)
	if err != nil {
		return nil, fmt.Errorf("%w (KV cache of %d blocks)", err, s.Spec.NumBlocks)
	}
	for i := range caches {
		caches[i].data = data
	}
	return caches, nil
}

// at is the offset of a head's first unit within a block.
func (c *cache) at(head int) int { return c.first + head*c.head }

// offset is where the unit of a position starts, from the first unit of the
// same head in block 0 on.
func (c *cache) offset(block int32, pos int) int {
	return int(block)*c.block + pos%c.blockTokens/rowsPerTile*c.unit
}

// StoreKV implements model.Device. Rows are taken on their own, like those of a
// rowJob.
func (d *Device) StoreKV(kv int, q, k, v model.Act, h model.Heads) {
	if kv < 0 || kv >= len(d.caches) {
		panic(fmt.Sprintf("cpu: StoreKV in cache %d of %d", kv, len(d.caches)))
	}
	c := &d.caches[kv]
	kept := k.Width > 0 || v.Width > 0
	if q.Width == 0 || q.Width%c.keyDim != 0 || kept && (k.Width != c.heads*c.keyDim || v.Width != c.heads*c.valueDim) {
		panic(fmt.Sprintf("cpu: StoreKV of rows of %d, %d and %d in cache %d", q.Width, k.Width, v.Width, kv))
	}
	j := &d.headsJob
	j.c, j.q, j.kept = c, d.written(q), kept
	if kept {
		j.k, j.v = d.view(k), view{}
		if !c.inKey && v.Width > 0 {
			j.v = d.view(v)
		}
	}
	j.rope, j.late, j.temper = nil, h.NormAfterRope, h.Temper
	j.qNorm = d.headNorm(h.QNorm, c.keyDim, q.Width)
	j.kNorm, j.vNorm = headNorm{}, headNorm{}
	if kept {
		j.kNorm, j.vNorm = d.headNorm(h.KNorm, c.keyDim, k.Width), d.headNorm(h.VNorm, c.valueDim, v.Width)
	}
	if h.Rope != model.NoRope {
		j.rope = &d.ropes[h.Rope]
		if j.rope.Offset+2*j.rope.width > c.keyDim {
			panic(fmt.Sprintf("cpu: StoreKV rotates %d dimensions from %d on of heads of %d", 2*j.rope.width, j.rope.Offset, c.keyDim))
		}
	}
	if c.inKey && kept && (j.kNorm.On || j.vNorm.On || j.rope != nil && j.rope.Offset < c.valueDim) {
		panic(fmt.Sprintf("cpu: StoreKV norms or rotates values that are the first %d columns of keys", c.valueDim))
	}
	j.n = len(d.batch.Tokens)
	j.per = d.rowsPerChunk(j.n, 3*q.Width+7*k.Width)
	d.team.run(1, (j.n+j.per-1)/j.per, j)
}

// headNorm is a norm of heads with its weights.
type headNorm struct {
	model.HeadNorm
	w []float32 // nil: 1
}

// headNorm finds the weights of a norm of heads of dim columns in rows of width.
func (d *Device) headNorm(n model.HeadNorm, dim, width int) headNorm {
	h := headNorm{HeadNorm: n}
	if !n.On || n.W == model.NoWeight {
		return h
	}
	h.w = d.params[n.W].vec
	want := dim
	if n.PerHead {
		want = width
	}
	if len(h.w) != want {
		panic(fmt.Sprintf("cpu: StoreKV norms heads of %d in rows of %d with %d weights", dim, width, len(h.w)))
	}
	return h
}

// of are the weights for head h of dim columns.
func (n *headNorm) of(h, dim int) []float32 {
	if n.w == nil || !n.PerHead {
		return n.w
	}
	return n.w[h*dim:][:dim]
}

// headsJob is StoreKV of some rows per chunk.
type headsJob struct {
	d                   *Device
	c                   *cache
	q, k, v             view
	qNorm, kNorm, vNorm headNorm
	rope                *ropeTable // or nil
	late                bool       // heads are normed after the rotation
	kept                bool       // keys and values are stored
	temper              model.Temper
	n, per              int // rows, and rows per chunk
}

func (j *headsJob) do(worker, chunk int) {
	dim, vdim := j.c.keyDim, j.c.valueDim
	sc := &j.d.scratch[worker]
	key, value := sc.key[:dim], sc.value[:vdim]
	for r := chunk * j.per; r < min(j.n, (chunk+1)*j.per); r++ {
		row := j.q.row(r)
		for h := range len(row) / dim {
			head := row[h*dim:][:dim]
			j.turn(head, head, &j.qNorm, h, r)
		}
		if j.temper.Beta != 0 {
			by := temper(j.temper, int(j.d.batch.Pos[r]))
			for i := range row {
				row[i] *= by
			}
		}
		if !j.kept {
			continue
		}
		keys, values := j.k.row(r), j.values(r)
		for h := range j.c.heads {
			k := keys[h*dim:][:dim]
			var v []float32
			if values != nil {
				v = values[h*vdim:][:vdim]
			}
			if j.kNorm.On || j.rope != nil {
				j.turn(key, k, &j.kNorm, h, r)
				k = key
			}
			if j.vNorm.On {
				j.d.normHead(value, v, &j.vNorm, h)
				v = value
			}
			j.c.put(int(j.d.batch.Slots[j.c.table*len(j.d.batch.Tokens)+r]), h, k, v)
		}
	}
}

// values are those of row r; nil: there are none apart from keys.
func (j *headsJob) values(r int) []float32 {
	if j.v.width == 0 {
		return nil
	}
	return j.v.row(r)
}

// temper is the factor on the queries of a position, as the contract has it.
func temper(t model.Temper, pos int) float32 {
	steps := math.Floor(float64(float32(pos+t.Shift) / t.Floor))
	return 1 + float32(t.Beta*float32(math.Log1p(steps)))
}

// turn writes head h of row r to dst, normed and rotated. dst may be src.
func (j *headsJob) turn(dst, src []float32, norm *headNorm, h, r int) {
	switch {
	case norm.On && !j.late:
		j.d.normHead(dst, src, norm, h)
	case &dst[0] != &src[0]:
		copy(dst, src)
	}
	if j.rope != nil {
		j.rope.turn(j.d.impl, dst[j.rope.Offset:], r)
	}
	if norm.On && j.late {
		j.d.normHead(dst, dst, norm, h)
	}
}

// turn rotates the first dimensions of a head of row r.
func (t *ropeTable) turn(im *impl, head []float32, r int) {
	cos, sin := t.cos[r*t.width:][:t.width], t.sin[r*t.width:][:t.width]
	if !t.Interleaved {
		// The second half of a head starts in its middle, or right after the first
		// where only a part of the head is rotated.
		im.rotate(head[:t.width], head[t.width:2*t.width], cos, sin)
		return
	}
	for i, c := range cos {
		s := sin[i]
		a, b := head[2*i], head[2*i+1]
		head[2*i] = float32(a*c) - float32(b*s)
		head[2*i+1] = float32(b*c) + float32(a*s)
	}
}

// normHead writes the norm of a head.
func (d *Device) normHead(dst, src []float32, n *headNorm, h int) {
	w := n.of(h, len(src))
	switch {
	case n.LayerNorm:
		layerNorm(dst, src, w, nil, n.Eps)
	case w == nil:
		d.impl.normPlain(dst, src, n.Eps)
	default:
		d.impl.norm(dst, src, w, n.Eps)
	}
}

// put stores a head's key and value of one position.
func (c *cache) put(slot, head int, k, v []float32) {
	i := slot % rowsPerTile
	unit := c.data[c.at(head)+c.offset(int32(slot/c.blockTokens), slot%c.blockTokens):][:c.unit]
	if c.format == Int8 {
		c.putInt8(unit, i, k, v)
		return
	}
	c.format.putRow(unit, i, k)
	for d := c.keyDim; d < c.columns; d++ {
		c.format.put(unit, d, i, 0)
	}
	if len(v) == 0 {
		return
	}
	unit = unit[c.keys:]
	for ; len(v) > rowsPerTile; v = v[rowsPerTile:] {
		c.format.putColumn(unit, i, v[:rowsPerTile])
		unit = unit[c.valueT:]
	}
	c.format.putColumn(unit, i, v)
}

// keyMax is the greatest integer that keys and values are rounded to with Int8. The
// scale is symmetric, so that zero stays zero.
const keyMax = math.MaxInt8

// keyBias makes keys positive, for instructions that multiply unsigned with signed
// numbers of 8 bits.
const keyBias = 128

// putInt8 quantizes a head's keys and values and stores them as position i of a
// unit.
func (c *cache) putInt8(unit []byte, i int, k, v []float32) {
	first := k
	if c.more > 0 {
		first = k[:c.valueDim]
		c.putPart(unit[c.moreAt:], i, k[c.valueDim:], c.more)
	}
	c.putPart(unit, i, first, c.columns)
	if len(v) == 0 {
		return
	}
	inv := c.putScale(unit[c.valueScale:], i, v)
	unit = unit[c.keys+i/4*rowsPerTile*4+i%4:]
	for d, x := range v {
		unit[d/rowsPerTile*c.valueT+d%rowsPerTile*4] = toInt8(x, inv)
	}
}

// putPart quantizes a part of a key, which has so many columns with those that fill it up, and stores it as
// position i of a tile, which scales follow.
func (c *cache) putPart(tile []byte, i int, k []float32, columns int) {
	inv := c.putScale(tile[Int8.tileBytes(columns):], i, k)
	for d := range columns {
		b := byte(0)
		if d < len(k) {
			b = toInt8(k[d], inv)
		}
		tile[(d/4*rowsPerTile+i)*4+d%4] = b + c.bias
	}
}

// putScale stores the scale of x and returns its inverse.
func (c *cache) putScale(scales []byte, i int, x []float32) float32 {
	inv, unit := inverse(absMaxGeneric(x), keyMax)
	binary.LittleEndian.PutUint32(scales[i*4:], math.Float32bits(unit))
	return inv
}

// toInt8 rounds x*inv, at most 127 in magnitude, to nearest even.
func toInt8(x, inv float32) byte {
	const shift = 3 << 22 // adding it leaves the nearest integer in the low bits
	return byte(math.Float32bits(float32(x*inv) + shift))
}
