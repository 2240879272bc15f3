package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"weir/store"
)

// openDB opens a database in a new directory.
func openDB() (db *store.DB, remove func()) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	cfg := store.DefaultConfig(dir)
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	if db, err = store.Open(cfg); err != nil {
		panic(err)
	}
	return db, func() {
		if err := db.Close(); err != nil {
			panic(err)
		}
		_ = os.RemoveAll(dir)
	}
}

// noteKey is the key of a note: a tag of the table, a project, a number.
func noteKey(project string, n uint64) []byte {
	return store.AppendUint(store.AppendString([]byte{'n'}, project), n)
}

// Records of two projects are written, read in order, and copied to another database by
// way of a backup.
func Example() {
	db, remove := openDB()
	defer remove()
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		tx.Set(noteKey("acme/support", 2), []byte("the second note"))
		tx.Set(noteKey("acme/support", 1), []byte("the first note"))
		tx.Set(noteKey("acme/sales", 1), []byte("another project"))
		return nil
	})
	fmt.Println("written and synced:", err)

	project := store.AppendString([]byte{'n'}, "acme/support")
	err = db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: project}, func(_, value []byte) bool {
			fmt.Printf("%s\n", value)
			return true
		})
	})
	fmt.Println("read:", err)

	var file bytes.Buffer
	backup := store.NewBackup(&file)
	damaged, err := backup.Add("notes", db)
	fmt.Println("backed up:", damaged, "damaged,", err, backup.Close())

	other, removeOther := openDB()
	defer removeOther()
	n, err := store.Restore(context.Background(), &file, func(name string) (*store.DB, error) { return other, nil })
	fmt.Println("restored:", n, err)
	// Output:
	// written and synced: <nil>
	// the first note
	// the second note
	// read: <nil>
	// backed up: 0 damaged, <nil> <nil>
	// restored: 3 <nil>
}
