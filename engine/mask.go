package engine

import (
	"sync/atomic"
	"time"

	"weir/scheduler"
)

// constraint is the mask of a choice with the row of the next token. A worker fills the row
// as soon as it is known which token came last, beside the steps. The mask has one user at
// a time, which state tells.
type constraint struct {
	mask Mask
	pool *maskPool
	kin  *kinship
	pace func(waiting bool) bool // keepPace, as a value that is allocated once
	loop loopFill

	// Of the loop, or of the worker while state is maskQueued or maskFilling.
	row   []uint32 // the tokens that may come next, if state is maskFilled and err is nil
	token int32    // to be accepted before the row is filled; -1: none
	quick bool     // that takes no more than some microseconds
	err   error    // why there is no row

	state atomic.Uint32
	gone  atomic.Bool // the choice has ended, so nobody waits for the row

	work maskWork
}

// maskWork is what the pool notes of the worker that fills a row.
type maskWork struct {
	began     time.Duration // when the piece of work began
	pieces    int           // that were done before in the slow lane
	queued    bool          // under maskPool.mu, like the following: in the queue
	inLane    bool          // it has gone to the slow lane
	displaced bool          // its worker does not count any more, see maskPool.displace
}

// The states of a constraint. The loop moves it from idle, or from filled, to queued.
const (
	maskIdle    uint32 = iota // the mask is the loop's, and the row is not that of the next token
	maskQueued                // whoever moves it to maskFilling may use mask and row
	maskFilling               // somebody does
	maskFilled                // mask and row are the loop's
)

// kinship is what the constraints of a request share.
type kinship struct {
	slow   atomic.Bool   // fills of them took long, so they go to the slow lane at once
	waited time.Duration // that steps have waited for them; of the loop
}

// follow tells c that token came last. The row has to be filled anew. The error says why the
// token may not come.
func (c *constraint) follow(token int32) error {
	if c.state.Load() == maskFilled && c.row[token/32]>>(token%32)&1 == 0 {
		return errMaskBroken
	}
	c.token = token
	c.state.Store(maskIdle)
	if !c.mask.Quick(token) {
		return nil
	}
	return c.acceptToken()
}

// acceptToken takes the token that came last to the mask. The row has allowed that token.
func (c *constraint) acceptToken() error {
	token := c.token
	c.token = -1
	if token >= 0 && !c.mask.Accept(token) {
		return errContradiction
	}
	return nil
}

// fill fills the row. The caller has moved state to maskFilling and then moves it to
// maskFilled.
func (c *constraint) fill() {
	if c.err = c.acceptToken(); c.err == nil {
		c.err = c.mask.Fill(c.row, c.pace)
	}
}

// loopFill is what the loop notes of the fills that it does itself.
type loopFill struct {
	pace   func(waiting bool) bool // keepLoopPace; nil: not allocated yet
	began  time.Duration
	gaveUp bool
}

// fillInLoop is fill in the loop, which holds up everybody. It reports false if that takes
// longer than it should have, or has to wait for another fill; then there is no row.
func (c *constraint) fillInLoop() bool {
	if c.loop.pace == nil {
		c.loop.pace = c.keepLoopPace
	}
	c.loop.began, c.loop.gaveUp = c.pool.clock(), false
	c.err = c.mask.Fill(c.row, c.loop.pace)
	return !c.loop.gaveUp
}

// keepLoopPace is what a fill in the loop calls while it works.
func (c *constraint) keepLoopPace(waiting bool) (goOn bool) {
	c.loop.gaveUp = c.loop.gaveUp || waiting || c.pool.clock()-c.loop.began > loopSlice
	return !c.loop.gaveUp
}

// request lets the row be filled. It may not have been requested already. The workers begin
// when the pool is kicked.
func (c *constraint) request(words int) {
	if c.row == nil {
		c.row = make([]uint32, words)
	}
	c.quick = c.token < 0 && c.mask.Quick(-1)
	c.state.Store(maskQueued)
	c.pool.add(c)
}

// only is the next token if the mask leaves no other and this is known already, else -1.
func (c *constraint) only() int32 {
	switch c.state.Load() {
	case maskIdle:
		if c.token < 0 && c.mask.Quick(-1) {
			return c.mask.Only()
		}
	case maskFilled:
		if c.err == nil {
			return c.mask.Only()
		}
	}
	return -1
}

// maskedRow is a row of a step that a constraint limits.
type maskedRow struct {
	c    *choice
	row  int32 // of the step
	mask int32 // row of Draws.Masks
	fate fate

	forced int // tokens that need no draw and were booked after the one that the row draws
}

// fate says what became of the mask of a row.
type fate uint8

const (
	maskLate  fate = iota // it was not filled when the device needed it
	maskGiven             // the device has it
	maskBad               // there is none, because of constraint.err
)

// masksReady is Draws.Ready: it copies the rows that are filled to the draws. It fills what
// nobody has begun and will be quick, and waits for the rest as long as patience allows.
// Rows that are late then allow all tokens, because the device needs some mask, and what it
// draws with them is discarded.
func (e *Engine) masksReady(s *stepData) {
	words := e.spec.MaskWords()
	late, patient := e.takeMasks(s, words)
	if patient > 0 {
		began := e.clock()
		for left := e.patience(); patient > 0 && left > 0 && e.masks.await(left); left -= e.clock() - began {
			e.payFor(s, began)
			began = e.clock()
			late, patient = e.takeMasks(s, words)
		}
		e.payFor(s, began)
	}
	if late == 0 {
		return
	}
	for i := range s.masked {
		if m := &s.masked[i]; m.fate != maskGiven {
			row := s.draws.Masks[int(m.mask)*words:][:words]
			for i := range row {
				row[i] = ^uint32(0)
			}
		}
	}
}

// takeMasks copies the rows that are filled, or quickly filled. It returns the number of
// those that are not, and how many of them are worth waiting for.
func (e *Engine) takeMasks(s *stepData, words int) (late, patient int) {
	for i := range s.masked {
		m := &s.masked[i]
		if m.fate == maskGiven {
			continue
		}
		k := m.c.constraint
		if k.quick && k.state.CompareAndSwap(maskQueued, maskFilling) {
			if k.quick = k.fillInLoop(); k.quick {
				k.state.Store(maskFilled)
			} else { // a worker may have taken it off the queue meanwhile, and left it to the loop
				k.state.Store(maskQueued)
				e.masks.add(k)
				e.masks.kick()
			}
		}
		switch {
		case k.state.Load() != maskFilled:
			late++
			if !k.kin.slow.Load() && e.worthWaiting(m.c) {
				patient++
			}
		case k.err != nil:
			m.fate = maskBad
			late++
		default:
			m.fate = maskGiven
			copy(s.draws.Masks[int(m.mask)*words:][:words], k.row)
		}
	}
	return late, patient
}

// Waits for masks are paid from an account that is filled as time passes, so that all of
// them together slow down the steps by no more than a part.
const (
	maskWait       = 2 * time.Millisecond // most that a step waits, if a part of the step before is not longer
	maskWaitPart   = 8                    // one part in so many: of a step, and of all time
	maskWaitSaved  = 20 * time.Millisecond
	forcedWait     = 100 * time.Microsecond // most that a step waits for tokens that need no draw
	requestWait    = 4 * time.Millisecond   // what a request may cost at once
	requestPart    = 16                     // and one part in so many of its time
	overdue        = 10 * time.Millisecond  // a fill that has not called its pace for so long is left alone
	loopSlice      = time.Millisecond       // what a fill may work in the loop, if it was expected to be quick
	laneSlice      = time.Millisecond       // what a fill may work before it goes to the slow lane, and each piece there
	quickAgain     = laneSlice / 4          // a fill in the slow lane that takes less ends the suspicion
	maxDisplaced   = 8                      // fills that do not call their pace
	waitingForKin  = 100 * time.Microsecond // between two looks whether the other fill is done
	idleMaskChecks = overdue                // between two looks for overdue fills while there is nothing to compute
)

// maskAccount is what steps may wait for masks. It belongs to the loop.
type maskAccount struct {
	saved  time.Duration
	filled time.Duration // when it was filled up last
	step   time.Duration // how long the last step took
}

// stepEnded adds to the account.
func (a *maskAccount) stepEnded(now time.Duration) {
	a.step = now - a.filled
	a.saved = min(a.saved+a.step/maskWaitPart, maskWaitSaved)
	a.filled = now
}

// patience is how long the step may wait for masks now.
func (e *Engine) patience() time.Duration {
	if e.cfg.MaskWait < 0 {
		return 0
	}
	return min(max(maskWait, e.cfg.MaskWait, e.account.step/maskWaitPart), e.account.saved)
}

// worthWaiting reports whether the request of c has not used up its share of the account.
func (e *Engine) worthWaiting(c *choice) bool {
	return c.constraint.kin.waited < requestWait+(e.now-c.times.scheduled)/requestPart
}

// payFor charges a wait since began to the account, and to each request that was late.
func (e *Engine) payFor(s *stepData, began time.Duration) {
	d := e.clock() - began
	e.account.saved -= d
	e.counts.MaskWait += d
	for i := range s.masked {
		if m := &s.masked[i]; m.fate == maskLate {
			m.c.constraint.kin.waited += d
		}
	}
}

// resume lets the choices go on that sat out and have their rows now. It returns the number
// of those that still sit out.
func (e *Engine) resume() int {
	if len(e.late) == 0 {
		return 0
	}
	n := 0
	for _, c := range e.late {
		switch {
		case c.seq.Status == scheduler.Finished:
		case c.constraint.state.Load() == maskFilled:
			e.sched.Resume(&c.seq)
		default:
			e.late[n] = c
			n++
		}
	}
	clear(e.late[n:])
	e.late = e.late[:n]
	e.masks.displace()
	return n
}

// advance goes on with the constraints of the sequences that s drew tokens for: it books
// the tokens that need no draw and requests the rows of the others. It waits for a moment
// for rows that a worker has to fill, because they may leave a single token, too.
func (e *Engine) advance(s *stepData) {
	if len(s.masked) == 0 {
		return
	}
	began, patience := time.Duration(-1), min(forcedWait, e.patience())
	share := max(1, mostForced/len(s.masked))
	for {
		waiting := false
		for i := range s.masked {
			m := &s.masked[i]
			if m.fate != maskGiven || m.c.seq.Status == scheduler.Finished {
				continue
			}
			waiting = e.advanceOne(m, share) || waiting
		}
		e.masks.kick()
		if !waiting {
			break
		}
		if began < 0 {
			began = e.clock()
		}
		if left := patience - (e.clock() - began); left <= 0 || !e.masks.await(left) {
			break
		}
	}
	if began >= 0 {
		d := e.clock() - began
		e.account.saved -= d
		e.counts.MaskWait += d
	}
}

// mostForced is how many tokens that need no draw are booked after a step, for all sequences
// together. A constant text of 100,000 tokens would otherwise be booked at once, for each of
// 128 choices, while everybody waits.
const mostForced = 2048

// patternsOfToken is the number of patterns that repetition detection compares in the time
// that booking a token takes otherwise. A sequence with many of them books fewer tokens.
const patternsOfToken = 512

// advanceOne books the tokens to which the mask of a row's choice leaves no alternative, as
// far as that is known and its share of mostForced goes, and requests the mask of the token
// after them. If that is a forced one too, it is drawn, which gives the same, and the next step
// goes on from there. It reports whether it is worth a wait: the mask is being filled, and a
// token may be booked.
func (e *Engine) advanceOne(m *maskedRow, share int) bool {
	c := m.c
	if n := c.req.Limits.Repetition.MaxPattern / patternsOfToken; n > 0 {
		share = max(1, share/(n+1))
	}
	m.forced += e.bookForced(c, share-m.forced)
	k := c.constraint
	if c.seq.Status == scheduler.Finished {
		return false
	}
	if k.state.Load() == maskIdle {
		k.request(e.spec.MaskWords())
	}
	return c.seq.Pending == 0 && m.forced < share && !k.quick && k.state.Load() != maskFilled && !k.kin.slow.Load()
}
