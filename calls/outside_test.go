package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"weir/feedback"
	"weir/internal/jsontext"
)

// outsideTest is a store with three calls whose inputs refer to objects, and what is outside.
func outsideTest(t *testing.T) (*Store, Outside) {
	s := newStore(t)
	var batch []string
	for id, inputs := range map[string]string{
		"a": `{"model":"weave:///p/q/object/m:1","list":["weave:///p/q/object/m:2","x"]}`,
		"b": `{"model":"weave:///p/q/object/m:2","list":[]}`,
		"c": `{"model":"weave:///p/q/object/gone:1"}`,
	} {
		batch = append(batch, `{"project_id":"p/q","id":"`+id+`","trace_id":"t","op_name":"op","started_at":"2026-03-01T10:00:00Z","ended_at":"2026-03-01T10:00:00Z","attributes":{},"inputs":`+inputs+`,"output":"weave:///p/q/object/m:1","summary":{}}`)
	}
	r, err := DecodeRequest(context.Background(), []byte(`{"batch":[`+strings.Join(batch, ",")+`]}`), FormComplete, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(context.Background(), Author{}, r); err != nil {
		t.Fatal(err)
	}
	return s, Outside{
		Object: func(ref string) (jsontext.Value, error) {
			return map[string]jsontext.Value{
				"weave:///p/q/object/m:1":   jsontext.Value(`{"name":"one","n":1,"inner":"weave:///p/q/object/i:1"}`),
				"weave:///p/q/object/m:2":   jsontext.Value(`{"name":"two","n":2,"inner":"weave:///p/q/object/i:2"}`),
				"weave:///p/q/object/i:1":   jsontext.Value(`{"deep":"x"}`),
				"weave:///p/q/object/i:2":   jsontext.Value(`"text"`),
				"weave:///p/q/object/nul:1": jsontext.Value(`null`),
			}[ref], nil
		},
		Feedback: func(id string) (jsontext.Value, error) {
			return map[string]jsontext.Value{"a": jsontext.Value(`[
				{"feedback_type":"wandb.annotation.score","created_at":"2026-03-01T10:00:01Z","payload":{"value":1},"runnable_ref":null,"trigger_ref":null},
				{"feedback_type":"wandb.annotation.score","created_at":"2026-03-01T10:00:03Z","payload":{"value":3},"runnable_ref":"r","trigger_ref":null},
				{"feedback_type":"wandb.annotation.score","created_at":"2026-03-01T10:00:02Z","payload":{"value":2},"runnable_ref":null,"trigger_ref":"t"},
				{"feedback_type":"other","created_at":"2026-03-01T10:00:09Z","payload":{"value":9}}]`),
				"b": jsontext.Value(`[{"feedback_type":"wandb.annotation.score","created_at":"2026-03-01T10:00:01Z","payload":{"value":7,"a.b":1}}]`),
			}[id], nil
		},
	}
}

// askOutside returns the ids that a query finds, in their order, and the answer.
func askOutside(t *testing.T, s *Store, out Outside, members string) (ids string, answer string) {
	t.Helper()
	q, err := DecodeQuery(context.Background(), []byte(`{"project_id":"p/q"`+members+`}`), false)
	if err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	var b bytes.Buffer
	if err := s.Stream(context.Background(), q, &b, out); err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	for line := range strings.Lines(b.String()) {
		var c struct{ ID string }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%s: %v: %s", members, err, line)
		}
		ids += c.ID
	}
	return ids, b.String()
}

func where(op, field, literal string) string {
	return `,"query":{"$expr":{"` + op + `":[{"$getField":"` + field + `"},{"$literal":` + literal + `}]}}`
}

// TestFeedbackFields: a query may ask for what the newest feedback of a type says of a call
// (docs/interface/weave.md, W-186).
func TestFeedbackFields(t *testing.T) {
	s, out := outsideTest(t)
	score := `feedback.[wandb.annotation.score].payload.value`
	for members, want := range map[string]string{
		where("$eq", score, "3"):                                              "a",
		where("$eq", score, "2"):                                              "",
		where("$gt", score, "0"):                                              "ab",
		where("$eq", `feedback.[*].payload.value`, "9"):                       "a",
		where("$eq", `feedback.[wandb.annotation.score].runnable_ref`, `"r"`): "a",
		where("$eq", `feedback.[wandb.annotation.score].trigger_ref`, `"t"`):  "a",
		where("$eq", `feedback.[wandb.annotation.score].payload.a\\.b`, "1"):  "b",
		where("$eq", `feedback.[none].payload.value`, "1"):                    "",
		`,"sort_by":[{"field":"` + score + `","direction":"desc"}]`:           "bac",
		`,"sort_by":[{"field":"` + score + `","direction":"asc"}]`:            "abc",
	} {
		if got, _ := askOutside(t, s, out, members); got != want {
			t.Errorf("%s: %s, want %s", members, got, want)
		}
	}
	q, err := DecodeQuery(context.Background(), []byte(`{"project_id":"p/q"`+where("$gt", score, "0")+`}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := s.Count(context.Background(), q, out); err != nil || !strings.HasPrefix(string(answer), `{"count":2,`) {
		t.Errorf("%s, %v", answer, err)
	}
	for _, field := range []string{"feedback.x", "feedback.[x]", "feedback.[].payload", "feedback.[x].creator", "feedback.[x].runnable_ref.y", "feedback"} {
		_, err := DecodeQuery(context.Background(), []byte(`{"project_id":"p/q"`+where("$eq", field, "1")+`}`), false)
		var refusal *feedback.Refusal
		if !errors.As(err, &refusal) || refusal.Status != 400 {
			t.Errorf("%s: %v", field, err)
		}
	}
	bad := errors.New("damaged")
	out.Feedback = func(string) (jsontext.Value, error) { return nil, bad }
	not := `,"query":{"$expr":{"$not":[{"$gt":[{"$getField":"` + score + `"},{"$literal":0}]}]}}`
	order := `,"offset":5,"sort_by":[{"field":"` + score + `","direction":"asc"}]`
	for _, members := range []string{where("$gt", score, "0"), not, not + `,"filter":{"call_ids":["a","b"]}`, order, `,"include_feedback":true`} {
		q, err := DecodeQuery(context.Background(), []byte(`{"project_id":"p/q"`+members+`}`), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stream(context.Background(), q, &bytes.Buffer{}, out); !errors.Is(err, bad) {
			t.Errorf("%s, with feedback that cannot be read: %v", members, err)
		}
		if !strings.Contains(members, "query") {
			continue
		}
		if answer, err := s.Count(context.Background(), q, out); !errors.Is(err, bad) {
			t.Errorf("%s, counted with feedback that cannot be read: %s, %v", members, answer, err)
		}
	}
}

// TestExpand: references in columns are followed, to filter, to sort and in answers
// (docs/interface/weave.md, W-187).
func TestExpand(t *testing.T) {
	s, out := outsideTest(t)
	for _, c := range []struct{ members, ids, has string }{
		{where("$eq", "inputs.model.name", `"two"`), "", ""},
		{`,"expand_columns":["inputs.model"]` + where("$eq", "inputs.model.name", `"two"`), "b", `"inputs":{"model":{"name":"two","n":2,"inner":"weave:///p/q/object/i:2","_ref":"weave:///p/q/object/m:2"},"list":[]}`},
		{`,"expand_columns":["inputs_dump.model.inner","inputs.model"]` + where("$eq", "inputs.model.inner.deep", `"x"`), "a", `"inner":{"deep":"x","_ref":"weave:///p/q/object/i:1"},"_ref":"weave:///p/q/object/m:1"}`},
		{`,"expand_columns":["inputs.model"]` + where("$eq", "inputs.model.inner", `"weave:///p/q/object/i:1"`), "a", `"inner":"weave:///p/q/object/i:1","_ref"`},
		{`,"expand_columns":["inputs.model.inner"]` + where("$eq", "inputs.model.inner.deep", `"x"`), "", ""},
		{`,"expand_columns":["inputs.list.0"]` + where("$eq", "inputs.list.0.n", "2"), "a", `"list":[{"name":"two","n":2,"inner":"weave:///p/q/object/i:2","_ref":"weave:///p/q/object/m:2"},"x"]`},
		{`,"expand_columns":["inputs.model"],"sort_by":[{"field":"inputs.model.n","direction":"desc"}]`, "bac", `"model":"weave:///p/q/object/gone:1"`},
		{`,"expand_columns":["output"]` + where("$eq", "output.n", "1"), "abc", `"output":{"name":"one","n":1,"inner":"weave:///p/q/object/i:1","_ref":"weave:///p/q/object/m:1"}`},
		{`,"expand_columns":["output"],"return_expanded_column_values":false` + where("$eq", "output.n", "1"), "abc", `"output":"weave:///p/q/object/m:1"`},
		{`,"expand_columns":["inputs.model.inner","inputs.model"],"filter":{"call_ids":["b"]}`, "b", `"inner":"text","_ref"`},
		{`,"expand_columns":["inputs.model"],"columns":["output"]`, "abc", `"inputs":{}`},
	} {
		ids, answer := askOutside(t, s, out, c.members)
		if ids != c.ids || !strings.Contains(answer, c.has) {
			t.Errorf("%s: %s, want %s:\n%s", c.members, ids, c.ids, answer)
		}
	}
	for _, bad := range []string{`["op_name"]`, `["nothing.x"]`, `[5]`, `"inputs"`} {
		if _, err := DecodeQuery(context.Background(), []byte(`{"project_id":"p/q","expand_columns":`+bad+`}`), false); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	// What following references adds to a call is bounded, and the rest stays as it is.
	asked := 0
	large := Outside{Object: func(string) (jsontext.Value, error) {
		asked++
		return jsontext.Value(`"` + strings.Repeat("x", maxExpanded-20<<10) + `"`), nil
	}}
	if _, answer := askOutside(t, s, large, `,"filter":{"call_ids":["a"]},"expand_columns":["output","inputs.model"]`); len(answer) > maxExpanded+4<<10 || !strings.Contains(answer, "object/m:1") || asked != 1 {
		t.Errorf("%d bytes, asked %d times", len(answer), asked)
	}
}
