package feedback

import (
	"context"
	"fmt"
	"testing"
	"time"

	"weir/store"
)

// smallBlocks makes blocks of a few keys, so that a few records fill many.
func smallBlocks(s *Store, steps int) {
	s.counts.limits = countLimits{blockKeys: steps, deletions: 64, plans: 20, blocks: 400}
}

// TestBlocks goes through the situations in which a count in memory could be wrong.
func TestBlocks(t *testing.T) {
	s := newStore(t)
	smallBlocks(s, 4)
	ctx := context.Background()
	at := int64(1_700_000_000_000)
	s.now = func() time.Time { return time.UnixMilli(at) }
	for range 40 {
		at++
		add(t, s, nil)
	}
	decode := func(rest string) *Query {
		t.Helper()
		q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support","limit":0`+rest+`}`), ForQuery, false)
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
	if err := s.db.View(func(r *store.Reader) error { old = allRecords(t, r, "acme/support"); return nil }); err != nil {
		t.Fatal(err)
	}
	check("as written", all, 40)
	if len(s.counts.plans) != 1 {
		t.Fatal("no blocks are kept")
	}
	// A query runs between the function of an update and its commit.
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
	// A query of an old snapshot runs after one of a new snapshot.
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
	// A query asks for a time that is still going on.
	soon := decode(fmt.Sprintf(`,"query":{"$expr":{"$lte":[{"$getField":"created_at"},{"$literal":%f}]}}`, float64(at+5)/1000))
	check("of a time", soon, 40)
	at += 3
	add(t, s, nil)
	at += 10
	add(t, s, nil)
	check("of a time, later", soon, 41)
	check("at last", all, 42)
	// There are more deletions than are remembered, and a change of indexes.
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
	// The database is opened again.
	if err := s.db.Update(ctx, func(tx *store.Tx) error {
		table.Delete(tx, rowKey("acme/support", idOf(old[1])), old[1].append(nil))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Compact(); err != nil {
		t.Fatal(err)
	}
	check("opened again", all, 41)
}

func idOf(rec *Record) [16]byte {
	id, _ := parseUUID(rec.ID)
	return id
}
