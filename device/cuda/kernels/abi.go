package kernels

// Type is the type of a kernel's parameter. All but TMap fit 8 bytes.
type Type uint8

const (
	Ptr  Type = iota // device address
	I32              // int32
	I64              // int64
	F32              // float32
	TMap             // CUtensorMap, 128 bytes by value: needs cuLaunchKernelEx's raw parameters
)

// Param is one parameter, in the order of the launch.
type Param struct {
	Name string
	Type Type
}

// Flavour is a PTX module: what it was compiled for.
type Flavour uint8

const (
	SM80  Flavour = iota // every GPU from Ampere on
	SM90a                // Hopper alone: wgmma and TMA; loaded beside SM80
)

// String is the architecture's name.
func (f Flavour) String() string {
	if f == SM90a {
		return "sm_90a"
	}
	return "sm_80"
}

// Entry is one kernel.
type Entry struct {
	Name    string
	Flavour Flavour
	Threads int // per block, in x
	Shared  int // dynamic shared memory in bytes; above 48 KiB the host must raise the limit first
	Params  []Param
	Grid    string // blocks in x, y, z; T is tokens (rows), R drawn rows, cdiv rounds up
	Doc     string
}

func ptr(n string) Param  { return Param{n, Ptr} }
func i32(n string) Param  { return Param{n, I32} }
func i64(n string) Param  { return Param{n, I64} }
func f32(n string) Param  { return Param{n, F32} }
func tmap(n string) Param { return Param{n, TMap} }

// Constants of the layouts.
const (
	Tile       = 64          // rows and columns of a weight tile
	BF16Tile   = 64 * 64 * 2 // bytes
	Q8Tile     = 64*64 + 64*2*2
	Q4Tile     = 64*64/2 + 64*2*2
	PartTokens = 512  // positions of a partial result of attention
	QueryRows  = 64   // rows (tokens by heads of a group) of a tile of attn_prefill_*
	GroupRows  = 16   // heads of a group that a block of attn_decode_* takes
	MaxTop     = 1024 // most top tokens of a row that pick reports; the host picks rows that want more
)

// KVRow is the number of elements between rows of the KV cache.
func KVRow(headDim int) int { return cdiv(headDim, 8) * 8 }

// KVBlock is the number of elements of one layer's block, keys and values.
func KVBlock(kvHeads, keyDim, valueDim, blockTokens int) int {
	return kvHeads * blockTokens * (KVRow(keyDim) + KVRow(valueDim))
}

func cdiv(a, b int) int { return (a + b - 1) / b }

// Splits is the number of ranges that K is cut into for a matrix [n, k], and
// how many tiles of 64 columns each has (the last may have fewer). It depends on
// nothing else, least of all on the number of rows: it is part of the numbers.
// Few-row products put each range on blocks of its own: with 132 processors
// two blocks each keep the memory busy.
func Splits(n, k int) (splits, tiles int) {
	const blocks, least = 264, 4 // blocks wanted; fewest tiles of a range
	kt := cdiv(k, Tile)
	want := min(8, cdiv(blocks, cdiv(n, Tile)), max(1, kt/least))
	tiles = cdiv(kt, want)
	return cdiv(kt, tiles), tiles
}

// What a gemm does with its sums (parameter epilogue). v is the sum plus bias.
const (
	StoreBF16 = 0 // y bf16 [T, ldy] = v
	StoreF32  = 1 // y float32 [T, ldy] = v (logits)
	AddF32    = 2 // y float32 [T, ldy] += v (the residual stream)
	SwiGLU    = 3 // y bf16 [T, ldy], N/2 wide: silu(gate)*up; the matrix was packed with interleave 1 and has no bias
)

// What rope_kv does to heads (parameter how).
const (
	NormQ        = 1 << iota // norm the heads of queries
	NormK                    // of keys
	NormV                    // of values
	NormCentered             // without their mean
	NormAfter                // after the rotation
	NormPerHead              // with weights for each head, [heads*headDim]
	RopePairs                // dimensions 2i and 2i + 1 turn together
)

// GemmRows are the token tiles of the few-row products: entry gemm_*_n<rows>.
var GemmRows = []int{8, 16, 32, 64}

// WideRows and WideCols are the tile of gemm_*_128: tokens by weight rows.
const WideRows, WideCols = 128, 128

// GemmWork is the bytes of float32 partial sums that gemm_*_n<tile> needs for
// rows tokens, and GemmCounters its number of uint32 counters. Counters must be
// zero before the first launch; every launch leaves them zero. Kernels of one
// stream may share both.
func GemmWork(rows, tile, n, k int) int {
	splits, _ := Splits(n, k)
	if splits == 1 {
		return 0
	}
	return splits * cdiv(rows, tile) * tile * cdiv(n, Tile) * Tile * 4
}

// GemmCounters is the number of counters; see GemmWork.
func GemmCounters(rows, tile, n int) int { return cdiv(n, Tile) * cdiv(rows, tile) }

// A PickResult is what pick says about a row. Logprobs follow from it: that of
// a token with z is (z - ZMax) - ln(Mass/2^40), see package sampler. Z, ZMax and
// Mass are meant only where the row asks for log-probabilities.
type PickResult struct {
	Token int32   // -1 where nothing could be drawn or the row is dead
	Rank  int32   // 1 + the number of tokens of the distribution with a greater z
	Z     float32 // the token's, -Inf outside of the distribution
	ZMax  float32 // the greatest
	Mass  uint64  // the sum of weights
}

// A PickTop is one of a row's best tokens; -Inf and -1 where fewer exist.
type PickTop struct {
	Z     float32
	Token int32
}

// An AttnTile is the work of a block of attn_prefill_*: Tokens consecutive
// tokens of one sequence, at most QueryRows/group of them.
type AttnTile struct {
	Token, Tokens int32 // in the step
	Table         int32 // first entry of the sequence's block table in tables
	_             int32
}

// An AttnItem is the work of a block of attn_whole_* or attn_decode_*: one partial
// result of one token.
type AttnItem struct {
	Token int32
	Table int32 // first entry of the sequence's block table in tables
	Part  int32 // positions [512*Part, 512*Part+512)
	Slot  int32 // where the result goes in parts
}

// An AttnMerge is a token whose partial results attn_merge adds up: Slots
// consecutive ones, in the order of positions, from Slot on.
type AttnMerge struct {
	Token, Slot, Slots int32
	_                  int32
}

// PartFloats is the number of float32 in one slot of parts, for values of headDim.
func PartFloats(heads, headDim int) int { return heads * (headDim + 2) }
