package archive

import (
	"context"
	"fmt"
	"testing"
	"time"

	"weir/trajectory"
)

// What is older than its model and split may be is deleted, of every tenant, and
// its blocks with it; the rest stays (spec trajectories 12.2).
func TestExpire(t *testing.T) {
	s := newTestArchive(t)
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s.Archive.now = func() time.Time { return at }
	for day := range 4 {
		at = time.Date(2026, 3, 1+day, 0, 0, 0, 0, time.UTC)
		for _, tenant := range []string{"a", "b"} {
			for _, split := range []string{"train", "val"} {
				for _, model := range []string{"m", "n"} {
					s.mustLog(tenant, model, batch(split, group("", `{"reward":1}`)))
				}
			}
		}
	}
	before, err := s.Used("a")
	if err != nil || before == 0 {
		t.Fatal(before, err)
	}
	n, err := s.Expire(context.Background(), func(model, split string) time.Time {
		switch {
		case model == "n":
			return time.Time{}
		case split == "train":
			return time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
		}
		return time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	})
	if err != nil || n != 12 { // two tenants: 2 of 4 of m's train, 4 of 4 of its val
		t.Errorf("%d batches, %v", n, err)
	}
	if after, err := s.Used("a"); err != nil || after >= before {
		t.Errorf("%d bytes of %d are used, %v", after, before, err)
	}
	left := map[string]int{}
	for _, tenant := range []string{"a", "b"} {
		if err := s.View(tenant, func(v *View) error {
			for _, model := range []string{"m", "n"} {
				if err := v.Batches(model, ID{}, false, func(b *Batch) bool { left[fmt.Sprint(tenant, model, b.Split)]++; return true }); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(left) != "map[amtrain:2 antrain:4 anval:4 bmtrain:2 bntrain:4 bnval:4]" {
		t.Errorf("%v", left)
	}
	s.until("swept", func() bool { return s.keys(tagMarker) == 0 })
	if n := s.keys(tagBlock); n != 3*20 {
		t.Errorf("%d blocks of 20 batches", n)
	}
}

// Calls are found until their batch is deleted; then they are forgotten.
func TestRewardCalls(t *testing.T) {
	s := newTestArchive(t)
	ctx := context.Background()
	record := func(calls ...Call) Receipt {
		t.Helper()
		u, err := s.Begin(ctx, "t", "m")
		if err != nil {
			t.Fatal(err)
		}
		defer u.Abort()
		for g := range calls {
			for i := range 2 {
				tr := trajectory.Trajectory{Group: g, Index: i, Text: []byte(`{"recorded":true}`)}
				if err := u.Trajectory(&tr); err != nil {
					t.Fatal(err)
				}
			}
			if err := u.Group(&trajectory.Group{Index: g, Trajectories: 2, Text: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := u.Commit(Meta{Split: "recorded", Calls: calls})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := record(Call{ID: "a", Project: "p/q", Group: 0}, Call{ID: "b", Group: 1})
	rewards := func() (list []any) {
		if err := s.View("t", func(v *View) error {
			b, err := v.Batch("m", first.ID)
			if err != nil {
				return err
			}
			return v.Open(b).Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
				if r.Scored {
					list = append(list, r.Reward)
				} else {
					list = append(list, nil)
				}
				return nil
			}})
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, c := range []struct {
		list        []CallReward
		known, want string
	}{
		{[]CallReward{{"a", "p/other", -1, 1}, {"none", "p/q", -1, 1}}, "[true false]", "[<nil> <nil> <nil> <nil>]"},
		{[]CallReward{{"a", "p/q", -1, 1}, {"b", "any/thing", 1, 2}}, "[true true]", "[1 1 <nil> 2]"},
		{[]CallReward{{"a", "p/q", 1, 3}, {"a", "p/q", -1, 4}, {"a", "p/q", 0, 5}, {"b", "", 7, 9}}, "[true true true true]", "[5 4 <nil> 2]"},
	} {
		known, err := s.RewardCalls(ctx, "t", c.list)
		if got := fmt.Sprint(rewards()); err != nil || fmt.Sprint(known) != c.known || got != c.want {
			t.Errorf("%v: %v %s, %v", c.list, known, got, err)
		}
	}
	if known, err := s.RewardCalls(ctx, "other", []CallReward{{"a", "p/q", -1, 9}}); err != nil || known[0] {
		t.Errorf("another tenant's call is known, %v", err)
	}
	record(Call{ID: "c"})
	if _, err := s.DeleteBatch(ctx, "t", "m", first.ID); err != nil {
		t.Fatal(err)
	}
	if known, err := s.RewardCalls(ctx, "t", []CallReward{{"a", "p/q", -1, 9}}); err != nil || !known[0] {
		t.Errorf("of a deleted batch: %v, %v", known, err)
	}
	if n, err := s.PruneCalls(ctx); n != 2 || err != nil || s.keys(tagCall) != 1 {
		t.Errorf("%d pruned, %v", n, err)
	}
}
