package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// feed adds a token whose text is piece.
func feed(t *text, piece string, check, include bool) int {
	old := len(t.buf)
	t.buf = append(t.buf, piece...)
	return t.search(old, check, include)
}

func newTextFor(stops []string, include bool) text {
	return newText(nil, &Request{Stop: stops, IncludeStop: include})
}

// TestStopStrings: spec chat-completions 5.4, C92 to C99.
func TestStopStrings(t *testing.T) {
	for _, c := range []struct {
		name    string
		pieces  []string
		stops   []string
		include bool
		protect int // pieces before which nothing may match (min_tokens)
		want    string
		stop    string
	}{
		{name: "C92 cut before", pieces: []string{"Hello", " END", " more"}, stops: []string{"END"}, want: "Hello ", stop: "END"},
		{name: "C92 cut behind", pieces: []string{"Hello", " END!", " more"}, stops: []string{"END"}, include: true, want: "Hello END", stop: "END"},
		{name: "C93 inside a token", pieces: []string{"an ", "organization"}, stops: []string{"gani"}, want: "an or", stop: "gani"},
		{name: "C94 across tokens", pieces: []string{"a E", "N", "D b"}, stops: []string{"END"}, want: "a ", stop: "END"},
		{name: "C95 the one that ends first", pieces: []string{"xx abcd"}, stops: []string{"abcd", "bc"}, want: "xx a", stop: "bc"},
		{name: "C95 ties go by the list", pieces: []string{"xx abcd"}, stops: []string{"cd", "abcd"}, want: "xx ab", stop: "cd"},
		{name: "C96 completed in protected text", pieces: []string{"e", "e", "e"}, stops: []string{"e"}, protect: 2, want: "ee", stop: "e"},
		{name: "C96 begun in protected text", pieces: []string{"xa", "b"}, stops: []string{"ab"}, protect: 1, want: "x", stop: "ab"},
		{name: "none", pieces: []string{"EN", "E", "ND"}, stops: []string{"ENDE"}, want: "ENEND"},
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
			t.Errorf("%s: got %q stopped by %q, want %q by %q", c.name, got.String(), stop, c.want, c.stop)
		}
	}
}

// TestHoldBack (C99): while it runs, what was given out is always at least one
// character less than the longest stop string behind what was produced, cut
// between characters, and the whole is what comes out without streaming.
func TestHoldBack(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	alphabet := []string{"a", "b", "é", "語", "🙂"}
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(alphabet[g.IntN(len(alphabet))])
		}
		return b.String()
	}
	stopped := 0
	for range 3000 {
		include := g.IntN(2) == 0
		stops := []string{word(1 + g.IntN(4))}
		for range g.IntN(3) {
			stops = append(stops, word(1+g.IntN(5)))
		}
		hold := 0
		for _, s := range stops {
			hold = max(hold, utf8.RuneCountInString(s)-1)
		}
		x := newTextFor(stops, include)
		var all, out strings.Builder
		hit := -1
		for range 400 {
			p := word(g.IntN(4))
			all.WriteString(p)
			if hit = feed(&x, p, true, include); hit >= 0 {
				break
			}
			out.Write(x.take(false))
			x.trim()
			if !utf8.ValidString(out.String()) || !strings.HasPrefix(all.String(), out.String()) {
				t.Fatalf("gave out %q of %q", out.String(), all.String())
			}
			if behind := utf8.RuneCountInString(all.String()) - utf8.RuneCountInString(out.String()); !include && behind != min(hold, utf8.RuneCountInString(all.String())) || include && behind != 0 {
				t.Fatalf("%d characters behind with stops %q", behind, stops)
			}
		}
		out.Write(x.take(true))
		// The obvious way: look for the earliest end in everything.
		want, best := all.String(), -1
		end := len(want) + 1
		for i, s := range stops {
			if at := strings.Index(all.String(), s); at >= 0 && at+len(s) < end {
				best, end = i, at+len(s)
				if want = all.String()[:at]; include {
					want = all.String()[:end]
				}
			}
		}
		if hit != best || out.String() != want {
			t.Fatalf("stops %q in %q: got %q by %d, want %q by %d", stops, all.String(), out.String(), hit, want, best)
		}
		if hit >= 0 {
			stopped++
		}
	}
	if stopped < 500 {
		t.Errorf("only %d stopped", stopped)
	}
}

func TestTrim(t *testing.T) {
	x := newTextFor([]string{"END"}, false)
	var out strings.Builder
	for i := range 10000 {
		feed(&x, fmt.Sprint(i), true, false)
		out.Write(x.take(false))
		x.trim()
		if len(x.buf) > 2100 {
			t.Fatalf("%d bytes kept", len(x.buf))
		}
	}
	out.Write(x.take(true))
	if out.Len() != 38890 {
		t.Errorf("%d bytes came out", out.Len())
	}
}
