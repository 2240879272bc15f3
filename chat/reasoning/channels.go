package reasoning

import "bytes"

// An output in the harmony format is a sequence of messages:
//
//	<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>
//
// The prompt ends in "<|start|>assistant", so that the first header has no beginning. The
// texts of the channel analysis are thought. Those of final and commentary are content: a
// commentary without a recipient is meant for the user, and a call of a tool, which has one
// (to=functions.name), remains text as it does in every other format. Headers and marks are
// neither. An output that does not begin like a header is content as a whole.
const (
	messageMark = "<|message|>"
	finalHeader = "<|channel|>final<|message|>"
	// headerKept is how many bytes of a header are looked at.
	headerKept = 192
	// callHeader and callChannel are around the name of a recipient, where calls are kept, and
	// callEnd follows its message.
	callHeader  = "<|start|>assistant to="
	callChannel = "<|channel|>commentary json<|message|>"
	callEnd     = "<|call|>"
)

var (
	channelTokens = []string{"<|start|>", "<|channel|>", messageMark, "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"}
	// bodyMarks end the text of a message. One that has lost its end is ended by the next
	// header.
	bodyMarks   = []string{"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"}
	headerMarks = []string{messageMark}
	// beginnings are what the first header may begin with.
	beginnings = []string{"<|channel|>", "<|start|>", messageMark, "to="}
)

// channels is the state of an output in the harmony format.
type channels struct {
	header [headerKept]byte // of the message, as far as it is kept
	n      int
}

// KeepCalls leaves the calls of tools in the content, for a reader of calls, in one form however
// the model writes their headers:
//
//	<|start|>assistant to=functions.name<|channel|>commentary json<|message|>{}<|call|>
//
// It matters to the format with channels only, and before the first piece.
func (s *Splitter) KeepCalls() { s.calls = true }

// recipient is whom the message is for, with the name space functions; nil: the user.
func (c *channels) recipient() []byte {
	_, to, ok := bytes.Cut(c.header[:c.n], []byte("to="))
	if i := bytes.IndexAny(to, " <\t\r\n"); i >= 0 {
		to = to[:i]
	}
	if !ok || !bytes.HasPrefix(to, []byte("functions.")) {
		return nil
	}
	return to
}

// keep remembers bytes of a header.
func (c *channels) keep(b []byte) { c.n += copy(c.header[c.n:], b) }

// thinks reports whether the header that is kept is that of thoughts.
func (c *channels) thinks() bool {
	h := c.header[:c.n]
	i := bytes.LastIndex(h, []byte("<|channel|>"))
	return i >= 0 && bytes.HasPrefix(bytes.TrimLeft(h[i+len("<|channel|>"):], blanks), []byte("analysis"))
}
