package feedback

import (
	"context"
	"errors"
	"math"
	"strconv"

	"weir/internal/jsontext"
	"weir/store"
)

// rewardType is the type of feedback that says what a chat completion is worth to a
// trainer: its payload has a number "reward" and, if it is about one choice alone,
// that one's index "choice"; its call_ref, else its trace_ref, names the completion.
const rewardType = "reward"

// Reward is what a record of that type says. It waits in the database, written
// with the record, until somebody who knows the completion has set it (Settle).
type Reward struct {
	Tenant, Call, Project string // the project that the reference names
	Choice                int    // below 0: all
	Value                 float64
	CreatedAt             int64 // milliseconds of Unix time
	Gone                  bool  // the record has been deleted or replaced since

	wait []byte // its key
}

// reward reads a record as a reward, or reports that it is none.
func (r *Record) reward() (w Reward, ok bool) {
	if r.Type != rewardType {
		return w, false
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
	x, err := strconv.ParseFloat(string(member(r.Payload, "reward")), 64)
	if to.kind == "" || err != nil || math.IsInf(x, 0) {
		return w, false
	}
	choice := -1
	if v := member(r.Payload, "choice"); v != nil && v.Kind() != jsontext.Null {
		if choice, err = strconv.Atoi(string(v)); err != nil || choice < 0 {
			return w, false
		}
	}
	return Reward{Call: to.name, Project: to.project, Choice: choice, Value: x, CreatedAt: r.CreatedAt}, true
}

// Call is the chat completion that a request rewards; "": none.
func (r *Request) Call() string {
	w, _ := r.Record("", "", 0).reward()
	return w.Call
}

func waitPrefix(tenant, call string) []byte {
	return store.AppendString(store.AppendString([]byte{tagWait}, tenant), call)
}

func (w *Reward) key(tenant string, at int64, id [16]byte) []byte {
	return append(store.AppendUint(waitPrefix(tenant, w.Call), uint64(at)), id[:]...)
}

// Rewards returns the rewards of a chat completion that wait, the oldest first.
func (s *Store) Rewards(tenant, call string) ([]Reward, error) {
	return s.rewards(store.Range{Prefix: waitPrefix(tenant, call)}, maxInt)
}

// MoreRewards returns up to n of all rewards that wait, behind one of them, or from
// the beginning. Those of one completion come together, the oldest first.
func (s *Store) MoreRewards(behind Reward, n int) ([]Reward, error) {
	rg := store.Range{Prefix: []byte{tagWait}}
	if behind.wait != nil {
		rg.From = append(behind.wait[:len(behind.wait):len(behind.wait)], 0)
	}
	return s.rewards(rg, n)
}

func (s *Store) rewards(rg store.Range, n int) (list []Reward, err error) {
	err = s.db.View(func(r *store.Reader) error {
		var bad error
		err := r.Scan(rg, func(key, project []byte) bool {
			var w Reward
			if w, bad = waiting(r, key, string(project)); bad == nil {
				list = append(list, w)
			}
			return bad == nil && len(list) < n
		})
		return firstError(bad, err)
	})
	return list, err
}

// waiting is the reward of an entry.
func waiting(r *store.Reader, key []byte, project string) (w Reward, err error) {
	tenant, rest, err := store.CutString(key[1:])
	if err != nil {
		return w, err
	}
	call, rest, err := store.CutString(rest)
	if err != nil || len(rest) != 8+16 {
		return w, errors.Join(errRecord, err)
	}
	rec, err := get(r, rowKey(project, [16]byte(rest[8:])))
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return w, err
	}
	at, _, _ := store.CutUint(rest)
	ok := rec != nil && uint64(rec.CreatedAt) == at
	if ok {
		w, ok = rec.reward()
	}
	w.Tenant, w.Call, w.CreatedAt, w.Gone, w.wait = tenant, call, int64(at), !ok, append([]byte(nil), key...)
	return w, nil
}

// Settle forgets rewards that have been set, or will never be.
func (s *Store) Settle(ctx context.Context, list []Reward) error {
	const step = 1000
	for len(list) > 0 {
		some := list[:min(step, len(list))]
		list = list[len(some):]
		if err := s.db.Update(ctx, func(tx *store.Tx) error {
			for i := range some {
				tx.Delete(some[i].wait)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
