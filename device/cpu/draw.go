package cpu

import (
	"fmt"

	"weir/backend"
	"weir/model"
)

// drawState is what Draw leaves for End.
type drawState struct {
	head   *matrix
	act    model.Act // the input of head
	draws  *backend.Draws
	logits view    // [drawRows, VocabSize]
	topAt  []int32 // [R] where a row's entries start in Out.TopTokens
}

func (s *drawState) allocate(mem *arena, sp backend.Spec) error {
	rows := min(drawRows, sp.MaxTokens)
	n, err := product(rows, stride(sp.VocabSize))
	if err != nil {
		return err
	}
	data, err := mem.floats(n)
	s.logits = view{data: data, width: sp.VocabSize, stride: stride(sp.VocabSize)}
	s.topAt = make([]int32, sp.MaxTokens)
	return err
}

// Draw implements model.Device. The work is left to End, which knows where the
// results go.
func (d *Device) Draw(head model.Weight, src model.Act, draws *backend.Draws) {
	m := &d.params[head].mat
	if m.n != d.shape.Spec.VocabSize || m.k != src.Width {
		panic(fmt.Sprintf("cpu: Draw with a head of [%d, %d], a vocabulary of %d and rows of %d", m.n, m.k, d.shape.Spec.VocabSize, src.Width))
	}
	d.draw.head, d.draw.act, d.draw.draws = m, src, draws
}

// End implements model.Device.
func (d *Device) End(out *backend.Out) error {
	s := &d.draw
	rows := len(d.batch.At)
	if s.draws != nil && rows > 0 {
		top, host := int32(0), 0
		for r := range s.draws.Rows {
			s.topAt[r] = top
			top += s.draws.Rows[r].Top
		}
		if s.head.format.quantized() {
			d.quantize(s.act)
		}
		for r0 := 0; r0 < rows; r0 += drawRows {
			n := min(drawRows, rows-r0)
			d.mul(s.logits, s.head, d.view(s.act), r0, n)
			host = s.toHost(out, r0, n, host)
			if s.draws.Ready != nil && r0 == 0 {
				s.draws.Ready()
			}
			d.pickJob.out, d.pickJob.first = out, r0
			d.team.run(n, &d.pickJob)
		}
	}
	d.drawn = append(d.drawn[:0], out.Tokens[:rows]...)
	d.batch, s.draws, d.pickJob.out = nil, nil, nil
	return nil
}

// toHost copies the logits of rows [r0, r0+n) that Draw.Host asks for, before
// anything changes them; host rows went before them.
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
	j.d.scratch[worker].picker.Pick(s.logits.row(chunk), s.draws, row, j.out, int(s.topAt[row]))
}
