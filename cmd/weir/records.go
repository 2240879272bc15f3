package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/calls"
	"weir/feedback"
	"weir/internal/quota"
	"weir/objects"
	"weir/queues"
	"weir/ratelimit"
	"weir/server/batchesapi"
	"weir/server/responsesapi"
	"weir/store"
	"weir/trajectory/archive"
	"weir/usage"
)

// The databases in a data directory, each in a folder of this name.
const (
	feedbackName     = "feedback"
	tracesName       = "traces"
	trajectoriesName = "trajectories"
	responsesName    = "responses"
	batchesName      = "batches"
)

// Sizes of the files in the value logs. The answer to a batch of feedback is kept for its
// repetition as one value, which may take up to half of a file. Tests use small files,
// because after a crash every file is read to its end.
var feedbackFileSize, trajectoryFileSize int64 = 128 << 20, 256 << 20

// storeNames are all of them.
var storeNames = []string{feedbackName, tracesName, trajectoriesName, responsesName, batchesName}

// records are the databases of a server: feedback; calls and objects; trajectories; responses; and batches. Each
// has a database of its own, so that compacting gigabytes of rollouts delays no feedback.
type records struct {
	dir string

	feedback *store.DB
	book     *feedback.Store

	traces  *store.DB
	calls   *calls.Store
	objects *objects.Store
	queues  *queues.Store

	trajectories *store.DB
	archive      *archive.Archive
	spool        string // folder for temporary files of requests

	responsesDB *store.DB
	responses   *responsesapi.Store

	batchesDB *store.DB
	batches   *batchesapi.Store

	changes changes // of feedback, usage and trajectories, for sinks

	admin      *admin // answers weir store; nil if it could not be started
	stopUpkeep func() // stops the upkeep goroutine and waits for it
}

// openUsage opens the counts of GET /usage. A folder that was asked for must be
// writable. The default folder need not be, for example on a read-only system; then
// the counts are kept in memory.
func openUsage(o *recordOptions, log *slog.Logger) (*usage.Ledger, error) {
	cfg := usage.DefaultConfig()
	cfg.Dir, cfg.Log = o.dir, log
	l, err := usage.Open(cfg)
	switch {
	case err == nil:
		return l, nil
	case o.dir != o.defaultDir:
		return nil, fmt.Errorf("--data-dir %s: %w", o.dir, err)
	}
	log.Warn("usage counts are kept in memory only; set --data-dir to a folder that can be written to", "error", err)
	cfg.Dir = ""
	return usage.Open(cfg)
}

// openLimits opens the counts of what is done with keys that have limits, which a file of
// credentials may bring at any time. Without such a file there are none, and the limiter is nil.
func openLimits(o *recordOptions, credentials string, log *slog.Logger) (*ratelimit.Limiter, error) {
	if credentials == "" {
		return nil, nil
	}
	cfg := ratelimit.Config{Log: log}
	if o.dir != "" {
		cfg.Dir = filepath.Join(o.dir, "limits")
	}
	l, err := ratelimit.Open(cfg)
	if err != nil && l != nil && o.dir == o.defaultDir {
		log.Warn("the tokens per day of keys are counted in memory only; set --data-dir to a folder that can be written to", "error", err)
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", o.dir, err)
	}
	return l, nil
}

// openRecords opens the databases. As with openUsage, only a folder that was asked
// for must be writable; without the default folder, nothing is kept.
func openRecords(o *recordOptions, log *slog.Logger) (*records, error) {
	rules, err := o.retention()
	if err != nil {
		return nil, usageError{err}
	}
	r, err := startRecords(o.dir, uint64(o.minFree), int64(o.projectQuota), rules, log)
	if err == nil || o.dir != o.defaultDir {
		return r, err
	}
	log.Warn("feedback and trajectories are not kept; set --data-dir to a folder that can be written to", "error", err)
	return startRecords("", 0, 0, retention{}, log)
}

// startRecords begins to open the databases in dir and returns before they are open,
// so that a server can start while their logs are replayed. An empty dir keeps
// nothing.
func startRecords(dir string, minFree uint64, most int64, rules retention, log *slog.Logger) (*records, error) {
	r := &records{dir: dir, stopUpkeep: func() {}}
	if dir == "" {
		return r, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	cfg := store.DefaultConfig(filepath.Join(dir, feedbackName))
	cfg.Log, cfg.MinFree, cfg.Lazy = log, minFree, true
	cfg.ValueLogFile = feedbackFileSize
	var err error
	if r.feedback, err = store.Start(cfg); err != nil {
		return nil, err
	}
	r.book = feedback.New(r.feedback, feedback.DefaultConfig())
	traces := cfg
	traces.Dir, traces.ValueThreshold = filepath.Join(dir, tracesName), calls.ValueThreshold
	if r.traces, err = store.Start(traces); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.calls = calls.NewLimited(r.traces, quota.Limit{Bytes: most, Others: objects.BytesIn})
	r.objects = objects.NewLimited(r.traces, quota.Limit{Bytes: most, Others: calls.BytesIn})
	r.queues = queues.New(r.traces)
	if err := r.startTrajectories(cfg); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	kept := cfg
	kept.Dir = filepath.Join(dir, responsesName)
	if r.responsesDB, err = store.Start(kept); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.responses = responsesapi.NewStore(r.responsesDB, rules.responseBytes, time.Duration(rules.responseDays)*24*time.Hour)
	kept.Dir = filepath.Join(dir, batchesName)
	if r.batchesDB, err = store.Start(kept); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.batches = batchesapi.NewStore(r.batchesDB, rules.batchBytes, time.Duration(rules.batchDays)*24*time.Hour)
	r.noteChanges(rules.sinks)
	ctx, cancel := context.WithCancel(context.Background())
	var upkeep sync.WaitGroup
	upkeep.Go(func() { r.upkeep(ctx, rules, log) })
	r.stopUpkeep = func() { cancel(); upkeep.Wait() }
	return r, nil
}

func (r *records) startTrajectories(cfg store.Config) (err error) {
	cfg.Dir = filepath.Join(r.dir, trajectoriesName)
	cfg.ValueLogFile = trajectoryFileSize
	if r.trajectories, err = store.Start(cfg); err != nil {
		return err
	}
	if r.archive, err = archive.New(r.trajectories, cfg.Log); err != nil {
		return err
	}
	r.spool = filepath.Join(r.dir, "spool")
	if err := os.MkdirAll(r.spool, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return nil
}

// upkeep waits until a database is open. Then it starts to answer weir store,
// repairs indexes, and deletes every hour what is older than the rules allow.
func (r *records) upkeep(ctx context.Context, rules retention, log *slog.Logger) {
	select { // a database is opened when it is first needed, which may be never
	case <-ctx.Done():
		return
	case <-r.feedback.Ready():
	case <-r.traces.Ready():
	case <-r.trajectories.Ready():
	case <-r.responsesDB.Ready():
	case <-r.batchesDB.Ready():
	}
	var err error
	if r.admin, err = startAdmin(r.dir, r); err != nil {
		log.Warn("weir store cannot talk to this server", "error", err)
	}
	var repair sync.WaitGroup
	defer repair.Wait()
	repair.Go(func() { r.repairIndexes(ctx, log) })
	repair.Go(func() { r.repairTraces(ctx, log) })
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := r.expire(ctx, rules, log); err != nil && ctx.Err() == nil {
			log.Warn("records that are too old could not be deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// repairIndexes completes the indexes of feedback that an earlier version wrote, and
// those of a database that was damaged.
func (r *records) repairIndexes(ctx context.Context, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-r.feedback.Ready():
	}
	n, err := r.book.Upgrade(ctx)
	for ; errors.Is(err, store.ErrFull); n, err = r.book.Upgrade(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
	}
	if n > 0 || err != nil && ctx.Err() == nil {
		log.Info("feedback of an earlier version was indexed", "entries", n, "error", err)
	}
	if len(r.feedback.Damage()) > 0 {
		n, err := r.book.Mend(ctx)
		log.Warn("the indexes of feedback were checked after damage", "entries", n, "error", err)
	}
}

// repairTraces completes the indexes of calls, and what belongs to objects, in a database that was damaged.
func (r *records) repairTraces(ctx context.Context, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-r.traces.Ready():
	}
	if len(r.traces.Damage()) > 0 {
		n, err := r.calls.Mend(ctx)
		log.Warn("the indexes of calls were checked after damage", "entries", n, "error", err)
		n, err = r.objects.Mend(ctx)
		log.Warn("objects were checked after damage", "changes", n, "error", err)
		n, err = r.queues.Mend(ctx)
		log.Warn("annotation queues were checked after damage", "entries", n, "error", err)
	}
}

// Close stops the upkeep and closes the databases.
func (r *records) Close() error {
	r.stopUpkeep()
	var err error
	if r.admin != nil {
		err = r.admin.Close()
	}
	if r.feedback != nil {
		err = errors.Join(err, r.feedback.Close())
	}
	if r.traces != nil {
		err = errors.Join(err, r.traces.Close())
	}
	if r.archive != nil {
		r.archive.Close()
	}
	if r.trajectories != nil {
		err = errors.Join(err, r.trajectories.Close())
	}
	if r.responsesDB != nil {
		err = errors.Join(err, r.responsesDB.Close())
	}
	if r.batchesDB != nil {
		err = errors.Join(err, r.batchesDB.Close())
	}
	return err
}
