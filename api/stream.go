package api

import (
	"strconv"
	"unsafe"
)

const (
	// Done ends every stream, also one that failed.
	Done = "data: [DONE]\n\n"
	// Heartbeat keeps a silent stream open. A blank line is the one filler that
	// corrupts no known client; an SSE comment does (docs/interface/chat-completions.md, section 12.1).
	Heartbeat = "\n\n"
)

// Stream encodes the events of one streaming answer (docs/interface/chat-completions.md, section 12). What all its
// chunks repeat is encoded once; a chunk then costs a few copies and allocates
// nothing but what dst may need to grow. A Stream is read-only after NewStream.
//
// A stream is: for each choice AppendRole, then AppendEcho if asked for; chunks,
// of which the last of each choice has a Finish; AppendUsage if asked for; Done.
// After a failure it is Error.AppendEvent and Done.
type Stream struct {
	form  Form
	head  []byte // data: {...,"choices":[
	first []byte // head and the opening of choice 0, up to "delta":{
}

// NewStream prepares the events of an answer.
func NewStream(meta Meta, form Form) *Stream {
	head := append([]byte(nil), `data: {"id":`...)
	head = AppendString(head, meta.ID)
	head = append(head, `,"object":"chat.completion.chunk","created":`...)
	head = strconv.AppendInt(head, meta.Created, 10)
	head = append(head, `,"model":`...)
	head = AppendString(head, meta.Model)
	head = append(head, `,"choices":[`...)
	first := append(append([]byte(nil), head...), `{"index":0,"delta":{`...)
	return &Stream{form: form, head: head, first: first}
}

// Chunk is one event of a choice: the text of one token as a rule.
type Chunk struct {
	Choice    int
	Content   string
	Reasoning string // "": no such key; never null, which some clients read as "no content"
	NoContent bool   // leave the key content out: the text is all reasoning, or a parser swallowed it
	Calls     []CallDelta

	Logprobs    []Logprob
	HasLogprobs bool    // false: logprobs is null
	TokenIDs    []int32 // new ones, sent if the form says so

	Finish string // "": null, and there is no key stop_reason
	Stop   StopReason

	Usage Usage // of this choice so far, sent if the form says so
}

func (s *Stream) open(dst []byte, choice int) []byte {
	if choice == 0 {
		return append(dst, s.first...)
	}
	dst = append(dst, s.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(choice), 10)
	return append(dst, `,"delta":{`...)
}

func (s *Stream) usage(dst []byte, u Usage) []byte {
	if s.form.ContinuousUsage {
		dst = append(dst, `,"usage":`...)
		dst = s.form.appendUsage(dst, u, chunkUsage)
	}
	return dst
}

// AppendRole appends the first event of a choice. It goes out with the first
// token, not before: clients take its arrival for the time to first token.
func (s *Stream) AppendRole(dst []byte, choice int, role string, promptIDs []int32, u Usage) []byte {
	dst = s.open(dst, choice)
	dst = append(dst, `"role":`...)
	dst = AppendString(dst, role)
	dst = append(dst, `,"content":""},"logprobs":null,"finish_reason":null}]`...)
	dst = s.usage(dst, u)
	dst = append(dst, `,"prompt_token_ids":`...)
	dst = s.form.appendIDs(dst, promptIDs)
	dst = append(dst, `,"prompt_text":`...)
	dst = appendStringOrNull(dst, s.form.PromptText)
	if choice == 0 {
		dst = s.form.appendWarnings(dst)
	}
	return append(dst, "}\n\n"...)
}

// AppendEcho appends the event that repeats the last message. The reference
// server leaves the tags of thoughts in content; here thoughts and content are separated, as
// in the rest of the answer.
func (s *Stream) AppendEcho(dst []byte, choice int, reasoning, content string, u Usage) []byte {
	dst = s.open(dst, choice)
	c := Chunk{Content: content, Reasoning: reasoning, NoContent: content == ""}
	dst = s.appendDelta(dst, &c)
	dst = append(dst, `},"logprobs":null,"finish_reason":null}]`...)
	dst = s.usage(dst, u)
	return append(dst, "}\n\n"...)
}

// AppendChunk appends an event with text, or the last event of a choice.
func (s *Stream) AppendChunk(dst []byte, c *Chunk) []byte {
	dst = s.open(dst, c.Choice)
	dst = s.appendDelta(dst, c)
	dst = append(dst, `},"logprobs":`...)
	if c.HasLogprobs {
		dst = s.form.appendLogprobs(dst, c.Logprobs)
	} else {
		dst = append(dst, "null"...)
	}
	if c.Finish == "" {
		dst = append(dst, `,"finish_reason":null,"token_ids":`...)
	} else {
		dst = append(dst, `,"finish_reason":`...)
		dst = AppendString(dst, c.Finish)
		dst = append(dst, `,"stop_reason":`...)
		dst = c.Stop.append(dst)
		dst = append(dst, `,"token_ids":`...)
	}
	dst = s.form.appendOutputIDs(dst, c.TokenIDs)
	dst = append(dst, `}]`...)
	dst = s.usage(dst, c.Usage)
	return append(dst, "}\n\n"...)
}

func (s *Stream) appendDelta(dst []byte, c *Chunk) []byte {
	if len(c.Calls) > 0 {
		dst = appendCallDeltas(dst, c.Calls)
		if !c.NoContent || c.Reasoning != "" {
			dst = append(dst, ',')
		}
	}
	if !c.NoContent {
		dst = append(dst, `"content":`...)
		dst = AppendString(dst, c.Content)
	}
	if c.Reasoning == "" {
		return dst
	}
	if !c.NoContent {
		dst = append(dst, ',')
	}
	if s.form.Reasoning != ReasoningContentOnly {
		dst = append(dst, `"reasoning":`...)
		dst = AppendString(dst, c.Reasoning)
	}
	if s.form.Reasoning == ReasoningBoth {
		dst = append(dst, ',')
	}
	if s.form.Reasoning != ReasoningOnly {
		dst = append(dst, `"reasoning_content":`...)
		dst = AppendString(dst, c.Reasoning)
	}
	return dst
}

// AppendUsage appends the event with the usage of all choices together.
func (s *Stream) AppendUsage(dst []byte, u Usage) []byte {
	dst = append(dst, s.head...)
	dst = append(dst, `],"usage":`...)
	dst = s.form.appendUsage(dst, u, streamUsage)
	return append(dst, "}\n\n"...)
}

// appendCallDeltas appends the member tool_calls. Clients tell calls apart by their index, and
// some take a piece without an id for the rest of the call before it.
func appendCallDeltas(dst []byte, calls []CallDelta) []byte {
	dst = append(dst, `"tool_calls":[`...)
	for i := range calls {
		c := &calls[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(c.Index), 10)
		if c.Name == "" {
			dst = append(dst, `,"function":{"arguments":`...)
		} else {
			dst = AppendString(append(dst, `,"id":`...), c.ID)
			dst = AppendString(append(dst, `,"type":"function","function":{"name":`...), c.Name)
			dst = append(dst, `,"arguments":`...)
		}
		dst = AppendString(dst, unsafe.String(unsafe.SliceData(c.Arguments), len(c.Arguments)))
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}
