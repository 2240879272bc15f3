package objects

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/form"
	"weir/internal/quota"
	"weir/store"
)

// TestExpire: versions, tables and files go by when they were published or sent last, and rows
// with the last table that has them (docs/interface/weave.md, W-230).
func TestExpire(t *testing.T) {
	s, clock := newStore(t)
	const day = 24 * time.Hour
	begin := *clock
	publish(t, s, "ann", "old", "1")
	publish(t, s, "ann", "again", "1")
	table(t, s, "ann", `{"a":1}`, `{"a":2}`)
	file(t, s, "ann", "old")
	file(t, s, "ann", "again")
	*clock = begin.Add(10 * day)
	publish(t, s, "bob", "again", "1") // the same version, published again
	publish(t, s, "bob", "new", "1")
	file(t, s, "bob", "again")
	shared, err := DecodeTableFromDigests(context.Background(), []byte(`{"project_id":"p/q","row_digests":["`+valueDigest([]byte(`{"a":2}`), nil)+`"]}`))
	if err == nil {
		_, err = s.CreateTable(context.Background(), "bob", shared, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := contentOf(t, s, "p/q")
	if want := "again:v0 new:v0 old:v0 values=3 tables=2 rows=2 files=2"; all != want {
		t.Fatalf("%s, want %s", all, want)
	}
	for _, c := range []struct {
		before time.Time
		n      int
		left   string
	}{
		{begin, 0, all},
		{begin.Add(day), 4, "again:v0 new:v0 values=2 tables=1 rows=1 files=1"},
		{begin.Add(11 * day), 5, " values=0 tables=0 rows=0 files=0"},
	} {
		n, err := s.Expire(context.Background(), "p/q", c.before.UnixMilli())
		if left := contentOf(t, s, "p/q"); n != c.n || err != nil || left != c.left {
			t.Errorf("before %v: %d %v, left %s; want %d, %s", c.before, n, err, left, c.n, c.left)
		}
		intact(t, s)
	}
	if n, err := s.Bytes("p/q"); n != 0 || err != nil {
		t.Errorf("%d bytes of nothing, %v", n, err)
	}
}

// TestErase: what a user has published goes, but not what tables of others have
// (docs/interface/weave.md, W-231).
func TestErase(t *testing.T) {
	s, clock := newStore(t)
	begin := *clock
	publish(t, s, "ann", "a", "1")
	publish(t, s, "bob", "a", "2")
	table(t, s, "ann", `{"x":1}`, `{"x":2}`)
	table(t, s, "bob", `{"x":2}`, `{"x":3}`)
	file(t, s, "ann", "f")
	file(t, s, "bob", "g")
	if _, err := tryPublish(s, "ann", "p/other", "a", "1"); err != nil {
		t.Fatal(err)
	}
	all := contentOf(t, s, "p/q")
	for _, c := range []struct {
		e    Erasure
		n    int
		left string
	}{
		{Erasure{Users: []string{"eve"}}, 0, all},
		{Erasure{Users: []string{"ann", "bob"}}, 0, all},
		{Erasure{Users: []string{"ann"}, Before: begin.UnixMicro()}, 0, all},
		{Erasure{Users: []string{"ann"}}, 4, "a:v1 values=1 tables=1 rows=2 files=1"},
		{Erasure{Before: begin.Add(time.Minute).UnixMicro()}, 5, " values=0 tables=0 rows=0 files=0"},
	} {
		for _, dry := range []bool{true, false} {
			before := contentOf(t, s, "p/q")
			c.e.Project, c.e.DryRun = "p/q", dry
			n, err := s.Erase(context.Background(), &c.e)
			want := map[bool]string{true: before, false: c.left}[dry]
			if left := contentOf(t, s, "p/q"); n != c.n || err != nil || left != want {
				t.Errorf("%+v: %d %v, left %s; want %d, %s", c.e, n, err, left, c.n, want)
			}
		}
		intact(t, s)
	}
	if left := contentOf(t, s, "p/other"); left != "a:v0 values=1 tables=0 rows=0 files=0" {
		t.Errorf("another project has %s", left)
	}
	var projects []string
	if err := s.Projects(func(p string) { projects = append(projects, p) }); err != nil || !slices.Equal(projects, []string{"p/other"}) {
		t.Errorf("%v %v", projects, err)
	}
}

// TestRowsOfTablesThatAreWritten: a row that has no table when its deletion begins, and has
// one before it ends, stays.
func TestRowsOfTablesThatAreWritten(t *testing.T) {
	s, _ := newStore(t)
	table(t, s, "ann", `{"x":1}`, `{"x":2}`)
	d := deletion{store: s, project: "p/q", users: []string{"ann"}}
	var keys [][]byte
	if err := d.each(context.Background(), tagRow, rowPiece, func(k [][]byte) error { keys = k; return nil }); err != nil || len(keys) != 2 {
		t.Fatal(len(keys), err)
	}
	unused := &watch{project: "p/q", rows: map[string]bool{digestOf(keys[0]): true, digestOf(keys[1]): true}}
	if err := s.db.Update(context.Background(), func(*store.Tx) error { s.watches[unused] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	table(t, s, "bob", `{"x":2}`)
	if err := d.remove(context.Background(), keys, unused); err != nil || d.n != 1 {
		t.Errorf("%d rows were deleted, %v", d.n, err)
	}
	if err := s.db.View(func(r *store.Reader) error {
		row, err := rowOf(r, "p/q", valueDigest([]byte(`{"x":2}`), nil))
		if row == nil {
			t.Error("the row of the new table is gone")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestQuota: the bytes of a project are counted exactly across a restart, together with those
// of something else, and a project beyond its quota stores nothing
// (docs/interface/weave.md, W-232).
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	s, db := open(t, dir)
	publish(t, s, "u", "a", `"`+strings.Repeat("x", 1000)+`"`)
	one, err := s.Bytes("p/q")
	if err != nil || one < 1000 || one > 1200 {
		t.Fatal(one, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, db = open(t, dir)
	defer db.Close()
	others := int64(520)
	s = NewLimited(db, quota.Limit{Bytes: 3*one + 540, Others: func(*store.Reader, string) (int64, error) { return others, nil }})
	value := func(c string) string { return `"` + strings.Repeat(c, 1000) + `"` }
	publish(t, s, "u", "b", value("x"))
	publish(t, s, "u", "b", value("x")) // again
	publish(t, s, "u", "c", value("x"))
	full := &form.Refusal{}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.As(err, &full) || full.Status != 403 || !strings.Contains(full.Reason, "quota") {
			t.Errorf("%s: %v", what, err)
		}
	}
	before := contentOf(t, s, "p/q")
	_, err = tryPublish(s, "u", "p/q", "d", value("x"))
	refused("an object", err)
	_, err = tryTable(s, "u", "p/q", `{"a":1}`)
	refused("a table", err)
	_, err = tryFile(s, "u", "p/q", "f")
	refused("a file", err)
	if left := contentOf(t, s, "p/q"); left != before {
		t.Errorf("%s was stored", left)
	}
	if _, err := tryFile(s, "u", "p/other", "f"); err != nil {
		t.Error(err)
	}
	others = 400
	file(t, s, "u", "f") // something else was deleted
	if _, err := s.Delete(context.Background(), &Selection{Project: "p/q", ID: "a"}); err != nil {
		t.Error(err)
	}
	publish(t, s, "u", "d", value("x"))
	publish(t, s, "u", "d", "1")
	intact(t, s)
}

// TestMend: what lacks its other half, and wrong counts, are found and repaired. Deleting an
// object deletes a version that cannot be read, and publishing a value again makes it whole.
func TestMend(t *testing.T) {
	s, _ := newStore(t)
	ctx := context.Background()
	for _, id := range []string{"a", "b", "c", "d"} {
		publish(t, s, "u", id, "1")
	}
	one := Digest([]byte("1"))
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Delete(keyOf(tagValue, "p/q", "a", one))
		tx.Delete(keyOf(tagObject, "p/q", "b", one))
		tx.Set(keyOf(tagBytes, "p/q"), []byte("12345678"))
		tx.Set(keyOf(tagBytes, "p/none"), []byte("12345678"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	faults := 0
	if err := s.Check(func(string) { faults++ }); err != nil || faults != 4 {
		t.Errorf("%d faults, %v", faults, err)
	}
	if n, err := s.Mend(ctx); n != 4 || err != nil {
		t.Errorf("%d changes, %v", n, err)
	}
	intact(t, s)
	if left := contentOf(t, s, "p/q"); left != "c:v0 d:v0 values=2 tables=0 rows=0 files=0" {
		t.Error(left)
	}
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Set(keyOf(tagObject, "p/q", "c", one), []byte("nonsense"))
		tx.Delete(keyOf(tagValue, "p/q", "d", one))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Delete(ctx, &Selection{Project: "p/q", ID: "c"}); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	publish(t, s, "u", "d", "1")
	if _, err := s.Mend(ctx); err != nil { // the lost value was counted twice
		t.Error(err)
	}
	intact(t, s)
	if left := contentOf(t, s, "p/q"); left != "d:v0 values=1 tables=0 rows=0 files=0" {
		t.Error(left)
	}
}
