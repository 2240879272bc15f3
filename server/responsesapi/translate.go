package responsesapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
)

// kept is what is to be kept of a response, as far as it is known before it is written.
type kept struct {
	owner    Owner
	user     string
	items    []byte
	messages []byte
	count    int
	body     []byte // of a request whose response is computed in the background; nil: it is not
}

// Translate makes the body of a chat completion of a request.
func (f *Handlers) Translate(ctx context.Context, m *openai.Model, from openai.Sender, body []byte) ([]byte, openai.SurfaceAnswer, error) {
	lim := f.cfg.Limits
	r, err := decode(body, &lim)
	if err != nil {
		return nil, nil, err
	}
	if r.background && f.cfg.Store == nil {
		return nil, nil, failure.BadRequest("background", "background is true, and this server keeps no responses: it was started without a data directory.")
	}
	later := r.background && r.stream
	r.stream = r.stream && !r.background
	chat, a, err := f.translate(ctx, m, from, r, f.cfg.NewID())
	if err != nil || !r.background {
		return chat, a, err
	}
	a.keep.body = seeded(body, r)
	return chat, &queuedAnswer{answer: a, streams: later}, nil
}

// translate makes the body of a chat completion of a request that is decoded. number is the part
// of all ids that is the response's own.
func (f *Handlers) translate(ctx context.Context, m *openai.Model, from openai.Sender, r *request, number string) ([]byte, *answer, error) {
	lim := f.cfg.Limits
	a := &answer{h: f, number: number, summary: r.summary, encrypted: r.encrypted, background: r.background}
	a.id = idPrefix + a.number
	var err error
	o := ownerOf(from)
	c := &conversation{}
	var earlier *Record
	if r.previous != "" {
		if earlier, err = f.earlier(o, r.previous); err != nil {
			return nil, nil, err
		}
		c.messages, c.n = append(c.messages, earlier.Messages...), earlier.Count
	}
	reader := itemReader{to: c, req: r, lim: &lim, refer: func(id string) (api.Raw, error) { return f.referred(o, id) }}
	if err := reader.read(r.input); err != nil {
		return nil, nil, err
	}
	c.end()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if c.n == 0 {
		return nil, nil, failure.BadRequest("input", "input has no items, so that there is nothing to answer.")
	}
	if r.choice.mode == "required" && len(r.tools) == 0 {
		return nil, nil, failure.BadRequest("tool_choice", "tool_choice asks for a call, and there is no tool that this server can offer to the model.")
	}
	chat := r.chat(m, c, a.number)
	a.front = r.front()
	if earlier != nil {
		instructed := 0
		if r.instructions != nil && *r.instructions != "" {
			instructed = 1
		}
		a.past = &openai.Past{IDs: earlier.IDs, Messages: instructed + earlier.Count}
		if earlier.Front != a.front {
			a.past.IDs, a.past.Outcome = nil, noteFront
		}
	}
	if a.kept = f.cfg.Store != nil && !r.noStore; a.kept {
		a.keep = &kept{owner: o, user: userOf(from), items: a.appendInput(nil, r.input), messages: c.messages, count: c.n}
	}
	a.echo = r.appendEcho(nil)
	a.metadata = own(r.sent["metadata"])
	for _, t := range r.tools {
		t.parameters, t.strict, t.description, t.definition = nil, nil, "", "" // the answer does not need them
		a.tools = append(a.tools, t)
	}
	a.ignored = headerList(r.ignored)
	return chat, a, nil
}

// noteFront is said of a response whose prompt begins in another way than that of the earlier turn.
const noteFront = "rendered anew: instructions, tools or arguments of the template are not those of the earlier turn"

// Bounds of the header that names what was ignored.
const (
	maxIgnored     = 32
	maxIgnoredSize = 1 << 10
)

// headerList makes the value of a header of names, which may be of the client.
func headerList(names []string) string {
	var b strings.Builder
	for i, s := range names {
		if i == maxIgnored || b.Len()+len(s)+2 > maxIgnoredSize {
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		for _, c := range []byte(s) {
			if c <= ' ' || c >= 0x7f || c == ',' {
				c = '?'
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}

// chat makes the body of the chat completion.
func (r *request) chat(m *openai.Model, c *conversation, number string) []byte {
	dst := make([]byte, 0, 1024+len(c.messages))
	dst = append(dst, `{"request_id":`...)
	dst = jsontext.AppendString(dst, number)
	if r.model != nil {
		dst = append(append(dst, `,"model":`...), r.model...)
	}
	dst = append(dst, `,"messages":[`...)
	if r.instructions != nil && *r.instructions != "" {
		// A developer's message is put together with those of the input where a template
		// takes one system message only.
		dst = jsontext.AppendString(append(dst, `{"role":"developer","content":`...), *r.instructions)
		dst = append(dst, "},"...)
	}
	dst = append(append(dst, c.messages...), ']')
	if r.stream {
		dst = append(dst, `,"stream":true`...)
	}
	if r.logprobs {
		dst = append(dst, `,"logprobs":true`...)
	}
	if r.maxOutput != nil {
		// Agents ask for more than small contexts have, whatever the model.
		dst = strconv.AppendInt(append(dst, `,"max_completion_tokens":`...), int64(min(*r.maxOutput, m.MaxLen)), 10)
	}
	if r.truncate {
		dst = strconv.AppendInt(append(dst, `,"truncate_prompt_tokens":`...), int64(r.room(m)), 10)
	}
	dst = r.appendTools(dst)
	dst = r.appendFormat(dst)
	for _, p := range r.passed {
		dst = append(jsontext.AppendString(append(dst, ','), p.name), ':')
		dst = append(dst, p.value...)
	}
	return append(dst, '}')
}

// room is how many tokens a prompt may have that is cut to the context: it leaves the output
// what was asked for, or a quarter, and at most half of the context.
func (r *request) room(m *openai.Model) int {
	output := m.MaxLen / 4
	if r.maxOutput != nil {
		output = *r.maxOutput
	}
	return max(1, m.MaxLen-max(1, min(output, m.MaxLen/2)))
}

// appendFormat appends response_format.
func (r *request) appendFormat(dst []byte) []byte {
	if r.format == nil {
		return dst
	}
	switch r.format.Member("type").Text() {
	case "json_object":
		return append(dst, `,"response_format":{"type":"json_object"}`...)
	case "json_schema":
		dst = append(dst, `,"response_format":{"type":"json_schema","json_schema":{`...)
		n := 0
		for _, name := range []string{"name", "description", "schema", "strict"} {
			v := r.format.Member(name)
			if !v.Given() {
				continue
			}
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = append(jsontext.AppendString(dst, name), ':')
			dst = append(dst, v...)
		}
		dst = append(dst, "}}"...)
	}
	return dst
}

// front hashes what a prompt is made of beside its messages.
func (r *request) front() front {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	if r.instructions != nil {
		part([]byte(*r.instructions))
	}
	for i := range r.tools {
		part(jsontext.AppendCompact(nil, r.tools[i].append(nil)))
	}
	for _, p := range r.passed {
		switch p.name {
		case "reasoning_effort", "chat_template", "chat_template_kwargs", "documents":
			part([]byte(p.name))
			part(p.value)
		}
	}
	return front(h.Sum(nil))
}

// appendInput appends the items of the input with an id for each, as they are listed.
func (a *answer) appendInput(dst []byte, input api.Raw) []byte {
	if input == nil {
		return dst
	}
	if input.Kind() == jsontext.String {
		dst = fmt.Appendf(dst, `{"id":"msg_%si0","type":"message","role":"user","status":"completed","content":[{"type":"input_text","text":`, a.number)
		return append(append(dst, input...), "}]}"...)
	}
	for i, e := range input.Elements() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = a.appendInputItem(dst, e, i)
	}
	return dst
}

// appendInputItem appends an item with an id, a type and a status, and with a content that is a
// list, as SDKs expect of items that are listed.
func (a *answer) appendInputItem(dst []byte, e api.Raw, i int) []byte {
	kind := kindOf(e)
	dst = append(dst, `{"id":`...)
	if id := e.Member("id"); id.Given() && id.Kind() == jsontext.String {
		dst = append(dst, id...)
	} else {
		dst = fmt.Appendf(dst, `"item_%si%x"`, a.number, i)
	}
	dst = jsontext.AppendString(append(dst, `,"type":`...), kind)
	dst = append(dst, `,"status":`...)
	if s := e.Member("status"); s.Given() {
		dst = append(dst, s...)
	} else {
		dst = append(dst, `"completed"`...)
	}
	for name, v := range e.RawMembers() {
		switch name.Text() {
		case "id", "type", "status":
			continue
		case "content":
			if kind == "message" && v.Kind() == jsontext.String {
				part := "input_text"
				if role := e.Member("role"); role != nil && role.Kind() == jsontext.String && role.Text() == "assistant" {
					part = "output_text"
				}
				dst = append(append(dst, `,"content":[{"type":"`...), part...)
				dst = append(append(dst, `","text":`...), v...)
				if part == "output_text" {
					dst = append(dst, `,"annotations":[]`...)
				}
				dst = append(dst, "}]"...)
				continue
			}
		}
		dst = append(append(append(append(dst, ','), name...), ':'), v...)
	}
	return append(dst, '}')
}
