package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"
)

// tidy removes what badger cannot open and what holds no records, and sets aside tables of
// unknown origin, which badger would delete.
func (a *audit) tidy() error {
	if a.account != nil {
		for _, name := range a.account.going {
			// A crash while badger deletes a file leaves an empty one.
			path := filepath.Join(a.dir, name)
			if info, err := os.Stat(path); err == nil && info.Size() < logHeader {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
		}
	}
	if err := tidyDiscards(filepath.Join(a.dir, "DISCARD")); err != nil {
		return err
	}
	if err := tidyRegistry(filepath.Join(a.dir, badger.KeyRegistryFileName)); err != nil {
		return err
	}
	for i, name := range a.strays {
		aside, err := linkAside(filepath.Join(a.dir, name))
		if err != nil {
			return err
		}
		a.strays[i] = aside
	}
	return nil
}

// tidyDiscards removes badger's estimates of the garbage in each value log if the file was
// cut. It fills them in again as it compacts.
func tidyDiscards(path string) error {
	const least = 1 << 20
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() >= least && info.Size()&(info.Size()-1) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// tidyRegistry removes badger's registry of encryption keys if it is damaged. There is no
// encryption, so it holds nothing.
func tidyRegistry(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	const initial = 16 // random bytes, and then a text
	if text := []byte("Hello Badger"); len(b) == initial+len(text) && bytes.Equal(b[initial:], text) {
		return nil
	}
	return os.Remove(path)
}

// judgeStrays looks for the records of tables of unknown origin in the database. A table
// that a crash has left half-way has nothing else, and the copy of it is deleted. What
// another one has may be lost, and the copy is kept.
func (a *audit) judgeStrays(db *badger.DB) {
	for _, path := range a.strays {
		if covered(db, path) {
			_ = os.Remove(path) // a copy that stays does no harm
			continue
		}
		a.note("%s, of which %s knows nothing, has records that are not in the database", path, manifestName)
	}
}

// covered reports whether a database has every record of a table, or a newer one.
func covered(db *badger.DB, path string) bool {
	b, done, err := mapFile(path)
	if err != nil {
		return false
	}
	defer done()
	blocks, bad, ok := readTable(b, true)
	if !ok || len(bad) > 0 {
		return true // it was not finished: badger would not have listed it
	}
	txn := db.NewTransaction(false)
	defer txn.Discard()
	missing := func(key []byte, _ y.ValueStruct) bool {
		it := txn.NewKeyIterator(y.ParseKey(key), badger.IteratorOptions{AllVersions: true})
		defer it.Close()
		it.Rewind()
		return !it.Valid() || it.Item().Version() < y.ParseTs(key)
	}
	return !slices.ContainsFunc(blocks, func(block []byte) bool {
		found := false
		eachEntry(block, func(key []byte, v y.ValueStruct) { found = found || missing(key, v) })
		return found
	})
}
