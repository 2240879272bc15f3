package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGreatest compares the choice of the greatest scores with sorting: among equal ones the first are chosen, the two
// zeros are equal, and what is no number comes last.
func TestGreatest(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	values := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1e-40, -1e-40, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for round := range 2000 {
		scores := make([]float32, 1+g.IntN(300))
		for i := range scores {
			switch {
			case round%3 == 0:
				scores[i] = values[g.IntN(len(values))]
			case round%3 == 1:
				scores[i] = float32(g.IntN(7) - 3)
			default:
				scores[i] = float32(g.NormFloat64())
			}
		}
		order := make([]int, len(scores))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			x, y := scores[a], scores[b]
			switch {
			case x > y || x == x && y != y:
				return -1
			case x < y || x != x && y == y:
				return 1
			}
			return 0
		})
		n := 1 + g.IntN(len(scores))
		want := slices.Sorted(slices.Values(order[:n]))
		chosen := make([]byte, (len(scores)+7)/8)
		greatest(chosen, scores, n)
		var got []int
		for p := range scores {
			if chosen[p/8]>>(p%8)&1 != 0 {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: of %v the %d greatest are %v, not %v", round, scores, n, want, got)
		}
	}
}
