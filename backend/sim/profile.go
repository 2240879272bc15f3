package sim

import (
	"fmt"
	"math"
	"time"

	"weir/backend"
)

// Profile says how long a step takes and which tokens come out. A batch of T tokens and S
// sequences takes
//
//	Overhead + Prefill*T + Decode*S + Context*sum(KVLen)
//
// Overhead includes reading the weights; Prefill is arithmetic; Decode is what each sequence
// costs, such as its draw; Context is reading the KV cache.
type Profile struct {
	Name     string  `json:"name"`
	Overhead float64 `json:"overhead_us"`             // microseconds per step
	Prefill  float64 `json:"prefill_us_per_token"`    // microseconds per token of the batch
	Decode   float64 `json:"decode_us_per_sequence"`  // microseconds per sequence of the batch
	Context  float64 `json:"context_ns_per_position"` // nanoseconds per KV position that is read

	Tokens []int32 `json:"tokens,omitempty"`       // ids to draw from; empty: the whole vocabulary
	Avoid  []int32 `json:"avoid_tokens,omitempty"` // ids drawn only if nothing else is legal, such as end-of-sequence tokens
}

// Instant takes no time, for measuring everything but the device.
func Instant() Profile { return Profile{Name: "instant"} }

// H100Llama8B resembles an 8-billion-parameter Llama in bf16 on one H100. The numbers are
// computed, not measured: reading 16 GB of weights at 3.35 TB/s takes 4.8 ms, 16 GFLOP for a
// token at 600 TFLOP/s take 27 µs, and 128 KiB of KV per position at 3.35 TB/s take 39 ns.
func H100Llama8B() Profile {
	return Profile{Name: "h100-llama-8b", Overhead: 5000, Prefill: 27, Decode: 5, Context: 39}
}

// Profiles are the profiles that can be chosen by name.
func Profiles() []Profile { return []Profile{Instant(), H100Llama8B()} }

// Validate checks p for a vocabulary of vocab tokens.
func (p *Profile) Validate(vocab int) error {
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"overhead_us", p.Overhead}, {"prefill_us_per_token", p.Prefill},
		{"decode_us_per_sequence", p.Decode}, {"context_ns_per_position", p.Context},
	} {
		if !(v.value >= 0 && v.value <= 1e9) {
			return fmt.Errorf("sim: profile %q: %s must be in [0, 1e9], got %v", p.Name, v.name, v.value)
		}
	}
	for _, ids := range [][]int32{p.Tokens, p.Avoid} {
		for _, id := range ids {
			if id < 0 || int(id) >= vocab {
				return fmt.Errorf("sim: profile %q names token %d, the vocabulary has %d", p.Name, id, vocab)
			}
		}
	}
	return nil
}

// Step is the time that a batch takes.
func (p *Profile) Step(b *backend.Batch) time.Duration {
	positions := 0.0
	for _, n := range b.KVLen {
		positions += float64(n)
	}
	us := p.Overhead + p.Prefill*float64(len(b.Tokens)) + p.Decode*float64(len(b.QueryEnd)) + p.Context*positions/1000
	return time.Duration(math.Round(min(us*1000, math.MaxInt64/2)))
}
