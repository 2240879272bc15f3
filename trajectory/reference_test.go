package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

// This is the reference implementation of Read: encoding/json and the rules of
// docs/interface/trajectories.md, section 2, with the whole body in memory. It says whether
// the body is accepted, and with which texts.

type pair struct {
	key string
	val json.RawMessage
}

func pairs(raw json.RawMessage) (list []pair, ok bool) {
	if raw[0] != '{' {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, false
		}
		p := pair{key: k.(string)}
		if d.Decode(&p.val) != nil {
			return nil, false
		}
		list = append(list, p)
	}
	return list, true
}

func array(raw json.RawMessage) (list []json.RawMessage, ok bool) {
	return list, raw[0] == '[' && json.Unmarshal(raw, &list) == nil
}

// reference gathers the texts of the trajectories.
type reference struct{ texts []string }

func (r *reference) body(body []byte, depth int) bool {
	if !json.Valid(body) || !utf8.Valid(body) || deeper(body, depth) {
		return false
	}
	top, ok := pairs(bytes.TrimSpace(body))
	if !ok {
		return false
	}
	split, groups := false, false
	for _, p := range top {
		ok := true
		switch p.key {
		case "split":
			ok, split = validSplit(p.val), true
		case "step":
			var n int64
			n, ok = version(p.val)
			ok = ok && n >= 0
		case "trajectory_groups":
			ok = !groups && r.groups(p.val)
			groups = true
		}
		if !ok {
			return false
		}
	}
	return split && groups
}

func validSplit(raw json.RawMessage) bool {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil || lone(raw) {
		return false
	}
	n := utf8.RuneCountInString(*s)
	return n >= 1 && n <= 128 && !strings.ContainsFunc(*s, unicode.IsControl)
}

func (r *reference) groups(raw json.RawMessage) bool {
	list, ok := array(raw)
	return ok && !slices.ContainsFunc(list, func(g json.RawMessage) bool { return !r.group(g) })
}

// lone reports whether a JSON text has a surrogate escape without its partner.
func lone(raw []byte) bool {
	var s string
	_ = json.Unmarshal(raw, &s)
	var again string
	text := strings.ReplaceAll(string(raw), `\\`, "")
	text = strings.ReplaceAll(strings.ToLower(text), `\ufffd`, "")
	_ = json.Unmarshal([]byte(strings.ReplaceAll(text, "\ufffd", "")), &again)
	return strings.ContainsRune(again, '\ufffd')
}

func deeper(body []byte, depth int) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	for n := 0; ; {
		t, err := d.Token()
		if err != nil {
			return false
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			if n++; n > depth {
				return true
			}
		case json.Delim(']'), json.Delim('}'):
			n--
		}
	}
}

func (r *reference) group(raw json.RawMessage) bool {
	members, ok := pairs(raw)
	if !ok {
		return false
	}
	seen := false
	for _, p := range members {
		switch p.key {
		case "trajectories":
			list, ok := array(p.val)
			if !ok || seen {
				return false
			}
			seen = true
			for _, t := range list {
				if !referenceTrajectory(t) {
					return false
				}
				var b bytes.Buffer
				_ = json.Compact(&b, t)
				r.texts = append(r.texts, b.String())
			}
		case "exceptions", "logs":
			if p.val[0] != '[' {
				return false
			}
		case "metadata", "metrics":
			if p.val[0] != '{' {
				return false
			}
		}
	}
	return true
}

func number(raw json.RawMessage) (float64, bool) {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	x, _ := strconv.ParseFloat(string(raw), 64)
	return x, !math.IsInf(x, 0)
}

func version(raw json.RawMessage) (int64, bool) {
	if raw[0] == 'n' {
		return 0, true
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	x, ok := number(raw)
	return int64(x), ok && x == math.Floor(x) && x >= -(1<<63) && x < 1<<63
}

func objects(raw json.RawMessage) bool {
	list, ok := array(raw)
	return ok && !slices.ContainsFunc(list, func(e json.RawMessage) bool { return e[0] != '{' })
}

func referenceTrajectory(raw json.RawMessage) bool {
	members, ok := pairs(raw)
	return ok && !slices.ContainsFunc(members, func(m pair) bool { return !referenceMember(m.key, m.val) })
}

// referenceMember says whether a member of a trajectory is accepted.
func referenceMember(key string, val json.RawMessage) (ok bool) {
	switch key {
	case "messages_and_choices":
		return objects(val)
	case "tools":
		return val[0] == 'n' || objects(val)
	case "additional_histories":
		return histories(val)
	case "reward":
		_, ok = number(val)
		return ok
	case "initial_policy_version", "final_policy_version":
		_, ok = version(val)
		return ok
	case "metrics":
		members, ok := pairs(val)
		return ok && !slices.ContainsFunc(members, func(m pair) bool {
			_, isNumber := number(m.val)
			return !isNumber && m.val[0] != 't' && m.val[0] != 'f'
		})
	case "metadata":
		return val[0] == '{'
	case "logs":
		list, ok := array(val)
		return ok && !slices.ContainsFunc(list, func(e json.RawMessage) bool { return e[0] != '"' })
	case "start_time":
		return val[0] == 'n' || validTime(val)
	}
	return true
}

func histories(raw json.RawMessage) bool {
	list, _ := array(raw)
	return objects(raw) && !slices.ContainsFunc(list, func(history json.RawMessage) bool {
		members, _ := pairs(history)
		return slices.ContainsFunc(members, func(m pair) bool {
			return m.key == "messages_and_choices" && !objects(m.val) || m.key == "tools" && m.val[0] != 'n' && !objects(m.val)
		})
	})
}

func validTime(raw json.RawMessage) bool {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	_, ok := ParseTime(s)
	return ok
}

// FuzzRead compares Read with the reference implementation, and a body that comes byte by
// byte with one that comes in one piece. What is read can then be looked into and counted.
func FuzzRead(f *testing.F) {
	f.Add([]byte(example(f)))
	for _, s := range []string{
		``, `{}`, `[]`, `{"split":"s","trajectory_groups":[{"trajectories":[{"reward":1e400}]}]}`, one(`{"reward":1.0},{"metrics":{"a":true}}`),
		one(`{"start_time":"2026-03-04","tools":null,"logs":["\ud83d"],"initial_policy_version":3.0}`), `{"split":"\ud83d","trajectory_groups":[]}`,
		`{"split":"\ufffd","trajectory_groups":[{"exceptions":[1],"x":2,"trajectories":[],"metrics":{"a":1}}],"step":2}`,
		one(`{"additional_histories":[{"messages_and_choices":[{"message":{},"finish_reason":"stop","logprobs":{"content":[1]}}],"tools":[{}]}]}`),
	} {
		f.Add([]byte(s))
	}
	const depth = 12
	f.Fuzz(func(t *testing.T, body []byte) {
		h, want := new(heap), new(reference)
		l := Limits{Trajectory: 1 << 20, Trajectories: 1000, Depth: depth}
		e, err := Read(bytes.NewReader(body), l, h)
		if accepted := want.body(body, depth); accepted != (err == nil) {
			t.Fatalf("error %v; the reference accepts: %v", err, accepted)
		}
		slow := new(heap)
		if _, again := Read(iotest.OneByteReader(bytes.NewReader(body)), l, slow); (again == nil) != (err == nil) {
			t.Fatalf("byte by byte: %v, else %v", again, err)
		}
		if err != nil {
			var bad *Invalid
			if !errors.As(err, &bad) || len(bad.Details) == 0 || len(bad.Details) > MaxDetails {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(h.trajectories) != len(want.texts) || e.Trajectories != len(want.texts) || e.Groups != len(h.groups) || e.Bytes != int64(len(body)) {
			t.Fatalf("%+v; the reference has %d", e, len(want.texts))
		}
		for i, text := range want.texts {
			if got := h.trajectories[i].Text; string(got) != text || string(slow.trajectories[i].Text) != text {
				t.Fatalf("%s, want %s", got, text)
			}
		}
		useAll(t, h)
	})
}

// useAll uses what has been read in all ways that there are.
func useAll(t *testing.T, h *heap) {
	t.Helper()
	var s Stats
	for i := range h.trajectories {
		tr := &h.trajectories[i]
		s.Trajectory(&tr.Facts)
		if stripped := AppendWithoutLogprobs(nil, tr.Text, nil); !json.Valid(stripped) {
			t.Fatalf("without logprobs: %s", stripped)
		}
		for _, turn := range Turns(Take(tr.Text, nil).Turns, nil) {
			turn.Open(nil)
		}
		Contains(tr.Text, "x", nil)
	}
	for _, g := range h.groups {
		if !json.Valid(g.Text) || g.Text.Member("trajectories") != nil {
			t.Fatalf("group %s", g.Text)
		}
		s.Group(g.Exceptions, g.Metrics)
	}
	s.Summary()
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-03-04", "2026-03-04 09:15:27.5+02:00", "2026-03-04T", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, ok := ParseTime(s); ok {
			if at.Year() < 0 || at.Year() > 10000 {
				t.Errorf("%q: %v", s, at)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	token := `{"token":"token_id:151645","bytes":[56,101],"logprob":-0.013421,"top_logprobs":[]}`
	rollout := `{"messages_and_choices":[{"role":"user","content":"board: ..."},{"finish_reason":"stop","index":0,"logprobs":{"content":[` +
		strings.Repeat(token+",", 2000) + token + `],"refusal":null},"message":{"role":"assistant","content":"` + strings.Repeat("some words ", 600) + `"}}],"reward":1.0}`
	body := one(strings.Repeat(rollout+",", 50) + rollout)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(strings.NewReader(body), DefaultLimits(), broken{}); err != nil {
			b.Fatal(err)
		}
	}
}
