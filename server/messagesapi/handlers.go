package messagesapi

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"

	"weir/api"
	"weir/chat"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/jsonfields"
	"weir/server/openai"
	"weir/server/transport"
)

// Handlers answer the functions of the interface. They are safe for concurrent use.
type Handlers struct {
	chats   *openai.Service
	threads *threads
	inPlace sync.Map // *chat.Renderer to bool: whether its template takes a system message between others
}

// New returns handlers whose kept conversations an account counts.
func New(chats *openai.Service, account *memory.Account) *Handlers {
	return &Handlers{chats: chats, threads: newThreads(account)}
}

// Messages answers POST /v1/messages.
func (h *Handlers) Messages(c *transport.Call) {
	h.chats.Serve(c, h.surface(c, false))
}

// CountTokens answers POST /v1/messages/count_tokens.
func (h *Handlers) CountTokens(c *transport.Call) {
	h.chats.CountPrompt(c, h.surface(c, true), appendCount)
}

func (h *Handlers) surface(c *transport.Call, counts bool) *surface {
	id := string(c.Response.Header.Peek("X-Request-Id"))
	if id != "" {
		c.Response.Header.Set("Request-Id", id) // as the vendor names it
	}
	return &surface{
		h: h, counts: counts, requestID: id,
		version: string(c.Request.Header.Peek("Anthropic-Version")), owner: owner{c.Tenant(), c.Project},
	}
}

// surface is one request. It implements openai.Surface.
type surface struct {
	h         *Handlers
	counts    bool // the tokens of the prompt are asked for, and no answer
	requestID string
	version   string // anthropic-version; "": none was sent
	owner     owner
}

// Fail answers with an error.
func (s *surface) Fail(c *transport.Call, err error) failure.Failure { return c.Fail(err) }

// Translate returns the body of the chat completion that a message asks for.
func (s *surface) Translate(_ context.Context, m *openai.Model, _ openai.Sender, body []byte) ([]byte, openai.SurfaceAnswer, error) {
	f := facts{context: m.MaxLen, thinks: m.Chat.Divides(), inPlace: s.h.takesSystems(m.Chat)}
	chat, a, err := s.translate(f, body)
	if err != nil {
		return nil, nil, err
	}
	return chat, a, nil
}

func (s *surface) translate(f facts, body []byte) ([]byte, *answer, error) {
	fields, err := jsonfields.Read(body)
	if err != nil {
		return nil, nil, err
	}
	q := &request{fields: fields}
	if err := q.decode(s.version, s.counts); err != nil {
		return nil, nil, err
	}
	before, err := s.continued(q)
	if err != nil {
		return nil, nil, err
	}
	system, tools := fields["system"], fields["tools"]
	if before != nil {
		if system, tools, err = before.same(system, tools); err != nil {
			return nil, nil, err
		}
	}
	c := &conversation{q: q, inPlace: f.inPlace}
	if err := q.decodeSystem(system); err != nil {
		return nil, nil, err
	}
	if err := q.decodeTools(tools); err != nil {
		return nil, nil, err
	}
	if before != nil {
		for _, messages := range before.messages { // their places are not the client's
			if _, err := c.decodeMessages(messages, 0); err != nil {
				return nil, nil, err
			}
		}
	}
	if _, err := c.decodeMessages(fields["messages"], 0); err != nil {
		return nil, nil, err
	}
	if err := q.checkChoice(); err != nil {
		return nil, nil, err
	}
	a := &answer{requestID: s.requestID, context: f.context, asked: q.maxTokens, hidden: q.thinking.hidden, ignored: q.ignored}
	chat, err := q.appendChat(make([]byte, 0, len(body)+len(body)/4+512), f, a)
	if err != nil {
		return nil, nil, err
	}
	if q.thread.kind != "" && !s.counts {
		a.keep = s.keeper(q, before, system, tools, fields["messages"])
	}
	return chat, a, nil
}

// continued returns the thread that a request continues; nil: it continues none.
func (s *surface) continued(q *request) (*thread, error) {
	if q.thread.kind != "continue" {
		return nil, nil
	}
	t := s.h.threads.find(s.owner, q.thread.previous)
	if t == nil {
		return nil, errThreadNotFound(q.thread.previous)
	}
	return t, nil
}

// same returns the system prompt and the tools of a thread, which a request that continues it may
// repeat and not change.
func (t *thread) same(system, tools api.Raw) (api.Raw, api.Raw, error) {
	switch {
	case system != nil && !bytes.Equal(system, t.system):
		return nil, nil, errThreadChanged("system")
	case tools != nil && !bytes.Equal(tools, t.tools):
		return nil, nil, errThreadChanged("tools")
	}
	return t.system, t.tools, nil
}

// keeper returns a function that keeps the conversation of a request with its answer.
func (s *surface) keeper(q *request, before *thread, system, tools, messages api.Raw) func(id string, reply []byte) {
	t := before
	if t == nil {
		t = newThread(system, tools)
	}
	t = t.with(bytes.Clone(messages))
	return func(id string, reply []byte) {
		turn := append(append([]byte(`[{"role":"assistant","content":`), reply...), "}]"...)
		s.h.threads.keep(s.owner, q.thread.previous, id, t.with(turn))
	}
}

// takesSystems reports whether a model's template shows a system message that stands between
// others. It is tried once for each model.
func (h *Handlers) takesSystems(r *chat.Renderer) bool {
	if known, ok := h.inPlace.Load(r); ok {
		return known.(bool)
	}
	const mark = "0c9d2e6b" // in no template
	message := func(role, text string) api.Message {
		return api.Message{Role: role, Content: api.Content{Kind: api.ContentText, Text: text}}
	}
	p, err := r.Render(chat.Input{Messages: []api.Message{
		message("system", "a"), message("user", "b"), message("system", mark), message("assistant", "c"), message("user", "d"),
	}})
	ok := err == nil && strings.Contains(p.Text, mark)
	h.inPlace.Store(r, ok)
	return ok
}

// appendCount appends the answer of count_tokens.
func appendCount(dst []byte, tokens int) []byte {
	return append(strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(tokens), 10), '}')
}

// errThreadNotFound tells a client to send the whole conversation, which it then does.
func errThreadNotFound(id string) error {
	return &failure.Detailed{
		Err: &api.Error{
			Name: "thread", Status: 404, Code: 404, Type: api.TypeNotFound,
			Message: "There is no thread whose last message is " + jsonfields.Clip(id) + ": it was continued already, or its place was given to another. Send the whole conversation with thread {\"type\": \"create\"}.",
		},
		JSON: `{"error_code":"thread_not_found"}`,
	}
}

// errThreadChanged refuses a field that has to stay as it was in a thread.
func errThreadChanged(name string) error {
	e := failure.BadRequest("", "%s: differs from that of the thread. Leave it out, or send the whole conversation with thread {\"type\": \"create\"}.", name)
	return &failure.Detailed{Err: e, JSON: `{"error_code":"thread_fingerprint_mismatch"}`}
}
