package objects

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/internal/form"
	"weir/internal/quota"
	"weir/store"
)

// Store keeps the objects of all projects. Its keys begin with the bytes 'O' to 'T'; the
// database belongs to packages calls and queues as well. Its methods may be called from any
// goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db    *store.DB
	limit quota.Limit
	now   func() time.Time

	// watches are the deletions of rows that are going on. They belong to the goroutine of
	// the database's writer.
	watches map[*watch]bool
}

// New returns the objects in db, without a limit.
func New(db *store.DB) *Store { return NewLimited(db, quota.Limit{}) }

// NewLimited returns the objects in db. limit is for the objects, tables and files of each
// project.
func NewLimited(db *store.DB, limit quota.Limit) *Store {
	return &Store{db: db, limit: limit, now: time.Now, watches: map[*watch]bool{}}
}

// Err says why nothing can be stored now; nil if it can.
func (s *Store) Err() error { return s.db.Err() }

// The first byte of a key names what it is the key of; what follows is in the comment.
const (
	tagObject = 'O' // project, object id, digest: what is known of a version (version.go)
	tagValue  = 'P' // project, object id, digest: the value of a version
	tagTable  = 'Q' // project, digest: the digests of the rows
	tagRow    = 'R' // project, digest: the value of a row
	tagFile   = 'S' // project, digest: the content of a file
	tagBytes  = 'T' // project: how many bytes all this takes
)

// contents are the tags of the keys whose rows are counted for the quota of a project.
var contents = []byte{tagValue, tagTable, tagRow, tagFile}

// keyOf is the key of something in a project.
func keyOf(tag byte, project string, names ...string) []byte {
	key := store.AppendString([]byte{tag}, project)
	for _, n := range names {
		key = store.AppendString(key, n)
	}
	return key
}

// valueKey is the key of the value of a version, by the key of the version.
func valueKey(key []byte) []byte {
	value := bytes.Clone(key)
	value[0] = tagValue
	return value
}

// A blob is stored as when it was sent last and by whom it was sent first, and its bytes.
type blob struct {
	at   int64 // microseconds of Unix time
	user string
	data []byte
}

func (b *blob) append(dst []byte) []byte {
	dst = append(dst, 1)
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.at))
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(b.user))), b.user...)
	return append(dst, b.data...)
}

var errBlob = fmt.Errorf("%w: not an object", store.ErrCorrupt)

func decodeBlob(row []byte) (b blob, err error) {
	if len(row) < 11 || row[0] != 1 {
		return b, errBlob
	}
	b.at = int64(binary.BigEndian.Uint64(row[1:]))
	n := int(binary.BigEndian.Uint16(row[9:]))
	if len(row) < 11+n {
		return b, errBlob
	}
	b.user, b.data = string(row[11:11+n]), row[11+n:]
	return b, nil
}

// read returns a blob; nil if there is none.
func read(r *store.Reader, key []byte) (*blob, error) {
	row, err := r.Get(key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := decodeBlob(row)
	return &b, err
}

// touched is how long something that is sent again keeps the time that it has. Renewing it
// for every repetition would write as much as the first time did.
// It is much shorter than the shortest retention, so that what was just sent again does not
// expire soon.
const touched = int64(time.Hour / time.Microsecond)

// writer writes for one update, and counts bytes.
type writer struct {
	tx    *store.Tx
	s     *Store
	at    int64
	user  string
	delta quota.Delta
	done  map[string]bool // keys that this update has written
}

// update runs an update. All updates go through it.
func (s *Store) update(ctx context.Context, user string, f func(w *writer) error) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		w := &writer{tx: tx, s: s, at: s.now().UnixMicro(), user: user, delta: quota.Delta{}, done: map[string]bool{}}
		if err := f(w); err != nil {
			return err
		}
		return size.Settle(tx, w.delta, &s.limit)
	})
}

// put writes content that is named by its digest, unless it is there already.
func (w *writer) put(project string, key, data []byte) error {
	if w.done[string(key)] {
		return nil
	}
	w.done[string(key)] = true
	old, err := read(&w.tx.Reader, key)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	b := blob{at: w.at, user: w.user, data: data}
	if old != nil && err == nil {
		if w.at-old.at < touched {
			return nil
		}
		b.user = old.user
	} else {
		w.delta[project] += int64(len(key) + len(data))
	}
	w.tx.Set(key, b.append(nil))
	return nil
}

// remove deletes content. What cannot be read is deleted as well; Mend counts anew then.
func (w *writer) remove(project string, key []byte) error {
	b, err := read(&w.tx.Reader, key)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	w.tx.Delete(key)
	if b != nil && err == nil {
		w.delta[project] -= int64(len(key) + len(b.data))
	}
	return nil
}

// size counts the bytes of the content of each project.
var size = quota.Counter{Tag: tagBytes, Content: contents, Size: rowBytes}

// BytesIn is how many bytes the objects, tables and files of a project take in a snapshot.
func BytesIn(r *store.Reader, project string) (int64, error) { return size.Of(r, project) }

// rowBytes is what a row counts for the quota.
func rowBytes(key, row []byte) int64 {
	b, err := decodeBlob(row)
	if err != nil {
		return 0
	}
	return int64(len(key) + len(b.data))
}

// Bytes is how many bytes the objects of a project take.
func (s *Store) Bytes(project string) (n int64, err error) {
	err = s.db.View(func(r *store.Reader) error {
		n, err = size.Of(r, project)
		return err
	})
	return n, err
}

func refuse(status int, reason string) *form.Refusal {
	return &form.Refusal{Status: status, Reason: reason}
}
