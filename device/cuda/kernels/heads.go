package kernels

import "fmt"

// HeadSize is a size of heads that attention is compiled for: attn_*_x<KeyDim>.
type HeadSize struct {
	KeyDim, ValueDim int // the most dimensions, of queries and keys and of values
	Keys             int // positions of a tile
	Rows             int // of queries in a tile of attn_prefill_x*
}

// HeadSizes are those of src/attnx.cu, in ascending order.
var HeadSizes = []HeadSize{{64, 64, 64, 64}, {128, 128, 32, 64}, {192, 128, 32, 64}, {256, 256, 32, 64}, {576, 512, 16, 16}}

// SizeOf is the smallest size that heads fit, or nil.
func SizeOf(keyDim, valueDim int) *HeadSize {
	for i := range HeadSizes {
		if s := &HeadSizes[i]; keyDim <= s.KeyDim && valueDim <= s.ValueDim {
			return s
		}
	}
	return nil
}

// threads of attn_prefill_x*: a warp has 16 rows and up to 128 dimensions of values.
func (s *HeadSize) threads() int { return s.Rows / 16 * max(1, s.ValueDim/128) * 32 }

// stages are the bytes of two tiles of keys and values.
func (s *HeadSize) stages() int { return 2 * s.Keys * (s.KeyDim + s.ValueDim) * 2 }

// TileTokens is the number of tokens of a tile of attn_prefill_*, for heads of these sizes of which
// group share a KV head. A size that there is no kernel for has none.
func TileTokens(keyDim, valueDim, group int) int {
	s := SizeOf(keyDim, valueDim)
	if s == nil {
		return 0
	}
	return max(1, s.Rows/group)
}

// layerParams are a layer's attention: model.Attention and the sizes of its heads.
var layerParams = []Param{
	i32("heads"), i32("kvHeads"), i32("keyDim"), i32("valueDim"), i32("window"), i32("chunk"), f32("scale"), f32("cap"), ptr("sinks"),
}

func params(groups ...[]Param) (list []Param) {
	for _, g := range groups {
		list = append(list, g...)
	}
	return list
}

// headEntries are the kernels of src/attnx.cu and src/ropex.cu.
func headEntries() []Entry {
	list := []Entry{
		{
			Name: "rope_kv_x", Threads: 128, Grid: "T, cdiv(heads + 2*kvHeads, 4) (any smaller y works, more slowly)",
			Params: []Param{
				ptr("q"), ptr("k"), ptr("v"), ptr("kv"), ptr("rope"), ptr("pos"), ptr("slots"), ptr("qw"), ptr("kw"), ptr("vw"),
				i32("heads"), i32("kvHeads"), i32("keyDim"), i32("valueDim"), i32("half"), i32("offset"), i32("ldq"), i32("ldk"), i32("ldv"),
				i32("blockTokens"), i64("blockStride"), i32("how"), f32("qeps"), f32("keps"), f32("veps"), f32("beta"), f32("by"), i32("shift"),
			},
			Doc: "rope_kv for heads of up to 576 dimensions, values of valueDim, and row strides of q, k and v by themselves. With kvHeads 0 only q is changed, and kv is not used. " +
				"Queries are multiplied, last, by 1 + beta*ln(1 + floor((pos+shift)/by)), if beta is not 0.",
		},
		{
			Name: "attn_merge_x", Threads: 256, Grid: "most merges, heads",
			Params: params([]Param{ptr("out"), ptr("parts"), ptr("merges"), ptr("count"), ptr("pos"), i32("ldo")}, layerParams),
			Doc:    "attn_merge after attn_decode_x*. The last slots of a token count, those from the first part on that window and chunk touch.",
		},
	}
	decode := params([]Param{ptr("parts"), ptr("q"), ptr("kv"), ptr("items"), ptr("count"), ptr("tables"), ptr("pos"), i32("ldq"), i32("blockTokens"), i64("blockStride")}, layerParams)
	for i := range HeadSizes {
		s := &HeadSizes[i]
		single := 16*s.KeyDim*2 + s.stages() + 16*(s.Keys+4)*4
		list = append(list,
			Entry{
				Name: fmt.Sprintf("attn_prefill_x%d", s.KeyDim), Threads: s.threads(), Shared: s.Rows*s.KeyDim*2 + s.stages(), Grid: fmt.Sprintf("tiles, kvHeads, cdiv(heads/kvHeads, %d)", s.Rows),
				Params: params([]Param{ptr("out"), ptr("q"), ptr("kv"), ptr("tiles"), ptr("tables"), ptr("pos"), i32("ldo"), i32("ldq"), i32("blockTokens"), i64("blockStride")}, layerParams),
				Doc: fmt.Sprintf("attn_prefill_* for keyDim <= %d and valueDim <= %d (even), any number of heads per KV head: a tile has at most %d tokens by heads, or one token. "+
					"A token sees the window positions up to its own (0: all), of these only those from pos/chunk*chunk on (0: all). Scores become cap*tanh(scale*score/cap) (0: scale*score). "+
					"sinks float32 [heads] or null: scores of a position without a value.", s.KeyDim, s.ValueDim, s.Rows),
			},
			Entry{
				Name: fmt.Sprintf("attn_decode_x%d", s.KeyDim), Threads: 128, Shared: single, Grid: "most items, kvHeads, cdiv(heads/kvHeads, 16)", Params: decode,
				Doc: fmt.Sprintf("attn_decode_* for the layers of attn_prefill_x%d. parts float32 [slot][heads][valueDim+2]. Items are listed by the window; those before a token's chunk write nothing.", s.KeyDim),
			},
			Entry{
				Name: fmt.Sprintf("attn_whole_x%d", s.KeyDim), Threads: 128, Shared: single, Grid: "most items, kvHeads, cdiv(heads/kvHeads, 16)",
				Params: params([]Param{ptr("out"), i32("ldo"), ptr("counters")}, decode),
				Doc:    "attn_decode_x and attn_merge_x in one, as attn_whole_* is, with the same bits.",
			})
	}
	return list
}
