package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// twin encodes and decodes the obvious, slow way: maps of strings, one merge at
// a time, no cache, no cuts, and only the generic matcher.
type twin struct {
	Model struct {
		Vocab        map[string]int32 `json:"vocab"`
		Merges       []any            `json:"merges"`
		IgnoreMerges bool             `json:"ignore_merges"`
	} `json:"model"`
	Added      []addedToken `json:"added_tokens"`
	Normalizer *component   `json:"normalizer"`
	Pre        *component   `json:"pre_tokenizer"`
	Decoder    *component   `json:"decoder"`

	ranks     map[[2]string]int
	spelled   map[int32]string
	special   map[int32]bool
	regexes   map[string]*regex
	byteLevel bool
}

func newTwin(tb testing.TB, data []byte) *twin {
	tb.Helper()
	w := &twin{ranks: map[[2]string]int{}, spelled: map[int32]string{}, special: map[int32]bool{}, regexes: map[string]*regex{}}
	if err := json.Unmarshal(data, w); err != nil {
		tb.Fatal(err)
	}
	for i, m := range w.Model.Merges {
		switch m := m.(type) {
		case string:
			a, b, _ := strings.Cut(m, " ")
			w.ranks[[2]string{a, b}] = i
		case []any:
			w.ranks[[2]string{m[0].(string), m[1].(string)}] = i
		}
	}
	for s, id := range w.Model.Vocab {
		w.spelled[id] = s
	}
	for _, a := range w.Added {
		w.spelled[a.ID], w.special[a.ID] = a.Content, a.Special
	}
	w.byteLevel = strings.Contains(string(data), `"ByteLevel"`)
	return w
}

// encode knows added tokens without flags alone, which is what the mini
// tokenizers have.
func (w *twin) encode(tb testing.TB, s string) []int32 {
	var out []int32
	var text strings.Builder
	start := true
	flush := func() {
		if text.Len() > 0 {
			out = append(out, w.words(tb, text.String(), start)...)
		}
		text.Reset()
		start = false
	}
	for s != "" {
		best := addedToken{ID: -1}
		for _, a := range w.Added {
			if strings.HasPrefix(s, a.Content) && len(a.Content) > len(best.Content) {
				best = a
			}
		}
		if best.ID >= 0 {
			flush()
			out = append(out, best.ID)
			s = s[len(best.Content):]
			continue
		}
		_, n := utf8.DecodeRuneInString(s)
		text.WriteString(s[:n])
		s = s[n:]
	}
	flush()
	return out
}

func (w *twin) words(tb testing.TB, s string, start bool) []int32 {
	for _, c := range flatten(nil, w.Normalizer, func(c *component) []component { return c.Normalizers }) {
		switch c.Type {
		case "NFC":
			s = nfc(s)
		case "Prepend":
			s = c.Prepend + s
		case "Replace":
			s = strings.ReplaceAll(s, *c.Pattern.String, c.Content)
		}
	}
	list := []string{s}
	for _, c := range flatten(nil, w.Pre, func(c *component) []component { return c.PreTokenizers }) {
		list = w.split(tb, &c, list, start)
	}
	var out []int32
	for _, word := range list {
		out = append(out, w.merge(word)...)
	}
	return out
}

func (w *twin) split(tb testing.TB, c *component, list []string, start bool) (out []string) {
	pattern := ""
	switch c.Type {
	case "ByteLevel":
		if c.UseRegex != nil && !*c.UseRegex {
			return list
		}
		pattern = gpt2Pattern
	case "Digits":
		pattern = `\p{N}`
	case "Metaspace":
		s := strings.ReplaceAll(list[0], " ", c.Replacement)
		if start && !strings.HasPrefix(s, c.Replacement) {
			s = c.Replacement + s
		}
		for i, part := range strings.Split(s, c.Replacement) {
			if i > 0 {
				part = c.Replacement + part
			}
			if part != "" {
				out = append(out, part)
			}
		}
		return out
	case "Split":
		if c.Pattern.String != nil { // Gemma's, which never finds its space
			return list
		}
		pattern = *c.Pattern.Regex
	}
	re := w.regexes[pattern]
	if re == nil {
		var err error
		if re, err = compileRegex(pattern); err != nil {
			tb.Fatal(err)
		}
		w.regexes[pattern] = re
	}
	for _, s := range list {
		steps := 1 << 30
		for i := 0; i < len(s); {
			end := re.match(s, i, &steps)
			if end == i {
				_, n := utf8.DecodeRuneInString(s[i:])
				end = re.find(s, i+n, &steps)
			}
			out = append(out, s[i:end])
			i = end
		}
	}
	return out
}

func (w *twin) merge(word string) []int32 {
	var syms []string
	if w.byteLevel {
		spelled := ""
		for _, b := range []byte(word) {
			spelled += string(byteSpelling[b])
		}
		word = spelled
	}
	if id, ok := w.Model.Vocab[word]; ok && w.Model.IgnoreMerges {
		return []int32{id}
	}
	for _, r := range word {
		if _, ok := w.Model.Vocab[string(r)]; ok {
			syms = append(syms, string(r))
			continue
		}
		for _, b := range []byte(string(r)) {
			syms = append(syms, fmt.Sprintf("<0x%02X>", b))
		}
	}
	for {
		best, at := -1, 0
		for i := 0; i+1 < len(syms); i++ {
			if r, ok := w.ranks[[2]string{syms[i], syms[i+1]}]; ok && (best < 0 || r < best) {
				best, at = r, i
			}
		}
		if best < 0 {
			break
		}
		syms = slices.Replace(syms, at, at+2, syms[at]+syms[at+1])
	}
	ids := make([]int32, len(syms))
	for i, s := range syms {
		ids[i] = w.Model.Vocab[s]
	}
	return ids
}

// decode runs the decoder chain on a list of strings, step by step.
func (w *twin) decode(ids []int32, skip bool) string {
	var list []string
	for _, id := range ids {
		if s, ok := w.spelled[id]; ok && !(skip && w.special[id]) {
			list = append(list, s)
		}
	}
	for _, c := range flatten(nil, w.Decoder, func(c *component) []component { return c.Decoders }) {
		var next []string
		switch c.Type {
		case "ByteLevel":
			var b []byte
			for _, s := range list {
				if raw, ok := appendUnspelled(nil, s); ok {
					b = append(b, raw...)
				} else {
					b = append(b, s...)
				}
			}
			next = []string{string(appendLossy(nil, b))}
		case "Replace":
			for _, s := range list {
				next = append(next, strings.ReplaceAll(s, *c.Pattern.String, c.Content))
			}
		case "ByteFallback":
			var run []byte
			flush := func() {
				if utf8.Valid(run) && len(run) > 0 {
					next = append(next, string(run))
				} else {
					for range run {
						next = append(next, "\uFFFD")
					}
				}
				run = nil
			}
			for _, s := range list {
				var b byte
				if n, _ := fmt.Sscanf(s, "<0x%02X>", &b); n == 1 && len(s) == 6 {
					run = append(run, b)
					continue
				}
				flush()
				next = append(next, s)
			}
			flush()
		case "Metaspace":
			for i, s := range list {
				to := " "
				if i == 0 && c.PrependScheme != "never" {
					to = ""
				}
				next = append(next, strings.ReplaceAll(s, c.Replacement, to))
			}
		case "Fuse":
			next = []string{strings.Join(list, "")}
		case "Strip":
			for _, s := range list {
				next = append(next, strings.TrimPrefix(s, c.Content))
			}
		}
		list = next
	}
	return strings.Join(list, "")
}

// rounds is how often a random test tries: the race detector makes all of it ten
// times as slow and has something to find in TestConcurrentEncode alone.
func rounds(n int) int {
	if raceEnabled {
		return n / 10
	}
	return n
}

// twinNames have all kinds of splitting, merging and decoding.
var twinNames = []string{"bl-llama3", "bl-digits-gpt2", "bl-deepseek3", "bl-qwen35-nfc", "spm-llama2", "spm-gemma", "spm-metaspace"}

func miniTwin(tb testing.TB, name string) *twin {
	return newTwin(tb, readFile(tb, filepath.Join("testdata/mini", name+".json.gz")))
}

// TestMergeMatchesTwin: both ways to merge, at and around the length where one
// takes over from the other, give what merging one pair at a time gives.
func TestMergeMatchesTwin(t *testing.T) {
	for _, name := range []string{"bl-gpt2", "spm-llama2"} {
		tok, slow := mini(t, name), miniTwin(t, name)
		w := &worker{t: tok}
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range rounds(3000) {
			n := 1 + rng.IntN(2*shortWord)
			if i%50 == 0 {
				n = 300
			}
			b := make([]byte, n)
			for i := range b {
				b[i] = "the a in of\n.,TAeeoonnrr"[rng.IntN(24)]
			}
			word := string(b)
			w.out = w.out[:0]
			if w.merge(word); !slices.Equal(w.out, slow.merge(word)) {
				t.Fatalf("%s: %q\n got %v\nwant %v", name, word, w.out, slow.merge(word))
			}
		}
	}
}

// TestEqualRanksMergeLeftmost: the heap breaks ties by position, in a word whose
// pairs all are the same merge.
func TestEqualRanksMergeLeftmost(t *testing.T) {
	tok, slow := mini(t, "bl-gpt2"), miniTwin(t, "bl-gpt2")
	w := &worker{t: tok}
	for _, unit := range []string{"e", " ", "-", "an", "0"} {
		for n := 1; n < 200; n++ {
			word := strings.Repeat(unit, n)
			w.out = w.out[:0]
			if w.merge(word); !slices.Equal(w.out, slow.merge(word)) {
				t.Fatalf("%d times %q: got %v, want %v", n, unit, w.out, slow.merge(word))
			}
		}
	}
}

// mixedText has what the word patterns tell apart, in any order.
func mixedText(rng *rand.Rand, n int) string {
	parts := []string{"a", "B", "word", "WORD", "Ab", "ſ", "K", "ǅ", "ʰ", "ª", "é", "e\u0301", "\u0301", "\u0903", "中", "の", "カー", "한", "\u9fa5", "\u9fa6", "\u4dff", "\u303f", "\u3040", "\u30ff", "\u3100", "1", "23", "٣", "²", "Ⅷ",
		" ", "  ", "\u00a0", "\u3000", "\t", "\n", "\r\n", "\u2028", "'", "'s", "'S", "'ſ", "'ll", "'Re", "'VE", "’", "!", "?!", ".", ",", "/", "\\", "_", "$", "€", "+", "🙂", "\u200d", "\ufe0f", "\x00", "\x7f", "\u0085", "\U000E0001", "\U0010FFFD", "\uFFFD"}
	var b strings.Builder
	for range n {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// TestWordsMatchRegex: each hand-written matcher finds what the generic one finds
// with the pattern it is registered for, at every position.
func TestWordsMatchRegex(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	texts := make([]string, 0, 4000)
	for _, s := range samples() {
		texts = append(texts, s.Text)
	}
	for range rounds(3000) {
		texts = append(texts, mixedText(rng, 1+rng.IntN(24)))
	}
	for _, pattern := range []string{gpt2Pattern, llama3Pattern, qwen2Pattern, qwen35Pattern, o200kPattern, tekkenPattern, deepseekPattern,
		kanaHanPattern, `\p{N}`, `\p{N}{1,3}`, `\p{N}+`} {
		fast := knownPattern(pattern)
		slow, err := compileRegex(pattern)
		if fast == nil || err != nil {
			t.Fatalf("%q: %v, %v", pattern, fast, err)
		}
		for _, s := range texts {
			for i := range s {
				steps := budget(s)
				if got, want := fast.match(s, i, nil), slow.match(s, i, &steps); got != want {
					t.Fatalf("%q\nat %d of %q: match ends at %d, want %d", pattern, i, s, got, want)
				}
				if i%7 == 0 && i < 100 {
					steps := budget(s)
					if got, want := fast.find(s, i, nil), slow.find(s, i, &steps); got != want {
						t.Fatalf("%q\nafter %d of %q: next match at %d, want %d", pattern, i, s, got, want)
					}
				}
				if i > 2000 {
					break // the long samples repeat themselves
				}
			}
		}
	}
}

// TestRegexMatchesStandardLibrary: where RE2 can express a pattern, both agree.
func TestRegexMatchesStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, pattern := range []string{
		`a+`, `a+b|a`, `(?:a|ab)(?:c|bcd)d*`, `(?:ab|a)+b?`, `[^a\n]{2,3}x?`, `(?i:é|ab)+`, `\p{L}+\p{N}*|\s+`, `(?:a{2}|b{1,2})+`, `[a-c]*b[a-c]`, `.a|\n`,
		`(?:(?:a|b)*c|a)b?`, `a(?:b(?:c|d)?)?`, `\d+|\D`, `[\p{Lu}\p{Lt}]*[\p{Ll}é]+`,
	} {
		re, err := compileRegex(pattern)
		if err != nil {
			// A group that may match nothing cannot be repeated here.
			t.Fatalf("%q: %v", pattern, err)
		}
		std := regexp.MustCompile(`^(?:` + pattern + `)`)
		for range rounds(2000) {
			var b strings.Builder
			for range 1 + rng.IntN(12) {
				b.WriteString([]string{"a", "b", "c", "d", "A", "B", "é", "É", "1", "x", "\n", " ", "中"}[rng.IntN(13)])
			}
			s, want := b.String(), 0
			if loc := std.FindStringIndex(s); loc != nil {
				want = loc[1]
			}
			steps := budget(s)
			if got := re.match(s, 0, &steps); got != want {
				t.Fatalf("%q on %q: ends at %d, want %d", pattern, s, got, want)
			}
		}
	}
}

// TestComposeMarksMatchesNFC: the slow way for many marks equals x/text where
// x/text does not insert anything.
func TestComposeMarksMatchesNFC(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	check := func(s string) {
		t.Helper()
		if got, want := composeMarks(s), norm.NFC.String(s); got != want {
			t.Fatalf("%+q\n got %+q\nwant %+q", s, got, want)
		}
	}
	for _, s := range samples() {
		check(s.Text)
	}
	marks := []rune("aeoAUΩαιकগᄀ가ᅡᆨ\u0301\u0300\u0302\u0308\u0316\u0323\u0327\u0345\u0344\u0334\u093c\u09be\u09c7\u05b0\u05bc\u1dc0\u20dd\u212b\u2126\u1e9b\u0958\ufb1d\U0001d15e\U0001d165")
	for range rounds(20000) {
		var b strings.Builder
		for range 1 + rng.IntN(9) {
			b.WriteRune(marks[rng.IntN(len(marks))])
		}
		check(b.String())
	}
}

// TestAddedScanMatchesTwin: the trie finds leftmost-longest what trying every
// token at every position finds.
func TestAddedScanMatchesTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	contents := []string{"ab", "abc", "b", "bca", "cc", "aab", "<", "<<a", "é", "éa"}
	set := newAddedSet()
	for i, s := range contents {
		if err := set.add(s, addedToken{ID: int32(i), Content: s}); err != nil {
			t.Fatal(err)
		}
	}
	for range rounds(5000) {
		var b strings.Builder
		for range rng.IntN(16) {
			b.WriteString([]string{"a", "b", "c", "<", "é", "x"}[rng.IntN(6)])
		}
		text := b.String()
		var want, got []string
		gap := ""
		for i := 0; i < len(text); {
			best := ""
			for _, c := range contents {
				if strings.HasPrefix(text[i:], c) && len(c) > len(best) {
					best = c
				}
			}
			if best == "" {
				gap += text[i : i+1]
				i++
				continue
			}
			if gap != "" {
				want = append(want, "text "+gap)
			}
			want, gap = append(want, "token "+best), ""
			i += len(best)
		}
		if gap != "" {
			want = append(want, "text "+gap)
		}
		scan := addedScan{set: set, text: text}
		for {
			stretch, _, tok, ok := scan.next()
			if !ok {
				break
			}
			if tok != nil {
				got = append(got, "token "+tok.Content)
			} else {
				got = append(got, "text "+stretch)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}
