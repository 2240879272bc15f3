package archive

import (
	"context"
	"errors"
	"time"

	"weir/store"
)

// tenantBatch is a batch of some tenant.
type tenantBatch struct {
	tenant string
	*Batch
}

// eachBatch calls f for the batches of all tenants from a key on, until f returns false.
func (a *Archive) eachBatch(r *store.Reader, from []byte, f func(key []byte, b tenantBatch) bool) error {
	damaged := func(_ []byte, err error) { a.log.Error("a batch is passed over", "error", err) }
	return r.Scan(store.Range{Prefix: []byte{tagHeader}, From: from, Damaged: damaged}, func(key, value []byte) bool {
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
			damaged(key, err)
			return true
		}
		return f(key, tenantBatch{tenant, b})
	})
}

// modelNames returns the names of models, and remembers those of the last one.
type modelNames struct {
	tenant, model string
	names         []string
}

// of returns the names of a model of a tenant: its id, and those that it was created with.
func (n *modelNames) of(a *Archive, r *store.Reader, tenant, model string) []string {
	if n.names != nil && n.tenant == tenant && n.model == model {
		return n.names
	}
	*n = modelNames{tenant, model, []string{model}}
	v := View{r: r, a: a, tenant: tenant}
	switch m, err := v.Created(model); {
	case err != nil:
		a.log.Error("a model's names are not known", "model", model, "error", err)
	case m != nil:
		n.names = append(n.names, m.Names()...)
	}
	return n.names
}

// Expire deletes the batches of all tenants that were received before the time that until
// returns for their model, by all names that it has, and their split, and returns how many they
// were. The zero time keeps batches.
func (a *Archive) Expire(ctx context.Context, until func(names []string, split string) time.Time) (batches int, err error) {
	var names modelNames
	for from := []byte(nil); err == nil; {
		var old []tenantBatch
		if err = a.View("", func(v *View) error {
			return a.eachBatch(v.r, from, func(key []byte, b tenantBatch) bool {
				from = append(append(from[:0], key...), 0)
				if b.Received.Before(until(names.of(a, v.r, b.tenant, b.Model), b.Split)) {
					old = append(old, b)
				}
				return len(old) < removeAtOnce
			})
		}); err != nil {
			break
		}
		var gone []tenantBatch
		err = a.update(ctx, func(tx *store.Tx) error {
			for _, b := range old {
				now, err := a.removeOld(tx, b)
				if err != nil {
					return err
				}
				if now != nil {
					gone = append(gone, tenantBatch{b.tenant, now})
				}
			}
			return nil
		})
		if err != nil {
			break
		}
		for _, b := range gone {
			a.sweepLater(b.upload)
		}
		batches += len(gone)
		if len(old) < removeAtOnce {
			break
		}
	}
	return batches, err
}

// removeOld removes a batch, and returns it as it was; nil if it is gone.
func (a *Archive) removeOld(tx *store.Tx, b tenantBatch) (*Batch, error) {
	v := View{r: &tx.Reader, a: a, tenant: b.tenant}
	now, err := v.Batch(b.Model, b.ID) // it may have been rewritten with rewards
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return now, a.remove(tx, b.tenant, now)
}
