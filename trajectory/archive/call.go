package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"weir/internal/jsontext"
	"weir/store"
)

// Call is a chat completion that was recorded as a group of a batch.
type Call struct {
	ID      string // if two have the same id, which clients may choose, the later one is found
	Project string // "team/project", or ""
	Group   int
	Choices int
}

// callEntry is the value of an entry in the index of calls.
type callEntry struct {
	Model   string `json:"model"`
	Log     []byte `json:"log"`
	Project string `json:"project,omitempty"`
	Group   int    `json:"group"`
	Choices int    `json:"choices,omitempty"` // 0: it is not known
}

// maxCall bounds the ids in the index. A longer one fits neither into a reference nor into a
// key.
const maxCall = 2048

func callKey(tenant, call string) []byte { return store.AppendString(tenantKey(tagCall, tenant), call) }

// indexCalls writes the index entries of the calls of a batch. They stay when the batch is
// deleted, until PruneCalls removes them.
func (u *Upload) indexCalls(tx *store.Tx, calls []Call) {
	for _, c := range calls {
		if len(c.ID) > maxCall {
			continue
		}
		value, err := jsontext.Encode(callEntry{Model: u.model, Log: u.batch.ID[:], Project: c.Project, Group: c.Group, Choices: c.Choices})
		if err != nil {
			panic("archive: " + err.Error()) // every field of it can be encoded
		}
		tx.Set(callKey(u.tenant, c.ID), value)
	}
}

// call finds a recorded completion; nil if there is none with that id.
func (v *View) call(id string) (*callEntry, error) {
	value, err := v.r.Get(callKey(v.tenant, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := &callEntry{}
	if err := jsontext.Decode(value, e); err != nil || len(e.Log) != len(ID{}) {
		return nil, fmt.Errorf("%w: the call %q", ErrDamaged, id)
	}
	return e, nil
}

// CallReward sets the reward of a recorded chat completion.
type CallReward struct {
	Call    string  // the id of the completion
	Project string  // the completion is of this project or of none; else nothing is set
	Choice  int     // below 0: all choices
	Reward  float64 // finite
}

// Contradicts says why a completion that was recorded cannot have a reward; "": it can, or
// nothing is known of it. It does not wait for the archive to be opened.
func (a *Archive) Contradicts(tenant string, w CallReward) (why string) {
	if !a.ready.Load() {
		return ""
	}
	_ = a.View(tenant, func(v *View) error { // whoever sets the reward sees the error
		e, err := v.call(w.Call)
		switch {
		case e == nil:
		case e.Project != "" && e.Project != w.Project:
			why = "the completion was made for another project"
		case e.Choices > 0 && w.Choice >= e.Choices:
			why = fmt.Sprintf("the completion has no choice %d; its choices are counted from 0, and it has %d", w.Choice, e.Choices)
		}
		return err
	})
	return why
}

// RewardCalls sets the rewards of recorded completions. Of two rewards of one choice the
// later in the list counts. Setting them again changes nothing. known says of each reward
// whether there is, or was, such a completion. It is false if the batch of the completion
// cannot be read, and the reward may be tried again.
func (a *Archive) RewardCalls(ctx context.Context, tenant string, list []CallReward) (known []bool, err error) {
	known = make([]bool, len(list))
	var batches []*batchRewards
	err = a.View(tenant, func(v *View) (err error) {
		batches, err = v.findCalls(list, known)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		err := a.reward(ctx, tenant, b.model, b.id, 0, b.of)
		switch {
		case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrNotRecorded):
			// It is done, or it never can be: the batch was deleted or logged by a client.
		case errors.Is(err, ErrDamaged), errors.Is(err, store.ErrCorrupt):
			a.log.Error("rewards are not set", "batch", b.id, "error", err)
			for _, i := range b.list {
				known[i] = false
			}
		default:
			return nil, err
		}
	}
	return known, nil
}

// batchRewards are the rewards of completions that were recorded in one batch.
type batchRewards struct {
	model  string
	id     ID
	list   []int                // the indexes of the rewards in the caller's list
	choice map[Position]float64 // rewards of one choice
	all    map[int]float64      // rewards of all choices, by group
}

// findCalls finds the batches of completions, in the order of their first reward, and says
// which completions are known.
func (v *View) findCalls(list []CallReward, known []bool) (batches []*batchRewards, err error) {
	type key struct {
		model string
		id    ID
	}
	byKey := make(map[key]*batchRewards)
	for i, w := range list {
		e, err := v.call(w.Call)
		if errors.Is(err, ErrDamaged) || errors.Is(err, store.ErrCorrupt) {
			v.a.log.Error("a reward is not set", "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		known[i] = e != nil
		if e == nil || e.Project != "" && e.Project != w.Project {
			continue
		}
		k := key{e.Model, ID(e.Log)}
		b := byKey[k]
		if b == nil {
			b = &batchRewards{model: k.model, id: k.id, choice: map[Position]float64{}, all: map[int]float64{}}
			byKey[k] = b
			batches = append(batches, b)
		}
		b.list = append(b.list, i)
		b.add(e.Group, w)
	}
	return batches, nil
}

// add adds a reward of a completion that was recorded as a group. It replaces earlier ones.
func (b *batchRewards) add(group int, w CallReward) {
	if w.Choice >= 0 {
		b.choice[Position{group, w.Choice}] = w.Reward
		return
	}
	b.all[group] = w.Reward
	maps.DeleteFunc(b.choice, func(at Position, _ float64) bool { return at.Group == group })
}

// of is the reward of a trajectory; ok is false if it gets none.
func (b *batchRewards) of(at Position) (x float64, ok bool) {
	if x, ok = b.choice[at]; !ok {
		x, ok = b.all[at.Group]
	}
	return x, ok
}

// pruneAtOnce is how many calls one update of PruneCalls looks at.
const pruneAtOnce = 1000

// PruneCalls removes the index entries of completions whose batches have been deleted, and
// returns how many they were.
func (a *Archive) PruneCalls(ctx context.Context) (n int, err error) {
	for from, more := []byte(nil), true; more; {
		var stale [][]byte
		if stale, from, more, err = a.staleCalls(from); err != nil {
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
	}
	return n, nil
}

// staleCalls looks at the entries of up to pruneAtOnce completions from a key on, and
// returns the keys of those whose batch is not there. If there may be more completions it
// returns the key to go on from.
func (a *Archive) staleCalls(from []byte) (stale [][]byte, next []byte, more bool, err error) {
	seen := 0
	err = a.db.View(func(r *store.Reader) error {
		var bad error
		err := r.Scan(store.Range{Prefix: []byte{tagCall}, From: from, Damaged: func([]byte, error) {}}, func(key, value []byte) bool {
			next = append(append(next[:0], key...), 0)
			header, ok := headerOfCall(key, value)
			if !ok {
				return true // it is damaged, which is logged when somebody looks for it
			}
			var there bool
			if there, bad = r.Has(header); bad != nil {
				return false
			}
			if !there {
				stale = append(stale, bytes.Clone(key))
			}
			seen++
			return seen < pruneAtOnce
		})
		return errors.Join(bad, err)
	})
	return stale, next, seen == pruneAtOnce, err
}

// headerOfCall is the key of the header of the batch that an entry of a completion leads to.
func headerOfCall(key, value []byte) (header []byte, ok bool) {
	tenant, _, err := store.CutString(key[1:])
	var e callEntry
	if err != nil || jsontext.Decode(value, &e) != nil || len(e.Log) != len(ID{}) {
		return nil, false
	}
	return headerKey(tenant, e.Model, ID(e.Log)), true
}
