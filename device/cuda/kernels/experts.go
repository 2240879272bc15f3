package kernels

import "fmt"

// The most experts, experts of a row and groups of experts that route takes: EXPERTS, CHOSEN and
// GROUPS of src/experts.cu.
const MostExperts, MostChosen, MostGroups = 1024, 32, 64

// MostTaps is the widest convolution, and MostKeys the most rows of a head's state: key dimensions of a delta rule
// or state dimensions of a scan (src/recurrent.cu).
const MostTaps, MostKeys = 16, 256

// KeyRows are the rows of a head's state that entries delta_d* and scan_d* take.
var KeyRows = []int{128, 256}

// ExactRows and ExactCols are the tile of exact: rows by weight rows.
const ExactRows, ExactCols = 4, 8

// A Loaded is a matrix in the table that grouped_* read.
type Loaded struct {
	W, Bias uint64
	Format  int32
	_       int32
	_       uint64
}

// An ExpertTile is entries of one expert that grouped_* multiply together, numbers [First, First+Count) of order.
type ExpertTile struct {
	Expert, First, Count int32
	_                    int32
}

// MostTiles is the most tiles of per entries each that so many entries of experts can need.
func MostTiles(entries, experts, per int) int {
	// Each expert with entries has one tile that may be not full.
	return min(entries, experts+entries/per)
}

// GroupedRows is the tile, of GemmRows, that suits so many entries of experts.
func GroupedRows(entries, experts int) int {
	for _, n := range GemmRows {
		if entries <= n*experts {
			return n
		}
	}
	return GemmRows[len(GemmRows)-1]
}

// A StateRun is the rows [First, End) of a sequence in a step, and the state slots that it goes on from and leaves its
// state in. It is empty where it fills up a graph's bucket.
type StateRun struct{ First, End, In, Out int32 }

// experts are the entries of src/experts.cu.
func experts() []Entry {
	list := []Entry{
		{
			Name: "exact", Threads: 256, Grid: "cdiv(n, 8), cdiv(rows, 4)",
			Params: []Param{ptr("y"), ptr("x"), ptr("w"), ptr("bias"), i32("rows"), i32("n"), i32("k"), i32("ldx"), i32("ldy"), i32("types")},
			Doc:    "y [rows, ldy] = x·wᵀ + bias in float32; w float32 [n, k], bias float32 [n] or null. types: 1 y is float32, else bf16; 2 x is.",
		},
		{
			Name: "route", Threads: 32, Grid: "T or R",
			Params: []Param{ptr("chosen"), ptr("weight"), ptr("logits"), ptr("bias"), ptr("scale"), ptr("live"), i32("drawn"), i32("experts"), i32("topk"), i32("ld"), i32("kind"), i32("groups"),
				i32("topgroups"), i32("best2"), i32("renorm"), f32("floor"), f32("add"), f32("jitter"), f32("factor")},
			Doc: "chosen int32 and weight float32 [rows, topk]: what model.Router chooses by logits float32 [rows, ld], in ascending order of experts; -1 in rows from live[drawn] on. bias and scale are " +
				"float32 [experts] or null, kind is a model.ScoreKind.",
		},
		{
			Name: "group_rows", Threads: 256, Grid: "experts",
			Params: []Param{ptr("order"), ptr("tiles"), ptr("count"), ptr("chosen"), i32("entries"), i32("experts"), i32("per")},
			Doc:    "Lists the entries i with chosen[i] >= 0 by expert, ascending, into order int32 [entries], and cuts each expert's into tiles [ExpertTile] of at most per; count[0] is their number.",
		},
	}
	for _, f := range Formats {
		for _, n := range GemmRows {
			list = append(list, Entry{
				Name: fmt.Sprintf("grouped_%s_n%d", f, n), Threads: 128, Shared: fewShared(f, n), Grid: "cdiv(n, 64), most tiles",
				Params: []Param{ptr("y"), ptr("x"), ptr("loaded"), ptr("order"), ptr("tiles"), ptr("count"), i32("base"), i32("step"), i32("div"), i32("n"), i32("k"), i32("ldx"), i32("ldy"), i32("epilogue")},
				Doc: fmt.Sprintf("Row i of y is row i/div of x times the matrix of entry i's expert, as epilogue says (not AddF32), in tiles of at most %d entries. The matrix [n, k] of expert e is loaded[base+e*step]; "+
					"tiles whose matrix has another format are left out. K is one range.", n),
			})
		}
	}
	return append(list, Entry{
		Name: "sum_experts", Threads: 256, Grid: "T or R, cdiv(width, 1024)",
		Params: []Param{ptr("y"), ptr("x"), ptr("chosen"), ptr("weight"), i32("topk"), i32("width"), i32("ldy"), i32("ldx"), i32("types"), i32("weighted")},
		Doc:    "y [rows, ldy] = sum over the topk entries of a row of weight * x, in order; x float32 [rows*topk, ldx]. With weighted 0 weights count as 1. types 1: y is float32, else bf16.",
	})
}

// recurrent are the entries of src/recurrent.cu.
func recurrent() []Entry {
	states := []Param{ptr("states"), ptr("runs"), i64("slot"), i32("at")}
	with := func(first []Param, rest ...Param) []Param {
		list := append([]Param{}, first...)
		return append(append(list, states...), rest...)
	}
	list := []Entry{{
		Name: "conv", Threads: 128, Grid: "cdiv(columns, 128), S",
		Params: append(with([]Param{ptr("y"), ptr("x"), ptr("w"), ptr("b")}, i32("columns"), i32("taps"), i32("ldy"), i32("ldx"), i32("types")), actParams...),
		Doc: "model.Conv: w float32 [columns, taps], b float32 [columns] or null; states float32, slot apart, of which a state begins at number at and is [taps-1, columns]; runs [StateRun]. y may be x. " +
			"types as of elements.",
	}}
	for _, n := range KeyRows {
		list = append(list, Entry{
			Name: fmt.Sprintf("delta_d%d", n), Threads: 32, Shared: (n*32 + 3*n) * 4, Grid: "cdiv(values, 32), value heads, S",
			Params: with([]Param{ptr("y"), ptr("q"), ptr("k"), ptr("v"), ptr("a"), ptr("b"), ptr("decay"), ptr("bias")},
				i32("keys"), i32("values"), i32("each"), i32("channels"), i32("ldy"), i32("ld"), i32("types"), f32("scale"), f32("eps"), f32("beta")),
			Doc: fmt.Sprintf("model.Delta for key dimensions up to %d. q, k, v, a and b are columns of rows of ld numbers; types 1: y is float32, 2: they are. each value heads share a key head; channels: a decay for "+
				"each key dimension.", n),
		})
	}
	for _, n := range KeyRows {
		list = append(list, Entry{
			Name: fmt.Sprintf("scan_d%d", n), Threads: 32, Shared: (n*32 + 2*n) * 4, Grid: "cdiv(size, 32), heads, S",
			Params: with([]Param{ptr("y"), ptr("x"), ptr("b"), ptr("c"), ptr("dt"), ptr("decay"), ptr("skip"), ptr("bias")},
				i32("size"), i32("state"), i32("each"), i32("ldy"), i32("ld"), i32("types"), f32("least"), f32("most")),
			Doc: fmt.Sprintf("model.Scan for state dimensions up to %d; the state of a head is [state, size]. each heads share b and c.", n),
		})
	}
	return list
}
