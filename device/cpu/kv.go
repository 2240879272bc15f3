package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/model"
)

// cache is the paged KV memory. Its layout is known to this file and attend.go
// alone:
//
//	[block][layer][KV head][unit of 16 positions]{ keys, values }
//
// keys are one tile of 16 positions by HeadDim, columns rounded up to whole
// fours, values one tile of 16 dimensions by 16 positions for each 16
// dimensions. P·V needs no transposition. Of Int8, either is followed by its
// scales, float32 for each of the 16 positions, and a tile is
//
//	[column/4][16 rows][4]
//
// A block is contiguous over all layers, so that memory becomes resident block
// by block as the cache fills, in whole huge pages, and a block can be copied
// at once.
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

// KVBytesPerToken is what a position costs in the cache of a model of this shape
// (Layers, KVHeads, HeadDim), padding and scales included.
func KVBytesPerToken(f Format, s model.Shape) (int64, error) {
	s.Spec.BlockTokens = rowsPerTile
	c, err := cacheLayout(f, s)
	return int64(c.block / rowsPerTile), err
}

func cacheLayout(f Format, s model.Shape) (cache, error) {
	c := cache{format: f, layers: s.Layers, heads: s.KVHeads, headDim: s.HeadDim, blockTokens: s.Spec.BlockTokens}
	c.columns = (s.HeadDim + 3) &^ 3
	scales := 0
	if f == Int8 {
		scales = rowsPerTile * 4
	}
	c.keys = f.tileBytes(c.columns) + scales
	c.valueT = f.tileBytes(rowsPerTile)
	c.valueScale = c.keys + paddedDim(s)/rowsPerTile*c.valueT
	c.unit = c.valueScale + scales
	block, err := sizeOf(s.Layers, s.KVHeads, s.Spec.BlockTokens/rowsPerTile, c.unit)
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

// StoreKV implements model.Device.
func (d *Device) StoreKV(layer int, k, v model.Act) {
	width := d.cache.heads * d.cache.headDim
	if k.Width != width || v.Width != width || layer < 0 || layer >= d.cache.layers {
		panic(fmt.Sprintf("cpu: StoreKV of rows of %d and %d in layer %d", k.Width, v.Width, layer))
	}
	d.eachRow(rowJob{op: storeRow, dst: d.view(k), src: d.view(v), table: layer}, len(d.batch.Tokens), 4*width)
}

func storeRow(j *rowJob, r int) {
	c := &j.d.cache
	slot := int(j.d.batch.Slots[r])
	i := slot % rowsPerTile
	keys, values := j.dst.row(r), j.src.row(r)
	for h := range c.heads {
		unit := c.data[c.at(j.table, h)+c.offset(int32(slot/c.blockTokens), slot%c.blockTokens):][:c.unit]
		k, v := keys[h*c.headDim:][:c.headDim], values[h*c.headDim:][:c.headDim]
		if c.format == Int8 {
			c.putInt8(unit, i, k, v)
			continue
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
}

// keyMax is the greatest number that keys and values of Int8 become: the scale
// is symmetric, so that zero stays zero.
const keyMax = math.MaxInt8

// keyBias makes keys positive, for instructions that multiply numbers of 8 bits
// of which one has a sign.
const keyBias = 128

// putInt8 quantises a head's keys and values and stores them as position i of a
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
