package archive

import (
	"context"
	"errors"

	"weir/trajectory"
)

// Position is where a trajectory is in its batch: the index of its group, and its own in the
// group.
type Position struct{ Group, Index int }

// ErrNotRecorded is returned for a trajectory that was logged by a client: it keeps its
// reward.
var ErrNotRecorded = errors.New("archive: the trajectory was logged, not recorded")

// SetRewards sets the rewards of recorded trajectories of one batch, all or none. It returns
// ErrNotFound if one of them is not there, and ErrNotRecorded if one was logged by a client.
func (a *Archive) SetRewards(ctx context.Context, tenant, model string, id ID, rewards map[Position]float64) error {
	return a.reward(ctx, tenant, model, id, len(rewards), func(at Position) (float64, bool) {
		x, ok := rewards[at]
		return x, ok
	})
}

// reward sets the rewards that pick returns for trajectories of one batch. They have to be
// at least least.
func (a *Archive) reward(ctx context.Context, tenant, model string, id ID, least int, pick func(Position) (float64, bool)) error {
	for {
		err := a.rewardOnce(ctx, tenant, model, id, least, pick)
		if !errors.Is(err, ErrChanged) || ctx.Err() != nil {
			return err
		}
		// The batch was changed meanwhile, so read it again.
	}
}

// rewardOnce stages the batch with the rewards and swaps it in. It returns ErrChanged if the
// batch was changed meanwhile.
func (a *Archive) rewardOnce(ctx context.Context, tenant, model string, id ID, least int, pick func(Position) (float64, bool)) error {
	u, err := a.Begin(ctx, tenant, model)
	if err != nil {
		return err
	}
	defer u.Abort()
	var b *Batch
	changed := 0
	err = a.Query(ctx, tenant, func(v *View) (err error) {
		if b, err = v.Batch(model, id); err != nil {
			return err
		}
		// Look at the rows first: if the rewards are set already, as after a crash, the
		// batch needs no copy.
		picked := 0
		if picked, changed, err = countRewards(v.Open(b), pick); err != nil {
			return err
		}
		if picked < least {
			return ErrNotFound
		}
		if picked == 0 || changed == 0 && least == 0 {
			return nil
		}
		return u.copyRewarded(v.Open(b), pick)
	})
	if err != nil || changed == 0 {
		return err
	}
	return u.replace(b)
}

// countRewards counts the trajectories that get a reward, and those whose reward changes.
func countRewards(c *Contents, pick func(Position) (float64, bool)) (picked, changed int, err error) {
	err = c.Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
		if x, ok := pick(Position{r.Group, r.Index}); ok {
			picked++
			if !r.Scored || r.Reward != x {
				changed++
			}
		}
		return nil
	}})
	return picked, changed, err
}

// longReward is more than a reward adds to a text.
const longReward = 64

// copyRewarded stages a batch with rewards. All trajectories that get one have to have been
// recorded; else it returns ErrNotRecorded.
func (u *Upload) copyRewarded(c *Contents, pick func(Position) (float64, bool)) error {
	var buf []byte
	room := c.texts.v.Room()
	return u.copy(c, func(c *Contents, r *Row, t *trajectory.Trajectory) (bool, error) {
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
		if n := len(text) + longReward; n > cap(buf) {
			if err := room.Need(int64(n + cap(buf))); err != nil {
				return false, err
			}
			buf = make([]byte, 0, n)
		}
		buf = trajectory.AppendWithReward(buf[:0], text, x)
		t.Text, r.Scored = buf, true
		return true, nil
	})
}
