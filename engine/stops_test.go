package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// plainText is the reference implementation of text: it looks for each stop string on its
// own, in all that may be part of one.
type plainText struct {
	buf     []byte
	given   int
	stops   [][]byte
	include bool
	hold    int
}

func newPlainText(stops []string, include bool) *plainText {
	t := &plainText{include: include}
	for _, s := range stops {
		t.stops = append(t.stops, []byte(s))
		if !include {
			t.hold = max(t.hold, utf8.RuneCountInString(s)-1)
		}
	}
	return t
}

func (t *plainText) feed(piece string, check bool) int {
	old := len(t.buf)
	t.buf = append(t.buf, piece...)
	if !check || len(t.buf) == old {
		return -1
	}
	hit, start, end := -1, 0, 0
	for i, s := range t.stops {
		from := max(0, old-len(s)+1)
		if at := bytes.Index(t.buf[from:], s); at >= 0 && (hit < 0 || from+at+len(s) < end) {
			hit, start, end = i, from+at, from+at+len(s)
		}
	}
	switch {
	case hit < 0:
	case t.include:
		t.buf = t.buf[:end]
	default:
		t.buf = t.buf[:start]
	}
	return hit
}

func (t *plainText) take(final bool) []byte {
	end := len(t.buf)
	if !final {
		for n := t.hold; n > 0 && end > t.given; n-- {
			_, size := utf8.DecodeLastRune(t.buf[:end])
			end -= size
		}
	}
	from := t.given
	if end <= from {
		return nil
	}
	t.given = end
	return t.buf[from:end]
}

// sameText feeds the same pieces to a text and to the reference, and compares all that comes
// out of them. The first protect pieces are not checked.
func sameText(stops, pieces []string, protect int, include bool) (hit int, err error) {
	x, want := newTextFor(stops, include), newPlainText(stops, include)
	for i, piece := range pieces {
		got, hit := feed(&x, piece, i >= protect, include), want.feed(piece, i >= protect)
		if got != hit {
			return hit, fmt.Errorf("stop string %d ends piece %d, want %d", got, i, hit)
		}
		if out, plain := x.take(hit >= 0), want.take(hit >= 0); !bytes.Equal(out, plain) {
			return hit, fmt.Errorf("%q is given out at piece %d, want %q", out, i, plain)
		}
		if hit >= 0 {
			return hit, nil
		}
		x.trim()
	}
	if out, plain := x.take(true), want.take(true); !bytes.Equal(out, plain) {
		return -1, fmt.Errorf("%q is given out at the end, want %q", out, plain)
	}
	return -1, nil
}

// cut cuts a text between characters at random.
func cut(g *rand.Rand, s string) (pieces []string) {
	for r := []rune(s); len(r) > 0; {
		n := min(g.IntN(5), len(r))
		pieces = append(pieces, string(r[:n]))
		r = r[n:]
	}
	return pieces
}

// stopWords are stop strings that overlap: random words, and beginnings, ends and middles of
// those before them, some of them twice.
func stopWords(g *rand.Rand, w *streamedText, n, longest int) []string {
	words := []string{w.word(1 + g.IntN(longest))}
	for len(words) < n {
		r := []rune(words[g.IntN(len(words))])
		i, j := g.IntN(len(r)), g.IntN(len(r))
		switch g.IntN(5) {
		case 0:
			words = append(words, string(r[min(i, j):max(i, j)+1]))
		case 1:
			words = append(words, w.word(1+g.IntN(longest)))
		case 2:
			words = append(words, string(r[i:])+w.word(1+g.IntN(2)))
		case 3:
			words = append(words, w.word(1+g.IntN(2))+string(r[:i]))
		default:
			words = append(words, strings.Repeat(string(r[i:i+1]), 1+g.IntN(longest)))
		}
	}
	return words
}

// TestStopStringsAgree: many stop strings, which begin with each other, end in each other and
// overlap, are found where a search for each of them finds one.
func TestStopStringsAgree(t *testing.T) {
	g := rand.New(rand.NewPCG(9, 9))
	stopped, ends := 0, make(map[int]bool)
	for round := range 3000 {
		w := &streamedText{Rand: g}
		stops := stopWords(g, w, 1+g.IntN(40), 1+g.IntN(12))
		if round%2 == 0 { // so that most texts go on for long
			stops = slices.DeleteFunc(stops, func(s string) bool { return utf8.RuneCountInString(s) < 4 })
		}
		var text strings.Builder
		for text.Len() < 300 {
			text.WriteString(w.word(g.IntN(8)))
			if len(stops) > 0 { // the beginning of one, but not all of it
				r := []rune(stops[g.IntN(len(stops))])
				text.WriteString(string(r[:g.IntN(len(r))]))
			}
		}
		pieces := cut(g, text.String())
		protect, include := g.IntN(1+len(pieces)), g.IntN(2) == 0
		hit, err := sameText(stops, pieces, protect, include)
		if err != nil {
			t.Fatalf("stop strings %q in %q from piece %d on, included %v: %v", stops, pieces, protect, include, err)
		}
		if hit >= 0 {
			stopped++
			ends[hit] = true
		}
	}
	t.Logf("%d texts were stopped, by stop strings at %d places of their lists", stopped, len(ends))
	if stopped < 750 || len(ends) < 15 {
		t.Error("that is too few for the test to mean anything")
	}
}

// FuzzStopStrings is the same for stop strings and texts that a fuzzer makes up, separated by
// line ends.
func FuzzStopStrings(f *testing.F) {
	f.Add("END\nEN\nND\nE", "xx\nE\nN\nEND", 2, true)
	f.Add("aaaab\naaab\nab\naa", "a\na\na\nac\naaaab", 1, false)
	f.Add("é語\n語é\n語", "é\né語", 0, false)
	f.Fuzz(func(t *testing.T, stops, pieces string, protect int, include bool) {
		if !utf8.ValidString(stops) || !utf8.ValidString(pieces) || len(stops)+len(pieces) > 1000 {
			t.Skip()
		}
		words := slices.DeleteFunc(strings.Split(stops, "\n"), func(s string) bool { return s == "" })
		if _, err := sameText(words, strings.Split(pieces, "\n"), protect, include); err != nil {
			t.Error(err)
		}
	})
}

// hostileStops are the worst stop strings that a request may have: of so many bytes together,
// and with a text that is nearly all of them all the time.
func hostileStops(total int) (stops []string, text string) {
	const n = 256
	for i := range n {
		stops = append(stops, strings.Repeat("ab", total/n/2-4)+fmt.Sprintf("%08d", i))
	}
	return stops, strings.Repeat("ab", 4<<10)
}

// TestStopStringsMoves: a byte of text costs two moves at most, on average, whatever the stop
// strings are.
func TestStopStringsMoves(t *testing.T) {
	long, _ := hostileStops(16 << 10)
	for _, c := range []struct {
		stops []string
		text  string
	}{
		{long, strings.Repeat("ab", 4<<10)},
		{[]string{strings.Repeat("a", 8<<10) + "b"}, strings.Repeat(strings.Repeat("a", 8<<10)+"c", 4)},
		{[]string{strings.Repeat("a", 999) + "b", strings.Repeat("a", 500) + "c", "ab"}, strings.Repeat("a", 9999) + "d"},
	} {
		s := newStopStrings(c.stops, false)
		moves, n := 0, int32(0)
		for i := range len(c.text) {
			for at := n; ; at = s.back[at] {
				moves++
				if at == 0 || slices.Contains(s.labels[s.children[at]:s.children[at+1]], c.text[i]) {
					break
				}
			}
			n = s.move(n, c.text[i])
		}
		if moves > 2*len(c.text) {
			t.Errorf("stop strings of %d bytes: %d moves for %d bytes of text", s.longest, moves, len(c.text))
		}
	}
}

// TestStopStringsSize: the memory grows with the bytes of the stop strings, and is not more
// than StopStringsSize says.
func TestStopStringsSize(t *testing.T) {
	for _, stops := range [][]string{{"x"}, {strings.Repeat("a", 16<<10)}, first(hostileStops(16 << 10)), distinct(256, 64)} {
		s := newStopStrings(stops, false)
		got := cap(s.labels) + 4*(cap(s.children)+cap(s.back)+cap(s.found)) + 4*len(s.root) + 8*len(s.lengths)
		total := 0
		for _, stop := range stops {
			total += len(stop)
		}
		if most := StopStringsSize(stops, 0); int64(got) > most || most > int64(40*total+4096) {
			t.Errorf("%d stop strings of %d bytes together take %d bytes, and %d are counted", len(stops), total, got, most)
		}
	}
}

func first(stops []string, _ string) []string { return stops }

// distinct are n stop strings that share nothing.
func distinct(n, length int) (stops []string) {
	g := rand.New(rand.NewPCG(1, 1))
	for range n {
		b := make([]byte, length)
		for i := range b {
			b[i] = byte('!' + g.IntN(90))
		}
		stops = append(stops, string(b))
	}
	return stops
}

// TestStopStringsAllocateNothing: once the buffer has grown, a token with stop strings costs
// no allocation.
func TestStopStringsAllocateNothing(t *testing.T) {
	stops, text := hostileStops(16 << 10)
	x := newTextFor(stops, false)
	token := func() {
		feed(&x, text[:5], true, false)
		x.take(false)
		x.trim()
	}
	for range 10000 {
		token()
	}
	if n := testing.AllocsPerRun(10000, token); n != 0 {
		t.Errorf("%v allocations for each token", n)
	}
}

// BenchmarkStopStrings is the text of a token of five bytes.
func BenchmarkStopStrings(b *testing.B) {
	hostile, hostileText := hostileStops(16 << 10)
	prose := strings.Repeat("The river ran below the old mill, and nobody knew why. ", 40)
	for _, c := range []struct {
		name  string
		stops []string
		text  string
	}{
		{"none", nil, prose},
		{"one", []string{"</s>"}, prose},
		{"one that often begins", []string{"\n\nUser:", "the end"}[1:], prose},
		{"four", []string{"\n\n", "</s>", "User:", "Observation:"}, prose},
		{"256 short", distinct(256, 8), prose},
		{"256 of 64 bytes that nearly fit", hostile, hostileText},
		{"one of 16 KiB that nearly fits", []string{strings.Repeat("ab", 8<<10-1) + "c"}, hostileText},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := newTextFor(c.stops, false)
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				if at+5 > len(c.text) {
					at = 0
				}
				if feed(&x, c.text[at:at+5], true, false) >= 0 {
					b.Fatal("stopped")
				}
				x.take(false)
				x.trim()
				at += 5
			}
		})
	}
}
