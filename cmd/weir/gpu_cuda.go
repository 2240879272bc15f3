//go:build cuda && linux && amd64

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/backend"
	"weir/device/cuda"
	"weir/model"
)

// gpu is a GPU that was found.
type gpu struct{ info cuda.Info }

// memory is the size of g's memory in bytes.
func (g *gpu) memory() int64 { return g.info.Memory }

// refuses is why g cannot compute a network; nil: it can.
func (g *gpu) refuses(c *model.Config) error { return cuda.Refuses(c.Shape()) }

// findGPU finds the GPU that o asks for. It returns nil if --device is auto and there
// is no usable GPU.
func findGPU(o *engineOptions) (*gpu, error) {
	n, _ := ordinal(o.device)
	list, err := cuda.Probe(o.driver)
	for _, i := range list {
		if i.Ordinal == n && i.Usable() {
			return &gpu{i}, nil
		}
	}
	switch {
	case o.device == "auto":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--device %s: %w", o.device, err)
	case n >= len(list):
		return nil, fmt.Errorf("--device %s: the driver has %d devices", o.device, len(list))
	}
	return nil, fmt.Errorf("--device %s: %s is too old, it takes sm_80 or newer", o.device, list[n])
}

// plan plans the backend on g. shorten says that the longest sequence may become shorter, so
// that one fits into the KV cache; it is settled when the backend is opened for the first time.
func (g *gpu) plan(ctx context.Context, s *source, opt model.Options, o *engineOptions, shorten bool) (*gpuPlan, error) {
	cfg, err := g.config(o)
	if err != nil {
		return nil, usageError{err}
	}
	notes, err := checkStored(s.network, cfg, o)
	if err != nil {
		return nil, err
	}
	opt.Depth, opt.ThreadBound = 2, true
	c := &s.network.Config
	if state := c.StateBytes(); state > 0 { // the states of sequences are allocated before the KV cache is
		share := int64(float64(g.info.Memory) * o.share / 8)
		opt.StateSlots = int(max(leastStates, min(share/state, int64(1+statesPerSequence*opt.MaxSeqs))))
	}
	shape := c.Shape()
	shape.Spec = backend.Spec{BlockTokens: opt.BlockTokens}
	block := cuda.BlockBytes(shape)
	p := &gpuPlan{
		notes:   notes,
		device:  "CUDA, " + g.info.String(),
		kind:    fmt.Sprintf("cuda sm_%d%d %d %s", g.info.Major, g.info.Minor, cfg.Products, cfg.Weights),
		kvBytes: func(blocks int) int64 { return int64(blocks) * block },
	}
	fresh := s.fresh()
	p.open = func(blocks int) (backend.Backend, error) {
		if err := fresh(); err != nil {
			return nil, err
		}
		dev, err := cuda.Open(cfg)
		if err != nil {
			return nil, err
		}
		opt.NumBlocks = blocks
		if blocks == 0 {
			opt.NumBlocks = cuda.WarmBlocks(specOf(s.network, opt, 0))
		}
		r, err := model.NewRunner(ctx, dev, s.network, opt)
		if err != nil || blocks > 0 {
			return r, err
		}
		if err := fitPool(dev, r, &opt, block, cacheRoom{asked: int64(o.kvMemory), shorten: shorten}, o.share); err != nil {
			_ = r.Close() // err says more
			return nil, err
		}
		return r, nil
	}
	return p, nil
}

// config translates the options for g, or says which of them a GPU does not have.
func (g *gpu) config(o *engineOptions) (cuda.Config, error) {
	cfg := cuda.Default()
	switch {
	case o.dtype != "auto" && o.dtype != "bfloat16":
		return cfg, fmt.Errorf("--dtype %s: on a GPU weights are bfloat16", o.dtype)
	case o.kvDtype != "auto" && o.kvDtype != "bfloat16":
		return cfg, fmt.Errorf("--kv-cache-dtype %s: on a GPU keys and values are bfloat16", o.kvDtype)
	case o.quantization == "w8a8":
		return cfg, errors.New("--quantization w8a8: a GPU has q8 and q4, whose activations stay bfloat16")
	case !(o.share > 0 && o.share <= 1):
		return cfg, fmt.Errorf("--gpu-memory-utilization %v is not in (0, 1]", o.share)
	}
	cfg.Driver, cfg.Ordinal, cfg.PlainLaunch = o.driver, g.info.Ordinal, o.launch == "cu"
	switch {
	case o.gemm == "mma" || o.gemm == "auto" && (cfg.PlainLaunch || !g.info.Hopper()):
	case !g.info.Hopper():
		return cfg, fmt.Errorf("--cuda-gemm wgmma: %s does not have these instructions", g.info)
	case cfg.PlainLaunch:
		return cfg, errors.New("--cuda-gemm wgmma: --cuda-launch cu cannot pass its tensor maps")
	default:
		cfg.Products = cuda.WGMMA
	}
	cfg.Weights = map[string]cuda.Format{"q8": cuda.Q8, "q4": cuda.Q4}[o.quantization]
	cfg.Widen = o.convert
	cfg.Note = func(message string, args ...any) { slog.Debug(message, args...) }
	if dir, err := os.UserCacheDir(); err == nil {
		cfg.CacheDir = filepath.Join(dir, "weir", "cubin")
	}
	return cfg, nil
}

// checkStored refuses weights that a GPU would have to round, unless the flags say so, before
// anything is loaded. The lines are for the log.
func checkStored(network *model.Model, cfg cuda.Config, o *engineOptions) (lines []string, err error) {
	if err := o.refuseRequantizing(quantizedTensors(network)); err != nil {
		return nil, err
	}
	rounded := map[string]map[string]bool{} // what they become, and the types that they have in the file
	for _, m := range network.Matrices() {
		if m.Use == model.Vector {
			continue
		}
		f, exact, err := cfg.StoredAs(m)
		if errors.Is(err, cuda.ErrStored) {
			err = fmt.Errorf("%w: --allow-converted-weights rounds such weights to bfloat16, and --device cpu computes them as they are", err)
		}
		if err != nil {
			return nil, err
		}
		for _, t := range m.Rows {
			if t.Quantized() && !exact {
				as := f.String()
				if rounded[as] == nil {
					rounded[as] = map[string]bool{}
				}
				rounded[as][t.TypeName()] = true
			}
		}
	}
	for _, as := range slices.Sorted(maps.Keys(rounded)) {
		lines = append(lines, fmt.Sprintf("weights in %s are rounded to %s", strings.Join(slices.Sorted(maps.Keys(rounded[as])), ", "), as))
	}
	return lines, nil
}

// fitPool gives the KV cache the memory that is left once everything else has been
// allocated, and shortens the longest sequence of r and opt if room allows that and it does not
// fit. A step runs before, because only then the driver has allocated what it
// needs for itself. block is the size of a KV block in bytes.
func fitPool(dev *cuda.Device, r *model.Runner, opt *model.Options, block int64, room cacheRoom, share float64) error {
	if err := cuda.WarmUp(r); err != nil {
		return err
	}
	free, err := dev.FreeForKV(share)
	if err != nil {
		return err
	}
	if room.asked > free {
		return fmt.Errorf("--kv-cache-memory %s: the GPU has %s left for it (--gpu-memory-utilization %v)", inUnits(room.asked), inUnits(max(free, 0)), share)
	}
	if room.asked == 0 { // no more than the largest number of full sequences needs
		room.asked = min(max(free, 1), block*(1+room.blocksPerSequence(*opt)*int64(opt.MaxSeqs)))
	}
	blocks, _, err := room.sizePool(opt, block/int64(opt.BlockTokens))
	if err != nil {
		return err
	}
	if err := r.Shorten(opt.MaxSeqTokens); err != nil {
		return err
	}
	return r.ResizeKV(blocks)
}
