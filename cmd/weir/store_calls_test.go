package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/calls"
	"weir/store"
)

// TestStoreCalls: weir store verify finds an index of calls that lacks something, what weir
// store repair does with it mends it, and --feedback-retention deletes old calls.
//
// Its steps follow each other and are not taken apart yet.
//
//gocognit:ignore
func TestStoreCalls(t *testing.T) {
	// Not parallel: a process that another test starts at the same time holds the directory's lock for
	// a moment, and the repair would find the directory in use.
	dir := t.TempDir()
	cfg := store.DefaultConfig(filepath.Join(dir, tracesName))
	cfg.MinFree, cfg.MaintainEvery, cfg.Log = 0, 0, slog.New(slog.NewTextHandler(io.Discard, nil))
	open := func(f func(db *store.DB, s *calls.Store) error) {
		t.Helper()
		db, err := store.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := f(db, calls.New(db)); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	verify := func(want int, says string) {
		t.Helper()
		if code, out, errOut := runStore("verify", "--data-dir", dir); code != want || !strings.Contains(out, says) {
			t.Errorf("verify: %d %s %s", code, out, errOut)
		}
	}
	open(func(db *store.DB, s *calls.Store) error {
		for i, project := range []string{"acme/x", "acme/y"} {
			for age := range 3 {
				at := time.Now().AddDate(0, 0, -10*age)
				if err := s.Complete(t.Context(), calls.Author{User: "u"}, []calls.Complete{{Project: project, OpName: "f", Started: at, Ended: at.Add(time.Duration(i))}}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	verify(0, ", 0 faults")
	open(func(db *store.DB, _ *calls.Store) error {
		return db.Update(t.Context(), func(tx *store.Tx) error {
			return tx.Scan(store.Range{Prefix: []byte{calls.TagOp}, Keys: true}, func(key, _ []byte) bool {
				tx.Delete([]byte(string(key)))
				return false
			})
		})
	})
	verify(1, "is missing")
	if err := mend(tracesName, cfg); err != nil {
		t.Error(err)
	}
	verify(0, ", 0 faults")
	open(func(_ *store.DB, s *calls.Store) error {
		rules, err := parseFeedbackRules([]string{"acme/x=5", "acme/*=15"})
		if err != nil {
			return err
		}
		if err := expireProjects(context.Background(), "calls", s, rules, cfg.Log); err != nil {
			return err
		}
		for project, want := range map[string]int{"acme/x": 1, "acme/y": 2} {
			n, err := s.Erase(t.Context(), &calls.Erasure{Project: project, DryRun: true})
			if err != nil || n != want {
				t.Errorf("%s: %d calls are left, want %d; %v", project, n, want, err)
			}
		}
		return nil
	})
	verify(0, ", 0 faults")
}
