package archive

import (
	"context"
	"errors"

	"weir/store"
	"weir/trajectory"
)

// rewrite stages a batch again, with the trajectories for which keep returns true, and puts
// it in place of the old one. keep may set the text of the trajectory that is written; if it
// does not, the old one is kept.
func (a *Archive) rewrite(ctx context.Context, tenant string, b *Batch, keep func(*Contents, *Row, *trajectory.Trajectory) (bool, error)) error {
	u, err := a.Begin(ctx, tenant, b.Model)
	if err != nil {
		return err
	}
	defer u.Abort()
	if err := a.Query(ctx, tenant, func(v *View) error { return u.copy(v.Open(b), keep) }); err != nil {
		return err
	}
	return u.replace(b)
}

// copy stages the trajectories of another batch for which keep returns true; see rewrite.
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
			// Rows have only hashes of long labels, so the facts are read from the text.
			facts, err := trajectory.Describe(t.Text, c.texts.v.facts())
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

// ErrChanged is returned if a batch was changed while a change of it was being prepared.
var ErrChanged = errors.New("archive: the batch has been changed by somebody else")

// replace commits the upload in place of a batch, with the id and the time of that batch.
func (u *Upload) replace(old *Batch) error {
	if err := u.sealAll(); err != nil {
		return err
	}
	counts := u.batch.Counts
	u.batch.Receipt, u.batch.Step, u.batch.upload = old.Receipt, old.Step, u.id
	u.batch.Counts = counts
	err := u.a.db.Update(u.ctx, func(tx *store.Tx) error {
		v := View{r: &tx.Reader, a: u.a, tenant: u.tenant}
		now, err := v.Batch(u.model, old.ID)
		if errors.Is(err, ErrNotFound) || err == nil && now.upload != old.upload {
			return ErrChanged
		}
		if err != nil {
			return err
		}
		if err := u.writeBatch(tx); err != nil {
			return err
		}
		tx.Set(markerKey(old.upload), nil)
		return u.a.noteGone(tx, u.tenant, old)
	})
	if errors.Is(err, store.ErrFailed) {
		u.ended = true // as in Commit
	}
	if err != nil {
		return err
	}
	u.ended = true
	u.a.sweepLater(old.upload)
	return nil
}
