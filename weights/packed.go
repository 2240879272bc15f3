package weights

// Packed describes a matrix [N, K] whose numbers are codes with scales, as quantised
// checkpoints of Hugging Face have them in several stored tensors:
//
//	w[n, k] = (code[n, k] - zero[n, g]) * scale[n, g]
//
// where g is the group of column k. Tensor.Data holds the codes.
type Packed struct {
	Layout Layout
	Bits   int // of a code
	// GroupRows by GroupColumns numbers share a scale and a zero point. A group ends with the
	// matrix, so both may be larger than it.
	GroupRows, GroupColumns int
	// Order has the group of each column; nil: column k is in group k / GroupColumns.
	Order []int32
	// Scales has a number for each group. Scales that are stored as [groups, N] and not
	// [N, groups] are Transposed. They are float32, float16, bfloat16, F8E4M3 or F8E8M0.
	Scales     Tensor
	Transposed bool
	// Global is one more factor of all scales; 1 if there is none.
	Global float32
	// Zeros holds zero points of groups, in the form that Layout says; without Data, each
	// zero point is Zero.
	Zeros Tensor
	Zero  int32
	// Activations says how the checkpoint wants the rows that the matrix is multiplied with
	// to be rounded. Devices that keep more do better.
	Activations Activations
}

// Layout is how codes and zero points are stored.
type Layout uint8

const (
	// RowCodes: Data is [N, K] of DType I8, F8E4M3 or F8E5M2.
	RowCodes Layout = iota + 1
	// RowPairs: Data is [N, K/2] bytes, column 2j in the lower half and 2j+1 in the upper
	// one, of 4-bit floating point E2M1 (DType F4).
	RowPairs
	// RowWords: Data is int32 [N, ceil(K*Bits/32)], codes of Bits bits without sign, the
	// first column in the lowest bits (compressed-tensors, "pack-quantized").
	RowWords
	// ColumnWords: Data is int32 [K*Bits/32, N], codes of Bits bits of consecutive columns,
	// the first in the lowest bits; zero points int32 [groups, N*Bits/32] (GPTQ).
	ColumnWords
	// AWQWords: Data is int32 [K, N/8], codes of 4 bits of 8 consecutive rows in the order
	// 0 2 4 6 1 3 5 7, the first in the lowest bits; zero points [groups, N/8] likewise (AWQ).
	AWQWords
)

// Activations is how a checkpoint wants rows of activations to be rounded.
type Activations struct {
	Type    DType // I8 or F8E4M3; Invalid: not at all
	Dynamic bool  // the scale is that of the row; else it is Scale
	Scale   float32
}
