package queues

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// plainItem is an item in the simplest form.
type plainItem struct {
	id     string
	call   Call
	by     string
	seq    int // when it was added
	change int // when it changed last
	states []struct {
		user  string
		state State
	}
}

func (p *plainItem) of(user string) State {
	for _, s := range p.states {
		if s.user == user {
			return s.state
		}
	}
	return Unstarted
}

func (p *plainItem) latest() (State, string) {
	if len(p.states) == 0 {
		return Unstarted, ""
	}
	l := p.states[len(p.states)-1]
	return l.state, l.user
}

func (p *plainItem) done() bool {
	return slices.ContainsFunc(p.states, func(s struct {
		user  string
		state State
	}) bool {
		return s.state == Completed || s.state == Skipped
	})
}

// set applies W-314 and reports whether the change is allowed.
func (p *plainItem) set(user string, state State, at int) bool {
	old := p.of(user)
	if old == state {
		return true
	}
	if old != Unstarted && (old != InProgress || state == InProgress) {
		return false
	}
	p.states = slices.DeleteFunc(p.states, func(s struct {
		user  string
		state State
	}) bool {
		return s.user == user
	})
	p.states = append(p.states, struct {
		user  string
		state State
	}{user, state})
	p.change = at
	return true
}

// random is a run of random requests on a store and on a plain list of items.
type random struct {
	t     *testing.T
	s     *Store
	queue string
	rng   *rand.Rand
	items []*plainItem
	clock int
}

func (r *random) user() string { return fmt.Sprint("u", r.rng.IntN(3)) }

func (r *random) add() {
	user := r.user()
	var numbers []int
	want := Added{}
	r.clock++
	for range r.rng.IntN(5) {
		n := r.rng.IntN(60)
		numbers = append(numbers, n)
		c := callNumbered(n)
		if slices.ContainsFunc(r.items, func(i *plainItem) bool { return i.call.ID == c.ID }) {
			want.Duplicates++
			continue
		}
		want.Count++
		r.items = append(r.items, &plainItem{call: c, by: user, seq: r.clock, change: r.clock})
	}
	if got := add(r.t, r.s, user, r.queue, numbers...); got != want {
		r.t.Errorf("adding %v: %+v, want %+v", numbers, got, want)
	}
	for i, it := range queryItems(r.t, r.s, r.queue, "") {
		if i >= len(r.items) || r.items[i].call.ID != it.Call {
			r.t.Fatalf("item %d is %+v", i, it)
		}
		r.items[i].id = it.ID
	}
}

func (r *random) progress() {
	if len(r.items) == 0 {
		return
	}
	it, user := r.items[r.rng.IntN(len(r.items))], r.user()
	state := []State{InProgress, Completed, Skipped}[r.rng.IntN(3)]
	r.clock++
	want := it.set(user, state, r.clock)
	if err := setState(r.s, user, r.queue, it.id, state); (err == nil) != want {
		r.t.Errorf("%s of %s to %s: %v, want %v", it.call.ID, user, state, err, want)
	}
}

// erase erases a user.
func (r *random) erase() {
	user, want := r.user(), 0
	r.items = slices.DeleteFunc(r.items, func(i *plainItem) bool {
		if i.by == user {
			want++
			return true
		}
		n := len(i.states)
		i.states = slices.DeleteFunc(i.states, func(s struct {
			user  string
			state State
		}) bool {
			return s.user == user
		})
		if len(i.states) != n {
			want++
		}
		return false
	})
	dry := got(r.s.Erase(context.Background(), &Erasure{Project: "p/q", Users: []string{user}, DryRun: true}))
	if n := got(r.s.Erase(context.Background(), &Erasure{Project: "p/q", Users: []string{user}})); n != want || dry != want {
		r.t.Errorf("erasing %s: %d, counted %d, want %d", user, n, dry, want)
	}
}

// compare compares a random query.
func (r *random) compare() {
	list, members := slices.Clone(r.items), ""
	if r.rng.IntN(2) == 0 {
		op := fmt.Sprint("op", r.rng.IntN(3))
		members += `,"filter":{"call_op_name":"` + op + `"`
		list = slices.DeleteFunc(list, func(i *plainItem) bool { return i.call.Op != op })
	} else {
		members += `,"filter":{"added_by":"u1"`
		list = slices.DeleteFunc(list, func(i *plainItem) bool { return i.by != "u1" })
	}
	sort, compare := r.order()
	members2, states := r.states()
	members += members2 + "}" + sort
	slices.SortStableFunc(list, compare)
	want := []answered{}
	for i, it := range list {
		state, user := it.latest()
		if states == nil || slices.Contains(states, state) {
			want = append(want, answered{it.id, it.call.ID, state, user, it.by, i + 1})
		}
	}
	limit, offset := r.rng.IntN(8), r.rng.IntN(4)
	want = want[min(offset, len(want)):]
	want = want[:min(limit, len(want))]
	members += fmt.Sprintf(`,"limit":%d,"offset":%d,"include_position":true`, limit, offset)
	if got := queryItems(r.t, r.s, r.queue, members); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		r.t.Errorf("%s:\n%+v\nwant\n%+v", members, got, want)
	}
	done := 0
	for _, it := range r.items {
		done += b2i(it.done())
	}
	if total, finished := stats(r.t, r.s, r.queue); total != len(r.items) || finished != done {
		r.t.Errorf("%d items, %d finished; want %d, %d", total, finished, len(r.items), done)
	}
}

func (r *random) states() (members string, states []State) {
	if r.rng.IntN(2) == 0 {
		return "", nil
	}
	states = []State{Unstarted, Completed}
	return `,"annotation_states":["unstarted","completed"]`, states
}

func (r *random) order() (members string, compare func(a, b *plainItem) int) {
	fields := map[string]func(a, b *plainItem) int{
		"call_started_at": func(a, b *plainItem) int { return cmp.Compare(a.call.Started, b.call.Started) },
		"call_op_name":    func(a, b *plainItem) int { return strings.Compare(a.call.Op, b.call.Op) },
		"created_at":      func(a, b *plainItem) int { return cmp.Compare(a.seq, b.seq) },
		"updated_at":      func(a, b *plainItem) int { return cmp.Compare(a.change, b.change) },
		"unknown":         func(a, b *plainItem) int { return 0 },
	}
	names := []string{"call_started_at", "call_op_name", "created_at", "updated_at", "unknown"}
	var parts []string
	var by []func(a, b *plainItem) int
	for range r.rng.IntN(3) {
		name, direction, sign := names[r.rng.IntN(len(names))], "asc", 1
		if r.rng.IntN(2) == 0 {
			direction, sign = "desc", -1
		}
		f := fields[name]
		parts = append(parts, `{"field":"`+name+`","direction":"`+direction+`"}`)
		by = append(by, func(a, b *plainItem) int { return sign * f(a, b) })
	}
	return `,"sort_by":[` + strings.Join(parts, ",") + `]`, func(a, b *plainItem) int {
		for _, f := range by {
			if c := f(a, b); c != 0 {
				return c
			}
		}
		return strings.Compare(a.id, b.id)
	}
}

// TestReference compares random additions, changes of states, erasures and queries with the
// rules in the simplest form (docs/interface/weave.md, W-310 to W-315 and W-320).
func TestReference(t *testing.T) {
	for seed := range uint64(6) {
		s := newStore(t)
		r := &random{t: t, s: s, queue: create(t, s, "maker", "q"), rng: rand.New(rand.NewPCG(seed, 1))}
		for range 60 {
			switch r.rng.IntN(12) {
			case 0:
				r.erase()
			case 1, 2, 3, 4:
				r.add()
			default:
				r.progress()
			}
			r.compare()
		}
		intact(t, s)
	}
}
