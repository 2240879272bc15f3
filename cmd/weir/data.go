package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/feedback"
	"weir/store"
	"weir/trajectory/archive"
)

// databases are the folders in a data directory that weir store is about.
var databases = []string{"feedback", "trajectories"}

// records are the databases of a server.
type records struct {
	dir      string
	feedback *store.DB
	book     *feedback.Book
	admin    *admin
	done     func()

	trajectories *store.DB
	archive      *archive.Archive
	spool        string // a folder for files that end with their request
}

// openRecords begins to open the databases in dir, and returns before they are
// open: a server starts while they are replayed. "" keeps nothing.
func openRecords(dir string, minFree int64, rules retention, log *slog.Logger) (*records, error) {
	r := &records{dir: dir, done: func() {}}
	if dir == "" {
		return r, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	cfg := store.DefaultConfig(filepath.Join(dir, "feedback"))
	cfg.Log, cfg.MinFree, cfg.Lazy = log, uint64(minFree), true
	cfg.ValueLogFile = 128 << 20 // the answer to a batch, kept for its repetition, is a value of up to half of that
	var err error
	if r.feedback, err = store.Start(cfg); err != nil {
		return nil, err
	}
	r.book = feedback.New(r.feedback, feedback.DefaultConfig())
	if err := r.openTrajectories(cfg); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.upkeep(ctx, rules, log)
	}()
	r.done = func() { cancel(); <-ended }
	return r, nil
}

// openTrajectories begins to open the archive: a database of its own, so that the
// compaction of gigabytes of rollouts delays no feedback (decision 13).
func (r *records) openTrajectories(cfg store.Config) (err error) {
	cfg.Dir = filepath.Join(r.dir, "trajectories")
	cfg.ValueLogFile = 256 << 20
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

// upkeep repairs indexes after damage, says which backups are possible once the
// databases are open, and deletes what is too old, every hour.
func (r *records) upkeep(ctx context.Context, rules retention, log *slog.Logger) {
	select { // either may stay shut until somebody needs it
	case <-ctx.Done():
		return
	case <-r.feedback.Ready():
	case <-r.trajectories.Ready():
	}
	var err error
	if r.admin, err = startAdmin(r.dir, r); err != nil {
		log.Warn("weir store cannot talk to this server", "error", err)
	}
	var mending sync.WaitGroup
	defer mending.Wait()
	mending.Go(func() { r.mend(ctx, log) })
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := r.retain(ctx, rules, log); err != nil && ctx.Err() == nil {
			log.Warn("records that are too old could not be deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// mend repairs the indexes of feedback.
func (r *records) mend(ctx context.Context, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-r.feedback.Ready():
	}
	if n, err := r.book.Upgrade(ctx); n > 0 || err != nil && ctx.Err() == nil {
		log.Info("feedback of an earlier version got its indexes", "entries", n, "error", err)
	}
	if len(r.feedback.Damage()) > 0 {
		n, err := r.book.Mend(ctx)
		log.Warn("the indexes of feedback were checked after damage", "entries", n, "error", err)
	}
}

// retention says how long what is kept.
type retention struct {
	feedback     []retainRule
	trajectories []retainModel
}

func (r *records) retain(ctx context.Context, rules retention, log *slog.Logger) error {
	return errors.Join(r.retainFeedback(ctx, rules.feedback, log), r.retainTrajectories(ctx, rules.trajectories, log))
}

func (r *records) retainFeedback(ctx context.Context, rules []retainRule, log *slog.Logger) error {
	if len(rules) == 0 {
		return nil
	}
	var projects []string
	if err := r.book.Projects(func(p string) { projects = append(projects, p) }); err != nil {
		return err
	}
	for _, p := range projects {
		for _, rule := range rules {
			if !rule.covers(p) {
				continue
			}
			n, err := r.book.Expire(ctx, p, time.Now().AddDate(0, 0, -rule.days).UnixMilli())
			if err != nil {
				return err
			}
			if n > 0 {
				log.Info("deleted feedback that was too old", "project", p, "records", n, "days", rule.days)
			}
			break
		}
	}
	return nil
}

func (r *records) retainTrajectories(ctx context.Context, rules []retainModel, log *slog.Logger) error {
	select {
	case <-r.archive.Ready():
	default:
		if len(rules) == 0 {
			return nil // a lazy store stays shut
		}
	}
	if len(rules) > 0 {
		now := time.Now()
		n, err := r.archive.Expire(ctx, func(model, split string) time.Time {
			for _, rule := range rules {
				if rule.covers(model, split) {
					return now.AddDate(0, 0, -rule.days)
				}
			}
			return time.Time{}
		})
		if err != nil {
			return err
		}
		if n > 0 {
			log.Info("deleted trajectories that were too old", "batches", n)
		}
	}
	_, err := r.archive.Prune(ctx)
	return err
}

func (r *records) Close() error {
	r.done()
	var err error
	if r.admin != nil {
		err = r.admin.Close()
	}
	if r.feedback != nil {
		err = errors.Join(err, r.feedback.Close())
	}
	if r.archive != nil {
		r.archive.Close()
	}
	if r.trajectories != nil {
		err = errors.Join(err, r.trajectories.Close())
	}
	return err
}

// retainRule says for how many days the records of some projects are kept.
type retainRule struct {
	pattern string // team/project, team/* or *
	days    int
}

func (r *retainRule) covers(project string) bool {
	if start, all := strings.CutSuffix(r.pattern, "*"); all {
		return strings.HasPrefix(project, start)
	}
	return r.pattern == project
}

// retainModel is a retainRule for trajectories.
type retainModel struct {
	pattern string // a model, perhaps with * at its end
	split   string // "": any
	days    int
}

func (r *retainModel) covers(model, split string) bool {
	if r.split != "" && r.split != split {
		return false
	}
	if start, all := strings.CutSuffix(r.pattern, "*"); all {
		return strings.HasPrefix(model, start)
	}
	return r.pattern == model
}

// retainModels reads "agent=30" and "agent:val=7", the first that fits counting.
func retainModels(list []string) (rules []retainModel, err error) {
	for _, s := range list {
		at := strings.LastIndexByte(s, '=')
		name, days := s[:max(at, 0)], s[at+1:]
		r := retainModel{pattern: name}
		if colon := strings.LastIndexByte(name, ':'); colon >= 0 {
			r.pattern, r.split = name[:colon], name[colon+1:]
		}
		r.days, err = strconv.Atoi(days)
		if err != nil || r.days < 1 || r.days > 36500 || r.pattern == "" || strings.HasSuffix(name, ":") {
			return nil, fmt.Errorf("--trajectory-retention %s: want MODEL=DAYS or MODEL:SPLIT=DAYS, such as agent=90, agent:val=7 or *=365", s)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// retainRules reads "team/project=30", the first that fits a project counting.
func retainRules(list []string) (rules []retainRule, err error) {
	for _, s := range list {
		pattern, days, ok := strings.Cut(s, "=")
		n, err := strconv.Atoi(days)
		if !ok || err != nil || n < 1 || n > 36500 || pattern != "*" && !strings.Contains(pattern, "/") {
			return nil, fmt.Errorf("--feedback-retention %s: want PROJECT=DAYS, such as acme/support=90, acme/*=30 or *=365", s)
		}
		rules = append(rules, retainRule{pattern, n})
	}
	return rules, nil
}
