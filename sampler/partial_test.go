package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// inGo are all kernels in Go.
var inGo = Kernels{Max: maxGo, Near: NearGo, Load: LoadGo, Mass: MassGo, Above: AboveGo, Between: BetweenGo}

func maxGo(x []float32) float32 {
	hi := ninf
	for _, v := range x {
		if v > hi {
			hi = v
		}
	}
	return hi
}

// TestPartialDraws: drafts of a row's parts, cut anywhere and merged in any order, draw
// what Pick draws from the row, ties and values that are no numbers included.
func TestPartialDraws(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 1))
	inf := float32(math.Inf(1))
	odd := []float32{inf, -inf, float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, 0}
	for n := range 3000 {
		v := 1 + g.IntN(3000)
		row := make([]float32, v)
		spread := []float32{0, 0.1, 3, 30, 3e38}[n%5]
		for i := range row {
			row[i] = float32(g.NormFloat64()) * spread
			if n%4 == 0 && g.IntN(50) == 0 {
				row[i] = odd[g.IntN(len(odd))]
			}
			if n%7 == 0 {
				row[i] = odd[n%3%2+1] // nothing is legal, or -Inf and NaN alone
			}
		}
		if n%3 == 0 { // ties for the first place
			top := row[g.IntN(v)]
			for range 1 + g.IntN(5) {
				row[g.IntN(v)] = top
			}
		}
		d := backend.Draws{Rows: []backend.Draw{{Mask: -1, Allow: -1, Target: -1, TopP: 1, Seed: g.Uint64(), Index: g.Uint32()}}}
		if n%4 != 1 {
			d.Rows[0].Temperature = []float32{1, 0.01, 7, 1e-40, 1e30}[g.IntN(5)]
		}
		if !CanDrawInParts(&d, 0) {
			t.Fatal("not draftable")
		}
		var p Picker
		out := backend.Out{Tokens: make([]int32, 1)}
		// With a mask that allows all, Pick does without drafts.
		masked := backend.Draws{Rows: []backend.Draw{d.Rows[0]}, Masks: slices.Repeat([]uint32{math.MaxUint32}, (v+31)/32)}
		masked.Rows[0].Mask = 0
		p.Pick(row, &masked, 0, &out, 0)
		k := []*Kernels{{}, {Max: maxGo, Near: NearGo}}[n%2]
		parts := make([]PartialDraw, 1+g.IntN(3))
		for i := range parts {
			parts[i].Start(k, &d.Rows[0])
		}
		var cuts []int
		for i := 0; i < v; i += 4 * (1 + g.IntN(200)) {
			cuts = append(cuts, i)
		}
		for _, i := range g.Perm(len(cuts)) {
			end := v
			if i+1 < len(cuts) {
				end = cuts[i+1]
			}
			parts[g.IntN(len(parts))].Add(int32(cuts[i]), row[cuts[i]:end])
		}
		for i := range parts[1:] {
			parts[0].Merge(&parts[i+1])
		}
		if got := parts[0].Token(); got != out.Tokens[0] {
			t.Fatalf("case %d, %d tokens, temperature %g: drafts say %d, Pick %d", n, v, d.Rows[0].Temperature, got, out.Tokens[0])
		}
	}
}

// TestCanDrawInParts: a row that asks for more than a token is Pick's.
func TestCanDrawInParts(t *testing.T) {
	plain := backend.Draw{Mask: -1, Allow: -1, Target: -1, TopP: 1, Temperature: 1}
	for name, c := range map[string]struct {
		change func(r *backend.Draw)
		want   bool
	}{
		"plain":            {func(*backend.Draw) {}, true},
		"greedy":           {func(r *backend.Draw) { r.Temperature = 0 }, true},
		"greedy, filtered": {func(r *backend.Draw) { r.Temperature, r.TopK, r.TopP, r.MinP = 0, 5, 0.5, 0.1 }, true},
		"top-k":            {func(r *backend.Draw) { r.TopK = 5 }, false},
		"top-p":            {func(r *backend.Draw) { r.TopP = 0.5 }, false},
		"min-p":            {func(r *backend.Draw) { r.MinP = 0.1 }, false},
		"host":             {func(r *backend.Draw) { r.Host = true }, false},
		"mask":             {func(r *backend.Draw) { r.Mask = 0 }, false},
		"allow":            {func(r *backend.Draw) { r.Allow = 0 }, false},
		"target":           {func(r *backend.Draw) { r.Target = 0 }, false},
		"logprobs":         {func(r *backend.Draw) { r.Logprobs = backend.RawLogprobs }, false},
		"top":              {func(r *backend.Draw) { r.Top = 1 }, false},
		"edits":            {func(r *backend.Draw) { r.EditEnd = 2 }, false},
		"dead":             {func(r *backend.Draw) { r.Dead, r.Mask, r.TopK = true, 3, 5 }, true},
		"dead, host":       {func(r *backend.Draw) { r.Dead, r.Host = true, true }, false},
	} {
		d := backend.Draws{Rows: []backend.Draw{plain, plain}, Edits: make([]backend.Edit, 2)}
		d.Rows[0].EditEnd, d.Rows[1].EditEnd = 1, 1
		c.change(&d.Rows[1])
		if got := CanDrawInParts(&d, 1); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
