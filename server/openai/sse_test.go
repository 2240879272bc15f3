package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"weir/api"
	"weir/backend/sim"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/internal/invariants"
	"weir/sampler"
)

// direct submits a request and returns the body of its stream, without a connection.
func direct(t testing.TB, h *fixture, req engine.Request, r reply) *sse {
	t.Helper()
	st, err := h.eng.Submit(req)
	if err != nil {
		t.Fatal(err)
	}
	r.meta, r.tok, r.n = api.Meta{ID: "x", Model: "m"}, bundled(), max(1, req.N)
	if r.answer == nil {
		r.answer = &chatAnswer{}
	}
	if a, ok := r.answer.(*chatAnswer); ok {
		a.role = "assistant"
	}
	return newSSE(h.Service, h.http.Detached(), st, &r)
}

func request(tokens int) engine.Request {
	p := sampler.DefaultParams()
	p.Temperature = 0
	return engine.Request{Tokens: []int32{5, 6, 7}, Sampling: p, Limits: engine.Limits{MaxTokens: tokens, EOS: -1}}
}

// Read returns the same bytes as WriteTo.
func TestReadEqualsWriteTo(t *testing.T) {
	h := newFixture(t)
	var want bytes.Buffer
	b := direct(t, h, request(20), reply{})
	if n, err := b.WriteTo(&want); err != nil || n != int64(want.Len()) {
		t.Fatal(n, err)
	}
	b.Close()
	b = direct(t, h, request(20), reply{})
	if err := iotest.TestReader(b, want.Bytes()); err != nil {
		t.Error(err)
	}
	b.Close()
}

// A panic in the middle of a stream ends that stream with an error event.
func TestPanicInAStream(t *testing.T) {
	h := newFixture(t)
	b := direct(t, h, request(5), reply{})
	b.enc.(*chatEncoder).chunks.used = nil // the first token's event indexes it
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if want := `data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, "code": 500}}` + "\n\ndata: [DONE]\n\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
	if text := h.log.String(); !strings.Contains(text, "index out of range") {
		t.Errorf("the log has no trace of it: %q", text)
	}
}

// Everything between the engine and the connection allocates nothing for a token.
func TestStreamAllocatesNothingPerToken(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants allocate")
	}
	for name, r := range map[string]reply{
		"plain":    {},
		"thinking": {answer: &chatAnswer{output: reasoning.Thought}, form: api.Form{TokenIDs: true}}, // so that every token has its event
		"hidden":   {answer: &chatAnswer{output: reasoning.Thought, hideThoughts: true}},
		"logprobs": {logprobs: true, top: 5, form: api.Form{TokenIDs: true, ContinuousUsage: true}},
		"texts":    {logprobs: true, top: 5, form: api.Form{TokenIDs: true, ContinuousUsage: true}, answer: &textAnswer{n: 1, prompts: [][]int32{{1}}}, oneMore: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			gate := h.gateSteps()
			req := request(900)
			if r.logprobs {
				req.Sampling.Logprobs, req.Sampling.TopLogprobs = engine.RawLogprobs, 5
			}
			b := direct(t, h, req, r)
			b.timer = time.NewTimer(time.Hour)
			read := func() { readPiece(t, b) }
			if name == "hidden" { // next would wait for a token that is not hidden
				read = func() { encodeToken(b) }
			}
			token := func() {
				gate <- struct{}{}
				read()
			}
			for range 300 { // buffers grow to their size
				token()
			}
			noAllocations(t, token)
			close(gate)
			b.Close()
		})
	}
}

// gateSteps makes every step of the backend wait for a receive from the channel returned.
func (f *fixture) gateSteps() chan struct{} {
	gate := make(chan struct{})
	f.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	return gate
}

// readPiece reads the event of one token.
func readPiece(t *testing.T, b *sse) {
	piece, err := b.next()
	if err != nil || !bytes.Contains(piece, []byte(`"delta":{`)) && !bytes.Contains(piece, []byte(`"text":"`)) {
		t.Fatalf("%q, %v", piece, err)
	}
}

// encodeToken does what next does for one token, which need not have an event.
func encodeToken(b *sse) {
	if !b.st.Take(&b.events) {
		<-b.st.Ready()
		b.st.Take(&b.events)
	}
	b.at = 0
	b.encode()
}

// noAllocations counts the allocations of a hundred tokens at a time, because a single one
// may need none by chance. Up to three are allowed for slices of the engine that grow by
// doubling.
func noAllocations(t *testing.T, token func()) {
	t.Helper()
	n := testing.AllocsPerRun(4, func() {
		for range 100 {
			token()
		}
	})
	if n > 3 {
		t.Errorf("%v allocations for a hundred tokens", n)
	}
	t.Logf("%v allocations for a hundred tokens", n)
}

// Many events that are due at once are sent in pieces of bounded size, each of whole events.
func TestBurst(t *testing.T) {
	h := newFixture(t)
	b := direct(t, h, request(900), reply{})
	waitFor(t, "the tokens", func() bool { return h.eng.Stats().Finished[engine.Length] == 1 })
	var pieces int
	for {
		piece, err := b.next()
		if err == io.EOF {
			break
		}
		pieces++
		if !bytes.HasPrefix(piece, []byte("data: ")) || !bytes.HasSuffix(piece, []byte("\n\n")) || len(piece) > burst+1024 {
			t.Errorf("piece of %d bytes: %.50q … %q", len(piece), piece, piece[len(piece)-20:])
		}
	}
	if pieces < 3 || pieces > 10 {
		t.Errorf("%d pieces", pieces)
	}
	b.Close()
}

// The events before the first token are sent in such pieces, too: the roles of all choices,
// which have prompt ids, and their echoes.
func TestOpeningBurst(t *testing.T) {
	h := newFixture(t)
	req := request(2)
	req.N = 20
	for len(req.Tokens) < 900 {
		req.Tokens = append(req.Tokens, 1234)
	}
	b := direct(t, h, req, reply{form: api.Form{TokenIDs: true}, answer: &chatAnswer{prompt: req.Tokens, echo: strings.Repeat("echo", 4<<10)}})
	var all []byte
	for {
		piece, err := b.next()
		if err == io.EOF {
			break
		}
		if len(piece) > burst+20<<10 {
			t.Errorf("a piece of %d bytes", len(piece))
		}
		all = append(all, piece...)
	}
	chunks := chunksOf(t, all)
	for i := range 20 {
		if c := chunks[i]; c.Choices[0].Index != i || c.Choices[0].Delta["role"] == nil || len(c.PromptTokenIDs) != 900 {
			t.Errorf("event %d is no role", i)
		}
		if c := chunks[20+i]; c.Choices[0].Index != i || len(fmt.Sprint(c.Choices[0].Delta["content"])) != 16<<10 {
			t.Errorf("event %d is no echo", 20+i)
		}
	}
	if len(chunks) != 20*4 {
		t.Errorf("%d events", len(chunks))
	}
	b.Close()
}

func BenchmarkStreamToken(b *testing.B) {
	h := newFixture(b)
	r := reply{meta: api.Meta{ID: "chatcmpl-0123456789abcdef", Model: "m"}, tok: bundled(), n: 1, answer: &chatAnswer{role: "assistant"}}
	s := newSSE(h.Service, nil, nil, &r)
	s.enc.(*chatEncoder).opened = 1
	ev := engine.Event{Token: 700, StopID: -1, Text: []byte(" hello")}
	b.ReportAllocs()
	for b.Loop() {
		s.buf = s.buf[:0]
		s.event(&ev)
	}
	b.SetBytes(int64(len(s.buf)))
}

// streamed is an event of a streaming chat.
type streamed struct {
	Choices []struct {
		Index int
		Delta map[string]any
	}
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
}

// chunksOf returns the events of a stream without the final [DONE].
func chunksOf(t *testing.T, stream []byte) (list []streamed) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(string(stream)), "\n\n") {
		if line == "data: [DONE]" {
			continue
		}
		var c streamed
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &c); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, c)
	}
	return list
}
