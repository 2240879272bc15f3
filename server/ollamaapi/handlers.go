package ollamaapi

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/jsonfields"
	"weir/server/openai"
	"weir/server/transport"
)

// Handlers answer the functions of the interface. They are safe for concurrent use.
type Handlers struct {
	chats *openai.Service
	now   func() time.Time
	calls sync.Map // *chat.Renderer to bool: whether calls of tools are read
}

// New returns handlers with a clock.
func New(chats *openai.Service, now func() time.Time) *Handlers {
	return &Handlers{chats: chats, now: now}
}

// Root answers GET / with the text by which clients know that the server is there. A page in a
// browser is not what they ask for.
func (h *Handlers) Root(c *transport.Call) {
	if strings.Contains(string(c.Request.Header.Peek("Accept")), "text/html") {
		c.Fail(failure.ErrNoPath)
		return
	}
	c.SetContentType("text/plain; charset=utf-8")
	c.SetBodyString("Ollama is running")
}

// follows is the version of Ollama whose interface this is. Clients ask for it to learn what a server
// can do, and some refuse old ones.
const follows = "0.12.11"

// Version answers GET /api/version.
func (h *Handlers) Version(c *transport.Call) {
	c.Reply(append(api.AppendString([]byte(`{"version":`), follows), '}'))
}

// Chat answers POST /api/chat.
func (h *Handlers) Chat(c *transport.Call) {
	anyType(c)
	h.chats.Serve(c, &surface{h: h, begun: c.Begun})
}

// anyType takes a body for JSON that is said to be a form, as curl says of all, because Ollama does
// not look at the type. Pages that could send such a request are refused by their origin.
func anyType(c *transport.Call) {
	const form = "application/x-www-form-urlencoded"
	if t := string(c.Request.Header.ContentType()); t == "" || strings.HasPrefix(t, form) {
		c.Request.Header.SetContentType("application/json")
	}
}

// Generate answers POST /api/generate.
func (h *Handlers) Generate(c *transport.Call) {
	anyType(c)
	h.chats.Serve(c, &surface{h: h, begun: c.Begun, generates: true})
}

// surface is one request. It implements openai.Surface.
type surface struct {
	h         *Handlers
	begun     time.Time
	generates bool
}

// loads is the answer of a request that asks for nothing but that the model is loaded, which it is. It is
// an error only on its way to Fail.
type loads struct{ body []byte }

func (loads) Error() string { return "the request asks for nothing" }

// Fail answers with an error.
func (s *surface) Fail(c *transport.Call, err error) failure.Failure {
	if l := (loads{}); errors.As(err, &l) {
		c.Reply(l.body)
		return failure.Failure{Status: 200}
	}
	return c.Fail(err)
}

// Translate returns the body of the chat completion that a request asks for.
func (s *surface) Translate(_ context.Context, m *openai.Model, _ openai.Sender, body []byte) ([]byte, openai.SurfaceAnswer, error) {
	own := chatFields
	if s.generates {
		own = generateFields
	}
	q, err := decode(body, own)
	if err != nil {
		return nil, nil, err
	}
	if s.nothing(q) {
		return nil, nil, s.load(m, q)
	}
	size := len(body) + len(body)/4 + 512
	var chat []byte
	var plain *openai.Plain
	if s.generates {
		chat, plain, err = q.generate(size, m)
	} else {
		if v := q.fields["messages"]; jsonfields.Kind(v) != jsontext.Array {
			return nil, nil, jsonfields.WrongType("messages", "an array", v)
		}
		chat, err = q.chat(size, m.MaxLen)
	}
	if err != nil {
		return nil, nil, err
	}
	return chat, &answer{generates: s.generates, model: q.model, now: s.h.now, begun: s.begun, ignored: q.ignored, plain: plain}, nil
}

// nothing reports whether a request has nothing to answer: clients load a model so.
func (s *surface) nothing(q *request) bool {
	v := q.fields["messages"]
	if s.generates {
		v = q.fields["prompt"]
	}
	return v == nil || v.Empty() || string(v) == `""`
}

// load returns the answer of a request that has nothing to answer.
func (s *surface) load(m *openai.Model, q *request) error {
	if !m.Serves(served(q.model)) {
		return api.ErrModelNotFound(q.model)
	}
	a := &answer{generates: s.generates, model: q.model, now: s.h.now}
	reason := "load"
	if v := q.fields["keep_alive"]; string(v) == "0" || string(v) == `"0"` {
		reason = "unload" // which it is not: it would be gone for others
	}
	dst := a.text(a.head(nil), "", "", nil)
	return loads{append(append(append(dst, `,"done":true,"done_reason":"`...), reason...), `"}`...)}
}

// Embed answers POST /api/embed.
func (h *Handlers) Embed(c *transport.Call) {
	anyType(c)
	h.chats.Embed(c, &vectors{h: h, begun: c.Begun})
}

// Embeddings answers POST /api/embeddings, which was there before /api/embed.
func (h *Handlers) Embeddings(c *transport.Call) {
	anyType(c)
	h.chats.Embed(c, &vectors{h: h, begun: c.Begun, single: true})
}

// vectors is one request for vectors. It implements openai.VectorSurface.
type vectors struct {
	h      *Handlers
	begun  time.Time
	single bool // of /api/embeddings
	model  string
}

// Translate returns the body of the request for embeddings that a request asks for.
func (v *vectors) Translate(_ *openai.Model, body []byte) ([]byte, error) {
	fields, err := jsonfields.Read(body)
	if err != nil {
		return nil, err
	}
	if v.model, err = jsonfields.Text("model", fields["model"]); err != nil {
		return nil, err
	}
	name := "input"
	if v.single {
		name = "prompt"
	}
	input := fields[name]
	switch k := jsonfields.Kind(input); {
	case k == jsontext.String:
	case k == jsontext.Array && !v.single:
		for i, e := range input.Elements() {
			if _, err := jsonfields.Text(jsonfields.At(name, i), e); err != nil {
				return nil, err
			}
		}
	case input == nil:
		return nil, jsonfields.Bad(name, "Field required")
	default:
		return nil, jsonfields.WrongType(name, "a string or an array of strings", input)
	}
	dst := api.AppendString(append(make([]byte, 0, len(body)+64), `{"model":`...), served(v.model))
	dst = append(append(dst, `,"input":`...), input...)
	truncate := true
	if t := fields["truncate"]; t != nil {
		if truncate, err = jsonfields.Bool("truncate", t); err != nil {
			return nil, err
		}
	}
	if truncate {
		dst = append(dst, `,"truncate_prompt_tokens":-1`...)
	}
	if d := fields["dimensions"]; d != nil {
		dst = append(append(dst, `,"dimensions":`...), d...)
	}
	return append(dst, '}'), nil
}

// Append appends the answer.
func (v *vectors) Append(dst []byte, e *api.Embeddings) []byte {
	if v.single {
		return append(api.AppendFloats(append(dst, `{"embedding":`...), e.Vectors[0]), '}')
	}
	dst = api.AppendString(append(dst, `{"model":`...), v.model[:min(len(v.model), 512)])
	dst = append(dst, `,"embeddings":[`...)
	for i, x := range e.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = api.AppendFloats(dst, x)
	}
	dst = strconv.AppendInt(append(dst, `],"total_duration":`...), int64(v.h.now().Sub(v.begun)), 10)
	dst = strconv.AppendInt(append(dst, `,"load_duration":0,"prompt_eval_count":`...), int64(e.Prompt), 10)
	return append(dst, '}')
}
