package cpu

import (
	"fmt"

	"weir/model"
	"weir/sampler"
)

const (
	// rowPad is added to the length of rows, a cache line. Widths are mostly powers of
	// two, and a kernel reads a dozen rows side by side: without the line all of them
	// would fall into one set of the first-level cache.
	rowPad = cacheLine / 4
	// drawRows bounds the rows whose logits exist at a time. They are so many that the
	// head's weights are read once for many rows, and so few that 150,000 logits of
	// each take megabytes, not more.
	drawRows = 36
	// draftRows and draftTiles bound a chunk of logits that are added to drafts as soon
	// as they are computed, so that they stay in the cache.
	draftRows, draftTiles = 96, 16
)

// pieces are the parts of networks that this device computes besides what every decoder has.
const pieces = ^model.Pieces(0)

// Plan implements model.Device.
func (d *Device) Plan(s model.Shape) error {
	if d.planned {
		return fmt.Errorf("%w: Plan was called before", ErrConfig)
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if missing := s.Pieces &^ pieces; missing != 0 {
		return fmt.Errorf("%w: this network has %s, which the CPU does not compute", ErrConfig, missing)
	}
	if s.Spec.Depth != 1 {
		return fmt.Errorf("%w: %d steps in flight, but this device has one", ErrConfig, s.Spec.Depth)
	}
	d.planned, d.shape = true, s
	if err := d.allocate(s); err != nil {
		// The device is as before the call. An error of the release would say less
		// than err does.
		d.planned, d.acts, d.ropes, d.caches, d.scratch, d.memory = false, nil, nil, nil, nil, Memory{}
		_ = d.mem.close()
		return err
	}
	return nil
}

func (d *Device) allocate(s model.Shape) error {
	sp := s.Spec
	for _, a := range s.Acts {
		if err := d.addActivation(a, sp.MaxTokens); err != nil {
			return err
		}
	}
	d.own = len(d.acts)
	if err := d.experts.allocate(d, s); err != nil {
		return err
	}
	for _, r := range s.Ropes {
		t, err := newRopeTable(&d.mem, r, sp.MaxTokens)
		if err != nil {
			return err
		}
		d.ropes = append(d.ropes, t)
	}
	d.memory.Activations = d.mem.total

	caches, err := newCaches(&d.mem, d.cfg.KVType, s)
	if err != nil {
		return err
	}
	if ids := d.team.place.ids; len(ids) > 1 {
		// Any thread reads any sequence, so no node is the right one for a block, and
		// all memory channels share the reading. Containers may forbid the call.
		_ = interleave(caches[0].data, ids)
	}
	if d.impl.dots[d.cfg.KVType].bytes {
		for i := range caches {
			caches[i].bias = keyBias
		}
	}
	d.caches = caches
	d.memory.KV = int64(len(caches[0].data))
	if d.states, err = newStates(&d.mem, s); err != nil {
		return err
	}
	d.memory.KV += 4 * int64(len(d.states.data))
	d.drawn = make([]int32, 0, sp.MaxTokens)
	d.scratch = make([]scratch, d.team.threads)
	for i := range d.scratch {
		if err := d.scratch[i].allocate(d, s); err != nil {
			return err
		}
	}
	if err := d.selectJob.allocate(&d.mem, s); err != nil {
		return err
	}
	if err := d.attendJob.allocate(&d.mem, s); err != nil {
		return err
	}
	if err := d.draw.allocate(&d.mem, sp); err != nil {
		return err
	}
	d.memory.Scratch = d.mem.total - d.memory.KV - d.memory.Activations
	return nil
}

// allocate makes a worker's own memory.
func (sc *scratch) allocate(d *Device, s model.Shape) (err error) {
	if sc.edge, err = d.mem.floats(d.impl.edgeRows() * rowsPerTile); err != nil {
		return err
	}
	if sc.attn, err = newAttendScratch(&d.mem, s, d); err != nil {
		return err
	}
	_, keys, values := attendSizes(s)
	if sc.key, err = d.mem.floats(keys); err != nil {
		return err
	}
	if sc.value, err = d.mem.floats(values); err != nil {
		return err
	}
	if len(s.States) > 0 {
		sc.head, sc.conv = make([]float32, headFloats), make([]float32, (maxConv-1+stateRows)*convColumns)
	}
	rows := min(draftRows, s.Spec.MaxTokens)
	if sc.chunk, err = d.mem.floats(rows * stride(draftTiles*rowsPerTile)); err != nil {
		return err
	}
	sc.drafts = make([]sampler.PartialDraw, rows)
	sc.picker.Kernels = d.draw.kernels
	sc.offs, sc.ahead = make([]int, maxTilesPerPass), make([]int, maxTilesPerPass)
	return nil
}

// addActivation allocates the next buffer.
func (d *Device) addActivation(a model.ActShape, rows int) error {
	stride := stride(a.Width)
	n, err := sizeOf(rows, stride)
	if err != nil {
		return err
	}
	data, err := d.mem.floats(n)
	if err != nil {
		return err
	}
	d.acts = append(d.acts, activation{data: data, width: a.Width, stride: stride, drawn: a.Drawn, factor: a.Factor})
	return nil
}

// headFloats is what a recurrence keeps of some positions of a head. One position of the widest head
// has to fit.
const headFloats = 1 << 13

// stride is the distance of rows of the given width, in numbers.
func stride(width int) int {
	return (width+cacheLine/4-1)/(cacheLine/4)*(cacheLine/4) + rowPad
}
