package calls

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/jsontext"
	"weir/internal/query"
	"weir/store"
)

// sampleCall is a call of the reference implementation.
type sampleCall struct {
	ID, Op, Trace, Parent, Thread, Turn, User, Run, Exception string
	Started, Ended                                            int64 // microseconds; 0: it runs
	N                                                         int
	Ref                                                       string
}

func (c *sampleCall) status() string {
	switch {
	case c.Exception != "":
		return "error"
	case c.Ended == 0:
		return "running"
	}
	return "success"
}

// json is the call as /v2/…/calls/complete takes it, or as /call/start if it runs.
func (c *sampleCall) json(project string) map[string]any {
	m := map[string]any{
		"project_id": project, "id": c.ID, "op_name": c.Op, "trace_id": c.Trace, "started_at": string(AppendTime(nil, c.Started)), "attributes": map[string]any{},
		"inputs": map[string]any{"n": c.N, "ref": c.Ref, "deep": map[string]any{"even": c.N%2 == 0}},
	}
	for name, v := range map[string]string{"parent_id": c.Parent, "thread_id": c.Thread, "turn_id": c.Turn, "wb_user_id": c.User, "wb_run_id": c.Run} {
		if v != "" {
			m[name] = v
		}
	}
	if c.Ended != 0 || c.Exception != "" {
		m["ended_at"], m["output"], m["summary"] = string(AppendTime(nil, c.Ended)), map[string]any{"v": c.N * 10}, map[string]any{}
		if c.Exception != "" {
			m["exception"] = c.Exception
		}
	}
	return m
}

// sampleStore has so many calls in the project acme/a, and one in another.
func sampleStore(t testing.TB, n int) (*Store, []*sampleCall) {
	t.Helper()
	cfg := store.DefaultConfig(t.TempDir())
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := New(db)
	rnd := rand.New(rand.NewPCG(7, 8))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	var all []*sampleCall
	base := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	for i := range n {
		c := &sampleCall{
			ID: fmt.Sprintf("call-%03d", rnd.IntN(1e6)*1000+i), Op: pick("weave:///acme/a/op/f:v1", "weave:///acme/a/op/f:v2", "weave:///acme/a/op/g:x", "plain", "plain:2"),
			Trace: fmt.Sprint("trace-", rnd.IntN(n/4+1)), Parent: pick("", "", "p1", "p2"), Thread: pick("", "t1", "t2"), Turn: pick("", "u1"), Run: pick("", "r1", "r2"),
			Started: base + int64(rnd.IntN(n))*1000 + int64(rnd.IntN(3)), N: rnd.IntN(10), Ref: pick("weave:///acme/a/object/o:1", "weave:///acme/a/object/o:2", "none"), User: "u",
		}
		if rnd.IntN(4) > 0 {
			c.Ended = c.Started + int64(rnd.IntN(5_000_000))
			c.Exception = pick("", "", "", "boom")
		}
		all = append(all, c)
	}
	other := &sampleCall{ID: "elsewhere", Op: "plain", Trace: "t", Started: base, Ended: base + 1}
	var batch []any
	for _, c := range all {
		if c.Ended == 0 {
			batch = append(batch, map[string]any{"mode": "start", "req": map[string]any{"start": c.json("acme/a")}})
			continue
		}
		m := c.json("acme/a")
		start, end := map[string]any{}, map[string]any{"project_id": "acme/a", "id": c.ID}
		for k, v := range m {
			switch k {
			case "ended_at", "output", "summary", "exception":
				end[k] = v
			default:
				start[k] = v
			}
		}
		batch = append(batch, map[string]any{"mode": "start", "req": map[string]any{"start": start}}, map[string]any{"mode": "end", "req": map[string]any{"end": end}})
	}
	batch = append(batch, map[string]any{"mode": "start", "req": map[string]any{"start": other.json("acme/b")}})
	body, err := json.Marshal(map[string]any{"batch": batch})
	if err != nil {
		t.Fatal(err)
	}
	r, err := DecodeRequest(context.Background(), body, FormUpsert, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(context.Background(), Author{User: "u"}, r); err != nil {
		t.Fatal(err)
	}
	return s, all
}

// ask returns the ids that a query finds, and the answer to the question how many they are.
func ask(t testing.TB, s *Store, body string) (ids []string, count int) {
	t.Helper()
	ctx := context.Background()
	q, err := DecodeQuery(ctx, []byte(body), false)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out bytes.Buffer
	if err := s.Stream(ctx, q, &out, Outside{}); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for line := range strings.Lines(out.String()) {
		ids = append(ids, jsontext.Value(strings.TrimSpace(line)).Member("id").Text())
	}
	if q, err = DecodeQuery(ctx, []byte(body), true); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	answer, err := s.Count(ctx, q, Outside{})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := jsontext.Value(answer).Member("count").Float()
	return ids, int(n)
}

// TestQueriesLikeTheReference compares random queries with an implementation that looks at
// all calls (docs/interface/weave.md, W-180 to W-184).
func TestQueriesLikeTheReference(t *testing.T) {
	s, all := sampleStore(t, 120)
	rnd := rand.New(rand.NewPCG(1, 9))
	found := 0
	for range 3000 {
		q := &randomQuery{rnd: rnd, all: all, filter: map[string]any{}}
		for range rnd.IntN(4) {
			q.condition()
		}
		want := q.found()
		body, total := q.request(t, &want)
		got, count := ask(t, s, body)
		var ids []string
		for _, c := range want {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(got, ids) || count != total {
			t.Fatalf("%s:\n%v, %d\nwant\n%v, %d", body, got, count, ids, total)
		}
		found += len(ids)
	}
	if found < 10_000 {
		t.Errorf("only %d calls were found", found)
	}
}

// randomQuery is a query, and the conditions that its calls fulfil.
type randomQuery struct {
	rnd    *rand.Rand
	all    []*sampleCall
	filter map[string]any
	exprs  []any
	conds  []func(*sampleCall) bool
}

// member adds a list of a filter with some of the values, unless there is one.
func (q *randomQuery) member(name string, get func(*sampleCall) string, values ...string) {
	if q.filter[name] != nil {
		return
	}
	list := []string{}
	for _, v := range values {
		if q.rnd.IntN(2) == 0 {
			list = append(list, v)
		}
	}
	q.filter[name] = list
	if len(list) > 0 {
		q.conds = append(q.conds, func(c *sampleCall) bool { return slices.Contains(list, get(c)) })
	}
}

func fieldOf(name string) any { return map[string]any{"$getField": name} }

func literal(v any) any { return map[string]any{"$literal": v} }

// condition adds a random condition.
func (q *randomQuery) condition() {
	switch q.rnd.IntN(16) {
	case 0:
		q.member("trace_ids", func(c *sampleCall) string { return c.Trace }, "trace-0", "trace-1", "trace-7", "none")
	case 1:
		q.member("parent_ids", func(c *sampleCall) string { return c.Parent }, "p1", "p2", "p3")
	case 2:
		q.member("thread_ids", func(c *sampleCall) string { return c.Thread }, "t1", "t2")
	case 3:
		q.member("turn_ids", func(c *sampleCall) string { return c.Turn }, "u1", "u2")
	case 4:
		q.member("wb_run_ids", func(c *sampleCall) string { return c.Run }, "r1", "r2")
	case 5:
		q.filter["trace_roots_only"] = true
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.Parent == "" })
	case 6:
		q.filter["op_names"] = []string{"weave:///acme/a/op/f:*", "plain"}
		q.conds = append(q.conds, func(c *sampleCall) bool { return strings.HasPrefix(c.Op, "weave:///acme/a/op/f:") || c.Op == "plain" })
	case 7:
		q.filter["input_refs"] = []string{"weave:///acme/a/object/o:*"}
		q.conds = append(q.conds, func(c *sampleCall) bool { return strings.HasPrefix(c.Ref, "weave:///acme/a/object/o:") })
	case 8:
		if q.filter["call_ids"] != nil {
			break
		}
		id := q.all[q.rnd.IntN(len(q.all))].ID
		q.filter["call_ids"] = []string{id, q.all[0].ID, "elsewhere"}
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.ID == id || c.ID == q.all[0].ID })
	case 9:
		n := q.rnd.IntN(10)
		q.exprs = append(q.exprs, map[string]any{"$gt": []any{fieldOf("inputs.n"), literal(n)}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.N > n })
	case 10:
		status := []string{"error", "running", "success", "odd"}[q.rnd.IntN(4)]
		q.exprs = append(q.exprs, map[string]any{"$eq": []any{literal(status), fieldOf("summary.weave.status")}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.status() == status })
	case 11:
		at := q.all[q.rnd.IntN(len(q.all))].Started
		q.exprs = append(q.exprs, map[string]any{"$gte": []any{fieldOf("started_at"), literal(string(AppendTime(nil, at)))}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.Started >= at })
	case 12:
		at := q.all[q.rnd.IntN(len(q.all))].Started
		q.exprs = append(q.exprs, map[string]any{"$not": []any{map[string]any{"$lt": []any{fieldOf("started_at"), literal(float64(at) / 1e6)}}}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.Started >= at })
	case 13:
		q.exprs = append(q.exprs, map[string]any{"$in": []any{fieldOf("op_name"), []any{literal("plain"), literal("plain:2"), literal("x")}}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.Op == "plain" || c.Op == "plain:2" })
	case 14:
		q.exprs = append(q.exprs, map[string]any{"$eq": []any{fieldOf("exception"), literal(nil)}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.Exception == "" })
	case 15:
		q.exprs = append(q.exprs, map[string]any{"$or": []any{
			map[string]any{"$eq": []any{fieldOf("inputs.deep.even"), literal(true)}}, map[string]any{"$contains": map[string]any{"input": fieldOf("output"), "substr": literal("70")}},
		}})
		q.conds = append(q.conds, func(c *sampleCall) bool { return c.N%2 == 0 || c.Ended != 0 && c.N == 7 })
	}
}

// found are the calls that fulfil all conditions.
func (q *randomQuery) found() (list []*sampleCall) {
	for _, c := range q.all {
		if !slices.ContainsFunc(q.conds, func(f func(*sampleCall) bool) bool { return !f(c) }) {
			list = append(list, c)
		}
	}
	return list
}

// request puts the calls that were found in a random order, cuts them to a random page, and
// returns the body that asks for it, and the count that is to be answered.
func (q *randomQuery) request(t *testing.T, found *[]*sampleCall) (string, int) {
	want := *found
	request := map[string]any{"project_id": "acme/a", "filter": q.filter}
	if len(q.exprs) > 0 {
		request["query"] = map[string]any{"$expr": map[string]any{"$and": q.exprs}}
	}
	total := len(want)
	order := func(a, b *sampleCall) int { return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.ID, b.ID)) }
	switch q.rnd.IntN(4) {
	case 0:
		request["sort_by"] = []any{map[string]any{"field": "started_at", "direction": "desc"}}
		forward := order
		order = func(a, b *sampleCall) int { return -forward(a, b) }
	case 1:
		request["sort_by"] = []any{map[string]any{"field": "inputs.n", "direction": "desc"}, map[string]any{"field": "op_name", "direction": "asc"}}
		order = func(a, b *sampleCall) int {
			return cmp.Or(-cmp.Compare(a.N, b.N), cmp.Compare(a.Op, b.Op), -cmp.Compare(a.ID, b.ID))
		}
	}
	slices.SortFunc(want, order)
	if q.rnd.IntN(2) == 0 {
		offset, limit := q.rnd.IntN(5), 1+q.rnd.IntN(20)
		request["offset"], request["limit"] = offset, limit
		want = want[min(offset, len(want)):]
		want = want[:min(limit, len(want))]
		total = min(total, limit)
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	*found = want
	return string(body), total
}

// TestMixedOrder: numbers come first, then text, then other values, and what is not there last,
// in both directions (docs/interface/weave.md, W-184).
func TestMixedOrder(t *testing.T) {
	s, db := open(t, t.TempDir())
	defer db.Close()
	for id, inputs := range map[string]string{"a": `{"v":2}`, "b": `{"v":"x"}`, "c": `{}`, "d": `{"v":10}`, "e": `{"v":true}`, "f": `{"v":"y"}`} {
		write(t, s, FormComplete, completeCall("p/q", id, `,"inputs":`+inputs))
	}
	for direction, want := range map[string]string{"asc": "a d b f e c", "desc": "d a f b e c"} {
		got, _ := ask(t, s, `{"project_id":"p/q","sort_by":[{"field":"inputs.v","direction":"`+direction+`"}]}`)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", direction, got, want)
		}
	}
}

// TestOverlappingOps: a call that several names of a filter stand for is found, and counted, once
// (docs/interface/weave.md, W-181).
func TestOverlappingOps(t *testing.T) {
	s, db := open(t, t.TempDir())
	defer db.Close()
	for id, op := range map[string]string{"a": "run:1", "b": "run:2", "c": "run:2:x", "d": "walk:1"} {
		write(t, s, FormComplete, completeCall("p/q", id, `,"op_name":"`+op+`"`))
	}
	for _, names := range []string{`"run:*"`, `"run:*","run:*"`, `"run:*","run:1"`, `"run:*","run:2:*","run:2"`, `"run:2:*","run:*"`} {
		got, n := ask(t, s, `{"project_id":"p/q","filter":{"op_names":[`+names+`]}}`)
		if strings.Join(got, " ") != "a b c" || n != 3 {
			t.Errorf("%s: %v, %d", names, got, n)
		}
	}
}

// TestOrderOfEqualCalls: calls that are equal in all fields of an order are ordered by id, forwards
// only if the last field is started_at, ascending (docs/interface/weave.md, W-184).
func TestOrderOfEqualCalls(t *testing.T) {
	s, db := open(t, t.TempDir())
	defer db.Close()
	for _, id := range []string{"b", "c", "a"} {
		write(t, s, FormComplete, completeCall("p/q", id, ""))
	}
	for sort, want := range map[string]string{
		`{"field":"started_at","direction":"asc"}`:                                           "a b c",
		`{"field":"started_at","direction":"desc"}`:                                          "c b a",
		`{"field":"trace_id","direction":"asc"}`:                                             "c b a",
		`{"field":"project_id","direction":"desc"},{"field":"started_at","direction":"asc"}`: "a b c",
		`{"field":"project_id","direction":"asc"},{"field":"started_at","direction":"desc"}`: "c b a",
		`{"field":"started_at","direction":"asc"},{"field":"project_id","direction":"desc"}`: "c b a",
		`{"field":"started_at","direction":"asc"},{"field":"started_at","direction":"asc"}`:  "a b c",
	} {
		if got, _ := ask(t, s, `{"project_id":"p/q","sort_by":[`+sort+`]}`); strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", sort, got, want)
		}
	}
}

// TestAnswerColumns: an answer has the columns that were asked for and those that clients
// always read, and what was asked for beside them (docs/interface/weave.md, W-183).
func TestAnswerColumns(t *testing.T) {
	s, all := sampleStore(t, 40)
	ended := slices.IndexFunc(all, func(c *sampleCall) bool { return c.Ended != 0 && c.Parent == "" })
	ctx := context.Background()
	one := func(rest string) jsontext.Value {
		t.Helper()
		q, err := DecodeQuery(ctx, []byte(`{"project_id":"acme/a","filter":{"call_ids":["`+all[ended].ID+`"]}`+rest+`}`), false)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := s.Stream(ctx, q, &out, Outside{Feedback: func(id string) (jsontext.Value, error) { return jsontext.Value(`[{"of":"` + id + `"}]`), nil }}); err != nil {
			t.Fatal(err)
		}
		line, ok := bytes.CutSuffix(out.Bytes(), []byte("\n"))
		if !ok || jsontext.Scan(line, 100) != nil {
			t.Fatalf("%s: %s", rest, out.String())
		}
		return line
	}
	names := func(v jsontext.Value) string {
		var list []string
		for name := range v.Members() {
			list = append(list, string(name))
		}
		return strings.Join(list, " ")
	}
	for _, rest := range []string{"", `,"columns":[]`, `,"columns":null`} {
		if got := names(one(rest)); got != strings.Join(answerColumns, " ") {
			t.Errorf("%s: %s", rest, got)
		}
	}
	if got := names(one(`,"columns":["output.v"]`)); got != "id project_id op_name trace_id started_at attributes inputs output" {
		t.Error(got)
	}
	v := one(`,"columns":["inputs_dump"],"include_usernames":true,"include_storage_size":true,"include_total_storage_size":true,"include_feedback":true,"include_costs":true`)
	if got := names(v); got != "id project_id op_name trace_id started_at attributes inputs summary wb_username storage_size_bytes total_storage_size_bytes" {
		t.Error(got)
	}
	if got := string(v.Member("summary").Member("weave").Member("feedback")); got != `[{"of":"`+all[ended].ID+`"}]` {
		t.Error(got)
	}
	full := one(`,"include_feedback":true`).Member("summary").Member("weave")
	if full.Member("feedback") == nil || full.Member("status") == nil {
		t.Errorf("%s", full)
	}
}

// TestMalformedCallQueries: what is wrong with a query, and its bounds
// (docs/interface/weave.md, W-182).
func TestMalformedCallQueries(t *testing.T) {
	for rest, want := range map[string]string{
		`,"query":{"$expr":{"$eq":[{"$getField":"nothing"},{"$literal":1}]}}`:      "Unknown field: nothing",
		`,"query":{"$expr":{"$eq":[{"$getField":"op_name.x"},{"$literal":1}]}}`:    "Unknown field: op_name.x",
		`,"query":{"$expr":{"$gt":[{"$getField":"started_at"},{"$literal":"x"}]}}`: "started_at is compared with something that is not a date",
		`,"limit":-1`:                       "limit must not be negative",
		`,"limit":"x"`:                      "int_type",
		`,"filter":[]`:                      "model_attributes_type",
		`,"filter":{"trace_ids":"x"}`:       "list_type",
		`,"filter":{"trace_ids":[1]}`:       "string_type",
		`,"sort_by":[{"field":"inputs.n"}]`: "missing",
		`,"sort_by":[{"field":"inputs.n","direction":"up"}]`:                 "literal_error",
		`,"sort_by":[{"field":"inputs.n","direction":"asc"}],"limit":200001`: "offset and limit are too large",
		`,"include_feedback":1`:                     "bool_type",
		`,"what_is_new":{"a":1},"latest_only":true`: "",
	} {
		_, err := DecodeQuery(context.Background(), []byte(`{"project_id":"acme/a"`+rest+`}`), false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rest, err)
		}
	}
	if _, err := DecodeQuery(context.Background(), []byte(`{}`), true); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Error(err)
	}
}

var _ query.Row = row{}
