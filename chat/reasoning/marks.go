package reasoning

import "strings"

// Marks are the texts by which one format tells thoughts from the answer. They are compared
// as text, so that it does not matter whether a tokenizer has them as tokens of their own.
// A nil *Marks means the tags of [Think].
type Marks struct {
	// open begins the thoughts and end ends them. Where there are several spellings, models
	// write any of them, and the first is the one that the server writes.
	open, end []string
	// answer and answered are around the answer, which may do without them.
	answer, answered []string
	// line says that a line break after a mark, other than the end of the thoughts of
	// Think, belongs to it.
	line bool
	// channels says that the output is a sequence of messages with headers (channels.go).
	channels bool
	// pieces are further tokens of which marks are made.
	pieces []string
}

// The formats, each with where its marks are known from. Names of files are those of vLLM's
// repository (vllm/reasoning) where nothing else is said.
var (
	// Think is what most models use: Qwen3, DeepSeek, GLM, MiniMax, Kimi K2, OLMo 3,
	// SmolLM3, EXAONE 4, Nemotron 3, MiMo, Step 3, LFM2 (basic_parsers.py). Those of Hunyuan 3
	// have a suffix (WithSuffix).
	Think = &Marks{open: []string{Open}, end: []string{Close}}
	// Brackets is Magistral's and Ministral's (mistral_reasoning_parser.py).
	Brackets = &Marks{open: []string{"[THINK]"}, end: []string{"[/THINK]"}}
	// SeedThink is Seed-OSS's (seedoss_reasoning_parser.py).
	SeedThink = &Marks{open: []string{"<seed:think>"}, end: []string{"</seed:think>"}}
	// MiniMaxThink is MiniMax M3's (minimax_m3_reasoning_parser.py).
	MiniMaxThink = &Marks{open: []string{"<mm:think>"}, end: []string{"</mm:think>"}}
	// PlamoThink is PLaMo 3's (vllm/parser/plamo3.py), whose marks are several tokens each.
	PlamoThink = &Marks{open: []string{"<|plamo:begin_think:plamo|>"}, end: []string{"<|plamo:end_think:plamo|>"},
		pieces: []string{"<|plamo:begin_", "<|plamo:end_", ":plamo|>"}}
	// Triangles is Kimi-VL's and Kimi-Dev's (their chat templates).
	Triangles = &Marks{open: []string{"◁think▷"}, end: []string{"◁/think▷"}}
	// Inner is Apertus's (apertus_reasoning_parser.py).
	Inner = &Marks{open: []string{"<|inner_prefix|>"}, end: []string{"<|inner_suffix|>"}}
	// ThoughtChannel is Gemma 4's (gemma4_reasoning_parser.py): the label after the opening
	// token is no thought.
	ThoughtChannel = &Marks{open: []string{"<|channel>thought"}, end: []string{"<channel|>"}, line: true,
		pieces: []string{"<|channel>"}}
	// Command is Cohere's (cohere_command_reasoning_parser.py).
	Command = &Marks{open: []string{"<|START_THINKING|>"}, end: []string{"<|END_THINKING|>"},
		answer: []string{"<|START_RESPONSE|>", "<|START_TEXT|>"}, answered: []string{"<|END_RESPONSE|>", "<|END_TEXT|>"}}
	// Sentences is Granite 3.2's (granite_reasoning_parser.py).
	Sentences = &Marks{open: []string{"Here is my thought process:", "Here's my thought process:"},
		end: []string{"Here is my response:", "Here's my response:"}}
	// ThinkAnswer is Hunyuan's (hunyuan_a13b_reasoning_parser.py).
	ThinkAnswer = &Marks{open: []string{Open}, end: []string{"\n" + Close, Close}, line: true,
		answer: []string{"<answer>"}, answered: []string{"\n</answer>", "</answer>"}}
	// ThinkResponse is that of ERNIE 4.5 (ernie45_reasoning_parser.py) and Granite 3.3.
	ThinkResponse = &Marks{open: []string{Open}, end: []string{"\n" + Close, Close}, line: true,
		answer: []string{"<response>"}, answered: []string{"\n</response>", "</response>"}}
	// Harmony is gpt-oss's (github.com/openai/harmony, docs/format.md).
	Harmony = &Marks{channels: true, open: []string{"<|channel|>analysis<|message|>"},
		end: []string{"<|end|><|start|>assistant<|channel|>final<|message|>"}}
)

// WithSuffix returns the think tags with a suffix (Suffix), if m are think tags, and otherwise m.
func (m *Marks) WithSuffix(suffix string) *Marks {
	if m = m.orThink(); m != Think || suffix == "" {
		return m
	}
	return &Marks{open: []string{"<think" + suffix + ">"}, end: []string{"</think" + suffix + ">"}}
}

func (m *Marks) orThink() *Marks {
	if m == nil {
		return Think
	}
	return m
}

// Opening and Closing are the marks around thoughts as a server writes them.
func (m *Marks) Opening() string { return m.orThink().open[0] }

// Closing is the mark that ends thoughts, with all that comes before the first byte of an
// answer.
func (m *Marks) Closing() string {
	m = m.orThink()
	return m.end[len(m.end)-1]
}

// Constrains is the text after which a constrained answer begins, and which a model cannot
// but write before it.
func (m *Marks) Constrains() string {
	if m.orThink().channels {
		return finalHeader
	}
	return m.Closing()
}

// Rewrites reports that an output which begins with start is not simply content.
func (m *Marks) Rewrites(start Start) bool {
	m = m.orThink()
	return start != Content || m.channels || len(m.answer) > 0
}

// Unconstrained is the start by which a constraint is to wait for the end of thoughts. In the
// format with channels the header of an answer comes after all of them.
func (m *Marks) Unconstrained(start Start) Start {
	if m.orThink().channels && start == Either {
		return Thought
	}
	return start
}

// Tokens returns the texts that a [Splitter] has to see. Where the vocabulary has special
// tokens of these names, they are not to be left out of its text.
func (m *Marks) Tokens() []string {
	m = m.orThink()
	if m.channels {
		return channelTokens
	}
	var all []string
	for _, texts := range [][]string{m.open, m.end, m.answer, m.answered} {
		for _, t := range texts {
			all = append(all, strings.Trim(t, "\n"))
		}
	}
	return append(all, m.pieces...)
}

// AtEnd returns the state of the thoughts at the end of a generation prompt. Only marks at
// the very end count: those further up belong to earlier messages, or a user wrote them.
func (m *Marks) AtEnd(prompt string) Block {
	m = m.orThink()
	if m.channels {
		if !strings.HasSuffix(prompt, messageMark) {
			return Absent
		}
		return m.Within(prompt, len(prompt)-1)
	}
	prompt = strings.TrimRight(prompt, blanks)
	for _, mark := range m.end {
		if strings.HasSuffix(prompt, strings.TrimLeft(mark, "\n")) {
			return Closed
		}
	}
	for _, mark := range m.answer {
		if strings.HasSuffix(prompt, mark) {
			return Closed
		}
	}
	for _, mark := range m.open {
		if strings.HasSuffix(prompt, mark) {
			return Opened
		}
	}
	return Absent
}

// Within returns the state of the thoughts after the last mark of a text. Marks that end at
// or before byte from do not count.
func (m *Marks) Within(text string, from int) Block {
	m = m.orThink()
	last := func(marks []string) int {
		at := -1
		for _, mark := range marks {
			if i := strings.LastIndex(text, mark); i >= 0 && i+len(mark) > from {
				at = max(at, i)
			}
		}
		return at
	}
	opened, closed := last(m.open), max(last(m.end), last(m.answer))
	if m.channels {
		closed = max(last([]string{finalHeader}), last([]string{"<|channel|>commentary<|message|>"}))
		if ended := last([]string{"<|end|>", "<|return|>", "<|call|>"}); ended > max(opened, closed) {
			return Absent
		}
	}
	switch {
	case opened < 0 && closed < 0:
		return Absent
	case opened > closed:
		return Opened
	}
	return Closed
}

// Has reports whether a text has any mark around thoughts.
func (m *Marks) Has(text string) bool {
	m = m.orThink()
	if m.channels {
		return strings.Contains(text, messageMark)
	}
	for _, marks := range [][]string{m.open, m.end} {
		for _, mark := range marks {
			if strings.Contains(text, mark) {
				return true
			}
		}
	}
	return false
}

// Ends reports whether a text has the mark that ends thoughts.
func (m *Marks) Ends(text string) bool {
	m = m.orThink()
	for _, mark := range m.end {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// Follow returns how many bytes of mark have come after the byte c, if n had come before it,
// n < len(mark).
func Follow(mark string, n int, c byte) int {
	for {
		if mark[n] == c {
			return n + 1
		}
		if n == 0 {
			return 0
		}
		k := n - 1
		for k > 0 && mark[:k] != mark[n-k:n] {
			k--
		}
		n = k
	}
}
