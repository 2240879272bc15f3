package weights

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

// Size is the size of one element in bytes; 0 for elements smaller than a byte.
func (d DType) Size() int { return int(dtypes[d].bits / 8) }

func (d DType) String() string { return dtypes[d].name }

func parseDType(stored string) DType {
	for d := Invalid + 1; int(d) < len(dtypes); d++ {
		if dtypes[d].stored == stored {
			return d
		}
	}
	return Invalid
}

// Tensor is one stored tensor, row-major, little-endian. Data usually points
// into a mapped file: it is read-only, starts at any address, aligned or not,
// and lives until the checkpoint is closed.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte
	File  *File // that Data is a part of; nil if it is in memory
}

// Len is the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}
