// Package weights reads checkpoints: Hugging Face safetensors, one file or a
// sharded index, mapped into memory. It knows names, shapes and bytes, and
// nothing about architectures.
package weights

// DType is the element type of a stored tensor.
type DType uint8

const (
	Invalid DType = iota
	F32           // IEEE 754 binary32
	F16           // IEEE 754 binary16
	BF16          // the upper half of a binary32
)

// Size is the size of one element in bytes.
func (d DType) Size() int {
	switch d {
	case F32:
		return 4
	case F16, BF16:
		return 2
	}
	return 0
}

func (d DType) String() string {
	switch d {
	case F32:
		return "float32"
	case F16:
		return "float16"
	case BF16:
		return "bfloat16"
	}
	return "invalid"
}

// Tensor is one stored tensor, row-major, little-endian. Data usually points
// into a mapped file: it is read-only and lives until the checkpoint is closed.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte
}

// Len is the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}
