package sinks

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weir/store/outbox"
)

// Sink is a system that messages are sent to. Its methods may be called from any goroutine.
type Sink interface {
	// Name tells sinks apart, in logs, in metrics and in the database. It has no secrets.
	Name() string
	// Limits bound what is given to Send.
	Limits() outbox.Limits
	// Send returns when the messages, which have different keys, are stored. It may be called
	// again with those that it has stored.
	Send(ctx context.Context, list []outbox.Message) error
	Close() error
}

// Range is consecutive entries of a feed, or a part of a snapshot.
type Range struct {
	Feed, Epoch string
	First, Last uint64    // of the entries; of a snapshot First is 0
	Part        int       // of a snapshot
	Start       time.Time // of the time that its entries are from
}

// Ranged is a sink that stores files.
type Ranged interface {
	Sink
	// Every is how much time a range spans at most. It begins at a multiple of that.
	Every() time.Duration
	// Most is how many entries a range has at most.
	Most() int
	// Begin begins a range.
	Begin(r Range) Writer
}

// Writer stores one range, for one goroutine.
type Writer interface {
	Add(ctx context.Context, list []outbox.Message) error
	// Commit returns when the range is stored.
	Commit(ctx context.Context) error
}

// Feed is a log of changes and what makes messages of them.
type Feed struct {
	Name   string
	Log    *outbox.Log
	Source outbox.Source
	Ready  <-chan struct{} // closed when the database is open
}

// Config says what is sent where.
type Config struct {
	Feeds   []Feed
	Sinks   []Sink
	Backlog uint64 // entries of a feed that may wait for a sink
	Log     *slog.Logger
	// TrimEvery is how often entries that nobody needs are removed.
	TrimEvery time.Duration
	// PauseMost is the longest pause after a failed attempt.
	PauseMost time.Duration
}

// Group is the pumps of some sinks.
type Group struct {
	cfg     Config
	stop    context.CancelFunc
	closing chan struct{} // closed: pumps end when there is nothing to send
	running sync.WaitGroup

	mu    sync.Mutex
	pumps []*pump
}

// Start starts the pumps. Each begins when its database is open.
func Start(cfg Config) *Group {
	if cfg.TrimEvery == 0 {
		cfg.TrimEvery = 5 * time.Second
	}
	if cfg.PauseMost == 0 {
		cfg.PauseMost = 30 * time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Group{cfg: cfg, stop: stop, closing: make(chan struct{})}
	for _, f := range cfg.Feeds {
		g.running.Go(func() { g.feed(ctx, f) })
	}
	return g
}

// feed runs the pumps of a feed.
func (g *Group) feed(ctx context.Context, f Feed) {
	select {
	case <-f.Ready:
	case <-g.closing:
		return
	}
	var names []string
	for _, s := range g.cfg.Sinks {
		names = append(names, s.Name())
	}
	cursors, err := f.Log.Open(ctx, names...)
	for wait := (&backoff{most: g.cfg.PauseMost}); err != nil; cursors, err = f.Log.Open(ctx, names...) {
		g.cfg.Log.Warn("the places of sinks cannot be read; trying again", "feed", f.Name, "error", err)
		select {
		case <-time.After(wait.next()):
		case <-g.closing:
			return
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	for i, c := range cursors {
		p := newPump(g, f, g.cfg.Sinks[i], c)
		g.mu.Lock()
		g.pumps = append(g.pumps, p)
		g.mu.Unlock()
		running.Go(func() { p.run(ctx) })
	}
	tick := time.NewTicker(g.cfg.TrimEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-g.closing:
			return
		}
		if err := f.Log.Trim(ctx, f.Source, g.cfg.Backlog); err != nil && ctx.Err() == nil {
			g.cfg.Log.Warn("what sinks have got cannot be removed from the log of changes", "feed", f.Name, "error", err)
		}
	}
}

// Close sends what waits, for a bounded time, and ends the pumps. What has not been sent is sent
// after the next start.
func (g *Group) Close(within time.Duration) {
	if g == nil {
		return
	}
	close(g.closing)
	done := make(chan struct{})
	go func() { g.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
	}
	g.stop()
	<-done
	for _, s := range g.cfg.Sinks {
		if err := s.Close(); err != nil {
			g.cfg.Log.Warn("a sink was not closed", "sink", s.Name(), "error", err)
		}
	}
}

// Stat is what a pump has done.
type Stat struct {
	Sink, Feed   string
	Sent, Failed uint64 // messages; attempts
	Omitted      uint64 // values that were larger than the sink takes
	Snapshots    uint64
	Lag          uint64 // entries that the sink lacks
	Age          time.Duration
	Up           bool // the last attempt succeeded, or there was none
	LastError    string
	LastErrorAt  time.Time
}

// Stats returns what the pumps have done.
func (g *Group) Stats() []Stat {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	pumps := g.pumps
	g.mu.Unlock()
	var list []Stat
	for _, p := range pumps {
		list = append(list, p.stats())
	}
	return list
}
