package archive

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestExpire deletes the batches of all tenants that are older than the limit of their model
// and split, with their blocks, and keeps the others (docs/interface/trajectories.md,
// section 12.2).
func TestExpire(t *testing.T) {
	s := newTestArchive(t)
	s.logDays(4)
	before, err := s.Used("a")
	if err != nil || before == 0 {
		t.Fatal(before, err)
	}
	n, err := s.Expire(context.Background(), func(names []string, split string) time.Time {
		switch {
		case fmt.Sprint(names) == "[n]":
			return time.Time{}
		case split == "train":
			return time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
		}
		return time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	})
	if err != nil || n != 12 { // of two tenants, 2 of the 4 train batches of m and all 4 val batches
		t.Errorf("%d batches, %v", n, err)
	}
	if after, err := s.Used("a"); err != nil || after >= before {
		t.Errorf("%d bytes of %d are used, %v", after, before, err)
	}
	if left := s.countBatches(); fmt.Sprint(left) != "map[amtrain:2 antrain:4 anval:4 bmtrain:2 bntrain:4 bnval:4]" {
		t.Errorf("%v", left)
	}
	s.until("swept", func() bool { return s.keys(tagMarker) == 0 })
	if n := s.keys(tagBlock); n != 3*20 {
		t.Errorf("%d blocks of 20 batches", n)
	}
}

// TestNames: a model that was created is known by the names that its client gave it, too, to
// the rules of retention and to exports.
func TestNames(t *testing.T) {
	s := newTestArchive(t)
	m, err := s.CreateModel(context.Background(), "t", Created{Entity: "acme", Project: "p", Name: "agent", BaseModel: "b"})
	if err != nil {
		t.Fatal(err)
	}
	s.mustLog("t", m.ID, batch("train", group("", `{"reward":1}`)))
	s.mustLog("u", m.ID, batch("train", group("", `{"reward":1}`))) // another tenant's, which it has not created
	var seen []string
	if _, err := s.Expire(context.Background(), func(names []string, _ string) time.Time {
		seen = append(seen, fmt.Sprint(names))
		return time.Time{}
	}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint([]string{"[" + m.ID + " agent acme/p/agent]", "[" + m.ID + "]"}); fmt.Sprint(seen) != want {
		t.Errorf("%v, want %s", seen, want)
	}
	for name, want := range map[string]int{"agent": 1, "acme/p/agent": 1, "other": 0, m.ID: 0} {
		if list, err := s.Named(name); err != nil || len(list) != want || want > 0 && (list[0].Tenant != "t" || list[0].ID != m.ID) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

// logDays logs a batch a day for each of two tenants, splits and models, from March 1st on.
func (s *testArchive) logDays(days int) {
	s.t.Helper()
	var at time.Time
	s.Archive.now = func() time.Time { return at }
	for day := range days {
		at = time.Date(2026, 3, 1+day, 0, 0, 0, 0, time.UTC)
		for _, tenant := range []string{"a", "b"} {
			for _, split := range []string{"train", "val"} {
				for _, model := range []string{"m", "n"} {
					s.mustLog(tenant, model, batch(split, group("", `{"reward":1}`)))
				}
			}
		}
	}
}

// countBatches counts the batches of logDays by tenant, model and split.
func (s *testArchive) countBatches() map[string]int {
	s.t.Helper()
	n := map[string]int{}
	for _, tenant := range []string{"a", "b"} {
		for _, model := range []string{"m", "n"} {
			if err := s.View(tenant, func(v *View) error {
				return v.Batches(model, ID{}, false, func(b *Batch) bool { n[tenant+model+b.Split]++; return true })
			}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return n
}
