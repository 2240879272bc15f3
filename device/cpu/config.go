package cpu

import (
	"errors"
	"fmt"
)

// ErrConfig is wrapped by every complaint about a Config, a shape or a matrix.
var ErrConfig = errors.New("cpu: unusable")

// maxThreads bounds Config.Threads. A larger number is taken for a mistake.
const maxThreads = 1024

// Config says how a Device computes. Start from Default.
type Config struct {
	// Threads is how many threads compute, the caller's included. 0 means one for each
	// physical core that this process may use, but no more than GOMAXPROCS, or one for
	// each processor of Pin.
	Threads int
	// Pin binds threads to processors: PinNodes, PinCores, PinNone or a list of
	// processors such as "0-7,16". Empty is PinNodes. If the caller's thread is bound,
	// the goroutine that opens the Device is locked to it until Close.
	Pin string
	// WeightType is the format of matrices in memory. Auto keeps the checkpoint's;
	// a narrower one rounds to nearest even. With Q8, Q4 and W8A8 the rows that are
	// multiplied are rounded too, to int8, in blocks of 32 or as a whole.
	WeightType Format
	// KVType is the format of keys and values: F32, F16, BF16 or Int8.
	KVType Format
	// Impl chooses a tier of instructions: a name of Impls, or features to go without
	// ("-avx512vnni,-avx512bw"), or both; empty means the best tier. Results are
	// reproducible within one tier.
	Impl string
	// HugePages asks the system for large pages under weights and KV cache.
	// Reading weights with small ones costs a tenth of the bandwidth.
	HugePages bool
	// Tiles keeps packed matrices for the next start; nil: they are packed each time. Close
	// closes it.
	Tiles TileCache
}

const (
	// PinNodes keeps threads on the memory node whose weights they read. Nothing
	// is bound on a machine with one node.
	PinNodes = "nodes"
	// PinCores gives each thread a physical core of its own.
	PinCores = "cores"
	// PinNone binds no thread, and treats the machine as one node.
	PinNone = "none"
)

// Default is the configuration for a server.
func Default() Config { return Config{WeightType: Auto, KVType: BF16, HugePages: true} }

// Reference is the configuration that other devices are compared with: Default with the
// best tier that does not round activations to bfloat16.
func Reference() Config {
	c := Default()
	for _, im := range impls {
		if im.narrow == nil {
			c.Impl = im.name
			break
		}
	}
	return c
}

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
	if _, err := choose(c.Impl); err != nil {
		return err
	}
	_, err := machine().place(c.Threads, c.Pin)
	return err
}

// ThreadCount is how many threads a Device of this configuration has; 0 if the
// configuration is not valid.
func (c Config) ThreadCount() int {
	p, err := machine().place(c.Threads, c.Pin)
	if err != nil {
		return 0
	}
	return len(p.node)
}
