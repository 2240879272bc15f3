package main

import (
	"path/filepath"
	"strings"
	"testing"

	"weir/store"
	"weir/store/storetest"
)

// tracesDir is a data directory with calls and objects that no server uses.
type tracesDir struct {
	t   *testing.T
	dir string
	cfg store.Config
}

func newTracesDir(t *testing.T) *tracesDir {
	dir := t.TempDir()
	return &tracesDir{t, dir, storetest.Config(filepath.Join(dir, tracesName))}
}

// open opens the database for f.
func (d *tracesDir) open(f func(db *store.DB) error) {
	d.t.Helper()
	db, err := store.Open(d.cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := f(db); err != nil {
		d.t.Error(err)
	}
	if err := db.Close(); err != nil {
		d.t.Error(err)
	}
}

// verify runs weir store verify.
func (d *tracesDir) verify(want int, says string) {
	d.t.Helper()
	if code, out, errOut := runStore("verify", "--data-dir", d.dir); code != want || !strings.Contains(out, says) {
		d.t.Errorf("verify: %d %s %s", code, out, errOut)
	}
}

// loseFirst deletes the first key that begins with tag, which verify has to find and what weir
// store repair does has to mend.
func (d *tracesDir) loseFirst(tag byte) {
	d.t.Helper()
	d.verify(0, ", 0 faults")
	d.open(func(db *store.DB) error {
		return db.Update(d.t.Context(), func(tx *store.Tx) error {
			return tx.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func(key, _ []byte) bool {
				tx.Delete([]byte(string(key)))
				return false
			})
		})
	})
	d.verify(1, "is missing")
	if err := mend(tracesName, d.cfg); err != nil {
		d.t.Error(err)
	}
	d.verify(0, ", 0 faults")
}
