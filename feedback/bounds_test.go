package feedback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/pace"
	"weir/internal/query"
)

// repeated is a list of n copies of a text.
func repeated(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }

// TestQueryBounds checks what a query may ask for (docs/interface/feedback.md, section 8.3,
// rule 7).
func TestQueryBounds(t *testing.T) {
	s := newStore(t)
	expr := func(e string) string { return `,"query":{"$expr":` + e + `}` }
	in := func(n int) string {
		return `{"$in":[{"$getField":"queue_id"},[` + repeated(`{"$literal":"x"}`, n) + `]]}`
	}
	computed := `{"$in":[{"$getField":"queue_id"},[` + repeated(`{"$getField":"creator"}`, 1001) + `]]}`
	contains := func(op string, n int) string {
		return `{"` + op + `":{"input":{"$getField":"creator"},"substr":{"$literal":"` + strings.Repeat("x", n) + `"}}}`
	}
	field := func(name string) string { return `,"fields":["payload.` + name + `"]` }
	for _, c := range []struct{ rest, want string }{
		{`,"fields":[` + repeated(`"id"`, 200) + `]`, ""},
		{`,"fields":[` + repeated(`"id"`, 201) + `]`, "fields has more than 200 names"},
		{`,"sort_by":[` + repeated(`{"field":"id","direction":"asc"}`, 8) + `]`, ""},
		{`,"sort_by":[` + repeated(`{"field":"id","direction":"asc"}`, 9) + `]`, "sort_by has more than 8 fields"},
		{expr(in(10_000)), ""},
		{expr(in(10_001)), "$in has more than 10000 elements"},
		{expr(`{"$or":[` + repeated(in(10_000), 5) + `]}`), ""},
		{expr(`{"$or":[` + repeated(in(10_000), 5) + `,` + in(1) + `]}`), "The lists of all $in together have more than 50000 elements"},
		{expr(computed), "The query has more than 1000 nodes"},
		{expr(contains("$contains", 4096)), ""},
		{expr(contains("$contains", 4097)), "$contains: substr has more than 4096 bytes"},
		{expr(contains("$containsToken", 4097)), "$containsToken: substr has more than 4096 bytes"},
		{field(strings.Repeat("x", 1024)), ""},
		{field(strings.Repeat("x", 1025)), "A path has more than 1024 bytes"},
		{field("a" + strings.Repeat(".a", 31)), ""},
		{field("a" + strings.Repeat(".a", 32)), "A path has more than 32 parts"},
	} {
		got := ""
		_, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support"`+c.rest+`}`), ForQuery, false)
		var r *Refusal
		if errors.As(err, &r) && r.Status == 400 {
			got = r.Reason
		} else if err != nil {
			t.Errorf("%.80s: %v", c.rest, err)
		}
		if got != c.want {
			t.Errorf("%.80s: %q, want %q", c.rest, got, c.want)
		}
	}
}

// TestStatsBounds checks what statistics may ask for (docs/interface/feedback.md,
// section 8.5).
func TestStatsBounds(t *testing.T) {
	s := newStore(t)
	metric := func(rest string) string { return `"metrics":[{"json_path":"a"` + rest + `}]` }
	for _, c := range []struct{ rest, want string }{
		{metric(`,"percentiles":[` + repeated("50", 100) + `]`), ""},
		{metric(`,"percentiles":[` + repeated("50", 101) + `]`), "A metric has more than 100 percentiles"},
		{metric(`,"aggregations":[` + repeated(`"sum"`, 10) + `]`), ""},
		{metric(`,"aggregations":[` + repeated(`"sum"`, 11) + `]`), "A metric has more than 10 aggregations"},
		{`"metrics":[{"json_path":"` + strings.Repeat("x", 1025) + `"}]`, "A path has more than 1024 bytes"},
		{`"metrics":[` + repeated(`{"json_path":"a"}`, 51) + `]`, "More than 50 metrics"},
	} {
		got := ""
		if _, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"a/b","start":"2026-01-01",`+c.rest+`}`), false); err != nil {
			got = err.(*Refusal).Reason
		}
		if got != c.want {
			t.Errorf("%.80s: %q, want %q", c.rest, got, c.want)
		}
	}
	// The longest names, in the most buckets: the buckets are longer, so that the answer is
	// not much more than 16 MiB.
	name := strings.Repeat("x", 1000)
	q, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"a/b","start":"2026-01-01","end":"2027-01-01","granularity":1,"metrics":[`+
		repeated(`{"json_path":"`+name+`"}`, 50)+`]}`), false)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Stats(context.Background(), q)
	if err != nil || len(answer) > 17<<20 || len(answer) < 12<<20 {
		t.Errorf("%v, %d bytes", err, len(answer))
	}
}

// TestPayloadSchemaBounds checks that deep and long paths are left out: their names take
// the square of the payload's size.
func TestPayloadSchemaBounds(t *testing.T) {
	s := newStore(t)
	deep := strings.Repeat(`{"k":`, 31) + `{"in":1,"more":{"out":1}}` + strings.Repeat("}", 31)
	long := `{"` + strings.Repeat("n", 1024) + `":1,"` + strings.Repeat("m", 1025) + `":1}`
	many := []byte{'{'}
	for i := range maxPaths + 10 {
		many = fmt.Appendf(many, `"a%d":1,`, i)
	}
	for _, payload := range []string{deep, long, string(many[:len(many)-1]) + "}"} {
		if _, err := s.Create(context.Background(), Author{User: "u"}, &Request{Project: "a/b", Type: "t", traceRef: "weave:///a/b/call/1", Payload: []byte(payload)}, Once{}); err != nil {
			t.Fatal(err)
		}
	}
	q, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"a/b","start":"2000-01-01","end":"2100-01-01"}`), true)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.PayloadSchema(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	text := string(answer)
	if n := strings.Count(text, "json_path"); n != maxPaths {
		t.Errorf("%d paths", n)
	}
	if !strings.Contains(text, strings.Repeat("k.", 31)+"in") || strings.Contains(text, "out") {
		t.Error("the depth of paths")
	}
	if !strings.Contains(text, strings.Repeat("n", 1024)) || strings.Contains(text, strings.Repeat("m", 1025)) {
		t.Error("the length of paths")
	}
}

// linearIn is the reference implementation of $in.
func linearIn(n *query.Expr, r *Record) bool {
	for _, a := range n.Args[1:] {
		if (&query.Expr{Op: "$eq", Args: []*query.Expr{n.Args[0], a}}).Truth(r, nil) {
			return true
		}
	}
	return false
}

// TestInIsASet compares $in with its elements one by one.
func TestInIsASet(t *testing.T) {
	const id = "01a2063b-d2da-7134-9e69-42620101c1af"
	values := []string{
		`0`, `-0`, `-0.0`, `1`, `1.0`, `1e0`, `10e-1`, `2.5`, `true`, `false`, `null`, `""`, `"1"`, `"1.0"`, `" 1 "`, `"01"`, `"true"`, `"null"`, `"2.5"`,
		`9007199254740992`, `9007199254740993`, `9007199254740992.0`, `"9007199254740993"`, `18446744073709551616`, `18446744073709551617`, `1.8446744073709552e19`,
		`"18446744073709551617"`, `1e400`, `-1e400`, `1e999`, `"x"`, `"X"`, `{}`, `[1]`, `1700000000.5`, `"2023-11-14T22:13:20.500Z"`, `"` + id + `"`, `"` + strings.ToUpper(id) + `"`,
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	fields := []string{
		`{"$getField":"payload.v"}`, `{"$getField":"payload.w"}`, `{"$getField":"created_at"}`, `{"$getField":"id"}`, `{"$getField":"creator"}`,
		`{"$convert":{"input":{"$getField":"payload.v"},"to":"int"}}`, `{"$convert":{"input":{"$getField":"payload.v"},"to":"string"}}`,
		`{"$convert":{"input":{"$getField":"payload.v"},"to":"double"}}`, `{"$convert":{"input":{"$getField":"payload.v"},"to":"exists"}}`, `{"$not":[{"$getField":"payload.v"}]}`,
	}
	cfg := DefaultConfig()
	yes := 0
	literal := func() string {
		v := values[rnd.IntN(len(values))]
		for v[0] == '{' || v[0] == '[' {
			v = values[rnd.IntN(len(values))]
		}
		return `{"$literal":` + v + `}`
	}
	for range 4000 {
		node := func() string {
			if rnd.IntN(8) == 0 {
				return fields[rnd.IntN(len(fields))]
			}
			return literal()
		}
		of := fields[rnd.IntN(len(fields))]
		if rnd.IntN(6) == 0 {
			of = literal()
		}
		list := make([]string, rnd.IntN(5))
		for i := range list {
			list[i] = node()
		}
		body := `{"project_id":"a/b","query":{"$expr":{"$in":[` + of + `,[` + strings.Join(list, ",") + `]]}}}`
		q, err := cfg.DecodeQuery([]byte(body), ForQuery, false)
		if err != nil {
			if r, ok := err.(*Refusal); ok && strings.Contains(r.Reason, "date") {
				continue // a text that is compared with created_at
			}
			t.Fatalf("%s: %v", body, err)
		}
		for _, v := range values {
			r := &Record{ID: id, CreatedAt: 1_700_000_000_500, Payload: []byte(`{"v":` + v + `}`)}
			got, want := q.where.Truth(r, nil), linearIn(q.where, r)
			if got != want {
				t.Fatalf("%s of %s: %v, want %v", body, v, got, want)
			}
			yes += b2i(got)
		}
	}
	if yes < 1000 {
		t.Errorf("%d of all were true", yes)
	}
}

// TestWorkIsMetered checks that all that takes long in one row or one sort is counted while
// it goes on, and that a query ends at once when its context has.
func TestWorkIsMetered(t *testing.T) {
	s := newStore(t)
	at := time.UnixMilli(1_700_000_000_000)
	s.now = func() time.Time { at = at.Add(time.Millisecond); return at }
	big := `{"k":"` + strings.Repeat("aA ", 300_000) + `","v":1}`
	add(t, s, map[string]any{"project_id": "acme/big", "payload": json.RawMessage(big)})
	var batch []*Request
	for i := range 3000 {
		r, err := request(t, map[string]any{"payload": map[string]any{"n": i * 7919 % 3001}, "queue_id": fmt.Sprint("q", i%40)})
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, r)
	}
	if _, err := s.CreateAll(context.Background(), Author{User: "u"}, batch, Once{}); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 5000)
	for i := range ids {
		ids[i] = fmt.Sprintf(`{"$literal":"q%d"}`, i)
	}
	eq := `{"$eq":[{"$getField":"payload.v"},{"$literal":2}]}`
	query := func(project, rest string) func(context.Context) error {
		return func(ctx context.Context) error {
			q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"`+project+`"`+rest+`}`), ForQuery, false)
			if err != nil {
				t.Fatal(err)
			}
			return s.Query(ctx, q, new(bytes.Buffer))
		}
	}
	stats := func(ctx context.Context) error {
		q, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"acme/support","start":"2000-01-01","end":"2100-01-01","metrics":[{"json_path":"n","percentiles":[50]}]}`), false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Stats(ctx, q)
		return err
	}
	where := func(e string) string { return `,"query":{"$expr":` + e + `}` }
	for _, c := range []struct {
		name  string
		run   func(context.Context) error
		least int // pauses of a run that nobody stops
	}{
		{"all records", query("acme/support", ""), 300},
		{"a count", query("acme/support", `,"fields":["count(*)"]`), 5},
		{"a huge expression on one record", query("acme/big", where(`{"$or":[`+repeated(eq, 300)+`]}`)), 250},
		{"many fields of one record", query("acme/big", `,"fields":[`+repeated(`"payload.k"`, 200)+`]`), 550},
		{"a fold", query("acme/big", where(`{"$contains":{"input":{"$getField":"payload.k"},"substr":{"$literal":"b"},"case_insensitive":true}}`)), 60},
		{"a token", query("acme/big", where(`{"$containsToken":{"input":{"$getField":"payload.k"},"substr":{"$literal":"a"}}}`)), 50},
		{"a sort", query("acme/support", `,"fields":["id"],"sort_by":[{"field":"payload.n","direction":"desc"},{"field":"creator","direction":"asc"}]`), 600},
		{"many values of an index", query("acme/support", where(`{"$in":[{"$getField":"queue_id"},[`+strings.Join(ids, ",")+`]]}`)), 500},
		{"statistics", stats, 300},
		{"an export", func(ctx context.Context) error {
			q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support"}`), ForExport, false)
			if err != nil {
				t.Fatal(err)
			}
			return s.ExportCSV(ctx, q, new(bytes.Buffer), false)
		}, 300},
	} {
		checkMetered(t, c.name, c.least, c.run)
	}
}

// checkMetered checks that a query pauses often enough, and ends when its context ends in
// one of the pauses.
func checkMetered(t *testing.T, name string, least int, run func(context.Context) error) {
	t.Helper()
	pauses := 0
	if err := run(pace.With(context.Background(), func() error { pauses++; return nil })); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if pauses < least {
		t.Errorf("%s: %d pauses, want at least %d", name, pauses, least)
	}
	for _, last := range []int{1, pauses / 2, pauses - 5} {
		ctx, cancel := context.WithCancelCause(context.Background())
		n, gone := 0, errors.New("gone")
		err := run(pace.With(ctx, func() error {
			if n++; n == last {
				cancel(gone)
			}
			return nil
		}))
		if err != gone || n != last {
			t.Errorf("%s, stopped at pause %d of %d: %v after %d", name, last, pauses, err, n)
		}
	}
}

// TestCanceledWithinRows checks that a query whose client leaves while it reads the answer
// emits only few more rows.
func TestCanceledWithinRows(t *testing.T) {
	s := newStore(t)
	for range 200 {
		add(t, s, nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support"}`), ForQuery, false)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	err = s.Query(ctx, q, writerFunc(func(b []byte) (int, error) {
		if rows++; rows == 20 {
			cancel()
		}
		return len(b), nil
	}))
	if most := 20 + pace.Grain/pace.Row + 1; !errors.Is(err, context.Canceled) || rows > most {
		t.Errorf("%v after %d rows, want at most %d", err, rows, most)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestRowsInParts checks that a row is not held as a whole.
func TestRowsInParts(t *testing.T) {
	s := newStore(t)
	add(t, s, map[string]any{"payload": json.RawMessage(`{"k":"` + strings.Repeat("x", 500_000) + `"}`)})
	fields := `"fields":[` + repeated(`"payload.k"`, 50) + `]`
	for _, c := range []func(*Query, writerFunc) error{
		func(q *Query, w writerFunc) error { return s.Query(context.Background(), q, w) },
		func(q *Query, w writerFunc) error { return s.ExportLines(context.Background(), q, w) },
		func(q *Query, w writerFunc) error { return s.ExportCSV(context.Background(), q, w, false) },
	} {
		q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support",`+fields+`}`), ForQuery, false)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		if err := c(q, func(b []byte) (int, error) { sizes = append(sizes, len(b)); return len(b), nil }); err != nil {
			t.Fatal(err)
		}
		if len(sizes) < 50 || slices.Max(sizes) > 600_000 {
			t.Errorf("%d writes, the largest of %d bytes", len(sizes), slices.Max(sizes))
		}
	}
}
