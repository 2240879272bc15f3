package outbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"weir/internal/jsontext"
	"weir/store"
)

// The first byte of a key in a database that has a log; the second is the log's.
const (
	tagEntry = 'X' // sequence number, time, gone, ref
	tagState = 'x' // 'e': the epoch; 'c', name of a sink: its cursor
)

// Entry says that something has changed. It has no content: that is read when it is sent, so
// nothing that has been deleted stays in the log.
type Entry struct {
	Seq  uint64
	At   int64 // milliseconds of Unix time
	Gone bool  // something was deleted; such an entry outlives those that a snapshot makes up for
	Ref  []byte
}

// Log is the changes of one kind of record in a database, in the order of their commits. A nil
// *Log takes entries and keeps none.
type Log struct {
	db    *store.DB
	space byte
	on    bool
	now   func() time.Time

	// The rest belongs to the goroutine of the database's writer, but for what mu guards.
	begun   bool
	opening uint64 // the opening of the database that begun is about

	mu      sync.Mutex
	head    uint64 // the number of the newest entry that may be committed
	epoch   string
	waiting []chan struct{} // capacity 1: who wants to know of entries
	cursors []*Cursor
	oldest  uint64 // entries before it have been removed
	thinned uint64 // entries up to it that a snapshot makes up for have been removed
}

// New returns the log of a database that has this letter there. Entries are written only if
// on is set. If it is not, the first change makes whatever a sink has got before unknown, so
// that it begins with a snapshot when it comes back.
func New(db *store.DB, space byte, on bool) *Log {
	return &Log{db: db, space: space, on: on, now: time.Now}
}

// On reports whether changes are noted.
func (l *Log) On() bool { return l != nil && l.on }

func (l *Log) entryPrefix() []byte { return []byte{tagEntry, l.space} }
func (l *Log) epochKey() []byte    { return []byte{tagState, l.space, 'e'} }
func (l *Log) cursorKey(sink string) []byte {
	return store.AppendString([]byte{tagState, l.space, 'c'}, sink)
}

// key is the key of an entry. Everything is in the key, because the space that a store keeps
// free is open to updates that delete and write no values.
func (l *Log) key(e Entry) []byte {
	k := store.AppendUint(store.AppendUint(l.entryPrefix(), e.Seq), uint64(e.At))
	if e.Gone {
		k = append(k, 1)
	} else {
		k = append(k, 0)
	}
	return append(k, e.Ref...)
}

const entryHead = 2 + 8 + 8 + 1

func parseEntry(key []byte) (e Entry, ok bool) {
	if len(key) < entryHead {
		return e, false
	}
	seq, rest, _ := store.CutUint(key[2:])
	at, rest, _ := store.CutUint(rest)
	return Entry{Seq: seq, At: int64(at), Gone: rest[0] == 1, Ref: append([]byte(nil), rest[1:]...)}, true
}

// Note adds entries to the log, in the update that makes the change.
func (l *Log) Note(tx *store.Tx, gone bool, ref []byte) error {
	if l == nil {
		return nil
	}
	if err := l.begin(tx); err != nil || !l.on {
		return err
	}
	l.mu.Lock()
	l.head++
	e := Entry{Seq: l.head, At: l.now().UnixMilli(), Gone: gone, Ref: ref}
	for _, c := range l.waiting {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	l.mu.Unlock()
	tx.Set(l.key(e), nil)
	return nil
}

// begin reads, before the first entry since the database was opened, where the log ends. Of a
// log that is off it removes the epoch. It is done again until what it writes is on the disk.
func (l *Log) begin(tx *store.Tx) error {
	if l.begun && l.opening == tx.Opening() {
		return nil
	}
	epoch, err := tx.Get(l.epochKey())
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	l.opening = tx.Opening()
	if !l.on {
		if l.begun = len(epoch) == 0; !l.begun {
			tx.Delete(l.epochKey())
		}
		return nil
	}
	head, err := l.newest(&tx.Reader)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.begun = len(epoch) > 0; {
	case l.begun:
		l.epoch = string(epoch)
	case l.epoch == "":
		l.epoch = newEpoch()
	}
	l.head = max(l.head, head)
	if !l.begun {
		tx.Set(l.epochKey(), []byte(l.epoch))
	}
	return nil
}

func newEpoch() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// newest is the number of the newest entry that there is or that a sink has, 0 if there is none.
func (l *Log) newest(r *store.Reader) (seq uint64, err error) {
	err = r.Scan(store.Range{Prefix: l.entryPrefix(), Reverse: true, Keys: true}, func(key, _ []byte) bool {
		e, _ := parseEntry(key)
		seq = e.Seq
		return false
	})
	if err != nil {
		return 0, err
	}
	prefix := []byte{tagState, l.space, 'c'}
	return seq, r.Scan(store.Range{Prefix: prefix, Damaged: func([]byte, error) {}}, func(_, text []byte) bool {
		var s State
		if jsontext.Decode(text, &s) == nil {
			seq = max(seq, s.Seq, s.Until)
		}
		return true
	})
}

// Read returns up to n entries after a number, in order.
func (l *Log) Read(after uint64, n int) (list []Entry, err error) {
	err = l.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: l.entryPrefix(), From: store.AppendUint(l.entryPrefix(), after+1), Keys: true}, func(key, _ []byte) bool {
			if e, ok := parseEntry(key); ok {
				list = append(list, e)
			}
			return len(list) < n
		})
	})
	return list, err
}

// Head is the number of the newest entry. It may not be committed yet, or never be.
func (l *Log) Head() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Epoch is a name that no other log has, nor this one after entries were lost.
func (l *Log) Epoch() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// wakes returns a channel that gets a value when there may be new entries.
func (l *Log) wakes() <-chan struct{} {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	return c
}

// Forget makes every sink of a database begin with a snapshot: after a restoration or a repair
// nobody knows which of the entries that were sent are still there.
func Forget(tx *store.Tx, spaces ...byte) {
	for _, s := range spaces {
		tx.Delete([]byte{tagState, s, 'e'})
	}
}
