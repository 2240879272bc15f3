package sinks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/trajectory/archive"
	"weir/usage"
)

// TestFollows: a sink has what the store has after records were created, replaced and purged, with
// every version in order, and what was there before it came.
func TestFollows(t *testing.T) {
	f := newFixture(t)
	f.off = true
	f.start()
	for i := range 20 {
		f.put("a/b", uuid(i), "old")
	}
	f.stop()
	f.off = false
	f.start()
	f.drained()
	f.same("feedback", f.stored())
	f.put("a/b", uuid(1), "new")
	f.put("c/d", uuid(50), strings.Repeat("x", 5000)) // larger than the sink takes
	f.purge("a/b", uuid(2), uuid(3), uuid(99))
	f.put("a/b", uuid(3), "again")
	f.drained()
	want := f.stored()
	large := "feedback c/d/" + uuid(50)
	want[large] = fmt.Sprintf(`{"key":"c/d/%s","omitted_bytes":%d}`, uuid(50), len(want[large]))
	f.same("feedback", want)
	if s := f.stat("feedback"); s.Omitted != 1 || s.Snapshots != 1 || !s.Up || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDown: a sink that fails, and has stored half of what it was given, gets everything in the
// order of each key, and no request waits for it.
func TestDown(t *testing.T) {
	f := newFixture(t).start()
	f.drained()
	f.sink.failWith(func(n int) error {
		if n%3 != 0 {
			return errors.New("down")
		}
		return nil
	})
	for i := range 60 {
		f.put("a/b", uuid(i%5), fmt.Sprint(i))
		if i%7 == 6 {
			f.purge("a/b", uuid(i%5))
		}
	}
	f.drained()
	f.same("feedback", f.stored())
	if s := f.stat("feedback"); s.Failed == 0 || s.LastError != "down" || s.LastErrorAt.IsZero() {
		t.Errorf("%+v", s)
	}
}

// TestRestart: after a stop a sink goes on where it was.
func TestRestart(t *testing.T) {
	f := newFixture(t).start()
	f.put("a/b", uuid(1), "one")
	f.drained()
	sent := len(f.sink.order)
	f.sink.failWith(func(int) error { return errors.New("down") })
	f.put("a/b", uuid(2), "two")
	f.stop()
	f.sink.failWith(nil)
	f.start()
	f.drained()
	f.same("feedback", f.stored())
	if got := f.sink.order[sent:]; len(got) != 1 || got[0] != "a/b/"+uuid(2) {
		t.Errorf("sent after the restart: %q", got)
	}
}

// TestBacklog: the log of a sink that is down has a bound beyond deletions, and when the sink is
// there again it has every record and nothing that was deleted.
func TestBacklog(t *testing.T) {
	f := newFixture(t)
	f.backlog = 10
	f.start()
	for i := range 30 {
		f.put("a/b", uuid(i), "first")
	}
	f.drained()
	f.sink.failWith(func(int) error { return errors.New("down") })
	for i := range 200 {
		f.put("a/b", uuid(100+i%40), fmt.Sprint(i))
	}
	f.purge("a/b", uuid(3), uuid(4), uuid(105))
	for i := range 100 {
		f.put("a/b", uuid(200+i%40), fmt.Sprint(i))
	}
	f.put("a/b", uuid(4), "back")
	f.until("bounded", func() bool {
		list, err := f.logs[0].Read(0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		gone := 0
		for _, e := range list {
			if e.Gone {
				gone++
			}
		}
		return gone == 3 && len(list) <= gone+10
	})
	f.sink.failWith(nil)
	f.drained()
	f.same("feedback", f.stored())
	if s := f.stat("feedback"); s.Snapshots < 2 {
		t.Errorf("%+v", s)
	}
	f.until("trimmed", func() bool {
		list, err := f.logs[0].Read(0, 1000)
		return err == nil && len(list) <= 1
	})
}

// TestUsage: counts of projects are told when they have changed, and once.
func TestUsage(t *testing.T) {
	f := newFixture(t).start()
	for _, n := range []uint64{1, 1, 5} {
		f.counts = []usage.Project{{Name: "a/b", Counts: usage.Counts{Requests: n, Prompt: 10, Cached: 3, Completion: 20}}}
		if err := f.usage.Poll(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	f.drained()
	f.stop()
	f.start()
	if err := f.usage.Poll(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.drained()
	got := f.sink.values["usage a/b"]
	if !strings.HasPrefix(got, `{"project":"a/b","at":"20`) || !strings.HasSuffix(got, `Z","since":7,"requests":5,"prompt_tokens":10,"cached_tokens":3,"completion_tokens":20}`) {
		t.Error(got)
	}
	if n := len(f.sink.order); n < 1 || n > 2 {
		t.Errorf("told %d times", n)
	}
}

func rollout(i int) string {
	return fmt.Sprintf(`{"messages_and_choices":[{"role":"user","content":"question %d %s"}],"reward":%d.5,"metrics":{}}`, i, strings.Repeat("y", 100), i)
}

// hasBatch looks for the trajectories of a batch, and for its groups, in the sink.
func (f *fixture) hasBatch(id archive.ID, groups bool, keep func(reward int) bool) {
	f.t.Helper()
	for g := range 5 {
		for i := range 7 {
			key := fmt.Sprintf("trajectory %s/%d/%d", id, g, i)
			got, there := f.sink.values[key]
			if there != keep(10*g+i) {
				f.t.Errorf("%s is there: %v", key, there)
			}
			if there {
				if !strings.Contains(got, fmt.Sprintf(`"group":%d,"index":%d,"trajectory":%s}`, g, i, rollout(10*g+i))) {
					f.t.Errorf("%s: %s", key, got)
				}
			}
		}
		if _, there := f.sink.values[fmt.Sprintf("trajectory_group %s/%d", id, g)]; there != groups {
			f.t.Errorf("group %d is there: %v", g, there)
		}
	}
}

// TestTrajectories: every trajectory is a message, also those of a batch that was there before the sink;
// of a batch that loses some, and of one that is deleted, the sink loses exactly these.
func TestTrajectories(t *testing.T) {
	f := newFixture(t)
	f.off = true
	f.start()
	var groups []string
	for g := range 5 {
		var list []string
		for i := range 7 {
			list = append(list, rollout(10*g+i))
		}
		groups = append(groups, `{"trajectories":[`+strings.Join(list, ",")+`],"metadata":{"g":"x"}}`)
	}
	body := `{"split":"train","trajectory_groups":[` + strings.Join(groups, ",") + `,{"trajectories":[]}]}`
	before := f.log(body)
	f.stop()
	f.off = false
	f.start()
	now := f.log(body)
	f.drained()
	has := func(id archive.ID, groups bool, keep func(reward int) bool) { f.hasBatch(id, groups, keep) }
	all := func(int) bool { return true }
	has(before, true, all)
	has(now, true, all)
	remove := &archive.Filter{MaxReward: ptr(13.5)} // the first group, and four of the second
	if n, err := f.archive.Delete(context.Background(), "acme", "agent", remove, false); err != nil || n != 22 {
		t.Fatal(n, err)
	}
	f.drained()
	late := func(reward int) bool { return reward > 13 }
	has(before, true, late)
	has(now, true, late)
	if _, err := f.archive.DeleteBatch(context.Background(), "acme", "agent", before); err != nil {
		t.Fatal(err)
	}
	f.drained()
	has(before, false, func(int) bool { return false })
	has(now, true, late)
	for key := range f.sink.values {
		if strings.Contains(key, before.String()) {
			t.Errorf("%s is still there", key)
		}
	}
	for _, w := range f.sink.wrong {
		t.Error(w)
	}
}

func ptr[T any](v T) *T { return &v }
