package api

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// CompletionID makes the id of an answer of /v1/completions from the id of its
// request.
func CompletionID(request string) string { return "cmpl-" + request }

// TextLogprobs are the scores of consecutive tokens of a choice in the form of
// /v1/completions. Top of an entry is the token itself and then the best others.
type TextLogprobs struct {
	Entries []Logprob
	// Unscored says that the first entry is the first token of a prompt, which
	// nothing predicts: its scores are null.
	Unscored bool
	Offset   TextOffset // of the first entry
}

// TextOffset is a place in the text of a choice, after any number of tokens. A token may
// end inside a character, which counts with the token that completes it.
type TextOffset struct {
	characters int // complete ones
	begun      [utf8.UTFMax]byte
	n          int // begun[:n] are the first bytes of the next character
}

// After returns the place after one more token.
func (o TextOffset) After(token string) TextOffset {
	for i := 0; i < len(token) && o.n > 0; {
		o.begun[o.n] = token[i] // a character has begun, so that there is room for one byte
		o.n, i = o.n+1, i+1
		if !utf8.FullRune(o.begun[:o.n]) {
			if i == len(token) {
				return o
			}
			continue
		}
		// Either the character is complete, or its bytes are none: then each of them but
		// the last is one by itself, and the last may begin another.
		if r, size := utf8.DecodeRune(o.begun[:o.n]); r != utf8.RuneError || size > 1 {
			o.characters++
			token = token[i:]
		} else {
			o.characters += o.n - 1
			token = token[i-1:]
		}
		o.n = 0
	}
	for len(token) > 0 {
		if !utf8.FullRuneInString(token) {
			o.n = copy(o.begun[:], token)
			break
		}
		_, size := utf8.DecodeRuneInString(token)
		o.characters++
		token = token[size:]
	}
	return o
}

// End is the place after the last entry.
func (l *TextLogprobs) End() TextOffset {
	at := l.Offset
	for i := range l.Entries {
		at = at.After(l.Entries[i].Text)
	}
	return at
}

// TextChoice is a choice of /v1/completions, or what a chunk says of it.
type TextChoice struct {
	Index             int
	Text              string
	Logprobs          *TextLogprobs // nil: null
	FinishReason      string        // "": null
	StopReason        StopReason
	TokenIDs          []int32 // sent if the form says so
	PromptTokenIDs    []int32 // sent if the form says so; in a chunk nil is null
	PromptLogprobs    []PromptLogprob
	HasPromptLogprobs bool // false: prompt_logprobs is null
	First             bool // of a chunk: it is the first one of its stream
}

// TextResponse is a non-streaming answer of /v1/completions.
type TextResponse struct {
	Choices []TextChoice
	Usage   Usage

	KVTransferParams Raw // nil: null
}

// AppendTextResponse appends the body of a non-streaming answer, every key of
// docs/interface/chat-completions.md, section 17.3, null where there is nothing to say.
func AppendTextResponse(dst []byte, meta Meta, form Form, r *TextResponse) []byte {
	dst = appendTextHead(dst, meta)
	for i := range r.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &r.Choices[i]
		dst = form.appendText(dst, c)
		dst = append(dst, `,"token_ids":`...)
		dst = form.appendIDs(dst, c.TokenIDs)
		dst = append(dst, `,"prompt_logprobs":`...)
		if c.HasPromptLogprobs {
			dst = appendPromptLogprobs(dst, c.PromptLogprobs)
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = form.appendIDs(dst, c.PromptTokenIDs)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"service_tier":null,"system_fingerprint":`...)
	if meta.Fingerprint == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, meta.Fingerprint)
	}
	dst = append(dst, `,"usage":`...)
	dst = form.appendUsage(dst, r.Usage, wholeUsage)
	dst = appendTransfer(dst, r.KVTransferParams)
	return append(form.appendWarnings(dst), '}')
}

// appendTextHead appends what an answer and its chunks begin with.
func appendTextHead(dst []byte, meta Meta) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, meta.ID)
	dst = append(dst, `,"object":"text_completion","created":`...)
	dst = strconv.AppendInt(dst, meta.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = AppendString(dst, meta.Model)
	return append(dst, `,"choices":[`...)
}

// appendText appends what choices and their chunks have in common.
func (f *Form) appendText(dst []byte, c *TextChoice) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.Index), 10)
	dst = append(dst, `,"text":`...)
	dst = AppendString(dst, c.Text)
	dst = append(dst, `,"logprobs":`...)
	if c.Logprobs == nil {
		dst = append(dst, "null"...)
	} else {
		dst = f.appendTextLogprobs(dst, c.Logprobs)
	}
	dst = append(dst, `,"finish_reason":`...)
	if c.FinishReason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, c.FinishReason)
	}
	dst = append(dst, `,"stop_reason":`...)
	return c.StopReason.append(dst)
}

func (f *Form) appendTextLogprobs(dst []byte, l *TextLogprobs) []byte {
	at := l.Offset
	dst = f.appendColumn(append(dst, `{"text_offset":[`...), l, func(dst []byte, e *Logprob, _ bool) []byte {
		dst = strconv.AppendInt(dst, int64(at.characters), 10)
		at = at.After(e.Text)
		return dst
	})
	dst = f.appendColumn(append(dst, `],"token_logprobs":[`...), l, func(dst []byte, e *Logprob, scored bool) []byte {
		if !scored {
			return append(dst, "null"...)
		}
		return AppendLogprob(dst, e.Logprob)
	})
	dst = f.appendColumn(append(dst, `],"tokens":[`...), l, func(dst []byte, e *Logprob, _ bool) []byte {
		return f.appendName(dst, &e.TokenLogprob)
	})
	dst = f.appendColumn(append(dst, `],"top_logprobs":[`...), l, func(dst []byte, e *Logprob, scored bool) []byte {
		if !scored {
			return append(dst, "null"...)
		}
		return f.appendAlternatives(dst, e.Top)
	})
	return append(dst, `]}`...)
}

func (f *Form) appendColumn(dst []byte, l *TextLogprobs, cell func(dst []byte, e *Logprob, scored bool) []byte) []byte {
	for i := range l.Entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = cell(withRoom(dst), &l.Entries[i], i > 0 || !l.Unscored)
	}
	return dst
}

// appendAlternatives appends an object by the tokens' names. Several tokens may
// have one: pieces of characters are all U+FFFD. The first of them stays, which
// is the token itself or the most probable; a name must not come twice.
func (f *Form) appendAlternatives(dst []byte, top []TokenLogprob) []byte {
	const few = 64 // beyond, comparing each with each takes longer than a map
	var known map[string]bool
	if len(top) > few {
		known = make(map[string]bool, len(top))
	}
	dst = append(dst, '{')
	for i := range top {
		switch {
		case f.TokensAsIDs: // no two have one
		case known != nil:
			name := string(AppendString(nil, top[i].Text))
			if known[name] {
				continue
			}
			known[name] = true
		case slices.ContainsFunc(top[:i], func(t TokenLogprob) bool { return sameString(t.Text, top[i].Text) }):
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = f.appendName(dst, &top[i])
		dst = append(dst, ':')
		dst = AppendLogprob(dst, top[i].Logprob)
	}
	return append(dst, '}')
}

// sameString reports whether AppendString makes the same of both.
func sameString(a, b string) bool {
	for len(a) > 0 && len(b) > 0 {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return false
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) == len(b)
}

// appendName appends what a token is called in logprobs.
func (f *Form) appendName(dst []byte, t *TokenLogprob) []byte {
	if f.TokensAsIDs {
		dst = append(dst, `"token_id:`...)
		dst = strconv.AppendInt(dst, int64(t.ID), 10)
		return append(dst, '"')
	}
	return AppendString(dst, t.Text)
}

// TextStream encodes the events of a streaming answer of /v1/completions: chunks,
// of which the last of each choice has a FinishReason; AppendUsage if asked for;
// Done. It is read-only after NewTextStream.
type TextStream struct {
	form Form
	head []byte // data: {...,"choices":[
}

// NewTextStream prepares the events of an answer.
func NewTextStream(meta Meta, form Form) *TextStream {
	return &TextStream{form: form, head: appendTextHead([]byte("data: "), meta)}
}

// AppendChunk appends an event with text, or the last of a choice, in which
// every key is present. u is the usage of the choice so far, sent if the form
// says so.
func (s *TextStream) AppendChunk(dst []byte, c *TextChoice, u Usage) []byte {
	dst = append(dst, s.head...)
	dst = s.form.appendText(dst, c)
	dst = append(dst, `,"prompt_token_ids":`...)
	if c.PromptTokenIDs == nil {
		dst = append(dst, "null"...)
	} else {
		dst = s.form.appendIDs(dst, c.PromptTokenIDs)
	}
	dst = append(dst, `,"token_ids":`...)
	dst = s.form.appendIDs(dst, c.TokenIDs)
	dst = append(dst, `}],"usage":`...)
	if s.form.ContinuousUsage {
		dst = s.form.appendUsage(dst, u, chunkUsage)
	} else {
		dst = append(dst, "null"...)
	}
	if c.First {
		dst = s.form.appendWarnings(dst)
	}
	return append(dst, "}\n\n"...)
}

// AppendUsage appends the event with the usage of all choices together.
func (s *TextStream) AppendUsage(dst []byte, u Usage) []byte {
	dst = append(dst, s.head...)
	dst = append(dst, `],"usage":`...)
	dst = s.form.appendUsage(dst, u, streamUsage)
	return append(dst, "}\n\n"...)
}
