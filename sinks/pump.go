package sinks

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"weir/store/outbox"
)

const (
	readEntries = 256
	linger      = 20 * time.Millisecond // so that entries that come one by one are sent together
	idleMost    = time.Second
	sendTime    = 30 * time.Second
	pauseLeast  = 100 * time.Millisecond
)

// backoff is the pauses between attempts.
type backoff struct{ pause, most time.Duration }

// next is twice the pause before, half of it random.
func (b *backoff) next() time.Duration {
	b.pause = min(max(2*b.pause, pauseLeast), b.most)
	return b.pause/2 + rand.N(b.pause/2)
}

// pump sends the messages of a feed to a sink.
type pump struct {
	g      *Group
	feed   Feed
	sink   Sink
	cursor *outbox.Cursor
	limits outbox.Limits

	list  []outbox.Message // not sent yet
	bytes int

	mu   sync.Mutex
	stat Stat
}

func newPump(g *Group, f Feed, s Sink, c *outbox.Cursor) *pump {
	return &pump{g: g, feed: f, sink: s, cursor: c, limits: s.Limits(), stat: Stat{Sink: s.Name(), Feed: f.Name, Up: true}}
}

func (p *pump) stats() Stat {
	p.mu.Lock()
	s := p.stat
	p.mu.Unlock()
	s.Snapshots = p.cursor.Snapshots()
	s.Lag, s.Age = p.cursor.Lag(time.Now())
	return s
}

func (p *pump) run(ctx context.Context) {
	pauses, idle := backoff{most: p.g.cfg.PauseMost}, linger
	for {
		sent, err := p.step(ctx)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.failed(err)
			wait = pauses.next()
		case sent:
			pauses.pause, idle = 0, linger
			p.succeeded()
			continue
		default:
			wait = idle
			idle = min(2*idle, idleMost)
		}
		select {
		case <-p.g.closing:
			return // there is nothing to send, or nobody who takes it
		default:
		}
		if !p.wait(ctx, wait, err != nil) {
			continue
		}
		idle = linger
	}
}

// wait waits for that long, and, if nothing failed and nothing is there to be sent, for new entries. It
// returns whether there are some.
func (p *pump) wait(ctx context.Context, long time.Duration, failed bool) bool {
	wake := p.cursor.Wake()
	var after <-chan time.Time
	if failed {
		wake = nil
	}
	if _, ranged := p.sink.(Ranged); failed || ranged || p.feed.Log.Head() > p.cursor.State().Seq {
		timer := time.NewTimer(long)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-ctx.Done():
	case <-p.g.closing:
	case <-after:
	case <-wake:
		select {
		case <-time.After(linger):
		case <-p.g.closing:
		}
		return true
	}
	return false
}

func (p *pump) failed(err error) {
	p.list, p.bytes = nil, 0
	p.mu.Lock()
	was := p.stat.Up
	p.stat.Up, p.stat.LastError, p.stat.LastErrorAt = false, err.Error(), time.Now()
	p.stat.Failed++
	p.mu.Unlock()
	if was {
		p.g.cfg.Log.Warn("a sink cannot be written to; trying again", "sink", p.sink.Name(), "feed", p.feed.Name, "error", err)
	}
}

func (p *pump) succeeded() {
	p.mu.Lock()
	was := p.stat.Up
	p.stat.Up = true
	p.mu.Unlock()
	if !was {
		p.g.cfg.Log.Info("a sink can be written to again", "sink", p.sink.Name(), "feed", p.feed.Name)
	}
}

// step sends some messages. It returns false if there are none.
func (p *pump) step(ctx context.Context) (sent bool, err error) {
	s := p.cursor.State()
	if s.Snapshot && s.Seq >= s.Until {
		return true, p.snapshot(ctx, s)
	}
	if r, ok := p.sink.(Ranged); ok {
		return p.rangeStep(ctx, r, s)
	}
	list, err := p.entries(s, readEntries)
	if err != nil {
		return false, err
	}
	if len(list) == 0 {
		return s.Snapshot, p.reached(ctx, s)
	}
	done := s.Seq // of the last entry whose messages have been sent, and those before it
	for _, e := range list {
		if s.Wants(e) {
			if err = p.messages(ctx, e, func() error { return p.send(ctx) }, false); err != nil {
				break
			}
		}
		if len(p.list) == 0 {
			done = e.Seq
		}
	}
	if err == nil {
		err = p.send(ctx)
	}
	switch {
	case err == nil:
		done = list[len(list)-1].Seq
	case len(p.list) > 0:
		done = max(done, p.list[0].Seq-1)
	}
	return err == nil, errors.Join(err, p.moveTo(ctx, done))
}

// entries are the next ones, up to the end of those before a snapshot.
func (p *pump) entries(s outbox.State, n int) ([]outbox.Entry, error) {
	list, err := p.feed.Log.Read(s.Seq, n)
	for s.Snapshot && len(list) > 0 && list[len(list)-1].Seq > s.Until {
		list = list[:len(list)-1]
	}
	return list, err
}

// reached notes, before a snapshot, that all deletions before it have been sent.
func (p *pump) reached(ctx context.Context, s outbox.State) error {
	if !s.Snapshot {
		return nil
	}
	return p.moveTo(ctx, s.Until)
}

func (p *pump) moveTo(ctx context.Context, seq uint64) error {
	return p.saved(p.cursor.Change(ctx, func(s *outbox.State) {
		s.Seq = max(s.Seq, seq)
		if s.Planned <= s.Seq {
			s.Planned = 0
		}
	}))
}

// saved logs that a place was not saved, which costs a repetition after a crash and nothing else.
func (p *pump) saved(err error) error {
	if err != nil {
		p.g.cfg.Log.Debug("the place of a sink was not saved", "sink", p.sink.Name(), "feed", p.feed.Name, "error", err)
	}
	return nil
}

// snapshot sends some of the records that are there.
func (p *pump) snapshot(ctx context.Context, s outbox.State) error {
	r, ranged := p.sink.(Ranged)
	n, flush := readEntries, func() error { return p.send(ctx) }
	var w Writer
	if ranged {
		n = r.Most()
		w = r.Begin(Range{Feed: p.feed.Name, Epoch: s.Epoch, Last: s.Until, Part: s.Part, Start: time.Now().Truncate(r.Every())})
		flush = func() error { return p.add(ctx, w) }
	}
	list, at, err := p.feed.Source.Snapshot(ctx, s.At, n)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := p.messages(ctx, e, flush, true); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if w != nil && len(list) > 0 {
		if err := w.Commit(ctx); err != nil {
			return err
		}
	}
	return p.saved(p.cursor.Change(ctx, func(now *outbox.State) {
		switch {
		case !now.Snapshot || now.Until != s.Until: // another one has begun
		case len(list) == 0:
			now.Snapshot, now.At, now.Part = false, nil, 0
		default:
			now.At = at
			now.Part++
		}
	}))
}

// messages makes the messages of an entry, and calls flush when there are enough.
func (p *pump) messages(ctx context.Context, e outbox.Entry, flush func() error, snapshot bool) error {
	for from := []byte(nil); ; {
		next, err := p.feed.Source.Messages(ctx, e, from, p.limits, func(m outbox.Message) { p.take(e, m, snapshot) })
		if err != nil {
			return err
		}
		if p.limits.Full(len(p.list), p.bytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		if from = next; from == nil {
			return nil
		}
	}
}

// take adds a message to the list.
func (p *pump) take(e outbox.Entry, m outbox.Message, snapshot bool) {
	m.Seq, m.At, m.Gone = e.Seq, e.At, m.Body == nil
	s := p.cursor.State()
	m.ID = messageID(s, e, m.Key, snapshot)
	p.list = append(p.list, m)
	p.bytes += len(m.Body)
	if m.Omitted > 0 {
		p.mu.Lock()
		p.stat.Omitted++
		p.mu.Unlock()
	}
}

// send sends the list, in parts that have every key once. If that fails, what was not sent is left.
func (p *pump) send(ctx context.Context) error {
	keys := map[string]bool{}
	first := 0
	for i := range p.list {
		if keys[p.list[i].Key] {
			if err := p.sendPart(ctx, p.list[first:i]); err != nil {
				p.list = p.list[first:]
				return err
			}
			first = i
			clear(keys)
		}
		keys[p.list[i].Key] = true
	}
	if err := p.sendPart(ctx, p.list[first:]); err != nil {
		p.list = p.list[first:]
		return err
	}
	p.list, p.bytes = nil, 0
	return nil
}

func (p *pump) sendPart(ctx context.Context, list []outbox.Message) error {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := p.sink.Send(ctx, list); err != nil {
		return err
	}
	p.count(len(list))
	return nil
}

func (p *pump) count(n int) {
	p.mu.Lock()
	p.stat.Sent += uint64(n)
	p.mu.Unlock()
}

// add gives the list to a writer.
func (p *pump) add(ctx context.Context, w Writer) error {
	if len(p.list) == 0 {
		return nil
	}
	if err := w.Add(ctx, p.list); err != nil {
		return err
	}
	p.count(len(p.list))
	p.list, p.bytes = nil, 0
	return nil
}

// rangeStep stores a range, if one is due.
func (p *pump) rangeStep(ctx context.Context, r Ranged, s outbox.State) (sent bool, err error) {
	if s.Planned == 0 {
		if s.Planned, err = p.plan(ctx, r, s); err != nil || s.Planned == 0 {
			if s.Snapshot && err == nil {
				return true, p.reached(ctx, s)
			}
			return false, err
		}
	}
	w, err := p.fill(ctx, r, s)
	if err == nil && w != nil {
		if err = p.add(ctx, w); err == nil {
			err = w.Commit(ctx)
		}
	}
	if err != nil {
		return false, err
	}
	return true, p.moveTo(ctx, s.Planned)
}

// fill gives the planned range to a writer; nil: there are no entries any more.
func (p *pump) fill(ctx context.Context, r Ranged, s outbox.State) (w Writer, err error) {
	for at := s.Seq; at < s.Planned; {
		list, err := p.feed.Log.Read(at, readEntries)
		if err != nil || len(list) == 0 {
			return w, err
		}
		for _, e := range list {
			if at = e.Seq; at > s.Planned {
				break
			}
			if w == nil {
				w = r.Begin(Range{Feed: p.feed.Name, Epoch: s.Epoch, First: s.Seq + 1, Last: s.Planned, Start: time.UnixMilli(e.At).Truncate(r.Every())})
			}
			if !s.Wants(e) {
				continue
			}
			if err := p.messages(ctx, e, func() error { return p.add(ctx, w) }, false); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// plan decides which entries make the next range, and notes that on the disk; 0: none is due.
func (p *pump) plan(ctx context.Context, r Ranged, s outbox.State) (last uint64, err error) {
	first, err := p.entries(s, 1)
	if err != nil || len(first) == 0 {
		return 0, err
	}
	end := time.UnixMilli(first[0].At).Truncate(r.Every()).Add(r.Every())
	if !s.Snapshot && time.Now().Before(end) && p.feed.Log.Head()-s.Seq < uint64(r.Most()) {
		return 0, nil
	}
	for at, n := s, 0; n < r.Most(); {
		list, err := p.entries(at, min(readEntries, r.Most()-n))
		if err != nil {
			return 0, err
		}
		before := n
		for _, e := range list {
			if !s.Snapshot && !time.UnixMilli(e.At).Before(end) {
				break
			}
			last, at.Seq = e.Seq, e.Seq
			n++
		}
		if n == before {
			break
		}
	}
	if last == 0 { // the clock was set back
		last = first[0].Seq
	}
	if err := p.cursor.Change(ctx, func(now *outbox.State) { now.Planned = last }); err != nil {
		// Without it on the disk, a crash could lead to a file of another range.
		_ = p.cursor.Change(ctx, func(now *outbox.State) { now.Planned = 0 })
		return 0, err
	}
	return last, nil
}
