package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/trajectory"
)

// TestRoundTrip logs a batch and reads it back.
func TestRoundTrip(t *testing.T) {
	s := newTestArchive(t)
	r := s.mustLog("t", "m", batch("train",
		group(`"metadata":{"id":1.0},"exceptions":[{}],"metrics":{"judge":0.5}`, `{"reward":1.0,"x":"\ud83d"}`, `{"reward":0,"final_policy_version":3}`),
		`{}`,
		group("", `{"reward":2,"start_time":"2026-01-02"}`)))
	if want := (trajectory.Counts{Groups: 3, Trajectories: 3, Exceptions: 1}); r.Counts != want || r.Split != "train" || r.Duplicate || r.Bytes == 0 {
		t.Errorf("%+v", r)
	}
	want := []string{
		`group 0 {"metadata":{"id":1.0},"exceptions":[{}],"metrics":{"judge":0.5}}`, `0/0 {"reward":1.0,"x":"\ud83d"}`, `0/1 {"reward":0,"final_policy_version":3}`,
		`group 1 {}`, `group 2 {}`, `2/0 {"reward":2,"start_time":"2026-01-02"}`,
	}
	equal(t, s.texts("t", "m", &Filter{}), want)
	s.reopen()
	equal(t, s.texts("t", "m", &Filter{}), want)
	if n := s.keys(tagMarker); n != 0 {
		t.Errorf("%d markers", n)
	}
	err := s.View("t", func(v *View) error {
		b, err := v.Batch("m", r.ID)
		if err != nil {
			return err
		}
		if b.Receipt != r || b.Versions != (Span{3, 3, true}) || *b.Rewards != [2]float64{0, 2} || !b.Starts.Given {
			t.Errorf("%+v", b)
		}
		row, g, err := v.Open(b).Find(2, 0)
		if err != nil || row.Reward != 2 || g.Index != 2 {
			t.Errorf("%+v %+v %v", row, g, err)
		}
		_, g, err = v.Open(b).Find(0, 1)
		if err != nil || g.Scored != 2 || g.Mean != 0.5 || g.Deviation != 0.5 || g.Exceptions != 1 || g.Metrics[0] != (trajectory.Score{Name: "judge", Value: 0.5}) {
			t.Errorf("%+v %v", g, err)
		}
		for _, at := range [][2]int{{0, 2}, {1, 0}, {3, 0}, {-1, 0}} {
			if _, _, err := v.Open(b).Find(at[0], at[1]); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v: %v", at, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBlocks reads back texts of all sizes around that of a block, some of them staged
// before the commit.
func TestBlocks(t *testing.T) {
	s := newTestArchive(t)
	r := rand.New(rand.NewPCG(1, 2))
	var gs, want []string
	for g := range 12 {
		var ts []string
		for i, n := range []int{0, 1, 1000, blockSize - 20, blockSize, blockSize + 1, 3*blockSize + 7}[:r.IntN(8)] {
			text := fmt.Sprintf(`{"reward":%d,"logs":["%s"],"metadata":{"k":"%s"}}`, i, randomText(r, n), randomText(r, n/10))
			ts = append(ts, text)
		}
		rest := fmt.Sprintf(`"logs":["%s"]`, randomText(r, r.IntN(2*blockSize)))
		gs = append(gs, group(rest, ts...))
		want = append(want, fmt.Sprintf("group %d {%s}", g, rest))
		for i, text := range ts {
			want = append(want, fmt.Sprintf("%d/%d %s", g, i, text))
		}
	}
	s.mustLog("t", "m", batch("train", gs...))
	equal(t, s.texts("t", "m", &Filter{}), want)
	s.reopen()
	equal(t, s.texts("t", "m", &Filter{}), want)
	if n := s.keys(tagMarker); n != 0 {
		t.Errorf("%d markers", n)
	}
}

// bigBody is a body that is staged in several updates.
func bigBody(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0))
	return batch("train", group("", `{"logs":["`+randomText(r, 4*stageBytes)+`"]}`, `{"reward":1}`))
}

// TestAbort ends uploads before their commit. Nothing of them stays
// (docs/interface/trajectories.md, case T#19).
func TestAbort(t *testing.T) {
	s := newTestArchive(t)
	for name, end := range map[string]func(*Upload, func()){
		"abort": func(*Upload, func()) {},
		"client leaves": func(u *Upload, leave func()) {
			leave()
			if _, err := u.Commit(Meta{Split: "s"}); err == nil {
				t.Error("committed")
			}
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		u, err := s.Begin(ctx, "t", "m")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trajectory.Read(strings.NewReader(bigBody(1)), trajectory.DefaultLimits(), u); err != nil {
			t.Fatal(name, err)
		}
		s.until("staged", func() bool { return s.keys(tagBlock) > 0 && s.keys(tagMarker) == 1 })
		if len(s.texts("t", "m", &Filter{})) != 0 {
			t.Error("seen before its commit")
		}
		end(u, cancel)
		u.Abort()
		u.Abort()
		cancel()
		s.until("swept", func() bool { return s.keys(tagBlock) == 0 && s.keys(tagMarker) == 0 })
	}
	if n := s.keys(tagHeader); n != 0 {
		t.Errorf("%d headers", n)
	}
	if _, err := s.log("t", "m", batch("train", group("", `{"reward":null}`)), Meta{}); err == nil {
		t.Error("an invalid body is stored")
	}
	if len(s.texts("t", "m", &Filter{})) != 0 {
		t.Error("seen without commit")
	}
}

// TestLeftovers ends the process in the middle of an upload. The next start removes what was
// staged and keeps what was committed.
func TestLeftovers(t *testing.T) {
	s := newTestArchive(t)
	s.mustLog("t", "m", bigBody(1))
	blocks := s.keys(tagBlock)
	u, err := s.Begin(context.Background(), "t", "m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trajectory.Read(strings.NewReader(bigBody(2)), trajectory.DefaultLimits(), u); err != nil {
		t.Fatal(err)
	}
	if err := u.waitStaged(); err != nil {
		t.Fatal(err)
	}
	before := s.texts("t", "m", &Filter{})
	s.reopen()
	s.until("swept", func() bool { return s.keys(tagBlock) == blocks && s.keys(tagMarker) == 0 })
	equal(t, s.texts("t", "m", &Filter{}), before)
}

// TestReplays repeats requests with an Idempotency-Key and without one
// (docs/interface/trajectories.md, section 7 and cases T#21 and T#22).
func TestReplays(t *testing.T) {
	s := newTestArchive(t)
	body := batch("train", group("", `{"reward":1}`))
	m := Meta{Key: "k", Digest: []byte("digest of the body")}
	first, err := s.log("t", "m", body, m)
	if err != nil {
		t.Fatal(err)
	}
	again := func(want Receipt) {
		t.Helper()
		want.Duplicate = true
		if r, err := s.log("t", "m", body, m); err != nil || r != want {
			t.Errorf("%+v %v, want %+v", r, err, want)
		}
	}
	again(first)
	s.reopen()
	again(first)
	if _, err := s.log("t", "m", body, Meta{Key: "k", Digest: []byte("another")}); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	for _, other := range [][2]string{{"t", "m2"}, {"t2", "m"}} {
		if r, err := s.log(other[0], other[1], body, m); err != nil || r.Duplicate {
			t.Errorf("%v: %+v %v", other, r, err)
		}
	}
	if len(s.texts("t", "m", &Filter{})) != 2 {
		t.Error("stored twice")
	}
	// The key of a batch without groups is remembered too.
	m.Key = "empty"
	body = batch("train")
	if first, err = s.log("t", "m", body, m); err != nil {
		t.Fatal(err)
	}
	again(first)
	// The blocks of a duplicate that was staged are removed.
	m.Key, body = "big", bigBody(1)
	if first, err = s.log("t", "m", body, m); err != nil {
		t.Fatal(err)
	}
	blocks := s.keys(tagBlock)
	again(first)
	s.until("swept", func() bool { return s.keys(tagBlock) == blocks && s.keys(tagMarker) == 0 })
	// Without a key the same body is another batch.
	a, b := s.mustLog("t", "m", body), s.mustLog("t", "m", body)
	if a.ID == b.ID || a.Duplicate || b.Duplicate {
		t.Errorf("%+v %+v", a, b)
	}
}

// TestOrder checks that the order of ids and times is that of the commits, with a clock that
// goes back and over restarts (docs/interface/trajectories.md, section 8 and case T#27).
func TestOrder(t *testing.T) {
	s := newTestArchive(t)
	at := time.Date(2026, 3, 4, 9, 15, 27, 412345678, time.UTC)
	clock := func() time.Time { at = at.Add(-time.Hour); return at }
	s.now = clock
	var list []Receipt
	for range 3 {
		for range 5 {
			list = append(list, s.mustLog("t", "m", batch("train", group("", `{}`))))
		}
		s.reopen()
		s.now = clock
	}
	for i, r := range list[1:] {
		if !r.Received.After(list[i].Received) || r.ID.String() <= list[i].ID.String() {
			t.Errorf("%d: %v %v is not after %v %v", i+1, r.Received, r.ID, list[i].Received, list[i].ID)
		}
	}
	if got := list[0].Received; !got.Equal(time.Date(2026, 3, 4, 8, 15, 27, 412345000, time.UTC)) {
		t.Errorf("%v", got)
	}

	const parallel = 40
	s.now = time.Now
	var done sync.WaitGroup
	for i := range parallel {
		done.Go(func() { s.mustLog("t", "many", batch("train", group("", fmt.Sprintf(`{"reward":%d}`, i)))) })
	}
	done.Wait()
	n, last, sum := 0, time.Time{}, 0.0
	err := s.View("t", func(v *View) error {
		return v.Batches("many", ID{}, false, func(b *Batch) bool {
			if !b.Received.After(last) {
				t.Errorf("%v is not after %v", b.Received, last)
			}
			last = b.Received
			n += b.Trajectories
			sum += b.Rewards[0]
			return true
		})
	})
	if err != nil || n != parallel || sum != parallel*(parallel-1)/2 {
		t.Errorf("%d trajectories, sum %v, %v", n, sum, err)
	}
}
