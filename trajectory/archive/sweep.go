package archive

import "weir/store"

// sweepLater lets the sweeper remove the blocks of uploads that have a marker.
func (a *Archive) sweepLater(list ...uploadID) {
	a.sweeping.Lock()
	a.sweeping.list = append(a.sweeping.list, list...)
	a.sweeping.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// next is the next upload to remove.
func (a *Archive) next() (u uploadID, ok bool) {
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
func (a *Archive) sweep(u uploadID) error {
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
