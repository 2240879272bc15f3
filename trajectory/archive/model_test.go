package archive

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"weir/store"
	"weir/trajectory"
)

// TestCreateModel: of requests at one time for one name one creates the model, and it is
// there after a restart (docs/interface/trajectories.md, T-50).
func TestCreateModel(t *testing.T) {
	s := newTestArchive(t)
	ctx := context.Background()
	m := Created{Entity: "acme", Project: "p", Name: "agent", BaseModel: "b"}
	var group sync.WaitGroup
	ids := make([]string, 8)
	created := make([]bool, len(ids))
	for i := range ids {
		group.Go(func() {
			made, err := s.CreateModel(ctx, "t", m)
			if err != nil && !errors.Is(err, ErrExists) {
				t.Error(err)
			}
			ids[i], created[i] = made.ID, err == nil
		})
	}
	group.Wait()
	if slices.Sort(ids); ids[0] != ids[len(ids)-1] || ids[0] == "" {
		t.Fatal(ids)
	}
	if n := len(slices.DeleteFunc(created, func(b bool) bool { return !b })); n != 1 {
		t.Errorf("%d of them created it", n)
	}
	s.reopen()
	again, err := s.CreateModel(ctx, "t", m)
	if !errors.Is(err, ErrExists) || again.ID != ids[0] || again.BaseModel != "b" || again.At.IsZero() {
		t.Errorf("%v %v", again, err)
	}
	// Names are told apart, whatever is in them.
	for _, other := range []Created{{Entity: "acme", Project: "p", Name: "agent2"}, {Entity: "acmep", Name: "agent"}, {Entity: "acme", Project: "pa", Name: "gent"}} {
		if _, err := s.CreateModel(ctx, "t", other); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
	if made, err := s.CreateModel(ctx, "u", m); err != nil || made.ID == ids[0] {
		t.Errorf("%v %v", made, err)
	}
	if _, err := s.DeleteModel(ctx, "t", ids[0]); err != nil {
		t.Error(err)
	}
	s.reopen()
	if err := s.View("t", func(v *View) error { return v.Known(ids[0]) }); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestMostModels: a tenant cannot create models without end (docs/interface/trajectories.md, T-50).
func TestMostModels(t *testing.T) {
	s := newTestArchive(t)
	ctx := context.Background()
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		for i := range MaxModels - 1 {
			tx.Set(createdKey("t", strconv.Itoa(i)), nil)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, ErrModels} {
		if _, err := s.CreateModel(ctx, "t", Created{Name: strconv.Itoa(i)}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if _, err := s.CreateModel(ctx, "u", Created{}); err != nil {
		t.Error(err)
	}
}

// TestSteps compares the steps of random batches with those of their trajectories (docs/interface/trajectories.md, T-52).
func TestSteps(t *testing.T) {
	s := newTestArchive(t)
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, 2))
	m, err := s.CreateModel(ctx, "t", Created{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64]bool{0: true}
	for range 60 {
		logSteps(t, s, m.ID, random, want)
	}
	check := func() {
		t.Helper()
		if err := s.Query(ctx, "t", func(v *View) error {
			have, err := v.Steps(m.ID)
			if !maps.Equal(have, want) {
				t.Errorf("%v, want %v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	check()
	all := slices.Sorted(maps.Keys(want))
	gone := []int64{all[0], all[3], all[len(all)-1], 1000}
	if n, missing, err := s.DeleteCheckpoints(ctx, "t", m.ID, gone); n != 3 || !slices.Equal(missing, gone[3:]) || err != nil {
		t.Errorf("%d %v %v", n, missing, err)
	}
	for _, n := range gone {
		delete(want, n)
	}
	s.reopen() // the deletion is on the disk
	check()
	// With the model goes what was noted of its checkpoints.
	if _, err := s.DeleteModel(ctx, "t", m.ID); err != nil {
		t.Error(err)
	}
	if err := s.View("t", func(v *View) error {
		return v.r.Scan(store.Range{Keys: true}, func(key, _ []byte) bool {
			if slices.Contains([]byte{tagCreated, tagNamed, tagGone}, key[0]) {
				t.Errorf("%q", key)
			}
			return true
		})
	}); err != nil {
		t.Error(err)
	}
}

// logSteps logs some trajectories with random steps, and notes in want which steps they show.
func logSteps(t *testing.T, s *testArchive, model string, random *rand.Rand, want map[int64]bool) {
	t.Helper()
	maybe := func(most int) trajectory.Int {
		if random.IntN(3) == 0 {
			return trajectory.Int{}
		}
		return trajectory.Some(int64(random.IntN(most) - 2))
	}
	u, err := s.Begin(context.Background(), "t", model)
	if err != nil {
		t.Fatal(err)
	}
	step := trajectory.Int{}
	if random.IntN(4) == 0 {
		step = trajectory.Some(int64(random.IntN(40)))
	}
	n := random.IntN(3)
	for i := range n {
		f := trajectory.Facts{Initial: maybe(40), Final: maybe(40)}
		if err := u.Trajectory(&trajectory.Trajectory{Index: i, Text: []byte(`{}`), Facts: f}); err != nil {
			t.Fatal(err)
		}
		if at := step.Or(f.Final.Or(f.Initial)); at.Given && at.N >= 0 {
			want[at.N] = true
		}
	}
	if err := u.Group(&trajectory.Group{Trajectories: n, Text: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Commit(Meta{Split: "train", Step: step}); err != nil {
		t.Fatal(err)
	}
}
