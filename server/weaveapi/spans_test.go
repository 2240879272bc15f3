package weaveapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"weir/server/servertest"
)

// exportedSpan is a request of OTLP in both encodings, whose span has the id given, and is of
// acme/demo by its resource.
func exportedSpan(t *testing.T) (wire, text, id string) {
	t.Helper()
	f, err := os.Open("../../spans/testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Protobuf string
		JSON     json.RawMessage
		Call     struct{ ID string }
	}
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(r.Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), string(r.JSON), r.Call.ID
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSpans: exporters of OpenTelemetry send spans, which are calls from then on
// (docs/interface/weave.md, W-400 to W-405).
func TestSpans(t *testing.T) {
	s := newCallServer(t)
	wire, text, id := exportedSpan(t)
	basic := servertest.Basic("api", "write")
	protobuf, inJSON := "Content-Type: application/x-protobuf", "Content-Type: application/json"
	for _, c := range []struct {
		path, body string
		headers    []string
		project    string
		answer     string
	}{
		{"/otel/v1/traces", wire, []string{basic, protobuf}, "acme/demo", ""},
		{"/agents/otel/v1/traces", wire, []string{basic, protobuf, "project_id: acme/agents"}, "acme/agents", ""},
		{"/otel/v1/traces", text, []string{basic, inJSON, "project_id: acme/json"}, "acme/json", "{}"},
		{"/otel/v1/traces", zipped(t, wire), []string{basic, protobuf, "Content-Encoding: gzip", "project_id: acme/zip"}, "acme/zip", ""},
		{"/otel/v1/traces", wire, []string{"wandb-api-key: write", protobuf, "project_id: acme/key"}, "acme/key", ""},
		{"/otel/v1/traces", wire, []string{basic, protobuf}, "acme/demo", ""}, // sent again
	} {
		status, answer, header := s.Get("POST", c.path, c.body, c.headers...)
		want := strings.TrimPrefix(c.headers[1], "Content-Type: ")
		if status != 200 || answer != c.answer || header.Get("Content-Type") != want {
			t.Errorf("%s %v: %d %q %s", c.path, c.headers, status, answer, header.Get("Content-Type"))
		}
		status, lines := s.post("/calls/stream_query", `{"project_id":"`+c.project+`"}`)
		var call struct {
			ID, Source, WbUserID string
			Attributes           struct {
				Model    string
				OtelSpan struct{ Name string } `json:"otel_span"`
			}
			Inputs map[string]any
		}
		if err := json.Unmarshal([]byte(lines), &call); status != 200 || err != nil || call.ID != id || call.Source != "" && call.Source != "opentelemetry" {
			t.Errorf("%s: %d %v %s", c.project, status, err, lines)
		}
		if call.Attributes.Model != "m-1" || call.Attributes.OtelSpan.Name == "" || call.Inputs["gen_ai.input.messages"] == nil {
			t.Errorf("%s: %s", c.project, lines)
		}
	}
}

// TestSpanErrors: what is refused, and that nothing is stored then (docs/interface/weave.md,
// W-400, W-401, W-405).
func TestSpanErrors(t *testing.T) {
	s := newCallServer(t)
	wire, text, _ := exportedSpan(t)
	basic, protobuf := servertest.Basic("api", "write"), "Content-Type: application/x-protobuf"
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"no key":                 {wire, []string{protobuf}, 401},
		"another key":            {wire, []string{protobuf, "wandb-api-key: nothing"}, 401},
		"no right to write":      {wire, []string{servertest.Basic("api", "read"), protobuf}, 403},
		"another project":        {wire, []string{servertest.Basic("api", "lab"), protobuf}, 403},
		"another in the header":  {wire, []string{basic, protobuf, "project_id: lab/x"}, 403},
		"an encoding":            {wire, []string{basic, protobuf, "Content-Encoding: deflate"}, 415},
		"not compressed":         {wire, []string{basic, protobuf, "Content-Encoding: gzip"}, 400},
		"expands too much":       {zipped(t, strings.Repeat(" ", 20<<20)), []string{basic, "Content-Type: application/json", "Content-Encoding: gzip"}, 413},
		"JSON that is cut":       {text[:len(text)-9], []string{basic, "Content-Type: application/json"}, 422},
		"no type":                {wire, []string{basic}, 415},
		"another type":           {wire, []string{basic, "Content-Type: text/plain"}, 415},
		"JSON that is protobuf":  {wire, []string{basic, "Content-Type: application/json"}, 400},
		"protobuf that is JSON":  {text, []string{basic, protobuf}, 400},
		"a body that is cut":     {wire[:len(wire)/2], []string{basic, protobuf}, 400},
		"a project without name": {strings.Replace(text, "wandb.project", "other", 1), []string{basic, "Content-Type: application/json"}, 400},
	} {
		headers := c.headers
		if name == "no type" {
			headers = append(headers, "Content-Type: ")
		}
		if status, answer, _ := s.Get("POST", "/otel/v1/traces", c.body, headers...); status != c.status {
			t.Errorf("%s: %d %s, want %d", name, status, answer, c.status)
		}
	}
	if status, _, _ := s.Get("GET", "/otel/v1/traces", "", basic); status != 405 {
		t.Errorf("GET: %d", status)
	}
	if _, lines := s.post("/calls/stream_query", `{"project_id":"acme/demo"}`); lines != "" {
		t.Errorf("calls: %s", lines)
	}
	// A span that cannot be a call does not keep the others out.
	two := strings.Replace(text, `"spans": [`, `"spans": [{"name": "bad"}, `, 1)
	status, answer, _ := s.Get("POST", "/otel/v1/traces", two, basic, "Content-Type: application/json")
	if status != 200 || !strings.Contains(answer, `"rejectedSpans":"1"`) {
		t.Errorf("%d %s", status, answer)
	}
	if _, lines := s.post("/calls/stream_query", `{"project_id":"acme/demo"}`); strings.Count(lines, "\n") != 1 {
		t.Errorf("calls: %s", lines)
	}
}
