package weights

// The types whose numbers are stored in blocks, as GGUF files have them. A row of a matrix is
// a sequence of whole blocks; a block holds the codes of some consecutive columns and what
// scales them. The names are those of ggml.
const (
	Q4_0 DType = firstBlocked + iota
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ1_S
	IQ1_M
	IQ2_XXS
	IQ2_XS
	IQ2_S
	IQ3_XXS
	IQ3_S
	IQ4_NL
	IQ4_XS
	TQ1_0
	TQ2_0
	MXFP4
	NVFP4
	Q1_0
	Q2_0
)

const firstBlocked = C64 + 1

// blockTypes has the columns and the bytes of a block (ggml, ggml-common.h), and what converts
// one; nil: there is no matrix of this type. Q8_1 and Q8_K are what ggml rounds activations to.
var blockTypes = [...]struct {
	name           string
	columns, bytes int
	widen          func(y []float32, b []byte)
}{
	Q4_0 - firstBlocked:    {"Q4_0", 32, 18, widenQ4_0},
	Q4_1 - firstBlocked:    {"Q4_1", 32, 20, widenQ4_1},
	Q5_0 - firstBlocked:    {"Q5_0", 32, 22, widenQ5_0},
	Q5_1 - firstBlocked:    {"Q5_1", 32, 24, widenQ5_1},
	Q8_0 - firstBlocked:    {"Q8_0", 32, 34, widenQ8_0},
	Q8_1 - firstBlocked:    {"Q8_1", 32, 36, nil},
	Q2_K - firstBlocked:    {"Q2_K", 256, 84, widenQ2_K},
	Q3_K - firstBlocked:    {"Q3_K", 256, 110, widenQ3_K},
	Q4_K - firstBlocked:    {"Q4_K", 256, 144, widenQ4_K},
	Q5_K - firstBlocked:    {"Q5_K", 256, 176, widenQ5_K},
	Q6_K - firstBlocked:    {"Q6_K", 256, 210, widenQ6_K},
	Q8_K - firstBlocked:    {"Q8_K", 256, 292, nil},
	IQ1_S - firstBlocked:   {"IQ1_S", 256, 50, widenIQ1_S},
	IQ1_M - firstBlocked:   {"IQ1_M", 256, 56, widenIQ1_M},
	IQ2_XXS - firstBlocked: {"IQ2_XXS", 256, 66, widenIQ2_XXS},
	IQ2_XS - firstBlocked:  {"IQ2_XS", 256, 74, widenIQ2_XS},
	IQ2_S - firstBlocked:   {"IQ2_S", 256, 82, widenIQ2_S},
	IQ3_XXS - firstBlocked: {"IQ3_XXS", 256, 98, widenIQ3_XXS},
	IQ3_S - firstBlocked:   {"IQ3_S", 256, 110, widenIQ3_S},
	IQ4_NL - firstBlocked:  {"IQ4_NL", 32, 18, widenIQ4_NL},
	IQ4_XS - firstBlocked:  {"IQ4_XS", 256, 136, widenIQ4_XS},
	TQ1_0 - firstBlocked:   {"TQ1_0", 256, 54, widenTQ1_0},
	TQ2_0 - firstBlocked:   {"TQ2_0", 256, 66, widenTQ2_0},
	MXFP4 - firstBlocked:   {"MXFP4", 32, 17, widenMXFP4},
	NVFP4 - firstBlocked:   {"NVFP4", 64, 36, widenNVFP4},
	Q1_0 - firstBlocked:    {"Q1_0", 128, 18, widenQ1_0},
	Q2_0 - firstBlocked:    {"Q2_0", 64, 18, widenQ2_0},
}

// Blocked reports whether d stores blocks of several numbers.
func (d DType) Blocked() bool { return d >= firstBlocked && int(d-firstBlocked) < len(blockTypes) }

// Block is how many consecutive columns a block of d holds, and its bytes: one number, and its
// size, where d has no blocks.
func (d DType) Block() (columns, bytes int) {
	if d.Blocked() {
		b := blockTypes[d-firstBlocked]
		return b.columns, b.bytes
	}
	return 1, d.Size()
}

// RowBytes is the size of a row of so many columns, which are whole blocks.
func (d DType) RowBytes(columns int) int {
	per, bytes := d.Block()
	return columns / per * bytes
}
