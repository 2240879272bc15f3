package feedback

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"weir/store"
)

// TestIndexes checks that every column that people filter by has an index, that an index
// finds what reading all records finds, and that Upgrade writes an index that an earlier
// version of weir did not have.
func TestIndexes(t *testing.T) {
	s := sample(t)
	checkIndexes(t, s, "as written")
	ctx := context.Background()
	if n, err := s.Upgrade(ctx); n != 0 || err != nil {
		t.Errorf("%d entries are missing, %v", n, err)
	}
	loseIndex(t, s)
	late := New(s.db, DefaultConfig()) // as after a start
	for _, ask := range []func() error{
		func() error {
			q, err := late.DecodeQuery(ctx, []byte(`{"project_id":"acme/support"}`), ForQuery, false)
			return FirstError(err, late.Query(ctx, q, new(bytes.Buffer)))
		},
		func() error {
			q, err := late.DecodeStats(ctx, []byte(`{"project_id":"acme/support","start":"2020-01-01"}`), true)
			if err != nil {
				return err
			}
			_, err = late.PayloadSchema(ctx, q)
			return err
		},
	} {
		var refused *Refusal
		if err := ask(); !errors.As(err, &refused) || refused.Status != 503 || !strings.Contains(refused.Reason, "(0 %)") {
			t.Errorf("with an index that is not there: %v", err)
		}
	}
	for _, want := range []int{7, 0} {
		if n, err := s.Upgrade(ctx); n != want || err != nil {
			t.Errorf("%d entries made, %v, want %d", n, err, want)
		}
	}
	checkIndexes(t, s, "upgraded")
}

// checkIndexes checks that columns have their indexes, and that these find what reading all
// records finds.
func checkIndexes(t *testing.T, s *Store, when string) {
	t.Helper()
	for column, c := range map[string]struct {
		value string
		tag   byte
	}{
		"trace_ref": {"weave:///acme/support/call/other", tagRef}, "call_ref": {"weave:///acme/support/call/scorer", tagCall},
		"feedback_type": {"odd", tagType}, "platform_user_id": {"u", tagUser}, "queue_id": {"q", tagQueue},
	} {
		where := `{"$eq":[{"$getField":"` + column + `"},{"$literal":"` + c.value + `"}]}`
		q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support","query":{"$expr":`+where+`}}`), ForQuery, false)
		if err != nil {
			t.Fatal(err)
		}
		if p := q.plan(); len(p.sets) != 1 || p.sets[0].prefixes[0][0] != c.tag || len(p.onRows) > 0 {
			t.Errorf("%s: the plan for %s is %v", when, column, p)
		}
		with := letters(t, s, `,"query":{"$expr":`+where+`}`)
		without := letters(t, s, `,"query":{"$expr":{"$not":[{"$not":[`+where+`]}]}}`)
		if with != without || with == "" {
			t.Errorf("%s: %s: %q with its index, %q without", when, column, with, without)
		}
	}
}

// loseIndex makes a database one of an earlier version of weir, without the index of call_ref.
func loseIndex(t *testing.T, s *Store) {
	t.Helper()
	if err := s.db.Update(t.Context(), func(tx *store.Tx) error {
		var keys [][]byte
		if err := tx.Scan(store.Range{Prefix: []byte{tagCall}, Keys: true}, func(k, _ []byte) bool { keys = append(keys, bytes.Clone(k)); return true }); err != nil {
			return err
		}
		for _, k := range keys {
			tx.Delete(k)
		}
		tx.Set([]byte{tagIndexes}, []byte("tfyuq"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMend checks that Mend repairs damaged indexes.
func TestMend(t *testing.T) {
	s := sample(t)
	var rows, entries [][]byte
	if err := s.db.View(func(r *store.Reader) error {
		return errors.Join(
			r.Scan(store.Range{Prefix: []byte{tagRow}, Keys: true}, func(k, _ []byte) bool { rows = append(rows, bytes.Clone(k)); return true }),
			r.Scan(store.Range{Prefix: []byte{tagType}, Keys: true}, func(k, _ []byte) bool { entries = append(entries, bytes.Clone(k)); return true }))
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Update(context.Background(), func(tx *store.Tx) error {
		tx.Delete(rows[3])                       // 4 to 6 entries are left over
		tx.Delete(entries[0])                    // one is missing
		tx.Set([]byte("yloose"), []byte("none")) // one belongs to no record
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	n, err := s.Mend(context.Background())
	if err != nil || n < 6 || n > 8 {
		t.Errorf("%d fixes, %v", n, err)
	}
	if n, err := s.Mend(context.Background()); n != 0 || err != nil {
		t.Errorf("again %d fixes, %v", n, err)
	}
	if got := letters(t, s, `,"query":{"$expr":{"$in":[{"$getField":"feedback_type"},[{"$literal":"custom"},{"$literal":"odd"}]]}}`); len(got) != len(letters(t, s, "")) {
		t.Error(got)
	}
}
