package grammar

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"weir/internal/growth"
)

// largestGrown is where BenchmarkGrowth stops when nothing is refused.
const largestGrown = 10_000

// BenchmarkGrowth prints what compiling costs, with the first mask, as a constraint grows by
// ten again and again, until it is refused (make bench-grammar). The exponent is the
// logarithm of the ratio to the row before, to base ten: 1 is linear, 2 is quadratic. Units
// of work are the same on every machine. As in a server, a constraint ends when its budget of
// units is spent, but here no deadline ends it.
func BenchmarkGrowth(b *testing.B) {
	tokens, eos := syntheticTokens(128_256, false)
	v, err := NewVocabulary(tokens, eos)
	if err != nil {
		b.Fatal(err)
	}
	v.Warm()
	cfg := DefaultConfig()
	cfg.Deadline = time.Hour
	for range b.N {
		fmt.Printf("\n| What grows | n | ms | units | exponent of ms | of units | |\n|---|--:|--:|--:|--:|--:|---|\n")
		for _, c := range growth.Cases {
			printGrowth(c, v, cfg)
		}
		fmt.Println()
	}
}

func printGrowth(c growth.Case, v *Vocabulary, cfg Config) {
	var lastTime, lastUnits float64
	for n := 10; n <= largestGrown; n *= 10 {
		s := specOf(c.Of(n))
		work := &meter{left: cfg.MaxWork}
		start := time.Now()
		_, err := compileMetered(s, v, cfg, work, nil)
		ms := float64(time.Since(start).Nanoseconds()) / 1e6
		units := float64(cfg.MaxWork - max(0, work.left))
		refused := ""
		if e := (*Error)(nil); errors.As(err, &e) {
			refused = e.Msg
		} else if err != nil {
			refused = err.Error()
		}
		exponents := "| |"
		if lastUnits > 0 {
			exponents = fmt.Sprintf("%.2f | %.2f |", math.Log10(ms/lastTime), math.Log10(units/lastUnits))
		}
		fmt.Printf("| %s | %d | %.2f | %.0f | %s %s |\n", c.Name, n, ms, units, exponents, refused)
		if err != nil {
			return // what is larger is refused as well
		}
		lastTime, lastUnits = ms, units
	}
}
