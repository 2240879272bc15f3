package engine

import (
	"fmt"
	"slices"

	"weir/backend"
	"weir/internal/invariants"
	"weir/scheduler"
)

// flight is one step with its memory. The backend may read batch and draws
// until the step's End, so two flights alternate.
type flight struct {
	batch  backend.Batch
	draws  backend.Draws
	out    backend.Out
	chunks []scheduler.Chunk
	rowEnd []int // [len(chunks)] end of each chunk's rows in batch.At
	masks  filling
	ready  func() // masks.ready, bound once
}

// step is the whole data path, in the order that the package comment gives.
func (e *Engine) step() error {
	if e.spec.Depth == 1 {
		f := &e.flights[0]
		planned := e.plan(f)
		invariants.Check(planned, "engine: nothing to plan and nothing in flight")
		if !planned {
			return nil
		}
		if err := e.be.Begin(&f.batch); err != nil {
			return err
		}
		if err := e.draw(f); err != nil {
			return err
		}
		e.signal()
		return e.land(f)
	}
	old, f := e.flying, &e.flights[0]
	if old == f {
		f = &e.flights[1]
	}
	e.flying = nil
	planned := e.plan(f)
	invariants.Check(planned || old != nil, "engine: nothing to plan and nothing in flight")
	if planned {
		if err := e.be.Begin(&f.batch); err != nil {
			return err
		}
	}
	if old != nil {
		if err := e.land(old); err != nil {
			return err
		}
	}
	if planned {
		if err := e.draw(f); err != nil {
			return err
		}
		e.flying = f
	}
	e.signal()
	return nil
}

// plan fills f with the next step and reports whether there is one.
func (e *Engine) plan(f *flight) bool {
	f.chunks = append(f.chunks[:0], e.sched.Schedule()...)
	if len(f.chunks) == 0 {
		return false
	}
	b := &f.batch
	b.Reset()
	f.rowEnd = f.rowEnd[:0]
	for _, c := range f.chunks {
		q := c.Seq
		w := q.Owner.(*work)
		if w.stamps.scheduled == never {
			w.stamps.scheduled = e.now
		}
		for p := c.Start; p < c.Start+c.N; p++ {
			tok := ^w.row // being drawn by the step before
			if p < len(q.Tokens) {
				tok = q.Tokens[p]
			}
			if w.scores(p) {
				b.At = append(b.At, int32(len(b.Tokens)))
			}
			b.Tokens = append(b.Tokens, tok)
			b.Pos = append(b.Pos, int32(p))
			b.Slots = append(b.Slots, e.kv.Slot(&q.Table, p))
		}
		if c.Draw {
			w.row = int32(len(b.At))
			b.At = append(b.At, int32(len(b.Tokens)-1))
		}
		f.rowEnd = append(f.rowEnd, len(b.At))
		b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(c.Start+c.N))
		b.Tables = append(b.Tables, q.Table.Blocks...)
		b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
	}
	return true
}

// scores says whether the logits at prompt position p are wanted, for the
// score of the token behind it. Scores survive a preemption; they are not
// asked for twice.
func (w *work) scores(p int) bool {
	return w.req.Prompt != nil && w.choice == 0 && p+1 < w.seq.Prompt && p >= len(w.req.prompt)
}

// draw hands over f's draws. Every earlier step has been booked.
func (e *Engine) draw(f *flight) error {
	d := &f.draws
	d.Reset()
	f.masks.reset()
	words, row, top := e.spec.MaskWords(), 0, 0
	for i, c := range f.chunks {
		w := c.Seq.Owner.(*work)
		for ; row < f.rowEnd[i]; row++ {
			at := int(f.batch.Pos[f.batch.At[row]])
			switch {
			case c.Seq.Status == scheduler.Finished:
				d.Rows = append(d.Rows, backend.Draw{Dead: true, Mask: -1, Allow: -1, Target: -1, EditEnd: int32(len(d.Edits))})
			case at+1 < c.Seq.Prompt:
				d.Rows = append(d.Rows, backend.Draw{Target: c.Seq.Tokens[at+1], Logprobs: w.req.Prompt.Mode, Top: int32(w.req.Prompt.Top),
					Mask: -1, Allow: -1, EditEnd: int32(len(d.Edits))})
			default:
				w.smp.Plan(d, words, c.Seq.Tokens[c.Seq.Prompt:])
				if w.mask != nil {
					d.Rows[row].Mask = int32(len(d.Masks) / words)
					d.Masks = slices.Grow(d.Masks, words)[:len(d.Masks)+words]
					f.masks.add(w.mask, d.Rows[row].Mask)
				}
			}
			top += int(d.Rows[row].Top)
		}
	}
	if f.masks.begin(d.Masks, words) {
		d.Ready = f.ready
		e.wakeFiller()
	}
	o := &f.out
	o.Tokens = slices.Grow(o.Tokens[:0], row)[:row]
	o.Logprobs = slices.Grow(o.Logprobs[:0], row)[:row]
	o.Ranks = slices.Grow(o.Ranks[:0], row)[:row]
	o.TopTokens = slices.Grow(o.TopTokens[:0], top)[:top]
	o.TopLogprobs = slices.Grow(o.TopLogprobs[:0], top)[:top]
	return e.be.Draw(d)
}

// land waits for f and books it.
func (e *Engine) land(f *flight) error {
	if err := e.be.End(&f.out); err != nil {
		return err
	}
	e.now = e.clock()
	f.masks.ready() // a device whose rows have all died need not have asked
	e.count.Steps++
	row, top := 0, 0
	for i, c := range f.chunks {
		w := c.Seq.Owner.(*work)
		for ; row < f.rowEnd[i]; row++ {
			n := int(f.draws.Rows[row].Top)
			s := drawn{&f.out, row, top, n}
			if !c.Draw || row < f.rowEnd[i]-1 {
				w.score(int(f.batch.Pos[f.batch.At[row]]), s)
			} else if err := e.book(w, c, s); err != nil {
				return err
			}
			top += n
		}
		if !c.Draw {
			e.sched.Commit(c, -1)
		}
	}
	e.sched.EndStep()
	f.chunks = f.chunks[:0]
	if invariants.Enabled {
		invariants.NoError(e.sched.Check())
	}
	return nil
}

// drawn is a row of a step's result.
type drawn struct {
	out      *backend.Out
	row      int
	top, num int // its alternatives are out.Top…[top:top+num]
}

// alternatives appends the row's alternatives to dst.
func (s drawn) alternatives(dst []TokenLogprob) []TokenLogprob {
	for i := s.top; i < s.top+s.num && s.out.TopTokens[i] >= 0; i++ {
		dst = append(dst, TokenLogprob{s.out.TopTokens[i], s.out.TopLogprobs[i]})
	}
	return dst
}

// score books the score of the prompt token behind position p.
func (w *work) score(p int, s drawn) {
	q := w.req
	if w.seq.Status == scheduler.Finished || p != len(q.prompt) {
		return // asked for a second time before the first answer was in
	}
	if q.prompt == nil {
		q.prompt = make([]PromptLogprob, 0, len(q.Tokens)-1)
	}
	q.prompt = append(q.prompt, PromptLogprob{Token: s.out.Tokens[s.row], Logprob: s.out.Logprobs[s.row], Rank: s.out.Ranks[s.row], Top: s.alternatives(nil)})
}

// book books a drawn token, and those behind it that need no draw.
func (e *Engine) book(w *work, c scheduler.Chunk, s drawn) error {
	q := c.Seq
	if q.Status == scheduler.Finished {
		e.sched.Commit(c, -1)
		return nil
	}
	tok := s.out.Tokens[s.row]
	if int(tok) >= e.spec.VocabSize {
		return fmt.Errorf("the backend drew token %d of a vocabulary of %d", tok, e.spec.VocabSize)
	}
	e.sched.Commit(c, tok)
	if tok < 0 {
		e.fail(w, ErrNoToken)
		return nil
	}
	if w.choice == 0 && !w.req.begun {
		w.req.begun = true
		e.count.PromptTokens += uint64(q.Prompt)
		e.count.CachedTokens += uint64(q.Cached)
		w.req.stream.begin(w.req.index, q.Cached, w.req.prompt)
	}
	ev := Event{Token: tok}
	if w.req.Sampling.Logprobs != backend.NoLogprobs {
		ev.Logprob, ev.Rank = s.out.Logprobs[s.row], s.out.Ranks[s.row]
	}
	e.alts = s.alternatives(e.alts[:0])
	e.take(w, ev)
	for w.mask != nil && q.Status != scheduler.Finished && q.Pending == 0 {
		tok := w.mask.Only()
		if tok < 0 || !w.smp.Legal(tok, q.Tokens[q.Prompt:]) {
			break
		}
		e.sched.Append(q, tok)
		ev := Event{Token: tok}
		if w.req.Sampling.Logprobs != backend.NoLogprobs {
			ev.Rank = 1
			e.alts = append(e.alts[:0], TokenLogprob{Token: tok})[:min(s.num, 1)]
		}
		e.count.ForcedTokens++
		e.take(w, ev)
	}
	return nil
}

// take books a token that the scheduler has booked: sampling state, mask, text,
// stop strings, event. Its alternatives are e.alts.
func (e *Engine) take(w *work, ev Event) {
	q := &w.seq
	w.smp.Accept(ev.Token)
	e.count.GenerationTokens++
	e.stamp(w)
	if w.mask != nil && !w.mask.Accept(ev.Token) {
		e.fail(w, errIllegal)
		return
	}
	ev.StopID = -1
	if q.Status == scheduler.Finished {
		ev.Reason, ev.StopID = q.Reason, q.StopID
	}
	if ev.Reason != Stop || w.req.IncludeStop { // a stop token's text is no part of the answer
		hit := w.text.add(ev.Token, len(q.Tokens)-q.Prompt > q.Limits.MinTokens, w.req.IncludeStop)
		if hit >= 0 { // a stop string wins over what the token alone decided
			e.sched.End(q, Stop)
			ev.Reason, ev.StopID, ev.StopStr = Stop, -1, w.req.Stop[hit]
		}
	}
	e.push(w, ev, w.text.take(ev.Reason != NotDone), e.alts)
	w.text.trim()
	if ev.Reason != NotDone {
		e.retire(w, ev.Reason)
	}
}

// fail ends w, whatever the scheduler has made of it, and its request.
func (e *Engine) fail(w *work, err error) {
	e.sched.End(&w.seq, Failed)
	e.push(w, Event{Token: -1, Reason: Failed, StopID: -1, Err: err}, w.text.take(true), nil)
	e.retire(w, Failed)
	e.end(w.req, Failed, err)
}
