//go:build cuda && linux && amd64

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"weir/backend"
	"weir/device/cuda"
	"weir/model"
)

// gpu is one that was found.
type gpu struct{ info cuda.Info }

// findGPU finds the GPU that o asks for. It returns nil where --device auto
// finds none that can compute.
func findGPU(o *engineOptions) (*gpu, error) {
	n, _ := ordinal(*o.device)
	list, err := cuda.Probe(*o.gpu.driver)
	for _, i := range list {
		if i.Ordinal == n && i.Usable() {
			return &gpu{i}, nil
		}
	}
	switch {
	case *o.device == "auto":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--device %s: %w", *o.device, err)
	case n >= len(list):
		return nil, fmt.Errorf("--device %s: the driver has %d devices", *o.device, len(list))
	}
	return nil, fmt.Errorf("--device %s: %s is too old, it takes sm_80 or newer", *o.device, list[n])
}

func (g *gpu) plan(ctx context.Context, s *source, opt model.Options, o *engineOptions) (*gpuPlan, error) {
	switch {
	case *o.dtype != "auto" && *o.dtype != "bfloat16":
		return nil, usageError{fmt.Errorf("--dtype %s: on a GPU weights are bfloat16", *o.dtype)}
	case *o.kvDtype != "auto" && *o.kvDtype != "bfloat16":
		return nil, usageError{fmt.Errorf("--kv-cache-dtype %s: on a GPU keys and values are bfloat16", *o.kvDtype)}
	case *o.quantization == "w8a8":
		return nil, usageError{errors.New("--quantization w8a8: a GPU has q8 and q4, whose activations stay bfloat16")}
	case !(*o.gpu.share > 0 && *o.gpu.share <= 1):
		return nil, usageError{fmt.Errorf("--gpu-memory-utilization %v is not in (0, 1]", *o.gpu.share)}
	}
	cfg := cuda.Default()
	cfg.Driver, cfg.Ordinal, cfg.PlainLaunch = *o.gpu.driver, g.info.Ordinal, *o.gpu.launch == "cu"
	switch {
	case !*o.gpu.invariant:
		cfg.Products = cuda.Mixed
	case *o.gpu.products == "wgmma":
		cfg.Products = cuda.WGMMA
	}
	switch {
	case cfg.Products != cuda.WGMMA:
	case !g.info.Hopper():
		return nil, usageError{fmt.Errorf("--cuda-gemm wgmma: %s has none", g.info)}
	case cfg.PlainLaunch:
		return nil, usageError{errors.New("--cuda-gemm wgmma: --cuda-launch cu cannot pass its tensor maps")}
	}
	cfg.Weights = map[string]cuda.Format{"q8": cuda.Q8, "q4": cuda.Q4}[*o.quantization]
	cfg.Note = func(message string, args ...any) { slog.Debug(message, args...) }
	if dir, err := os.UserCacheDir(); err == nil {
		cfg.CacheDir = filepath.Join(dir, "weir", "cubin")
	}
	opt.Depth, opt.ThreadBound = 2, true
	c := &s.network.Config
	shape := model.Shape{Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Spec: backend.Spec{BlockTokens: opt.BlockTokens}}
	block := cuda.BlockBytes(shape)
	p := &gpuPlan{
		about:   "CUDA, " + g.info.String(),
		kind:    fmt.Sprintf("cuda sm_%d%d %d %s", g.info.Major, g.info.Minor, cfg.Products, cfg.Weights),
		kvBytes: func(blocks int) int64 { return int64(blocks) * block },
	}
	p.open = func(blocks int) (backend.Backend, error) {
		dev, err := cuda.Open(cfg)
		if err != nil {
			return nil, err
		}
		opt := opt
		opt.NumBlocks = blocks
		if blocks == 0 {
			opt.NumBlocks = cuda.WarmBlocks(backend.Spec{BlockTokens: opt.BlockTokens, MaxTokens: opt.MaxTokens, MaxSeqs: opt.MaxSeqs, MaxSeqTokens: opt.MaxSeqTokens})
		}
		r, err := model.NewRunner(ctx, dev, s.network, opt)
		if err != nil || blocks > 0 {
			return r, err
		}
		if err := fitPool(dev, r, opt, block, int64(o.kvMemory), *o.gpu.share); err != nil {
			_ = r.Close() // err says more
			return nil, err
		}
		return r, nil
	}
	return p, nil
}

// fitPool gives the KV pool the memory that is left when everything else has
// been allocated, which the driver's own needs show only after a step.
func fitPool(dev *cuda.Device, r *model.Runner, opt model.Options, block, asked int64, share float64) error {
	if err := cuda.WarmUp(r); err != nil {
		return err
	}
	free, err := dev.FreeForKV(share)
	if err != nil {
		return err
	}
	if asked > free {
		return fmt.Errorf("--kv-cache-memory %s: the GPU has %s left for it (--gpu-memory-utilization %v)", inUnits(asked), inUnits(max(free, 0)), share)
	}
	if asked == 0 { // no more than max-num-seqs full sequences need
		perSeq := int64((opt.MaxSeqTokens + opt.BlockTokens - 1) / opt.BlockTokens)
		asked = min(max(free, 1), block*(1+perSeq*int64(opt.MaxSeqs)))
	}
	blocks, _, err := sizePool(opt, block/int64(opt.BlockTokens), asked, 0)
	if err != nil {
		return err
	}
	return r.ResizeKV(blocks)
}
