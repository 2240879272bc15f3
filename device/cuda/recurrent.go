//go:build cuda && linux && amd64

package cuda

import (
	"fmt"

	"weir/backend"
	"weir/device/cuda/kernels"
	"weir/model"
)

// states are the recurrent states of sequences, [slot][state] float32. Slot 0 stays zero. An operation
// reads the state of a sequence in one slot and leaves it in another, or in the same.
type states struct {
	base uint64
	at   []int // where each state starts in a slot
	slot int   // numbers of a slot
}

// plan says how much memory the states of a network need.
func (x *states) plan(s model.Shape) []sized {
	x.at = x.at[:0]
	x.slot = 0
	for _, n := range s.States {
		x.at = append(x.at, x.slot)
		x.slot += int(roundUp(int64(n), actAlign))
	}
	if x.slot == 0 {
		return nil
	}
	return []sized{{&x.base, []int{s.Spec.StateSlots, x.slot, 4}}}
}

// packRuns writes the sequences of a batch, and empty ones up to n.
func (s *step) packRuns(in *pinned, b *backend.Batch, n int) {
	list, at := take[kernels.StateRun](in, n)
	s.at.runs, s.runs = s.input+uint64(at), n
	clear(list)
	row := int32(0)
	for i, end := range b.QueryEnd {
		list[i] = kernels.StateRun{First: row, End: end, In: b.StateIn[i], Out: b.StateOut[i]}
		row = end
	}
}

// Conv implements model.Device.
func (d *Device) Conv(dst, src model.Act, c *model.Conv) {
	w := &d.params[c.W]
	if !(dst.Width == src.Width && w.n == src.Width*c.Width && c.Width >= 2 && c.Width <= kernels.MostTaps) {
		panic(fmt.Sprintf("cuda: a convolution of %d over rows of %d into rows of %d with %d weights", c.Width, src.Width, dst.Width, w.n))
	}
	var bias uint64
	if c.B != model.NoWeight {
		bias = d.params[c.B].data
	}
	y, ldy := d.act(dst)
	x, ldx := d.act(src)
	st, a := &d.work.states, c.Act
	d.launch("conv", cdiv(src.Width, 128), d.step.runs, 1, y, x, w.data, bias, st.base, d.step.at.runs, uint64(st.slot), i32(st.at[c.State]),
		i32(src.Width), i32(c.Width), i32(ldy), i32(ldx), i32(d.wide(dst, wideDst)|d.wide(src, wideSrc)),
		i32(int(a.Kind)), f32(a.Alpha), f32(a.Beta), f32(a.Limit), f32(a.UpPlus))
}

// Names of the recurrences, by kernels.KeyRows.
var deltaNames, scanNames = func() (delta, scan []string) {
	for _, n := range kernels.KeyRows {
		delta, scan = append(delta, fmt.Sprintf("delta_d%d", n)), append(scan, fmt.Sprintf("scan_d%d", n))
	}
	return delta, scan
}()

// keyed is the entry of a recurrence whose states have so many rows. More is an error of the step, because no shape tells it before.
func (d *Device) keyed(names []string, rows int) string {
	for i, n := range kernels.KeyRows {
		if rows <= n {
			return names[i]
		}
	}
	d.fail(fmt.Errorf("%w: states of %d rows, but the kernels take at most %d", ErrConfig, rows, kernels.MostKeys))
	return ""
}

// Delta implements model.Device.
func (d *Device) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) {
	decays := x.ValueHeads
	if x.PerChannel {
		decays *= x.KeyDim
	}
	weight, bias := &d.params[x.A], &d.params[x.DtBias]
	if !(q.Width == x.KeyHeads*x.KeyDim && k.Width == q.Width && v.Width == x.ValueHeads*x.ValueDim && dst.Width == v.Width && a.Width == decays && b.Width == x.ValueHeads &&
		x.ValueHeads%x.KeyHeads == 0 && weight.n == x.ValueHeads && bias.n == decays && q.Buf == k.Buf && q.Buf == v.Buf && q.Buf == a.Buf && q.Buf == b.Buf) {
		panic(fmt.Sprintf("cuda: the delta rule for rows of %d, %d, %d, %d and %d into rows of %d", q.Width, k.Width, v.Width, a.Width, b.Width, dst.Width))
	}
	y, ldy := d.act(dst)
	var in [5]uint64
	ld := 0
	for i, view := range []model.Act{q, k, v, a, b} {
		in[i], ld = d.act(view)
	}
	st := &d.work.states
	d.launch(d.keyed(deltaNames, x.KeyDim), cdiv(x.ValueDim, 32), x.ValueHeads, d.step.runs, y, in[0], in[1], in[2], in[3], in[4], weight.data, bias.data,
		st.base, d.step.at.runs, uint64(st.slot), i32(st.at[x.State]), i32(x.KeyDim), i32(x.ValueDim), i32(x.ValueHeads/x.KeyHeads), i32(flag(x.PerChannel)),
		i32(ldy), i32(ld), i32(d.wide(dst, wideDst)|d.wide(q, wideSrc)), f32(x.Scale), f32(x.L2Eps), f32(x.BetaScale))
}

// Scan implements model.Device. The state of a head is kept as [StateDim, HeadDim].
func (d *Device) Scan(dst, x, b, c, dt model.Act, s *model.Scan) {
	decay, skip, bias := &d.params[s.A], &d.params[s.D], &d.params[s.DtBias]
	if !(x.Width == s.Heads*s.HeadDim && dst.Width == x.Width && b.Width == s.Groups*s.StateDim && c.Width == b.Width && dt.Width == s.Heads && s.Heads%s.Groups == 0 &&
		decay.n == s.Heads && skip.n == s.Heads && bias.n == s.Heads && x.Buf == b.Buf && x.Buf == c.Buf && x.Buf == dt.Buf) {
		panic(fmt.Sprintf("cuda: a scan of rows of %d, %d, %d and %d into rows of %d", x.Width, b.Width, c.Width, dt.Width, dst.Width))
	}
	y, ldy := d.act(dst)
	var in [4]uint64
	ld := 0
	for i, view := range []model.Act{x, b, c, dt} {
		in[i], ld = d.act(view)
	}
	st := &d.work.states
	d.launch(d.keyed(scanNames, s.StateDim), cdiv(s.HeadDim, 32), s.Heads, d.step.runs, y, in[0], in[1], in[2], in[3], decay.data, skip.data, bias.data,
		st.base, d.step.at.runs, uint64(st.slot), i32(st.at[s.State]), i32(s.HeadDim), i32(s.StateDim), i32(s.Heads/s.Groups),
		i32(ldy), i32(ld), i32(d.wide(dst, wideDst)|d.wide(x, wideSrc)), f32(s.DtMin), f32(s.DtMax))
}
