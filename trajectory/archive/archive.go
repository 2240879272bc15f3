package archive

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/store"
)

var (
	// ErrNotFound: there is no such model, batch or trajectory of this tenant.
	ErrNotFound = errors.New("archive: not found")
	// ErrConflict: the Idempotency-Key was used for another body.
	ErrConflict = errors.New("archive: the key was used for another body")
	// ErrDamaged: what was stored cannot be read back.
	ErrDamaged = errors.New("archive: what is stored is damaged")
)

// Archive keeps batches. Its methods may be called from any goroutine.
type Archive struct {
	db    *store.DB
	log   *slog.Logger
	codec *codec
	now   func() time.Time // tests replace it

	last time.Time // of the newest commit; the store's writer's alone

	ready  atomic.Bool   // leftovers are known: whatever is staged from now on is not one
	opened chan struct{} // closed then
	quit   context.Context
	stop   context.CancelFunc
	ended  sync.WaitGroup

	sweeping struct {
		sync.Mutex
		list []upload
	}
	wake chan struct{} // the list is not empty
}

// New returns the archive on db. It answers store.ErrOpening until db is open
// and what a crash has left in it is known. db is closed by whoever opened it,
// after Close.
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

// Close ends the sweeper. What it has not removed yet it will when the archive
// is opened next.
func (a *Archive) Close() {
	a.stop()
	a.ended.Wait()
	a.codec.close()
}

// Ready is closed when the archive is open.
func (a *Archive) Ready() <-chan struct{} { return a.opened }

// Stats is what the database has done.
func (a *Archive) Stats() store.Stats { return a.db.Stats() }

// Err is why nothing can be stored now; nil: all is well.
func (a *Archive) Err() error {
	if err := a.db.Err(); err != nil {
		return err
	}
	if !a.ready.Load() {
		return store.ErrOpening
	}
	return nil
}

// need is Err for whoever uses the archive: a lazy store is opened by that.
func (a *Archive) need() error {
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
	case <-time.After(needTime):
		return store.ErrOpening
	}
}

// needTime is how long who comes first waits for what a crash has left to be known.
const needTime = 5 * time.Second

// run opens, then sweeps.
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

// open finds what is left over, and the time of the newest commit: the clock
// may have been set back since.
func (a *Archive) open() error {
	var left []upload
	var last time.Time
	err := a.db.View(func(r *store.Reader) error {
		if err := r.Scan(store.Range{Prefix: []byte{tagMarker}, Keys: true}, func(key, _ []byte) bool {
			left = append(left, upload(key[1:]))
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
	if err := a.db.Update(a.quit, func(*store.Tx) error { a.last = last; return nil }); err != nil {
		return err
	}
	if len(left) > 0 {
		a.log.Info("removing what unfinished uploads and deletions have left", "uploads", len(left))
	}
	a.abandon(left...)
	return nil
}

// idOf is the id at the end of a header's key.
func idOf(key []byte) ID { return ID(key[len(key)-len(ID{}):]) }

// after is the first millisecond behind the moment in the id.
func (id ID) after() time.Time {
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms + 1)
}

// tick is the moment of a commit. Only the store's writer may call it.
func (a *Archive) tick() time.Time {
	t := a.now().Truncate(time.Microsecond)
	if !t.After(a.last) {
		t = a.last.Add(time.Microsecond)
	}
	a.last = t
	return t.UTC()
}

// abandon lets the sweeper remove the blocks of uploads that have a marker.
func (a *Archive) abandon(list ...upload) {
	a.sweeping.Lock()
	a.sweeping.list = append(a.sweeping.list, list...)
	a.sweeping.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *Archive) next() (u upload, ok bool) {
	a.sweeping.Lock()
	defer a.sweeping.Unlock()
	if len(a.sweeping.list) == 0 || a.quit.Err() != nil {
		return u, false
	}
	u = a.sweeping.list[0]
	a.sweeping.list = a.sweeping.list[1:]
	return u, true
}

// sweepKeys is how many blocks are removed by one update.
const sweepKeys = 1000

// sweep removes all blocks of an upload, then its marker.
func (a *Archive) sweep(u upload) error {
	for {
		var keys [][]byte
		if err := a.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: blockPrefix(u), Keys: true}, func(key, _ []byte) bool {
				keys = append(keys, append([]byte(nil), key...))
				return len(keys) < sweepKeys
			})
		}); err != nil {
			return err
		}
		if err := a.db.Update(a.quit, func(tx *store.Tx) error {
			for _, k := range keys {
				tx.Delete(k)
			}
			if len(keys) < sweepKeys {
				tx.Delete(markerKey(u))
			}
			return nil
		}); err != nil || len(keys) < sweepKeys {
			return err
		}
	}
}
