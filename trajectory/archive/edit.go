package archive

import (
	"context"
	"errors"

	"weir/store"
	"weir/trajectory"
)

// DeleteBatch removes a batch. Reads do not see it from then on; its blocks
// leave the disk when the sweeper and the store's compaction have been there.
func (a *Archive) DeleteBatch(ctx context.Context, tenant, model string, id ID) (trajectory.Counts, error) {
	var gone *Batch
	err := a.update(ctx, func(tx *store.Tx) (err error) {
		v := View{&tx.Reader, a, tenant}
		if gone, err = v.Batch(model, id); err == nil {
			a.remove(tx, tenant, gone)
		}
		return err
	})
	if err != nil {
		return trajectory.Counts{}, err
	}
	a.abandon(gone.upload)
	return gone.Counts, nil
}

func (a *Archive) update(ctx context.Context, f func(*store.Tx) error) error {
	if err := a.need(); errors.Is(err, store.ErrOpening) {
		return err
	}
	return a.db.Update(ctx, f)
}

// remove makes a batch invisible and its blocks the sweeper's.
func (a *Archive) remove(tx *store.Tx, tenant string, b *Batch) {
	tx.Delete(headerKey(tenant, b.Model, b.ID))
	tx.Set(markerKey(b.upload), nil)
}

// removeAtOnce is how many batches one update removes.
const removeAtOnce = 1000

// DeleteModel removes all batches of a model that there are when it begins.
// If it is interrupted, some of them stay.
func (a *Archive) DeleteModel(ctx context.Context, tenant, model string) (trajectory.Counts, error) {
	var total trajectory.Counts
	var newest ID
	err := a.View(tenant, func(v *View) error {
		return v.Batches(model, ID{}, true, func(b *Batch) bool {
			newest = b.ID
			return false
		})
	})
	if err == nil && newest == (ID{}) {
		err = ErrNotFound
	}
	for err == nil {
		var gone []*Batch
		err = a.update(ctx, func(tx *store.Tx) error {
			v := View{&tx.Reader, a, tenant}
			err := v.Batches(model, ID{}, false, func(b *Batch) bool {
				if string(b.ID[:]) > string(newest[:]) {
					return false
				}
				gone = append(gone, b)
				return len(gone) < removeAtOnce
			})
			for _, b := range gone {
				a.remove(tx, tenant, b)
			}
			return err
		})
		if err == nil {
			for _, b := range gone {
				total.Groups += b.Groups
				total.Trajectories += b.Trajectories
				total.Exceptions += b.Exceptions
				a.abandon(b.upload)
			}
			if len(gone) < removeAtOnce {
				return total, nil
			}
		}
	}
	return total, err
}

// Delete removes the trajectories that the filter selects; with dry it only
// counts them. A batch that loses all of them goes as a whole; of others the
// rest is written anew, so that nothing of what was deleted stays on the disk.
func (a *Archive) Delete(ctx context.Context, tenant, model string, f *Filter, dry bool) (selected int, err error) {
	var list []*Batch
	err = a.View(tenant, func(v *View) error {
		if err := v.Known(model); err != nil {
			return err
		}
		return v.Batches(model, ID{}, false, func(b *Batch) bool {
			if f.batch(b) {
				list = append(list, b)
			}
			return true
		})
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
	if f.whole() {
		selected = b.Trajectories
	} else {
		err = a.View(tenant, func(v *View) error {
			return v.Open(b).Visit(f, Visitor{Trajectory: func(*Row) error { selected++; return nil }})
		})
	}
	switch {
	case err != nil || dry || selected == 0 && !f.whole():
		return selected, err
	case selected == b.Trajectories:
		_, err := a.DeleteBatch(ctx, tenant, b.Model, b.ID)
		if errors.Is(err, ErrNotFound) {
			return 0, nil // somebody else was faster
		}
		return selected, err
	}
	return selected, a.rewrite(ctx, tenant, b, func(c *Contents, r *Row, t *trajectory.Trajectory) (bool, error) {
		gone, err := c.selects(f, r)
		return !gone, err
	})
}

// Place is where a trajectory is in its batch.
type Position struct{ Group, Index int }

// ErrNotRecorded: the trajectory came with its reward.
var ErrNotRecorded = errors.New("archive: the trajectory was logged, not recorded")

// SetRewards sets the rewards of recorded trajectories of one batch: all of them
// or, if one is not there or was not recorded, none. What clients have logged stays
// as they have.
func (a *Archive) SetRewards(ctx context.Context, tenant, model string, id ID, rewards map[Position]float64) error {
	return a.reward(ctx, tenant, model, id, len(rewards), func(at Position) (float64, bool) {
		x, ok := rewards[at]
		return x, ok
	})
}

// reward sets the rewards that pick has for the trajectories of one batch, of which
// there have to be least.
func (a *Archive) reward(ctx context.Context, tenant, model string, id ID, least int, pick func(Position) (float64, bool)) error {
	for {
		err := a.rewardOnce(ctx, tenant, model, id, least, pick)
		if !errors.Is(err, ErrChanged) || ctx.Err() != nil {
			return err
		}
		// Somebody else has set another one: the batch is read again.
	}
}

func (a *Archive) rewardOnce(ctx context.Context, tenant, model string, id ID, least int, pick func(Position) (float64, bool)) error {
	u, err := a.Begin(ctx, tenant, model)
	if err != nil {
		return err
	}
	defer u.Abort()
	var b *Batch
	var buf []byte
	picked, fresh := 0, 0
	err = a.View(tenant, func(v *View) (err error) {
		if b, err = v.Batch(model, id); err != nil {
			return err
		}
		// Facts first: what is set again, after a crash perhaps, costs no copy.
		if err := v.Open(b).Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
			if x, ok := pick(Position{r.Group, r.Index}); ok {
				picked++
				if !r.Scored || r.Reward != x {
					fresh++
				}
			}
			return nil
		}}); err != nil || picked < least || picked == 0 {
			return err
		}
		if fresh == 0 && least == 0 {
			return nil
		}
		return u.copy(v.Open(b), func(c *Contents, r *Row, t *trajectory.Trajectory) (bool, error) {
			x, ok := pick(Position{r.Group, r.Index})
			if !ok {
				return true, nil
			}
			text, err := c.Text(r)
			if err != nil {
				return false, err
			}
			if string(text.Member("recorded")) != "true" {
				return false, ErrNotRecorded
			}
			buf = trajectory.AppendWithReward(buf[:0], text, x)
			t.Text, r.Scored = buf, true
			return true, nil
		})
	})
	switch {
	case err != nil:
		return err
	case picked < least:
		return ErrNotFound
	case fresh == 0:
		return nil
	}
	return u.replace(b)
}

// rewrite stages a batch anew, with those trajectories that keep wants and as
// keep leaves them, and puts it in the place of what was. The text that keep is
// given is the one to be written, valid until keep returns.
func (a *Archive) rewrite(ctx context.Context, tenant string, b *Batch, keep func(*Contents, *Row, *trajectory.Trajectory) (bool, error)) error {
	u, err := a.Begin(ctx, tenant, b.Model)
	if err != nil {
		return err
	}
	defer u.Abort()
	if err := a.View(tenant, func(v *View) error { return u.copy(v.Open(b), keep) }); err != nil {
		return err
	}
	return u.replace(b)
}

// copy stages what keep wants of another batch.
func (u *Upload) copy(c *Contents, keep func(*Contents, *Row, *trajectory.Trajectory) (bool, error)) error {
	var g *trajectory.Group
	var row GroupRow
	end := func() error {
		if g == nil {
			return nil
		}
		text, err := c.GroupText(&row)
		if err != nil {
			return err
		}
		g.Text = text
		return u.Group(g)
	}
	err := c.Visit(&Filter{}, Visitor{
		Group: func(r *GroupRow) error {
			if err := end(); err != nil {
				return err
			}
			row = *r
			g = &trajectory.Group{Index: r.Index, Exceptions: r.Exceptions, Metrics: r.Metrics}
			return nil
		},
		Trajectory: func(r *Row) error {
			t := trajectory.Trajectory{Group: r.Group, Index: r.Index}
			if ok, err := keep(c, r, &t); err != nil || !ok {
				return err
			}
			if t.Text == nil {
				text, err := c.Text(r)
				if err != nil {
					return err
				}
				t.Text = text
			}
			// Rows hold hashes of long labels, so the facts are found anew.
			facts, err := trajectory.Describe(t.Text)
			if err != nil {
				return err
			}
			facts.Scored = r.Scored
			t.Facts = facts
			g.Trajectories++
			return u.Trajectory(&t)
		},
	})
	if err != nil {
		return err
	}
	return end()
}

// ErrChanged: the batch is not any more what it was.
var ErrChanged = errors.New("archive: the batch has been changed by somebody else")

// replace commits the upload in the place of a batch, whose id and time it takes.
func (u *Upload) replace(old *Batch) error {
	for s := range streams {
		if len(u.buf[s]) > 0 {
			u.seal(s)
		}
	}
	if err := u.landed(); err != nil {
		return err
	}
	counts := u.batch.Counts
	u.batch.Receipt, u.batch.Step, u.batch.upload = old.Receipt, old.Step, u.id
	u.batch.Counts = counts
	err := u.a.db.Update(u.ctx, func(tx *store.Tx) error {
		v := View{&tx.Reader, u.a, u.tenant}
		now, err := v.Batch(u.model, old.ID)
		if errors.Is(err, ErrNotFound) || err == nil && now.upload != old.upload {
			return ErrChanged
		}
		if err != nil {
			return err
		}
		u.put(tx)
		tx.Set(markerKey(old.upload), nil)
		return nil
	})
	if errors.Is(err, store.ErrFailed) {
		u.over = true // as in Commit
	}
	if err != nil {
		return err
	}
	u.over = true
	u.a.abandon(old.upload)
	return nil
}
