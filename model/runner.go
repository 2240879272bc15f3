package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"weir/backend"
	"weir/weights"
)

// Runner is a backend.Backend over a Device, and a backend.Copier if the device is one. It allocates nothing per step.
type Runner struct {
	dev  Device
	spec backend.Spec
	net  *decoder
	// At depth 1 everything is computed in End, so that the engine can deliver
	// the tokens of the step before first.
	batch *backend.Batch
	draws *backend.Draws
	rows  int // of the step begun last
}

// Options are the sizes of a Runner. A zero field of the first group has a
// default; see Model.Options.
type Options struct {
	BlockTokens  int // KV slots per block, a multiple of 16
	NumBlocks    int // blocks in the pool, the null block included
	MaxTokens    int // most tokens of a step
	MaxSeqs      int // most sequences of a step
	MaxSeqTokens int // longest sequence, at most Config.MaxSeqTokens
	StateSlots   int // slots for the recurrent states of sequences, slot 0 included; not used by networks without

	// GroupWindows, if it is not 0, lets KV blocks return that layers with a window or chunks of fewer
	// positions do not see any more: layers that look back equally far make groups with block tables of their
	// own (Shape.GroupKV). Not every device can do that.
	GroupWindows int

	Depth       int  // 1: the device is synchronous; 2: it computes while the host works
	ThreadBound bool // the device belongs to the OS thread that opens it

	// Progress, if not nil, is called with the bytes of weights that are loaded, from
	// 0 to total.
	Progress func(done, total int64)
}

// ErrOptions says that sizes do not agree with each other or with the model.
var ErrOptions = errors.New("model: bad options")

// Options returns o with defaults in place of zeros: blocks of 16 slots, a pool for
// one sequence of full length, steps of up to 512 tokens and 256 sequences, sequences
// as long as the model allows, and depth 1.
func (m *Model) Options(o Options) Options {
	or := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	or(&o.BlockTokens, 16)
	or(&o.MaxTokens, 512)
	or(&o.MaxSeqs, 256)
	or(&o.MaxSeqTokens, m.Config.MaxSeqTokens)
	or(&o.Depth, 1)
	or(&o.StateSlots, 1+4*min(o.MaxSeqs, 8))
	if o.BlockTokens > 0 {
		or(&o.NumBlocks, 1+m.SequenceBlocks(o))
	}
	return o
}

// SequenceBlocks is the most KV blocks that a sequence of o.MaxSeqTokens holds, where o has no zeros.
func (m *Model) SequenceBlocks(o Options) int {
	s := backend.Spec{BlockTokens: o.BlockTokens, MaxTokens: o.MaxTokens, Groups: m.Groups(o)}
	return s.SequenceBlocks(o.MaxSeqTokens)
}

// Groups are the groups of layers that o.GroupWindows makes.
func (m *Model) Groups(o Options) []backend.KVGroup {
	return m.Config.GroupedShape(o.GroupWindows).Spec.Groups
}

// Check returns the error that NewRunner would return because of o, without a device.
func (m *Model) Check(o Options) error {
	o = m.Options(o)
	return o.validate(&m.Config)
}

func (o *Options) validate(c *Config) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.BlockTokens < BlockMultiple || o.BlockTokens%BlockMultiple != 0 || o.BlockTokens > maxSize:
		return bad("a KV block of %d tokens is not a multiple of %d", o.BlockTokens, BlockMultiple)
	case o.NumBlocks < 2 || o.NumBlocks > math.MaxInt32/o.BlockTokens: // slots are int32
		return bad("%d KV blocks of %d tokens are not between 2 blocks and %d", o.NumBlocks, o.BlockTokens, math.MaxInt32/o.BlockTokens)
	case o.MaxTokens < 1 || o.MaxTokens > maxSize:
		return bad("a step of %d tokens is not in [1, %d]", o.MaxTokens, maxSize)
	case o.MaxSeqs < 1 || o.MaxSeqs > maxSize:
		return bad("a step of %d sequences is not in [1, %d]", o.MaxSeqs, maxSize)
	case o.MaxSeqTokens < 1 || o.MaxSeqTokens > c.MaxSeqTokens:
		return bad("sequences of %d tokens are not in [1, %d], the length the model was made for", o.MaxSeqTokens, c.MaxSeqTokens)
	case o.StateSlots < 2 || o.StateSlots > maxSize:
		return bad("%d state slots are not in [2, %d]", o.StateSlots, maxSize)
	case o.Depth != 1 && o.Depth != 2:
		return bad("%d steps in flight are neither 1 nor 2", o.Depth)
	}
	return nil
}

// NewRunner plans dev for m's network and loads the weights. The runner owns dev;
// NewRunner closes it if it fails. m must stay open until the runner is closed.
func NewRunner(ctx context.Context, dev Device, m *Model, o Options) (_ *Runner, err error) {
	defer func() {
		if err != nil {
			dev.Close()
		}
	}()
	m.Digest() // by which Reopen knows these weights
	o = m.Options(o)
	c := &m.Config
	if err := o.validate(c); err != nil {
		return nil, err
	}
	net := newDecoder(c)
	r := &Runner{dev: dev, net: net, spec: backend.Spec{
		VocabSize: c.VocabSize, BlockTokens: o.BlockTokens, NumBlocks: o.NumBlocks,
		MaxTokens: o.MaxTokens, MaxSeqs: o.MaxSeqs, MaxSeqTokens: o.MaxSeqTokens,
		Hidden: c.Hidden, Whole: c.Network.Whole, Depth: o.Depth, ThreadBound: o.ThreadBound,
	}}
	if len(net.shape.States) > 0 {
		r.spec.StateSlots = o.StateSlots
	}
	shape := net.shape
	if o.GroupWindows > 0 && !c.Network.Whole {
		shape.GroupKV(o.GroupWindows)
		r.spec.Groups = shape.Spec.Groups
	}
	if n := c.Network.LongAfter; n > 0 && o.MaxSeqTokens > n {
		r.spec.LongAfter = n
		shape.Pieces |= PieceLongRope
	}
	shape.Spec = r.spec
	err = dev.Plan(shape)
	if err != nil {
		return nil, fmt.Errorf("model: plan the device: %w", err)
	}
	if err := r.load(ctx, m, o.Progress); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Runner) load(ctx context.Context, m *Model, progress func(done, total int64)) (err error) {
	// A device that reads tensors on goroutines of its own does the same there.
	defer m.checkpoint.CatchFault(debug.SetPanicOnFault(true), &err)
	if progress == nil {
		progress = func(done, total int64) {}
	}
	// Embeddings come last: a device that leaves them in the file reads them only to check
	// their numbers, and need not if a tied head was packed from the same bytes.
	list := slices.Clone(r.net.params)
	slices.SortStableFunc(list, func(a, b parameter) int { return cmp.Compare(isEmbedding(a), isEmbedding(b)) })
	done, total := int64(0), int64(0)
	for _, p := range list {
		total += m.partBytes(p)
	}
	progress(done, total)
	for _, p := range list {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("model: load: %w", err)
		}
		if p.value != nil {
			if *p.value, err = m.number(p.rows[0]); err != nil {
				return err
			}
			continue
		}
		// Parts that have to be copied exist only while they are loaded.
		x, err := m.matrix(p)
		if err != nil {
			return fmt.Errorf("model: load %s: %w", p.rows[0].name, err)
		}
		w, err := r.dev.Load(x)
		if err != nil {
			return fmt.Errorf("model: load %s: %w", p.rows[0].name, err)
		}
		*p.into = w
		done += m.partBytes(p)
		progress(done, total)
	}
	for _, f := range r.net.after {
		f()
	}
	// A file that was cut meanwhile may have been read as zeros.
	return m.checkpoint.Check()
}

func isEmbedding(p parameter) int {
	if p.use == Embedding {
		return 1
	}
	return 0
}

// partBytes is the size of the parts of tensors that p is made of, as stored.
func (m *Model) partBytes(p parameter) int64 {
	var n int64
	x := m.stored(p)
	for i, list := range [][]weights.Tensor{x.Rows, x.Bias} {
		views := p.rows
		if i == 1 {
			views = p.bias
		}
		for j, t := range list {
			share := 1
			for _, size := range views[j].shapeOf(t.Shape) {
				share *= size
			}
			n += t.Bytes() * int64(share) / int64(max(t.Len(), 1))
		}
	}
	return n
}

// Spec implements backend.Backend.
func (r *Runner) Spec() backend.Spec { return r.spec }

// Begin implements backend.Backend. It checks the sizes of the batch, in every build; devices
// check its contents in builds with invariants, because only the engine can break these.
func (r *Runner) Begin(b *backend.Batch) error {
	if err := b.CheckSizes(r.spec); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	r.rows = len(b.At)
	if r.spec.Depth == 1 {
		r.batch = b
		return nil
	}
	r.net.forward(r.dev, b)
	return nil
}

// Draw implements backend.Backend.
func (r *Runner) Draw(d *backend.Draws) error {
	if err := d.Check(r.spec, r.rows); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if r.spec.Depth == 1 {
		r.draws = d
		return nil
	}
	r.dev.Draw(r.net.head, r.net.h.drawn, d)
	return nil
}

// End implements backend.Backend.
func (r *Runner) End(out *backend.Out) error {
	if r.spec.Depth == 1 {
		r.net.forward(r.dev, r.batch)
		r.dev.Draw(r.net.head, r.net.h.drawn, r.draws)
		r.batch, r.draws = nil, nil
	}
	return r.dev.End(out)
}

// A Resizer is a Device whose pool of KV blocks can be allocated again, with another
// size, while no step is in flight. The contents of the pool are lost.
type Resizer interface{ ResizeKV(numBlocks int) error }

// ResizeKV changes the number of KV blocks, so that the pool can get the memory that
// is left when the weights are loaded and a step has run. The device must be a
// Resizer. All sequences are lost.
func (r *Runner) ResizeKV(numBlocks int) error {
	d, ok := r.dev.(Resizer)
	if !ok {
		return fmt.Errorf("%w: this device's KV pool has one size", ErrOptions)
	}
	if numBlocks < 2 || numBlocks > math.MaxInt32/r.spec.BlockTokens {
		return fmt.Errorf("%w: %d KV blocks of %d tokens are not between 2 blocks and %d", ErrOptions, numBlocks, r.spec.BlockTokens, math.MaxInt32/r.spec.BlockTokens)
	}
	if err := d.ResizeKV(numBlocks); err != nil {
		return fmt.Errorf("model: resize the KV pool: %w", err)
	}
	r.spec.NumBlocks = numBlocks
	return nil
}

// CopySizes implements backend.Copier, as far as the device does.
func (r *Runner) CopySizes() (block, state int, ok bool) {
	if d, can := r.dev.(backend.Copier); can {
		return d.CopySizes()
	}
	return 0, 0, false
}

// CopyOut implements backend.Copier.
func (r *Runner) CopyOut(dst []byte, state bool, id int32) error {
	return r.dev.(backend.Copier).CopyOut(dst, state, id)
}

// CopyIn implements backend.Copier.
func (r *Runner) CopyIn(src []byte, state bool, id int32) error {
	return r.dev.(backend.Copier).CopyIn(src, state, id)
}

// Shorten makes tokens the longest sequence, which may not be longer than it was. So a pool of
// KV blocks whose size is known late can decide on it. No sequence may be longer.
func (r *Runner) Shorten(tokens int) error {
	if tokens < 1 || tokens > r.spec.MaxSeqTokens {
		return fmt.Errorf("%w: sequences of %d tokens are not in [1, %d], for which the device was planned", ErrOptions, tokens, r.spec.MaxSeqTokens)
	}
	r.spec.MaxSeqTokens = tokens
	return nil
}

// FillCache runs a step that draws nothing and writes to b's slots, in each layer, the keys and
// values that it makes of the embeddings, without computing the layers. A benchmark uses it
// to measure steps at a long context that would take minutes to compute. What such
// steps draw has no meaning.
func (r *Runner) FillCache(b *backend.Batch) error {
	if len(b.At) != 0 {
		return errors.New("model: FillCache draws no row")
	}
	if err := b.CheckSizes(r.spec); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	r.net.fill(r.dev, b)
	r.dev.Draw(r.net.head, r.net.h.drawn, &backend.Draws{})
	return r.dev.End(&backend.Out{})
}

// Close closes the device.
func (r *Runner) Close() error { return r.dev.Close() }
