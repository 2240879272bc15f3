package api

import "weir/internal/jsontext"

// Raw is a JSON value as the client sent it: syntax, UTF-8 and depth are checked, the
// order of members and the spelling of numbers (1 or 1.0) are kept. It points into the
// request body. A nil Raw is a value that is absent.
type Raw = jsontext.Value

// Message is one entry of messages, reduced to what a chat template may see
// (docs/interface/chat-completions.md, section 3.1): everything else on a message is dropped.
type Message struct {
	Role       string
	Content    Content
	Name       *string    // nil: absent
	ToolCalls  []ToolCall // assistant
	ToolCallID *string    // tool
	Reasoning  *string    // assistant; "reasoning" or its alias "reasoning_content"
	Tools      Raw        // developer; nil: absent or null
}

// Content is a message's content: a string, a list of parts, or neither.
type Content struct {
	Kind  ContentKind
	Text  string // Kind ContentText
	Parts []Part // Kind ContentParts
}

// ContentKind tells the shapes of content apart.
type ContentKind uint8

const (
	ContentAbsent ContentKind = iota // absent or null
	ContentText
	ContentParts
)

// Part is one content part. Text, input_text, output_text, refusal, thinking
// and bare strings all arrive as Text.
type Part struct {
	Type  string // as sent; "text" for a bare string
	Text  string
	Media bool // image, audio or video: nothing of its payload is kept
}

// ToolCall is a call that an assistant message of the history made. Arguments
// is the JSON text inside the string that the client sent, if that is an object;
// otherwise it is empty.
type ToolCall struct {
	ID        string
	Name      string
	Arguments Raw
}
