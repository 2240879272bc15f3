package messagesapi

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
	"unsafe"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/jsonfields"
	"weir/server/openai"
)

// answer is the form of one answer. It implements openai.SurfaceAnswer.
type answer struct {
	requestID string // of the HTTP request
	context   int    // tokens of prompt and output together
	asked     int    // max_tokens; 0: the client wants no content
	hidden    bool   // thoughts are in the signature alone
	ignored   jsonfields.Names

	// Tools of the chat by their indexes: those that the model sees in a message and not in
	// front of all, and those that it sees and may not call.
	unlisted, uncallable []int

	keep func(id string, reply []byte) // keeps the conversation for its next turn; nil: nobody asked

	// Of a stream.
	block  block
	index  int       // of the open block, or of the next one
	digest hash.Hash // of the thoughts of the open block, if they are shown
	packed []byte    // the thoughts of the open block, if they are not
}

// block is the kind of a block that a stream has begun and not ended.
type block uint8

const (
	noBlock block = iota
	textBlock
	thinkingBlock
	toolBlock
)

// Changed returns the tools that the model does not see in front of the messages, and those that it may not call.
func (a *answer) Changed() (unlisted, uncallable []int) { return a.unlisted, a.uncallable }

// ID makes the id of a message.
func (a *answer) ID(request string) string { return "msg_" + request }

// Form returns what streams are, and the event that keeps one open.
func (a *answer) Form() (contentType, heartbeat string) {
	return "text/event-stream; charset=utf-8", "event: ping\ndata: {\"type\": \"ping\"}\n\n"
}

// Headers names what of the request had no effect.
func (a *answer) Headers(set func(name, value string)) {
	if s := a.ignored.Header(); s != "" {
		set("X-Ignored-Fields", s)
	}
}

// Whole appends an answer that does not stream.
func (a *answer) Whole(dst []byte, w *openai.Whole) []byte {
	dst = a.head(dst, w)
	from := len(dst)
	dst = a.content(dst, w)
	a.store(w, dst[from:])
	dst = a.appendStop(append(dst, `,"stop_reason":`...), w)
	dst = a.appendUsage(append(dst, `,"usage":`...), w)
	return append(dst, '}')
}

// head appends a message up to its content.
func (a *answer) head(dst []byte, w *openai.Whole) []byte {
	dst = api.AppendString(append(dst, `{"id":`...), w.Meta.ID)
	dst = api.AppendString(append(dst, `,"type":"message","role":"assistant","model":`...), w.Meta.Model)
	return append(dst, `,"content":`...)
}

// content appends the blocks of an answer that is complete.
func (a *answer) content(dst []byte, w *openai.Whole) []byte {
	dst = append(dst, '[')
	if a.asked == 0 {
		return append(dst, ']')
	}
	begun := false
	open := func(s string) {
		if begun {
			dst = append(dst, ',')
		}
		begun = true
		dst = append(dst, s...)
	}
	if w.Thought != nil && *w.Thought != "" {
		open(`{"type":"thinking","thinking":`)
		shown := *w.Thought
		if a.hidden {
			shown = ""
		}
		dst = api.AppendString(dst, shown)
		dst = append(dst, `,"signature":"`...)
		if a.hidden {
			dst = appendKept(dst, []byte(*w.Thought))
		} else {
			sum := sha256.Sum256([]byte(*w.Thought))
			dst = appendDigest(dst, sum[:])
		}
		dst = append(dst, `"}`...)
	}
	if w.Content != nil && *w.Content != "" {
		open(`{"type":"text","text":`)
		dst = append(api.AppendString(dst, *w.Content), '}')
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		open(`{"type":"tool_use","id":`)
		dst = api.AppendString(dst, c.ID)
		dst = api.AppendString(append(dst, `,"name":`...), c.Name)
		dst = append(appendInput(append(dst, `,"input":`...), c.Arguments), '}')
	}
	return append(dst, ']')
}

// appendInput appends the arguments of a call, which are a text, as a value. A text that is not an
// object, because the output was cut or the model has written something else, is put into one, as
// the vendor advises for its own clients.
func appendInput(dst []byte, arguments string) []byte {
	text := []byte(arguments)
	if jsontext.Check(text, jsonfields.MaxDepth) == nil {
		if v := jsontext.Trim(text); jsonfields.Kind(v) == jsontext.Object {
			return append(dst, v...)
		}
	}
	if len(jsontext.Trim(text)) == 0 {
		return append(dst, "{}"...)
	}
	return append(api.AppendString(append(dst, `{"INVALID_JSON":`...), arguments), '}')
}

func appendKept(dst, thoughts []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, kept...), thoughts)
}

func appendDigest(dst, sum []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, "weir-digest."...), sum)
}

// store keeps the conversation with an answer, for its next turn.
func (a *answer) store(w *openai.Whole, content []byte) {
	if a.keep != nil && w.Finish != api.FinishAbort {
		a.keep(w.Meta.ID, content)
	}
}

// appendStop appends the value of stop_reason and the member stop_sequence.
func (a *answer) appendStop(dst []byte, w *openai.Whole) []byte {
	stopped, byText := w.Stop.Text()
	reason := "end_turn"
	switch {
	case w.Finish == api.FinishLength && a.asked > 0 && w.Usage.Completion < a.asked && w.Usage.Prompt+w.Usage.Completion >= a.context:
		reason = "model_context_window_exceeded"
	case w.Finish == api.FinishLength, w.Finish == api.FinishAbort:
		reason = "max_tokens"
	case byText:
		reason = "stop_sequence"
	case len(w.Calls) > 0: // a chat that had to call one tool says that it has stopped
		reason = "tool_use"
	}
	dst = append(append(append(dst, '"'), reason...), `","stop_sequence":`...)
	if reason == "stop_sequence" {
		return api.AppendString(dst, stopped)
	}
	return append(dst, "null"...)
}

// appendUsage appends the counts of tokens. Those that the cache had are not among input_tokens, as
// the vendor counts.
func (a *answer) appendUsage(dst []byte, w *openai.Whole) []byte {
	u := &w.Usage
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(u.Prompt-u.Cached), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...), int64(u.Cached), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens":`...), int64(u.Completion), 10)
	if u.Reasoning > 0 {
		dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"thinking_tokens":`...), int64(u.Reasoning), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// Open appends the event message_start.
func (a *answer) Open(dst []byte, w *openai.Whole) []byte {
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	dst = append(a.head(dst, w), `[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	return append(a.appendUsage(dst, w), "}}\n\n"...)
}

// Delta appends the events of a piece.
func (a *answer) Delta(dst []byte, d *openai.Delta) []byte {
	if len(d.Thought) > 0 {
		dst = a.turnTo(dst, thinkingBlock, `{"type":"thinking","thinking":"","signature":""}`)
		if a.hidden {
			a.packed = append(a.packed, d.Thought...)
		} else {
			a.digest.Write(d.Thought)
			dst = a.piece(dst, `{"type":"thinking_delta","thinking":`, d.Thought)
		}
	}
	if len(d.Content) > 0 {
		dst = a.turnTo(dst, textBlock, `{"type":"text","text":""}`)
		dst = a.piece(dst, `{"type":"text_delta","text":`, d.Content)
	}
	for i := range d.Calls {
		dst = a.call(dst, &d.Calls[i])
	}
	return dst
}

// call appends the events of a piece of a call.
func (a *answer) call(dst []byte, c *api.CallDelta) []byte {
	if c.Name != "" {
		dst = a.end(dst)
		dst = a.start(dst, toolBlock)
		dst = api.AppendString(append(dst, `{"type":"tool_use","id":`...), c.ID)
		dst = api.AppendString(append(dst, `,"name":`...), c.Name)
		dst = append(dst, ",\"input\":{}}}\n\n"...)
	}
	if len(c.Arguments) > 0 {
		dst = a.piece(dst, `{"type":"input_json_delta","partial_json":`, c.Arguments)
	}
	if c.End {
		dst = a.end(dst)
	}
	return dst
}

// turnTo ends the open block and begins another, unless it is one of that kind.
func (a *answer) turnTo(dst []byte, kind block, empty string) []byte {
	if a.block == kind {
		return dst
	}
	dst = a.start(a.end(dst), kind)
	if kind == thinkingBlock && !a.hidden {
		if a.digest == nil {
			a.digest = sha256.New()
		}
		a.digest.Reset()
	}
	return append(append(dst, empty...), "}\n\n"...)
}

func (a *answer) start(dst []byte, kind block) []byte {
	a.block = kind
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	return append(strconv.AppendInt(dst, int64(a.index), 10), `,"content_block":`...)
}

// piece appends the event of a delta.
func (a *answer) piece(dst []byte, head string, text []byte) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = append(strconv.AppendInt(dst, int64(a.index), 10), `,"delta":`...)
	dst = api.AppendString(append(dst, head...), view(text))
	return append(dst, "}}\n\n"...)
}

// end ends the open block, if there is one.
func (a *answer) end(dst []byte) []byte {
	if a.block == noBlock {
		return dst
	}
	if a.block == thinkingBlock {
		dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
		dst = append(strconv.AppendInt(dst, int64(a.index), 10), `,"delta":{"type":"signature_delta","signature":"`...)
		if a.hidden {
			dst = appendKept(dst, a.packed)
			a.packed = a.packed[:0]
		} else {
			var sum [sha256.Size]byte
			dst = appendDigest(dst, a.digest.Sum(sum[:0]))
		}
		dst = append(dst, "\"}}\n\n"...)
	}
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = append(strconv.AppendInt(dst, int64(a.index), 10), "}\n\n"...)
	a.block = noBlock
	a.index++
	return dst
}

// Close appends the events after the last piece.
func (a *answer) Close(dst []byte, w *openai.Whole) []byte {
	dst = a.end(dst)
	if a.keep != nil {
		a.store(w, a.content(nil, w))
	}
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"...)
	dst = append(a.appendStop(dst, w), `},"usage":`...)
	dst = append(a.appendUsage(dst, w), "}\n\n"...)
	return append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// Broken appends the event of an error in the middle of a stream.
func (a *answer) Broken(dst []byte, f failure.Failure) []byte {
	dst = append(dst, "event: error\ndata: "...)
	return append(f.AppendBody(dst), "\n\n"...)
}

// view returns b as a string without a copy. It is valid until b is written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
