package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkStop is the cost of the stop rules for one token, without and with
// repetition detection. The output is one that the counters cannot skip: every
// second token equals the one before it.
func BenchmarkStop(b *testing.B) {
	for _, size := range []int{0, 16, 256, MaxRepetition} {
		b.Run(fmt.Sprintf("patterns=%d", size), func(b *testing.B) {
			const length = 8192
			g := rand.New(rand.NewPCG(1, 1))
			tokens := make([]int32, length)
			for i := range tokens {
				tokens[i] = int32(g.IntN(2))
			}
			q := &Sequence{Limits: Limits{MaxTokens: length + 1, EOS: -1, Repetition: RepetitionLimit{MaxPattern: size, MinCount: MaxRepetition}}, runs: make([]int32, size+1)}
			b.ReportAllocs()
			n := length / 2
			for b.Loop() {
				q.Tokens = tokens[:n]
				if _, ok := q.stop(length + 1); ok {
					b.Fatal("stopped")
				}
				if n++; n > length {
					n = length / 2
				}
			}
		})
	}
}
