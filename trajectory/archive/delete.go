package archive

import (
	"context"
	"errors"

	"weir/store"
	"weir/trajectory"
)

// DeleteBatch removes a batch, also a damaged one. Later reads do not see it. Its blocks are gone from the disk
// after the sweeper has deleted them and the store has compacted.
func (a *Archive) DeleteBatch(ctx context.Context, tenant, model string, id ID) (trajectory.Counts, error) {
	var gone *Batch
	err := a.update(ctx, func(tx *store.Tx) (err error) {
		v := View{r: &tx.Reader, a: a, tenant: tenant}
		switch gone, err = v.Batch(model, id); {
		case err == nil:
			return a.remove(tx, tenant, gone)
		case errors.Is(err, ErrDamaged):
			// Without its header nobody knows where its blocks are: they stay.
			a.log.Warn("the header of a batch that is deleted is damaged; its texts stay on the disk", "log", id, "error", err)
			tx.Delete(headerKey(tenant, model, id))
			gone, err = nil, a.noteGone(tx, tenant, &Batch{Receipt: Receipt{ID: id}, Model: model})
		}
		return err
	})
	if err != nil || gone == nil {
		return trajectory.Counts{}, err
	}
	a.sweepLater(gone.upload)
	return gone.Counts, nil
}

// update runs an update when the archive is open.
func (a *Archive) update(ctx context.Context, f func(*store.Tx) error) error {
	if err := a.waitOpen(); errors.Is(err, store.ErrOpening) {
		return err
	}
	return a.db.Update(ctx, f)
}

// remove makes a batch invisible and marks its blocks for the sweeper.
func (a *Archive) remove(tx *store.Tx, tenant string, b *Batch) error {
	tx.Delete(headerKey(tenant, b.Model, b.ID))
	tx.Set(markerKey(b.upload), nil)
	return a.noteGone(tx, tenant, b)
}

// removeAtOnce is how many batches one update removes.
const removeAtOnce = 1000

// DeleteModel removes all batches of a model that exist when it begins, and then that it was
// created. If it is interrupted, some of them stay.
func (a *Archive) DeleteModel(ctx context.Context, tenant, model string) (trajectory.Counts, error) {
	var newest ID
	err := a.View(tenant, func(v *View) error {
		if err := v.Known(model); err != nil {
			return err
		}
		return v.Batches(model, ID{}, true, func(b *Batch) bool {
			newest = b.ID
			return false
		})
	})
	if err != nil {
		return trajectory.Counts{}, err
	}
	total, err := a.deleteBatches(ctx, tenant, model, newest)
	if err == nil {
		err = a.removeCreated(ctx, tenant, model)
	}
	return total, err
}

// deleteBatches removes the batches of a model up to the newest one; zero: there are none.
func (a *Archive) deleteBatches(ctx context.Context, tenant, model string, newest ID) (total trajectory.Counts, err error) {
	for newest != (ID{}) && err == nil {
		var gone []*Batch
		err = a.update(ctx, func(tx *store.Tx) error {
			v := View{r: &tx.Reader, a: a, tenant: tenant}
			err := v.Batches(model, ID{}, false, func(b *Batch) bool {
				if string(b.ID[:]) > string(newest[:]) {
					return false
				}
				gone = append(gone, b)
				return len(gone) < removeAtOnce
			})
			for _, b := range gone {
				err = errors.Join(err, a.remove(tx, tenant, b))
			}
			return err
		})
		if err == nil {
			for _, b := range gone {
				total.Groups += b.Groups
				total.Trajectories += b.Trajectories
				total.Exceptions += b.Exceptions
				a.sweepLater(b.upload)
			}
			if len(gone) < removeAtOnce {
				return total, nil
			}
		}
	}
	return total, err
}

// Delete removes the trajectories that the filter selects, and returns how many they are.
// With dry it only counts them. A batch that loses all its trajectories is removed. The rest
// of any other batch is written again, so that what was deleted does not stay on the disk.
func (a *Archive) Delete(ctx context.Context, tenant, model string, f *Filter, dry bool) (selected int, err error) {
	var list []*Batch
	err = a.Query(ctx, tenant, func(v *View) error {
		if err := v.Known(model); err != nil {
			return err
		}
		var full error
		err := v.Batches(model, ID{}, false, func(b *Batch) bool {
			if f.mayMatch(b) {
				full = v.Reserve(BatchBytes)
				list = append(list, b)
			}
			return full == nil
		})
		return errors.Join(err, full)
	})
	if err != nil {
		return 0, err
	}
	for _, b := range list {
		n, err := a.deleteFrom(ctx, tenant, b, f, dry)
		if err != nil {
			return selected, err
		}
		selected += n
	}
	return selected, nil
}

// deleteFrom removes what the filter selects from one batch.
func (a *Archive) deleteFrom(ctx context.Context, tenant string, b *Batch, f *Filter, dry bool) (selected int, err error) {
	if f.batchesOnly() {
		selected = b.Trajectories
	} else {
		err = a.Query(ctx, tenant, func(v *View) error {
			return v.Open(b).Visit(f, Visitor{Trajectory: func(*Row) error { selected++; return nil }})
		})
	}
	switch {
	case err != nil || dry || selected == 0 && !f.batchesOnly():
		return selected, err
	case selected == b.Trajectories:
		_, err := a.DeleteBatch(ctx, tenant, b.Model, b.ID)
		if errors.Is(err, ErrNotFound) {
			return 0, nil // it was deleted meanwhile
		}
		return selected, err
	}
	return selected, a.rewrite(ctx, tenant, b, func(c *Contents, r *Row, t *trajectory.Trajectory) (bool, error) {
		gone, err := c.selects(f, r)
		return !gone, err
	})
}
