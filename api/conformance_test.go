package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The tests of the files conformance_*_test.go carry the numbers of those rows
// of docs/interface/chat-completions.md, section 21, that can be decided from a body alone.
// Where a row says 200, no check of this package may refuse the body.

const base = `{"model":"M","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"temperature":0`

// with adds fields, as raw JSON, to the base request. They come last, so they win.

func with(fields string) string { return base + "," + fields + "}" }

// messages is the base request with other messages.

func messages(list string) string { return with(`"messages":` + list) }

// check runs all stages of this package in their order.

func check(body string) (*ChatRequest, *Error) { return checkBytes([]byte(body)) }

func checkBytes(body []byte) (*ChatRequest, *Error) {
	r, err := DecodeChat(body, DefaultLimits())
	if err == nil {
		err = r.CheckPrompt()
	}
	if err == nil {
		err = r.CheckSampling()
	}
	return r, err
}

// accept and refuse take the fields that change.

func accept(t *testing.T, fields string) *ChatRequest {
	t.Helper()
	return acceptBody(t, with(fields))
}

func acceptBody(t *testing.T, body string) *ChatRequest {
	t.Helper()
	r, err := check(body)
	if err != nil {
		t.Errorf("%s: %v, want it accepted", body, err)
		return &ChatRequest{}
	}
	return r
}

// want names the error: the row of the error table, and a text it mentions.

type want struct {
	row  string
	text string
}

func refuse(t *testing.T, fields string, w want) *Error {
	t.Helper()
	return refuseBody(t, with(fields), w)
}

func refuseBody(t *testing.T, body string, w want) *Error {
	t.Helper()
	_, err := check(body)
	if err == nil {
		t.Errorf("%s: accepted, want %s", body, w.row)
		return &Error{}
	}
	row := rowOf(t, w.row)
	param := ""
	if err.Param != nil {
		param = *err.Param
	}
	if err.Status != row.Status || err.Code != row.Status || err.Type != row.Type || param != row.Param {
		t.Errorf("%s: %d %s param %q, want %d %s param %q (%s)", body, err.Status, err.Type, param, row.Status, row.Type, row.Param, err.Message)
	}
	if !strings.Contains(err.Message, w.text) {
		t.Errorf("%s: message %q does not mention %q", body, err.Message, w.text)
	}
	keys := map[string]map[string]any{}
	if e := json.Unmarshal(err.AppendJSON(nil), &keys); e != nil || len(keys["error"]) != 4 {
		t.Errorf("%s: body %s, want the four keys", body, err.AppendJSON(nil))
	}
	return err
}

func rowOf(t *testing.T, name string) ErrorRow {
	t.Helper()
	for _, row := range ErrorTable() {
		if row.Name == name {
			return row
		}
	}
	t.Fatalf("no row %q in the error table", name)
	return ErrorRow{}
}

func TestC1C2ContentType(t *testing.T) {
	for in, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "APPLICATION/JSON": true, "application/json;": true,
		"": false, "text/plain": false, "text/json": false, "application/json ;x": false, "application/vnd.api+json": false, " application/json": false, "application/j\u017fon": false,
	} {
		if IsJSON(in) != ok {
			t.Errorf("IsJSON(%q) = %v", in, !ok)
		}
	}
	if e := ErrContentType(); e.Status != 400 || e.Type != TypeBadBody || !strings.Contains(e.Message, "application/json") {
		t.Errorf("%+v", e)
	}
}

func TestC3Malformed(t *testing.T) {
	e := refuseBody(t, `{"model":`, want{"syntax", "JSON decode error"})
	if !strings.Contains(e.Message, "line 1 column 10 (byte 9)") {
		t.Errorf("no position in %q", e.Message)
	}
	refuseBody(t, "", want{"syntax", "JSON decode error"})
	refuseBody(t, base+"}}", want{"syntax", "extra data"})
	refuseBody(t, "{\"model\":\"M\",\n \"messages\": x}", want{"syntax", "line 2 column 14 (byte 27)"})
	refuseBody(t, messages("[{\"role\":\"user\",\"content\":\"\xff\"}]"), want{"syntax", "UTF-8"})
	deep := strings.Repeat("[", 250) + strings.Repeat("]", 250)
	refuse(t, `"unknown":`+deep, want{"syntax", "200 levels"})
}

func TestC4TopLevel(t *testing.T) {
	for _, body := range []string{`[]`, `"x"`, `1`, `null`, `true`} {
		refuseBody(t, body, want{"schema", "must be an object"})
	}
}

func TestC5NaN(t *testing.T) {
	for _, x := range []string{"NaN", "Infinity", "-Infinity"} {
		refuse(t, `"temperature":`+x, want{"syntax", "NaN"})
	}
	for _, x := range []string{`"NaN"`, `"inf"`, "1e400"} {
		refuse(t, `"temperature":`+x, want{"schema", "temperature"})
	}
}

func TestC6Unauthorized(t *testing.T) {
	if UnauthorizedBody != `{"error":"Unauthorized"}` {
		t.Error(UnauthorizedBody)
	}
}

func TestC10C11ModelComesAfterSchema(t *testing.T) {
	e := ErrModelNotFound("nope")
	if e.Status != 404 || e.Type != "NotFoundError" || *e.Param != "model" || e.Code != 404 || e.Message != "The model `nope` does not exist." {
		t.Errorf("%+v", e)
	}
	// A body that the schema refuses never gets as far as the model...
	if _, err := DecodeChat([]byte(with(`"model":"nope","temperature":"abc"`)), DefaultLimits()); err == nil {
		t.Error("accepted")
	}
	// ... and what belongs to later stages waits until the model has been looked up.
	for _, late := range []string{`"temperature":-1`, `"tool_choice":"required"`, `"messages":[]`, `"messages":[{"role":"user","content":[{"type":"file"}]}]`, `"n":0`, `"n":99999`, `"logit_bias":{"x":1}`, `"structured_outputs":{"choice":[]}`} {
		r, err := DecodeChat([]byte(with(`"model":"nope",`+late)), DefaultLimits())
		if err != nil {
			t.Errorf("%s: %v before the model was looked up", late, err)
		} else if r.CheckPrompt() == nil && r.CheckSampling() == nil {
			t.Errorf("%s: accepted", late)
		}
	}
}

func TestC12BaseModel(t *testing.T) {
	for _, body := range []string{with(`"model":null`), with(`"model":""`), `{"messages":[{"role":"user","content":"Hi"}]}`} {
		if r := acceptBody(t, body); r.Model != "" {
			t.Errorf("%s: model %q", body, r.Model)
		}
	}
}

func TestC13UnknownFields(t *testing.T) {
	accept(t, `"no_such_field":{"a":[1]},"service_tier":"auto","metadata":{},"store":true`)
	r := acceptBody(t, messages(`[{"role":"user","content":"Hi","no_such_field":{"a":[1]}}]`))
	if !reflect.DeepEqual(r.Messages, acceptBody(t, base+"}").Messages) {
		t.Errorf("an unknown field changed the message: %+v", r.Messages)
	}
	if r := accept(t, `"stream":true,"stream_options":{"no_such_field":1,"include_usage":true}`); !r.IncludeUsage {
		t.Error("usage is off")
	}
	accept(t, `"structured_outputs":{"regex":"a","x":1},"repetition_detection":{"x":[]},"tools":[{"function":{"name":"f","x":1},"y":2}]`)
}

func TestC14Messages(t *testing.T) {
	refuseBody(t, `{"model":"M"}`, want{"schema", "messages: field required"})
	for _, v := range []string{"null", `"x"`, "{}", `["x"]`, `[1]`, `[{"content":"Hi"}]`, `[{"role":5,"content":"Hi"}]`, `[{"role":"user","content":5}]`} {
		refuse(t, `"messages":`+v, want{"schema", "messages"})
	}
}

func TestC15NoMessages(t *testing.T) {
	refuse(t, `"messages":[]`, want{"messages", "at least one message"})
}

func TestC18Integers(t *testing.T) {
	refuse(t, `"max_tokens":5.5`, want{"schema", "max_tokens"})
	refuse(t, `"max_tokens":"5"`, want{"schema", "max_tokens"})
	for _, v := range []string{"5", "5.0", "50e-1"} {
		if r := accept(t, `"max_tokens":`+v); *r.MaxTokens != 5 {
			t.Errorf("%s: %d", v, *r.MaxTokens)
		}
	}
	if r := accept(t, `"max_tokens":true`); *r.MaxTokens != 1 {
		t.Error("true is 1")
	}
}

func TestC19Method(t *testing.T) {
	if MethodNotAllowedBody != `{"detail":"Method Not Allowed"}` || NotFoundBody != `{"detail":"Not Found"}` {
		t.Error("the framework form")
	}
}

func TestC20C21RequestID(t *testing.T) {
	if r := accept(t, `"request_id":"def"`); *r.RequestID != "def" || ChatID(*r.RequestID) != "chatcmpl-def" {
		t.Error(*r.RequestID)
	}
	if r := accept(t, `"request_id":""`); r.RequestID == nil || ChatID(*r.RequestID) != "chatcmpl-" {
		t.Error("an empty id is an id")
	}
	if r := accept(t, `"user":"u"`); r.RequestID != nil || r.User != "u" {
		t.Error("absent id, given user")
	}
	refuse(t, `"request_id":5`, want{"schema", "request_id"})
	refuse(t, `"user":5`, want{"schema", "user"})
}
