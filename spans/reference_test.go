package spans

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"weir/calls"
)

// reference is a line of testdata/reference.jsonl, which tools/weavespans writes.
type reference struct {
	Name     string          `json:"name"`
	Protobuf string          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
	Call     map[string]any  `json:"call"`
}

func references(t *testing.T) (list []reference) {
	t.Helper()
	f, err := os.Open("testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var r reference
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if len(list) < 100 {
		t.Fatalf("%d references", len(list))
	}
	return list
}

// columns are the columns of a call that Weave's server sets, too, as JSON decodes them.
func columns(t *testing.T, c *calls.Complete) map[string]any {
	t.Helper()
	decode := func(text []byte) any {
		if text == nil {
			return map[string]any{}
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return v
	}
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	number := func(v []byte) any {
		if v == nil {
			return nil
		}
		return decode(v)
	}
	usage := decode(c.Summary).(map[string]any)["usage"]
	if usage == nil {
		usage = map[string]any{}
	}
	m := map[string]any{
		"id": c.ID, "trace_id": c.TraceID, "parent_id": text(c.ParentID), "project_id": c.Project, "op_name": c.OpName, "display_name": text(c.DisplayName),
		"thread_id": text(c.ThreadID), "turn_id": text(c.TurnID), "exception": text(c.Exception), "attributes": decode(c.Attributes), "inputs": decode(c.Inputs),
		"output": decode(c.Output), "usage": usage, "wb_run_step": number(c.RunStep), "wb_run_step_end": number(c.RunStepEnd),
	}
	dump := decode(c.OtelDump).(map[string]any)
	delete(dump, "scope") // which Weave's server drops
	m["otel_dump"] = dump
	return m
}

// adapted makes what Weave's server says comparable: weir leaves out what is null of the use of
// tokens, and calls without any have no entry of it. Its times have a zone and all six digits, and
// objects with the keys 0, 1, 2 are arrays everywhere, also in the span.
func adapted(call map[string]any) map[string]any {
	usage := map[string]any{}
	for model, v := range call["summary"].(map[string]any)["usage"].(map[string]any) {
		tokens := map[string]any{}
		for k, n := range v.(map[string]any) {
			if n != nil {
				tokens[k] = n
			}
		}
		if len(tokens) > 0 {
			usage[model] = tokens
		}
	}
	call["usage"] = usage
	dump := arrays(call["otel_dump"]).(map[string]any)
	for _, name := range []string{"start_time", "end_time"} {
		at, _ := time.Parse("2006-01-02T15:04:05.999999", dump[name].(string))
		dump[name] = at.Format("2006-01-02T15:04:05.000000Z")
	}
	for _, l := range dump["links"].([]any) {
		delete(l.(map[string]any), "datetime")
	}
	call["otel_dump"] = dump
	call["attributes"] = arrays(call["attributes"])
	return call
}

func arrays(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = arrays(v[i])
		}
	case map[string]any:
		list := make([]any, len(v))
		for k := range v {
			v[k] = arrays(v[k])
		}
		for i := range list {
			x, ok := v[strconv.Itoa(i)]
			if !ok {
				return v
			}
			list[i] = x
		}
		if len(v) > 0 {
			return list
		}
	}
	return v
}

// TestReference: calls are made of spans as by Weave's own server, in both encodings
// (docs/interface/weave.md, W-410 to W-414).
func TestReference(t *testing.T) {
	for _, r := range references(t) {
		wire, err := base64.StdEncoding.DecodeString(r.Protobuf)
		if err != nil {
			t.Fatal(err)
		}
		want := adapted(r.Call)
		for enc, body := range map[Encoding][]byte{Protobuf: wire, JSON: r.JSON} {
			e, err := Decode(context.Background(), body, enc, "")
			if err != nil || len(e.Calls) != 1 {
				t.Errorf("%s, encoding %d: %v, %+v", r.Name, enc, err, e)
				continue
			}
			for name, got := range columns(t, &e.Calls[0]) {
				if !reflect.DeepEqual(got, want[name]) {
					a, _ := json.Marshal(got)
					b, _ := json.Marshal(want[name])
					t.Errorf("%s, encoding %d, %s:\n%s, want\n%s", r.Name, enc, name, a, b)
				}
			}
		}
	}
}
