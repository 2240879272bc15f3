package calls

import (
	"context"
	"testing"

	"weir/store"
	"weir/store/storetest"
)

// open opens a database in a folder.
func open(t testing.TB, dir string) (*Store, *store.DB) {
	t.Helper()
	cfg := storetest.Config(dir)
	cfg.ValueThreshold = ValueThreshold
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return New(db), db
}

// newStore opens a store in a temporary folder.
func newStore(t testing.TB) *Store {
	t.Helper()
	s, db := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// write carries out a request as the user u, and returns the answer.
func write(t testing.TB, s *Store, f Form, body string) string {
	t.Helper()
	answer, err := tryWrite(s, f, body)
	if err != nil {
		t.Fatalf("%.300s: %v", body, err)
	}
	return answer
}

func tryWrite(s *Store, f Form, body string) (string, error) {
	r, err := DecodeRequest(context.Background(), []byte(body), f, "")
	if err != nil {
		return "", err
	}
	answer, err := s.Write(context.Background(), Author{User: "u"}, r)
	return string(answer), err
}

// intact checks the indexes, the records and the counts.
func intact(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Check(func(what string) { t.Error(what) }); err != nil {
		t.Error(err)
	}
}
