package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrConfig is wrapped by every complaint about a Config, a shape or a matrix.
var ErrConfig = errors.New("cpu: unusable")

// maxThreads bounds Config.Threads: beyond it a mistyped number, not a machine.
const maxThreads = 1024

// Config says how a Device computes. Start from Default.
type Config struct {
	// Threads is how many threads compute, the caller's included. 0 is one per
	// processor that Go may use.
	Threads int
	// WeightType is what matrices are stored as in memory. Auto keeps what the
	// checkpoint has; anything narrower rounds to nearest even. With Q8, Q4
	// and W8A8 the rows that are multiplied are rounded too, to int8, in blocks of
	// 32 or as a whole.
	WeightType Format
	// KVType is what keys and values are stored as: F32, F16, BF16 or Int8.
	KVType Format
	// Impl forces a tier of instructions by name (see Impls); empty is the best
	// that the processor has. Results are reproducible within one tier.
	Impl string
	// HugePages asks the system for large pages under weights and KV cache.
	// Reading weights with small ones costs a tenth of the bandwidth.
	HugePages bool
}

// Default is what a server wants.
func Default() Config { return Config{WeightType: Auto, KVType: BF16, HugePages: true} }

// Validate reports the first unusable field.
func (c Config) Validate() error {
	if c.Threads < 0 || c.Threads > maxThreads {
		return fmt.Errorf("%w: threads %d is not in [0, %d]", ErrConfig, c.Threads, maxThreads)
	}
	if c.WeightType > W8A8 || c.WeightType == Int8 {
		return fmt.Errorf("%w: weights cannot be stored as %s", ErrConfig, c.WeightType)
	}
	if c.KVType == Auto || c.KVType > Int8 {
		return fmt.Errorf("%w: KV type must be f32, f16, bf16 or int8, not %s", ErrConfig, c.KVType)
	}
	if c.Impl != "" && find(c.Impl) == nil {
		return fmt.Errorf("%w: implementation %q is not available here; there are %s", ErrConfig, c.Impl, strings.Join(Impls(), ", "))
	}
	return nil
}

func (c Config) threads() int {
	if c.Threads > 0 {
		return c.Threads
	}
	return runtime.GOMAXPROCS(0)
}
