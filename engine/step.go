package engine

import (
	"slices"

	"weir/backend"
	"weir/internal/invariants"
	"weir/scheduler"
)

// stepData is the memory of one step. The backend may read batch and draws until the
// step has ended, so two steps take turns.
type stepData struct {
	batch  backend.Batch
	draws  backend.Draws
	out    backend.Out
	chunks []scheduler.Chunk
	rowEnd []int       // [len(chunks)] the rows of chunk i are batch.At[rowEnd[i-1]:rowEnd[i]]
	masked []maskedRow // in the order of their rows
	ready  func()      // Engine.masksReady, as a value that is allocated once

	number uint64    // in the flight recorder
	times  stepTimes // for it
}

// step runs one iteration of the loop, in the order that the package comment gives.
func (e *Engine) step() error {
	if e.spec.Depth == 1 {
		return e.stepAlone()
	}
	return e.stepOverlapped()
}

// stepAlone plans a step and waits for it.
func (e *Engine) stepAlone() error {
	s := &e.steps[0]
	began := e.clock()
	planned := e.plan(s)
	invariants.Check(planned || len(e.late) > 0 || e.heldBack(), "engine: nothing to plan, nothing in flight, and no sequence sits out")
	if e.starved = !planned; e.starved {
		return nil
	}
	err := e.be.Begin(&s.batch)
	e.recordBegin(s, began)
	if err != nil {
		return err
	}
	if err := e.draw(s); err != nil {
		return err
	}
	e.signal()
	return e.finish(s)
}

// stepOverlapped plans the next step, if there is one, before it waits for the one in
// flight, if there is one.
func (e *Engine) stepOverlapped() error {
	old, s := e.inFlight, &e.steps[0]
	if old == s {
		s = &e.steps[1]
	}
	e.inFlight = nil
	began := e.clock()
	planned := e.plan(s)
	invariants.Check(planned || old != nil || len(e.late) > 0 || e.heldBack(), "engine: nothing to plan, nothing in flight, and no sequence sits out")
	e.starved = !planned && old == nil
	if planned {
		err := e.be.Begin(&s.batch)
		e.recordBegin(s, began)
		if err != nil {
			return err
		}
	}
	if old != nil {
		if err := e.finish(old); err != nil {
			return err
		}
	}
	if planned {
		if err := e.draw(s); err != nil {
			return err
		}
		e.inFlight = s
	}
	e.signal()
	return nil
}

// plan fills in the batch of the next step and reports whether there is one. This is the
// only place where sequences become arrays. With blocks of 4 tokens, a chunk of positions
// 4 and 5 of a sequence in blocks 3 and 5, and the newest token of another in block 7,
// which row 1 of the step before is still drawing, make the batch
//
//	Tokens     14  15 |  ^1
//	Pos         4   5 |   3
//	Slots      20  21 |  31
//	QueryEnd        2     3
//	KVLen           6     4
//	Tables      3   5 |   7
//	TableEnd        2     3
//	At              1     2     both draw at their last token
func (e *Engine) plan(s *stepData) bool {
	e.sched.LimitPrefill(e.flight.pace.budget())
	s.chunks = append(s.chunks[:0], e.sched.Schedule()...)
	if len(s.chunks) == 0 {
		return false
	}
	b := &s.batch
	b.Reset()
	s.rowEnd = s.rowEnd[:0]
	begins := false
	for _, chunk := range s.chunks {
		q := chunk.Seq
		c := q.Owner.(*choice)
		if c.times.scheduled == never {
			c.times.scheduled, begins = e.now, true
			c.req.stream.scheduled.Store(true)
		}
		for p := chunk.Start; p < chunk.Start+chunk.N; p++ {
			tok := ^c.row // the step before is drawing it
			if p < len(q.Tokens) {
				tok = q.Tokens[p]
			}
			if c.wantsScore(p) || c.wantsVector(p) {
				b.At = append(b.At, int32(len(b.Tokens)))
			}
			b.Tokens = append(b.Tokens, tok)
			b.Pos = append(b.Pos, int32(p))
		}
		if chunk.Draw && c.req.Pool == NoPooling {
			c.row = int32(len(b.At))
			b.At = append(b.At, int32(len(b.Tokens)-1))
		}
		s.rowEnd = append(s.rowEnd, len(b.At))
		b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(chunk.Start+chunk.N))
		e.addOptions(b, &chunk, c)
	}
	e.place(s)
	if begins {
		e.begin(s.chunks)
	}
	return true
}

// addOptions adds what only some networks read of a chunk.
func (e *Engine) addOptions(b *backend.Batch, chunk *scheduler.Chunk, c *choice) {
	if e.spec.Whole {
		b.Types = append(b.Types, c.req.Types...)
		b.Types = append(b.Types, make([]int32, len(b.Tokens)-len(b.Types))...) // all 0 if it has none
	}
	if e.spec.LongAfter > 0 {
		b.Long = append(b.Long, flag(chunk.Seq.Long))
	}
	if e.kv.Stateful() {
		b.StateIn, b.StateOut = append(b.StateIn, chunk.StateIn), append(b.StateOut, chunk.StateOut)
	}
}

// place fills in which blocks and slots the sequences of s have, for each group of layers.
func (e *Engine) place(s *stepData) {
	b := &s.batch
	for g := range e.kv.Groups() {
		for _, chunk := range s.chunks {
			t := &chunk.Seq.Table
			for p := chunk.Start; p < chunk.Start+chunk.N; p++ {
				b.Slots = append(b.Slots, e.kv.Slot(t, g, p))
			}
			b.Tables = e.kv.AppendTable(b.Tables, t, g)
			b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
		}
	}
}

// flag is 1 for true.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// wantsScore reports whether the logits at prompt position p are needed, for the score of
// the prompt token after it. Scores survive a preemption and are not computed again.
func (c *choice) wantsScore(p int) bool {
	return c.req.Prompt != nil && c.index == 0 && p+1 < c.seq.Prompt && p >= len(c.req.scores)
}

// draw gives the backend what decides the tokens of s. All earlier steps have been booked.
func (e *Engine) draw(s *stepData) error {
	began := e.clock()
	defer func() { s.times.draw = e.clock() - began }()
	d := &s.draws
	d.Reset()
	clear(s.masked)
	s.masked = s.masked[:0]
	row, top, host, vectors := 0, 0, 0, 0
	for i, chunk := range s.chunks {
		c := chunk.Seq.Owner.(*choice)
		if c.req.Pool != NoPooling {
			vectors += e.drawPooled(s, i, row)
			row = s.rowEnd[i]
			continue
		}
		for ; row < s.rowEnd[i]; row++ {
			at := int(s.batch.Pos[s.batch.At[row]])
			switch {
			case chunk.Seq.Status == scheduler.Finished || e.sched.Stale(chunk.Seq):
				d.Rows = append(d.Rows, backend.Draw{Dead: true, Mask: -1, Allow: -1, Target: -1, EditEnd: int32(len(d.Edits))})
			case at+1 < chunk.Seq.Prompt:
				d.Rows = append(d.Rows, backend.Draw{Target: chunk.Seq.Tokens[at+1], Logprobs: c.req.Prompt.Mode, Top: int32(c.req.Prompt.Top),
					Mask: -1, Allow: -1, EditEnd: int32(len(d.Edits))})
			default:
				host += e.drawToken(s, c, chunk, row)
			}
			top += int(d.Rows[row].Top)
		}
	}
	if len(s.masked) > 0 {
		d.Ready = s.ready
		e.masks.kick()
	}
	resize(&s.out, row, top, host*e.spec.VocabSize)
	s.out.Hidden = slices.Grow(s.out.Hidden[:0], vectors*e.spec.Hidden)[:vectors*e.spec.Hidden]
	return e.be.Draw(d)
}

// drawToken says how a row of s draws the next token of c. It returns how many rows of logits the host wants.
func (e *Engine) drawToken(s *stepData, c *choice, chunk scheduler.Chunk, row int) (host int) {
	d := &s.draws
	first := len(d.Edits)
	c.sampling.Plan(d, e.spec.MaskWords(), chunk.Seq.Tokens[chunk.Seq.Prompt:])
	if c.forcer != nil {
		if t := c.forcer.Force(); t >= 0 {
			force(d, first, t)
		}
	}
	if len(c.req.LogprobIDs) > 0 {
		d.Rows[row].Host = true
		host++
	}
	if c.constraint != nil {
		d.Rows[row].Mask = e.addMask(s, c, row)
	}
	return host
}

// addMask makes room for the mask of a row of s that draws a token of c, and requests it if
// that has not been done when the token before came. It returns the number of the mask.
func (e *Engine) addMask(s *stepData, c *choice, row int) int32 {
	d, words := &s.draws, e.spec.MaskWords()
	m := maskedRow{c: c, row: int32(row), mask: int32(len(d.Masks) / words)}
	d.Masks = slices.Grow(d.Masks, words)[:len(d.Masks)+words]
	s.masked = append(s.masked, m)
	if c.constraint.state.Load() == maskIdle {
		c.constraint.request(words)
	}
	return m.mask
}

// resize makes out as long as a step needs that has this many rows, top tokens and logits.
// Memory for logits is large and seldom needed, so it is given up with the last of them.
func resize(out *backend.Out, rows, top, logits int) {
	if logits == 0 {
		out.Logits = nil
	} else {
		out.Logits = slices.Grow(out.Logits[:0], logits)[:logits]
	}
	out.Tokens = slices.Grow(out.Tokens[:0], rows)[:rows]
	out.Logprobs = slices.Grow(out.Logprobs[:0], rows)[:rows]
	out.Ranks = slices.Grow(out.Ranks[:0], rows)[:rows]
	out.TopTokens = slices.Grow(out.TopTokens[:0], top)[:top]
	out.TopLogprobs = slices.Grow(out.TopLogprobs[:0], top)[:top]
}

// finish waits for s, the oldest step in flight, and books what it gave.
func (e *Engine) finish(s *stepData) error {
	waits := e.clock()
	if err := e.be.End(&s.out); err != nil {
		return err
	}
	before := e.now
	e.now = e.clock()
	s.times.wait = e.now - waits
	e.flight.speed.Add(float64(len(s.batch.Tokens)), e.now-before)
	e.counts.Speed = e.flight.speed.PerSecond()
	e.offload.measureStep(len(s.batch.Tokens), len(s.batch.QueryEnd), e.now-before)
	answers, prompt := parts(s.chunks)
	e.flight.pace.observe(e.now-before, answers, prompt)
	e.account.stepEnded(e.now)
	e.counts.Steps++
	row, top, host, masked, vector := 0, 0, 0, 0, 0
	for i, chunk := range s.chunks {
		c := chunk.Seq.Owner.(*choice)
		if c.req.Pool != NoPooling {
			vector = e.finishPooled(s, i, row, vector)
			row = s.rowEnd[i]
			continue
		}
		for ; row < s.rowEnd[i]; row++ {
			n := int(s.draws.Rows[row].Top)
			r := rowResult{out: &s.out, row: row, top: top, num: n}
			if s.draws.Rows[row].Host {
				r.host = s.hostRow(row, host, e.spec.VocabSize, e.spec.MaskWords())
				host++
			}
			fate := maskGiven
			if masked < len(s.masked) && int(s.masked[masked].row) == row {
				fate = s.masked[masked].fate
				masked++
			}
			switch {
			case !chunk.Draw || row < s.rowEnd[i]-1:
				c.addScore(int(s.batch.Pos[s.batch.At[row]]), r)
			case fate != maskGiven:
				e.bookUnmasked(c, chunk, fate)
			default:
				if err := e.book(c, chunk, r); err != nil {
					return err
				}
			}
			top += n
		}
		if !chunk.Draw {
			e.sched.Commit(chunk, -1)
		}
	}
	e.sched.EndStep()
	e.advance(s)
	s.chunks = s.chunks[:0]
	e.flight.end(s.number, StepEnded, s.times.draw, s.times.wait, e.clock()-e.now)
	if invariants.Enabled {
		invariants.NoError(e.sched.Check())
	}
	return nil
}
