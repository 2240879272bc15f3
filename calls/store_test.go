package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/quota"
	"weir/store"
)

// completeCall is a batch with one call; members follow the others and count in their place.
func completeCall(project, id, members string) string {
	return `{"batch":[` + strings.TrimSuffix(completeText, "}") + `,"project_id":"` + project + `","id":"` + id + `"` + members + `}]}`
}

// there are the ids of the calls that the index of time has.
func there(t *testing.T, s *Store, project string) (ids []string) {
	t.Helper()
	if err := s.each(context.Background(), project, 1<<62, func(r *Record) bool {
		if r.Visible() {
			ids = append(ids, strings.Clone(r.Text(ID)))
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// TestDelete: a deletion takes the calls below along, and what arrives late for a deleted call
// does nothing (docs/interface/weave.md, W-130, W-131).
func TestDelete(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct{ id, parent string }{{"r", ""}, {"a", "r"}, {"b", "r"}, {"c", "a"}, {"d", "c"}, {"x", ""}, {"y", "x"}, {"loop", "loop2"}, {"loop2", "loop"}} {
		members := ""
		if c.parent != "" {
			members = `,"parent_id":"` + c.parent + `"`
		}
		write(t, s, FormComplete, completeCall("p/q", c.id, members))
		write(t, s, FormComplete, completeCall("p/other", c.id, members))
	}
	for _, c := range []struct {
		ids  []string
		n    int
		left string
	}{
		{[]string{"none", ""}, 0, "[a b c d loop loop2 r x y]"},
		{[]string{"c"}, 2, "[a b loop loop2 r x y]"},
		{[]string{"c", "d"}, 0, "[a b loop loop2 r x y]"},
		{[]string{"r", "a", "r"}, 3, "[loop loop2 x y]"},
		{[]string{"loop"}, 2, "[x y]"},
	} {
		n, err := s.Delete(context.Background(), "p/q", c.ids)
		if left := fmt.Sprint(there(t, s, "p/q")); n != c.n || err != nil || left != c.left {
			t.Errorf("%v: %d %v, left %s; want %d, %s", c.ids, n, err, left, c.n, c.left)
		}
	}
	if n := len(there(t, s, "p/other")); n != 9 {
		t.Errorf("%d calls of another project are left", n)
	}
	write(t, s, FormEnd, `{"end":`+strings.Replace(endText, `"id":"a"`, `"id":"r"`, 1)+`}`)
	write(t, s, FormStart, `{"start":`+strings.Replace(startText, `"id":"a"`, `"id":"r"`, 1)+`}`)
	write(t, s, FormComplete, completeCall("p/q", "r", ""))
	if err := s.Rename(context.Background(), Author{"u"}, "p/q", "r", "x"); err != nil {
		t.Error(err)
	}
	if left := fmt.Sprint(there(t, s, "p/q")); left != "[x y]" {
		t.Errorf("late requests: %s", left)
	}
	intact(t, s)
}

// TestExpireAndErase: calls are deleted by their age, their users and references
// (docs/interface/weave.md, W-132, W-133).
func TestExpireAndErase(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	for i := range 1200 { // more than one piece
		at := fmt.Sprintf(`,"started_at":"2026-01-%02dT00:00:00Z"`, 1+i%10)
		r, err := DecodeRequest(ctx, []byte(completeCall("p/q", fmt.Sprint("c", i), at)), FormComplete, "")
		if err == nil {
			_, err = s.Write(ctx, Author{User: []string{"ann", "bob"}[i%2]}, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, s, FormEnd, `{"end":`+strings.Replace(endText, `"id":"a"`, `"id":"waits"`, 1)+`}`)
	day := func(n int) int64 { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC).UnixMilli() }
	for _, c := range []struct {
		named map[string]string
		want  int
		left  int
	}{
		{map[string]string{"platform_user_id": "ann", "before": "2026-01-02"}, 120, 1080},
		{map[string]string{"wb_user_id": "ann", "creator": "bob"}, 0, 1080},
		{map[string]string{"trace_ref": "weave:///p/q/call/c1"}, 1, 1079},
		{map[string]string{"trace_ref": "weave:///p/other/call/c3"}, 0, 1079},
		{map[string]string{"trace_ref": "weave:///p/q/object/c3"}, 0, 1079},
		{map[string]string{"before": "nonsense"}, 0, 1079},
	} {
		for _, dry := range []bool{true, false} {
			if n, err := s.Erase(ctx, ErasureOf("p/q", dry, c.named)); n != c.want || err != nil {
				t.Errorf("%v: %d %v, want %d", c.named, n, err, c.want)
			}
		}
		if n := len(there(t, s, "p/q")); n != c.left {
			t.Errorf("%v: %d are left, want %d", c.named, n, c.left)
		}
	}
	if n, err := s.Expire(ctx, "p/q", day(6)); n != 479 || err != nil || len(there(t, s, "p/q")) != 600 {
		t.Errorf("%d %v, %d are left", n, err, len(there(t, s, "p/q")))
	}
	intact(t, s)
	if n, err := s.Expire(ctx, "p/q", time.Now().Add(time.Hour).UnixMilli()); n != 600 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if bytes, err := s.Bytes("p/q"); bytes != 0 || err != nil {
		t.Errorf("%d bytes of nothing, %v", bytes, err)
	}
	write(t, s, FormComplete, completeCall("p/z", "a", ""))
	var projects []string
	if err := s.Projects(func(p string) { projects = append(projects, p) }); err != nil || !slices.Contains(projects, "p/z") {
		t.Errorf("%v %v", projects, err)
	}
}

// TestQuota: the bytes of a project are counted exactly, and a project beyond its quota writes
// nothing (docs/interface/weave.md, W-134).
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	s, db := open(t, dir)
	write(t, s, FormComplete, completeCall("p/q", "a", ""))
	one, err := s.Bytes("p/q")
	if err != nil || one == 0 {
		t.Fatal(one, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, db = open(t, dir)
	defer db.Close()
	s = NewLimited(db, quota.Limit{Bytes: 3*one + 10})
	write(t, s, FormComplete, completeCall("p/q", "b", ""))
	write(t, s, FormComplete, completeCall("p/q", "b", "")) // again
	write(t, s, FormComplete, completeCall("p/q", "c", ""))
	full := &form.Refusal{}
	for _, body := range []string{completeCall("p/q", "d", ""), completeCall("p/q", "c", `,"output":"`+strings.Repeat("x", 100)+`"`)} {
		if _, err := tryWrite(s, FormComplete, body); !errors.As(err, &full) || full.Status != 403 || !strings.Contains(full.Reason, "quota") {
			t.Errorf("%v", err)
		}
	}
	write(t, s, FormComplete, completeCall("p/other", "d", ""))
	if _, err := s.Delete(context.Background(), "p/q", []string{"a"}); err != nil {
		t.Error(err)
	}
	write(t, s, FormComplete, completeCall("p/q", "d", ""))
	if n, err := s.Bytes("p/q"); n != 3*one || err != nil {
		t.Errorf("%d bytes, want %d; %v", n, 3*one, err)
	}
	intact(t, s)
}

// TestComplete: programs write calls without a request, and the same call again changes
// nothing (docs/interface/weave.md, W-115).
func TestComplete(t *testing.T) {
	s := newStore(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	calls := []Complete{
		{Project: "p/q", ID: "chatcmpl-1", OpName: "chat.completions", Source: "recorder", Started: at, Ended: at.Add(time.Second), Inputs: jsontext.Value(`{"m":1}`), Output: jsontext.Value(`"x"`)},
		{Project: "p/q", OpName: "span", Started: at, OtelDump: jsontext.Value(`{"name":"s"}`), Attributes: jsontext.Value(`{"a":1,"otel_span":0}`)},
	}
	for range 2 {
		if err := s.Complete(context.Background(), Author{"u"}, calls[:1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Complete(context.Background(), Author{"u"}, calls[1:]); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Get("p/q", "chatcmpl-1")
	if err != nil || rec == nil || rec.Text(Source) != "recorder" || rec.Text(TraceID) != "chatcmpl-1" || rec.Status != Success || rec.Text(User) != "u" {
		t.Errorf("%+v %v", rec, err)
	}
	if ids := there(t, s, "p/q"); len(ids) != 2 {
		t.Errorf("%v", ids)
	} else if rec, err = s.Get("p/q", ids[0]); err != nil || !strings.Contains(string(rec.AppendJSON(nil, NoSizes)), `"attributes":{"a":1,"otel_span":{"name":"s"}}`) || rec.Status != Running {
		t.Errorf("%s %v", rec.AppendJSON(nil, NoSizes), err)
	}
	if err := s.Complete(context.Background(), Author{"u"}, []Complete{{OpName: "x"}}); err == nil {
		t.Error("a call without a project is written")
	}
	intact(t, s)
}

// TestMend: index entries that were lost, or are left over, and a wrong count are repaired.
func TestMend(t *testing.T) {
	s := newStore(t)
	for i := range 50 {
		write(t, s, FormComplete, completeCall("p/q", fmt.Sprint(i), fmt.Sprintf(`,"thread_id":"t%d","parent_id":"%d"`, i%3, i-1)))
	}
	write(t, s, FormEnd, `{"end":`+endText+`}`)
	rng := rand.New(rand.NewPCG(1, 2))
	var entries [][]byte
	if err := s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Keys: true}, func(key, _ []byte) bool {
			if slices.Contains(table.Indexes, key[0]) && rng.IntN(3) == 0 {
				entries = append(entries, slices.Clone(key))
			}
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Update(context.Background(), func(tx *store.Tx) error {
		for _, e := range entries {
			tx.Delete(e)
		}
		tx.Set(append(IndexPrefix(TagOp, "p/q", "none"), 1, 2, 3), RowKey("p/q", "none"))
		tx.Set(store.AppendString([]byte{tagBytes}, "p/q"), []byte("12345678"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	faults := 0
	if err := s.Check(func(string) { faults++ }); err != nil || faults != len(entries)+2 {
		t.Errorf("%d faults, want %d; %v", faults, len(entries)+2, err)
	}
	if n, err := s.Mend(context.Background()); n != len(entries)+2 || err != nil {
		t.Errorf("%d entries and counts, want %d; %v", n, len(entries)+2, err)
	}
	intact(t, s)
}

// TestIndexes: each index has the calls of a value in the order of their start, and no others.
func TestIndexes(t *testing.T) {
	s := newStore(t)
	at := func(n int) string { return fmt.Sprintf(`,"started_at":"2026-01-01T00:00:0%dZ"`, n) }
	write(t, s, FormComplete, completeCall("p/q", "b", `,"op_name":"x","thread_id":"th"`+at(2)))
	write(t, s, FormComplete, completeCall("p/q", "a", `,"op_name":"x","parent_id":"b","exception":"e"`+at(3)))
	write(t, s, FormComplete, completeCall("p/q", "c", `,"op_name":"xy","trace_id":"t2","started_at":"1960-01-01"`))
	write(t, s, FormComplete, completeCall("p/q2", "d", `,"op_name":"x"`))
	write(t, s, FormStart, `{"start":`+strings.Replace(startText, `"id":"a"`, `"id":"e"`+at(1), 1)+`}`)
	for _, c := range []struct {
		tag   byte
		value string
		want  string
	}{
		{TagTime, "", "[c b a e]"},
		{TagOp, "x", "[b a]"},
		{TagOp, "xy", "[c]"},
		{TagOp, "f", "[e]"},
		{TagTrace, "t", "[b a e]"},
		{TagTrace, "t2", "[c]"},
		{TagParent, "b", "[a]"},
		{TagParent, "", "[c b e]"},
		{TagStatus, string(rune(Failed)), "[a]"},
		{TagStatus, string(rune(Success)), "[c b]"},
		{TagStatus, string(rune(Running)), "[e]"},
		{TagThread, "th", "[b]"},
		{TagThread, "", "[]"},
	} {
		ids := []string{}
		prefix := IndexPrefix(c.tag, "p/q", c.value)
		if err := s.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: prefix}, func(key, v []byte) bool {
				_, id, err := CutPosition(key[len(prefix):])
				if err != nil || string(v) != string(RowKey("p/q", id)) {
					t.Errorf("%q: %q, %v", key, v, err)
				}
				ids = append(ids, id)
				return true
			})
		}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(ids); got != c.want {
			t.Errorf("%c %q: %s, want %s", c.tag, c.value, got, c.want)
		}
	}
}

// TestOtherProject: an end of another project does not end a call with the same id
// (docs/interface/weave.md, W-114).
func TestOtherProject(t *testing.T) {
	s := newStore(t)
	write(t, s, FormStart, `{"start":`+startText+`}`)
	write(t, s, FormEnd, `{"end":`+strings.Replace(endText, "p/q", "p/other", 1)+`}`)
	rec, err := s.Get("p/q", "a")
	if err != nil || rec == nil || rec.Status != Running {
		t.Errorf("%+v %v", rec, err)
	}
	if rec, err := s.Get("p/other", "a"); rec != nil || err != nil {
		t.Errorf("%+v %v", rec, err)
	}
}
