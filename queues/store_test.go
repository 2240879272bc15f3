package queues

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/store"
)

// TestDelete: a queue goes with its items, also if the deletion was interrupted, and leaves
// others alone (docs/interface/weave.md, W-303).
func TestDelete(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	one, other := create(t, s, "u", "one"), create(t, s, "u", "other")
	var numbers []int
	for n := range 2*deletePiece + 7 {
		numbers = append(numbers, n)
	}
	add(t, s, "u", one, numbers...)
	add(t, s, "u", other, 1, 2)
	if q, err := s.Delete(ctx, "p/q", one); err != nil || q.DeletedAt == 0 || q.Items != len(numbers) {
		t.Fatal(q, err)
	}
	if n := keysOf(t, s); n != 1+2*2 {
		t.Errorf("%d keys are left", n)
	}
	intact(t, s)

	// A crash after the mark.
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		q, err := get(&tx.Reader, "p/q", other)
		if err != nil {
			return err
		}
		q.DeletedAt = 1
		return q.put(tx)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("p/q", other); !isNotFound(err) {
		t.Error(err)
	}
	if err := s.Sweep(ctx); err != nil || keysOf(t, s) != 0 {
		t.Errorf("%v; %d keys are left", err, keysOf(t, s))
	}
}

// TestExpire: retention deletes old items, and queues when they are empty
// (docs/interface/weave.md, W-320).
func TestExpire(t *testing.T) {
	s := newStore(t)
	now := time.UnixMilli(1_000_000)
	s.now = func() time.Time { return now }
	queue, empty := create(t, s, "u", "q"), create(t, s, "u", "empty")
	add(t, s, "u", queue, 1, 2)
	now = now.Add(time.Hour)
	add(t, s, "u", queue, 3)
	it := queryItems(t, s, queue, "")[0]
	if err := setState(s, "v", queue, it.ID, Completed); err != nil {
		t.Fatal(err)
	}
	if n := got(s.Expire(context.Background(), "p/q", now.UnixMilli()-1)); n != 3 {
		t.Errorf("%d deleted", n)
	}
	if total, done := stats(t, s, queue); total != 1 || done != 0 {
		t.Errorf("%d items, %d finished", total, done)
	}
	if _, err := s.Get("p/q", empty); !isNotFound(err) {
		t.Error("the empty queue is there")
	}
	var projects []string
	if err := s.Projects(func(p string) { projects = append(projects, p) }); err != nil || fmt.Sprint(projects) != "[p/q]" {
		t.Error(projects, err)
	}
	intact(t, s)
}

// TestErase: times and references narrow an erasure (docs/interface/weave.md, W-320).
func TestErase(t *testing.T) {
	s := newStore(t)
	now := time.UnixMilli(1_000_000)
	s.now = func() time.Time { return now }
	queue := create(t, s, "u", "q")
	add(t, s, "u", queue, 1)
	now = now.Add(time.Hour)
	add(t, s, "u", queue, 2)
	for _, c := range []struct {
		e    Erasure
		want int
	}{
		{Erasure{Users: []string{"u", "v"}}, 0},
		{Erasure{Users: []string{""}}, 0},
		{Erasure{Before: 1_000_000_000}, 0},
		{Erasure{Before: -1}, 0},
		{Erasure{Before: now.UnixMicro()}, 1},
		{Erasure{Users: []string{"u"}, Before: now.UnixMicro()}, 2}, // and the queue
		{Erasure{Refs: []string{"weave:///p/q/call/c2"}}, 1},
		{Erasure{Refs: []string{"weave:///p/other/call/c2"}}, 0},
		{Erasure{Users: []string{"u"}}, 3},
	} {
		c.e.Project, c.e.DryRun = "p/q", true
		if n := got(s.Erase(context.Background(), &c.e)); n != c.want {
			t.Errorf("%+v: %d, want %d", c.e, n, c.want)
		}
	}
	if n := got(s.Erase(context.Background(), &Erasure{Project: "p/q", Users: []string{"u"}})); n != 3 {
		t.Error(n)
	}
	if q := got(s.Get("p/q", queue)); q.CreatedBy != "" || q.Items != 0 {
		t.Errorf("%+v", q)
	}
	intact(t, s)
}

// TestMend: what damage leaves behind is put in order (docs/interface/weave.md, W-321).
func TestMend(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	kept, lost := create(t, s, "u", "kept"), create(t, s, "u", "lost")
	add(t, s, "u", kept, 1, 2, 3)
	add(t, s, "u", lost, 4, 5)
	its := queryItems(t, s, kept, "")
	if err := setState(s, "u", kept, its[0].ID, Skipped); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Delete(key(tagQueue, "p/q", lost))             // a queue without its record
		tx.Delete(key(tagItem, "p/q", kept, its[0].ID))   // an entry without its item
		tx.Delete(key(tagCall, "p/q", kept, its[1].Call)) // an item without its entry
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	found := 0
	if err := s.Check(func(string) { found++ }); err != nil || found != 4 {
		t.Error(found, err)
	}
	if n := got(s.Mend(ctx)); n != 4 {
		t.Errorf("%d repairs", n)
	}
	intact(t, s)
	if total, done := stats(t, s, kept); total != 2 || done != 0 || keysOf(t, s) != 5 {
		t.Errorf("%d items, %d finished, %d keys", total, done, keysOf(t, s))
	}
}

// TestBounds: what is too much is refused (docs/interface/operations.md, section 6).
func TestBounds(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	queue := create(t, s, "u", "q")
	long := strings.Repeat("x", 70<<10)
	decoders := map[string]func(context.Context, []byte) (*Request, error){"create": DecodeCreate, "update": DecodeUpdate, "add": DecodeAdd, "progress": DecodeProgress, "stats": DecodeStats}
	for _, c := range [][2]string{
		{"create", `"name":"` + long + `","scorer_refs":[]`},
		{"create", `"name":"n","scorer_refs":[` + strings.Repeat(`"x",`, maxScorers) + `"x"]`},
		{"create", `"name":"n","scorer_refs":["` + long + `"]`},
		{"create", `"name":"n","scorer_refs":[],"later":"` + long + `"`},
		{"create", `"name":"n","scorer_refs":[1]`},
		{"create", `"name":"n"`},
		{"update", `"description":"` + long + `"`},
		{"add", `"call_ids":[` + strings.Repeat(`"x",`, maxAdd) + `"x"],"display_fields":[]`},
		{"add", `"call_ids":["` + long + `"],"display_fields":[]`},
		{"add", `"call_ids":[],"display_fields":[` + strings.Repeat(`"x",`, maxFields) + `"x"]`},
		{"add", `"call_ids":[` + strings.Repeat(`"x",`, 9_999) + `"x"],"display_fields":["` + long[:900] + `"]`},
		{"progress", `"annotation_state":"unstarted"`},
		{"progress", `"annotation_state":1`},
		{"stats", `"queue_ids":[` + strings.Repeat(`"x",`, maxStats) + `"x"]`},
	} {
		if _, err := decoders[c[0]](ctx, []byte(`{"project_id":"p/q",`+c[1]+`}`)); err == nil {
			t.Errorf("%s %.80s is accepted", c[0], c[1])
		}
	}
	for _, members := range []string{
		`"limit":-1`, `"offset":1.5`, `"limit":"1"`, `"sort_by":{}`, `"sort_by":[{"field":"id"}]`, `"sort_by":[{"field":"id","direction":"up"}]`, `"filter":[]`,
		`"filter":{"annotation_states":["begun"]}`, `"filter":{"id":1}`, `"include_position":1`, `"sort_by":[` + strings.Repeat(`{"field":"id","direction":"asc"},`, 8) + `{"field":"id","direction":"asc"}]`,
	} {
		if _, err := DecodeItemQuery(ctx, []byte(`{"project_id":"p/q",`+members+`}`), queue); err == nil {
			t.Errorf("%.80s is accepted", members)
		}
	}
	for range maxQueues - 1 {
		create(t, s, "u", "more")
	}
	if _, err := s.Create(ctx, "u", got(DecodeCreate(ctx, []byte(`{"project_id":"p/q","name":"n","scorer_refs":[]}`)))); err == nil {
		t.Error("there are too many queues")
	}
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		q, err := get(&tx.Reader, "p/q", queue)
		q.Items = maxItems - 1
		if err != nil {
			return err
		}
		return q.put(tx)
	}); err != nil {
		t.Fatal(err)
	}
	r := got(DecodeAdd(ctx, []byte(`{"project_id":"p/q","call_ids":["c1","c2"],"display_fields":[]}`)))
	if _, err := s.Add(ctx, "u", queue, r, map[string]Call{"c1": callNumbered(1), "c2": callNumbered(2)}); err == nil {
		t.Error("there are too many items")
	}
}

// TestAnnotators: the annotators of an item are bounded.
func TestAnnotators(t *testing.T) {
	it := &item{}
	for n := range maxProgress {
		if ok, err := it.mayBecome(fmt.Sprint(n), Completed); !ok || err != nil {
			t.Fatal(n, err)
		}
		it.set(fmt.Sprint(n), Completed, int64(n))
	}
	if _, err := it.mayBecome("one more", InProgress); err == nil {
		t.Error("one annotator too many")
	}
}

// TestMembersOfLater: what later versions add to a queue is kept (docs/interface/weave.md,
// W-301).
func TestMembersOfLater(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	id := got(s.Create(ctx, "u", got(DecodeCreate(ctx, []byte(`{"project_id":"p/q","name":"n","scorer_refs":[],"a":[1, 2],"b":"x","id":"mine","wb_user_id":"other"}`)))))
	q := got(s.Update(ctx, id, got(DecodeUpdate(ctx, []byte(`{"project_id":"p/q","b":2,"c":null}`)))))
	if text := string(q.AppendJSON(nil)); !strings.HasSuffix(text, `,"a":[1,2],"b":2,"c":null}`) || !strings.Contains(text, `"created_by":"u"`) || id == "mine" {
		t.Error(text)
	}
}

// FuzzRecord: bytes that are no record are an error, never a panic.
func FuzzRecord(f *testing.F) {
	row, err := encode(&item{Project: "p/q", Queue: "x", ID: "y", Call: Call{ID: "c"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(row)
	f.Add([]byte{1, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if it, err := decodeItem(b); err == nil {
			it.appendJSON(nil, 1)
		}
		if q, err := decodeQueue(b); err == nil {
			q.AppendJSON(nil)
		}
	})
}

// FuzzDecode: no body of a request makes the readers panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"project_id":"p/q","name":"n","scorer_refs":["r"],"filter":{"id":"x","annotation_states":["skipped"]},"sort_by":[{"field":"name","direction":"asc"}],"limit":1}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := context.Background()
		for _, decode := range []func(context.Context, []byte) (*Request, error){DecodeCreate, DecodeUpdate, DecodeAdd, DecodeProgress, DecodeStats} {
			_, _ = decode(ctx, bytes.Clone(b))
		}
		_, _ = DecodeQuery(ctx, b)
		_, _ = DecodeItemQuery(ctx, b, "q")
	})
}

func keysOf(t testing.TB, s *Store) (n int) {
	t.Helper()
	for _, tag := range []byte{tagQueue, tagItem, tagCall} {
		if err := s.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func(_, _ []byte) bool { n++; return true })
		}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}
