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
)

const firstBlocked = C64 + 1

// blockTypes has the columns and the bytes of a block (ggml, ggml-common.h).
var blockTypes = [...]struct {
	name           string
	columns, bytes int
}{
	Q4_0 - firstBlocked:    {"Q4_0", 32, 18},
	Q4_1 - firstBlocked:    {"Q4_1", 32, 20},
	Q5_0 - firstBlocked:    {"Q5_0", 32, 22},
	Q5_1 - firstBlocked:    {"Q5_1", 32, 24},
	Q8_0 - firstBlocked:    {"Q8_0", 32, 34},
	Q8_1 - firstBlocked:    {"Q8_1", 32, 36},
	Q2_K - firstBlocked:    {"Q2_K", 256, 84},
	Q3_K - firstBlocked:    {"Q3_K", 256, 110},
	Q4_K - firstBlocked:    {"Q4_K", 256, 144},
	Q5_K - firstBlocked:    {"Q5_K", 256, 176},
	Q6_K - firstBlocked:    {"Q6_K", 256, 210},
	Q8_K - firstBlocked:    {"Q8_K", 256, 292},
	IQ1_S - firstBlocked:   {"IQ1_S", 256, 50},
	IQ1_M - firstBlocked:   {"IQ1_M", 256, 56},
	IQ2_XXS - firstBlocked: {"IQ2_XXS", 256, 66},
	IQ2_XS - firstBlocked:  {"IQ2_XS", 256, 74},
	IQ2_S - firstBlocked:   {"IQ2_S", 256, 82},
	IQ3_XXS - firstBlocked: {"IQ3_XXS", 256, 98},
	IQ3_S - firstBlocked:   {"IQ3_S", 256, 110},
	IQ4_NL - firstBlocked:  {"IQ4_NL", 32, 18},
	IQ4_XS - firstBlocked:  {"IQ4_XS", 256, 136},
	TQ1_0 - firstBlocked:   {"TQ1_0", 256, 54},
	TQ2_0 - firstBlocked:   {"TQ2_0", 256, 66},
	MXFP4 - firstBlocked:   {"MXFP4", 32, 17},
	NVFP4 - firstBlocked:   {"NVFP4", 64, 36},
	Q1_0 - firstBlocked:    {"Q1_0", 128, 18},
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
