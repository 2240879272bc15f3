package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/model"
)

// cache is the paged KV memory. Only this file and attend.go know its layout:
//
//	[block][layer][KV head][unit of 16 positions]{ keys, values }
//
// keys are one tile of 16 positions by HeadDim, columns rounded up to whole
// fours, values one tile of 16 dimensions by 16 positions for each 16
// dimensions. So P·V needs no transposition. With Int8, keys and values are each
// followed by their scales, float32 for each of the 16 positions, and a tile is
//
//	[column/4][16 rows][4]
//
// A block is contiguous over all layers, so that memory becomes resident in whole huge
// pages, block by block, as the cache fills, and a block can be copied at once.
type cache struct {
	format      Format
	data        []byte
	layers      int
	heads       int
	headDim     int
	blockTokens int

	columns    int  // of keys
	keys       int  // bytes of a unit's keys
	valueT     int  // bytes of one value tile
	valueScale int  // Int8: where the values' scales are in a unit
	bias       byte // Int8: what is added to keys, 0 or keyBias
	unit       int
	head       int
	layer      int
	block      int
}

// KVBytesPerToken is how many bytes a position takes in the cache of a model of this
// shape (Layers, KVHeads, HeadDim), padding and scales included.
func KVBytesPerToken(f Format, s model.Shape) (int64, error) {
	s.Spec.BlockTokens = rowsPerTile
	c, err := cacheLayout(f, s)
	return int64(c.block / rowsPerTile), err
}

func cacheLayout(f Format, s model.Shape) (cache, error) {
	c := cache{format: f, layers: len(s.KV), heads: s.KV[0].KVHeads, headDim: s.KV[0].KeyDim, blockTokens: s.Spec.BlockTokens}
	c.columns = (s.KV[0].KeyDim + 3) &^ 3
	scales := 0
	if f == Int8 {
		scales = rowsPerTile * 4
	}
	c.keys = f.tileBytes(c.columns) + scales
	c.valueT = f.tileBytes(rowsPerTile)
	c.valueScale = c.keys + paddedDim(s)/rowsPerTile*c.valueT
	c.unit = c.valueScale + scales
	block, err := sizeOf(len(s.KV), s.KV[0].KVHeads, s.Spec.BlockTokens/rowsPerTile, c.unit)
	if err != nil {
		return cache{}, err
	}
	c.head = s.Spec.BlockTokens / rowsPerTile * c.unit
	c.layer = c.heads * c.head
	c.block = block
	return c, nil
}

func newCache(mem *arena, f Format, s model.Shape) (cache, error) {
	c, err := cacheLayout(f, s)
	if err != nil {
		return cache{}, err
	}
	size, err := sizeOf(s.Spec.NumBlocks, c.block)
	if err != nil {
		return cache{}, err
	}
	if c.data, err = mem.bytes(size); err != nil {
		return cache{}, fmt.Errorf("%w (KV cache of %d blocks)", err, s.Spec.NumBlocks)
	}
	return c, nil
}

// at is the offset of a layer's and head's first unit within a block.
func (c *cache) at(layer, head int) int { return layer*c.layer + head*c.head }

// offset is where the unit of a position starts, from the first unit of the
// same layer and head in block 0 on.
func (c *cache) offset(block int32, pos int) int {
	return int(block)*c.block + pos%c.blockTokens/rowsPerTile*c.unit
}

// StoreKV implements model.Device. Rows are taken on their own, like those of a
// rowJob.
func (d *Device) StoreKV(layer int, q, k, v model.Act, h model.Heads) {
	width, kvWidth := d.shape.KV[0].Heads*d.cache.headDim, d.cache.heads*d.cache.headDim
	if q.Width != width || k.Width != kvWidth || v.Width != kvWidth || layer < 0 || layer >= d.cache.layers {
		panic(fmt.Sprintf("cpu: StoreKV of rows of %d, %d and %d in layer %d", q.Width, k.Width, v.Width, layer))
	}
	j := &d.headsJob
	j.q, j.k, j.v, j.layer, j.eps = d.written(q), d.view(k), d.view(v), layer, h.QNorm.Eps
	j.qNorm, j.kNorm, j.rope = nil, nil, nil
	if h.QNorm.On {
		j.qNorm, j.kNorm = d.params[h.QNorm.W].vec, d.params[h.KNorm.W].vec
		if len(j.qNorm) != d.cache.headDim || len(j.kNorm) != d.cache.headDim {
			panic(fmt.Sprintf("cpu: StoreKV norms heads of %d with %d and %d weights", d.cache.headDim, len(j.qNorm), len(j.kNorm)))
		}
	}
	if h.Rope != model.NoRope {
		j.rope = &d.ropes[h.Rope]
	}
	j.n = len(d.batch.Tokens)
	j.per = d.rowsPerChunk(j.n, 3*width+7*kvWidth)
	d.team.run(1, (j.n+j.per-1)/j.per, j)
}

// headsJob is StoreKV of some rows per chunk.
type headsJob struct {
	d            *Device
	q, k, v      view
	qNorm, kNorm []float32 // [HeadDim], or nil
	eps          float32
	rope         *ropeTable // or nil
	layer        int
	n, per       int // rows, and rows per chunk
}

func (j *headsJob) do(worker, chunk int) {
	dim, key := j.d.cache.headDim, j.d.scratch[worker].key
	for r := chunk * j.per; r < min(j.n, (chunk+1)*j.per); r++ {
		for head := j.q.row(r); len(head) > 0; head = head[dim:] {
			j.turn(head[:dim], head[:dim], j.qNorm, r)
		}
		keys, values := j.k.row(r), j.v.row(r)
		for h := range j.d.cache.heads {
			k := keys[h*dim:][:dim]
			if j.kNorm != nil || j.rope != nil {
				j.turn(key, k, j.kNorm, r)
				k = key
			}
			j.d.cache.put(int(j.d.batch.Slots[r]), j.layer, h, k, values[h*dim:][:dim])
		}
	}
}

// turn writes a head of row r to dst, normed and rotated. dst may be src.
func (j *headsJob) turn(dst, src, norm []float32, r int) {
	if norm != nil {
		j.d.impl.norm(dst, src, norm, j.eps)
	} else {
		copy(dst, src)
	}
	if t := j.rope; t != nil {
		// The second half of a head starts in its middle, or right after the first
		// where only a part of the head is rotated.
		j.d.impl.rotate(dst[:t.width], dst[t.width:2*t.width], t.cos[r*t.width:][:t.width], t.sin[r*t.width:][:t.width])
	}
}

// put stores a head's key and value of one position.
func (c *cache) put(slot, layer, head int, k, v []float32) {
	i := slot % rowsPerTile
	unit := c.data[c.at(layer, head)+c.offset(int32(slot/c.blockTokens), slot%c.blockTokens):][:c.unit]
	if c.format == Int8 {
		c.putInt8(unit, i, k, v)
		return
	}
	c.format.putRow(unit, i, k)
	for d := c.headDim; d < c.columns; d++ {
		c.format.put(unit, d, i, 0)
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
	inv := c.putScale(unit[c.keys-rowsPerTile*4:], i, k)
	for d := range c.columns {
		b := byte(0)
		if d < len(k) {
			b = toInt8(k[d], inv)
		}
		unit[(d/4*rowsPerTile+i)*4+d%4] = b + c.bias
	}
	inv = c.putScale(unit[c.valueScale:], i, v)
	unit = unit[c.keys+i/4*rowsPerTile*4+i%4:]
	for d, x := range v {
		unit[d/rowsPerTile*c.valueT+d%rowsPerTile*4] = toInt8(x, inv)
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
