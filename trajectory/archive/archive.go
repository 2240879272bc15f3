package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/store"
	"weir/store/outbox"
)

var (
	// ErrNotFound: there is no such model, batch or trajectory of this tenant.
	ErrNotFound = errors.New("archive: not found")
	// ErrConflict: the Idempotency-Key was used for another body.
	ErrConflict = errors.New("archive: the key was used for another body")
	// ErrDamaged: what was stored cannot be read back.
	ErrDamaged = errors.New("archive: what is stored is damaged")
)

// Damaged is an ErrDamaged that says what cannot be read: a batch, and of it one trajectory
// if Group is not below 0.
type Damaged struct {
	Log          ID
	Group, Index int
	Err          error
}

func (e *Damaged) Error() string { return e.What() + ": " + e.Err.Error() }

// What names what is damaged by its id.
func (e *Damaged) What() string {
	if e.Group < 0 {
		return "the batch " + e.Log.String()
	}
	return fmt.Sprintf("the trajectory %v/%d/%d", e.Log, e.Group, e.Index)
}

// Unwrap lets errors.Is find ErrDamaged.
func (e *Damaged) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// damagedLog says of an error that it is about damage to a batch; other errors stay as they
// are.
func damagedLog(id ID, err error) error {
	known := new(Damaged)
	if errors.As(err, &known) || !errors.Is(err, ErrDamaged) && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	return &Damaged{Log: id, Group: -1, Err: err}
}

// Archive keeps batches. Its methods may be called from any goroutine.
type Archive struct {
	db    *store.DB
	log   *slog.Logger
	codec *codec
	now   func() time.Time // tests replace it

	changes *outbox.Log // of batches, for sinks; nil: nobody wants them

	last time.Time // of the newest commit; only the goroutine of the store's writer uses it

	ready  atomic.Bool   // what a crash left is known, and the sweeper has it
	opened chan struct{} // closed when ready is set
	quit   context.Context
	stop   context.CancelFunc
	ended  sync.WaitGroup

	sweeping struct {
		sync.Mutex
		list []uploadID
	}
	wake chan struct{} // the list is not empty
}

// New returns the archive on db. Its methods return store.ErrOpening until db is open and
// the archive knows what a crash has left in it. The caller closes db, after Close.
func New(db *store.DB, log *slog.Logger) (*Archive, error) {
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	a := &Archive{db: db, log: log, codec: c, now: time.Now, opened: make(chan struct{}), wake: make(chan struct{}, 1)}
	a.quit, a.stop = context.WithCancel(context.Background())
	a.ended.Go(a.run)
	return a, nil
}

// Close ends the sweeper. The next start removes what it has not removed yet.
func (a *Archive) Close() {
	a.stop()
	a.ended.Wait()
	a.codec.close()
}

// Ready is closed when the archive is open.
func (a *Archive) Ready() <-chan struct{} { return a.opened }

// Stats returns the counters of the database.
func (a *Archive) Stats() store.Stats { return a.db.Stats() }

// Err says why nothing can be stored now; nil if it can.
func (a *Archive) Err() error {
	if err := a.db.Err(); err != nil {
		return err
	}
	if !a.ready.Load() {
		return a.db.Opening()
	}
	return nil
}

// waitOpen waits until the archive can be used, and returns Err. A lazy store is opened by
// it.
func (a *Archive) waitOpen() error {
	if a.ready.Load() {
		return a.db.Err()
	}
	if err := a.db.View(func(*store.Reader) error { return nil }); err != nil {
		return err
	}
	select {
	case <-a.opened:
		return nil
	case <-a.quit.Done():
		return store.ErrClosed
	case <-time.After(openTime):
		return a.db.Opening()
	}
}

// openTime is how long a method waits for the archive to be ready.
const openTime = 5 * time.Second

// run opens the archive, then removes what is left over until Close.
func (a *Archive) run() {
	select {
	case <-a.db.Ready():
	case <-a.quit.Done():
		return
	}
	const pause = time.Second
	for wait := time.Duration(0); ; wait = pause {
		select {
		case <-time.After(wait):
		case <-a.quit.Done():
			return
		}
		err := a.open()
		if err == nil {
			break
		}
		if a.quit.Err() != nil {
			return
		}
		a.log.Error("the trajectory archive cannot be opened; trying again", "error", err)
	}
	a.ready.Store(true)
	close(a.opened)
	for {
		for u, ok := a.next(); ok; u, ok = a.next() {
			if err := a.sweep(u); err != nil && a.quit.Err() == nil {
				a.log.Warn("blocks that belong to nobody stay until the next start", "error", err)
			}
		}
		select {
		case <-a.wake:
		case <-a.quit.Done():
			return
		}
	}
}

// open finds what is left over, and the time of the newest commit: the clock may have been
// set back since then.
func (a *Archive) open() error {
	var left []uploadID
	var last time.Time
	err := a.db.View(func(r *store.Reader) error {
		if err := r.Scan(store.Range{Prefix: []byte{tagMarker}, Keys: true}, func(key, _ []byte) bool {
			left = append(left, uploadID(key[1:]))
			return true
		}); err != nil {
			return err
		}
		return r.Scan(store.Range{Prefix: []byte{tagHeader}, Keys: true}, func(key, _ []byte) bool {
			if at := idOf(key).after(); at.After(last) {
				last = at
			}
			return true
		})
	})
	if err != nil {
		return err
	}
	a.last = last // no update looks at it before a.ready is set; a full disk is no reason to wait
	if len(left) > 0 {
		a.log.Info("removing what unfinished uploads and deletions have left", "uploads", len(left))
	}
	a.sweepLater(left...)
	return nil
}

// idOf is the id at the end of a header's key.
func idOf(key []byte) ID { return ID(key[len(key)-len(ID{}):]) }

// after is the first millisecond after the time in the id.
func (id ID) after() time.Time {
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms + 1)
}

// commitTime returns the time of a commit, which is later than all before. It may only be
// called inside an update.
func (a *Archive) commitTime() time.Time {
	t := a.now().Truncate(time.Microsecond)
	if !t.After(a.last) {
		t = a.last.Add(time.Microsecond)
	}
	a.last = t
	return t.UTC()
}
