package objects

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/store"
	"weir/store/storetest"
)

// open opens a database in a folder.
func open(t testing.TB, dir string) (*Store, *store.DB) {
	t.Helper()
	db, err := store.Open(storetest.Config(dir))
	if err != nil {
		t.Fatal(err)
	}
	return New(db), db
}

// newStore opens a store in a temporary folder, with a clock that the test sets.
func newStore(t testing.TB) (*Store, *time.Time) {
	t.Helper()
	s, db := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	clock := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return clock }
	return s, &clock
}

func tryPublish(s *Store, user, project, id, value string) (digest string, err error) {
	o, err := DecodeObject(context.Background(), []byte(`{"obj":{"project_id":"`+project+`","object_id":"`+id+`","val":`+value+`}}`))
	if err != nil {
		return "", err
	}
	return s.Create(context.Background(), user, o)
}

// publish creates a version of an object.
func publish(t testing.TB, s *Store, user, id, value string) (digest string) {
	t.Helper()
	digest, err := tryPublish(s, user, "p/q", id, value)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func tryTable(s *Store, user, project string, rows ...string) (digest string, err error) {
	q, err := DecodeTable(context.Background(), []byte(`{"table":{"project_id":"`+project+`","rows":[`+strings.Join(rows, ",")+`]}}`))
	if err != nil {
		return "", err
	}
	_, err = s.CreateTable(context.Background(), user, q, true)
	digests := []string{}
	for _, row := range q.rows {
		digests = append(digests, valueDigest(row, nil))
	}
	return tableDigest(digests), err
}

// table creates a table.
func table(t testing.TB, s *Store, user string, rows ...string) (digest string) {
	t.Helper()
	digest, err := tryTable(s, user, "p/q", rows...)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func tryFile(s *Store, user, project, content string) (digest string, err error) {
	_, err = s.CreateFile(context.Background(), user, &File{Project: project, content: []byte(content)})
	return Digest([]byte(content)), err
}

// file creates a file.
func file(t testing.TB, s *Store, user, content string) (digest string) {
	t.Helper()
	digest, err := tryFile(s, user, "p/q", content)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// contentOf lists what a project has: the versions, and how many tables, rows and files.
func contentOf(t testing.TB, s *Store, project string) string {
	t.Helper()
	n := map[byte]int{}
	var names []string
	if err := s.db.View(func(r *store.Reader) error {
		list, err := versions(r, nil, project)
		for _, v := range list {
			name := fmt.Sprintf("%s:v%d", v.Object, v.Index)
			if v.Deleted != 0 {
				name += "-"
			}
			names = append(names, name)
		}
		for _, tag := range contents {
			if err := r.Scan(store.Range{Prefix: keyOf(tag, project), Keys: true}, func(key, _ []byte) bool { n[key[0]]++; return true }); err != nil {
				return err
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s values=%d tables=%d rows=%d files=%d", strings.Join(names, " "), n[tagValue], n[tagTable], n[tagRow], n[tagFile])
}

// intact checks that the store is consistent.
func intact(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Check(func(what string) { t.Error(what) }); err != nil {
		t.Error(err)
	}
}
