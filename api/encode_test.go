package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit"

	"weir/internal/jsontext"
)

var meta = Meta{ID: "chatcmpl-abc", Created: 1772900000, Model: "weir-tiny"}

// hi is a token of a piece of a character and quotes, with two alternatives.
var hi = Logprob{
	TokenLogprob: TokenLogprob{ID: 72, Logprob: -0.12, Text: " Hi"},
	Top: []TokenLogprob{
		{ID: 72, Logprob: -0.12, Text: " Hi"},
		{ID: 240, Logprob: float32(math.Inf(-1)), Text: "\xf0\x9f"},
		{ID: 9, Logprob: float32(math.NaN()), Text: "\"\n"},
	},
}

// responses are the shapes of a non-streaming answer.
var responses = []struct {
	name string
	meta Meta
	form Form
	r    Response
}{
	{"plain", meta, Form{}, Response{
		Choices: []Choice{{Role: "assistant", Content: ptr("Hello, \"world\"\u2028\n"), FinishReason: FinishStop, TokenIDs: []int32{1, 2}}},
		Usage:   Usage{Prompt: 9, Completion: 5}, PromptTokenIDs: []int32{3},
	}},
	{"everything", Meta{ID: "chatcmpl-", Created: 1, Model: "a\\b", Fingerprint: "fp_1"}, Form{TokenIDs: true, Thoughts: true, PromptText: ptr("<s>\n\"")}, Response{
		Choices: []Choice{
			{Role: "assistant", Content: ptr(""), Reasoning: ptr("hm"), FinishReason: FinishStop, StopReason: StoppedByText("###"), HasLogprobs: true, Logprobs: []Logprob{hi, {TokenLogprob: TokenLogprob{ID: 2, Logprob: 0}}}, TokenIDs: []int32{72, 2}},
			{Index: 1, Role: "user", FinishReason: FinishLength, HasLogprobs: true, TokenIDs: []int32{}},
			{Index: 2, Role: "assistant", Content: ptr("x"), FinishReason: FinishStop, StopReason: StoppedBy(151645), TokenIDs: []int32{151645}},
			{Index: 3, Role: "assistant", Content: ptr("xxx"), FinishReason: FinishRepetition, StopReason: StoppedByText(RepetitionDetected)},
		},
		Usage:             Usage{Prompt: 33, Completion: 12, Cached: 32},
		HasPromptLogprobs: true,
		PromptLogprobs: []PromptLogprob{
			{TokenLogprob: TokenLogprob{ID: 5}},
			{TokenLogprob: TokenLogprob{ID: 6, Logprob: -2.5, Text: "a"}, Rank: 3, Top: []TokenLogprob{{ID: 7, Logprob: -0.5, Text: "b"}, {ID: 8, Logprob: -1.5, Text: "\xff"}}},
			{TokenLogprob: TokenLogprob{ID: 7, Logprob: -1.5, Text: "b"}, Rank: 2, Top: []TokenLogprob{{ID: 8, Logprob: -1, Text: "c"}, {ID: 7, Logprob: -1.5, Text: "b"}}},
			{TokenLogprob: TokenLogprob{ID: 8, Logprob: -20000, Text: "c"}, Rank: 512},
		},
		PromptTokenIDs: []int32{5, 6, 7, 8}, KVTransferParams: Raw(`{"remote_port":5600}`),
	}},
	{"tokens-as-ids", meta, Form{TokensAsIDs: true}, Response{
		Choices: []Choice{{Role: "assistant", Content: ptr(" Hi"), FinishReason: FinishStop, HasLogprobs: true, Logprobs: []Logprob{hi}}},
	}},
	{"reasoning-content", meta, Form{Reasoning: ReasoningContentOnly}, Response{Choices: []Choice{{Role: "assistant", Reasoning: ptr("hm"), FinishReason: FinishLength}}}},
	{"reasoning-both", meta, Form{Reasoning: ReasoningBoth}, Response{Choices: []Choice{{Role: "assistant", Content: ptr("x"), Reasoning: ptr("hm"), FinishReason: FinishAbort}}}},
	{"warnings", meta, Form{Warnings: []string{"one \"w\"\n", "two"}}, Response{Choices: []Choice{{Role: "assistant", Content: ptr("x"), FinishReason: FinishStop}}}},
	{"no-choice", meta, Form{TokenIDs: true}, Response{HasPromptLogprobs: true}},
	{"calls", meta, Form{}, Response{
		Choices: []Choice{{Role: "assistant", FinishReason: FinishCalls, Calls: []AnswerCall{{"call_1", "f", `{"a": "\u00e9"}`}, {"call_2", "g", "{}"}}}},
	}},
}

func TestResponses(t *testing.T) {
	for _, c := range responses {
		got := AppendResponse(nil, c.meta, c.form, &c.r)
		if err := jsontext.Scan(got, 20); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		testkit.Golden(t, "testdata/response_"+c.name+".json", append(got, '\n'))
	}
}

// TestC130Keys: the keys of docs/interface/chat-completions.md, section 11, in their order, nulls included.
func TestC130Keys(t *testing.T) {
	got := AppendResponse(nil, meta, Form{}, &responses[0].r)
	want := `{"id":"chatcmpl-abc","object":"chat.completion","created":1772900000,"model":"weir-tiny","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, \"world\"` + "\u2028" + `\n","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":9,"total_tokens":14,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestC131Usage(t *testing.T) {
	if got := string((&Form{Thoughts: true}).appendUsage(nil, Usage{Prompt: 7, Completion: 15, Cached: 3, Reasoning: 4}, wholeUsage)); got != `{"prompt_tokens":7,"total_tokens":22,"completion_tokens":15,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}}` {
		t.Error(got)
	}
}

// transcript is what one streaming request sends.
type transcript struct {
	name  string
	plain bool // a client that cannot read usage or errors in the middle can read it
	text  string
	b     []byte
}

func transcripts() []transcript {
	u := func(completion int) Usage { return Usage{Prompt: 9, Completion: completion, Cached: 8} }
	var out []transcript
	add := func(name string, plain bool, text string, form Form, build func(s *Stream, b []byte) []byte) {
		out = append(out, transcript{name, plain, text, append(build(NewStream(meta, form), nil), Done...)})
	}
	add("plain", true, "Hi \"\u2028\nthere", Form{}, func(s *Stream, b []byte) []byte {
		b = s.AppendRole(b, 0, "assistant", nil, u(0))
		b = s.AppendChunk(b, &Chunk{Content: "Hi \"\u2028\n", TokenIDs: []int32{1}})
		b = s.AppendChunk(b, &Chunk{})
		return s.AppendChunk(b, &Chunk{Content: "there", Finish: FinishStop})
	})
	add("usage", false, "Hi", Form{ContinuousUsage: true, TokenIDs: true, Thoughts: true, PromptText: ptr("H\n")}, func(s *Stream, b []byte) []byte {
		b = s.AppendRole(b, 0, "assistant", []int32{3, 4}, u(0))
		b = s.AppendEcho(b, 0, "", "H", u(0))
		b = s.AppendChunk(b, &Chunk{Content: "i", TokenIDs: []int32{72}, Usage: u(1)})
		b = s.AppendChunk(b, &Chunk{TokenIDs: []int32{2}, Finish: FinishStop, Stop: StoppedBy(2), Usage: u(2)})
		return s.AppendUsage(b, u(2))
	})
	add("choices", true, "ab", Form{}, func(s *Stream, b []byte) []byte {
		for i := range 12 {
			b = s.AppendRole(b, i, "assistant", nil, u(0))
		}
		b = s.AppendChunk(b, &Chunk{Content: "a"})
		b = s.AppendChunk(b, &Chunk{Choice: 11, Content: "b", Finish: FinishRepetition, Stop: StoppedByText(RepetitionDetected)})
		return s.AppendChunk(b, &Chunk{Finish: FinishStop, Stop: StoppedByText("\n\"")})
	})
	add("logprobs", true, " Hi", Form{}, func(s *Stream, b []byte) []byte {
		b = s.AppendRole(b, 0, "assistant", nil, u(0))
		b = s.AppendChunk(b, &Chunk{Content: " Hi", HasLogprobs: true, Logprobs: []Logprob{hi}})
		return s.AppendChunk(b, &Chunk{Finish: FinishLength, HasLogprobs: true, Logprobs: []Logprob{{TokenLogprob: TokenLogprob{ID: 2, Logprob: -1e-7, Text: "</s>"}}}})
	})
	for i, name := range []string{"reasoning", "reasoning_content", "both"} {
		field, ok := ParseReasoningField(name)
		if !ok || int(field) != i {
			panic(name)
		}
		add("reasoning-"+name, true, "42", Form{Reasoning: field}, func(s *Stream, b []byte) []byte {
			b = s.AppendRole(b, 0, "assistant", nil, u(0))
			b = s.AppendChunk(b, &Chunk{Reasoning: "think", NoContent: true})
			b = s.AppendChunk(b, &Chunk{Reasoning: "ing", Content: "42"})
			return s.AppendChunk(b, &Chunk{NoContent: true, Finish: FinishStop})
		})
	}
	add("calls", true, "Hi", Form{}, func(s *Stream, b []byte) []byte {
		b = s.AppendRole(b, 0, "assistant", nil, u(0))
		b = s.AppendChunk(b, &Chunk{Content: "Hi", Calls: []CallDelta{{ID: "call_1", Name: "f", Arguments: []byte(`{"a":`)}}})
		b = s.AppendChunk(b, &Chunk{NoContent: true, Calls: []CallDelta{{Arguments: []byte(`"\u00e9"}`), End: true}, {Index: 1, ID: "call_2", Name: "g"}}})
		return s.AppendChunk(b, &Chunk{NoContent: true, Finish: FinishCalls})
	})
	add("warnings", true, "ab", Form{Warnings: []string{"one \"w\"\n", "two"}}, func(s *Stream, b []byte) []byte {
		b = s.AppendRole(b, 0, "assistant", nil, u(0))
		b = s.AppendRole(b, 1, "assistant", nil, u(0))
		b = s.AppendChunk(b, &Chunk{Content: "a", Finish: FinishStop})
		return s.AppendChunk(b, &Chunk{Choice: 1, Content: "b", Finish: FinishStop})
	})
	add("failed", false, "Hi", Form{}, func(s *Stream, b []byte) []byte {
		b = s.AppendRole(b, 0, "assistant", nil, u(0))
		b = s.AppendChunk(b, &Chunk{Content: "Hi"})
		return ErrInternal().AppendEvent(b)
	})
	return out
}

func TestStreams(t *testing.T) {
	for _, tr := range transcripts() {
		testkit.Golden(t, "testdata/stream_"+tr.name+".sse", tr.b)
		for event := range strings.SplitSeq(strings.TrimSuffix(string(tr.b), "\n\n"), "\n\n") {
			data, ok := strings.CutPrefix(event, "data: ")
			if !ok || strings.ContainsAny(data, "\r\n") {
				t.Errorf("%s: event %q", tr.name, event)
			}
			if data != "[DONE]" {
				checkChunk(t, tr.name, data)
			}
		}
	}
}

// checkChunk checks that an event is an error, or a chunk whose choices have a delta each.
func checkChunk(t *testing.T, name, data string) {
	t.Helper()
	var chunk map[string]any
	if err := json.Unmarshal([]byte(data), &chunk); err != nil {
		t.Errorf("%s: %s: %v", name, data, err)
	}
	if chunk["error"] != nil {
		return
	}
	if _, ok := chunk["error"]; ok || strings.Contains(data, `"reasoning":null`) || strings.Contains(data, `"reasoning_content":null`) {
		t.Errorf("%s: %s", name, data)
	}
	for _, c := range chunk["choices"].([]any) {
		if _, ok := c.(map[string]any)["delta"].(map[string]any); !ok {
			t.Errorf("%s: %s has no delta", name, data)
		}
	}
}

// TestC132Chunks holds the objects of docs/interface/chat-completions.md, section 12.3, byte for byte.
func TestC132Chunks(t *testing.T) {
	s := NewStream(meta, Form{})
	head := `data: {"id":"chatcmpl-abc","object":"chat.completion.chunk","created":1772900000,"model":"weir-tiny","choices":[`
	for _, c := range []struct{ got, want string }{
		{string(s.AppendRole(nil, 0, "assistant", nil, Usage{})), `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`},
		{string(s.AppendChunk(nil, &Chunk{Content: "Hi"})), `{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`},
		{string(s.AppendChunk(nil, &Chunk{Finish: "stop"})), `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}`},
		{string(s.AppendUsage(nil, Usage{Prompt: 9, Completion: 5})), `],"usage":{"prompt_tokens":9,"total_tokens":14,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}}`},
		{string(s.AppendEcho(nil, 3, "", "x", Usage{})), `{"index":3,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}]}`},
		{string(s.AppendChunk(nil, &Chunk{NoContent: true, Finish: "stop"})), `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}`},
	} {
		if c.got != head+c.want+"\n\n" {
			t.Errorf("got  %swant %s", c.got, head+c.want)
		}
	}
}

// TestC137TokenIDs: the prompt's ids on the role chunk only, the new ids on the others.
func TestC137TokenIDs(t *testing.T) {
	s := NewStream(meta, Form{TokenIDs: true})
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{s.AppendRole(nil, 0, "assistant", []int32{5, 6}, Usage{}), `,"prompt_token_ids":[5,6],"prompt_text":null}`},
		{s.AppendChunk(nil, &Chunk{TokenIDs: []int32{7, 8}}), `,"token_ids":[7,8]}]}`},
		{s.AppendChunk(nil, &Chunk{Finish: "stop"}), `,"token_ids":[]}]}`},
	} {
		if !strings.HasSuffix(strings.TrimSpace(string(c.got)), c.want) || strings.Count(string(c.got), "token_ids") != 1 {
			t.Errorf("%s does not end in %s", c.got, c.want)
		}
	}
}

// TestC138TokensAsIDs: token_id:N for every token; of the bytes, the main
// entry's stay those of the text (docs/interface/chat-completions.md, section 7.2).
func TestC138TokensAsIDs(t *testing.T) {
	form := Form{TokensAsIDs: true}
	var got struct {
		Content []struct {
			Token string
			Bytes []int
			Top   []struct {
				Token string
				Bytes []int
			} `json:"top_logprobs"`
		}
	}
	if err := json.Unmarshal(form.appendLogprobs(nil, []Logprob{hi}), &got); err != nil {
		t.Fatal(err)
	}
	c := got.Content[0]
	text := func(b []int) (s string) {
		for _, x := range b {
			s += string(rune(x))
		}
		return s
	}
	if c.Token != "token_id:72" || text(c.Bytes) != " Hi" || c.Top[1].Token != "token_id:240" || text(c.Top[1].Bytes) != "token_id:240" {
		t.Errorf("%+v", c)
	}
}

// TestC139PromptLogprobs: first null, the others by id, no key twice.
func TestC139PromptLogprobs(t *testing.T) {
	var got []map[string]struct {
		Logprob float64
		Rank    int
		Decoded string `json:"decoded_token"`
	}
	b := appendPromptLogprobs(nil, responses[1].r.PromptLogprobs)
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got[0] != nil || len(got[1]) != 3 || got[1]["6"].Rank != 3 || got[1]["7"].Rank != 1 || got[1]["8"].Rank != 2 || len(got[2]) != 2 || got[2]["7"].Rank != 2 || got[3]["8"].Logprob != -9999 || got[3]["8"].Rank != 512 {
		t.Errorf("%s", b)
	}
	if bytes.Count(b, []byte(`"7":`)) != 2 {
		t.Errorf("%s: a key twice", b)
	}
}

func TestC153Models(t *testing.T) {
	got := AppendModels(nil, []Model{
		{ID: "weir-tiny", Root: "/models/weir \"tiny\"", MaxModelLen: 4096},
		{ID: "adapter", Root: "/adapters/a", Parent: "weir-tiny"},
	}, 1772900000)
	testkit.Golden(t, "testdata/models.json", append(got, '\n'))
	if err := jsontext.Scan(got, 10); err != nil {
		t.Error(err)
	}
	if got := string(AppendModels(nil, nil, 1)); got != `{"object":"list","data":[]}` {
		t.Error(got)
	}
	if got := string(AppendVersion(nil, "1.2.3")); got != `{"version":"1.2.3"}` {
		t.Error(got)
	}
}

func TestReasoningFieldNames(t *testing.T) {
	if _, ok := ParseReasoningField("none"); ok {
		t.Error("accepted")
	}
}

// TestLogprobSpelling: shortest digits, a float to every reader, -9999.0 for
// what JSON cannot say.
func TestLogprobSpelling(t *testing.T) {
	inf := float32(math.Inf(1))
	for x, want := range map[float32]string{
		-0.12: "-0.12", 0: "0.0", -1: "-1.0", -9999: "-9999.0", -9998.5: "-9998.5", -10000: "-9999.0", -inf: "-9999.0", inf: "-9999.0",
		-1e-6: "-0.000001", -1e-7: "-1e-7", -1.5e-10: "-1.5e-10", -1e-38: "-1e-38", 1.5: "1.5", -0.1: "-0.1", 1e21: "1e+21", math.SmallestNonzeroFloat32: "1e-45", -123.456: "-123.456",
	} {
		if got := string(AppendLogprob(nil, x)); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	if got := string(AppendLogprob(nil, float32(math.NaN()))); got != "-9999.0" {
		t.Error(got)
	}
	if got := string(AppendLogprob(nil, float32(math.Copysign(0, -1)))); got != "0.0" {
		t.Error(got)
	}
}

func FuzzLogprob(f *testing.F) {
	for _, x := range []float32{0, -0.1, -9999, -1e-30, 3e38, -9998.9995} {
		f.Add(math.Float32bits(x))
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		x := math.Float32frombits(bits)
		b := AppendLogprob(nil, x)
		if !json.Valid(b) || !bytes.ContainsAny(b, ".e") || bytes.Contains(b, []byte("e-0")) {
			t.Fatalf("%v: %s", x, b)
		}
		if !(x >= -9999 && x <= math.MaxFloat32) {
			x = -9999
		}
		if y, err := strconv.ParseFloat(string(b), 32); err != nil || float32(y) != x {
			t.Fatalf("%v: %s reads as %v, %v", x, b, y, err)
		}
	})
}

// FuzzAppendString: encoding/json reads back the same text, of which each
// stray byte has become U+FFFD.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é漢😀\u2028\u2029\uFFFD", "\xff\xc0\xaf\xed\xa0\x80\xf0\x9f", "a\xffb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := string([]rune(s))
		for name, b := range map[string][]byte{"plain": AppendString([]byte("x"), s), "ascii": jsontext.AppendASCII([]byte("x"), s)} {
			if jsontext.Scan(b[1:], 0) != nil {
				t.Fatalf("%s: %q is no JSON", name, b)
			}
			var got string
			if err := json.Unmarshal(b[1:], &got); err != nil || got != want {
				t.Fatalf("%s: %q reads as %q, want %q (%v)", name, b, got, want, err)
			}
			if own := Raw(b[1:]).Text(); own != want {
				t.Fatalf("%s: our own reader says %q", name, own)
			}
		}
	})
}

// TestChunksDoNotAllocate: once dst has grown, no event of a stream does.
func TestChunksDoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 1<<14)
	ids := []int32{1, 151645}
	for _, form := range []Form{{}, {TokenIDs: true, ContinuousUsage: true, TokensAsIDs: true, Reasoning: ReasoningBoth}} {
		s := NewStream(meta, form)
		chunk := &Chunk{Content: "Hé \"there\"\n\xff", TokenIDs: ids, Usage: Usage{Prompt: 1000, Completion: 10}}
		full := &Chunk{Choice: 3, Content: "x", Reasoning: "y", HasLogprobs: true, Logprobs: []Logprob{hi, hi}, TokenIDs: ids, Finish: FinishStop, Stop: StoppedByText("z")}
		if n := testing.AllocsPerRun(100, func() {
			dst = s.AppendChunk(dst[:0], chunk)
			dst = s.AppendChunk(dst, full)
			dst = s.AppendRole(dst, 1, "assistant", ids, chunk.Usage)
			dst = s.AppendEcho(dst, 1, "hm", "echo", chunk.Usage)
			dst = s.AppendUsage(dst, chunk.Usage)
		}); n != 0 {
			t.Errorf("%+v: %v allocations, want none", form, n)
		}
	}
}

// TestStreamIsShared: chunks of one stream do not write into its prefix.
func TestStreamIsShared(t *testing.T) {
	s := NewStream(meta, Form{})
	before := fmt.Sprintf("%s|%s", s.head, s.first)
	a := s.AppendChunk(nil, &Chunk{Content: "a"})
	b := s.AppendChunk(nil, &Chunk{Content: "b"})
	if before != fmt.Sprintf("%s|%s", s.head, s.first) || reflect.DeepEqual(a, b) || !bytes.Contains(a, []byte(`"a"`)) {
		t.Errorf("%s%s", a, b)
	}
}

func TestProjectUsage(t *testing.T) {
	list := []ProjectUsage{{Requests: 1, Completion: 2}, {Project: "team/\"a", Requests: 3, Prompt: 40, Cached: 16, Completion: math.MaxUint64}}
	want := `{"object":"list","since":1772900000,"data":[{"project":null,"requests":1,"prompt_tokens":0,"cached_tokens":0,"completion_tokens":2},` +
		`{"project":"team/\"a","requests":3,"prompt_tokens":40,"cached_tokens":16,"completion_tokens":18446744073709551615}]}`
	if got := string(AppendProjectUsage(nil, 1_772_900_000, list)); got != want {
		t.Error(got)
	}
	if got := string(AppendProjectUsage(nil, 5, nil)); got != `{"object":"list","since":5,"data":[]}` {
		t.Error(got)
	}
}

// TestLengthOfIDs: room is made for exactly what a list of ids takes.
func TestLengthOfIDs(t *testing.T) {
	for _, ids := range [][]int32{nil, {0}, {9, 10}, {99, 100, 151_935, math.MaxInt32}} {
		if got, want := lengthOfIDs(ids), len(appendIDs(nil, ids)); got < want || got > want+1 {
			t.Errorf("%v: %d, want %d", ids, got, want)
		}
	}
	many := make([]int32, manyIDs+1)
	if got := appendIDs([]byte("x"), many); len(got) != 2*len(many)+2 || got[0] != 'x' {
		t.Errorf("%d bytes", len(got))
	}
}
