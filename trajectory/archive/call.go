package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"weir/store"
)

// Call is the chat completion that a group was recorded of.
type Call struct {
	ID      string // of two with one id, which clients may give, the later one is found
	Project string // "team/project"; "": none
	Group   int
}

// entry is what the index of calls has.
type entry struct {
	Model   string `json:"model"`
	Log     []byte `json:"log"`
	Project string `json:"project,omitempty"`
	Group   int    `json:"group"`
}

// maxCall bounds the ids that are found: longer ones fit into no reference, nor
// into a key.
const maxCall = 2048

func callKey(tenant, call string) []byte { return store.AppendString(tenantKey(tagCall, tenant), call) }

// index makes the calls of a batch known. What it writes is left behind when the
// batch is deleted, and Prune removes it: it leads nowhere.
func (u *Upload) index(tx *store.Tx, calls []Call) {
	for _, c := range calls {
		if len(c.ID) > maxCall {
			continue
		}
		value, err := json.Marshal(entry{Model: u.model, Log: u.batch.ID[:], Project: c.Project, Group: c.Group})
		if err != nil {
			panic("archive: " + err.Error()) // every field of it can be encoded
		}
		tx.Set(callKey(u.tenant, c.ID), value)
	}
}

// call finds a recorded completion; nil: there is none of that id.
func (v *View) call(id string) (*entry, error) {
	value, err := v.r.Get(callKey(v.tenant, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := &entry{}
	if err := json.Unmarshal(value, e); err != nil || len(e.Log) != len(ID{}) {
		return nil, fmt.Errorf("%w: the call %q", ErrDamaged, id)
	}
	return e, nil
}

// CallReward says what a chat completion is worth.
type CallReward struct {
	Call    string
	Project string // it counts for calls of this project, and of none
	Choice  int    // below 0: all of them
	Reward  float64
}

// RewardCalls sets the rewards of recorded completions; of two rewards on one choice the
// later in the list counts. It may be repeated. known says of each whether
// there is, or was, such a completion. One on a batch that cannot be read is not
// known: it may be tried again.
func (a *Archive) RewardCalls(ctx context.Context, tenant string, list []CallReward) (known []bool, err error) {
	type batch struct {
		model string
		id    ID
	}
	known = make([]bool, len(list))
	var order []batch
	about := make(map[batch][]int) // indexes of verdicts
	group := make([]int, len(list))
	err = a.View(tenant, func(v *View) error {
		for i, w := range list {
			e, err := v.call(w.Call)
			if errors.Is(err, ErrDamaged) || errors.Is(err, store.ErrCorrupt) {
				a.log.Error("a reward is not set", "error", err)
				continue
			}
			if err != nil {
				return err
			}
			if e == nil {
				continue
			}
			known[i] = true
			if e.Project != "" && e.Project != w.Project {
				continue
			}
			b := batch{e.Model, ID(e.Log)}
			if about[b] == nil {
				order = append(order, b)
			}
			about[b] = append(about[b], i)
			group[i] = e.Group
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, b := range order {
		one, all := make(map[Position]float64), make(map[int]float64)
		for _, i := range about[b] {
			g, w := group[i], &list[i]
			if w.Choice >= 0 {
				one[Position{g, w.Choice}] = w.Reward
				continue
			}
			all[g] = w.Reward
			for at := range one {
				if at.Group == g {
					delete(one, at)
				}
			}
		}
		err := a.reward(ctx, tenant, b.model, b.id, 0, func(at Position) (float64, bool) {
			if x, ok := one[at]; ok {
				return x, true
			}
			x, ok := all[at.Group]
			return x, ok
		})
		switch {
		case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrNotRecorded): // deleted, or not one of ours
		case errors.Is(err, ErrDamaged), errors.Is(err, store.ErrCorrupt):
			a.log.Error("rewards are not set", "batch", b.id, "error", err)
			for _, i := range about[b] {
				known[i] = false
			}
		default:
			return nil, err
		}
	}
	return known, nil
}

// Prune forgets the calls whose batches have been deleted.
func (a *Archive) PruneCalls(ctx context.Context) (n int, err error) {
	for after := []byte(nil); ; {
		var stale [][]byte
		seen := 0
		err := a.db.View(func(r *store.Reader) error {
			var bad error
			err := r.Scan(store.Range{Prefix: []byte{tagCall}, From: after}, func(key, value []byte) bool {
				after = append(append(after[:0], key...), 0)
				var e entry
				tenant, _, err := store.CutString(key[1:])
				if err != nil || json.Unmarshal(value, &e) != nil || len(e.Log) != len(ID{}) {
					return true // damaged: reported by whoever looks for it
				}
				there, err := r.Has(headerKey(tenant, e.Model, ID(e.Log)))
				if err != nil {
					bad = err
					return false
				}
				if !there {
					stale = append(stale, append([]byte(nil), key...))
				}
				seen++
				return seen < pruneAtOnce
			})
			return errors.Join(bad, err)
		})
		if err != nil {
			return n, err
		}
		if len(stale) > 0 {
			if err := a.update(ctx, func(tx *store.Tx) error {
				for _, key := range stale {
					tx.Delete(key)
				}
				return nil
			}); err != nil {
				return n, err
			}
		}
		n += len(stale)
		if seen < pruneAtOnce {
			return n, nil
		}
	}
}

// pruneAtOnce is how many calls one update of Prune looks at.
const pruneAtOnce = 1000
