package cpu

import (
	"fmt"
	"testing"
)

// BenchmarkFewRows multiplies few rows with tiles of blocks that are in the cache, as they are and
// expanded, which decides how many rows the kernels of the first way are made for.
func BenchmarkFewRows(b *testing.B) {
	const k, tiles = 2816, 8
	for _, im := range impls {
		for f := firstBlocks; f <= lastBlocks; f++ {
			for m := 1; m <= im.most(byBlocks, f) && im.most(byExpanded, f) >= m; m++ {
				s, rnd := f.blocks(), newRand(1)
				units := s.units(k)
				w := randomUnits(b, rnd, s, units)
				expanded := make([]byte, units*s.unit*s.kind.size())
				x, _, ldx := blockRows(b, rnd, im, m, k)
				y, offs, ahead := make([]float32, m*tiles*rowsPerTile), make([]int, tiles), make([]int, tiles)
				report := func(b *testing.B, f func(i int)) {
					b.ReportMetric(2*k*rowsPerTile*tiles*float64(m)/best(b, f)/1e9, "GOP/s")
				}
				b.Run(fmt.Sprintf("%s/%s/rows=%d/direct", im.name, f, m), func(b *testing.B) {
					report(b, func(int) {
						im.blocks.dot[f-firstBlocks][m](w, offs, ahead, units, x, ldx, y, tiles*rowsPerTile, nil)
					})
				})
				b.Run(fmt.Sprintf("%s/%s/rows=%d/expanded", im.name, f, m), func(b *testing.B) {
					report(b, func(int) {
						for t := range tiles {
							im.blocks.expand[f-firstBlocks](expanded, w, units)
							im.blocks.dotExpanded[f-firstBlocks][m](expanded, 0, 0, units*s.unit, x, ldx, y[t*rowsPerTile:], tiles*rowsPerTile, nil)
						}
					})
				})
			}
		}
	}
}
