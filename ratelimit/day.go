package ratelimit

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"weir/usage"
)

// day has what keys have used on one day of UTC.
type day struct {
	number int64 // days since 1970
	used   map[string]int64
	ledger *usage.Ledger
}

const dayLength = 24 * time.Hour

// dayOf numbers the days.
func dayOf(now time.Time) int64 { return now.Unix() / int64(dayLength/time.Second) }

// untilNextDay is the time until a new day begins.
func untilNextDay(now time.Time) time.Duration {
	return time.Unix((dayOf(now)+1)*int64(dayLength/time.Second), 0).Sub(now)
}

// dayFormat names the folder of a day.
const dayFormat = "2006-01-02"

// mostKeys bounds the keys of a ledger. Only keys with a limit have a place there.
const mostKeys = 1 << 20

// openDay returns a day with what was counted on it before. If there is an error, it counts in
// memory.
func (l *Limiter) openDay(number int64) (*day, error) {
	cfg := usage.Config{MaxProjects: mostKeys, Log: l.cfg.Log}
	d := &day{number: number, used: map[string]int64{}}
	var failed error
	if l.cfg.Dir != "" {
		start := time.Unix(number*int64(dayLength/time.Second), 0).UTC()
		cfg.Dir = filepath.Join(l.cfg.Dir, start.Format(dayFormat))
		l.removeDays(start.Add(-dayLength).Format(dayFormat))
	}
	ledger, err := usage.Open(cfg)
	if err != nil {
		failed, cfg.Dir = fmt.Errorf("ratelimit: %w", err), ""
		if ledger, err = usage.Open(cfg); err != nil {
			return nil, fmt.Errorf("ratelimit: %w", err)
		}
	}
	d.ledger = ledger
	counts, _, err := ledger.Totals()
	for _, c := range counts {
		d.used[c.Name] = int64(c.Prompt + c.Completion)
	}
	return d, errors.Join(failed, err)
}

// removeDays removes the folders of all days before one. The day before today is kept, because another
// process may still be writing what it has counted on it.
func (l *Limiter) removeDays(before string) {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.cfg.Log.Warn("counts of earlier days are not removed", "folder", l.cfg.Dir, "error", err)
		}
		return
	}
	for _, e := range entries {
		if _, err := time.Parse(dayFormat, e.Name()); err != nil || !e.IsDir() || e.Name() >= before {
			continue
		}
		if err := os.RemoveAll(filepath.Join(l.cfg.Dir, e.Name())); err != nil {
			l.cfg.Log.Warn("counts of an earlier day are not removed", "folder", e.Name(), "error", err)
		}
	}
}

// name is what a key is called in the ledger, which takes printable ASCII of some length. The slash
// tells it from the ledger's own names.
func name(key string) string {
	n := "key/" + url.QueryEscape(key)
	if len(n) > usage.MaxName {
		h := fnv.New128a()
		_, _ = h.Write([]byte(key))
		n = fmt.Sprintf("long/%x", h.Sum(nil))
	}
	return n
}

// add counts tokens that were used.
func (d *day) add(key string, prompt, completion int64) {
	d.used[name(key)] += prompt + completion
	d.ledger.Add(name(key), usage.Counts{Requests: 1, Prompt: uint64(prompt), Completion: uint64(completion)})
}
