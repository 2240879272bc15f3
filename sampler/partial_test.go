package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// goKernels are all kernels, in Go.
var goKernels = Kernels{Max: maxGo, Near: NearGo, Load: LoadGo, Mass: MassGo, Above: AboveGo, Between: BetweenGo}

func maxGo(x []float32) float32 {
	hi := negInf
	for _, v := range x {
		if v > hi {
			hi = v
		}
	}
	return hi
}

// partialCase returns the n-th row for TestPartialDraws: bell curves of different
// widths, some with special values, some without a legal token, some with ties for the
// first place.
func partialCase(g *rand.Rand, n int) []float32 {
	special := []float32{positiveInf, negInf, notANumber, maxFloat, -maxFloat, 0}
	row := make([]float32, 1+g.IntN(3000))
	spread := []float32{0, 0.1, 3, 30, 3e38}[n%5]
	for i := range row {
		row[i] = float32(g.NormFloat64()) * spread
		if n%4 == 0 && g.IntN(50) == 0 {
			row[i] = special[g.IntN(len(special))]
		}
		if n%7 == 0 { // nothing but -Inf, or nothing but NaN
			row[i] = special[n%3%2+1]
		}
	}
	if n%3 == 0 {
		top := row[g.IntN(len(row))]
		for range 1 + g.IntN(5) {
			row[g.IntN(len(row))] = top
		}
	}
	return row
}

// drawInParts divides the row at random places, gives the pieces in a random order to
// up to three partial draws, and merges these.
func drawInParts(g *rand.Rand, k *Kernels, r *backend.Draw, row []float32) int32 {
	parts := make([]PartialDraw, 1+g.IntN(3))
	for i := range parts {
		parts[i].Start(k, r)
	}
	var cuts []int
	for i := 0; i < len(row); i += 4 * (1 + g.IntN(200)) {
		cuts = append(cuts, i)
	}
	for _, i := range g.Perm(len(cuts)) {
		end := len(row)
		if i+1 < len(cuts) {
			end = cuts[i+1]
		}
		parts[g.IntN(len(parts))].Add(int32(cuts[i]), row[cuts[i]:end])
	}
	for i := range parts[1:] {
		parts[0].Merge(&parts[i+1])
	}
	return parts[0].Token()
}

// TestPartialDraws: partial draws of a row, divided anywhere and merged in any order,
// draw the token that Pick draws from the row.
func TestPartialDraws(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 1))
	for n := range 3000 {
		row := partialCase(g, n)
		d := backend.Draws{Rows: []backend.Draw{{Mask: -1, Allow: -1, Target: -1, TopP: 1, Seed: g.Uint64(), Index: g.Uint32()}}}
		r := &d.Rows[0]
		if n%4 != 1 {
			r.Temperature = []float32{1, 0.01, 7, 1e-40, 1e30}[g.IntN(5)]
		}
		if !CanDrawInParts(&d, 0) {
			t.Fatal("CanDrawInParts says no")
		}
		// With a mask that allows all tokens, Pick does not use partial draws itself.
		masked := backend.Draws{Rows: []backend.Draw{*r}, Masks: slices.Repeat([]uint32{math.MaxUint32}, (len(row)+31)/32)}
		masked.Rows[0].Mask = 0
		var p Picker
		want := pick(t, &p, [][]float32{row}, &masked)[0].token
		k := []*Kernels{{}, {Max: maxGo, Near: NearGo}}[n%2]
		if got := drawInParts(g, k, r, row); got != want {
			t.Fatalf("case %d, %d tokens, temperature %g: partial draws say %d, Pick says %d", n, len(row), r.Temperature, got, want)
		}
	}
}

// TestCanDrawInParts: a row that asks for more than a token needs Pick.
func TestCanDrawInParts(t *testing.T) {
	plain := backend.Draw{Mask: -1, Allow: -1, Target: -1, TopP: 1, Temperature: 1}
	for name, c := range map[string]struct {
		change func(r *backend.Draw)
		want   bool
	}{
		"plain":            {func(*backend.Draw) {}, true},
		"greedy":           {func(r *backend.Draw) { r.Temperature = 0 }, true},
		"greedy, filtered": {func(r *backend.Draw) { r.Temperature, r.TopK, r.TopP, r.MinP = 0, 5, 0.5, 0.1 }, true},
		"top_k":            {func(r *backend.Draw) { r.TopK = 5 }, false},
		"top_p":            {func(r *backend.Draw) { r.TopP = 0.5 }, false},
		"min_p":            {func(r *backend.Draw) { r.MinP = 0.1 }, false},
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
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
