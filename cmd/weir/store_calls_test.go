package main

import (
	"context"
	"testing"
	"time"

	"weir/calls"
	"weir/store"
)

// TestStoreCalls: weir store verify finds an index of calls that lacks something, what weir
// store repair does with it mends it, and --feedback-retention deletes old calls.
func TestStoreCalls(t *testing.T) {
	// Not parallel: a process that another test starts at the same time holds the directory's lock for
	// a moment, and the repair would find the directory in use.
	d := newTracesDir(t)
	d.open(func(db *store.DB) error {
		s := calls.New(db)
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
	d.loseFirst(calls.TagOp)
	d.open(func(db *store.DB) error {
		s := calls.New(db)
		rules, err := parseFeedbackRules([]string{"acme/x=5", "acme/*=15"})
		if err != nil {
			return err
		}
		if err := expireProjects(context.Background(), "calls", s, rules, d.cfg.Log); err != nil {
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
	d.verify(0, ", 0 faults")
}
