package feedback

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/store"
	"weir/store/storetest"
)

// newStore opens a store in a temporary folder.
func newStore(t testing.TB) *Store {
	t.Helper()
	db, err := store.Open(storetest.Config(t.TempDir()))
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

// add writes a record as the user u; see request for the fields.
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
	q, err := s.DecodeQuery(context.Background(), []byte(body), ForQuery, false)
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

// letters returns the values of payload.k of the records that a query on sample finds. rest
// is what follows the fields in the body.
func letters(t testing.TB, s *Store, rest string) string {
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

// sample has a project with a record for every kind of value. Their payload.k is a to p.
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
		if i == 2 {
			fields["weave_ref"], fields["trace_ref"], fields["scorer_tags"] = "weave:///acme/support/call/1", nil, []string{"slow", "Rude"}
			fields["scorer_ratings"], fields["scorer_tag_reasons"] = map[string]any{"tone": 0.5, "v1.2": 1}, map[string]any{"slow": "took long"}
		}
		add(t, s, fields)
	}
	add(t, s, map[string]any{"payload": map[string]any{"k": "p"}, "trace_ref": "weave:///acme/support/call/other"})
	add(t, s, map[string]any{"payload": map[string]any{"k": "?"}, "project_id": "acme/other"})
	return s
}

// request decodes a request with these fields; those that are required have defaults.
func request(t testing.TB, fields map[string]any) (*Request, error) {
	t.Helper()
	m := map[string]any{"project_id": "acme/support", "trace_ref": "weave:///acme/support/call/1", "feedback_type": "custom", "payload": map[string]any{}}
	for k, v := range fields {
		if m[k] = v; v == nil && k == "trace_ref" {
			delete(m, k) // the request has Weave's name
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return DecodeRequest(context.Background(), b, Create)
}

// refusal returns why a request is refused; "" if it is accepted.
func refusal(t testing.TB, fields map[string]any) string {
	t.Helper()
	r, err := request(t, fields)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	if f := cfg.check(r); f != nil {
		if f.Status != 400 {
			t.Errorf("status %d", f.Status)
		}
		return f.Reason
	}
	return ""
}
