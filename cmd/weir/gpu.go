package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/backend"
	"weir/engine"
	"weir/model"
)

// gpuOptions say how a GPU is used.
type gpuOptions struct {
	driver, launch, products *string
	share                    *float64
	invariant                *bool
}

func bindGPU(fs *pflag.FlagSet) (o gpuOptions) {
	o.driver = fs.String("cuda-driver", "", "`library` of the CUDA driver (default: libcuda.so.1)")
	o.launch = oneOf(fs, "cuda-launch", "how kernels reach the GPU: graph replays the steps of decoding, cu launches every kernel by itself, for comparison", "graph", "cu")
	o.products = oneOf(fs, "cuda-gemm", "instructions of matrix products; wgmma is for Hopper and has bits of its own", "mma", "wgmma")
	o.invariant = fs.Bool("batch-invariant", true, "the bits of an answer do not depend on what else is being computed; --no-batch-invariant lets a GPU choose faster products by their number of rows")
	o.share = fs.Float64("gpu-memory-utilization", 0.9, "`share` of the GPU's memory that may be in use; KV blocks take what weights leave of it, unless --kv-cache-memory says less")
	return o
}

// gpuPlan is an engine's backend on a GPU, not yet opened.
type gpuPlan struct {
	about string // the device, in words
	kind  string // what decides the bits
	// open opens it. Blocks is the number of KV blocks that it must have, or 0
	// for as many as fit.
	open func(blocks int) (backend.Backend, error)
	// kvBytes is the size of a pool.
	kvBytes func(blocks int) int64
}

// device is a flag that names what computes.
type device string

// deviceFlag adds --device.
func deviceFlag(fs *pflag.FlagSet) *string {
	v := "auto"
	fs.Var((*device)(&v), "device", "what computes: cpu; cuda or cuda:`n`, the first GPU or the n-th from 0; auto, a GPU where there is one that can, else the CPU; sim computes nothing and invents tokens, for load tests without hardware")
	return &v
}

func (d *device) String() string { return string(*d) }
func (d *device) Type() string   { return "name" }
func (d *device) Set(s string) error {
	switch s {
	case "auto", "cpu", "cuda", "sim":
	default:
		if _, ok := ordinal(s); !ok {
			return fmt.Errorf("%q is none of auto, cpu, cuda, cuda:N, sim", s)
		}
	}
	*d = device(s)
	return nil
}

// ordinal is the number of the GPU that a device's name means.
func ordinal(name string) (n int, ok bool) {
	if name == "cuda" || name == "auto" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// onGPU plans the engine on a GPU. How many KV blocks there are is known when
// the backend has been opened for the first time.
func (c *computer) onGPU(ctx context.Context, g *gpu, s *source, opt model.Options, o *engineOptions, cfg engine.Config) error {
	plan, err := g.plan(ctx, s, opt, o)
	if err != nil {
		return err
	}
	c.about, c.fingerprint = plan.about, fingerprint(build(), plan.kind, *o.dtype, c.cacheType, s.network.Digest())
	// All but the number of blocks, which open adds.
	c.spec = backend.Spec{VocabSize: s.network.Config.VocabSize, BlockTokens: opt.BlockTokens, MaxTokens: opt.MaxTokens, MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens}
	c.engine = engine.New(cfg, func() (backend.Backend, error) {
		b, err := plan.open(c.spec.NumBlocks)
		if err == nil && c.spec.NumBlocks == 0 { // from then on others may read it
			c.spec = b.Spec()
			c.kvBytes = plan.kvBytes(c.spec.NumBlocks)
		}
		return b, err
	})
	// The loop polls the device; it must find a processor whatever requests are
	// being prepared.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	return nil
}
