package kernels

import "fmt"

var attnParams = []Param{
	ptr("out"), ptr("q"), ptr("kv"), ptr("tiles"), ptr("tables"), ptr("pos"),
	i32("ldo"), i32("ldq"), i32("heads"), i32("kvHeads"), i32("headDim"),
	i32("blockTokens"), i64("blockStride"), f32("scale"), i32("window"),
}

var decodeParams = []Param{
	ptr("parts"), ptr("q"), ptr("kv"), ptr("items"), ptr("count"), ptr("tables"), ptr("pos"),
	i32("ldq"), i32("heads"), i32("kvHeads"), i32("headDim"),
	i32("blockTokens"), i64("blockStride"), f32("scale"), i32("window"),
}

// actParams are an activation: model.Activation.
var actParams = []Param{i32("kind"), f32("alpha"), f32("beta"), f32("limit"), f32("plus")}

var packParams = []Param{ptr("w"), ptr("src"), i32("rows"), i32("k"), i32("row0"), i32("n"), i32("dtype"), i32("interleave"), i32("part")}

var gemmParams = []Param{
	ptr("y"), ptr("x"), ptr("w"), ptr("bias"), ptr("work"), ptr("counters"),
	i32("rows"), i32("n"), i32("k"), i32("ldx"), i32("ldy"),
	i32("splits"), i32("tiles"), i32("epilogue"),
}

var hopperParams = []Param{
	tmap("x"), ptr("y"), ptr("w"), ptr("bias"), ptr("work"), ptr("counters"),
	i32("rows"), i32("n"), i32("k"), i32("ldy"), i32("splits"), i32("tiles"), i32("epilogue"),
}

// Entries is the launch table.
var Entries = entries()

// Find returns the entry of a name; it panics if there is none.
func Find(name string) *Entry {
	for i := range Entries {
		if Entries[i].Name == name {
			return &Entries[i]
		}
	}
	panic(fmt.Sprintf("kernels: no entry %q", name))
}

// embedBlocks is embed for tiles of blocks.
func embedBlocks(name string) Entry {
	return Entry{
		Name: name, Threads: 128, Grid: "T",
		Params: []Param{ptr("x"), ptr("w"), ptr("tokens"), ptr("drawn"), i32("dim"), i32("ldx"), i32("vocab")},
		Doc:    "embed from tiles of the format that the name ends with; columns behind dim are not written.",
	}
}

func entries() []Entry {
	list := []Entry{
		{
			Name: "embed", Threads: 128, Grid: "T",
			Params: []Param{ptr("x"), ptr("w"), ptr("tokens"), ptr("drawn"), i32("dim"), i32("ldx"), i32("vocab")},
			Doc: "x float32 [T, ldx] = row tokens[t] of w, bf16 tiles of [vocab, dim]. A token ^r is drawn[r], the tokens of the " +
				"previous step (row 0 where nothing could be drawn or where it is out of range).",
		},
		embedBlocks("embed_q8"),
		embedBlocks("embed_q4"),
		{
			Name: "rmsnorm", Threads: 512, Grid: "T",
			Params: []Param{ptr("y"), ptr("x"), ptr("w"), i32("dim"), i32("ldx"), i32("ldy"), f32("eps")},
			Doc:    "y bf16 [T, ldy] = x/sqrt(mean(x²)+eps)*w; x float32 [T, ldx], w float32 [dim].",
		},
		{
			Name: "add", Threads: 256, Grid: "T",
			Params: []Param{ptr("x"), ptr("h"), i32("dim"), i32("ldx"), i32("ldh")},
			Doc:    "x float32 [T, ldx] += h bf16 [T, ldh].",
		},
		{
			Name: "norm_heads", Threads: 128, Grid: "T, cdiv(heads, 4)",
			Params: []Param{ptr("y"), ptr("x"), ptr("w"), i32("heads"), i32("headDim"), i32("ldx"), i32("ldy"), f32("eps")},
			Doc:    "RMSNorm of each head: y, x bf16 [T, heads*headDim], w float32 [headDim]. y may be x.",
		},
		{
			Name: "rope_kv", Threads: 128, Grid: "T, cdiv(heads + 2*kvHeads, 4) (any smaller y works, more slowly)",
			Params: []Param{
				ptr("q"), ptr("k"), ptr("v"), ptr("kv"), ptr("rope"), ptr("pos"), ptr("slots"), ptr("qw"), ptr("kw"), ptr("vw"),
				i32("heads"), i32("kvHeads"), i32("headDim"), i32("half"), i32("offset"), i32("ld"), i32("blockTokens"), i64("blockStride"),
				i32("how"), f32("qeps"), f32("keps"), f32("veps"),
			},
			Doc: "how has bits: NormQ and so on. q is normed by qw (float32 [headDim], or null: 1) and rotated in place; k is normed by kw, rotated and written, with v, " +
				"to the tokens' slots of the layer's cache kv; the buffers of k and v stay as they are. q, k, v are bf16 views of row stride ld. " +
				"rope is float32 [positions, half, 2]: cos and sin of position times frequency, scaled; dimension i < half, counted from offset, turns with i + half, or 2i with 2i + 1. " +
				"pos, slots int32 [T]. A negative slot writes nothing (rows that pad a batch).",
		},
		{
			Name: "silu_gate", Threads: 256, Grid: "T, cdiv(width, 2048)",
			Params: []Param{ptr("y"), ptr("gu"), i32("width"), i32("ldg"), i32("ldy")},
			Doc:    "y bf16 [T, width] = silu(gate)*up, with gu bf16 [gate | up], 2*width wide.",
		},
		{
			Name: "elements", Threads: 256, Grid: "T, cdiv(width, 1024)",
			Params: append([]Param{ptr("y"), ptr("x"), ptr("g"), i32("op"), i32("width"), i32("per"), i32("ldy"), i32("ldx"), i32("ldg"), i32("types"), f32("scale")}, actParams...),
			Doc: "y [T, width] = act(x) (op 0), x*act(g) (1), y + scale*x (2), scale*x (3) or limit*tanh(scale*x/limit) (4). A number of g is for per columns. " +
				"Rows are bf16, or float32 where types has the bit 1 for y, 2 for x, 4 for g. kind is model.ActivationKind. y may be x or g.",
		},
		{
			Name: "act_gate", Threads: 256, Grid: "T, cdiv(width, 1024)",
			Params: append([]Param{ptr("y"), ptr("gu"), i32("width"), i32("ldg"), i32("ldy"), i32("apart")}, actParams...),
			Doc:    "y bf16 [T, width] = act(gate)*(up+plus), bounded by limit first, as model.Activation says. up is apart columns behind gate; with apart 0, gu has 32 columns of the one and 32 of the other in turns.",
		},
		{
			Name: "norm_rows", Threads: 256, Grid: "T, groups",
			Params: append([]Param{ptr("y"), ptr("x"), ptr("g"), ptr("w"), ptr("b"), i32("size"), i32("each"), i32("ldy"), i32("ldx"), i32("ldg"), i32("types"), i32("center"), i32("first"), f32("eps")}, actParams...),
			Doc: "y [T, groups*size] = x normed in groups of size columns, minus the mean first with center; w and b are float32 or null, [size], or [groups*size] with each. " +
				"g, if it is not null, multiplies by act(g), before the norm with first. types as for elements; y may be x or g.",
		},
		{
			Name: "gather", Threads: 128, Grid: "R",
			Params: []Param{ptr("dst"), ptr("src"), ptr("at"), i32("bytes"), i64("dstStride"), i64("srcStride")},
			Doc:    "Row r of dst = row at[r] of src; bytes and strides (in bytes) are multiples of 16.",
		},
		{
			Name: "pack_bf16", Threads: 256, Grid: "cdiv(rows, 64), cdiv(k, 64)",
			Params: packParams,
			Doc: "Writes rows [row0, row0+rows) of a matrix [n, k] to its tiles in w, from src [rows, k] of dtype 0 bf16, 1 float16, 2 float32. w was " +
				"zeroed before. interleave 1: src is of part 0 (gate) or 1 (up), each of n/2 rows, a multiple of 32; row0 counts within the part, and halves of a tile take turns.",
		},
		{
			Name: "pack_q8", Threads: 256, Grid: "cdiv(row0%64 + rows, 64), cdiv(k, 64); with interleave 32 instead of 64",
			Params: packParams,
			Doc:    "As pack_bf16, to tiles of 8 bits; blocks of 32 columns are rounded as device/cpu does.",
		},
		{
			Name: "pack_q4", Threads: 256, Grid: "cdiv(row0%64 + rows, 64), cdiv(k, 64); with interleave 32 instead of 64",
			Params: packParams,
			Doc:    "As pack_bf16, to tiles of 4 bits.",
		},
		{
			Name: "pick", Threads: 1024, Grid: "R",
			Params: []Param{
				ptr("drawn"), ptr("results"), ptr("tops"), ptr("logits"), ptr("z"), ptr("near"),
				ptr("rows"), ptr("edits"), ptr("masks"), i32("row0"), i32("vocab"), i32("ldl"),
			},
			Doc: "sampler.Pick for rows [row0, row0+R). rows is the memory of []backend.Draw from the step's first row on, edits that of []backend.Edit, masks uint32 " +
				"[M, cdiv(vocab, 32)]. logits float32 [R, ldl] from row row0 on are only read; z and near are scratch of the same size; ldl is a multiple of 4. " +
				"drawn int32 and results [PickResult] are indexed by the row of the step, tops [PickTop] as Out.TopTokens. Row.Top <= MaxTop.",
		},
		{
			Name: "attn_merge", Threads: 128, Grid: "most merges, heads",
			Params: []Param{ptr("out"), ptr("parts"), ptr("merges"), ptr("count"), i32("ldo"), i32("heads"), i32("headDim"), f32("scale")},
			Doc: "out bf16 [T, heads*headDim] of the tokens named by merges [AttnMerge], count[0] of them, from parts. Blocks from count[0] on do nothing, " +
				"so that a graph may launch for the most there can be.",
		},
		{
			Name: "tick", Threads: 32, Grid: "1",
			Params: []Param{ptr("p")},
			Doc:    "p[0] += 1: a launch that does nothing else, to be timed.",
		},
		{
			Name: "set_flag", Threads: 32, Grid: "1",
			Params: []Param{ptr("flag"), i32("value")},
			Doc:    "flag[0] = value with release order at system scope: for a word that the host polls.",
		},
	}
	list = append(list, probes()...)
	list = append(list, headEntries()...)
	for _, d := range []int{64, 128} {
		list = append(list,
			Entry{
				Name: fmt.Sprintf("attn_prefill_d%d", d), Threads: 128, Shared: (64 + 4*64) * d * 2, Grid: "tiles, kvHeads", Params: attnParams,
				Doc: fmt.Sprintf("Attention of runs of queries, for headDim <= %d (even). out, q bf16 [T, heads*headDim]; tiles [AttnTile]; tables int32, block tables; "+
					"pos int32 [T]. A group of heads (heads/kvHeads <= QueryRows) shares a KV head. window 0: all positions up to the token's own.", d),
			},
			Entry{
				Name: fmt.Sprintf("attn_decode_d%d", d), Threads: 128, Shared: (16+4*64)*d*2 + 16*68*4, Grid: "most items, kvHeads, cdiv(heads/kvHeads, 16)", Params: decodeParams,
				Doc: fmt.Sprintf("Partial results of single tokens, for headDim <= %d (even): items [AttnItem], count[0] of them; blocks from count[0] on do nothing. "+
					"parts float32 [slot][heads][headDim+2]: values, greatest score, weight. A token has a slot for each part that its window touches, in order.", d),
			},
			Entry{
				Name: fmt.Sprintf("attn_whole_d%d", d), Threads: 128, Shared: (16+4*64)*d*2 + 16*68*4, Grid: "most items, kvHeads, cdiv(heads/kvHeads, 16)",
				Params: append([]Param{ptr("out"), i32("ldo"), ptr("counters")}, decodeParams...),
				Doc: "attn_decode and attn_merge in one: the block that comes last of a token's parts merges them, with the same bits. A token's slots must be consecutive, in the " +
					"order of parts; counters uint32 [T, kvHeads, cdiv(heads/kvHeads, 16)] are zero before and after.",
			})
	}
	for _, f := range Formats {
		for _, n := range GemmRows {
			list = append(list, Entry{
				Name: fmt.Sprintf("gemm_%s_n%d", f, n), Threads: 128, Shared: fewShared(f, n), Grid: fmt.Sprintf("cdiv(n, 64), splits, cdiv(rows, %d)", n), Params: gemmParams,
				Doc: "y = x·wᵀ + bias as epilogue says: x bf16 [rows, ldx], w tiles of [n, k], bias float32 [n] or null. splits and tiles are Splits(n, k); " +
					"work and counters as GemmWork says (null where splits is 1).",
			})
		}
		list = append(list, Entry{
			Name: fmt.Sprintf("gemm_%s_128", f), Threads: 256, Shared: wideShared(f), Grid: "cdiv(n, 128), cdiv(rows, 128)", Params: gemmParams,
			Doc: "The same for many rows, bit for bit; work and counters are not used.",
		})
	}
	for _, n := range GemmRows {
		list = append(list, Entry{
			Name: fmt.Sprintf("gemm_bf16_h%d", n), Flavour: SM90a, Threads: 160, Shared: swizzleRoom + fewShared("bf16", n), Grid: fmt.Sprintf("cdiv(n, 64), splits, cdiv(rows, %d)", n), Params: hopperParams,
			Doc: fmt.Sprintf("gemm_bf16_n%d with wgmma. x is a tensor map of bf16 [buffer rows, k], boxes of 64 columns by %d rows, swizzle 128 B, zeros outside.", n, n),
		})
	}
	for _, n := range []int{128, 256} {
		e := Entry{
			Name: fmt.Sprintf("gemm_bf16_h%d", n), Flavour: SM90a, Threads: 384, Shared: swizzleRoom + hopperStages*(2*BF16Tile+n*Tile*2), Grid: fmt.Sprintf("cdiv(n, 128), cdiv(rows, %d)", n), Params: hopperParams,
			Doc: fmt.Sprintf("The same for many rows, bit for bit; boxes of %d rows; work and counters are not used.", n),
		}
		if n == 256 {
			e.Doc += " Only where splits is 1."
		}
		list = append(list, e)
	}
	list = append(list, experts()...)
	return append(list, recurrent()...)
}

// Formats are the parts of kernels' names that say how matrices are stored, in the order of Loaded.Format.
var Formats = []string{"bf16", "q8", "q4", "mxfp4"}

// Tiles in flight: FEW_STAGES and WIDE_STAGES of src/gemm.cu, those of src/hgemm.cu.
const fewStages, wideStages, hopperStages = 6, 3, 4

// swizzleRoom is SWIZZLE_ROOM of src/hopper.h: dynamic shared memory begins anywhere, and
// tiles that tensor copies write begin at the next multiple of 1024 bytes.
const swizzleRoom = 1024

func tileBytes(format string) int {
	switch format {
	case "q8":
		return Q8Tile
	case "q4", "mxfp4":
		return Q4Tile
	}
	return BF16Tile
}

// The sums leave through shared memory, rows of 64 or 128 float32 and 4 more.
func fewShared(format string, rows int) int {
	return max(fewStages*(tileBytes(format)+rows*Tile*2), rows*(Tile+4)*4)
}

func wideShared(format string) int {
	return max(wideStages*(2*tileBytes(format)+WideRows*Tile*2), WideRows*(WideCols+4)*4)
}

// probes are for gpu-check.
func probes() []Entry {
	return []Entry{
		{
			Name: "fill_bf16", Threads: 256, Grid: "any", Params: []Param{ptr("p"), i64("n"), i32("seed")},
			Doc: "p bf16 [n]: odd multiples of 1/256 in (-1, 1) from a hash of index and seed (src/probe.cu).",
		},
		{
			Name: "stream_read", Threads: 512, Grid: "any", Params: []Param{ptr("out"), ptr("p"), i64("n")},
			Doc: "Reads n vectors of 16 bytes; out uint32, one per thread of the grid, is their exclusive or.",
		},
		{
			Name: "stream_copy", Threads: 512, Grid: "any", Params: []Param{ptr("q"), ptr("p"), i64("n")},
			Doc: "Copies n vectors of 16 bytes from p to q.",
		},
		{
			Name: "approx", Threads: 256, Grid: "cdiv(n, 256)", Params: []Param{ptr("y"), ptr("x"), i32("n"), i32("which")},
			Doc: "y float32 [n] = 2^x (0), 1/sqrt(x) (1) or 1/x (2), with the approximate instructions.",
		},
		{
			Name: "probe_wgmma", Flavour: SM90a, Threads: 128, Shared: swizzleRoom + 2*128*128, Grid: "1",
			Params: []Param{tmap("a"), tmap("b"), ptr("out"), i32("half"), i32("k0"), i32("k1")},
			Doc:    "out float32 [64, 128] = rows [64*half, 64*half+64) of a times bᵀ over columns [16*k0, 16*k1) of 64; maps of bf16 [128, 64], boxes of 128 rows.",
		},
		{
			Name: "probe_ring", Flavour: SM90a, Threads: 384, Shared: swizzleRoom + 4*128*128, Grid: "any",
			Params: []Param{tmap("a"), tmap("b"), ptr("out"), i32("nk"), i32("mode"), i32("seed")},
			Doc: "out float32 [block][128, 128] = a·bᵀ of bf16 [128, 64*nk] through a ring of two stages under random pauses; mode 0-3: one warp releases for its " +
				"warpgroup, 4: every warp for itself; 1e30 where a wait was in vain.",
		},
	}
}
