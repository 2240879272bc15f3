package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"weir/metrics"
	"weir/sinks"
	"weir/sinks/nats"
	"weir/sinks/s3"
	"weir/store"
	"weir/store/outbox"
	"weir/usage"
)

// sinkOptions say which systems are told of what is stored.
type sinkOptions struct {
	addresses []string
	backlog   int
	getenv    func(string) string // credentials
}

const defaultBacklog = 1_000_000

func (o *sinkOptions) bind(f *flagSet, getenv func(string) string) {
	o.backlog, o.getenv = defaultBacklog, getenv
	f.StringArrayVar(&o.addresses, "sink", nil, "`URL` of a system that is told of feedback, trajectories and usage as they change, such as nats://HOST/STREAM or s3://BUCKET/PREFIX; repeat it for several. docs/sinks.md has the forms")
	f.IntVar(&o.backlog, "sink-backlog", o.backlog, "largest `number` of changes of a kind that wait on the disk for a sink that is down, about 150 bytes each; one that has missed more gets all records anew")
}

// open reads the addresses of the sinks.
func (o *sinkOptions) open() (list []sinks.Sink, err error) {
	if o.backlog < 1 {
		return nil, fmt.Errorf("--sink-backlog %d: it takes 1 or more", o.backlog)
	}
	seen := map[string]bool{}
	for _, address := range o.addresses {
		s, err := openSink(address, o.getenv)
		if err != nil {
			return nil, fmt.Errorf("--sink %s: %w", withoutSecrets(address), err)
		}
		if seen[s.Name()] {
			return nil, fmt.Errorf("--sink %s is given twice", s.Name())
		}
		seen[s.Name()] = true
		list = append(list, s)
	}
	return list, nil
}

func openSink(address string, getenv func(string) string) (sinks.Sink, error) {
	scheme, _, _ := strings.Cut(address, "://")
	switch scheme {
	case "nats", "tls":
		return nats.New(address)
	case "s3":
		return s3.New(address, getenv)
	}
	return nil, fmt.Errorf("it begins with none of %s", strings.Join([]string{"nats://", "tls://", "s3://"}, ", "))
}

// withoutSecrets is an address without what may be a password.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(no URL)"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// The letters of the logs of changes in their databases.
const (
	feedbackSpace     = 'f'
	usageSpace        = 'u'
	trajectoriesSpace = 't'
)

// noteChanges lets the databases note what changes in them, if there are sinks.
func (r *records) noteChanges(on bool) {
	r.changes.feedback = outbox.New(r.feedback, feedbackSpace, on)
	r.changes.usage = outbox.New(r.feedback, usageSpace, on)
	r.changes.trajectories = outbox.New(r.trajectories, trajectoriesSpace, on)
	r.book.SetChanges(r.changes.feedback)
	r.archive.SetChanges(r.changes.trajectories)
}

// forgetChanges lets all sinks begin anew after a restoration or a repair.
func forgetChanges(db *store.DB) error {
	return db.Update(context.Background(), func(tx *store.Tx) error {
		outbox.Forget(tx, feedbackSpace, usageSpace, trajectoriesSpace)
		return nil
	})
}

// changes are the logs of what changes.
type changes struct{ feedback, usage, trajectories *outbox.Log }

// sinkRunner sends what is stored to the sinks.
type sinkRunner struct {
	group   *sinks.Group
	usage   *sinks.Usage
	log     *slog.Logger
	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	usageEvery = 10 * time.Second
	sinksTime  = 3 * time.Second // how long a server that stops waits for its sinks
)

// startSinks starts to send what is stored; nil: nobody asked for it, or nothing is stored.
func startSinks(list []sinks.Sink, backlog int, r *records, ledger *usage.Ledger, log *slog.Logger) *sinkRunner {
	if len(list) == 0 || r.feedback == nil {
		if len(list) > 0 {
			log.Warn("nothing is stored, so there is nothing for --sink")
		}
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &sinkRunner{usage: sinks.NewUsage(r.feedback, r.changes.usage, ledger.Totals), log: log, stop: stop}
	s.group = sinks.Start(sinks.Config{Sinks: list, Backlog: uint64(backlog), Log: log, Feeds: []sinks.Feed{
		{Name: "feedback", Log: r.changes.feedback, Source: r.book.Changes(), Ready: r.feedback.Ready()},
		{Name: "usage", Log: r.changes.usage, Source: s.usage, Ready: r.feedback.Ready()},
		{Name: "trajectories", Log: r.changes.trajectories, Source: r.archive.Changes(), Ready: r.archive.Ready()},
	}})
	s.running.Go(func() {
		s.usage.Run(ctx, usageEvery, func(err error) { log.Debug("usage was not noted for sinks; trying again", "error", err) })
	})
	for _, to := range list {
		log.Info("sending what is stored", "to", to.Name())
	}
	return s
}

// Close sends what waits, for a bounded time. What is left is sent after the next start.
func (s *sinkRunner) Close() {
	if s == nil {
		return
	}
	s.stop()
	s.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), sinksTime)
	defer cancel()
	if err := s.usage.Poll(ctx); err != nil {
		s.log.Debug("the last usage was not noted for sinks", "error", err)
	}
	s.group.Close(sinksTime)
}

// stats are the counts of the sinks, for metrics.
func (s *sinkRunner) stats() []metrics.Sink {
	var list []metrics.Sink
	for _, n := range s.group.Stats() {
		list = append(list, metrics.Sink{
			Sink: n.Sink, Feed: n.Feed, Sent: n.Sent, Failed: n.Failed, Omitted: n.Omitted, Snapshots: n.Snapshots,
			Lag: n.Lag, Age: n.Age, Up: n.Up, LastErrorAt: n.LastErrorAt,
		})
	}
	return list
}
