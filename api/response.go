package api

import "strconv"

// Meta is what all objects of one answer repeat.
type Meta struct {
	ID          string // with its prefix, see ChatID
	Created     int64  // unix seconds
	Model       string // the first served name, not the alias that was asked for
	Fingerprint string // of the build, weights and device; "": null
}

// PooledID makes the id of an answer of vectors or scores from the id of its request, and from what the answer is:
// embd, score, classify or pooling.
func PooledID(kind, request string) string { return kind + "-" + request }

// ChatID makes the id of an answer from the id of its request.
func ChatID(request string) string { return "chatcmpl-" + request }

// ReasoningField says under which name reasoning text is sent.
type ReasoningField uint8

const (
	ReasoningOnly        ReasoningField = iota // reasoning
	ReasoningContentOnly                       // reasoning_content, the older name
	ReasoningBoth                              // the same text under both
)

// ParseReasoningField reads the setting: reasoning, reasoning_content or both.
func ParseReasoningField(s string) (ReasoningField, bool) {
	switch s {
	case "reasoning":
		return ReasoningOnly, true
	case "reasoning_content":
		return ReasoningContentOnly, true
	case "both":
		return ReasoningBoth, true
	}
	return 0, false
}

// Form is what the client and the server's settings want to see in an answer.
type Form struct {
	Reasoning       ReasoningField
	TokensAsIDs     bool    // return_tokens_as_token_ids
	TokenIDs        bool    // return_token_ids
	HideOutputIDs   bool    // those of the output are null all the same: they would tell hidden thoughts
	ContinuousUsage bool    // usage in every chunk of a stream
	NoPromptDetails bool    // no prompt_tokens_details in the usage; null where every key is there
	Thoughts        bool    // the usage tells how many tokens are reasoning
	PromptText      *string // return_prompt_text: what the prompt was rendered to; nil: null
	// Warnings say which parts of the request's constraint are not kept as they are written. They
	// are sent with an answer that is not a stream and with the first chunk of one; if there
	// are none, there is no such key.
	Warnings []string
}

// Usage counts tokens. Cached is the part of Prompt that the prefix cache had, Reasoning
// the part of Completion that is thought.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
}

// TokenLogprob is a token with its log-probability. Text is the token decoded
// alone, special tokens visible; it may be a piece of a character.
type TokenLogprob struct {
	ID      int32
	Logprob float32 // natural logarithm; below -9999 and NaN are sent as -9999.0
	Text    string
}

// Logprob reports one generated token. Top is in the order to be sent: the
// token itself first, then the best others (docs/interface/chat-completions.md, section 7.2).
type Logprob struct {
	TokenLogprob
	Top []TokenLogprob
}

// PromptLogprob reports one prompt token, with its 1-based rank among the
// vocabulary. Top holds the tokens of ranks 1, 2, ...; the prompt's own may be
// among them.
type PromptLogprob struct {
	TokenLogprob
	Rank int
	Top  []TokenLogprob
}

// StopReason says what stopped a choice beyond finish_reason: nothing to add, a
// stop token or a text. The zero value is null.
type StopReason struct {
	kind  stopKind
	token int32
	text  string
}

type stopKind uint8

const (
	stopNull stopKind = iota
	stopToken
	stopText
)

// StoppedBy is the reason of a choice that a stop token ended.
func StoppedBy(token int32) StopReason { return StopReason{kind: stopToken, token: token} }

// StoppedByText is the reason of a choice that a stop string ended, or the word
// for one that repetition detection ended.
func StoppedByText(s string) StopReason { return StopReason{kind: stopText, text: s} }

// Text returns the text that stopped a choice; ok is false if none did.
func (s StopReason) Text() (text string, ok bool) { return s.text, s.kind == stopText }

// Token returns the token that stopped a choice; ok is false if none did, or only one that ends every output.
func (s StopReason) Token() (id int32, ok bool) { return s.token, s.kind == stopToken }

func (s StopReason) append(dst []byte) []byte {
	switch s.kind {
	case stopToken:
		return strconv.AppendInt(dst, int64(s.token), 10)
	case stopText:
		return AppendString(dst, s.text)
	}
	return append(dst, "null"...)
}

// Values of finish_reason, and the stop_reason that belongs to FinishRepetition.
const (
	FinishStop       = "stop"
	FinishLength     = "length"
	FinishRepetition = "repetition"
	FinishAbort      = "abort"
	FinishCalls      = "tool_calls"

	RepetitionDetected = "repetition_detected"
)

// Choice is one finished choice of a non-streaming answer.
type Choice struct {
	Index        int
	Role         string
	Content      *string // nil: null, when all text is reasoning
	Reasoning    *string // nil: null
	Logprobs     []Logprob
	HasLogprobs  bool // false: logprobs is null
	FinishReason string
	StopReason   StopReason
	TokenIDs     []int32 // sent if the form says so
	Calls        []AnswerCall
}

// AnswerCall is a call of a tool that a model has written. Arguments is the text of a JSON
// value, of which an output that was cut has the beginning.
type AnswerCall struct {
	ID, Name, Arguments string
}

// CallDelta is a piece of a call in a stream. ID and Name are in the first piece of a call.
type CallDelta struct {
	Index     int // of the call in its choice
	ID, Name  string
	Arguments []byte
	End       bool // the call is complete
}

// Response is a non-streaming answer.
type Response struct {
	Choices           []Choice
	Usage             Usage
	PromptLogprobs    []PromptLogprob // one per prompt token; the first is sent as null
	HasPromptLogprobs bool            // false: prompt_logprobs is null
	PromptTokenIDs    []int32         // sent if the form says so
	KVTransferParams  Raw             // nil: null
}

// AppendResponse appends the body of a non-streaming answer: every key of
// docs/interface/chat-completions.md, section 11, in its order, null where there is nothing
// to say.
func AppendResponse(dst []byte, meta Meta, form Form, r *Response) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, meta.ID)
	dst = append(dst, `,"object":"chat.completion","created":`...)
	dst = strconv.AppendInt(dst, meta.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = AppendString(dst, meta.Model)
	dst = append(dst, `,"choices":[`...)
	for i := range r.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = form.AppendChoice(dst, &r.Choices[i])
	}
	dst = append(dst, `],"service_tier":null,"system_fingerprint":`...)
	if meta.Fingerprint == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, meta.Fingerprint)
	}
	dst = append(dst, `,"usage":`...)
	dst = form.appendUsage(dst, r.Usage, wholeUsage)
	dst = append(dst, `,"prompt_logprobs":`...)
	if r.HasPromptLogprobs {
		dst = appendPromptLogprobs(dst, r.PromptLogprobs)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"prompt_token_ids":`...)
	dst = form.appendIDs(dst, r.PromptTokenIDs)
	dst = append(dst, `,"prompt_text":`...)
	dst = appendStringOrNull(dst, form.PromptText)
	dst = appendTransfer(dst, r.KVTransferParams)
	return append(form.appendWarnings(dst), '}')
}

// appendTransfer appends the member kv_transfer_params.
func appendTransfer(dst []byte, params Raw) []byte {
	dst = append(dst, `,"kv_transfer_params":`...)
	if params == nil {
		return append(dst, "null"...)
	}
	return append(dst, params...)
}

// AppendChoice appends an element of choices.
func (f *Form) AppendChoice(dst []byte, c *Choice) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.Index), 10)
	dst = append(dst, `,"message":{"role":`...)
	dst = AppendString(dst, c.Role)
	dst = append(dst, `,"content":`...)
	dst = appendStringOrNull(dst, c.Content)
	dst = append(dst, `,"refusal":null,"annotations":null,"audio":null,"function_call":null`...)
	dst = appendCalls(dst, c.Calls)
	if f.Reasoning != ReasoningContentOnly {
		dst = append(dst, `,"reasoning":`...)
		dst = appendStringOrNull(dst, c.Reasoning)
	}
	if f.Reasoning != ReasoningOnly {
		dst = append(dst, `,"reasoning_content":`...)
		dst = appendStringOrNull(dst, c.Reasoning)
	}
	dst = append(dst, `},"logprobs":`...)
	if c.HasLogprobs {
		dst = f.appendLogprobs(dst, c.Logprobs)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"finish_reason":`...)
	dst = AppendString(dst, c.FinishReason)
	dst = append(dst, `,"stop_reason":`...)
	dst = c.StopReason.append(dst)
	dst = append(dst, `,"token_ids":`...)
	dst = f.appendOutputIDs(dst, c.TokenIDs)
	return append(dst, '}')
}

// appendCalls appends the member tool_calls, if there are any.
func appendCalls(dst []byte, calls []AnswerCall) []byte {
	for i := range calls {
		c := &calls[i]
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"id":`...), c.ID)
		dst = AppendString(append(dst, `,"type":"function","function":{"name":`...), c.Name)
		dst = AppendString(append(dst, `,"arguments":`...), c.Arguments)
		dst = append(dst, "}}"...)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// usageOf says where a usage stands: its details differ.
type usageOf uint8

const (
	chunkUsage  usageOf = iota // of a choice so far, in a chunk
	streamUsage                // of all choices, at the end of a stream
	wholeUsage                 // of an answer that is not a stream: every key is there
)

func (f *Form) appendUsage(dst []byte, u Usage, of usageOf) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt+u.Completion), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Completion), 10)
	switch {
	case of != chunkUsage && !f.NoPromptDetails:
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.Cached), 10)
		dst = append(dst, '}')
	case of == wholeUsage:
		dst = append(dst, `,"prompt_tokens_details":null`...)
	}
	switch {
	case f.Thoughts:
		dst = append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.Reasoning), 10)
		dst = append(dst, '}')
	case of == wholeUsage:
		dst = append(dst, `,"completion_tokens_details":null`...)
	}
	return append(dst, '}')
}

// appendWarnings appends the key warnings, after another key, if there are any.
func (f *Form) appendWarnings(dst []byte) []byte {
	for i, w := range f.Warnings {
		if i == 0 {
			dst = append(dst, `,"warnings":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, w)
	}
	if len(f.Warnings) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func (f *Form) appendIDs(dst []byte, ids []int32) []byte {
	if !f.TokenIDs {
		return append(dst, "null"...)
	}
	return appendIDs(dst, ids)
}

func (f *Form) appendOutputIDs(dst []byte, ids []int32) []byte {
	if f.HideOutputIDs {
		return append(dst, "null"...)
	}
	return f.appendIDs(dst, ids)
}

func (f *Form) appendLogprobs(dst []byte, entries []Logprob) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		e := &entries[i]
		dst = f.appendToken(withRoom(dst), &e.TokenLogprob)
		dst = appendBytes(dst, e.Text)
		dst = append(dst, `,"top_logprobs":[`...)
		for j := range e.Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = f.appendToken(dst, &e.Top[j])
			if f.TokensAsIDs {
				// The reference gives the alternatives, and only them, the bytes of
				// what token says (docs/interface/chat-completions.md, section 7.2).
				dst = appendIDBytes(dst, e.Top[j].ID)
			} else {
				dst = appendBytes(dst, e.Top[j].Text)
			}
			dst = append(dst, '}')
		}
		dst = append(dst, `]}`...)
	}
	return append(dst, `]}`...)
}

// appendToken appends an entry up to where its bytes go.
func (f *Form) appendToken(dst []byte, t *TokenLogprob) []byte {
	dst = append(dst, `{"token":`...)
	dst = f.appendName(dst, t)
	dst = append(dst, `,"logprob":`...)
	dst = AppendLogprob(dst, t.Logprob)
	return append(dst, `,"bytes":`...)
}

func appendBytes(dst []byte, s string) []byte {
	dst = append(dst, '[')
	for i := range len(s) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(s[i]), 10)
	}
	return append(dst, ']')
}

func appendIDBytes(dst []byte, id int32) []byte {
	var b [32]byte
	text := strconv.AppendInt(append(b[:0], "token_id:"...), int64(id), 10)
	dst = append(dst, '[')
	for i, c := range text {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(c), 10)
	}
	return append(dst, ']')
}

// appendPromptLogprobs appends null for the first token, which nothing predicts,
// and for each other an object by token id, the prompt's own token first.
func appendPromptLogprobs(dst []byte, entries []PromptLogprob) []byte {
	dst = append(dst, '[')
	for i := range entries {
		if i == 0 {
			dst = append(dst, "null"...)
			continue
		}
		e := &entries[i]
		dst = append(withRoom(dst), `,{`...)
		dst = appendRanked(dst, &e.TokenLogprob, e.Rank)
		for j := range e.Top {
			if e.Top[j].ID != e.ID { // the own token was first; a key must not come twice
				dst = append(dst, ',')
				dst = appendRanked(dst, &e.Top[j], j+1)
			}
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendRanked(dst []byte, t *TokenLogprob, rank int) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendInt(dst, int64(t.ID), 10)
	dst = append(dst, `":{"logprob":`...)
	dst = AppendLogprob(dst, t.Logprob)
	dst = append(dst, `,"rank":`...)
	dst = strconv.AppendInt(dst, int64(rank), 10)
	dst = append(dst, `,"decoded_token":`...)
	dst = AppendString(dst, t.Text)
	return append(dst, '}')
}
