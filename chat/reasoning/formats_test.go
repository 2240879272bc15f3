package reasoning

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// suffixed are the think tags of Hunyuan 3.
var suffixed = Think.WithSuffix(":opensource")

// formats are outputs of every format: the rules of
// docs/interface/chat-completions.md, section 9.1.
var formats = []struct {
	rule           string
	marks          *Marks
	start          Start
	in             string
	thought, given string
}{
	{"[THINK]", Brackets, Either, "[THINK]Hm [x].[/THINK]Yes.", "Hm [x].", "Yes."},
	{"[THINK], none", Brackets, Either, "Yes [THINK]no[/THINK]", "", "Yes [THINK]no[/THINK]"},
	{"seed:think", SeedThink, Thought, "<seed:think>Hm</seed:think>Yes.", "Hm", "Yes."},
	{"seed:think, unopened", SeedThink, Thought, "Hm</seed:think>Yes.", "Hm", "Yes."},
	{"MiniMax M3", MiniMaxThink, Either, "<mm:think>Hm </think></mm:think>Yes.", "Hm </think>", "Yes."},
	{"PLaMo 3", PlamoThink, Thought, "Hm<|plamo:end_<|plamo:end_think:plamo|>Yes.", "Hm<|plamo:end_", "Yes."},
	{"PLaMo 3, opened", PlamoThink, Either, "<|plamo:begin_think:plamo|>Hm<|plamo:end_think:plamo|>Yes.", "Hm", "Yes."},
	{"a suffix", suffixed, Either, "<think:opensource>Hm</think></think:opensource>Yes.", "Hm</think>", "Yes."},
	{"a suffix, other tags", suffixed, Either, "<think>Hm</think>Yes.", "", "<think>Hm</think>Yes."},
	{"triangles", Triangles, Either, "◁think▷思◁◁/think◁/think▷Yes◁.", "思◁◁/think", "Yes◁."},
	{"Apertus", Inner, Either, "<|inner_prefix|>Hm<|inner_suffix|>Yes", "Hm", "Yes"},
	{"Gemma", ThoughtChannel, Either, "<|channel>thought\nHm\n<channel|>Yes\n", "Hm\n", "Yes\n"},
	{"Gemma, empty", ThoughtChannel, Either, "<|channel>thought\n<channel|>Yes", "", "Yes"},
	{"Cohere", Command, Either, "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>", "Hm", "Yes"},
	{"Cohere, newer", Command, Thought, "Hm<|END_THINKING|><|START_TEXT|>Yes<|END_TEXT|>", "Hm", "Yes"},
	{"Cohere, no thoughts", Command, Content, "<|START_RESPONSE|>Yes<|END_RESPONSE|>", "", "Yes"},
	{"Cohere, no marks", Command, Either, "Yes <|END", "", "Yes <|END"},
	{"Granite", Sentences, Either, "Here is my thought process: Hm. Here is. Here is my response: Yes.", " Hm. Here is. ", " Yes."},
	{"Granite, short", Sentences, Either, "Here's my thought process:\nHm.\nHere's my response:\nYes.", "\nHm.\n", "\nYes."},
	{"Granite, content", Sentences, Either, "Here is my answer.", "", "Here is my answer."},
	{"Hunyuan", ThinkAnswer, Either, "<think>\nHm\n\n</think>\n<answer>\nYes\n\n</answer>", "Hm\n", "Yes\n"},
	{"Hunyuan, fast", ThinkAnswer, Either, "<think>\n\n</think>\n<answer>\nYes\n</answer>", "", "Yes"},
	{"Hunyuan, cut", ThinkAnswer, Either, "<think>\nHm\n</think>\n<answer>\nYes\n</ans", "Hm", "Yes\n</ans"},
	{"ERNIE", ThinkResponse, Thought, "Hm\n</think>\n\n<response>\nYes\n</response>\n", "Hm", "Yes"},
	{"ERNIE, no response", ThinkResponse, Thought, "Hm\n</think>\n\nYes", "Hm", "\n\nYes"},
	{"Granite 3.3", ThinkResponse, Either, "<think>Hm</think><response>Yes</response>", "Hm", "Yes"},
	{"harmony", Harmony, Either, "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>", "Hm", "Yes"},
	{"harmony, constrained", Harmony, Either, "<|channel|>final <|constrain|>json<|message|>{}<|return|>", "", "{}"},
	{"harmony, preamble", Harmony, Either, "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary<|message|>B<|end|><|start|>assistant<|channel|>analysis<|message|>C<|end|>", "AC", "B"},
	{"harmony, a call", Harmony, Either, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", "", "{\"a\":1}"},
	{"harmony, recipient first", Harmony, Either, " to=functions.f<|channel|>commentary<|message|>{}<|call|>", "", "{}"},
	{"harmony, no end", Harmony, Either, "<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Yes <|", "Hm", "Yes <|"},
	{"harmony, in the header", Harmony, Either, "<|channel|>analysis<|mess", "", ""},
	{"harmony, no header", Harmony, Either, "Yes <|channel|>", "", "Yes <|channel|>"},
	{"harmony, in thoughts", Harmony, Thought, "Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes", "Hm", "Yes"},
	{"harmony, in the answer", Harmony, Content, "Yes<|return|>", "", "Yes"},
	{"harmony, a long header", Harmony, Either, "<|channel|>analysis" + strings.Repeat(" x", 200) + "<|message|>Hm", "Hm", ""},
}

// collect passes a text to a Splitter in pieces.
func collect(m *Marks, text string, start Start, cut func(i int) bool) (thought, content string) {
	s := m.New(start)
	var a, b []byte
	from := 0
	for i := 1; i <= len(text); i++ {
		if i == len(text) || cut(i) {
			t, c := s.Next([]byte(text[from:i]), false)
			a, b, from = append(a, t...), append(b, c...), i
		}
	}
	t, c := s.Next(nil, true)
	return string(append(a, t...)), string(append(b, c...))
}

// TestFormats: every format, as a whole, cut into two at every byte, and cut into bytes.
func TestFormats(t *testing.T) {
	for _, c := range formats {
		a, b := c.marks.Split([]byte(c.in), c.start)
		if string(a) != c.thought || string(b) != c.given {
			t.Errorf("%s: %q and %q, want %q and %q", c.rule, a, b, c.thought, c.given)
			continue
		}
		for at := range len(c.in) {
			if a, b := collect(c.marks, c.in, c.start, func(i int) bool { return i == at }); a != c.thought || b != c.given {
				t.Errorf("%s, cut at %d: %q and %q", c.rule, at, a, b)
			}
		}
		if a, b := collect(c.marks, c.in, c.start, func(int) bool { return true }); a != c.thought || b != c.given {
			t.Errorf("%s, in bytes: %q and %q", c.rule, a, b)
		}
		n := c.marks.NewCounter(c.start)
		for i := range len(c.in) {
			n.Next([]byte(c.in[i : i+1]))
		}
		if n.Count() != len(c.thought) {
			t.Errorf("%s: %d bytes of thought are counted, not %d", c.rule, n.Count(), len(c.thought))
		}
	}
}

// allMarks are all formats.
var allMarks = []*Marks{Think, Brackets, SeedThink, Triangles, Inner, ThoughtChannel, Command, Sentences, ThinkAnswer, ThinkResponse, Harmony, MiniMaxThink, PlamoThink, suffixed}

// checkMarks: however a text is cut, the outcome is the same, every byte of it comes out at
// most once and in order, and what does not come out is marks, blanks and headers alone.
func checkMarks(t *testing.T, m *Marks, text string, start Start, cut func(i int) bool) {
	t.Helper()
	a, b := m.Split([]byte(text), start)
	if c, d := collect(m, text, start, cut); c != string(a) || d != string(b) {
		t.Fatalf("%q: in pieces %q and %q, at once %q and %q", text, c, d, a, b)
	}
	// Without bytes of marks nothing but blanks around marks may be lost.
	plain := func(s string) int {
		return len(s) - strings.Count(s, "\n") - strings.Count(s, " ") - strings.Count(s, "\t") - strings.Count(s, "\r")
	}
	lost := plain(text) - plain(string(a)) - plain(string(b))
	most := 0
	for _, marks := range [][]string{m.open, m.end, m.answer, m.answered} {
		for _, mark := range marks {
			mark = strings.Trim(mark, "\n")
			most += strings.Count(text, mark) * plain(mark)
		}
	}
	if lost < 0 || !m.channels && lost > most {
		t.Fatalf("%q: %d bytes lost of %q and %q, where the marks have %d", text, lost, a, b, most)
	}
	// Letters that no mark has come out in their order.
	keep := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == 'Q' || r == 'Z' {
				return r
			}
			return -1
		}, s)
	}
	if in := keep(text); !m.channels && len(keep(string(a)))+len(keep(string(b))) != len(in) {
		t.Fatalf("%q: letters were lost in %q and %q", text, a, b)
	}
}

// TestFormatPieces: random texts of every format with random cuts.
func TestFormatPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		m := allMarks[rng.IntN(len(allMarks))]
		words := append([]string{"Q", "Z", "\n", " ", "<", "<|", "</", "Here", "◁", "\xe2", "["}, m.Tokens()...)
		words = append(words, m.open...)
		words = append(words, m.end...)
		var b strings.Builder
		for range rng.IntN(10) {
			w := words[rng.IntN(len(words))]
			if rng.IntN(4) == 0 {
				w = w[:rng.IntN(len(w)+1)]
			}
			b.WriteString(w)
		}
		checkMarks(t, m, b.String(), Start(rng.IntN(3)), func(int) bool { return rng.IntN(2) == 0 })
	}
}

func FuzzFormats(f *testing.F) {
	for _, c := range formats {
		for i, m := range allMarks {
			if m == c.marks {
				f.Add(c.in, uint8(i), uint8(c.start), uint64(0x5555))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string, marks, start uint8, cuts uint64) {
		checkMarks(t, allMarks[int(marks)%len(allMarks)], text, Start(start%3), func(i int) bool { return cuts>>(i%64)&1 != 0 })
	})
}

// TestFormatsAllocateNothing: once the buffers are large enough, no piece of any format costs
// memory.
func TestFormatsAllocateNothing(t *testing.T) {
	for _, m := range allMarks {
		s := m.New(Thought)
		n := m.NewCounter(Thought)
		end := []byte(m.end[0])
		pieces := [][]byte{[]byte("some "), end[:len(end)-1], []byte(" text")}
		if m.channels {
			pieces[1] = []byte("<|en")
		}
		round := func() {
			for _, p := range pieces {
				s.Next(p, false)
				n.Next(p)
			}
		}
		for range 10 {
			round()
		}
		if got := testing.AllocsPerRun(100, round); got != 0 {
			t.Errorf("%v: %v allocations", m.open, got)
		}
	}
}

// TestFormatPrompts: where prompts of the published templates end.
func TestFormatPrompts(t *testing.T) {
	for _, c := range []struct {
		marks  *Marks
		prompt string
		want   Block
	}{
		{Harmony, "<|start|>user<|message|>Hi<|end|><|start|>assistant", Absent},
		{Harmony, "<|start|>assistant<|channel|>final<|message|>", Closed},
		{Harmony, "<|start|>assistant<|channel|>analysis<|message|>", Opened},
		{ThoughtChannel, "<|turn>model\n<|channel>thought\n<channel|>", Closed},
		{ThoughtChannel, "<|turn>model\n<|channel>thought\n", Opened},
		{ThoughtChannel, "<|turn>model\n", Absent},
		{Command, "<|CHATBOT_TOKEN|><|START_THINKING|>", Opened},
		{Command, "<|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>", Closed},
		{Inner, "<|assistant_start|><|inner_prefix|>", Opened},
		{ThinkAnswer, "<think>\n\n</think>\n", Closed},
		{ThinkAnswer, "<think>\n\n</think>\n<answer>\n", Closed},
		{Brackets, "[INST]Hi[/INST]", Absent},
		{SeedThink, "<seed:bos>assistant\n<seed:think>", Opened},
		{MiniMaxThink, "]~b]ai\n<mm:think>", Opened},
		{PlamoThink, "<|plamo:begin_think:plamo|><|plamo:end_think:plamo|>", Closed},
		{suffixed, "<｜hy_Assistant:opensource｜><think:opensource>", Opened},
		{suffixed, "<｜hy_Assistant:opensource｜><think:opensource></think:opensource>", Closed},
		{suffixed, "<think>", Absent},
	} {
		if got := c.marks.AtEnd(c.prompt); got != c.want {
			t.Errorf("%q: %d, want %d", c.prompt, got, c.want)
		}
	}
	text := "<|start|>assistant<|channel|>final<|message|>It i"
	if got := Harmony.Within(text, 0); got != Closed {
		t.Errorf("%d in a final message", got)
	}
	if got := Harmony.Within("<|start|>assistant<|channel|>analysis<|message|>It i<|end|><|start|>assistant", 0); got != Absent {
		t.Errorf("%d after an analysis", got)
	}
}

// TestTemplates: which format a chat template shows. The texts are those parts of published
// templates that write an assistant's thoughts.
func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		text  string
		marks *Marks
	}{
		{"{{ '<|start|>assistant<|channel|>analysis<|message|>' ~ m.thinking ~ '<|end|>' }}", Harmony},
		{"{% set c = c.split('</think>')[-1] %}{{ '<answer>' }}", ThinkAnswer},
		{"{{ '<think></think><response></response>' }}", ThinkResponse},
		{"{{ '<think>\\n\\n</think>\\n\\n' }}", Think},
		{"{{ '[THINK]' + t + '[/THINK]' }}", Brackets},
		{"{% set a = '</seed:think>' %}", SeedThink},
		{"{{ '<|START_THINKING|><|END_THINKING|>' }}", Command},
		{"{{ '<|channel>thought\\n<channel|>' }}", ThoughtChannel},
		{"{% set outer_token = '<|inner_suffix|>' %}", Inner},
		{"{{ '◁think▷◁/think▷' }}", Triangles},
		{"{{- '<mm:think>' ~ reasoning ~ '</mm:think>' }}", MiniMaxThink},
		{"{{ '<|plamo:end_think:plamo|>' }}", PlamoThink},
		{"{{ 'write your thoughts after \\'Here is my thought process:\\'' }}", Sentences},
	} {
		kind := Auto.For(c.text)
		if kind == None || kind.Marks() != c.marks || kind.Start(Absent, false) != Either {
			t.Errorf("%q: kind %d", c.text, kind)
		}
	}
	for name, want := range map[string]*Marks{"openai_gptoss": Harmony, "mistral": Brackets, "seed_oss": SeedThink, "ernie45": ThinkResponse,
		"gemma4": ThoughtChannel, "granite": Sentences, "hunyuan_a13b": ThinkAnswer, "cohere_command3": Command, "kimi_k2": Think, "qwen3": Think, "hy_v3": Think,
		"hy_v4": Think, "deepseek_v4": Think, "deepseek_v41": Think, "poolside_v1": Think, "minicpmv": Think, "ling3": Think, "granite_thinking_parser": Think,
		"step5": Think, "minimax_m3": MiniMaxThink, "plamo3": PlamoThink} {
		if k, err := Parse(name); err != nil || k.Marks() != want {
			t.Errorf("%s: %d, %v", name, k, err)
		}
	}
}

// TestParseUnknown: an unknown name, and those of vLLM's parsers for formats that are not read, say which names there are.
func TestParseUnknown(t *testing.T) {
	for _, name := range []string{"", "Qwen3", "kimi_k3", "muse", "inkling", "k2_horizon", "hf", "minimax_m2_append_think"} {
		_, err := Parse(name)
		if err == nil {
			t.Errorf("%q is a parser", name)
			continue
		}
		for _, known := range kinds {
			if !strings.Contains(err.Error(), known.name) {
				t.Errorf("%q: %v does not name %s", name, err, known.name)
			}
		}
	}
}

// TestKindsStart: the parsers that go by the prompt and the output take an output for content unless it opens thoughts, and the others take it for thought.
func TestKindsStart(t *testing.T) {
	for _, name := range []string{"hy_v3", "hy_v4", "deepseek_v4", "deepseek_v41", "poolside_v1", "minicpmv", "minimax_m3", "gemma4", "mistral"} {
		if k, _ := Parse(name); k.Start(Absent, false) != Either || k.Start(Opened, false) != Thought || k.Start(Closed, false) != Content {
			t.Errorf("%s: %d", name, k.Start(Absent, false))
		}
	}
	for _, name := range []string{"ling3", "granite_thinking_parser"} {
		if k, _ := Parse(name); k.Start(Absent, false) != Thought || k.Start(Absent, true) != Content {
			t.Errorf("%s: %d", name, k.Start(Absent, false))
		}
	}
	for _, name := range []string{"step5", "plamo3", "seed_oss", "ernie45"} {
		if k, _ := Parse(name); k.Start(Absent, true) != Thought {
			t.Errorf("%s: %d", name, k.Start(Absent, true))
		}
	}
}

// TestSuffix: the suffix of think tags is that of a pair of tokens, and tags without one go before.
func TestSuffix(t *testing.T) {
	for _, c := range []struct {
		tokens []string
		want   string
	}{
		{nil, ""},
		{[]string{"<think>", "</think>"}, ""},
		{[]string{"a", "</think:opensource>", "<think:opensource>", "<tool_call:opensource>"}, ":opensource"},
		{[]string{"<think:6124c78e>", "</think:6124c78e>"}, ":6124c78e"},
		{[]string{"<think:a>", "</think:a>", "</think>", "<think>"}, ""},
		{[]string{"<think:a>"}, ""},
		{[]string{"</think:a>", "<think:b>"}, ""},
		{[]string{"<think:>", "</think:>"}, ""},
		{[]string{"<think:a b>", "</think:a b>"}, ""},
		{[]string{"<think:a", "</think:a"}, ""},
	} {
		if got := Suffix(slices.Values(c.tokens)); got != c.want {
			t.Errorf("%q: %q, want %q", c.tokens, got, c.want)
		}
	}
	if Brackets.WithSuffix(":a") != Brackets || Think.WithSuffix("") != Think {
		t.Error("marks other than think tags have a suffix")
	}
}

// TestFollow: the text that Follow finds is where bytes.Index has it.
func TestFollow(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		text, mark := make([]byte, rng.IntN(40)), make([]byte, 1+rng.IntN(6))
		for i := range text {
			text[i] = "ab"[rng.IntN(2)]
		}
		for i := range mark {
			mark[i] = "ab"[rng.IntN(2)]
		}
		at, n := -1, 0
		for i, c := range text {
			if n = Follow(string(mark), n, c); n == len(mark) {
				at = i + 1 - len(mark)
				break
			}
		}
		if want := bytes.Index(text, mark); at != want {
			t.Fatalf("%q in %q: %d, want %d", mark, text, at, want)
		}
	}
}
