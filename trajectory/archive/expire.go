package archive

import (
	"context"
	"errors"
	"time"

	"weir/store"
)

// held is a batch of any tenant.
type held struct {
	tenant string
	*Batch
}

// all calls f for the batches of all tenants from a key on, until it returns false.
func (a *Archive) all(r *store.Reader, from []byte, f func(key []byte, b held) bool) error {
	return r.Scan(store.Range{Prefix: []byte{tagHeader}, From: from}, func(key, value []byte) bool {
		tenant, rest, err := store.CutString(key[1:])
		if err != nil {
			return true
		}
		model, rest, err := store.CutString(rest)
		if err != nil || len(rest) != len(ID{}) {
			return true
		}
		b, err := decodeBatch(model, ID(rest), value)
		if err != nil {
			a.log.Error("a batch is passed over", "error", err)
			return true
		}
		return f(key, held{tenant, b})
	})
}

// Expire deletes the batches of all tenants that were received before the time that
// until says for their model and split; the zero time keeps them.
func (a *Archive) Expire(ctx context.Context, until func(model, split string) time.Time) (batches int, err error) {
	for from := []byte(nil); err == nil; {
		var old []held
		if err = a.View("", func(v *View) error {
			return a.all(v.r, from, func(key []byte, b held) bool {
				from = append(append(from[:0], key...), 0)
				if b.Received.Before(until(b.Model, b.Split)) {
					old = append(old, b)
				}
				return len(old) < removeAtOnce
			})
		}); err != nil {
			break
		}
		var gone []held
		err = a.update(ctx, func(tx *store.Tx) error {
			for _, b := range old {
				v := View{&tx.Reader, a, b.tenant}
				now, err := v.Batch(b.Model, b.ID) // rewards may have been set
				if errors.Is(err, ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				a.remove(tx, b.tenant, now)
				gone = append(gone, held{b.tenant, now})
			}
			return nil
		})
		if err != nil {
			break
		}
		for _, b := range gone {
			a.abandon(b.upload)
		}
		batches += len(gone)
		if len(old) < removeAtOnce {
			break
		}
	}
	return batches, err
}

// Tenants are those that have batches of a model.
func (a *Archive) Tenants(model string) (list []string, err error) {
	err = a.View("", func(v *View) error {
		return a.all(v.r, nil, func(_ []byte, b held) bool {
			if b.Model == model && (len(list) == 0 || list[len(list)-1] != b.tenant) { // they come in order
				list = append(list, b.tenant)
			}
			return true
		})
	})
	return list, err
}

// Used is how many bytes a tenant has logged and not deleted, as they were sent.
func (a *Archive) Used(tenant string) (n int64, err error) {
	err = a.View(tenant, func(v *View) error {
		return v.Models(func(m *Model) bool {
			n += m.Bytes
			return true
		})
	})
	return n, err
}

// ErrQuota refuses to log more for a tenant.
var ErrQuota = errors.New("archive: the tenant has logged as much as it may")

// CheckQuota returns ErrQuota if a tenant would have logged more than most bytes with more
// of them. 0 is no bound. Two uploads at a time may both be the last one.
func (a *Archive) CheckQuota(tenant string, more, most int64) error {
	if most <= 0 {
		return nil
	}
	used, err := a.Used(tenant)
	if err == nil && used+more > most {
		err = ErrQuota
	}
	return err
}
