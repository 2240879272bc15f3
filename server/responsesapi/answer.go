package responsesapi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unsafe"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
)

// answer is the form of one answer. It keeps nothing of the body of its request.
type answer struct {
	h       *Handlers
	id      string // of the response
	number  string // the part of all ids that is the response's own
	created int64  // Unix seconds
	model   string

	echo     []byte  // the members that repeat the request
	metadata api.Raw // nil: none
	tools    []tool  // without what points into the body
	ignored  string  // for the header
	past     *openai.Past
	front    front // of the prompt
	keep     *kept // what is kept of the response; nil: nothing

	summary, encrypted, kept, background bool

	// Of a stream.
	sequence int
	items    []item
	live     bool // the last item is not complete
	pending  []api.Logprob
	input    inputText // of the last item, if that is a custom tool's call
}

var (
	_ openai.SurfaceAnswer = (*answer)(nil)
)

// ID is the id of the chat completion below, which recordings and feedback have. The
// response's own is another one, because a client may send one X-Request-Id twice.
func (a *answer) ID(request string) string { return api.ChatID(request) }

// IgnoredHeader names the parts of a request that had no effect.
const IgnoredHeader = "X-Ignored-Fields"

// Headers names what was left out of the request.
func (a *answer) Headers(set func(name, value string)) {
	if a.ignored != "" {
		set(IgnoredHeader, a.ignored)
	}
}

// Past says which tokens the prompt begins with; nil: it is rendered.
func (a *answer) Past() *openai.Past { return a.past }

// Form is server-sent events. A silent stream gets a blank line, which some clients need in
// place of a comment.
func (a *answer) Form() (contentType, heartbeat string) {
	return "text/event-stream; charset=utf-8", api.Heartbeat
}

// Held returns the bytes that the answer keeps of its request. The response is made from them up to
// twice at a time, for the client and for the store.
func (a *answer) Held() int64 {
	n := 3 * int64(len(a.echo)+len(a.metadata))
	for i := range a.tools {
		t := &a.tools[i]
		n += toolBytes + int64(len(t.name)+len(t.own)+len(t.namespace))
	}
	if a.past != nil {
		n += 4 * int64(len(a.past.IDs))
	}
	if k := a.keep; k != nil {
		n += 3*int64(len(k.items)+len(k.messages)) + 2*int64(len(k.body))
	}
	return n
}

// toolBytes is what a tool takes beside its texts.
const toolBytes = 256

// note says what is to be said about the prompt of a response that continues an earlier one.
func (a *answer) note() string {
	if a.past == nil {
		return ""
	}
	return string(a.past.Outcome)
}

// meet takes what is known when the answer begins.
func (a *answer) meet(w *openai.Whole) {
	a.created, a.model = w.Meta.Created, w.Meta.Model
}

// Whole appends the response.
func (a *answer) Whole(dst []byte, w *openai.Whole) []byte {
	a.meet(w)
	if w.Thought != nil && *w.Thought != "" {
		it := a.add(thoughtItem)
		it.text = []byte(*w.Thought)
	}
	if w.Content != nil && (*w.Content != "" || len(a.items) == 0 && len(w.Calls) == 0) {
		it := a.add(messageItem)
		it.text, it.logprobs = []byte(*w.Content), w.Logprobs
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		it := a.addCall(c.ID, c.Name)
		it.text = []byte(c.Arguments)
		if it.kind == customItem {
			it.text = unwrapInput(it.text)
		}
	}
	for i := range a.items {
		a.items[i].status = completed
	}
	s := a.last(w)
	a.store(&s, w)
	return a.appendResponse(dst, &s)
}

// last is the state of a response whose items are complete.
func (a *answer) last(w *openai.Whole) state {
	s := state{status: completed, output: a.items, usage: &w.Usage, done: a.h.now().Unix()}
	if w.Finish == finishLength {
		s.status, s.reason, s.done = incomplete, "max_output_tokens", 0
		if n := len(a.items); n > 0 {
			a.items[n-1].status = incomplete
		}
	}
	return s
}

// finishLength is the finish_reason of a chat completion that its limit has ended.
const finishLength = "length"

// add adds an item to the output.
func (a *answer) add(kind itemKind) *item {
	a.items = append(a.items, item{kind: kind, id: fmt.Sprintf("%s%s%02x", prefixes[kind], a.number, len(a.items)), status: inProgress})
	return &a.items[len(a.items)-1]
}

// addCall adds a call to the output.
func (a *answer) addCall(id, name string) *item {
	kind := functionItem
	i := slices.IndexFunc(a.tools, func(t tool) bool { return t.name == name })
	if i >= 0 && a.tools[i].custom {
		kind = customItem
	}
	it := a.add(kind)
	it.callID, it.name = id, name
	if i >= 0 {
		it.tool = &a.tools[i]
	}
	return it
}

// event begins an event. end ends it.
func (a *answer) event(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(append(dst, "\ndata: {\"type\":\""...), name...), `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(a.sequence), 10)
	a.sequence++
	return dst
}

func end(dst []byte) []byte { return append(dst, "}\n\n"...) }

// whole appends an event that has the response.
func (a *answer) whole(dst []byte, name string, s *state) []byte {
	return end(a.appendResponse(append(a.event(dst, name), `,"response":`...), s))
}

// Open appends the first two events.
func (a *answer) Open(dst []byte, w *openai.Whole) []byte {
	a.meet(w)
	s := state{status: inProgress}
	return a.whole(a.whole(dst, "response.created", &s), "response.in_progress", &s)
}

// Delta appends the events of a piece.
func (a *answer) Delta(dst []byte, d *openai.Delta) []byte {
	for i := range d.Logprobs {
		l := d.Logprobs[i]
		l.Top = slices.Clone(l.Top)
		a.pending = append(a.pending, l)
	}
	if len(d.Thought) > 0 {
		dst = a.think(a.open(dst, thoughtItem), d.Thought)
	}
	if len(d.Content) > 0 {
		dst = a.say(a.open(dst, messageItem), d.Content)
	}
	for i := range d.Calls {
		dst = a.call(dst, &d.Calls[i])
	}
	return dst
}

// open makes sure that the last item is one of a kind, and not complete.
func (a *answer) open(dst []byte, kind itemKind) []byte {
	if n := len(a.items); a.live && a.items[n-1].kind == kind {
		return dst
	}
	dst = a.finish(dst, completed)
	a.add(kind)
	return a.added(dst)
}

// added appends the events that begin the last item.
func (a *answer) added(dst []byte) []byte {
	a.live = true
	it := &a.items[len(a.items)-1]
	dst = a.where(a.event(dst, "response.output_item.added"), nil)
	dst = end(a.appendItem(append(dst, `,"item":`...), it, true))
	switch {
	case it.kind == thoughtItem && a.summary:
		dst = a.where(a.event(dst, "response.reasoning_summary_part.added"), it)
		dst = end(append(dst, `,"summary_index":0,"part":{"type":"summary_text","text":""}`...))
	case it.kind == thoughtItem:
		dst = a.where(a.event(dst, "response.content_part.added"), it)
		dst = end(append(dst, `,"content_index":0,"part":{"type":"reasoning_text","text":""}`...))
	case it.kind == messageItem:
		dst = a.where(a.event(dst, "response.content_part.added"), it)
		dst = end(a.appendPart(append(dst, `,"content_index":0,"part":`...), nil, nil))
	}
	return dst
}

// where appends where the last item is in the output, and with it the id of it.
func (a *answer) where(dst []byte, it *item) []byte {
	if it != nil {
		dst = append(append(append(dst, `,"item_id":"`...), it.id...), '"')
	}
	return strconv.AppendInt(append(dst, `,"output_index":`...), int64(len(a.items)-1), 10)
}

// think appends the event of a piece of a thought.
func (a *answer) think(dst, text []byte) []byte {
	it := &a.items[len(a.items)-1]
	it.text = append(it.text, text...)
	if a.summary {
		dst = append(a.where(a.event(dst, "response.reasoning_summary_text.delta"), it), `,"summary_index":0,"delta":`...)
	} else {
		dst = append(a.where(a.event(dst, "response.reasoning_text.delta"), it), `,"content_index":0,"delta":`...)
	}
	return end(appendBytes(dst, text))
}

// say appends the event of a piece of a text.
func (a *answer) say(dst, text []byte) []byte {
	it := &a.items[len(a.items)-1]
	it.text = append(it.text, text...)
	dst = append(a.where(a.event(dst, "response.output_text.delta"), it), `,"content_index":0,"delta":`...)
	dst = append(appendBytes(dst, text), `,"logprobs":`...)
	dst = end(appendLogprobs(dst, a.pending))
	it.logprobs = append(it.logprobs, a.pending...)
	a.pending = a.pending[:0]
	return dst
}

// call appends the events of a piece of a call.
func (a *answer) call(dst []byte, c *api.CallDelta) []byte {
	if c.Name != "" {
		dst = a.finish(dst, completed)
		a.addCall(c.ID, c.Name)
		a.input = inputText{}
		dst = a.added(dst)
	}
	if !a.live {
		return dst
	}
	it := &a.items[len(a.items)-1]
	piece := c.Arguments
	if it.kind == customItem {
		piece = a.input.next(piece)
	}
	if it.text = append(it.text, piece...); len(piece) > 0 {
		name := "response.function_call_arguments.delta"
		if it.kind == customItem {
			name = "response.custom_tool_call_input.delta"
		}
		dst = end(appendBytes(append(a.where(a.event(dst, name), it), `,"delta":`...), piece))
	}
	if c.End {
		dst = a.finish(dst, completed)
	}
	return dst
}

// finish appends the events that end the last item, if it is not complete.
func (a *answer) finish(dst []byte, status string) []byte {
	if !a.live {
		return dst
	}
	a.live = false
	it := &a.items[len(a.items)-1]
	it.status = status
	switch {
	case it.kind == thoughtItem && a.summary:
		dst = append(a.where(a.event(dst, "response.reasoning_summary_text.done"), it), `,"summary_index":0,"text":`...)
		dst = end(appendBytes(dst, it.text))
		dst = append(a.where(a.event(dst, "response.reasoning_summary_part.done"), it), `,"summary_index":0,"part":{"type":"summary_text","text":`...)
		dst = end(append(appendBytes(dst, it.text), '}'))
	case it.kind == thoughtItem:
		dst = append(a.where(a.event(dst, "response.reasoning_text.done"), it), `,"content_index":0,"text":`...)
		dst = end(appendBytes(dst, it.text))
		dst = append(a.where(a.event(dst, "response.content_part.done"), it), `,"content_index":0,"part":{"type":"reasoning_text","text":`...)
		dst = end(append(appendBytes(dst, it.text), '}'))
	case it.kind == messageItem:
		dst = append(a.where(a.event(dst, "response.output_text.done"), it), `,"content_index":0,"text":`...)
		dst = append(appendBytes(dst, it.text), `,"logprobs":`...)
		dst = end(appendLogprobs(dst, it.logprobs))
		dst = append(a.where(a.event(dst, "response.content_part.done"), it), `,"content_index":0,"part":`...)
		dst = end(a.appendPart(dst, it.text, it.logprobs))
	case it.kind == customItem:
		if rest := a.input.rest(); len(rest) > 0 { // what the model wrote is not of the form that was asked for
			it.text = append(it.text, rest...)
			dst = end(appendBytes(append(a.where(a.event(dst, "response.custom_tool_call_input.delta"), it), `,"delta":`...), rest))
		}
		dst = append(a.where(a.event(dst, "response.custom_tool_call_input.done"), it), `,"input":`...)
		dst = end(appendBytes(dst, it.text))
	default:
		dst = append(a.where(a.event(dst, "response.function_call_arguments.done"), it), `,"name":`...)
		dst = append(jsontext.AppendString(dst, it.shown()), `,"arguments":`...)
		dst = end(appendBytes(dst, it.text))
	}
	dst = a.where(a.event(dst, "response.output_item.done"), nil)
	return end(a.appendItem(append(dst, `,"item":`...), it, false))
}

// Close appends the last events, of which the last has the whole response.
func (a *answer) Close(dst []byte, w *openai.Whole) []byte {
	dst, s := a.ending(dst, w)
	a.store(&s, w)
	return a.whole(dst, "response."+s.status, &s)
}

// ending appends the events before the last one, and returns what that has.
func (a *answer) ending(dst []byte, w *openai.Whole) ([]byte, state) {
	status := completed
	if w.Finish == finishLength {
		status = incomplete
	}
	if len(a.items) == 0 && w.Content != nil {
		dst = a.open(dst, messageItem)
	}
	dst = a.finish(dst, status)
	return dst, a.last(w)
}

// Broken appends the events of an error. The clients of this interface look for either.
func (a *answer) Broken(dst []byte, f failure.Failure) []byte {
	code := codeOf(f)
	dst = a.errorEvent(dst, code, f.Message)
	s := state{status: failed, fault: f.Message, code: code, output: a.broken()}
	if !f.Gone() {
		a.store(&s, nil)
	}
	return a.whole(dst, "response.failed", &s)
}

// codeOf is the code of a failure in the middle of an answer.
func codeOf(f failure.Failure) string {
	if f.Status == 429 || f.Status == 503 {
		return "rate_limit_exceeded"
	}
	return "server_error"
}

// errorEvent appends the event of an error.
func (a *answer) errorEvent(dst []byte, code, message string) []byte {
	dst = jsontext.AppendString(append(a.event(dst, "error"), `,"code":`...), code)
	dst = jsontext.AppendString(append(dst, `,"message":`...), message)
	return end(append(dst, `,"param":null`...))
}

// broken returns the items of an answer that goes no further. The last one is incomplete.
func (a *answer) broken() []item {
	if n := len(a.items); a.live {
		a.items[n-1].status = incomplete
	}
	return a.items
}

// view is a text that shares the memory of b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// own copies what an answer keeps of a request.
func own(v api.Raw) api.Raw { return bytes.Clone(v) }
