package feedback

import (
	"bytes"
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

	"weir/store"
)

// small makes blocks of few records, so that little data has many.
func small(s *Store, steps int) {
	s.counts.limits = countLimits{blockKeys: steps, deletions: 64, plans: 20, blocks: 400}
}

// everything is the records of a project, of the rows alone.
func everything(t testing.TB, r *store.Reader, project string) (out []*Record) {
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

// twin answers a query as plainly as can be: filter all, sort all, cut.
func twin(t testing.TB, r *store.Reader, q *Query) (page []string, total int) {
	t.Helper()
	var all []*Record
	for _, rec := range everything(t, r, q.Project) {
		if q.where == nil || q.where.truth(rec) {
			all = append(all, rec)
		}
	}
	rank := map[int]int{kindNum: 0, kindText: 1, kindBool: 2, kindNull: 3, kindComposite: 3, kindMissing: 4}
	slices.SortFunc(all, func(a, b *Record) int {
		for _, o := range q.sort {
			x, y := o.get(a), o.get(b)
			if c := cmp.Compare(rank[x.kind], rank[y.kind]); c != 0 {
				return c
			}
			if c, ok := compareValues(x, y); ok && c != 0 {
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

func idOf(rec *Record) [16]byte {
	id, _ := parseUUID(rec.ID)
	return id
}

// world writes what chance says.
type world struct {
	*Store
	rnd *rand.Rand
	at  time.Time
	ids []string
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{Store: newStore(t), rnd: rand.New(rand.NewPCG(seed, 7)), at: time.UnixMilli(1_700_000_000_000)}
	w.now = func() time.Time { return w.at }
	return w
}

func (w *world) pick(kind string, n int) string { return fmt.Sprintf("%s%d", kind, w.rnd.IntN(n)) }

func (w *world) fields() map[string]any {
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

func (w *world) author() Author { return Author{User: w.pick("u", 2)} }

// change writes, replaces or deletes.
func (w *world) change(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	w.at = w.at.Add(time.Duration(w.rnd.IntN(5)-1) * time.Millisecond)
	switch k := w.rnd.IntN(40); {
	case k < 24 || len(w.ids) == 0:
		r, err := request(t, w.fields())
		if err != nil {
			t.Fatal(err)
		}
		if w.rnd.IntN(3) == 0 {
			r.ID = fmt.Sprintf("%08x-0000-4000-8000-%012x", w.rnd.Uint32(), w.rnd.Uint64()&(1<<48-1))
		}
		w.wrote(t, r, "")
	case k < 34:
		r, err := request(t, w.fields())
		if err != nil {
			t.Fatal(err)
		}
		old := w.ids[w.rnd.IntN(len(w.ids))]
		if w.rnd.IntN(2) == 0 {
			r.ID = old
		}
		w.wrote(t, r, old)
	case k < 38:
		if err := w.Purge(ctx, "acme/support", []string{w.ids[w.rnd.IntN(len(w.ids))], w.ids[w.rnd.IntN(len(w.ids))]}); err != nil {
			t.Fatal(err)
		}
	case k == 38:
		if _, err := w.Expire(ctx, "acme/support", w.at.Add(-time.Duration(200+w.rnd.IntN(400))*time.Millisecond).UnixMilli()); err != nil {
			t.Fatal(err)
		}
	default:
		e, err := DecodeErasure([]byte(`{"project_id":"acme/support","confirm":"acme/support","trace_ref":"weave:///acme/support/call/` + w.pick("c", 30) + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Erase(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) wrote(t testing.TB, r *Request, old string) {
	t.Helper()
	var err error
	var answer []byte
	if old != "" {
		r.Replaces = old
		answer, err = w.Replace(context.Background(), w.author(), r, Once{})
	} else {
		answer, err = w.Create(context.Background(), w.author(), r, Once{})
	}
	var got struct{ ID string }
	if err != nil || json.Unmarshal(answer, &got) != nil {
		t.Fatal(err)
	}
	w.ids = append(w.ids, got.ID)
}

// expr is an expression by chance.
func (w *world) expr(depth int) string {
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
		at := fmt.Sprint(float64(w.at.UnixMilli()-int64(w.rnd.IntN(600))) / 1000)
		if w.rnd.IntN(3) == 0 {
			at = fmt.Sprintf("%q", w.at.Add(-time.Duration(w.rnd.IntN(600000))*time.Microsecond).UTC().Format(time.RFC3339Nano))
		}
		if w.rnd.IntN(3) == 0 {
			return fmt.Sprintf(`{%q:[{"$literal":%s},{"$getField":"created_at"}]}`, op, at)
		}
		return fmt.Sprintf(`{%q:[{"$getField":"created_at"},{"$literal":%s}]}`, op, at)
	case k == 9 && depth > 0:
		return `{"$not":[` + w.expr(depth-1) + `]}`
	case depth > 0:
		list := []string{w.expr(depth - 1)}
		for w.rnd.IntN(3) > 0 {
			list = append(list, w.expr(depth-1))
		}
		return fmt.Sprintf(`{%q:[%s]}`, []string{"$and", "$and", "$or"}[w.rnd.IntN(3)], strings.Join(list, ","))
	}
	return fmt.Sprintf(`{"$eq":[{"$getField":"queue_id"},%s]}`, lit(w.pick("q", 4)))
}

// query is a query by chance.
func (w *world) query() string {
	body := `{"project_id":"acme/support","fields":["id"]`
	if w.rnd.IntN(5) > 0 {
		body += `,"query":{"$expr":` + w.expr(2) + `}`
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

// Queries of all kinds, between writes and deletions of all kinds, against the twin.
func TestQueryTwin(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed)
		small(w.Store, 1+int(seed)*3)
		var asked []string // some again and again, so that blocks are found and kept up
		for i := range 500 {
			w.change(t)
			if i < 20 || w.rnd.IntN(3) > 0 {
				continue
			}
			if len(asked) < 15 || w.rnd.IntN(3) == 0 {
				asked = append(asked, w.query())
			}
			body := asked[w.rnd.IntN(len(asked))]
			q, err := w.DecodeQuery([]byte(body), ForQuery, false)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			q.maxListed = w.rnd.IntN(2) * 5 // 0: as many as usual
			if err := w.view(func(r *store.Reader, seen uint64) error {
				want, total := twin(t, r, q)
				var got []string
				n, err := w.each(context.Background(), q, r, seen, true, func(rec *Record, n int) error {
					if n != len(got) {
						t.Errorf("row %d is called %d", len(got), n)
					}
					got = append(got, rec.ID)
					return nil
				})
				if err != nil || n != total || !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d, %s: %v\n%d of %d\n%d of %d in truth\n%v\n%v", seed, i, body, err, len(got), n, len(want), total, got, want)
				}
				count, err := w.total(context.Background(), q, r, seen)
				if err != nil || count != total {
					t.Fatalf("seed %d, %s: a count of %d, %v, not %d", seed, body, count, err, total)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if c := &w.counts; len(c.running) > 0 || len(c.plans) == 0 || len(c.plans) > 20 || c.blocks > 400 {
			t.Errorf("%d updates are open; blocks of %d queries, %d of them", len(c.running), len(c.plans), c.blocks)
		}
		sum := 0
		for _, m := range w.counts.plans {
			sum += len(m.blocks)
		}
		if sum != w.counts.blocks {
			t.Errorf("%d blocks are kept, %d counted", sum, w.counts.blocks)
		}
	}
}

// The moments at which a count that is kept could be wrong, one by one.
func TestBlocks(t *testing.T) {
	s := newStore(t)
	small(s, 4)
	ctx := context.Background()
	at := int64(1_700_000_000_000)
	s.now = func() time.Time { return time.UnixMilli(at) }
	for range 40 {
		at++
		add(t, s, nil)
	}
	decode := func(rest string) *Query {
		t.Helper()
		q, err := s.DecodeQuery([]byte(`{"project_id":"acme/support","limit":0`+rest+`}`), ForQuery, false)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	all := decode("")
	check := func(when string, q *Query, want int) {
		t.Helper()
		if err := s.view(func(r *store.Reader, seen uint64) error {
			n, err := s.each(ctx, q, r, seen, true, nil)
			if n != want {
				t.Errorf("%s: %d records, not %d", when, n, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var old []*Record
	if err := s.db.View(func(r *store.Reader) error { old = everything(t, r, "acme/support"); return nil }); err != nil {
		t.Fatal(err)
	}
	check("as written", all, 40)
	if len(s.counts.plans) != 1 {
		t.Fatal("no blocks are kept")
	}
	// A query between the function of an update and its commit.
	key := rowKey("acme/support", idOf(old[3]))
	end := s.counts.beginUpdate()
	s.counts.deleted("acme/support", old[3].CreatedAt)
	check("before the commit", all, 40)
	if err := s.db.Update(ctx, func(tx *store.Tx) error { table.Delete(tx, key, old[3].append(nil)); return nil }); err != nil {
		t.Fatal(err)
	}
	check("after it", all, 39)
	end()
	check("after the update", all, 39)
	// A query of an old snapshot, after one of a new one.
	if err := s.view(func(r *store.Reader, seen uint64) error {
		if err := s.Purge(ctx, "acme/support", []string{old[8].ID}); err != nil {
			return err
		}
		at += 10
		add(t, s, nil)
		add(t, s, nil)
		check("the new one", all, 40)
		n, err := s.each(ctx, all, r, seen, true, nil)
		if n != 39 {
			t.Errorf("the old one: %d records, not 39", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	check("the next one", all, 40)
	// A query of a time that is not over.
	soon := decode(fmt.Sprintf(`,"query":{"$expr":{"$lte":[{"$getField":"created_at"},{"$literal":%f}]}}`, float64(at+5)/1000))
	check("of a time", soon, 40)
	at += 3
	add(t, s, nil)
	at += 10
	add(t, s, nil)
	check("of a time, later", soon, 41)
	check("at last", all, 42)
	// More deletions than are remembered, and a change to anything.
	for i := range s.counts.limits.deletions + 5 {
		s.counts.deleted("acme/other", int64(i))
	}
	check("after many deletions", all, 42)
	s.counts.invalidateAll()
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Delete(table.Entries(nil, nil, old[20].append(nil))[0])
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	check("after damage", all, 41)
	if n, err := s.Mend(ctx); n != 1 || err != nil {
		t.Errorf("%d fixes, %v", n, err)
	}
	check("mended", all, 42)
	// A database that is opened anew.
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		table.Delete(tx, rowKey("acme/support", idOf(old[1])), old[1].append(nil))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Compact(); err != nil {
		t.Fatal(err)
	}
	check("opened anew", all, 41)
}

// Many read while many write and delete: every snapshot is counted exactly.
func TestQueriesAmongWrites(t *testing.T) {
	s := newStore(t)
	small(s, 4)
	s.counts.limits.deletions = 1000
	ctx := context.Background()
	until := time.Now().Add(1500 * time.Millisecond)
	var writers, readers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			var ids []string
			for time.Now().Before(until) {
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
		})
	}
	bodies := []string{
		`{"project_id":"acme/support","limit":5,"offset":20}`,
		`{"project_id":"acme/support","limit":5,"query":{"$expr":{"$eq":[{"$getField":"feedback_type"},{"$literal":"t1"}]}}}`,
		`{"project_id":"acme/support","limit":3,"sort_by":[{"field":"created_at","direction":"desc"}],"query":{"$expr":{"$eq":[{"$getField":"payload.n"},{"$literal":1}]}}}`,
	}
	var asked [4]int
	for i := range asked {
		readers.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				body := bodies[(n+i)%len(bodies)]
				q, err := s.DecodeQuery([]byte(body), ForQuery, false)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.view(func(r *store.Reader, seen uint64) error {
					var got []string
					total, err := s.each(ctx, q, r, seen, true, func(rec *Record, _ int) error { got = append(got, rec.ID); return nil })
					if page, n := twin(t, r, q); n != total || !slices.Equal(got, page) {
						t.Errorf("%s: %d, in truth %d: %v, %v", body, total, n, got, page)
					}
					return err
				}); err != nil {
					t.Error(err)
				}
				asked[i]++
			}
		})
	}
	writers.Wait()
	readers.Wait()
	if asked[0] < 5 {
		t.Errorf("asked %v", asked)
	}
}

// Who leaves is not worked for any longer.
func TestQueryLeft(t *testing.T) {
	s := newStore(t)
	for range 300 {
		add(t, s, nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, rest := range []string{``, `,"sort_by":[{"field":"payload.n","direction":"asc"}]`, `,"fields":["count(*)"]`} {
		q, err := s.DecodeQuery([]byte(`{"project_id":"acme/support"`+rest+`}`), ForQuery, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Query(ctx, q, new(bytes.Buffer)); err != context.Canceled {
			t.Errorf("%s: %v", rest, err)
		}
	}
}
