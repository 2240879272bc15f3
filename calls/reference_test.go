package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// plain is the rules for calls in the simplest way: a map of calls, to which one request
// after another is applied (docs/interface/weave.md, W-110 to W-116).
type plain struct {
	calls   map[string]map[string]any // by id; without "op_name" it waits for its start
	deleted map[string]bool
}

func (p *plain) get(id string) map[string]any {
	if p.calls[id] == nil {
		p.calls[id] = map[string]any{}
	}
	return p.calls[id]
}

func (p *plain) apply(mode string, part map[string]any) {
	id := part["id"].(string)
	if p.deleted[id] {
		return
	}
	c := p.get(id)
	started := c["op_name"] != nil
	if mode == "complete" {
		name, renamed := c["renamed"]
		clear(c)
		if renamed {
			c["renamed"] = name
		}
	}
	for name, v := range part {
		ofEnd := slices.Contains([]string{"ended_at", "output", "exception", "summary"}, name)
		switch {
		case mode == "start" && (started || ofEnd):
		case mode == "end" && !ofEnd && name != "id" && name != "project_id":
		default:
			c[name] = v
		}
	}
	if mode == "end" {
		for _, name := range []string{"output", "exception"} {
			if part[name] == nil {
				delete(c, name)
			}
		}
	}
}

func (p *plain) delete(ids []string) {
	all := map[string]bool{}
	var walk func(id string)
	walk = func(id string) {
		if all[id] {
			return
		}
		all[id] = true
		for child, c := range p.calls {
			if c["parent_id"] == id && c["op_name"] != nil {
				walk(child)
			}
		}
	}
	for _, id := range ids {
		walk(id)
	}
	for id := range all {
		if p.calls[id] != nil {
			delete(p.calls, id)
			p.deleted[id] = true
		}
	}
}

// visible is what an answer has of a call, of the columns that the test uses.
func (p *plain) visible(id string) map[string]any {
	c := p.calls[id]
	if c == nil || c["op_name"] == nil {
		return nil
	}
	out := maps.Clone(c)
	if name, ok := out["renamed"]; ok {
		out["display_name"] = name
		if name == "" {
			delete(out, "display_name")
		}
	}
	delete(out, "renamed")
	status := "success"
	if out["exception"] != nil {
		status = "error"
	} else if out["ended_at"] == nil {
		status = "running"
	}
	out["status"] = status
	return out
}

// TestReference makes random requests of a store and of the simplest implementation of its
// rules, and compares all calls after each.
func TestReference(t *testing.T) {
	for seed := range uint64(20) {
		x := &comparison{s: newStore(t), plain: &plain{calls: map[string]map[string]any{}, deleted: map[string]bool{}}, rng: rand.New(rand.NewPCG(seed, 1))}
		for step := range 60 {
			what := x.step(t)
			for _, id := range referenceIDs {
				if got, want := shown(t, x.s, id), x.plain.visible(id); !reflect.DeepEqual(text(got), text(want)) {
					t.Fatalf("seed %d, step %d, after %s: %s is\n%s, want\n%s", seed, step, what, id, text(got), text(want))
				}
			}
		}
		intact(t, x.s)
	}
}

var referenceIDs = []string{"a", "b", "c", "d", "e", "f"}

// comparison makes the same requests of a store and of the simplest implementation.
type comparison struct {
	s     *Store
	plain *plain
	rng   *rand.Rand
}

func (x *comparison) pick() string { return referenceIDs[x.rng.IntN(len(referenceIDs))] }

// part is a random call, or its start or end.
func (x *comparison) part(mode string) map[string]any {
	m := map[string]any{"project_id": "p/q", "id": x.pick()}
	if mode != "end" {
		m["op_name"], m["trace_id"], m["started_at"] = fmt.Sprint("op", x.rng.IntN(3)), "t", fmt.Sprintf("2026-01-01T00:00:00.%06dZ", x.rng.IntN(1e6))
		m["attributes"], m["inputs"] = map[string]any{}, map[string]any{"n": x.rng.IntN(9)}
		if x.rng.IntN(2) == 0 {
			m["parent_id"] = x.pick()
		}
		if x.rng.IntN(3) == 0 {
			m["display_name"] = "d"
		}
		if x.rng.IntN(3) == 0 {
			m["thread_id"] = "th"
		}
	}
	if mode != "start" {
		m["ended_at"], m["summary"], m["output"] = "2026-01-02T00:00:00.000000Z", map[string]any{}, x.rng.IntN(9)
		if x.rng.IntN(3) == 0 {
			m["exception"] = "boom"
		}
	}
	return m
}

// step makes a random request, and says which.
func (x *comparison) step(t *testing.T) string {
	switch x.rng.IntN(8) {
	case 0:
		n := x.pick()
		if _, err := x.s.Delete(context.Background(), "p/q", []string{n}); err != nil {
			t.Fatal(err)
		}
		x.plain.delete([]string{n})
		return "delete " + n
	case 1:
		id, name := x.pick(), []string{"", "x", "y"}[x.rng.IntN(3)]
		if err := x.s.Rename(context.Background(), Author{"u"}, "p/q", id, name); err != nil {
			t.Fatal(err)
		}
		if !x.plain.deleted[id] {
			x.plain.get(id)["renamed"] = name
		}
		return "rename " + id + " to " + name
	case 2, 3:
		c := x.part("complete")
		write(t, x.s, FormComplete, `{"batch":[`+text(c)+`]}`)
		x.plain.apply("complete", c)
		return "complete " + text(c)
	}
	var items []string
	for range 1 + x.rng.IntN(4) {
		mode := []string{"start", "end"}[x.rng.IntN(2)]
		c := x.part(mode)
		items = append(items, fmt.Sprintf(`{"mode":"%s","req":{"%s":%s}}`, mode, mode, text(c)))
		x.plain.apply(mode, c)
	}
	write(t, x.s, FormUpsert, `{"batch":[`+strings.Join(items, ",")+`]}`)
	return "upsert " + strings.Join(items, " ")
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// shown is a call as plain.visible has it.
func shown(t *testing.T, s *Store, id string) map[string]any {
	t.Helper()
	rec, err := s.Get("p/q", id)
	if err != nil {
		t.Fatal(err)
	}
	if rec == nil {
		return nil
	}
	var all map[string]any
	if err := json.Unmarshal(rec.AppendJSON(nil, NoSizes), &all); err != nil {
		t.Fatalf("%s: %v", rec.AppendJSON(nil, NoSizes), err)
	}
	out := map[string]any{"status": all["summary"].(map[string]any)["weave"].(map[string]any)["status"]}
	for _, name := range []string{
		"project_id", "id", "op_name", "trace_id", "started_at", "attributes", "inputs", "parent_id", "display_name", "thread_id", "ended_at", "output", "exception",
	} {
		if all[name] != nil {
			out[name] = all[name]
		}
	}
	if out["ended_at"] != nil {
		out["summary"] = map[string]any{}
	}
	return out
}
