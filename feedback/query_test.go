package feedback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/jsontext"
	"weir/store"
)

func newStore(t testing.TB) *Store {
	t.Helper()
	cfg := store.DefaultConfig(t.TempDir())
	cfg.MinFree, cfg.MaintainEvery = 0, 0
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(db, DefaultConfig())
}

// add writes an item by user u.
func add(t testing.TB, s *Store, fields map[string]any) {
	t.Helper()
	r, err := request(t, fields)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(context.Background(), Author{User: "u"}, r, Once{}); err != nil {
		t.Fatal(err)
	}
}

// ask runs a query and returns the answer.
func ask(t testing.TB, s *Store, body string) string {
	t.Helper()
	q, err := s.DecodeQuery([]byte(body), ForQuery, false)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out bytes.Buffer
	if err := s.Query(context.Background(), q, &out); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if !json.Valid(out.Bytes()) {
		t.Fatalf("%s: %s", body, out.String())
	}
	return out.String()
}

// names are the values of payload.k of the rows that a query returns.
func names(t testing.TB, s *Store, rest string) string {
	t.Helper()
	var answer struct {
		Result []map[string]any `json:"result"`
		Total  int              `json:"total_count"`
	}
	text := ask(t, s, `{"project_id":"acme/support","fields":["payload.k"]`+rest+`}`)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range answer.Result {
		out = append(out, fmt.Sprint(r["payload.k"]))
	}
	return strings.Join(out, "")
}

// sample is a project with a row for every kind of value, a to p.
func sample(t testing.TB) *Store {
	s := newStore(t)
	at := time.Date(2026, 3, 4, 9, 15, 27, 412e6, time.UTC)
	s.now = func() time.Time { at = at.Add(time.Hour); return at }
	for i, v := range []string{
		`1`, `2.5`, `-3`, `"2"`, `"text"`, `"Text two"`, `true`, `false`, `null`, `{}`, `[1,2]`, `9007199254740993`, `9007199254740992`, `0.9`, `""`,
	} {
		fields := map[string]any{"payload": json.RawMessage(fmt.Sprintf(`{"k":%q,"v":%s,"deep":{"list":[%s,{"x.y":%d}]}}`, string('a'+rune(i)), v, v, i))}
		if i%2 == 1 {
			fields["feedback_type"], fields["creator"], fields["queue_id"] = "odd", "ann", "q"
			fields["call_ref"] = "weave:///acme/support/call/scorer"
		}
		add(t, s, fields)
	}
	add(t, s, map[string]any{"payload": map[string]any{"k": "p"}, "trace_ref": "weave:///acme/support/call/other"})
	add(t, s, map[string]any{"payload": map[string]any{"k": "?"}, "project_id": "acme/other"})
	return s
}

// Spec feedback 8.3; checklist 23: every operator, rules 1 to 8.
func TestExpressions(t *testing.T) {
	s := sample(t)
	field := `{"$getField":"payload.v"}`
	lit := func(v string) string { return `{"$literal":` + v + `}` }
	const everything = "abcdefghijklmnop"
	for _, c := range []struct{ expr, want string }{
		{`{"$eq":[` + field + `,` + lit("1") + `]}`, "a"},
		{`{"$eq":[` + lit("1") + `,` + field + `]}`, "a"},
		{`{"$eq":[` + field + `,` + lit("1.0") + `]}`, "a"},
		{`{"$eq":[` + field + `,` + lit("2") + `]}`, "d"},   // rule 1: text that is a number
		{`{"$eq":[` + field + `,` + lit(`"2"`) + `]}`, "d"}, // rule 1: text
		{`{"$eq":[` + field + `,` + lit(`"1"`) + `]}`, "a"}, // rule 1: the text of a number
		{`{"$eq":[` + field + `,` + lit(`"true"`) + `]}`, "g"},
		{`{"$eq":[` + field + `,` + lit("true") + `]}`, "g"},
		{`{"$eq":[` + field + `,` + lit("false") + `]}`, "h"},
		{`{"$eq":[` + field + `,` + lit("9007199254740993") + `]}`, "l"}, // rule 2: integers exactly
		{`{"$gt":[` + field + `,` + lit("9007199254740992") + `]}`, "l"},
		{`{"$gt":[` + field + `,` + lit("0") + `]}`, "abdlmn"}, // 0.9 too
		{`{"$gte":[` + field + `,` + lit("2.5") + `]}`, "blm"},
		{`{"$lt":[` + field + `,` + lit("1") + `]}`, "cn"},
		{`{"$lte":[` + field + `,` + lit("1") + `]}`, "acn"},
		{`{"$gt":[` + lit("0") + `,` + field + `]}`, "c"},
		{`{"$gt":[` + field + `,` + lit(`"Text"`) + `]}`, "efgh"}, // rule 6: code points; true and false as text
		{`{"$eq":[` + field + `,` + lit("null") + `]}`, "ip"},     // rule 3
		{`{"$not":[{"$eq":[` + field + `,` + lit("null") + `]}]}`, "abcdefghjklmno"},
		{`{"$not":[{"$gt":[` + field + `,` + lit("0") + `]}]}`, "cefghijkop"},
		{`{"$lt":[` + field + `,` + lit("null") + `]}`, ""},
		{`{"$in":[` + field + `,[` + lit("1") + `,` + lit(`"text"`) + `,` + lit("null") + `]]}`, "aeip"},
		{`{"$in":[` + field + `,[]]}`, ""},
		{`{"$and":[{"$gt":[` + field + `,` + lit("0") + `]},{"$lt":[` + field + `,` + lit("3") + `]}]}`, "abdn"},
		{`{"$or":[{"$eq":[` + field + `,` + lit("1") + `]},{"$eq":[` + field + `,` + lit("2.5") + `]}]}`, "ab"},
		{`{"$or":[{"$eq":[` + field + `,` + lit("1") + `]}]}`, "a"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"exists"}},` + lit("true") + `]}`, "abcdefghijklmno"}, // rule 5: null is there
		{`{"$convert":{"input":` + field + `,"to":"exists"}}`, "abcdefghijklmno"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"int"}},` + lit("2") + `]}`, "bd"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"double"}},` + lit("1") + `]}`, "ag"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"string"}},` + lit(`"2.5"`) + `]}`, "b"},
		{`{"$eq":[{"$convert":{"input":` + field + `,"to":"bool"}},` + lit("true") + `]}`, "abcglmn"},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`"ext"`) + `}}`, "ef"},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`"TEXT"`) + `}}`, ""},
		{`{"$contains":{"input":` + field + `,"substr":` + lit(`"TEXT"`) + `,"case_insensitive":true}}`, "ef"},
		{`{"$containsToken":{"input":` + field + `,"substr":` + lit(`"two"`) + `}}`, "f"},
		{`{"$containsToken":{"input":` + field + `,"substr":` + lit(`"wo"`) + `}}`, ""},
		{`{"$eq":[{"$getField":"payload.deep.list.0"},` + lit("1") + `]}`, "a"},
		{`{"$eq":[{"$getField":"payload.deep.list.1.x\\.y"},` + lit("7") + `]}`, "h"},
		{`{"$eq":[{"$getField":"payload.deep.list.x"},` + lit("null") + `]}`, everything},
		{`{"$eq":[{"$getField":"payload"},` + lit(`"{}"`) + `]}`, ""},
		{`{"$eq":[{"$getField":"feedback_type"},` + lit(`"odd"`) + `]}`, "bdfhjln"},
		{`{"$eq":[{"$getField":"creator"},` + lit("null") + `]}`, "acegikmop"},
		{`{"$eq":[{"$getField":"queue_id"},` + lit(`"q"`) + `]}`, "bdfhjln"},
		{`{"$eq":[{"$getField":"platform_user_id"},` + lit(`"u"`) + `]}`, everything},
		{`{"$eq":[{"$getField":"project_id"},` + lit(`"acme/other"`) + `]}`, ""},
		{`{"$eq":[{"$getField":"trace_ref"},` + lit(`"weave:///acme/support/call/other"`) + `]}`, "p"},
		{`{"$eq":[{"$getField":"payload.k"},{"$getField":"payload.k"}]}`, everything},
		// Rule 4: the first row is of 10:15:27.412, the next ones an hour later each.
		{`{"$gte":[{"$getField":"created_at"},` + lit(`"2026-03-04T23:15:27.412Z"`) + `]}`, "nop"},
		{`{"$gt":[{"$getField":"created_at"},` + lit(`"2026-03-04T23:15:27.412Z"`) + `]}`, "op"},
		{`{"$lt":[{"$getField":"created_at"},` + lit(`"2026-03-04 11:15:27.412"`) + `]}`, "a"},
		{`{"$eq":[{"$getField":"created_at"},` + lit(`"2026-03-04T12:15:27.412+01:00"`) + `]}`, "b"},
		{`{"$gte":[{"$getField":"created_at"},` + lit(`"2026-03-05"`) + `]}`, "op"},
		{`{"$lt":[` + lit("1772668800") + `,{"$getField":"created_at"}]}`, "op"},
		{`{"$in":[{"$getField":"created_at"},[` + lit(`"2026-03-04T10:15:27.412Z"`) + `]]}`, "a"},
		{`{"$and":[{"$gte":[{"$getField":"created_at"},` + lit(`"2026-03-05"`) + `]},{"$eq":[{"$getField":"feedback_type"},` + lit(`"custom"`) + `]}]}`, "op"},
	} {
		if got := names(t, s, `,"query":{"$expr":`+c.expr+`}`); got != c.want {
			t.Errorf("%s: %s, want %s", c.expr, got, c.want)
		}
		// The index that a query goes over changes nothing, nor does the direction.
		wrapped := `{"$not":[{"$not":[` + c.expr + `]}]}`
		if got := names(t, s, `,"query":{"$expr":`+wrapped+`}`); got != c.want {
			t.Errorf("without an index %s: %s, want %s", c.expr, got, c.want)
		}
		back := []byte(c.want)
		slices.Reverse(back)
		if got := names(t, s, `,"query":{"$expr":`+c.expr+`},"sort_by":[{"field":"created_at","direction":"desc"},{"field":"id","direction":"desc"}]`); got != string(back) {
			t.Errorf("backwards %s: %s, want %s", c.expr, got, back)
		}
	}
}

func TestMalformedQueries(t *testing.T) {
	cfg := DefaultConfig()
	nest := func(n int) string {
		return strings.Repeat(`{"$not":[`, n) + `{"$literal":true}` + strings.Repeat(`]}`, n)
	}
	elements := func(n int) string { return strings.Repeat(`{"$literal":1},`, n-1) + `{"$literal":1}` }
	for _, c := range []struct {
		rest string
		want string // "" is accepted; 422 has a type, 400 a reason
	}{
		{`,"query":{"$expr":{}}`, "422 value_error"},
		{`,"query":{"$expr":{"$literal":1,"$getField":"id"}}`, "422 value_error"},
		{`,"query":{"$expr":{"$what":1}}`, "422 value_error"},
		{`,"query":{"$expr":[]}`, "422 model_attributes_type"},
		{`,"query":{}`, "422 missing"},
		{`,"query":{"$expr":{"$literal":true},"x":1}`, "422 extra_forbidden"},
		{`,"query":{"$expr":{"$literal":[]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$getField":1}}`, "422 string_type"},
		{`,"query":{"$expr":{"$eq":[{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$eq":[{"$literal":1},{"$literal":1},{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$eq":5}}`, "422 list_type"},
		{`,"query":{"$expr":{"$eq":[1,2]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$not":[]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$in":[{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$in":[{"$literal":1},{"$literal":1}]}}`, "422 value_error"},
		{`,"query":{"$expr":{"$convert":{"input":{"$literal":1},"to":"date"}}}`, "422 literal_error"},
		{`,"query":{"$expr":{"$convert":{"to":"int"}}}`, "422 missing"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"}}}}`, "422 missing"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"},"substr":{"$literal":"a"},"case_insensitive":1}}}`, "422 bool_type"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"},"substr":{"$literal":1}}}}`, "400 $contains: substr"},
		{`,"query":{"$expr":{"$contains":{"input":{"$literal":"a"},"substr":{"$getField":"id"}}}}`, "400 $contains: substr"},
		{`,"query":{"$expr":{"$and":[]}}`, "400 $and needs"},
		{`,"query":{"$expr":{"$or":[]}}`, "400 $or needs"},
		{`,"query":{"$expr":{"$eq":[{"$getField":"created_at"},{"$literal":"x"}]}}`, "400 created_at"},
		{`,"query":{"$expr":{"$eq":[{"$getField":"what"},{"$literal":"x"}]}}`, "400 Unknown field: what"},
		{`,"query":{"$expr":{"$eq":[{"$getField":"payload."},{"$literal":"x"}]}}`, "400 Unknown field: payload."},
		{`,"query":{"$expr":` + nest(31) + `}`, ""},
		{`,"query":{"$expr":` + nest(32) + `}`, "400 The query is nested"},
		{`,"query":{"$expr":{"$and":[` + elements(999) + `]}}`, ""},
		{`,"query":{"$expr":{"$and":[` + elements(1000) + `]}}`, "400 The query has more"},
		{`,"query":{"$expr":{"$in":[{"$getField":"id"},[` + elements(10000) + `]]}}`, ""},
		{`,"query":{"$expr":{"$in":[{"$getField":"id"},[` + elements(10001) + `]]}}`, "400 $in has more"},
		{`,"query":null,"fields":null,"sort_by":null,"limit":null,"offset":null`, ""},
		{`,"fields":["what"]`, "400 Unknown field: what"},
		{`,"fields":[1]`, "422 string_type"},
		{`,"fields":["count(*)","id"]`, "400 count(*)"},
		{`,"sort_by":[{"field":"what","direction":"asc"}]`, "400 Unknown field: what"},
		{`,"sort_by":[{"field":"id","direction":"up"}]`, "422 literal_error"},
		{`,"sort_by":[{"field":"id"}]`, "422 missing"},
		{`,"limit":-1`, "400 limit"}, {`,"offset":-1`, "400 offset"}, {`,"limit":1.5`, "422 int_type"}, {`,"limit":"1"`, "422 int_type"},
		{`,"limit":99999999999999999999`, ""},
		{`,"what":1`, "422 extra_forbidden"},
		{`,"sort_by":[{"field":"creator","direction":"asc"}],"offset":500000`, "400 offset and limit"},
	} {
		_, err := cfg.DecodeQuery([]byte(`{"project_id":"a/b"`+c.rest+`}`), ForQuery, false)
		got := ""
		switch e := err.(type) {
		case Invalid:
			got = "422 " + e[0].Type
		case *Refusal:
			got = fmt.Sprint(e.Status, " ", e.Reason)
		}
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%.100s: %s, want %s", c.rest, got, c.want)
		}
	}
	if _, err := cfg.DecodeQuery([]byte(`{}`), ForQuery, false); err.(Invalid)[0].Type != "missing" {
		t.Error(err)
	}
}

// Order and pages (spec 8.3, rule 8).
func TestOrderAndPages(t *testing.T) {
	s := sample(t)
	sort := func(s string) string { return `,"sort_by":[` + s + `]` }
	for _, c := range []struct{ rest, want string }{
		{"", "abcdefghijklmnop"},
		{`,"limit":3`, "abc"},
		{`,"limit":3,"offset":14`, "op"},
		{`,"limit":0`, ""},
		{`,"offset":99`, ""},
		{sort(`{"field":"created_at","direction":"desc"}`), "ponmlkjihgfedcba"},
		{sort(`{"field":"created_at","direction":"desc"}`) + `,"limit":2,"offset":1`, "on"},
		{sort(`{"field":"payload.k","direction":"desc"}`) + `,"limit":3`, "pon"},
		// Numbers, text, booleans, others, and last the row without the path.
		{sort(`{"field":"payload.v","direction":"asc"}`), "cnabmlodfehgijkp"},
		{sort(`{"field":"payload.v","direction":"desc"}`), "lmbancefdoghijkp"},
		{sort(`{"field":"feedback_type","direction":"asc"},{"field":"created_at","direction":"desc"}`), "pomkigecanljhfdb"},
		{sort(`{"field":"creator","direction":"asc"},{"field":"payload.k","direction":"asc"}`) + `,"limit":9`, "bdfhjlnac"},
	} {
		if got := names(t, s, c.rest); got != c.want {
			t.Errorf("%s: %s, want %s", c.rest, got, c.want)
		}
	}
	if got := ask(t, s, `{"project_id":"acme/support","fields":["payload.k"],"limit":1,"offset":2}`); got != `{"result":[{"payload.k":"c"}],"total_count":16}` {
		t.Error(got)
	}
	if got := ask(t, s, `{"project_id":"acme/support","fields":["count(*)"]}`); got != `{"result":[{"count(*)":16}],"total_count":16}` {
		t.Error(got)
	}
	if got := ask(t, s, `{"project_id":"acme/nothing"}`); got != `{"result":[],"total_count":0}` {
		t.Error(got)
	}
	s.cfg.MaxRows = 2
	if got := names(t, s, `,"limit":5`); got != "ab" {
		t.Errorf("the cap: %s", got)
	}
}

// A page, whatever its order, is a piece of the whole (a dumb twin: sort all).
func TestPagesAgree(t *testing.T) {
	s := newStore(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.UnixMilli(1e12)
	s.now = func() time.Time { return now }
	for i := range 200 {
		if rnd.IntN(3) == 0 {
			now = now.Add(time.Millisecond)
		}
		add(t, s, map[string]any{"payload": map[string]any{"k": i, "n": rnd.IntN(5)}, "feedback_type": fmt.Sprint("t", rnd.IntN(3))})
	}
	for _, sort := range []string{
		`{"field":"payload.n","direction":"asc"}`, `{"field":"payload.n","direction":"desc"}`, `{"field":"created_at","direction":"desc"}`,
		`{"field":"created_at","direction":"asc"},{"field":"id","direction":"asc"}`, `{"field":"feedback_type","direction":"desc"},{"field":"payload.n","direction":"asc"}`,
	} {
		full := ask(t, s, `{"project_id":"acme/support","fields":["id"],"sort_by":[`+sort+`]}`)
		var all, pages []string
		collect := func(text string, into *[]string) int {
			var a struct{ Result []map[string]string }
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				t.Fatal(err)
			}
			for _, r := range a.Result {
				*into = append(*into, r["id"])
			}
			return len(a.Result)
		}
		collect(full, &all)
		for offset := 0; ; offset += 7 {
			if collect(ask(t, s, fmt.Sprintf(`{"project_id":"acme/support","fields":["id"],"sort_by":[%s],"limit":7,"offset":%d}`, sort, offset)), &pages) == 0 {
				break
			}
		}
		if !slices.Equal(all, pages) || len(all) != 200 {
			t.Errorf("%s: %d rows, %d on pages", sort, len(all), len(pages))
		}
	}
}

// Spec feedback 8.5.
func TestStats(t *testing.T) {
	s := newStore(t)
	at := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return at }
	for i, p := range []string{`{"s":{"x":1},"b":true}`, `{"s":{"x":3},"b":false}`, `{"s":{"x":"5"},"b":true}`, `{"s":{"x":"no"}}`, `{}`} {
		at = time.Date(2026, 3, 4, i, 0, 0, 0, time.UTC)
		f := map[string]any{"payload": json.RawMessage(p)}
		if i == 0 {
			f["trigger_ref"] = "weave:///acme/support/object/m:v1"
		}
		add(t, s, f)
	}
	stats := func(rest string) string {
		t.Helper()
		q, err := s.DecodeStats([]byte(`{"project_id":"acme/support","start":"2026-03-04"`+rest+`}`), false)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Stats(context.Background(), q)
		if err != nil || !json.Valid(out) {
			t.Fatalf("%s: %v", out, err)
		}
		return string(out)
	}
	const head = `{"start":"2026-03-04T00:00:00.000Z","end":"2026-03-04T06:00:00.000Z","granularity":7200,"timezone":"UTC","buckets":[`
	if got, want := stats(`,"end":"2026-03-04T06:00:00Z","granularity":7200,"metrics":[{"json_path":"s.x","percentiles":[50]},{"json_path":"b","value_type":"boolean"}]`), head+
		`{"timestamp":"2026-03-04T00:00:00.000Z","count":2,"avg_s_x":2,"min_s_x":1,"max_s_x":3,"p50_s_x":2,"count_true_b":1,"count_false_b":1},`+
		`{"timestamp":"2026-03-04T02:00:00.000Z","count":2,"avg_s_x":5,"min_s_x":5,"max_s_x":5,"p50_s_x":5,"count_true_b":1,"count_false_b":0},`+
		`{"timestamp":"2026-03-04T04:00:00.000Z","count":1,"avg_s_x":null,"min_s_x":null,"max_s_x":null,"p50_s_x":null,"count_true_b":null,"count_false_b":null}],`+
		`"window_stats":{"s_x":{"avg":3,"min":1,"max":5,"p50":3},"b":{"count_true":2,"count_false":1}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := stats(`,"end":"2026-03-04T06:00:00Z","granularity":7200`); got != head+`],"window_stats":{}}` {
		t.Errorf("no metrics: %s", got)
	}
	for rest, want := range map[string]string{
		`,"trigger_ref":"weave:///acme/support/object/m:*"`:  `"count":1`,
		`,"trigger_ref":"weave:///acme/support/object/m:v1"`: `"count":1`,
		`,"trigger_ref":"weave:///acme/support/object/m:v2"`: `"count":0`,
		`,"feedback_type":"other"`:                           `"count":0`,
		`,"feedback_type":"custom"`:                          `"count":5`,
	} {
		if got := stats(`,"end":"2026-03-05","granularity":86400,"metrics":[{"json_path":"s.x","aggregations":["count"]}]` + rest); !strings.Contains(got, want) {
			t.Errorf("%s: %s", rest, got)
		}
	}
	for hours, want := range map[int64]int64{1: 300, 2: 300, 3: 3600, 12: 3600, 13: 21600, 72: 21600, 73: 43200, 14 * 24: 43200, 14*24 + 1: 86400, 100 * 365 * 24: 315360} {
		if got := granularity(0, hours*3600_000); got != want {
			t.Errorf("%d h: %d s", hours, got)
		}
	}
	if got := granularity(1, 86400_000); got != 9 {
		t.Errorf("no more than 10000 buckets: %d s", got)
	}
	for _, rest := range []string{`,"end":"2026-03-03"`, `,"timezone":"Mars/Olympus"`} {
		var f *Refusal
		if _, err := s.DecodeStats([]byte(`{"project_id":"a/b","start":"2026-03-04"`+rest+`}`), false); !errors.As(err, &f) {
			t.Errorf("%s: %v", rest, err)
		}
	}
	for _, body := range []string{`{"project_id":"a/b"}`, `{"project_id":"a/b","start":"x"}`, `{"project_id":"a/b","start":"2026-03-04","metrics":[{"json_path":"a","aggregations":["mean"]}]}`,
		`{"project_id":"a/b","start":"2026-03-04","metrics":[{"json_path":"a","percentiles":[101]}]}`, `{"project_id":"a/b","start":"2026-03-04","metrics":[{"json_path":"a","value_type":"x"}]}`} {
		var f Invalid
		if _, err := s.DecodeStats([]byte(body), false); !errors.As(err, &f) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if got := stats(`,"granularity":9223372036854775807,"metrics":[{"json_path":"b","value_type":"categorical","aggregations":["count"]}]`); !strings.Contains(got, `"count_b":3`) {
		t.Error(got)
	}
	q, err := s.DecodeStats([]byte(`{"project_id":"acme/support","start":"2026-03-04","end":"2026-03-05","sample_limit":100}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.PayloadSchema(context.Background(), q); string(got) != `{"paths":[{"json_path":"b","value_type":"boolean"},{"json_path":"s.x","value_type":"categorical"}]}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// A clock that steps back does not take created_at with it (spec F-31).
func TestClock(t *testing.T) {
	s := newStore(t)
	at := time.UnixMilli(5000)
	s.now = func() time.Time { return at }
	add(t, s, nil)
	at = time.UnixMilli(1000)
	add(t, s, nil)
	fresh := New(s.db, s.cfg) // another process, as it were
	fresh.now = s.now
	add(t, fresh, nil)
	if got := ask(t, s, `{"project_id":"acme/support","fields":["created_at"]}`); strings.Count(got, "1970-01-01T00:00:05.000Z") != 3 {
		t.Error(got)
	}
}

// A record that is replaced gets a later time, even within a millisecond.
func TestReplacedLater(t *testing.T) {
	s := newStore(t)
	s.now = func() time.Time { return time.UnixMilli(5000) }
	const id = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	for i := range 3 {
		r, err := request(t, map[string]any{"id": id})
		if err != nil {
			t.Fatal(err)
		}
		r.Replaces = id
		answer, err := s.Replace(context.Background(), Author{User: "u"}, r, Once{})
		if want := fmt.Sprintf("1970-01-01T00:00:05.%03dZ", i); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s, %v, want %s", answer, err, want)
		}
	}
}

// Rule 2: integers of any size are compared as such.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1", "1.0", 0}, {"1e2", "100", 0}, {"9007199254740993", "9007199254740992", 1}, {"-1", "1", -1},
		{"123456789012345678901", "123456789012345678902", -1}, {"-123456789012345678901", "5", -1}, {"123456789012345678901", "9223372036854775807", 1},
		{"0.9", "1", -1}, {"1e400", "1e308", 1}, {"-0.0", "0", 0},
	} {
		a, okA := parseNumber(c.a)
		b, okB := parseNumber(c.b)
		if !okA || !okB || a.compare(&b) != c.want || b.compare(&a) != -c.want {
			t.Errorf("%s, %s: %d", c.a, c.b, a.compare(&b))
		}
	}
	for _, s := range []string{"", "x", "0x10", "1_000", "inf", "NaN", "1e", "--1"} {
		if _, ok := parseNumber(s); ok {
			t.Errorf("%q is a number", s)
		}
	}
}

// Retention: what is older goes, the rest stays, in this project alone.
func TestExpire(t *testing.T) {
	s := sample(t)
	n, err := s.Expire(context.Background(), "acme/support", time.Date(2026, 3, 4, 12, 15, 27, 412e6, time.UTC).UnixMilli())
	if n != 2 || err != nil || names(t, s, "") != "cdefghijklmnop" {
		t.Errorf("%d, %v: %s", n, err, names(t, s, ""))
	}
	var projects []string
	if err := s.Projects(func(p string) { projects = append(projects, p) }); err != nil || fmt.Sprint(projects) != "[acme/other acme/support]" {
		t.Errorf("%v, %v", projects, err)
	}
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		`{"$and":[{"$eq":[{"$getField":"id"},{"$literal":"x"}]},{"$gt":[{"$getField":"payload.v"},{"$literal":1e400}]}]}`,
		`{"$in":[{"$getField":"created_at"},[{"$literal":"2026-01-01"},{"$literal":5}]]}`,
		`{"$containsToken":{"input":{"$convert":{"input":{"$getField":"payload.deep.list.1"},"to":"string"}},"substr":{"$literal":"İ"},"case_insensitive":true}}`,
		`{"$lte":[{"$getField":"created_at"},{"$literal":-1e308}]}`,
		`{"$not":[{"$convert":{"input":{"$literal":1e308},"to":"int"}}]}`,
	} {
		f.Add(s, "payload.v")
	}
	s := sample(f)
	f.Fuzz(func(t *testing.T, where, field string) {
		name := string(jsontext.AppendString(nil, field))
		for _, body := range []string{
			`{"project_id":"acme/support","query":{"$expr":` + where + `}}`,
			`{"project_id":"acme/support","fields":[` + name + `],"sort_by":[{"field":` + name + `,"direction":"desc"}],"query":{"$expr":` + where + `}}`,
			where,
		} {
			q, err := s.DecodeQuery([]byte(body), ForQuery, false)
			if err != nil {
				continue
			}
			var with, without bytes.Buffer
			if err := s.Query(context.Background(), q, &with); err != nil || !json.Valid(with.Bytes()) {
				t.Fatalf("%s: %v: %s", body, err, with.String())
			}
			if q.where == nil {
				continue
			}
			// The same, with no index to go by.
			q.where = &expr{op: "$not", args: []*expr{{op: "$not", args: []*expr{q.where}}}}
			if err := s.Query(context.Background(), q, &without); err != nil || with.String() != without.String() {
				t.Fatalf("%s: an index changes the answer:\n%s\n%s", body, with.String(), without.String())
			}
		}
	})
}
