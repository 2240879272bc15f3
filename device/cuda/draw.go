//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"weir/backend"
	"weir/device/cuda/kernels"
	"weir/internal/cudrv"
	"weir/model"
	"weir/sampler"
)

// drawing is the device memory of draws, and what the host draws with.
type drawing struct {
	in     growing // rows, edits, masks
	out    growing // results, then top tokens
	picker sampler.Picker
}

// drawn is what End needs to know about a step's draws.
type drawn struct {
	rows    int
	draws   *backend.Draws
	results []kernels.PickResult // [rows], pinned
	tops    []kernels.PickTop    // of the rows that the device reports on, pinned
}

func (s *drawn) reset(rows int) { *s = drawn{rows: rows} }

// growing is device memory whose contents need not outlive a step.
type growing struct {
	ptr  cu.DevicePtr
	size int
}

// fit makes g hold n bytes. The device may still use the old memory, so fit waits for it
// first. Sizes double, so that this is rare.
func (g *growing) fit(d *Device, n int) error {
	if n <= g.size {
		return nil
	}
	if err := d.run.stream.Synchronize(); err != nil {
		return deviceError("wait for the device", err)
	}
	if err := g.free(); err != nil {
		return deviceError("free memory", err)
	}
	size := int(roundUp(int64(n)*2, 64<<10))
	var err error
	if g.ptr, err = cu.MemAlloc(int64(size)); err != nil {
		return deviceError(fmt.Sprintf("allocate %d KiB for draws", size>>10), err)
	}
	g.size = size
	return nil
}

func (g *growing) free() error {
	if g.size == 0 {
		return nil
	}
	p := g.ptr
	*g = growing{}
	return cudrv.Wrap(cu.MemFree(p))
}

// fit makes p hold n bytes. The device must not be using it.
func (p *pinned) fit(n int) error {
	if n <= len(p.mem) {
		return nil
	}
	if len(p.mem) > 0 {
		if err := p.free(); err != nil {
			return deviceError("free pinned memory", err)
		}
	}
	q, err := newPinned(2 * n)
	*p = q
	return err
}

const (
	rowBytes  = int(unsafe.Sizeof(backend.Draw{}))
	editBytes = int(unsafe.Sizeof(backend.Edit{}))
)

// The kernels read these as Go lays them out.
var _ = [1]struct{}{}[rowBytes-56+editBytes-16]

// plan allocates for usual steps: a row for each sequence, with some edits each.
func (s *drawing) plan(d *Device) error {
	rows := d.shape.Spec.MaxSeqs
	in := rows*(rowBytes+16*editBytes) + 64
	out := rows*(int(unsafe.Sizeof(kernels.PickResult{}))+20*int(unsafe.Sizeof(kernels.PickTop{}))) + 64
	if err := errors.Join(s.in.fit(d, in), s.out.fit(d, out)); err != nil {
		return err
	}
	for i := range d.flights {
		f := &d.flights[i]
		if err := errors.Join(f.draws.fit(in), f.out.fit(out)); err != nil {
			return err
		}
	}
	return nil
}

func (s *drawing) close() error {
	err := errors.Join(s.in.free(), s.out.free())
	*s = drawing{}
	return err
}

// onHost reports whether the host draws a row, because it asks for more top tokens than
// the kernel reports.
func onHost(r *backend.Draw) bool { return r.Top > kernels.MaxTop && !r.Dead }

// Draw implements model.Device.
func (d *Device) Draw(head model.Head, src model.Act, draws *backend.Draws) {
	if d.graphs.capturing {
		panic("cuda: Draw before EndForward")
	}
	f := d.slot(d.steps.begun)
	f.state.draws = draws
	if d.err == nil && f.state.rows > 0 {
		if err := d.draw(f, head, src, draws); err != nil {
			d.fail(err)
		}
	}
	d.launch("set_flag", 1, 1, 1, f.flag.dev, uint64(f.number))
}

func (d *Device) draw(f *flight, head model.Head, src model.Act, draws *backend.Draws) error {
	p, w, rows := &d.params[head.W], &d.work, f.state.rows
	if !(p.n == d.shape.Spec.VocabSize && p.k == src.Width) {
		panic(fmt.Sprintf("cuda: Draw with a head of [%d, %d], a vocabulary of %d and rows of %d", p.n, p.k, d.shape.Spec.VocabSize, src.Width))
	}
	x, ldx := d.factor(src)
	logits := func(r0 int) int {
		n := min(w.rows, rows-r0)
		d.gemm(p, w.logits, w.ld, x+uint64(r0*ldx*2), ldx, n, kernels.StoreF32)
		d.headed(head, n)
		return n
	}
	n := logits(0) // this runs while the masks are filled
	if draws.Ready != nil {
		draws.Ready()
	}
	at, err := d.packDraws(f, draws)
	if err != nil {
		return err
	}
	host := 0
	for r0 := 0; ; n = logits(r0) {
		for r := r0; r < r0+n; r++ {
			if row := &draws.Rows[r]; row.Host || onHost(row) {
				v := d.shape.Spec.VocabSize * 4
				to := unsafe.Pointer(&f.host.mem[host*v])
				if err := cu.MemcpyDtoHAsync(to, cu.DevicePtr(w.logits+uint64((r-r0)*w.ld*4)), int64(v), d.run.stream); err != nil {
					return deviceError("copy logits", err)
				}
				host++
			}
		}
		d.launch("pick", n, 1, 1, w.drawn, uint64(d.drawing.out.ptr), at.tops, w.logits, w.z, w.near,
			at.rows, at.edits, at.masks, i32(r0), i32(d.shape.Spec.VocabSize), i32(w.ld))
		if r0 += n; r0 == rows {
			break
		}
	}
	if err := cu.MemcpyDtoHAsync(f.out.pointer(), d.drawing.out.ptr, int64(f.out.n), d.run.stream); err != nil {
		return deviceError("copy results", err)
	}
	return nil
}

// packed are the device addresses of a step's draws.
type packed struct{ rows, edits, masks, tops uint64 }

// packDraws copies the draws to the device, and makes room for their results.
func (d *Device) packDraws(f *flight, draws *backend.Draws) (at packed, err error) {
	top, host := 0, 0
	for r := range draws.Rows {
		row := &draws.Rows[r]
		if row.Host || onHost(row) {
			host++
		}
		if !onHost(row) {
			top += int(row.Top)
		}
	}
	in := len(draws.Rows)*rowBytes + len(draws.Edits)*editBytes + len(draws.Masks)*4 + 64
	out := len(draws.Rows)*int(unsafe.Sizeof(kernels.PickResult{})) + top*int(unsafe.Sizeof(kernels.PickTop{})) + 64
	if err := errors.Join(f.draws.fit(in), f.out.fit(out), f.host.fit(host*d.shape.Spec.VocabSize*4), d.drawing.in.fit(d, in), d.drawing.out.fit(d, out)); err != nil {
		return at, err
	}
	f.draws.n, f.out.n = 0, 0
	base := uint64(d.drawing.in.ptr)
	rows, off := take[backend.Draw](&f.draws, len(draws.Rows))
	copy(rows, draws.Rows)
	for r := range rows {
		if onHost(&rows[r]) { // only its token is needed on the device
			rows[r].Top, rows[r].Logprobs = 0, backend.NoLogprobs
		}
	}
	at.rows = base + uint64(off)
	edits, off := take[backend.Edit](&f.draws, len(draws.Edits))
	copy(edits, draws.Edits)
	at.edits = base + uint64(off)
	masks, off := take[uint32](&f.draws, len(draws.Masks))
	copy(masks, draws.Masks)
	at.masks = base + uint64(off)
	f.state.results, _ = take[kernels.PickResult](&f.out, len(rows))
	f.state.tops, off = take[kernels.PickTop](&f.out, top)
	at.tops = uint64(d.drawing.out.ptr) + uint64(off)
	if err := cu.MemcpyHtoDAsync(d.drawing.in.ptr, f.draws.pointer(), int64(f.draws.n), d.run.stream); err != nil {
		return at, deviceError("copy the draws", err)
	}
	return at, nil
}

// End implements model.Device.
func (d *Device) End(out *backend.Out) error {
	d.steps.ended++
	f := d.slot(d.steps.ended)
	if d.err == nil {
		if err := d.await(f); err != nil {
			d.fail(err)
		}
	}
	if d.err != nil {
		return d.err
	}
	if f.state.rows > 0 {
		d.report(f, out)
	}
	f.state.draws = nil
	return nil
}

// await polls the word that the step's last kernel writes. From time to time it asks the
// driver whether the stream has failed, which does not block either.
func (d *Device) await(f *flight) error {
	flag := (*uint32)(f.flag.pointer())
	const spins = 100 // a few microseconds
	var began time.Time
	for i := 0; atomic.LoadUint32(flag) != f.number; i++ {
		if i < spins {
			runtime.Gosched()
			continue
		}
		if i == spins {
			began = time.Now()
		}
		switch busy, err := cudrv.Busy(d.run.stream); {
		case err != nil:
			return deviceError("step", err)
		case !busy && atomic.LoadUint32(flag) != f.number:
			return fmt.Errorf("%w: the stream is empty, but step %d has not ended", ErrDevice, f.number)
		}
		if time.Since(began) > d.cfg.Timeout {
			hung.Lock()
			if hung.devices == nil {
				hung.devices = map[int]bool{}
			}
			hung.devices[d.cfg.Ordinal] = true
			hung.Unlock()
			return fmt.Errorf("%w: no answer for %v", ErrDevice, d.cfg.Timeout)
		}
		if atomic.LoadUint32(flag) != f.number {
			time.Sleep(20 * time.Microsecond)
		}
	}
	return nil
}

var ninf = float32(math.Inf(-1))

// report fills out with what the device has picked.
func (d *Device) report(f *flight, out *backend.Out) {
	s, v := &f.state, d.shape.Spec.VocabSize
	tops := s.tops
	top, host, logits := 0, 0, 0
	for r := range s.draws.Rows {
		row, res := &s.draws.Rows[r], &s.results[r]
		n := int(row.Top)
		var own []float32
		if row.Host || onHost(row) {
			own = unsafe.Slice((*float32)(unsafe.Pointer(&f.host.mem[host*v*4])), v)
			host++
		}
		if row.Host {
			copy(out.Logits[logits*v:(logits+1)*v], own)
			logits++
		}
		switch {
		case onHost(row):
			d.drawing.picker.Pick(own, s.draws, r, out, top)
			top += n
			continue
		case row.Dead:
			out.Tokens[r] = -1
		case row.Logprobs == backend.NoLogprobs:
			out.Tokens[r] = res.Token
			for i := top; i < top+n; i++ {
				out.TopTokens[i], out.TopLogprobs[i] = -1, ninf
			}
		default:
			dist := sampler.NewDistribution(res.ZMax, res.Mass)
			logprob := func(z float32) float32 {
				if z == ninf {
					return ninf
				}
				return dist.Logprob(z)
			}
			out.Tokens[r], out.Logprobs[r], out.Ranks[r] = res.Token, logprob(res.Z), res.Rank
			for i, t := range tops[:n] {
				out.TopTokens[top+i], out.TopLogprobs[top+i] = t.Token, logprob(t.Z)
			}
		}
		tops = tops[n:]
		top += n
	}
}

// WarmUp runs the largest step that be takes and a step of one token, so that the driver
// allocates all that it ever will. It uses the first WarmBlocks blocks.
func WarmUp(be backend.Backend) error {
	s := be.Spec()
	for _, tokens := range []int{s.MaxTokens, 1} {
		b, d := &backend.Batch{}, &backend.Draws{}
		block := int32(1)
		for len(b.Tokens) < tokens && len(b.QueryEnd) < s.MaxSeqs && (s.StateSlots == 0 || len(b.QueryEnd)+1 < s.StateSlots) {
			n := min(tokens-len(b.Tokens), s.MaxSeqTokens)
			first := block
			for i := range n {
				if i%s.BlockTokens == 0 {
					b.Tables = append(b.Tables, block)
					block++
				}
				b.Tokens, b.Pos = append(b.Tokens, int32(i%s.VocabSize)), append(b.Pos, int32(i))
				b.Slots = append(b.Slots, (first+int32(i/s.BlockTokens))*int32(s.BlockTokens)+int32(i%s.BlockTokens))
			}
			b.At = append(b.At, int32(len(b.Tokens)-1))
			b.QueryEnd, b.KVLen, b.TableEnd = append(b.QueryEnd, int32(len(b.Tokens))), append(b.KVLen, int32(n)), append(b.TableEnd, int32(len(b.Tables)))
			if s.StateSlots > 0 {
				b.StateIn, b.StateOut = append(b.StateIn, 0), append(b.StateOut, int32(len(b.QueryEnd)))
			}
			d.Rows = append(d.Rows, backend.Draw{Temperature: 1, TopP: 1, Mask: -1, Allow: -1, Target: -1})
		}
		out := &backend.Out{Tokens: make([]int32, len(b.At)), Logprobs: make([]float32, len(b.At)), Ranks: make([]int32, len(b.At))}
		if err := be.Begin(b); err != nil {
			return err
		}
		if err := be.Draw(d); err != nil {
			return err
		}
		if err := be.End(out); err != nil {
			return fmt.Errorf("warm-up with %d tokens: %w", len(b.Tokens), err)
		}
		if slices.Max(out.Tokens) >= int32(s.VocabSize) {
			return fmt.Errorf("%w: warm-up drew token %d of a vocabulary of %d", ErrDevice, slices.Max(out.Tokens), s.VocabSize)
		}
	}
	return nil
}

// WarmBlocks is the number of KV blocks that WarmUp needs, the null block
// included.
func WarmBlocks(s backend.Spec) int {
	perSeq := cdiv(min(s.MaxSeqTokens, s.MaxTokens), s.BlockTokens)
	return 1 + perSeq*min(s.MaxSeqs, cdiv(s.MaxTokens, s.MaxSeqTokens))
}

// FreeForKV is the size in bytes that the KV pool may have, if all memory in use on the
// device, by this process and others, is to stay within share of it.
func (d *Device) FreeForKV(share float64) (int64, error) {
	free, total, err := cu.MemInfo()
	if err != nil {
		return 0, deviceError("ask for free memory", err)
	}
	return free + d.pool.total - int64((1-share)*float64(total)), nil
}
