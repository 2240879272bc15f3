package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/form"
	"weir/internal/jsontext"
)

const (
	startText    = `{"project_id":"p/q","id":"a","op_name":"f","trace_id":"t","started_at":"2026-01-02T03:04:05.678901Z","attributes":{},"inputs":{}}`
	endText      = `{"project_id":"p/q","id":"a","ended_at":"2026-01-02T03:04:06Z","summary":{}}`
	completeText = `{"project_id":"p/q","id":"a","op_name":"f","trace_id":"t","started_at":"2026-01-02T03:04:05Z","ended_at":"2026-01-02T03:04:06Z","attributes":{},"inputs":{},"summary":{}}`
)

// TestForm: what is wrong with the form of a request is listed with its place
// (docs/interface/weave.md, W-106, W-107).
func TestForm(t *testing.T) {
	without := func(text, name string) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, name)
		b, _ := json.Marshal(m)
		return string(b)
	}
	with := func(text, members string) string { return strings.TrimSuffix(text, "}") + "," + members + "}" }
	long := strings.Repeat("x", 4097)
	for _, c := range []struct {
		form Form
		body string
		want string // the first issue, the status and reason of a refusal, or ""
	}{
		{FormStart, ``, "missing body"},
		{FormStart, `{`, "json_invalid body 1"},
		{FormStart, "{\"a\":\"\xff\"}", "400 The body is not valid UTF-8"},
		{FormStart, `[]`, "model_attributes_type body"},
		{FormStart, `{}`, "missing body start"},
		{FormStart, `{"start":[]}`, "model_attributes_type body start"},
		{FormEnd, `{"end":{}}`, "missing body end project_id"},
		{FormUpsert, `{"batch":{}}`, "list_type body batch"},
		{FormUpsert, `{"batch":[1]}`, "model_attributes_type body batch 0"},
		{FormUpsert, `{"batch":[{}]}`, "missing body batch 0 req"},
		{FormUpsert, `{"batch":[{"mode":"end","req":{"start":` + startText + `}}]}`, "literal_error body batch 0 mode"},
		{FormUpsert, `{"batch":[{"mode":"middle","req":{"start":` + startText + `}}]}`, "literal_error body batch 0 mode"},
		{FormUpsert, `{"batch":[{"req":{"start":` + startText + `}},{"mode":"end","req":{"end":` + endText + `}}]}`, ""},
		{FormStart, `{"start":` + without(startText, "project_id") + `}`, "missing body start project_id"},
		{FormStart, `{"start":` + without(startText, "op_name") + `}`, "missing body start op_name"},
		{FormStart, `{"start":` + without(startText, "started_at") + `}`, "missing body start started_at"},
		{FormStart, `{"start":` + without(startText, "inputs") + `}`, "missing body start inputs"},
		{FormStart, `{"start":` + without(startText, "attributes") + `}`, "missing body start attributes"},
		{FormStart, `{"start":` + without(startText, "id") + `}`, ""},
		{FormStart, `{"start":` + without(startText, "trace_id") + `}`, ""},
		{FormEnd, `{"end":` + without(endText, "id") + `}`, "missing body end id"},
		{FormEnd, `{"end":` + without(endText, "ended_at") + `}`, "missing body end ended_at"},
		{FormEnd, `{"end":` + without(endText, "summary") + `}`, "missing body end summary"},
		{FormComplete, `{"batch":[` + without(completeText, "trace_id") + `]}`, "missing body batch 0 trace_id"},
		{FormComplete, `{"batch":[` + completeText + "," + without(completeText, "ended_at") + `]}`, "missing body batch 1 ended_at"},
		{FormStart, `{"start":` + with(startText, `"inputs":[]`) + `}`, "dict_type body start inputs"},
		{FormStart, `{"start":` + with(startText, `"op_name":1`) + `}`, "string_type body start op_name"},
		{FormStart, `{"start":` + with(startText, `"wb_run_step":1.5`) + `}`, "int_type body start wb_run_step"},
		{FormStart, `{"start":` + with(startText, `"started_at":"yesterday"`) + `}`, "datetime_parsing body start started_at"},
		{FormStart, `{"start":` + with(startText, `"parent_id":null,"wb_run_step":7,"display_name":null,"otel_dump":null`) + `}`, ""},
		{FormStart, `{"start":` + with(startText, `"project_id":""`) + `}`, "string_too_short body start project_id"},
		{FormStart, `{"start":` + with(startText, `"id":"`+long[:257]+`"`) + `}`, "string_too_long body start id"},
		{FormStart, `{"start":` + with(startText, `"op_name":"`+long[:1025]+`"`) + `}`, "string_too_long body start op_name"},
		{FormStart, `{"start":` + with(startText, `"thread_id":"`+long[:257]+`"`) + `}`, "string_too_long body start thread_id"},
		{FormStart, `{"start":` + with(startText, `"display_name":"`+long+`"`) + `}`, "string_too_long body start display_name"},
		{FormEnd, `{"end":` + with(endText, `"output":{"deep":`+strings.Repeat("[", 290)+strings.Repeat("]", 290)+`}`) + `}`, ""},
		{FormEnd, `{"end":` + with(endText, `"output":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)) + `}`, "json_invalid body"},
		{FormEnd, `{"end":` + with(endText, `"output":"`+strings.Repeat("x", MaxRecord)+`"`) + `}`, "413 A call may have at most 16 MiB"},
		{FormComplete, `{"batch":[` + strings.Repeat(completeText+",", MaxBatch) + completeText + `]}`, "413 A batch may have at most 10000 calls"},
		{FormStart, `{"start":` + with(startText, `"later":{"a":1},"wb_user_id":"mallory","deleted_at":"x","storage_size_bytes":"x"`) + `}`, ""},
	} {
		_, err := DecodeRequest(context.Background(), []byte(c.body), c.form, "")
		got := ""
		var invalid form.Invalid
		var refusal *form.Refusal
		switch {
		case errors.As(err, &invalid):
			got = strings.Join(append([]string{invalid[0].Type}, invalid[0].Loc...), " ")
		case errors.As(err, &refusal):
			got = fmt.Sprint(refusal.Status, " ", refusal.Reason)
		case err != nil:
			t.Errorf("%.200s: %v", c.body, err)
		}
		if got != c.want && !(c.want == "json_invalid body" && strings.HasPrefix(got, c.want)) {
			t.Errorf("%.300s: %q, want %q", c.body, got, c.want)
		}
	}
}

// TestFidelity: values come back as they were sent, without the white space between tokens,
// and members that this version does not know too (docs/interface/weave.md, W-107, W-120).
func TestFidelity(t *testing.T) {
	s := newStore(t)
	const odd = `{"z":9007199254740993,"a":1.0,"big":123456789012345678901234567890,"e":1E+2,"s":"\ud83d \u00e9 \/ 😀","n":null,"a":2}`
	spaced := strings.ReplaceAll(odd, ",", " ,\n\t")
	write(t, s, FormStart, `{"start":`+strings.Replace(startText, `"inputs":{}`, `"inputs":`+spaced+`,"attributes":`+spaced+`,"later":`+spaced, 1)+`}`)
	write(t, s, FormEnd, `{"end":`+strings.Replace(endText, `"summary":{}`, `"summary":{"usage":`+spaced+`},"output":`+spaced+`,"is_eval":true,"started_at":"1999-01-01","trace_id":"other"`, 1)+`}`)
	rec, err := s.Get("p/q", "a")
	if err != nil || rec == nil {
		t.Fatal(rec, err)
	}
	got := string(rec.AppendJSON(nil, Sizes{7, -1}))
	for _, want := range []string{
		`"inputs":` + odd, `"attributes":` + odd, `"output":` + odd, `"summary":{"usage":` + odd + `,"weave":{"status":"success","latency_ms":321,"trace_name":"f"}}`,
		`"later":` + odd + `,"is_eval":true}`, `"storage_size_bytes":7,`, `"trace_id":"t"`, `"started_at":"2026-01-02T03:04:05.678901Z"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no\n%s", got, want)
		}
	}
	if err := jsontext.Scan([]byte(got), 20); err != nil {
		t.Error(err)
	}
}

// TestDerived: what the server says of a call in its summary (docs/interface/weave.md,
// W-121, W-122).
func TestDerived(t *testing.T) {
	for _, c := range []struct{ members, want string }{
		{``, `{"weave":{"status":"success","latency_ms":1000,"trace_name":"f"}}`},
		{`,"exception":""`, `{"weave":{"status":"success","latency_ms":1000,"trace_name":"f"}}`},
		{`,"exception":"boom"`, `{"weave":{"status":"error","latency_ms":1000,"trace_name":"f"}}`},
		{`,"display_name":"d"`, `{"weave":{"status":"success","latency_ms":1000,"display_name":"d"}}`},
		{`,"display_name":""`, `{"weave":{"status":"success","latency_ms":1000,"trace_name":"f"}}`},
		{`,"op_name":"weave:///p/q/op/ask.me:abc"`, `{"weave":{"status":"success","latency_ms":1000,"trace_name":"ask.me"}}`},
		{`,"ended_at":"2026-01-02T03:04:04.9995Z"`, `{"weave":{"status":"success","latency_ms":-1,"trace_name":"f"}}`},
		{
			`,"summary":{"status_counts":{"error":1,"success":2},"weave":{"status":["x"],"trace_name":[],"latency_ms":"x","display_name":1,"costs":{"m":1}}}`,
			`{"status_counts":{"error":1,"success":2},"weave":{"costs":{"m":1},"status":"descendant_error","latency_ms":1000,"trace_name":"f"}}`,
		},
		{`,"summary":{"status_counts":{"error":0}}`, `{"status_counts":{"error":0},"weave":{"status":"success","latency_ms":1000,"trace_name":"f"}}`},
		{`,"summary":{"weave":7}`, `{"weave":{"status":"success","latency_ms":1000,"trace_name":"f"}}`},
	} {
		s := newStore(t)
		write(t, s, FormComplete, `{"batch":[`+strings.TrimSuffix(completeText, "}")+c.members+`}]}`)
		rec, err := s.Get("p/q", "a")
		if err != nil || rec == nil {
			t.Fatal(rec, err)
		}
		if got := string(rec.AppendSummary(nil)); got != c.want {
			t.Errorf("%s: %s, want %s", c.members, got, c.want)
		}
	}
}

// TestTimes: the forms of times (docs/interface/weave.md, W-108).
func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		`"2026-03-01T10:00:00Z"`:               "2026-03-01T10:00:00.000000Z",
		`"2026-03-01T10:00:00.5"`:              "2026-03-01T10:00:00.500000Z",
		`"2026-03-01 10:00:00.1234567+02:00"`:  "2026-03-01T08:00:00.123456Z",
		`"2026-03-01T10:00:00.123456789-0130"`: "2026-03-01T11:30:00.123456Z",
		`"2026-03-01T10:00+01"`:                "2026-03-01T09:00:00.000000Z",
		`"2026-03-01"`:                         "2026-03-01T00:00:00.000000Z",
		`"1969-12-31T23:59:59.999999Z"`:        "1969-12-31T23:59:59.999999Z",
		`"0001-01-01T00:00:00Z"`:               "0001-01-01T00:00:00.000000Z",
		`"9999-12-31T23:59:59.999999Z"`:        "9999-12-31T23:59:59.999999Z",
		`1767323045`:                           "2026-01-02T03:04:05.000000Z",
		`1767323045.25`:                        "2026-01-02T03:04:05.250000Z",
		`1767323045250`:                        "2026-01-02T03:04:05.250000Z",
		`"2026-02-29T00:00:00Z"`:               "",
		`"2026-13-01T00:00:00Z"`:               "",
		`"2026-03-01T24:00:00Z"`:               "",
		`"2026-03-01T10:00:00+25:00"`:          "",
		`"2026-03-01T10:00:00."`:               "",
		`"2026-03-01T10:00:00Zx"`:              "",
		`"2026-3-1"`:                           "",
		`"0000-01-01T00:00:00Z"`:               "",
		`"0001-01-01T00:00:00+01:00"`:          "",
		`""`:                                   "",
		`null`:                                 "",
		`1e300`:                                "",
		`true`:                                 "",
	} {
		us, ok := parseTime(jsontext.Value(text))
		got := ""
		if ok {
			got = string(AppendTime(nil, us))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if at := TimeOf(SortableTime(us)); at != us {
			t.Errorf("%d became %d", us, at)
		}
	}
}

// FuzzDecode: no body panics, and whatever is accepted is stored and answered as JSON that is
// the same after another round.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"start":` + startText + `}`, `{"end":` + endText + `}`, `{"batch":[` + completeText + `]}`,
		`{"batch":[{"mode":"start","req":{"start":` + startText + `}},{"mode":"end","req":{"end":` + endText + `}}]}`,
		`{"start":{"\u0069d":"\ud800","summary":{"weave":{"a":[]}},"x":1,"x":2}}`,
	} {
		for form := range 4 {
			f.Add([]byte(body), form)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, form int) {
		r, err := DecodeRequest(context.Background(), body, Form(uint(form)%4), "p/q")
		if err != nil {
			return
		}
		for _, c := range r.Changes {
			rec, _ := c.apply(nil)
			row := rec.append(nil)
			again, err := ViewRecord(row)
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if string(again.append(nil)) != string(row) {
				t.Fatalf("%q: another record", body)
			}
			again.entries(nil)
			if answer := again.AppendJSON(nil, NoSizes); jsontext.Scan(answer, maxDepth+10) != nil {
				t.Fatalf("%q: the answer %q is not JSON", body, answer)
			}
		}
	})
}

// FuzzRecord: no bytes panic, and what is taken for a record is encoded to the same bytes.
func FuzzRecord(f *testing.F) {
	r, err := DecodeRequest(context.Background(), []byte(`{"batch":[`+completeText+`]}`), FormComplete, "")
	if err != nil {
		f.Fatal(err)
	}
	row := r.Changes[0].rec.append(nil)
	f.Add(row)
	f.Add(row[:len(row)-1])
	f.Fuzz(func(t *testing.T, row []byte) {
		if rec, err := ViewRecord(row); err == nil && string(rec.append(nil)) != string(row) {
			t.Fatalf("%q", row)
		}
	})
}
