package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/engine"
	"weir/pooling"
	"weir/sampler"
	"weir/server/servertest"
	"weir/server/transport"
)

const (
	embeddingPath = "/v1/embeddings"
	vectorSize    = 8 // of the simulated network
)

// newEmbedder starts a server whose model embeds: the mean of all vectors, normalized.
func newEmbedder(t testing.TB, change func(*servertest.Setup)) *testServer {
	return newServer(t, func(s *servertest.Setup) {
		s.Spec.Hidden = vectorSize
		s.Model.Pooling = &pooling.Plan{Kind: pooling.Mean, Hidden: vectorSize, Normalize: true}
		if change != nil {
			change(s)
		}
	})
}

// pooled is what the engine itself gives for a prompt.
func (h *testServer) pooled(t *testing.T, tokens []int32, kind engine.Pooling) []float32 {
	t.Helper()
	return h.pooledBy(t, engine.Request{Tokens: tokens, Pool: kind, Sampling: sampler.DefaultParams()})
}

// pooledBy is what the engine itself gives for a request.
func (h *testServer) pooledBy(t *testing.T, r engine.Request) []float32 {
	t.Helper()
	st, err := h.Engine.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	var events engine.Events
	if err := st.Next(t.Context(), &events); err != nil || events.Items[0].Err != nil {
		t.Fatal(err, events.Items)
	}
	return st.Pooled(0)
}

// unit is v at length 1.
func unit(v []float32) []float32 {
	v = slices.Clone(v)
	pooling.Normalize(v)
	return v
}

type embedding struct {
	Index     int
	Object    string
	Embedding json.RawMessage
}

type embeddings struct {
	ID, Object, Model string
	Created           int64
	Data              []embedding
	Usage             map[string]any
}

// bytes decodes base64 of n bytes.
func (e *embedding) bytes(t *testing.T, n int) (b []byte) {
	t.Helper()
	if err := json.Unmarshal(e.Embedding, &b); err != nil || len(b) != n {
		t.Fatalf("%v: %s is no %d bytes", err, e.Embedding, n)
	}
	return b
}

// vector decodes either form.
func (e *embedding) vector(t *testing.T) (v []float32) {
	t.Helper()
	text := ""
	if json.Unmarshal(e.Embedding, &text) == nil {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(b) > 0; b = b[4:] {
			v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		return v
	}
	if err := json.Unmarshal(e.Embedding, &v); err != nil {
		t.Fatalf("%v in %s", err, e.Embedding)
	}
	return v
}

func (h *testServer) embed(t *testing.T, fields map[string]any) (e embeddings) {
	t.Helper()
	body, _ := json.Marshal(fields)
	status, answer, _ := h.Get("POST", embeddingPath, string(body))
	if err := json.Unmarshal([]byte(answer), &e); err != nil || status != 200 {
		t.Fatalf("%s: %d %v %s", body, status, err, answer)
	}
	for i := range e.Data {
		if e.Data[i].Index != i || e.Data[i].Object != "embedding" {
			t.Fatalf("%s: %s", body, answer)
		}
	}
	return e
}

// TestE1E2Inputs (docs/interface/embeddings.md): all forms of input, one vector for each in order.
func TestE1E2Inputs(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	hi, tale := servertest.Encode("Hi", true), servertest.Encode("Once upon a time", true)
	long := servertest.Encode(strings.Repeat("word ", 600), true) // several steps
	for _, c := range []struct {
		input any
		want  [][]int32
	}{
		{"Hi", [][]int32{hi}},
		{[]string{"Once upon a time", "Hi", strings.Repeat("word ", 600)}, [][]int32{tale, hi, long}},
		{[]int{5, 6, 7}, [][]int32{{5, 6, 7}}},
		{[][]int{{5, 6, 7}, {9}}, [][]int32{{5, 6, 7}, {9}}},
	} {
		got := h.embed(t, map[string]any{"model": "alias", "input": c.input})
		if len(got.Data) != len(c.want) || got.Object != "list" || got.Model != "tiny" || !strings.HasPrefix(got.ID, "embd-") || got.Created == 0 {
			t.Fatalf("%v: %+v", c.input, got)
		}
		tokens := 0
		for i, want := range c.want {
			tokens += len(want)
			if v := got.Data[i].vector(t); !slices.Equal(v, unit(h.pooled(t, want, engine.PoolMean))) {
				t.Errorf("%.40v: vector %d is %v", c.input, i, v)
			}
		}
		if u := got.Usage; u["prompt_tokens"] != float64(tokens) || u["total_tokens"] != float64(tokens) || u["completion_tokens"] != 0. {
			t.Errorf("%.40v: usage %v for %d tokens", c.input, u, tokens)
		}
	}
}

// TestE3Chat: messages are rendered, without a generation prompt unless it is asked for.
func TestE3Chat(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	for _, more := range []map[string]any{{}, {"add_generation_prompt": true}} {
		fields := map[string]any{"messages": servertest.UserSays("Hi"), "add_generation_prompt": false}
		for k, v := range more {
			fields[k] = v
		}
		tokens := h.tokenize(t, servertest.Body(t, fields)).Tokens
		if len(more) == 0 {
			delete(fields, "add_generation_prompt")
		}
		got := h.embed(t, fields)
		if v := got.Data[0].vector(t); len(got.Data) != 1 || !slices.Equal(v, unit(h.pooled(t, tokens, engine.PoolMean))) {
			t.Errorf("%v: %v", fields, v)
		}
	}
}

// TestE4Formats: both formats carry the same bits, and dimensions are cut before the vector is normalized.
func TestE4Formats(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	whole := h.pooled(t, servertest.Encode("Hi", true), engine.PoolMean)
	for _, format := range []string{"float", "base64"} {
		for n := 1; n <= vectorSize; n++ {
			got := h.embed(t, map[string]any{"input": "Hi", "encoding_format": format, "dimensions": n}).Data[0].vector(t)
			if !slices.Equal(got, unit(whole[:n])) {
				t.Errorf("%s, %d dimensions: %v", format, n, got)
			}
		}
		got := h.embed(t, map[string]any{"input": "Hi", "encoding_format": format, "normalize": false}).Data[0].vector(t)
		if !slices.Equal(got, whole) {
			t.Errorf("%s, not normalized: %v, want %v", format, got, whole)
		}
	}
	if raw := h.embed(t, map[string]any{"input": "Hi", "encoding_format": "base64"}).Data[0].Embedding; raw[0] != '"' {
		t.Errorf("base64 is %s", raw)
	}
}

// TestE4Bytes: base64, bytes and the header that describes them carry what decimal digits do, in every type of numbers and order of bytes.
func TestE4Bytes(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	inputs := []any{"Hi", "Once upon a time"}
	plain := h.embed(t, map[string]any{"input": inputs})
	for name, size := range map[string]int{"float32": 4, "float16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1} {
		for _, order := range []any{nil, "native", "little", "big"} {
			fields := map[string]any{"input": inputs, "embed_dtype": name, "endianness": order, "encoding_format": "base64"}
			var want []byte
			coded := h.embed(t, fields)
			for i := range coded.Data {
				want = append(want, coded.Data[i].bytes(t, size*vectorSize)...)
			}
			if name == "float32" {
				if got := numbers(want, order == "big"); !slices.Equal(got, slices.Concat(plain.Data[0].vector(t), plain.Data[1].vector(t))) {
					t.Errorf("%v: %v", order, got)
				}
			}
			h.checkBytes(t, fields, want, size, plain.Usage["prompt_tokens"])
		}
	}
}

// checkBytes asks for two vectors as bytes, with the header that describes them and without.
func (h *testServer) checkBytes(t *testing.T, fields map[string]any, want []byte, size int, promptTokens any) {
	t.Helper()
	for _, format := range []string{"bytes", "bytes_only"} {
		fields["encoding_format"] = format
		body, _ := json.Marshal(fields)
		status, answer, headers := h.Get("POST", embeddingPath, string(body))
		if status != 200 || !bytes.Equal([]byte(answer), want) || headers.Get("Content-Type") != "application/octet-stream" {
			t.Fatalf("%s: %d %q %x, want %x", body, status, headers.Get("Content-Type"), answer, want)
		}
		text := headers.Get("Metadata")
		if (text != "") != (format == "bytes") {
			t.Errorf("%s: the metadata is %q", format, text)
		}
		if text != "" {
			checkMetadata(t, text, size, fields["endianness"], promptTokens)
		}
	}
}

// numbers are those whose bytes are b.
func numbers(b []byte, bigEndian bool) []float32 {
	var order binary.ByteOrder = binary.LittleEndian
	if bigEndian {
		order = binary.BigEndian
	}
	list := make([]float32, len(b)/4)
	for i := range list {
		list[i] = math.Float32frombits(order.Uint32(b[4*i:]))
	}
	return list
}

// checkMetadata checks the header of two vectors whose numbers have the given size and order of bytes.
func checkMetadata(t *testing.T, text string, size int, order, promptTokens any) {
	t.Helper()
	var meta struct {
		ID, Model string
		Data      []struct {
			Index, Start, End int
			Endianness        string
			Shape             []int
		}
		Usage map[string]any
	}
	if err := json.Unmarshal([]byte(text), &meta); err != nil || len(meta.Data) != 2 || !strings.HasPrefix(meta.ID, "embd-") || meta.Model != "tiny" || meta.Usage["prompt_tokens"] != promptTokens {
		t.Fatalf("%v: %s", err, text)
	}
	if d := meta.Data[1]; d.Index != 1 || d.Start != size*vectorSize || d.End != 2*size*vectorSize || !slices.Equal(d.Shape, []int{vectorSize}) || order != nil && d.Endianness != order {
		t.Errorf("%s", text)
	}
}

// TestE5Truncation: an input of the whole context is taken, a longer one refused or cut.
func TestE5Truncation(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	ids := make([]int32, 1025)
	for i := range ids {
		ids[i] = int32(i + 5)
	}
	h.embed(t, map[string]any{"input": ids[:1024]})
	for _, c := range []struct {
		fields map[string]any
		want   []int32
	}{
		{map[string]any{"truncate_prompt_tokens": 7}, ids[:7]},
		{map[string]any{"truncate_prompt_tokens": -1}, ids[:1024]},
		{map[string]any{"truncate_prompt_tokens": 7, "truncation_side": nil}, ids[:7]},
		{map[string]any{"truncate_prompt_tokens": 7, "truncation_side": "left"}, ids[1018:]},
		{map[string]any{"truncate_prompt_tokens": 7, "truncation_side": "right"}, ids[:7]},
	} {
		c.fields["input"] = ids
		if got := h.embed(t, c.fields).Data[0].vector(t); !slices.Equal(got, unit(h.pooled(t, c.want, engine.PoolMean))) {
			t.Errorf("%v of 1025 tokens: %v", c.fields["truncate_prompt_tokens"], got)
		}
	}
}

// TestE5Around: the tokens around a text stay unless the request names the side that is cut.
func TestE5Around(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, func(s *servertest.Setup) { s.Model.Tokenizer = pairTokenizer() })
	text := plain("one two three four five")
	whole := around("one two three four five")
	for _, c := range []struct {
		fields map[string]any
		want   []int32
	}{
		{map[string]any{}, whole},
		{map[string]any{"truncate_prompt_tokens": 900}, whole},
		{map[string]any{"truncate_prompt_tokens": 4}, slices.Concat([]int32{begin}, text[:2], []int32{end})},
		{map[string]any{"truncate_prompt_tokens": 1}, []int32{begin}},
		{map[string]any{"truncate_prompt_tokens": 4, "truncation_side": "right"}, whole[:4]},
		{map[string]any{"truncate_prompt_tokens": 4, "truncation_side": "left"}, whole[len(whole)-4:]},
		{map[string]any{"truncate_prompt_tokens": 4, "add_special_tokens": false}, text[:4]},
	} {
		c.fields["input"] = "one two three four five"
		if got := h.embed(t, c.fields).Data[0].vector(t); !slices.Equal(got, unit(h.pooled(t, c.want, engine.PoolMean))) {
			t.Errorf("%v: not the vector of %v", c.fields, c.want)
		}
	}
}

// TestE6Refusals: what is refused, before anything is computed.
func TestE6Refusals(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	for _, c := range []struct {
		body   string
		status int
		param  string
		text   string
	}{
		{`{}`, 400, "", "input: field required"},
		{`{"input":"a","messages":[]}`, 400, "", "either input or messages"},
		{`{"input":""}`, 400, "", "input: must not be empty"},
		{`{"input":[]}`, 400, "", "input: must not be empty"},
		{`{"input":["a",""]}`, 400, "", "input[1]: must not be empty"},
		{`{"input":[[]]}`, 400, "", "must not be empty"},
		{`{"input":[[1],"a"]}`, 400, "", "array of token ids"},
		{`{"input":{}}`, 400, "", "must be a string or an array"},
		{`{"input":null}`, 400, "", "must not be null"},
		{`{"input":[3584]}`, 400, "", "out of vocabulary"},
		{`{"input":"a","encoding_format":"hex"}`, 400, "", "must be 'float', 'base64', 'bytes' or 'bytes_only', got"},
		{`{"input":"a","embed_dtype":"int8"}`, 400, "", "must be 'float32', 'float16', 'bfloat16', 'fp8_e4m3' or 'fp8_e5m2', got"},
		{`{"input":"a","endianness":"middle"}`, 400, "", "must be 'native', 'little' or 'big', got"},
		{`{"encoding_format":"bytes","input":[` + strings.Repeat(`"a",`, 400) + `"a"]}`, 400, "encoding_format", "or use 'bytes_only'"},
		{`{"input":"a","dimensions":0}`, 400, "", "dimensions: must be 1 or more"},
		{`{"input":"a","dimensions":9}`, 400, "dimensions", "have 8 dimensions"},
		{`{"input":"a","priority":1}`, 400, "priority", "Priority scheduling is not enabled"},
		{`{"input":"a","model":"other"}`, 404, "model", "does not exist"},
		{`{"input":"a","truncate_prompt_tokens":1025}`, 400, "truncate_prompt_tokens", "cannot be greater"},
		{`{"input":[` + strings.Repeat("1,", 1024) + `1]}`, 400, "input_tokens", "maximum context length is 1024"},
		{`{"input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, 400, "", "2048"},
		{`{"messages":[]}`, 400, "", "essage"},
		{`{"input":"a","request_id":"` + strings.Repeat("x", 513) + `"}`, 400, "request_id", "512 bytes"},
	} {
		status, answer, _ := h.Get("POST", embeddingPath, c.body)
		if f := servertest.Refused(t, status, answer, c.status, c.param); !strings.Contains(f.Message, c.text) {
			t.Errorf("%.80s: %s", c.body, f.Message)
		}
	}
	if s := h.Engine.Stats(); s.Steps != 0 {
		t.Errorf("%d steps were computed", s.Steps)
	}
	only := newEmbedder(t, func(s *servertest.Setup) { s.Model.Pooling.Dimensions = []int{2, 4} })
	status, answer, _ := only.Get("POST", embeddingPath, `{"input":"a","dimensions":3}`)
	if f := servertest.Refused(t, status, answer, 400, "dimensions"); !strings.Contains(f.Message, "[2 4]") {
		t.Error(f.Message)
	}
}

// TestE7Tasks: a model that embeds does not generate, and one that generates does not embed.
func TestE7Tasks(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": servertest.Body(t, nil), "/v1/completions": servertest.TextBody(t, nil),
		"/v1/chat/completions/render": servertest.Body(t, nil),
	} {
		status, answer, _ := h.Get("POST", path, body)
		if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "does not support generation") {
			t.Errorf("%s: %s", path, f.Message)
		}
	}
	status, answer, _ := newServer(t, nil).Get("POST", embeddingPath, `{"input":"a"}`)
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "does not support the Embeddings API") {
		t.Error(f.Message)
	}
}

// TestE8Counts: a request counts with its prompt tokens and no others.
func TestE8Counts(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	h.embed(t, map[string]any{"input": [][]int{{5, 6, 7}, {8}}})
	_, text, _ := h.Get("GET", "/metrics", "")
	for _, line := range []string{
		`vllm:prompt_tokens_total{engine="0",model_name="tiny"} 4`, `vllm:generation_tokens_total{engine="0",model_name="tiny"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			for l := range strings.Lines(text) {
				if strings.HasPrefix(l, name) {
					t.Errorf("%s, want %s", l, line)
				}
			}
		}
	}
	_, usage, _ := h.Get("GET", "/usage", "")
	if !strings.Contains(usage, `"requests":1,"prompt_tokens":4,"cached_tokens":0,"completion_tokens":0`) {
		t.Errorf("usage: %s", usage)
	}
}

// TestE9ClientLeaves: the inputs of a client that has left are not computed further.
func TestE9ClientLeaves(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, func(s *servertest.Setup) { s.TCP = true }) // connections in memory are not watched
	held, release := h.HoldSteps()
	conn, err := h.Dial()
	if err != nil {
		t.Fatal(err)
	}
	body := `{"input":[` + strings.Repeat("5,", 1000) + `5]}`
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", embeddingPath, len(body), body)
	<-held
	conn.Close()
	left := servertest.Eventually(10*time.Second, func() bool { return h.Instance.Transport().Held() == (transport.Held{}) })
	release()
	if !left {
		t.Errorf("the client has left, but the server holds %+v", h.Instance.Transport().Held())
	}
	servertest.WaitFor(t, "the blocks", h.NoBlocks)
	if s := h.Engine.Stats(); s.Finished[engine.Aborted] != 1 {
		t.Errorf("%+v", s)
	}
}

// TestEmbeddingOfAFailedStep: the error of a step is a 500 in the form of the other functions.
func TestEmbeddingOfAFailedStep(t *testing.T) {
	t.Parallel()
	h := newEmbedder(t, nil)
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			h.SetHook(nil)
			return fmt.Errorf("broken")
		}
		return nil
	})
	status, answer, _ := h.Get("POST", embeddingPath, `{"input":"a"}`)
	servertest.Refused(t, status, answer, 500, "")
	h.embed(t, map[string]any{"input": "a"})
}
