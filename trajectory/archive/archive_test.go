package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/store"
	"weir/trajectory"
)

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

// Texts of all sizes around the blocks' come back, also those that were staged.
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

// big is a body that is staged in several pieces.
func bigBody(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0))
	return batch("train", group("", `{"logs":["`+randomText(r, 4*stageBytes)+`"]}`, `{"reward":1}`))
}

// Whatever ends an upload before its commit, nothing of it stays (checklist 19).
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

// What a process leaves that ends in the middle of an upload is removed by the
// next; what was committed stays.
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

// Section 7 (checklist 21, 22).
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
	// A batch of which nothing is stored is known by its key as well.
	m.Key = "empty"
	body = batch("train")
	if first, err = s.log("t", "m", body, m); err != nil {
		t.Fatal(err)
	}
	again(first)
	// A duplicate that was staged is swept.
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

// Section 8: the order of ids and times is that of the commits, whatever the
// clock does and however often the process starts (checklist 27).
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
			t.Errorf("%d: %v %v behind %v %v", i+1, r.Received, r.ID, list[i].Received, list[i].ID)
		}
	}
	if got := list[0].Received; !got.Equal(time.Date(2026, 3, 4, 8, 15, 27, 412345000, time.UTC)) {
		t.Errorf("%v", got)
	}

	const parallel = 100
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
				t.Errorf("%v behind %v", b.Received, last)
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

func TestIDs(t *testing.T) {
	for us := range 3000 {
		at := time.UnixMicro(1_772_900_000_000_000 + int64(us))
		id, next := newID(at), newID(at.Add(time.Microsecond))
		if bytes.Compare(id[:8], next[:8]) >= 0 {
			t.Fatalf("%v is not before %v", id, next)
		}
		if got, ok := ParseID(id.String()); !ok || got != id || id.String()[14] != '7' || !strings.ContainsRune("89ab", rune(id.String()[19])) {
			t.Fatalf("%v", id)
		}
		if !id.after().After(at) || id.after().Sub(at) > time.Millisecond {
			t.Fatalf("%v after %v", id.after(), at)
		}
	}
	for _, s := range []string{"", "x", "0199f2d1-5d0e-7a7c-8f55-9b9a6d1f2c3", "0199F2D1-5d0e-7a7c-8f55-9b9a6d1f2c33", "0199f2d1+5d0e-7a7c-8f55-9b9a6d1f2c33", "0199f2d1-5d0e-7a7c-8f55-9b9a6d1f2cg3"} {
		if _, ok := ParseID(s); ok {
			t.Errorf("%q", s)
		}
	}
}

// A tenant's batches are nobody else's, whatever the names look like.
func TestTenants(t *testing.T) {
	s := newTestArchive(t)
	for _, name := range [][2]string{{"a", "b"}, {"a\x00", "b"}, {"a", "b\x00"}, {"", "ab"}, {"ab", ""}, {"a\x00\x01b", ""}} {
		s.mustLog(name[0], name[1], batch("train", group("", fmt.Sprintf(`{"logs":[%q]}`, fmt.Sprintf("%x %x", name[0], name[1])))))
	}
	for _, name := range [][2]string{{"a", "b"}, {"a\x00", "b"}, {"a", "b\x00"}, {"", "ab"}, {"ab", ""}, {"a\x00\x01b", ""}} {
		got := s.texts(name[0], name[1], &Filter{})
		equal(t, got, []string{"group 0 {}", fmt.Sprintf(`0/0 {"logs":[%q]}`, fmt.Sprintf("%x %x", name[0], name[1]))})
	}
	err := s.View("b", func(v *View) error { return v.Known("b") })
	if !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.View("a", func(v *View) error { return v.Known("b") }); err != nil {
		t.Error(err)
	}
}

func TestModels(t *testing.T) {
	s := newTestArchive(t)
	var first, last Receipt
	for i, split := range []string{"val", "train", "test", "train"} {
		r := s.mustLog("t", "m", batch(split, group(`"exceptions":[1]`, fmt.Sprintf(`{"initial_policy_version":%d}`, i), `{}`)))
		if i == 0 {
			first = r
		}
		last = r
	}
	s.mustLog("t", "n", batch("x", group("", `{}`)))
	s.mustLog("u", "m", batch("y", group("", `{}`)))
	var list []*Model
	if err := s.View("t", func(v *View) error {
		return v.Models(func(m *Model) bool { list = append(list, m); return true })
	}); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[1].Name != "n" || list[1].Batches != 1 {
		t.Fatalf("%+v", list)
	}
	m := list[0]
	if m.Name != "m" || m.Batches != 4 || m.Counts != (trajectory.Counts{Groups: 4, Trajectories: 8, Exceptions: 4}) || !slices.Equal(m.Splits, []string{"test", "train", "val"}) ||
		m.Versions != (Span{0, 3, true}) || !m.First.Equal(first.Received) || !m.Last.Equal(last.Received) {
		t.Errorf("%+v", m)
	}
	for _, backwards := range []bool{false, true} {
		var ids []ID
		if err := s.View("t", func(v *View) error {
			return v.Batches("m", ID{}, backwards, func(b *Batch) bool { ids = append(ids, b.ID); return true })
		}); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			var rest []ID
			if err := s.View("t", func(v *View) error {
				return v.Batches("m", ids[i], backwards, func(b *Batch) bool { rest = append(rest, b.ID); return true })
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(rest, ids[i+1:]) {
				t.Errorf("backwards %v, after %d: %v, want %v", backwards, i, rest, ids[i+1:])
			}
		}
	}
}

// A damaged block is an error of its batch; others can be read. A damaged header
// hides its batch and no other.
func TestDamage(t *testing.T) {
	s := newTestArchive(t)
	s.mustLog("t", "m", batch("train", group("", `{"logs":["one"]}`)))
	s.mustLog("t", "m", batch("train", group("", `{"logs":["two"]}`)))
	good := s.texts("t", "m", &Filter{})
	for _, tag := range []byte{tagBlock, tagHeader} {
		var key, value []byte
		if err := s.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: []byte{tag}}, func(k, v []byte) bool {
				key, value = bytes.Clone(k), bytes.Clone(v)
				return false
			})
		}); err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{{}, {7}, {compressed, 1, 2, 3}, value[:len(value)-1], append(bytes.Clone(value), 'x'), bytes.Replace(value, []byte("{"), []byte("["), 1)} {
			if err := s.db.Update(context.Background(), func(tx *store.Tx) error { tx.Set(key, bad); return nil }); err != nil {
				t.Fatal(err)
			}
			var read []string
			damaged := 0
			err := s.View("t", func(v *View) error {
				return v.Batches("m", ID{}, false, func(b *Batch) bool {
					c := v.Open(b)
					if err := c.Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
						text, err := c.Text(r)
						read = append(read, string(text))
						return err
					}}); err != nil {
						if !errors.Is(err, ErrDamaged) {
							t.Error(err)
						}
						damaged++
					}
					return true
				})
			})
			if err != nil {
				t.Error(err)
			}
			if damaged == 0 && len(read) == 2 {
				t.Errorf("table %c, value %q: not noticed", tag, bad)
			}
			intact := 0
			for _, text := range read {
				if slices.Contains(good, "0/0 "+text) {
					intact++
				}
			}
			if intact != 1 {
				t.Errorf("table %c, value %q: %d batches can be read", tag, bad, intact)
			}
		}
		if err := s.db.Update(context.Background(), func(tx *store.Tx) error { tx.Set(key, value); return nil }); err != nil {
			t.Fatal(err)
		}
		equal(t, s.texts("t", "m", &Filter{}), good)
	}
}

// Until the store is open the archive says so; afterwards it is closed.
func TestOpening(t *testing.T) {
	cfg := store.DefaultConfig(t.TempDir())
	cfg.Log = slog.New(slog.DiscardHandler)
	db, err := store.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(db, cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	s := &testArchive{t: t, db: db, Archive: a}
	s.until("open", func() bool {
		err := a.Err()
		if err != nil && !errors.Is(err, store.ErrOpening) {
			t.Fatal(err)
		}
		return err == nil
	})
	u, err := a.Begin(context.Background(), "t", "m")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Group(&trajectory.Group{Text: trajectory.Value("{}")}); err != nil {
		t.Fatal(err)
	}
	s.close()
	if _, err := a.Begin(context.Background(), "t", "m"); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if _, err := u.Commit(Meta{Split: "s"}); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	u.Abort()
	if err := a.View("t", func(*View) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
