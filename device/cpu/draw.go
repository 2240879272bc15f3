package cpu

import (
	"fmt"

	"weir/backend"
	"weir/model"
	"weir/sampler"
)

// drawState holds the arguments of Draw until End carries it out.
type drawState struct {
	head    *linear // nil: rows are only reported
	scale   float32 // of logits
	softcap float32
	act     model.Act // the input of head
	draws   *backend.Draws
	logits  view            // [drawRows, VocabSize]
	topAt   []int32         // [R] where a row's entries start in Out.TopTokens
	kernels sampler.Kernels // of drafts and picks
}

func (s *drawState) allocate(mem *arena, sp backend.Spec) error {
	rows := min(drawRows, sp.MaxTokens)
	n, err := sizeOf(rows, stride(sp.VocabSize))
	if err != nil {
		return err
	}
	data, err := mem.floats(n)
	s.logits = view{data: data, width: sp.VocabSize, stride: stride(sp.VocabSize)}
	s.topAt = make([]int32, sp.MaxTokens)
	return err
}

// Draw implements model.Device. It is carried out by End, which knows where the
// results go.
func (d *Device) Draw(head model.Head, src model.Act, draws *backend.Draws) {
	var m *linear
	if head.W != model.NoWeight {
		if m = &d.params[head.W].linear; m.n != d.shape.Spec.VocabSize || m.k != src.Width {
			panic(fmt.Sprintf("cpu: Draw with a head of [%d, %d], a vocabulary of %d and rows of %d", m.n, m.k, d.shape.Spec.VocabSize, src.Width))
		}
	}
	d.draw.head, d.draw.act, d.draw.draws = m, src, draws
	d.draw.scale, d.draw.softcap = head.Scale, head.Softcap
}

// End implements model.Device.
func (d *Device) End(out *backend.Out) error {
	s := &d.draw
	if err := d.failed.take(); err != nil {
		d.batch, s.draws = nil, nil
		return fmt.Errorf("%w: %w", backend.ErrModelLost, err)
	}
	rows := len(d.batch.At)
	if s.draws != nil && rows > 0 {
		top, host := int32(0), 0
		for r := range s.draws.Rows {
			s.topAt[r] = top
			top += s.draws.Rows[r].Top
		}
		drawn := d.report(out)
		switch {
		case drawn == 0:
			if s.draws.Ready != nil {
				s.draws.Ready()
			}
			rows = 0
		case s.draftable():
			d.drawWhole(out)
			rows = 0
		}
		for r0 := 0; r0 < rows; r0 += drawRows {
			n := min(drawRows, rows-r0)
			d.multiplyHead(s.logits, r0, n)
			host = s.toHost(out, r0, n, host)
			if s.draws.Ready != nil && r0 == 0 {
				s.draws.Ready()
			}
			d.pickJob.out, d.pickJob.first = out, r0
			d.team.run(1, n, &d.pickJob)
		}
	}
	d.drawn = append(d.drawn[:0], out.Tokens[:len(d.batch.At)]...)
	d.batch, s.draws, d.pickJob.out = nil, nil, nil
	return nil
}

// report copies the vectors of the rows that want them, whose token is then -1, and returns how
// many rows are left to draw.
func (d *Device) report(out *backend.Out) (drawn int) {
	s := &d.draw
	src, at := d.view(s.act), 0
	for r := range s.draws.Rows {
		if !s.draws.Rows[r].Hidden {
			drawn++
			continue
		}
		copy(out.Hidden[at*src.width:(at+1)*src.width], src.row(r))
		out.Tokens[r] = -1
		at++
	}
	if drawn > 0 && s.head == nil {
		panic("cpu: Draw of a token without a head")
	}
	return drawn
}

// draftable reports whether it is enough, for every row, to see each of its logits once.
// If it is not for one row, the logits of all rows are computed and stored, because the
// head is read once for all rows; Pick then draws the others from their logits with a
// draft.
func (s *drawState) draftable() bool {
	for r := range s.draws.Rows {
		if !s.draws.Rows[r].Hidden && !sampler.CanDrawInParts(s.draws, r) {
			return false
		}
	}
	return true
}

// drawWhole draws all rows without their logits: each chunk of the head's
// product is drawn from while it is in the cache, by the worker that computed
// it. So the threads share the draw as they share the product, for a single row too.
func (d *Device) drawWhole(out *backend.Out) {
	s := &d.draw
	rows := len(d.batch.At)
	for r0 := 0; r0 < rows; r0 += draftRows {
		n := min(draftRows, rows-r0)
		for i := range d.scratch {
			for r := range n {
				d.scratch[i].drafts[r].Start(&s.kernels, &s.draws.Rows[r0+r])
			}
		}
		d.multiplyHead(view{}, r0, n)
		for r := range n {
			whole := &d.scratch[0].drafts[r]
			for i := range d.scratch[1:] {
				whole.Merge(&d.scratch[i+1].drafts[r])
			}
			if !s.draws.Rows[r0+r].Hidden {
				out.Tokens[r0+r] = whole.Token()
			}
		}
	}
	if s.draws.Ready != nil {
		s.draws.Ready()
	}
}

// multiplyHead computes the logits of rows [r0, r0+n) into y, or adds them to the drafts.
func (d *Device) multiplyHead(y view, r0, n int) {
	d.productJob.logits = true
	d.multiplyAll(y, d.draw.head, d.draw.act, r0, n)
	d.productJob.logits = false
}

// toHost copies the logits of those rows in [r0, r0+n) that Draw.Host asks for, before
// anything changes them. host is how many rows have been copied; it returns their new
// number.
func (s *drawState) toHost(out *backend.Out, r0, n, host int) int {
	for r := range n {
		if row := &s.draws.Rows[r0+r]; row.Host {
			v := s.logits.width
			copy(out.Logits[host*v:(host+1)*v], s.logits.row(r))
			host++
		}
	}
	return host
}

// pickJob draws one row per chunk.
type pickJob struct {
	d     *Device
	out   *backend.Out
	first int // the row of chunk 0
}

func (j *pickJob) do(worker, chunk int) {
	s, row := &j.d.draw, j.first+chunk
	if s.draws.Rows[row].Hidden {
		return // it is reported already
	}
	j.d.scratch[worker].picker.Pick(s.logits.row(chunk), s.draws, row, j.out, int(s.topAt[row]))
}

// bound scales a row's logits, and bounds them.
func (s *drawState) bound(im *impl, sc *scratch, x []float32) {
	if s.scale != 1 {
		im.scale(x, x, s.scale)
	}
	if s.softcap > 0 {
		im.bound(x, sc.attn.tanh, 1/s.softcap, s.softcap)
	}
}
