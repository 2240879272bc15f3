package weights

import "fmt"

// DType is the element type of a stored tensor.
type DType uint8

// The first three are what models compute with. The others may be in
// a checkpoint too; who needs a tensor of such a type refuses it by its name.
const (
	Invalid DType = iota
	F32           // IEEE 754 binary32
	F16           // IEEE 754 binary16
	BF16          // the upper half of a binary32
	F64
	F8E4M3
	F8E5M2
	F8E8M0
	F6E2M3
	F6E3M2
	F4
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	Bool
	C64
)

// dtypes holds the names and widths of the safetensors format (its reference
// implementation, safetensors/src/tensor.rs, enum Dtype).
var dtypes = [...]struct {
	stored string // in a file's header
	name   string // in messages
	bits   uint64
}{
	Invalid: {"", "invalid", 0},
	F32:     {"F32", "float32", 32},
	F16:     {"F16", "float16", 16},
	BF16:    {"BF16", "bfloat16", 16},
	F64:     {"F64", "float64", 64},
	F8E4M3:  {"F8_E4M3", "float8_e4m3", 8},
	F8E5M2:  {"F8_E5M2", "float8_e5m2", 8},
	F8E8M0:  {"F8_E8M0", "float8_e8m0", 8},
	F6E2M3:  {"F6_E2M3", "float6_e2m3", 6},
	F6E3M2:  {"F6_E3M2", "float6_e3m2", 6},
	F4:      {"F4", "float4", 4},
	I8:      {"I8", "int8", 8},
	I16:     {"I16", "int16", 16},
	I32:     {"I32", "int32", 32},
	I64:     {"I64", "int64", 64},
	U8:      {"U8", "uint8", 8},
	U16:     {"U16", "uint16", 16},
	U32:     {"U32", "uint32", 32},
	U64:     {"U64", "uint64", 64},
	Bool:    {"BOOL", "bool", 8},
	C64:     {"C64", "complex64", 64},
}

// Size is the size of one element in bytes; 0 for elements smaller than a byte, and for types
// of blocks.
func (d DType) Size() int {
	if int(d) < len(dtypes) {
		return int(dtypes[d].bits / 8)
	}
	return 0
}

func (d DType) String() string {
	if d.Blocked() {
		return blockTypes[d-firstBlocked].name
	}
	return dtypes[d].name
}

func parseDType(stored string) DType {
	for d := Invalid + 1; int(d) < len(dtypes); d++ {
		if dtypes[d].stored == stored {
			return d
		}
	}
	return Invalid
}

// Tensor is one tensor, row-major, little-endian. Data usually points
// into a mapped file: it is read-only, starts at any address, aligned or not,
// and lives until the checkpoint is closed.
type Tensor struct {
	Name  string
	DType DType // of the numbers in Data, or of the codes if there is Packed
	Shape []int // of the numbers that the tensor stands for
	Data  []byte
	File  *File // that Data is a part of; nil if it is in memory
	// Packed says what else the numbers of a quantized matrix are made of; nil: nothing.
	Packed *Packed
	// Pairs is the head size K if the rows of each head take turns, as GGUF files of the
	// llama architectures store queries and keys: row h*K + j*K/2 + i of the tensor, j in
	// {0, 1}, is stored as row h*K + 2*i + j. 0: the rows are stored in their order.
	Pairs int
}

// StoredRow is the place of row r in Data.
func (t *Tensor) StoredRow(r int) int {
	if t.Pairs == 0 {
		return r
	}
	head, half := r/t.Pairs*t.Pairs, t.Pairs/2
	return head + r%t.Pairs%half*2 + r%t.Pairs/half
}

// Len is the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the size of all that t is stored in.
func (t *Tensor) Bytes() int64 {
	n := int64(len(t.Data))
	if p := t.Packed; p != nil {
		n += int64(len(p.Scales.Data)) + int64(len(p.Zeros.Data)) + 4*int64(len(p.Order))
	}
	return n
}

// CheckSize checks that Data has as many bytes as the type and the shape need, and that
// everything which Packed says is of one piece with it.
func (t *Tensor) CheckSize() error {
	if t.Packed != nil {
		return t.checkPacked()
	}
	size := t.Len() * t.DType.Size()
	if t.DType.Blocked() && len(t.Shape) > 0 {
		columns := t.Shape[len(t.Shape)-1]
		if per, _ := t.DType.Block(); columns%per != 0 {
			return fmt.Errorf("tensor %.200q of %v has rows of %d numbers, but %v stores blocks of %d", t.Name, t.Shape, columns, t.DType, per)
		}
		size = t.Len() / max(columns, 1) * t.DType.RowBytes(columns)
	}
	if size != len(t.Data) {
		return fmt.Errorf("tensor %.200q is %v of shape %d and should have %d bytes, but has %d", t.Name, t.DType, t.Shape, size, len(t.Data))
	}
	return nil
}
