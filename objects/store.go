package objects

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/internal/form"
	"weir/store"
)

// Config is the configuration of a store.
type Config struct {
	// Quota is how many bytes the objects, tables and files of a project may take; 0: as many
	// as there is room for.
	Quota int64
}

// Store keeps the objects of all projects. Its keys begin with the bytes 'O' to 'T'; the
// database belongs to packages calls and queues as well. Its methods may be called from any
// goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db  *store.DB
	cfg Config
	now func() time.Time
}

// New returns the objects in db, without a quota.
func New(db *store.DB) *Store { return NewConfigured(db, Config{}) }

// NewConfigured returns the objects in db.
func NewConfigured(db *store.DB, cfg Config) *Store {
	return &Store{db: db, cfg: cfg, now: time.Now}
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

// keyOf is the key of something in a project.
func keyOf(tag byte, project string, names ...string) []byte {
	key := store.AppendString([]byte{tag}, project)
	for _, n := range names {
		key = store.AppendString(key, n)
	}
	return key
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
const touched = int64(24 * time.Hour / time.Microsecond)

// writer writes for one update, and counts bytes.
type writer struct {
	tx    *store.Tx
	s     *Store
	at    int64
	user  string
	delta map[string]int64
	done  map[string]bool // keys that this update has written
}

// update runs an update. All updates go through it.
func (s *Store) update(ctx context.Context, user string, f func(w *writer) error) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		w := &writer{tx: tx, s: s, at: s.now().UnixMicro(), user: user, delta: map[string]int64{}, done: map[string]bool{}}
		if err := f(w); err != nil {
			return err
		}
		return w.settle()
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

// remove deletes a key whose value has so many bytes of data.
func (w *writer) remove(project string, key []byte, data int) {
	w.tx.Delete(key)
	w.delta[project] -= int64(len(key) + data)
}

// settle writes the counts of bytes. A project that grows beyond its quota is refused.
func (w *writer) settle() error {
	for project, d := range w.delta {
		if d == 0 {
			continue
		}
		n, err := bytesOf(&w.tx.Reader, project)
		if err != nil {
			return err
		}
		n = max(n+d, 0)
		if quota := w.s.cfg.Quota; quota > 0 && d > 0 && n > quota {
			return refuse(400, fmt.Sprintf("The objects of project %s would take %d bytes, and its quota is %d", project, n, quota))
		}
		key := keyOf(tagBytes, project)
		if n == 0 {
			w.tx.Delete(key)
			continue
		}
		w.tx.Set(key, binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return nil
}

// bytesOf is how many bytes the objects of a project take. A count that is damaged begins
// anew with what it finds.
func bytesOf(r *store.Reader, project string) (n int64, err error) {
	v, err := r.Get(keyOf(tagBytes, project))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err == nil && len(v) == 8:
		return int64(binary.BigEndian.Uint64(v)), nil
	case err != nil && !errors.Is(err, store.ErrCorrupt):
		return 0, err
	}
	for _, tag := range []byte{tagObject, tagValue, tagTable, tagRow, tagFile} {
		err = errors.Join(err, r.Scan(store.Range{Prefix: keyOf(tag, project), Damaged: func([]byte, error) {}}, func(key, row []byte) bool {
			if b, err := decodeBlob(row); err == nil {
				n += int64(len(key) + len(b.data))
			}
			return true
		}))
	}
	if errors.Is(err, store.ErrCorrupt) {
		err = nil
	}
	return n, err
}

// Bytes is how many bytes the objects of a project take.
func (s *Store) Bytes(project string) (n int64, err error) {
	err = s.db.View(func(r *store.Reader) error {
		n, err = bytesOf(r, project)
		return err
	})
	return n, err
}

func refuse(status int, reason string) *form.Refusal {
	return &form.Refusal{Status: status, Reason: reason}
}
