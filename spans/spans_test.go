package spans

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/internal/pace"
)

// The ids of the spans of tests.
const (
	traceHex = "345a615575ce696265160a694e2dd983"
	spanHex  = "917b0879dba75786"
)

// spanJSON is a request of JSON with one span, with further members.
func spanJSON(members string) string {
	return `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"` + traceHex + `","spanId":"` + spanHex + `","name":"op","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000"` + members + `}]}]}]}`
}

// attr is an attribute with a text, in JSON.
func attr(key, value string) string {
	return `{"key":` + string(jsontext.AppendString(nil, key)) + `,"value":{"stringValue":` + string(jsontext.AppendString(nil, value)) + `}}`
}

func decode(t *testing.T, body string) *Export {
	t.Helper()
	e, err := Decode(context.Background(), []byte(body), JSON, "acme/demo")
	if err != nil {
		t.Fatalf("%v: %.300s", err, body)
	}
	return e
}

func list(values ...string) string { return `,"attributes":[` + strings.Join(values, ",") + `]` }

// TestTree: keys with dots become objects and arrays, and nothing gets lost where a key has a
// value and others go on below it (docs/interface/weave.md, W-403).
func TestTree(t *testing.T) {
	deep := strings.Repeat("a.", maxPath+3) + "a"
	for _, c := range []struct{ keys, want string }{
		{"", `{}`},
		{"a b", `{"a":"0","b":"1"}`},
		{"a.b.c a.b.d", `{"a":{"b":{"c":"0","d":"1"}}}`},
		{"a.0 a.1", `{"a":["0","1"]}`},
		{"a.1 a.0", `{"a":["1","0"]}`},
		{"a.0 a.2", `{"a":{"0":"0","2":"1"}}`},
		{"a.00", `{"a":{"00":"0"}}`},
		{"a.0.x a.1.y a.-1", `{"a":{"-1":"2","0":{"x":"0"},"1":{"y":"1"}}}`},
		{"a a.b a.b.c", `{"a":"0","a.b":"1","a.b.c":"2"}`},
		{"a.b.c a", `{"a":"1","a.b.c":"0"}`},
		{"x.a x.a.b x.c.d", `{"x":{"a":"0","a.b":"1","c":{"d":"2"}}}`},
		{"a-b a a.b a.c", `{"a":"1","a-b":"0","a.b":"2","a.c":"3"}`},
		{"a a", `{"a":"1"}`},
		{"a..b .c", `{"":{"c":"1"},"a":{"":{"b":"0"}}}`},
		{deep, strings.Repeat(`{"a":`, maxPath) + `{"` + strings.Repeat("a.", 3) + `a":"0"}` + strings.Repeat("}", maxPath)},
	} {
		var attrs []attribute
		for i, key := range strings.Fields(c.keys) {
			attrs = append(attrs, attribute{key, jsontext.Value(strconv.Quote(strconv.Itoa(i)))})
		}
		if got := string(sorted(attrs).tree(nil)); got != c.want {
			t.Errorf("%.80s: %s, want %s", c.keys, got, c.want)
		}
	}
}

// TestIDs: ids are hexadecimal in OTLP's JSON, and those in base64 are understood
// (docs/interface/weave.md, W-402).
func TestIDs(t *testing.T) {
	for _, c := range []struct{ trace, span, parent, problem string }{
		{traceHex, spanHex, "", ""},
		{strings.ToUpper(traceHex), strings.ToUpper(spanHex), "", ""},
		{"NFphVXXOaWJlFgppTi3Zgw==", "kXsIedunV4Y=", "", ""},
		{traceHex[2:], spanHex, "", "traceId"},
		{traceHex, spanHex + "00", "", "spanId"},
		{strings.Repeat("0", 32), spanHex, "", "traceId"},
		{traceHex, strings.Repeat("0", 16), "", "spanId"},
		{traceHex, "", "", "spanId"},
		{traceHex, spanHex, strings.Repeat("ab", 300), "parentSpanId"},
	} {
		body := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"` + c.trace + `","spanId":"` + c.span + `","parentSpanId":"` + c.parent + `","name":"op"}]}]}]}`
		e := decode(t, body)
		switch {
		case c.problem == "" && (len(e.Calls) != 1 || e.Calls[0].ID != spanHex || e.Calls[0].TraceID != traceHex):
			t.Errorf("%+v: %+v", c, e)
		case c.problem != "" && (len(e.Calls) != 0 || e.Rejected != 1 || !strings.Contains(string(e.Answer(JSON)), c.problem)):
			t.Errorf("%+v: %+v, %s", c, e, e.Answer(JSON))
		}
	}
}

// TestProject: the project of a span is that of the request, or of its resource, wherever that
// stands (docs/interface/weave.md, W-401).
func TestProject(t *testing.T) {
	spans := `"scopeSpans":[{"spans":[{"traceId":"` + traceHex + `","spanId":"` + spanHex + `"}]}]`
	resource := `"resource":{"attributes":[` + attr("wandb.entity", "acme") + `,` + attr("wandb.project", "other") + `]}`
	for _, c := range []struct{ body, project, want string }{
		{resource + "," + spans, "", "acme/other"},
		{spans + "," + resource, "", "acme/other"},
		{spans + "," + resource, "acme/demo", "acme/demo"},
		{spans, "acme/demo", "acme/demo"},
		{spans, "", ""},
	} {
		e, err := Decode(context.Background(), []byte(`{"resourceSpans":[{`+c.body+`}]}`), JSON, c.project)
		var refusal *form.Refusal
		switch {
		case c.want == "" && (!errors.As(err, &refusal) || refusal.Status != 400):
			t.Errorf("%s: %v", c.body, err)
		case c.want != "" && (err != nil || !reflect.DeepEqual(e.Projects(), []string{c.want})):
			t.Errorf("%s: %v, %v, want %s", c.body, err, e, c.want)
		}
	}
}

// TestBeyondTheReference: what Weave's server does not do (docs/interface/weave.md, W-403 and
// W-410 to W-415).
func TestBeyondTheReference(t *testing.T) {
	event := func(name string, attributes ...string) string {
		return `{"name":"` + name + `","timeUnixNano":"5"` + list(attributes...) + `}`
	}
	for _, c := range []struct {
		members string
		column  string
		want    string
	}{
		{list(attr("gen_ai.tool.call.arguments", `{"x":1}`), attr("gen_ai.tool.call.result", "2")), "inputs", `{"gen_ai.tool.call.arguments":{"x":1}}`},
		{list(attr("gen_ai.tool.call.result", "2")), "output", `{"gen_ai.tool.call.result":"2"}`},
		{`,"events":[` + event("gen_ai.user.message", attr("content", "hi")) + `,` + event("gen_ai.tool.message", attr("content", "t"), attr("role", "r")) + `]`, "inputs",
			`{"gen_ai.input.messages":[{"role":"user","content":"hi"},{"content":"t","role":"r"}]}`},
		{`,"events":[` + event("gen_ai.choice", attr("message", `{"content":"a"}`)) + `]`, "output", `{"gen_ai.output.messages":[{"role":"assistant","message":{"content":"a"}}]}`},
		{`,"events":[` + event("gen_ai.content.prompt", attr("gen_ai.prompt", `[{"role":"user"}]`)) + `]`, "inputs", `{"gen_ai.prompt":[{"role":"user"}]}`},
		{`,"events":[` + event("gen_ai.content.completion", attr("gen_ai.completion", "c")) + `]`, "output", `{"gen_ai.completion":"c"}`},
		{`,"events":[` + event("gen_ai.client.inference.operation.details", attr("gen_ai.input.messages", `[1]`), attr("gen_ai.output.messages", `[2]`)) + `]`, "output", `{"gen_ai.output.messages":[2]}`},
		{list(attr("gen_ai.usage.input_tokens", "0"), attr("gen_ai.usage.output_tokens", "0")), "summary", `{"usage":{"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}}`},
		{list(attr("input.value", "x")), "summary", ``},
		{list(attr("0", "x"), attr("1", "y")), "attributes", `{"attributes":["x","y"]}`},
		{list(attr("k", "v")), "attributes", `{"k":"v"}`},
	} {
		e := decode(t, spanJSON(c.members))
		got := map[string]jsontext.Value{"inputs": e.Calls[0].Inputs, "output": e.Calls[0].Output, "summary": e.Calls[0].Summary, "attributes": e.Calls[0].Attributes}[c.column]
		if string(got) != c.want {
			t.Errorf("%s: %s is %s, want %s", c.members, c.column, got, c.want)
		}
	}
}

// TestExceptions: a span whose status is ERROR is a call that failed, also without a message
// (docs/interface/weave.md, W-415).
func TestExceptions(t *testing.T) {
	exception := `,"events":[{"name":"exception","attributes":[` + attr("exception.type", "E") + `,` + attr("exception.message", "m") + `]},{"name":"later"}]`
	for members, want := range map[string]string{
		"":                                   "",
		exception:                            "",
		`,"status":{"code":1,"message":"m"}`: "",
		`,"status":{"code":2,"message":"m"}` + exception: "m",
		`,"status":{"code":2}` + exception:               "E: m",
		`,"status":{"code":"STATUS_CODE_ERROR"},"events":[{"name":"exception","attributes":[` + attr("exception.type", "E") + `]}]`: "E",
		`,"status":{"code":2}`: "The status of the span is ERROR",
	} {
		if got := decode(t, spanJSON(members)).Calls[0].Exception; got != want {
			t.Errorf("%s: %q, want %q", members, got, want)
		}
	}
}

// TestLinkedCall: a span that begins while a call of Weave's client runs is below that call
// (docs/interface/weave.md, W-413).
func TestLinkedCall(t *testing.T) {
	link := list(attr("weave.parent_call.id", "call-1"), attr("weave.parent_call.trace_id", "trace-1"))
	c := decode(t, spanJSON(link)).Calls[0]
	if c.ParentID != "call-1" || c.TraceID != "trace-1" || c.OtelDump.Member("context").Member("trace_id").Text() != traceHex {
		t.Errorf("%+v", c)
	}
	c = decode(t, spanJSON(link+`,"parentSpanId":"00000000000000aa"`)).Calls[0]
	if c.ParentID != "00000000000000aa" || c.TraceID != "trace-1" {
		t.Errorf("%+v", c)
	}
	c = decode(t, spanJSON(list(attr("weave.parent_call.id", "call-1")))).Calls[0]
	if c.ParentID != "" || c.TraceID != traceHex {
		t.Errorf("half a link: %+v", c)
	}
}

// TestNames: names that are too long for a call are shortened, and stay different.
func TestNames(t *testing.T) {
	long := strings.Repeat("é", 600)
	name := func(n string) string {
		return decode(t, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"`+traceHex+`","spanId":"`+spanHex+`","name":"`+n+`"}]}]}]}`).Calls[0].OpName
	}
	a, b := name(long+"a"), name(long+"b")
	if len(a) > 1024 || len(a) < 1000 || a == b || !strings.HasPrefix(long, a[:1000]) {
		t.Errorf("%d bytes: %s, %s", len(a), a[1000:], b[1000:])
	}
	if e := decode(t, spanJSON(list(attr("gen_ai.conversation.id", long)))); e.Rejected != 1 {
		t.Errorf("a conversation of %d bytes: %+v", len(long), e)
	}
}

// field appends a field of the type bytes in protobuf's encoding.
func wire(number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
}

func request(spans ...[]byte) []byte {
	var all []byte
	for _, s := range spans {
		all = append(all, wire(2, s)...)
	}
	return wire(1, wire(2, all))
}

func ids(n byte) []byte {
	trace, _ := hex.DecodeString(traceHex)
	return append(wire(1, trace), wire(2, []byte{1, 2, 3, 4, 5, 6, 7, n})...)
}

// TestValues: values that JSON has no words for, and empty ones (docs/interface/weave.md, W-403).
func TestValues(t *testing.T) {
	double := func(x float64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), math.Float64bits(x))
	}
	for _, c := range []struct {
		value []byte
		want  string
	}{
		{double(math.NaN()), `"NaN"`},
		{double(math.Inf(-1)), `"-Infinity"`},
		{double(0.1), `0.1`},
		{nil, `null`},
		{wire(1, []byte("a\xffb")), "\"a\uFFFDb\""},
		{wire(7, []byte{0, 1}), `"AAE="`},
		{wire(5, nil), `[]`},
		{wire(5, append(wire(1, wire(1, []byte("x"))), wire(1, nil)...)), `["x",null]`},
		{wire(6, wire(1, append(wire(1, []byte("k")), wire(2, wire(1, []byte("v")))...))), `{"k":"v"}`},
		{protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), math.MaxUint64), `-1`},
	} {
		s := append(ids(1), wire(9, append(wire(1, []byte("k")), wire(2, c.value)...))...)
		e, err := Decode(context.Background(), request(s), Protobuf, "p")
		if err != nil || len(e.Calls) != 1 {
			t.Errorf("%s: %v", c.want, err)
			continue
		}
		if got := string(e.Calls[0].OtelDump.Member("attributes").Member("k")); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestMalformed: bodies that are not OTLP are refused as a whole, and never decoded without
// bounds.
func TestMalformed(t *testing.T) {
	deep := []byte("x")
	deep = wire(1, deep)
	for range maxDepth + 2 {
		deep = wire(5, wire(1, deep))
	}
	for name, c := range map[string]struct {
		enc  Encoding
		body []byte
	}{
		"cut":                     {Protobuf, request(ids(1))[:20]},
		"an endless varint":       {Protobuf, []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		"another type":            {Protobuf, []byte{0x08, 0x01}},
		"text":                    {Protobuf, []byte(`{"resourceSpans":[]}`)},
		"too deep":                {Protobuf, request(append(ids(1), wire(9, append(wire(1, []byte("k")), wire(2, deep)...))...))},
		"an array":                {JSON, []byte(`[]`)},
		"an id as a number":       {JSON, []byte(strings.Replace(spanJSON(""), `"`+spanHex+`"`, "5", 1))},
		"an id that is none":      {JSON, []byte(strings.Replace(spanJSON(""), spanHex, "zz", 1))},
		"a time in words":         {JSON, []byte(strings.Replace(spanJSON(""), "1000000000", "now", 1))},
		"a number that is a text": {JSON, []byte(spanJSON(`,"attributes":[{"key":"k","value":{"intValue":"x"}}]`))},
		"a key that is none":      {JSON, []byte(spanJSON(`,"attributes":[{"key":5}]`))},
		"spans that are none":     {JSON, []byte(`{"resourceSpans":[5]}`)},
	} {
		e, err := Decode(context.Background(), c.body, c.enc, "p")
		var refusal *form.Refusal
		if !errors.As(err, &refusal) || refusal.Status != 400 {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
	}
	var invalid form.Invalid
	if _, err := Decode(context.Background(), []byte(`{"resourceSpans":`), JSON, "p"); !errors.As(err, &invalid) {
		t.Errorf("JSON that is cut: %v", err)
	}
}

// TestLimits: the spans of a request and the calls that are made of it are bounded: each span
// gets a copy of its resource (docs/interface/weave.md, W-404).
func TestLimits(t *testing.T) {
	resource := wire(1, wire(1, append(wire(1, []byte("k")), wire(2, wire(1, make([]byte, 1<<20)))...)))
	spans := func(n int) (all []byte) {
		for i := range n {
			s := append(ids(byte(i)), wire(5, []byte(strconv.Itoa(i)))...)
			all = append(all, wire(2, s)...)
		}
		return all
	}
	for name, c := range map[string]struct {
		body   []byte
		status int
	}{
		"spans":       {wire(1, wire(2, spans(maxSpans+1))), 413},
		"a resource":  {wire(1, append(resource, wire(2, spans(100))...)), 413},
		"many enough": {wire(1, wire(2, spans(maxSpans))), 0},
	} {
		_, err := Decode(context.Background(), c.body, Protobuf, "p")
		var refusal *form.Refusal
		if errors.As(err, &refusal) != (c.status > 0) || refusal != nil && refusal.Status != c.status {
			t.Errorf("%s: %v", name, err)
		}
	}
	huge := append(ids(1), wire(9, append(wire(1, []byte("k")), wire(2, wire(1, make([]byte, 6<<20)))...))...)
	e, err := Decode(context.Background(), request(huge, ids(2)), Protobuf, "p")
	if err != nil || len(e.Calls) != 1 || e.Rejected != 1 || !strings.Contains(string(e.Answer(JSON)), "16 MiB") {
		t.Errorf("a span that is too large: %v, %s", err, e.Answer(JSON))
	}
}

// TestReserved: what is held was reserved before, and work ends with its context.
func TestReserved(t *testing.T) {
	var all [][]byte
	for i := range 200 {
		s := ids(byte(i))
		for k := range 50 {
			s = append(s, wire(9, append(wire(1, []byte("key."+strconv.Itoa(k))), wire(2, wire(1, []byte(strings.Repeat("v", 100))))...))...)
		}
		all = append(all, s)
	}
	body := request(all...)
	sum := int64(0)
	ctx := memory.With(context.Background(), func(n int64) error { sum += n; return nil })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e, err := Decode(ctx, body, Protobuf, "p")
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	if err != nil || len(e.Calls) != 200 || held > sum {
		t.Errorf("%v, %d bytes held, %d reserved", err, held, sum)
	}
	small := ids(1)
	for range 50_000 {
		small = append(small, wire(9, append(wire(1, []byte("k")), wire(2, nil)...))...)
	}
	sum = 0
	if _, err := Decode(ctx, request(small), Protobuf, "p"); err != nil || sum < 9_000_000 {
		t.Errorf("small attributes: %v, %d bytes reserved", err, sum) // they take about 120 bytes each
	}
	full := errors.New("full")
	if _, err := Decode(memory.With(context.Background(), func(int64) error { return full }), body, Protobuf, "p"); !errors.Is(err, full) {
		t.Errorf("without memory: %v", err)
	}
	gone := errors.New("gone")
	if _, err := Decode(pace.With(context.Background(), func() error { return gone }), body, Protobuf, "p"); !errors.Is(err, gone) {
		t.Errorf("when it has to end: %v", err)
	}
	runtime.KeepAlive(e)
}

// TestAnswer: the answer says which spans were rejected, in both encodings
// (docs/interface/weave.md, W-405).
func TestAnswer(t *testing.T) {
	var bad [][]byte
	for range maxReasons + 5 {
		bad = append(bad, wire(5, []byte("op")))
	}
	e, err := Decode(context.Background(), request(append(bad, ids(1))...), Protobuf, "p")
	if err != nil || e.Rejected != maxReasons+5 || len(e.Calls) != 1 {
		t.Fatalf("%v, %+v", err, e)
	}
	var answer struct {
		PartialSuccess struct{ RejectedSpans, ErrorMessage string }
	}
	if err := json.Unmarshal(e.Answer(JSON), &answer); err != nil {
		t.Fatal(err)
	}
	text := answer.PartialSuccess.ErrorMessage
	if answer.PartialSuccess.RejectedSpans != strconv.Itoa(maxReasons+5) || strings.Count(text, "traceId") != maxReasons || !strings.HasSuffix(text, "; ...") {
		t.Errorf("%s", e.Answer(JSON))
	}
	want := wire(1, append(protowire.AppendVarint([]byte{0x08}, maxReasons+5), wire(2, []byte(text))...))
	if got := e.Answer(Protobuf); string(got) != string(want) {
		t.Errorf("%q, want %q", got, want)
	}
	e = decode(t, `{}`)
	if got := string(e.Answer(JSON)); got != "{}" || len(e.Answer(Protobuf)) != 0 {
		t.Errorf("%s, %q", got, e.Answer(Protobuf))
	}
}

// FuzzDecode: no body makes it panic, or calls that are not JSON.
func FuzzDecode(f *testing.F) {
	f.Add(request(ids(1)), false)
	f.Add([]byte(spanJSON(list(attr("a.b", "[1]"), attr("a", "x"), attr("gen_ai.prompt.0.content", "{")))), true)
	f.Add(request(append(ids(1), wire(9, append(wire(1, []byte("a.0")), wire(2, wire(6, wire(1, wire(1, []byte("k")))))...))...)), false)
	f.Fuzz(func(t *testing.T, body []byte, inJSON bool) {
		enc := Protobuf
		if inJSON {
			enc = JSON
		}
		e, err := Decode(context.Background(), body, enc, "acme/demo")
		if err != nil {
			return
		}
		for _, c := range e.Calls {
			for _, v := range []jsontext.Value{c.Attributes, c.Inputs, c.Output, c.Summary, c.OtelDump} {
				if v == nil {
					continue
				}
				if compact, err := jsontext.Compact(v, 300); err != nil || string(compact) != string(v) {
					t.Fatalf("%v: %s", err, v)
				}
			}
		}
		e.Answer(enc)
	})
}
