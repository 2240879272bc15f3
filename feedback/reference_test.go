package feedback

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/query"
	"weir/store"
)

// allRecords reads all records of a project without their indexes.
func allRecords(t testing.TB, r *store.Reader, project string) (out []*Record) {
	t.Helper()
	if err := r.Scan(store.Range{Prefix: store.AppendString([]byte{tagRow}, project)}, func(_, row []byte) bool {
		rec, err := decodeRecord(row)
		if err != nil {
			t.Error(err)
		}
		out = append(out, rec)
		return true
	}); err != nil {
		t.Error(err)
	}
	return out
}

// referenceAnswer is the reference implementation of queries. It filters all records,
// sorts them and takes a page.
func referenceAnswer(t testing.TB, r *store.Reader, q *Query) (page []string, total int) {
	t.Helper()
	var all []*Record
	for _, rec := range allRecords(t, r, q.Project) {
		if q.where == nil || q.where.Truth(rec, nil) {
			all = append(all, rec)
		}
	}
	rank := map[int]int{query.Num: 0, query.Text: 1, query.Bool: 2, query.Null: 3, query.Composite: 3, query.Missing: 4}
	slices.SortFunc(all, func(a, b *Record) int {
		for _, o := range q.sort {
			x, y := a.Value(&o.Field, nil), b.Value(&o.Field, nil)
			if c := cmp.Compare(rank[x.Kind], rank[y.Kind]); c != 0 {
				return c
			}
			if c, ok := query.CompareValues(x, y); ok && c != 0 {
				if o.descending {
					return -c
				}
				return c
			}
		}
		if q.sort == nil {
			if c := cmp.Compare(a.CreatedAt, b.CreatedAt); c != 0 {
				return c
			}
		}
		return strings.Compare(a.ID, b.ID)
	})
	total = len(all)
	all = all[min(q.offset, total):]
	for _, rec := range all[:min(q.limit, len(all))] {
		page = append(page, rec.ID)
	}
	return page, total
}

// randomStore is a store with random updates and queries.
type randomStore struct {
	*Store
	rnd   *rand.Rand
	clock time.Time
	ids   []string // of all records so far, also those that are deleted
}

func newRandomStore(t testing.TB, seed uint64) *randomStore {
	w := &randomStore{Store: newStore(t), rnd: rand.New(rand.NewPCG(seed, 7)), clock: time.UnixMilli(1_700_000_000_000)}
	w.now = func() time.Time { return w.clock }
	return w
}

// pick is one of n texts that begin with kind.
func (w *randomStore) pick(kind string, n int) string {
	return fmt.Sprintf("%s%d", kind, w.rnd.IntN(n))
}

// randomFields are the fields of a request.
func (w *randomStore) randomFields() map[string]any {
	f := map[string]any{
		"trace_ref":     "weave:///acme/support/call/" + w.pick("c", 30),
		"feedback_type": w.pick("t", 3),
		"payload":       map[string]any{"n": w.rnd.IntN(6), "s": w.pick("x", 3)},
	}
	if w.rnd.IntN(2) == 0 {
		f["queue_id"] = w.pick("q", 4)
	}
	if w.rnd.IntN(3) == 0 {
		f["call_ref"] = "weave:///acme/support/call/" + w.pick("s", 5)
	}
	if w.rnd.IntN(6) == 0 {
		f["project_id"] = "acme/other"
	}
	return f
}

func (w *randomStore) randomAuthor() Author { return Author{User: w.pick("u", 2)} }

// randomUpdate writes, replaces or deletes records.
func (w *randomStore) randomUpdate(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	w.clock = w.clock.Add(time.Duration(w.rnd.IntN(5)-1) * time.Millisecond)
	switch k := w.rnd.IntN(40); {
	case k < 24 || len(w.ids) == 0:
		r, err := request(t, w.randomFields())
		if err != nil {
			t.Fatal(err)
		}
		if w.rnd.IntN(3) == 0 {
			r.ID = fmt.Sprintf("%08x-0000-4000-8000-%012x", w.rnd.Uint32(), w.rnd.Uint64()&(1<<48-1))
		}
		w.write(t, r, "")
	case k < 34:
		r, err := request(t, w.randomFields())
		if err != nil {
			t.Fatal(err)
		}
		old := w.ids[w.rnd.IntN(len(w.ids))]
		if w.rnd.IntN(2) == 0 {
			r.ID = old
		}
		w.write(t, r, old)
	case k < 38:
		if err := w.Purge(ctx, "acme/support", []string{w.ids[w.rnd.IntN(len(w.ids))], w.ids[w.rnd.IntN(len(w.ids))]}); err != nil {
			t.Fatal(err)
		}
	case k == 38:
		if _, err := w.Expire(ctx, "acme/support", w.clock.Add(-time.Duration(200+w.rnd.IntN(400))*time.Millisecond).UnixMilli()); err != nil {
			t.Fatal(err)
		}
	default:
		e, err := DecodeErasure(context.Background(), []byte(`{"project_id":"acme/support","confirm":"acme/support","trace_ref":"weave:///acme/support/call/`+w.pick("c", 30)+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Erase(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
}

// write creates a record or, if old is not "", replaces that one.
func (w *randomStore) write(t testing.TB, r *Request, old string) {
	t.Helper()
	var err error
	var answer []byte
	if old != "" {
		r.Replaces = old
		answer, err = w.Replace(context.Background(), w.randomAuthor(), r, Once{})
	} else {
		answer, err = w.Create(context.Background(), w.randomAuthor(), r, Once{})
	}
	var got struct{ ID string }
	if err != nil || json.Unmarshal(answer, &got) != nil {
		t.Fatal(err)
	}
	w.ids = append(w.ids, got.ID)
}

// randomExpr is an expression of up to depth levels of $and, $or and $not.
func (w *randomStore) randomExpr(depth int) string {
	lit := func(s string) string { return fmt.Sprintf(`{"$literal":%q}`, s) }
	call := func(kind string, n int) string { return "weave:///acme/support/call/" + w.pick(kind, n) }
	columns := []struct {
		name  string
		value func() string
	}{
		{"trace_ref", func() string { return call("c", 32) }}, {"feedback_type", func() string { return w.pick("t", 4) }},
		{"platform_user_id", func() string { return w.pick("u", 3) }}, {"queue_id", func() string { return w.pick("q", 5) }},
		{"call_ref", func() string { return call("s", 6) }}, {"project_id", func() string { return "acme/support" }},
		{"id", func() string { return w.ids[w.rnd.IntN(len(w.ids))] }},
	}
	op := []string{"$eq", "$gt", "$gte", "$lt", "$lte"}[w.rnd.IntN(5)]
	switch k := w.rnd.IntN(14); {
	case k < 4:
		c := columns[w.rnd.IntN(len(columns))]
		return fmt.Sprintf(`{"$eq":[{"$getField":%q},%s]}`, c.name, lit(c.value()))
	case k == 4:
		c := columns[w.rnd.IntN(len(columns))]
		return fmt.Sprintf(`{"$eq":[%s,{"$getField":%q}]}`, lit(c.value()), c.name)
	case k == 5:
		c := columns[w.rnd.IntN(len(columns))]
		list := []string{}
		for range w.rnd.IntN(25) {
			list = append(list, lit(c.value()))
		}
		return fmt.Sprintf(`{"$in":[{"$getField":%q},[%s]]}`, c.name, strings.Join(list, ","))
	case k == 6:
		return fmt.Sprintf(`{%q:[{"$getField":"payload.n"},{"$literal":%d}]}`, op, w.rnd.IntN(6))
	case k < 9:
		at := fmt.Sprint(float64(w.clock.UnixMilli()-int64(w.rnd.IntN(600))) / 1000)
		if w.rnd.IntN(3) == 0 {
			at = fmt.Sprintf("%q", w.clock.Add(-time.Duration(w.rnd.IntN(600000))*time.Microsecond).UTC().Format(time.RFC3339Nano))
		}
		if w.rnd.IntN(3) == 0 {
			return fmt.Sprintf(`{%q:[{"$literal":%s},{"$getField":"created_at"}]}`, op, at)
		}
		return fmt.Sprintf(`{%q:[{"$getField":"created_at"},{"$literal":%s}]}`, op, at)
	case k == 9 && depth > 0:
		return `{"$not":[` + w.randomExpr(depth-1) + `]}`
	case depth > 0:
		list := []string{w.randomExpr(depth - 1)}
		for w.rnd.IntN(3) > 0 {
			list = append(list, w.randomExpr(depth-1))
		}
		return fmt.Sprintf(`{%q:[%s]}`, []string{"$and", "$and", "$or"}[w.rnd.IntN(3)], strings.Join(list, ","))
	}
	return fmt.Sprintf(`{"$eq":[{"$getField":"queue_id"},%s]}`, lit(w.pick("q", 4)))
}

// randomQuery is the body of a query.
func (w *randomStore) randomQuery() string {
	body := `{"project_id":"acme/support","fields":["id"]`
	if w.rnd.IntN(5) > 0 {
		body += `,"query":{"$expr":` + w.randomExpr(2) + `}`
	}
	direction := func() string { return []string{"asc", "desc"}[w.rnd.IntN(2)] }
	if w.rnd.IntN(3) > 0 {
		body += fmt.Sprintf(`,"sort_by":[{"field":%q,"direction":%q}`, []string{"created_at", "created_at", "created_at", "feedback_type", "payload.n", "id"}[w.rnd.IntN(6)], direction())
		if w.rnd.IntN(2) == 0 {
			body += fmt.Sprintf(`,{"field":%q,"direction":%q}`, []string{"id", "id", "created_at", "payload.n"}[w.rnd.IntN(4)], direction())
		}
		body += `]`
	}
	if w.rnd.IntN(2) == 0 {
		body += fmt.Sprintf(`,"limit":%d`, w.rnd.IntN(20))
	}
	if w.rnd.IntN(2) == 0 {
		body += fmt.Sprintf(`,"offset":%d`, w.rnd.IntN(150))
	}
	return body + `}`
}

// TestQueriesMatchReference asks queries of all kinds between writes and deletions of all
// kinds and compares the answers with referenceAnswer.
func TestQueriesMatchReference(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newRandomStore(t, seed)
			smallBlocks(w.Store, 1+int(seed)*3)
			var asked []string // they are asked again and again, so that blocks are found and kept
			for i := range 500 {
				w.randomUpdate(t)
				if i < 20 || w.rnd.IntN(3) > 0 {
					continue
				}
				if len(asked) < 15 || w.rnd.IntN(3) == 0 {
					asked = append(asked, w.randomQuery())
				}
				w.compare(t, i, asked[w.rnd.IntN(len(asked))])
			}
			checkCache(t, &w.counts)
		})
	}
}

// compare asks a query after update number i and compares the answer with the reference.
func (w *randomStore) compare(t *testing.T, i int, body string) {
	t.Helper()
	q, err := w.DecodeQuery(context.Background(), []byte(body), ForQuery, false)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	q.maxListed = w.rnd.IntN(2) * 5 // 0 stands for the constant
	if err := w.view(func(r *store.Reader, seen uint64) error {
		want, total := referenceAnswer(t, r, q)
		var got []string
		n, err := w.each(context.Background(), q, r, seen, true, func(rec *Record, n int) error {
			if n != len(got) {
				t.Errorf("record %d has the number %d", len(got), n)
			}
			got = append(got, rec.ID)
			return nil
		})
		if err != nil || n != total || !slices.Equal(got, want) {
			t.Fatalf("update %d, %s: %v\n%d of %d\n%d of %d expected\n%v\n%v", i, body, err, len(got), n, len(want), total, got, want)
		}
		if count, err := w.total(context.Background(), q, r, seen); err != nil || count != total {
			t.Fatalf("update %d, %s: a count of %d, %v, want %d", i, body, count, err, total)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// checkCache checks the limits and the sums of a cache that is not in use.
func checkCache(t *testing.T, c *countCache) {
	t.Helper()
	if len(c.running) > 0 || len(c.plans) == 0 || len(c.plans) > c.limits.plans || c.blocks > c.limits.blocks {
		t.Errorf("%d updates are running; there are %d plans with %d blocks", len(c.running), len(c.plans), c.blocks)
	}
	sum := 0
	for _, p := range c.plans {
		sum += len(p.blocks)
	}
	if sum != c.blocks {
		t.Errorf("there are %d blocks, and %d are counted", sum, c.blocks)
	}
}

// TestQueriesAmongWrites reads in several goroutines while others write and delete, and
// compares every answer with the reference on the same snapshot.
func TestQueriesAmongWrites(t *testing.T) {
	s := newStore(t)
	smallBlocks(s, 4)
	s.counts.limits.deletions = 1000
	var writers, readers sync.WaitGroup
	written := make(chan struct{}) // closed when all writers have ended
	for i := range uint64(4) {
		writers.Go(func() { writeAndDelete(t, s, rand.New(rand.NewPCG(i, 1)), 80) })
	}
	for i := range 4 {
		readers.Go(func() { compareUntil(t, s, i, written) })
	}
	writers.Wait()
	close(written)
	readers.Wait()
}

// writeAndDelete writes n records. As soon as it has 50 of them, it deletes or replaces one
// for every new one.
func writeAndDelete(t *testing.T, s *Store, rnd *rand.Rand, n int) {
	ctx := context.Background()
	var ids []string
	for range n {
		r, err := request(t, map[string]any{"feedback_type": fmt.Sprint("t", rnd.IntN(2)), "payload": map[string]any{"n": rnd.IntN(3)}})
		if err != nil {
			t.Error(err)
			return
		}
		if len(ids) > 50 {
			k := rnd.IntN(len(ids))
			if rnd.IntN(2) == 0 {
				if err := s.Purge(ctx, "acme/support", ids[k:k+1]); err != nil {
					t.Error(err)
				}
			} else {
				r.Replaces = ids[k]
			}
			ids = slices.Delete(ids, k, k+1)
		}
		answer, err := s.Replace(ctx, Author{User: "u"}, r, Once{})
		var got struct{ ID string }
		if err != nil || json.Unmarshal(answer, &got) != nil {
			t.Error(err)
			return
		}
		ids = append(ids, got.ID)
	}
}

// compareUntil compares answers with the reference, at least ten of them, until there are
// no more writes.
func compareUntil(t *testing.T, s *Store, first int, written <-chan struct{}) {
	bodies := []string{
		`{"project_id":"acme/support","limit":5,"offset":20}`,
		`{"project_id":"acme/support","limit":5,"query":{"$expr":{"$eq":[{"$getField":"feedback_type"},{"$literal":"t1"}]}}}`,
		`{"project_id":"acme/support","limit":3,"sort_by":[{"field":"created_at","direction":"desc"}],"query":{"$expr":{"$eq":[{"$getField":"payload.n"},{"$literal":1}]}}}`,
	}
	for n := 0; ; n++ {
		select {
		case <-written:
			if n >= 10 {
				return
			}
		default:
		}
		body := bodies[(n+first)%len(bodies)]
		q, err := s.DecodeQuery(context.Background(), []byte(body), ForQuery, false)
		if err != nil {
			t.Error(err)
			return
		}
		if err := s.view(func(r *store.Reader, seen uint64) error {
			var got []string
			total, err := s.each(context.Background(), q, r, seen, true, func(rec *Record, _ int) error { got = append(got, rec.ID); return nil })
			if page, n := referenceAnswer(t, r, q); n != total || !slices.Equal(got, page) {
				t.Errorf("%s: %d, want %d: %v, want %v", body, total, n, got, page)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
