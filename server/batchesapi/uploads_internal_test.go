package batchesapi

import (
	"context"
	"strings"
	"testing"

	"weir/store"
	"weir/store/storetest"
)

// TestB15Parts: an upload has at most a number of parts.
func TestB15Parts(t *testing.T) {
	db, err := store.Open(storetest.Config(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, o := NewStore(db, 0, 0), owner{tenant: "a"}
	for n, want := range map[int]string{maxParts - 1: "", maxParts: "has 1000 parts already"} {
		u := &uploadRow{ID: "upload_a", Status: pending, Bytes: 2 * maxParts, Expires: 10, Parts: make([]partRow, n)}
		if err := db.Update(context.Background(), func(tx *store.Tx) error { return set(tx, o.key(tagUpload, u.ID), u) }); err != nil {
			t.Fatal(err)
		}
		err := db.View(func(r *store.Reader) error {
			_, _, err := s.roomForPart(r, o, u.ID, 5)
			return err
		})
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("with %d parts: %s", n, got)
			}
		} else if want != "" {
			t.Errorf("with %d parts one more is taken", n)
		}
	}
}
