package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// feed adds a token with this text.
func feed(t *text, piece string, check, include bool) int {
	old := len(t.buf)
	t.buf = append(t.buf, piece...)
	return t.search(old, check, include)
}

func newTextFor(stops []string, include bool) text {
	return newText(nil, &Request{}, newStopStrings(stops, include))
}

// TestStopStrings: docs/interface/chat-completions.md, section 5.4 and C92 to C96.
func TestStopStrings(t *testing.T) {
	for _, c := range []struct {
		name    string
		pieces  []string
		stops   []string
		include bool
		protect int // number of pieces that min_tokens protects: no stop string may end in them
		want    string
		stop    string
	}{
		{name: "C92 the text is cut before it", pieces: []string{"Hello", " END", " more"}, stops: []string{"END"}, want: "Hello ", stop: "END"},
		{name: "C92 or after it", pieces: []string{"Hello", " END!", " more"}, stops: []string{"END"}, include: true, want: "Hello END", stop: "END"},
		{name: "C93 inside a token", pieces: []string{"an ", "organization"}, stops: []string{"gani"}, want: "an or", stop: "gani"},
		{name: "C94 across tokens", pieces: []string{"a E", "N", "D b"}, stops: []string{"END"}, want: "a ", stop: "END"},
		{name: "C95 the one that ends first", pieces: []string{"xx abcd"}, stops: []string{"abcd", "bc"}, want: "xx a", stop: "bc"},
		{name: "C95 ties go by the list", pieces: []string{"xx abcd"}, stops: []string{"cd", "abcd"}, want: "xx ab", stop: "cd"},
		{name: "C96 completed in protected text", pieces: []string{"e", "e", "e"}, stops: []string{"e"}, protect: 2, want: "ee", stop: "e"},
		{name: "C96 begun in protected text", pieces: []string{"xa", "b"}, stops: []string{"ab"}, protect: 1, want: "x", stop: "ab"},
		{name: "no stop string", pieces: []string{"EN", "E", "ND"}, stops: []string{"ENDE"}, want: "ENEND"},
		{name: "characters, not bytes", pieces: []string{"h", "é", "llo"}, stops: []string{"él"}, want: "h", stop: "él"},
	} {
		x := newTextFor(c.stops, c.include)
		var got strings.Builder
		hit := -1
		for i, p := range c.pieces {
			if hit = feed(&x, p, i >= c.protect, c.include); hit >= 0 {
				break
			}
			got.Write(x.take(false))
		}
		got.Write(x.take(true))
		stop := ""
		if hit >= 0 {
			stop = c.stops[hit]
		}
		if got.String() != c.want || stop != c.stop {
			t.Errorf("%s: %q stopped by %q, want %q by %q", c.name, got.String(), stop, c.want, c.stop)
		}
	}
}

// streamedText feeds random text to a text with random stop strings.
type streamedText struct {
	*rand.Rand
	stops   []string
	include bool
	hold    int // characters that have to be held back
	x       text
	all     string          // what was fed
	out     strings.Builder // what was given out
}

func newStreamedText(g *rand.Rand) *streamedText {
	s := &streamedText{Rand: g, include: g.IntN(2) == 0}
	s.stops = []string{s.word(1 + g.IntN(4))}
	for range g.IntN(3) {
		s.stops = append(s.stops, s.word(1+g.IntN(5)))
	}
	if !s.include {
		for _, stop := range s.stops {
			s.hold = max(s.hold, utf8.RuneCountInString(stop)-1)
		}
	}
	s.x = newTextFor(s.stops, s.include)
	return s
}

// word is n random characters.
func (s *streamedText) word(n int) string {
	alphabet := []string{"a", "b", "é", "語", "🙂"}
	var b strings.Builder
	for range n {
		b.WriteString(alphabet[s.IntN(len(alphabet))])
	}
	return b.String()
}

// run feeds text until a stop string ends it, or there is enough of it. It returns the
// index of the stop string, or -1.
func (s *streamedText) run() (hit int, err error) {
	for range 400 {
		piece := s.word(s.IntN(4))
		s.all += piece
		if hit := feed(&s.x, piece, true, s.include); hit >= 0 {
			s.out.Write(s.x.take(true))
			return hit, nil
		}
		s.out.Write(s.x.take(false))
		s.x.trim()
		if err := s.check(); err != nil {
			return -1, err
		}
	}
	s.out.Write(s.x.take(true))
	return -1, nil
}

// check: what was given out is cut between characters, and exactly hold characters shorter
// than what was fed.
func (s *streamedText) check() error {
	out := s.out.String()
	if !utf8.ValidString(out) || !strings.HasPrefix(s.all, out) {
		return fmt.Errorf("%q was given out of %q", out, s.all)
	}
	fed := utf8.RuneCountInString(s.all)
	if held := fed - utf8.RuneCountInString(out); held != min(s.hold, fed) {
		return fmt.Errorf("%d characters are held back", held)
	}
	return nil
}

// expected looks for the stop string that ends first in all that was fed.
func (s *streamedText) expected() (hit int, out string) {
	hit, out = -1, s.all
	end := len(s.all) + 1
	for i, stop := range s.stops {
		at := strings.Index(s.all, stop)
		if at < 0 || at+len(stop) >= end {
			continue
		}
		hit, end = i, at+len(stop)
		if out = s.all[:at]; s.include {
			out = s.all[:end]
		}
	}
	return hit, out
}

// TestC99HoldBack: as many characters as may be part of a stop string are held back until
// the text ends, and all that was given out is what would come out at once.
func TestC99HoldBack(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	stopped := 0
	for range 3000 {
		s := newStreamedText(g)
		hit, err := s.run()
		if err != nil {
			t.Fatalf("stop strings %q: %v", s.stops, err)
		}
		if want, out := s.expected(); hit != want || s.out.String() != out {
			t.Fatalf("stop strings %q in %q: got %q by %d, want %q by %d", s.stops, s.all, s.out.String(), hit, out, want)
		}
		if hit >= 0 {
			stopped++
		}
	}
	if stopped < 500 {
		t.Errorf("only %d texts had a stop string", stopped)
	}
}

// TestTrim: the buffer does not grow with the text.
func TestTrim(t *testing.T) {
	x := newTextFor([]string{"END"}, false)
	var out, want strings.Builder
	for i := range 10000 {
		piece := fmt.Sprint(i)
		want.WriteString(piece)
		feed(&x, piece, true, false)
		out.Write(x.take(false))
		x.trim()
		if len(x.buf) > 2100 {
			t.Fatalf("%d bytes are kept", len(x.buf))
		}
	}
	out.Write(x.take(true))
	if out.String() != want.String() {
		t.Error("another text came out than went in")
	}
}
