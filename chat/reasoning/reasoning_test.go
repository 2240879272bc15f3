package reasoning

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSplit: the rules of docs/interface/chat-completions.md, section 9.1, for whole texts.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		rule           string
		start          Start
		in             string
		thought, given string
	}{
		{"before the end tag is thought, after it content", Thought, "I think</think>\n\nYes.", "I think", "\n\nYes."},
		{"a leading open tag is removed", Thought, "<think>\nI think\n</think>Yes.", "\nI think\n", "Yes."},
		{"with the blanks before it", Thought, "\n <think>I think</think>Yes.", "I think", "Yes."},
		{"only once", Thought, "<think><think>I think</think>Yes.", "<think>I think", "Yes."},
		{"and only there", Thought, "I <think>think</think>Yes.", "I <think>think", "Yes."},
		{"nothing after the end tag", Thought, "I think</think>", "I think", ""},
		{"no end tag: all is thought", Thought, "I think </thin", "I think </thin", ""},
		{"no end tag after an open tag", Either, "<think>I think", "I think", ""},
		{"nothing was thought", Thought, "</think>Yes.", "", "Yes."},
		{"an empty block", Thought, "<think>\n\n</think>\n\nYes.", "\n\n", "\n\nYes."},
		{"tags after the end tag are content", Thought, "a</think>b<think>c</think>d", "a", "b<think>c</think>d"},
		{"a prompt that closed the block: all is content", Content, "Yes.</think>No.", "", "Yes.</think>No."},
		{"a leading open tag there", Content, "<think>Yes.", "", "<think>Yes."},
		{"nothing opened the block: all is content", Either, "Yes.</think>No.", "", "Yes.</think>No."},
		{"a tag further down", Either, "Yes. <think>No.</think>", "", "Yes. <think>No.</think>"},
		{"the output opened it", Either, "<think>a</think>b", "a", "b"},
		{"after blanks", Either, "\r\n\t <think>a</think>b", "a", "b"},
		{"after too many blanks", Either, strings.Repeat(" ", 17) + "<think>a", "", strings.Repeat(" ", 17) + "<think>a"},
		{"as many as may be", Either, strings.Repeat(" ", 16) + "<think>a", "a", ""},
		{"blanks alone", Either, " \n", "", " \n"},
		{"blanks alone, thought", Thought, " \n", " \n", ""},
		{"nothing", Either, "", "", ""},
		{"a part of the tag", Either, "<thin", "", "<thin"},
		{"a part of the tag, thought", Thought, "<thin", "<thin", ""},
		{"another tag", Either, "<thinker>", "", "<thinker>"},
		{"another end tag", Thought, "</thinker></think>x", "</thinker>", "x"},
		{"a tag begins in a tag", Thought, "<</</think</think>x", "<</</think", "x"},
		{"several bytes a character", Thought, "思考</think>答え", "思考", "答え"},
		{"not UTF-8", Thought, "\xff\xfe</think>\xff", "\xff\xfe", "\xff"},
	} {
		thought, content := Split([]byte(c.in), c.start)
		if string(thought) != c.thought || string(content) != c.given {
			t.Errorf("%s: %q gives %q and %q, want %q and %q", c.rule, c.in, thought, content, c.thought, c.given)
		}
		if a, b := referenceSplit(c.in, c.start); a != c.thought || b != c.given {
			t.Errorf("%s: the reference implementation gives %q and %q", c.rule, a, b)
		}
	}
}

// referenceSplit splits a whole text by the words of the rule.
func referenceSplit(text string, start Start) (thought, content string) {
	if start == Content {
		return "", text
	}
	if i := strings.Index(text, Open); i >= 0 && i <= 16 && strings.Trim(text[:i], " \t\r\n") == "" {
		text = text[i+len(Open):]
	} else if start == Either {
		return "", text
	}
	thought, content, _ = strings.Cut(text, Close)
	return thought, content
}

// check passes text to a Splitter, cut where cut says, and compares the results with
// referenceSplit. Bytes that are held back must be the beginning of a tag that would count.
func check(t *testing.T, text string, start Start, cut func(i int) bool) {
	t.Helper()
	s := New(start)
	var thought, content []byte
	take := func(piece string, last bool) {
		a, b := s.Next([]byte(piece), last)
		if len(b) > 0 && len(content) == 0 && !s.Answering() || len(a) > 0 && len(content) > 0 {
			t.Fatalf("%q: thought %q and content %q out of order", text, a, b)
		}
		thought, content = append(thought, a...), append(content, b...)
	}
	from := 0
	for i := 1; i <= len(text); i++ {
		if i < len(text) && !cut(i) {
			continue
		}
		take(text[from:i], false)
		from = i
		wantThought, wantContent := referenceSplit(text[:i], start)
		held := len(wantThought) + len(wantContent) - len(thought) - len(content)
		if held != 0 && !mayBeTag(text[:i], start, held) || !strings.HasPrefix(wantThought, string(thought)) || !strings.HasPrefix(wantContent, string(content)) {
			t.Fatalf("%q, start %d: %q and %q were returned of %q and %q", text[:i], start, thought, content, wantThought, wantContent)
		}
	}
	take("", true)
	if a, b := referenceSplit(text, start); string(thought) != a || string(content) != b {
		t.Fatalf("%q, start %d: in pieces %q and %q, at once %q and %q", text, start, thought, content, a, b)
	}
}

// mayBeTag reports whether the last n bytes of text disappear, or turn from
// content into thought, if the right bytes follow.
func mayBeTag(text string, start Start, n int) bool {
	a, b := referenceSplit(text, start)
	for _, tag := range []string{Open, Close} {
		for k := range len(tag) {
			if !strings.HasSuffix(text, tag[:k]) {
				continue
			}
			c, d := referenceSplit(text+tag[k:], start)
			if len(c)+len(d) <= len(a)+len(b)-n {
				return true
			}
		}
	}
	return false
}

// scraps are pieces of tags and text, of which scrap puts some together.
var scraps = []string{"<", "</", "</think", "think>", ">", Open, Close, "<think", "\n", " ", "a", "思", "\xff", "</", "text ", "\r\n\r\n", "                "}

func scrap(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(12) {
		b.WriteString(scraps[rng.IntN(len(scraps))])
	}
	return b.String()
}

// TestPieces: random texts with random cuts, with a cut after every byte, and in one piece.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text, start := scrap(rng), Start(rng.IntN(3))
		check(t, text, start, func(int) bool { return true })
		check(t, text, start, func(int) bool { return rng.IntN(3) == 0 })
		check(t, text, start, func(int) bool { return false })
	}
}

func FuzzPieces(f *testing.F) {
	f.Add("<think>a</think>b", uint8(1), uint64(3))
	f.Add(" \n</think>x</think>", uint8(2), uint64(1<<63|5))
	f.Fuzz(func(t *testing.T, text string, start uint8, cuts uint64) {
		check(t, text, Start(start%3), func(i int) bool { return cuts>>(i%64)&1 != 0 })
	})
}

// TestSplitterAllocatesNothing: a Splitter allocates nothing when its buffers are large
// enough.
func TestSplitterAllocatesNothing(t *testing.T) {
	s := New(Thought)
	piece, open := []byte("some </thi"), []byte("nk of it <")
	for range 10 {
		s.Next(piece, false)
		s.Next(open, false)
	}
	if n := testing.AllocsPerRun(100, func() { s.Next(piece, false); s.Next(open, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]Kind{"auto": Auto, "none": None, "qwen3": Qwen3, "deepseek_r1": DeepSeekR1, "glm45": Qwen3, "step3": DeepSeekR1} {
		if k, err := Parse(name); k != want || err != nil {
			t.Errorf("%s: %d, %v", name, k, err)
		}
	}
	for _, name := range []string{"", "Qwen3", "magistral"} {
		_, err := Parse(name)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is none of auto, none, qwen3, deepseek_r1, ", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestFor(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		template string
		want     Kind
	}{
		{Auto, "{{ messages }}", None}, {Auto, "a<think>", None}, {Auto, "split('</think>')", Auto},
		{None, "</think>", None}, {Qwen3, "", Qwen3}, {DeepSeekR1, "</think>", DeepSeekR1},
	} {
		if got := c.kind.For(c.template); got != c.want {
			t.Errorf("%d.For(%q) = %d, want %d", c.kind, c.template, got, c.want)
		}
	}
}

func TestAtEnd(t *testing.T) {
	for prompt, want := range map[string]Block{
		"": Absent, "<|assistant|>\n": Absent, "<|assistant|><think>\n": Opened, "<think>": Opened,
		"<think>\n\n</think>\n\n": Closed, "<|assistant|></think>": Closed,
		"<think>\n\n</think>\n\nHi<|end|>": Absent, "<think> is a tag<|assistant|>": Absent,
	} {
		if got := AtEnd(prompt); got != want {
			t.Errorf("%q: %d, want %d", prompt, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		text string
		from int
		want Block
	}{
		{"abc", 0, Absent}, {"<think>abc", 0, Opened}, {"<think>a</think>b", 0, Closed}, {"</think>a<think>b", 0, Opened},
		{"<think>abc", 7, Absent}, {"<think>abc", 6, Opened}, {"</think>ab<think>", 8, Opened}, {"<think>ab</think>", 17, Absent}, {"<think>ab</think>", 16, Closed},
	} {
		if got := Within(c.text, c.from); got != c.want {
			t.Errorf("%q from %d: %d, want %d", c.text, c.from, got, c.want)
		}
	}
}

// TestStart: what an output begins with, for every kind after every prompt.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		kind                   Kind
		off                    bool
		absent, opened, closed Start
	}{
		{None, false, Content, Content, Content},
		{Auto, false, Either, Thought, Content}, {Auto, true, Either, Thought, Content},
		{Qwen3, false, Thought, Thought, Content}, {Qwen3, true, Content, Content, Content},
		{DeepSeekR1, false, Thought, Thought, Content}, {DeepSeekR1, true, Thought, Thought, Content},
	} {
		for b, want := range map[Block]Start{Absent: c.absent, Opened: c.opened, Closed: c.closed} {
			if got := c.kind.Start(b, c.off); got != want {
				t.Errorf("kind %d, block %d, off %v: %d, want %d", c.kind, b, c.off, got, want)
			}
		}
	}
}
