package main

import (
	"context"
	"runtime"

	"weir/backend"
	"weir/model"
)

// gpuPlan is a backend on a GPU that has been chosen and not opened yet.
type gpuPlan struct {
	device string   // in words
	kind   string   // everything about it that decides the bits of an answer
	notes  []string // for the log
	// open opens the backend with this number of KV blocks, or with as many as fit
	// if it is 0.
	open func(blocks int) (backend.Backend, error)
	// kvBytes is the size of this number of KV blocks in bytes.
	kvBytes func(blocks int) int64
}

// findGPU finds the GPU that --device asks for. It returns nil for a device that is
// not a GPU, and for auto if no GPU is usable.
func (o *engineOptions) findGPU() (*gpu, error) {
	if o.device == "cpu" || o.device == "sim" {
		return nil, nil
	}
	return findGPU(o)
}

// planGPU plans the engine on a GPU. How many KV blocks it has, and so how long the longest
// sequence is if that was not asked for, is known once the backend has been opened for the
// first time.
func (e *preparedEngine) planGPU(ctx context.Context, g *gpu, s *source, opt model.Options, o *engineOptions) (backendPlan, error) {
	plan, err := g.plan(ctx, s, opt, o, e.shorten)
	if err != nil {
		return backendPlan{}, err
	}
	e.notes = plan.notes
	_, _, e.cacheType = o.types()
	e.device, e.fingerprint = plan.device, fingerprint(build(), plan.kind, o.dtype, e.cacheType, s.network.Digest())
	opt.NumBlocks = 0                  // not known yet
	e.spec = specOf(s.network, opt, 0) // open adds the number of blocks and the depth
	return backendPlan{
		open: func() (backend.Backend, error) {
			b, err := plan.open(e.spec.NumBlocks)
			if err == nil && e.spec.NumBlocks == 0 { // the first time, before the engine is ready and others read this
				e.spec = b.Spec()
				e.kvBytes = plan.kvBytes(e.spec.NumBlocks)
			}
			return b, err
		},
		// The engine's loop polls the device. It must find a processor even while
		// requests are being prepared on another.
		processors: max(2, runtime.NumCPU()),
	}, nil
}
