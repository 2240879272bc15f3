package cpu

import "encoding/binary"

// turned has the values of a partial result, where the cache has them as the first columns of keys. The tiles of
// keys and values have different directions, so that neither product needs a transposition; of a latent, which
// is both, the cache would hold two copies. Instead the tiles of keys are turned into tiles of values once for
// each run of queries and partial result: with latent attention all heads of a query share them. The
// kernels and the numbers are the same as if values were stored, and so is every bit of a result.
type turned struct {
	data []byte
	unit int   // bytes of the values of 16 positions
	at   []int // [partUnits] where units are
}

// newTurned makes room for any of the caches, and reports whether keys of one have two parts.
func newTurned(mem *arena, caches []cache) (t turned, parts bool, err error) {
	size := 0
	for i := range caches {
		c := &caches[i]
		parts = parts || c.more > 0
		if c.inKey {
			size = max(size, partUnits*c.turnedUnit())
		}
	}
	if size == 0 {
		return t, parts, nil
	}
	t.at = make([]int, partUnits)
	t.data, err = mem.bytes(size)
	return t, parts, err
}

// turnedUnit is the size of the values of 16 positions.
func (c *cache) turnedUnit() int { return c.valueColumns() / rowsPerTile * c.valueT }

// fill turns units [u0, u1) of a head's keys, which start at offs.
func (t *turned) fill(im *impl, c *cache, head int, offs []int, u0, u1 int) {
	if unit := c.turnedUnit(); unit != t.unit {
		t.unit = unit
		for u := range t.at {
			t.at[u] = u * unit
		}
	}
	keys := c.format.tileBytes(c.columns) // a tile of values takes as much as 16 columns of keys
	whole := min(keys/c.valueT*c.valueT, t.unit)
	for u := u0; u < u1; u++ {
		from, to := c.data[c.at(head)+offs[u]:][:keys], t.data[t.at[u]:][:t.unit]
		if f := im.turn[c.format]; f != nil {
			f(to[:whole], from[:whole], c.bias)
		} else {
			for i := 0; i < whole; i += c.valueT {
				c.format.turn(to[i:][:c.valueT], from[i:][:c.valueT], c.bias)
			}
		}
		if whole < t.unit {
			var last [rowsPerTile * rowsPerTile * 4]byte
			copy(last[:], from[whole:])
			c.format.turn(to[whole:], last[:c.valueT], c.bias)
		}
	}
}

// turn makes a tile of values of 16 columns of keys. bias is what was added to keys of Int8.
func (f Format) turn(to, from []byte, bias byte) {
	switch f {
	case BF16:
		turnPairs((*[512]byte)(to), (*[512]byte)(from))
	case F16:
		turnHalves((*[512]byte)(to), (*[512]byte)(from))
	case Int8:
		turnBytes((*[256]byte)(to), (*[256]byte)(from), bias)
	default:
		turnWords((*[1024]byte)(to), (*[1024]byte)(from))
	}
}

// turnPairs moves two columns of two positions at once, whose middle ones change places.
func turnPairs(to, from *[512]byte) {
	for d := range 8 {
		for p := range 8 {
			x := binary.LittleEndian.Uint64(from[d*64+p*8:])
			binary.LittleEndian.PutUint64(to[p*64+d*8:], swapMiddle(x))
		}
	}
}

// swapMiddle lets the two halves of 16 bits in the middle change places.
func swapMiddle(x uint64) uint64 {
	const low, high = 0x0000_0000_ffff_0000, 0x0000_ffff_0000_0000
	return x&^(low|high) | x>>16&low | x<<16&high
}

// turnHalves turns four columns of four positions at once.
func turnHalves(to, from *[512]byte) {
	const even = 0x0000_ffff_0000_ffff
	for d := 0; d < rowsPerTile; d += 4 {
		for p := 0; p < rowsPerTile; p += 4 {
			var x [4]uint64
			for i := range x {
				x[i] = binary.LittleEndian.Uint64(from[(d+i)*32+p*2:])
			}
			// Pairs of columns, of the even and of the odd positions.
			a0, a1 := x[0]&even|x[1]&even<<16, x[0]>>16&even|x[1]&^even
			b0, b1 := x[2]&even|x[3]&even<<16, x[2]>>16&even|x[3]&^even
			x[0], x[2] = a0&0xffff_ffff|b0<<32, a0>>32|b0&^0xffff_ffff
			x[1], x[3] = a1&0xffff_ffff|b1<<32, a1>>32|b1&^0xffff_ffff
			for i, v := range x {
				binary.LittleEndian.PutUint64(to[(p+i)*32+d*2:], v)
			}
		}
	}
}

// turnBytes turns four columns of four positions at once.
func turnBytes(to, from *[256]byte, bias byte) {
	flip := uint64(bias) * 0x0101_0101_0101_0101 // the bias is the highest bit: to take it away is to flip it
	for d := range 4 {
		for p := range 4 {
			// Of two positions, pairs of bytes with the same column.
			a := zip(binary.LittleEndian.Uint64(from[d*64+p*16:]) ^ flip)
			b := zip(binary.LittleEndian.Uint64(from[d*64+p*16+8:]) ^ flip)
			binary.LittleEndian.PutUint64(to[p*64+d*16:], swapMiddle(a&0xffff_ffff|b<<32))
			binary.LittleEndian.PutUint64(to[p*64+d*16+8:], swapMiddle(a>>32|b&^0xffff_ffff))
		}
	}
}

// zip mixes the bytes of the lower and of the upper half.
func zip(x uint64) uint64 {
	const low, high = 0x0000_ff00_0000_ff00, 0x00ff_0000_00ff_0000
	x = swapMiddle(x)
	return x&^(low|high) | x>>8&low | x<<8&high
}

// turnWords turns two columns of two positions at once.
func turnWords(to, from *[1024]byte) {
	for d := 0; d < rowsPerTile; d += 2 {
		for p := 0; p < rowsPerTile; p += 2 {
			a := binary.LittleEndian.Uint64(from[d*64+p*4:])
			b := binary.LittleEndian.Uint64(from[(d+1)*64+p*4:])
			binary.LittleEndian.PutUint64(to[p*64+d*4:], a&0xffff_ffff|b<<32)
			binary.LittleEndian.PutUint64(to[(p+1)*64+d*4:], a>>32|b&^0xffff_ffff)
		}
	}
}
