package feedback

import (
	"context"
	"errors"
	"math"
	"strconv"

	"weir/internal/jsontext"
	"weir/store"
)

// typeReward is the type of feedback that sets the reward of a recorded chat completion.
// Its payload has a number "reward" and, if it is about one choice alone, the index of
// that choice as "choice". Its call_ref, or else its trace_ref, names the completion
// (docs/interface/feedback.md, F-42).
const typeReward = "reward"

// Reward is the content of such a record. A note of it is written to the database by the
// update that writes the record, and stays until Settle removes it: when the reward has
// been set on the recorded completion, or when it never will be.
type Reward struct {
	Tenant, Call, Project string // Project is that of the reference
	Choice                int    // below 0: all choices
	Value                 float64
	CreatedAt             int64 // milliseconds of Unix time
	Gone                  bool  // the record has been deleted or replaced since then

	key []byte // of the note
}

// Why a record of the type does not set a reward.
const (
	noCall   = "neither call_ref nor trace_ref refers to a call"
	noReward = "the payload has no reward"
	noNumber = "the reward is not a finite number"
	noChoice = "the choice is not an integer of at least 0"
)

// reward returns the reward that a record sets; ok is false if it sets none. If it is a record
// of the type all the same, why says what is wrong with it.
func (r *Record) reward() (w Reward, ok bool, why string) {
	if r.Type != typeReward {
		return w, false, ""
	}
	to := ref{}
	for _, s := range []*string{&r.TraceRef, r.Refs.Call} {
		if s == nil {
			continue
		}
		if of, why := parseRef(*s); why == "" && of.kind == kindCall {
			to = of
		}
	}
	value := member(r.Payload, "reward")
	x, err := strconv.ParseFloat(string(value), 64)
	switch {
	case to.kind == "":
		return w, false, noCall
	case value == nil:
		return w, false, noReward
	case err != nil || math.IsInf(x, 0):
		return w, false, noNumber
	}
	choice := -1
	if v := member(r.Payload, "choice"); v != nil && v.Kind() != jsontext.Null {
		if choice, err = strconv.Atoi(string(v)); err != nil || choice < 0 {
			return w, false, noChoice
		}
	}
	return Reward{Call: to.name, Project: to.project, Choice: choice, Value: x, CreatedAt: r.CreatedAt}, true, ""
}

// Reward is the reward of a chat completion that a request sets; its Call is "" if it sets
// none. If the request is of the type that does, why says what is wrong with it.
func (r *Request) Reward() (w Reward, why string) {
	w, _, why = r.Record("", "", 0).reward()
	return w, why
}

func rewardPrefix(tenant, call string) []byte {
	return store.AppendString(store.AppendString([]byte{tagReward}, tenant), call)
}

func (w *Reward) rewardKey(tenant string, at int64, id [16]byte) []byte {
	return append(store.AppendUint(rewardPrefix(tenant, w.Call), uint64(at)), id[:]...)
}

// Rewards returns the rewards of a chat completion that are not settled, the oldest first.
func (s *Store) Rewards(tenant, call string) ([]Reward, error) {
	return s.rewards(store.Range{Prefix: rewardPrefix(tenant, call)}, maxInt)
}

// MoreRewards returns up to n of all rewards that are not settled: those that follow
// after, or the first ones if it is the zero value. Rewards of one completion come
// together, the oldest first.
func (s *Store) MoreRewards(after Reward, n int) ([]Reward, error) {
	rg := store.Range{Prefix: []byte{tagReward}}
	if after.key != nil {
		rg.From = append(after.key[:len(after.key):len(after.key)], 0)
	}
	return s.rewards(rg, n)
}

func (s *Store) rewards(rg store.Range, n int) (list []Reward, err error) {
	err = s.db.View(func(r *store.Reader) error {
		var bad error
		err := r.Scan(rg, func(key, project []byte) bool {
			var w Reward
			if w, bad = pendingReward(r, key, string(project)); bad == nil {
				list = append(list, w)
			}
			return bad == nil && len(list) < n
		})
		return FirstError(bad, err)
	})
	return list, err
}

// pendingReward reads the note of a reward that is not settled. It is Gone if there is no
// such record of that time any more.
func pendingReward(r *store.Reader, key []byte, project string) (w Reward, err error) {
	tenant, rest, err := store.CutString(key[1:])
	if err != nil {
		return w, err
	}
	call, rest, err := store.CutString(rest)
	if err != nil || len(rest) != 8+16 {
		return w, errors.Join(errRecord, err)
	}
	rec, err := get(r, project, [16]byte(rest[8:]))
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return w, err
	}
	at, _, _ := store.CutUint(rest)
	ok := rec != nil && uint64(rec.CreatedAt) == at
	if ok {
		w, ok, _ = rec.reward()
	}
	w.Tenant, w.Call, w.CreatedAt, w.Gone, w.key = tenant, call, int64(at), !ok, append([]byte(nil), key...)
	return w, nil
}

// Settle removes the notes of rewards that have been set or never will be.
func (s *Store) Settle(ctx context.Context, list []Reward) error {
	const step = 1000
	for len(list) > 0 {
		some := list[:min(step, len(list))]
		list = list[len(some):]
		if err := s.db.Update(ctx, func(tx *store.Tx) error {
			for i := range some {
				tx.Delete(some[i].key)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
