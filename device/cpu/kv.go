package cpu

import (
	"fmt"

	"weir/model"
)

// cache is the paged KV memory. Its layout is known to this file and attend.go
// alone:
//
//	[block][layer][KV head][unit of 16 positions]{ keys, values }
//
// keys are one tile of 16 positions by HeadDim, values one tile of 16
// dimensions by 16 positions for each 16 dimensions. Keys and values are thus
// what the matrix kernels expect as weights, and P·V needs no transposition.
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

	keys   int // bytes of a unit's keys
	valueT int // bytes of one value tile
	unit   int
	head   int
	layer  int
	block  int
}

// BlockBytes is the size of one KV block of a model of this shape: of all
// layers, keys and values.
func (d *Device) BlockBytes(s model.Shape) (int, error) {
	c, err := cacheLayout(d.cfg.KVType, s)
	return c.block, err
}

func cacheLayout(f Format, s model.Shape) (cache, error) {
	c := cache{format: f, layers: s.Layers, heads: s.KVHeads, headDim: s.HeadDim, blockTokens: s.Spec.BlockTokens}
	c.keys = f.tileBytes(s.HeadDim)
	c.valueT = f.tileBytes(rowsPerTile)
	c.unit = c.keys + (s.HeadDim+rowsPerTile-1)/rowsPerTile*c.valueT
	block, err := product(s.Layers, s.KVHeads, s.Spec.BlockTokens/rowsPerTile, c.unit)
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
	size, err := product(s.Spec.NumBlocks, c.block)
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
		c.format.putRow(unit, i, keys[h*c.headDim:][:c.headDim])
		unit = unit[c.keys:]
		v := values[h*c.headDim:][:c.headDim]
		for ; len(v) > rowsPerTile; v = v[rowsPerTile:] {
			c.format.putColumn(unit, i, v[:rowsPerTile])
			unit = unit[c.valueT:]
		}
		c.format.putColumn(unit, i, v)
	}
}
