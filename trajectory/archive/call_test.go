package archive

import (
	"context"
	"fmt"
	"testing"

	"weir/trajectory"
)

// TestRewardCalls sets rewards of recorded completions. They are found until their batch is
// deleted and PruneCalls has removed their entries.
func TestRewardCalls(t *testing.T) {
	s := newTestArchive(t)
	ctx := context.Background()
	first := s.record(Call{ID: "a", Project: "p/q", Group: 0}, Call{ID: "b", Group: 1})
	for _, c := range []struct {
		list        []CallReward
		known, want string
	}{
		{[]CallReward{{"a", "p/other", -1, 1}, {"none", "p/q", -1, 1}}, "[true false]", "[<nil> <nil> <nil> <nil>]"},
		{[]CallReward{{"a", "p/q", -1, 1}, {"b", "any/thing", 1, 2}}, "[true true]", "[1 1 <nil> 2]"},
		{[]CallReward{{"a", "p/q", 1, 3}, {"a", "p/q", -1, 4}, {"a", "p/q", 0, 5}, {"b", "", 7, 9}}, "[true true true true]", "[5 4 <nil> 2]"},
	} {
		known, err := s.RewardCalls(ctx, "t", c.list)
		if got := fmt.Sprint(s.rewards(first.ID)); err != nil || fmt.Sprint(known) != c.known || got != c.want {
			t.Errorf("%v: %v %s, %v", c.list, known, got, err)
		}
	}
	if known, err := s.RewardCalls(ctx, "other", []CallReward{{"a", "p/q", -1, 9}}); err != nil || known[0] {
		t.Errorf("the completion of another tenant is known, %v", err)
	}
	s.record(Call{ID: "c"})
	if _, err := s.DeleteBatch(ctx, "t", "m", first.ID); err != nil {
		t.Fatal(err)
	}
	if known, err := s.RewardCalls(ctx, "t", []CallReward{{"a", "p/q", -1, 9}}); err != nil || !known[0] {
		t.Errorf("of a deleted batch: %v, %v", known, err)
	}
	if n, err := s.PruneCalls(ctx); n != 2 || err != nil || s.keys(tagCall) != 1 {
		t.Errorf("%d entries were removed, %v", n, err)
	}
}

// record commits a batch with a group of two recorded trajectories for each call.
func (s *testArchive) record(calls ...Call) Receipt {
	s.t.Helper()
	u, err := s.Begin(context.Background(), "t", "m")
	if err != nil {
		s.t.Fatal(err)
	}
	defer u.Abort()
	for g := range calls {
		for i := range 2 {
			if err := u.Trajectory(&trajectory.Trajectory{Group: g, Index: i, Text: []byte(`{"recorded":true}`)}); err != nil {
				s.t.Fatal(err)
			}
		}
		if err := u.Group(&trajectory.Group{Index: g, Trajectories: 2, Text: []byte(`{}`)}); err != nil {
			s.t.Fatal(err)
		}
	}
	r, err := u.Commit(Meta{Split: "recorded", Calls: calls})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// rewards are the rewards of the trajectories of a batch; nil for one without.
func (s *testArchive) rewards(id ID) (list []any) {
	s.t.Helper()
	if err := s.View("t", func(v *View) error {
		b, err := v.Batch("m", id)
		if err != nil {
			return err
		}
		return v.Open(b).Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
			var x any
			if r.Scored {
				x = r.Reward
			}
			list = append(list, x)
			return nil
		}})
	}); err != nil {
		s.t.Fatal(err)
	}
	return list
}
