//go:build cuda && linux && amd64

package cuda

import (
	"encoding/binary"
	"math"

	"weir/device/cuda/kernels"
	"weir/weights"
)

// Format is how matrices of linear layers are stored on the device. Embeddings
// are BF16 in all of them.
type Format uint8

const (
	BF16  Format = iota // rounded to nearest even where the checkpoint has more
	Q8                  // blocks of 32 columns of a row as 8-bit numbers with a float16 scale
	Q4                  // the same with 4 bits
	MXFP4               // 4-bit floating point E2M1 with powers of two for 32 columns: only of matrices that are stored so
)

// formats has the part of a kernel's name, the size of a tile in bytes, and the greatest
// magnitude that a weight can have.
var formats = [...]struct {
	name    string
	tile    int
	largest float32
}{
	BF16:  {"bf16", kernels.BF16Tile, 0x1.fefffep127}, // beyond it rounding gives infinity
	Q8:    {"q8", kernels.Q8Tile, 127 * 65504},        // float16's greatest, in as many units
	Q4:    {"q4", kernels.Q4Tile, 8 * 65504},
	MXFP4: {"mxfp4", kernels.Q4Tile, math.MaxFloat32}, // nothing is rounded to it
}

func (f Format) String() string { return formats[f].name }

// packers are the kernels that write tiles.
var packers = func() (names [len(formats)]string) {
	for f := range formats {
		names[f] = "pack_" + formats[f].name
	}
	return names
}()

// origin names a matrix by the bytes that it was loaded from and by its format. So a
// tied head uses the memory of the embedding, unless it is quantized.
type origin struct {
	first  *byte
	format Format
}

// within reports whether f can store all numbers in b. It reads words of several numbers
// at once: the signs are masked, and a magnitude beyond the limit, which infinities and
// NaNs have too, carries into the sign.
func (f Format) within(b []byte, d weights.DType) bool {
	ones, limit := uint64(1<<48|1<<32|1<<16|1), uint64(math.Float32bits(formats[f].largest))
	switch d {
	case weights.BF16:
		limit >>= 16
	case weights.F16:
		limit = 0x7bff // the greatest float16, which all formats can store
	case weights.F32:
		ones = 1<<32 | 1
	}
	sign := ones * 0x8000
	if d == weights.F32 {
		sign = ones * 0x80000000
	}
	carry := sign - ones*(limit+1)
	over := uint64(0)
	for ; len(b) >= 8; b = b[8:] {
		over |= binary.LittleEndian.Uint64(b)&^sign + carry
	}
	if len(b) > 0 {
		var rest [8]byte
		copy(rest[:], b)
		over |= binary.LittleEndian.Uint64(rest[:])&^sign + carry
	}
	return over&sign == 0
}
