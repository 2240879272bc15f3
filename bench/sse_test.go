package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readEvents returns all events that the reader finds in a stream.
func readEvents(src io.Reader) (events []string, err error) {
	var r eventReader
	r.reset()
	for {
		err := r.fill(src)
		for {
			data, ok := r.next()
			if !ok {
				break
			}
			events = append(events, string(data))
		}
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
}

// referenceEvents reads a whole stream in the simplest way (the HTML Standard, 9.2.6).
func referenceEvents(stream string) (events []string) {
	var data []string
	lines := strings.Split(stream, "\n")
	for _, line := range lines[:len(lines)-1] { // the last piece has no line feed, so it is not complete
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			if data != nil {
				events = append(events, strings.Join(data, "\n"))
			}
			data = nil
		} else if v, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(v, " "))
		}
	}
	return events
}

var streams = map[string][]string{
	"data: {\"a\":1}\n\ndata: [DONE]\n\n":         {`{"a":1}`, "[DONE]"},
	"data:a\r\n\r\ndata:  b\r\n\r\n":              {"a", " b"},
	": ping\n\n\n\n: ping\ndata: a\n\n\n\n":       {"a"},
	"event: x\nid: 1\ndata: a\nretry: 2\n\n":      {"a"},
	"data: a\ndata: b\ndata:\n\ndata: c\n\n":      {"a\nb\n", "c"},
	"data:\n\n":                                   {""},
	"data: cut":                                   nil,
	"data: cut\n":                                 nil,
	"data: a\n\ndata: cut\n":                      {"a"},
	"datas: a\n\ndata : b\n\n data: c\n\nDATA: d": nil,
	"": nil,
}

func TestEventReader(t *testing.T) {
	for stream, want := range streams {
		for name, src := range map[string]io.Reader{
			"at once":    strings.NewReader(stream),
			"by bytes":   iotest.OneByteReader(strings.NewReader(stream)),
			"by halves":  iotest.HalfReader(strings.NewReader(stream)),
			"with error": iotest.DataErrReader(strings.NewReader(stream)),
		} {
			got, err := readEvents(src)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q %s: %q, %v; want %q", stream, name, got, err, want)
			}
		}
		if reference := referenceEvents(stream); !slices.Equal(reference, want) {
			t.Errorf("%q: the reference finds %q", stream, reference)
		}
	}
}

// cutReader reads in pieces of random size.
type cutReader struct {
	text string
	rnd  *rand.Rand
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p, c.text[:1+c.rnd.IntN(min(len(c.text), 3000))])
	c.text = c.text[n:]
	return n, nil
}

// TestEventReaderBuffer: events are read correctly while the buffer grows and moves.
func TestEventReaderBuffer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for range 300 {
		for range 1 + rnd.IntN(2) {
			b.WriteString("data: " + strings.Repeat(string(rune('a'+rnd.IntN(26))), rnd.IntN(40000)) + "\n")
		}
		b.WriteString("\n")
	}
	want := referenceEvents(b.String())
	for seed := range uint64(3) {
		got, err := readEvents(&cutReader{b.String(), rand.New(rand.NewPCG(seed, 2))})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("seed %d: %d events, want %d, %v", seed, len(got), len(want), err)
		}
	}
}

// endless is a stream that repeats a text for ever.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) { // a Read that returned nothing and no error would be repeated for ever
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestEventReaderLimits(t *testing.T) {
	for name, text := range map[string]endless{"a line": "x", "lines": ": ping\n", "data": "data: x\n"} {
		if events, err := readEvents(text); err != errEventSize || len(events) > 0 {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
	}
	var r eventReader
	r.reset()
	r.total = maxStream - 100
	var err error
	for err == nil {
		if err = r.fill(endless("\n\n")); err == nil {
			r.next()
		}
	}
	if err != errStreamSize {
		t.Error(err)
	}
}

func FuzzEventReader(f *testing.F) {
	for stream := range streams {
		f.Add([]byte(stream), uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		want := referenceEvents(string(stream))
		got, err := readEvents(&cutReader{string(stream), rand.New(rand.NewPCG(seed, 0))})
		if errors.Is(err, errEventSize) {
			return
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", stream, got, err, want)
		}
	})
}

const contentChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795273042,"model":"weir-tiny","choices":[{"index":0,"delta":{"content":" a\"b\\"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`

func TestParseEvent(t *testing.T) {
	for _, c := range []struct {
		data string
		want string // choices text usage prompt completion failure
	}{
		{contentChunk, `true " a\"b\\" false 0 0 `},
		{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, `true "" false 0 0 `},
		{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`, `true  false 0 0 `},
		{`{"choices":[{"text":"x","logprobs":{"content":["]}"]}}]}`, `true "x" false 0 0 `},
		{`{"choices":[{"delta":{"content":null,"reasoning":"x"}},{"delta":{"content":"second"}}]}`, `true  false 0 0 `},
		{`{"choices":[ ],"usage":{"prompt_tokens":15,"total_tokens":18,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":7}}}`, `false  true 15 3 `},
		{` { "usage" : { "completion_tokens" : 3 } , "choices" : [ { "delta" : { "content" : "y" } } ] } `, `true "y" true 0 3 `},
		{`{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e3}}`, `false  true 0 0 `},
		{`{"choices":[],"usage":{"prompt_tokens":9999999999,"completion_tokens":99999999999999999999}}`, `false  true 0 0 `},
		{`{"error":{"message":"no"}}`, `false  false 0 0 {"message":"no"}`},
		{`{"error":null,"choices":null}`, `false  false 0 0 `},
		{`{}`, `false  false 0 0 `},
	} {
		var e event
		if !e.parse([]byte(c.data)) {
			t.Errorf("%s: refused", c.data)
		}
		if got := e.String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.data, got, c.want)
		}
	}
	for _, bad := range []string{"", "x", "[]", `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":"\"}`, `{"choices":[`, `{"choices":[1`,
		`{"choices":[{}`, `{"choices":[{},`, `{"choices":[{"delta":{`, `{"usage":{"prompt_tokens":`, `{"error":`, `{} x`, `{}{}`, `{1:2}`, `{"a" 1}`, `{"a":[1,2}`, `"a"`} {
		var e event
		if e.parse([]byte(bad)) && json.Valid([]byte(bad)) != true && bad != `{"a":[1,2}` { // brackets are counted, not matched
			t.Errorf("%s: accepted", bad)
		}
	}
}

func (e *event) String() string {
	b, _ := json.Marshal([]any{e.choices, string(e.text), e.usage, e.prompt, e.completion, string(e.failure)})
	var v []any
	_ = json.Unmarshal(b, &v)
	var s []string
	for _, x := range v {
		switch x := x.(type) {
		case string:
			s = append(s, x)
		default:
			y, _ := json.Marshal(x)
			s = append(s, string(y))
		}
	}
	return strings.Join(s, " ")
}

// FuzzParseEvent: nothing panics, and in valid JSON the parser finds the same as the
// standard library.
func FuzzParseEvent(f *testing.F) {
	for _, s := range []string{contentChunk, `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `{"error":{"message":"a"}}`, `{"choices":[{"text":"\\\""}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e event
		ok := e.parse(data)
		if bytes.Contains(data, []byte(`\u`)) { // a key could be written with escapes, which the parser does not decode
			return
		}
		var top map[string]json.RawMessage
		if json.Unmarshal(data, &top) != nil || top == nil {
			if json.Valid(data) && ok {
				t.Errorf("%q is no object", data)
			}
			return
		}
		if !ok {
			t.Fatalf("%q: refused", data)
		}
		checkEvent(t, &e, top)
	})
}

// checkEvent compares an event with the fields that the standard library found.
func checkEvent(t *testing.T, e *event, top map[string]json.RawMessage) {
	t.Helper()
	var list []json.RawMessage
	_ = json.Unmarshal(top["choices"], &list)
	if e.choices != (len(list) > 0) {
		t.Errorf("%q: choices %v", top, e.choices)
	}
	if failure := top["error"]; string(failure) != "null" && string(failure) != string(e.failure) {
		t.Errorf("%q: error %q", top, e.failure)
	}
	var usage map[string]json.RawMessage
	_ = json.Unmarshal(top["usage"], &usage)
	var n int
	if json.Unmarshal(usage["completion_tokens"], &n) == nil && n >= 0 && n <= maxTokens && n != e.completion {
		t.Errorf("%q: %d tokens", top, e.completion)
	}
	if e.text != nil {
		var s string
		if json.Unmarshal(e.text, &s) != nil || string(unquoted(nil, e.text)) != s && bytes.IndexByte(e.text, '\\') >= 0 {
			t.Errorf("%q: text %q", top, e.text)
		}
	}
}

func TestExplain(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"too  long\n","code":400}}`: "too long",
		`{"error":"Unauthorized"}`:                       "Unauthorized",
		`{"detail":"Not Found"}`:                         "Not Found",
		`{"other":1}`:                                    `{"other":1}`,
		"<html>\n\x1b[31mBad\x00Gateway":                 "<html> [31mBad Gateway",
		"":                                               "",
		strings.Repeat("é", 150):                         strings.Repeat("é", 100) + "…",
		"x" + strings.Repeat("é", 150):                   "x" + strings.Repeat("é", 99) + "…",
	} {
		if got := explain([]byte(body)); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// TestEventsAllocateNothing: reading and parsing an event does not allocate.
func TestEventsAllocateNothing(t *testing.T) {
	stream := []byte(strings.Repeat("data: "+contentChunk+"\n\n", 1000))
	var r eventReader
	var e event
	src := bytes.NewReader(nil)
	run := func() {
		r.reset()
		src.Reset(stream)
		n := 0
		for r.fill(src) == nil {
			for {
				data, ok := r.next()
				if !ok {
					break
				}
				if !e.parse(data) || !e.choices {
					t.Fatal("not a chunk")
				}
				n++
			}
		}
		if n != 1000 {
			t.Fatal(n)
		}
	}
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("%v allocations for 1000 events", n)
	}
}

func BenchmarkEvent(b *testing.B) {
	stream := []byte(strings.Repeat("data: "+contentChunk+"\n\n", 1000))
	var r eventReader
	var e event
	src := bytes.NewReader(nil)
	b.ReportAllocs()
	for n := 0; n < b.N; {
		r.reset()
		src.Reset(stream)
		for r.fill(src) == nil {
			for data, ok := r.next(); ok; data, ok = r.next() {
				e.parse(data)
				n++
			}
		}
	}
}
