package ollamaapi

import (
	"strconv"
	"time"
	"unsafe"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/jsonfields"
	"weir/server/openai"
)

// answer is the form of one answer. It implements openai.SurfaceAnswer.
type answer struct {
	generates bool   // of /api/generate, which has no message
	model     string // as the client has named it
	now       func() time.Time
	begun     time.Time // when the request was there
	first     time.Time // when the first token was there; zero: not yet
	ignored   jsonfields.Names
	plain     *openai.Plain // of a generation; see openai.Plain

	// The call that a stream has begun and not ended.
	name      string
	arguments []byte
}

// ID makes the id of an answer, which records have and clients do not see.
func (a *answer) ID(request string) string { return api.ChatID(request) }

// Form returns what streams are. Clients read each line as JSON, so that nothing keeps one open.
func (a *answer) Form() (contentType, heartbeat string) { return "application/x-ndjson", "" }

// Headers names what of the request had no effect.
func (a *answer) Headers(set func(name, value string)) {
	if s := a.ignored.Header(); s != "" {
		set("X-Ignored-Fields", s)
	}
}

// First notes when the first token is there.
func (a *answer) First() { a.first = a.now() }

// head appends what all objects of an answer begin with.
func (a *answer) head(dst []byte) []byte {
	dst = api.AppendString(append(dst, `{"model":`...), a.model)
	dst = append(dst, `,"created_at":"`...)
	return append(a.now().UTC().AppendFormat(dst, time.RFC3339Nano), '"')
}

// text appends the text of an object, its thoughts if there are any, and its calls.
func (a *answer) text(dst []byte, content, thought string, calls []api.AnswerCall) []byte {
	if a.generates {
		dst = api.AppendString(append(dst, `,"response":`...), content)
	} else {
		dst = api.AppendString(append(dst, `,"message":{"role":"assistant","content":`...), content)
	}
	if thought != "" {
		dst = api.AppendString(append(dst, `,"thinking":`...), thought)
	}
	if a.generates {
		return dst
	}
	for i := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, calls[i].Name, calls[i].Arguments)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendCall(dst []byte, name, arguments string) []byte {
	dst = api.AppendString(append(dst, `{"function":{"name":`...), name)
	return append(appendArguments(append(dst, `,"arguments":`...), arguments), "}}"...)
}

// appendArguments appends the arguments of a call, which are a text, as an object. A text that is
// none, because the output was cut, is put into one.
func appendArguments(dst []byte, arguments string) []byte {
	text := []byte(arguments)
	v := jsontext.Trim(text)
	switch {
	case len(v) == 0:
		return append(dst, "{}"...)
	case jsontext.Check(text, jsonfields.MaxDepth) == nil && v.Kind() == jsontext.Object:
		return append(dst, v...)
	}
	return append(api.AppendString(append(dst, `{"INVALID_JSON":`...), arguments), '}')
}

// Whole appends an answer that does not stream.
func (a *answer) Whole(dst []byte, w *openai.Whole) []byte {
	content, thought := "", ""
	if w.Content != nil {
		content = *w.Content
	}
	if w.Thought != nil {
		thought = *w.Thought
	}
	dst = a.text(a.head(dst), content, thought, w.Calls)
	dst = appendLogprobs(dst, w.Logprobs)
	return a.done(dst, w)
}

// done appends the end of the last object.
func (a *answer) done(dst []byte, w *openai.Whole) []byte {
	reason := "stop"
	if w.Finish == api.FinishLength {
		reason = "length"
	}
	end := a.now()
	first := a.first
	if first.IsZero() {
		first = end
	}
	dst = append(append(append(dst, `,"done":true,"done_reason":"`...), reason...), '"')
	dst = append(a.appendContext(dst, w), `,"total_duration":`...)
	dst = strconv.AppendInt(dst, int64(end.Sub(a.begun)), 10)
	dst = strconv.AppendInt(append(dst, `,"load_duration":0,"prompt_eval_count":`...), int64(w.Usage.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"prompt_eval_duration":`...), int64(first.Sub(a.begun)), 10)
	dst = strconv.AppendInt(append(dst, `,"eval_count":`...), int64(w.Usage.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"eval_duration":`...), int64(end.Sub(first)), 10)
	return append(dst, '}')
}

// Open appends nothing: a stream begins with its first piece.
func (a *answer) Open(dst []byte, _ *openai.Whole) []byte {
	a.First()
	return dst
}

// Delta appends the line of a piece.
func (a *answer) Delta(dst []byte, d *openai.Delta) []byte {
	if len(d.Content)+len(d.Thought)+len(d.Logprobs) > 0 {
		dst = a.text(a.head(dst), view(d.Content), view(d.Thought), nil)
		dst = append(appendLogprobs(dst, d.Logprobs), ",\"done\":false}\n"...)
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		if c.Name != "" {
			dst = a.call(dst) // one that was cut
			a.name = c.Name
		}
		a.arguments = append(a.arguments, c.Arguments...)
		if c.End {
			dst = a.call(dst)
		}
	}
	return dst
}

// call appends the line of the call that was begun, if there is one.
func (a *answer) call(dst []byte) []byte {
	if a.name == "" {
		return dst
	}
	one := [1]api.AnswerCall{{Name: a.name, Arguments: string(a.arguments)}}
	a.name, a.arguments = "", a.arguments[:0]
	return append(a.text(a.head(dst), "", "", one[:]), ",\"done\":false}\n"...)
}

// Close appends the last line.
func (a *answer) Close(dst []byte, w *openai.Whole) []byte {
	dst = a.text(a.head(a.call(dst)), "", "", nil)
	return append(a.done(dst, w), '\n')
}

// Broken appends the line of an error in the middle of a stream.
func (a *answer) Broken(dst []byte, f failure.Failure) []byte { return append(f.AppendBody(dst), '\n') }

// appendLogprobs appends the member logprobs, if there are any.
func appendLogprobs(dst []byte, list []api.Logprob) []byte {
	for i := range list {
		if i == 0 {
			dst = append(dst, `,"logprobs":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendToken(append(dst, '{'), &list[i].TokenLogprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for j := range list[i].Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendToken(append(dst, '{'), &list[i].Top[j]), '}')
		}
		dst = append(dst, "]}"...)
	}
	if len(list) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func appendToken(dst []byte, t *api.TokenLogprob) []byte {
	dst = api.AppendString(append(dst, `"token":`...), t.Text)
	return api.AppendLogprob(append(dst, `,"logprob":`...), t.Logprob)
}

// view returns b as a string without a copy. It is valid until b is written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
