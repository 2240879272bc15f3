package tokenizer

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// reference is a tokenizer that is too simple to be wrong: maps of strings, one merge
// at a time, no cache, no cuts, and only the generic matcher.
type reference struct {
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

func newReference(tb testing.TB, data []byte) *reference {
	tb.Helper()
	r := &reference{ranks: map[[2]string]int{}, spelled: map[int32]string{}, special: map[int32]bool{}, regexes: map[string]*regex{}}
	if err := json.Unmarshal(data, r); err != nil {
		tb.Fatal(err)
	}
	for i, m := range r.Model.Merges {
		switch m := m.(type) {
		case string:
			a, b, _ := strings.Cut(m, " ")
			r.ranks[[2]string{a, b}] = i
		case []any:
			r.ranks[[2]string{m[0].(string), m[1].(string)}] = i
		}
	}
	for s, id := range r.Model.Vocab {
		r.spelled[id] = s
	}
	for _, a := range r.Added {
		r.spelled[a.ID], r.special[a.ID] = a.Content, a.Special
	}
	r.byteLevel = strings.Contains(string(data), `"ByteLevel"`)
	return r
}

// encode handles only added tokens without flags; the mini tokenizers have no others.
func (r *reference) encode(tb testing.TB, s string) []int32 {
	var out []int32
	var text strings.Builder
	start := true
	flush := func() {
		if text.Len() > 0 {
			out = append(out, r.words(tb, text.String(), start)...)
		}
		text.Reset()
		start = false
	}
	for s != "" {
		best := addedToken{ID: -1}
		for _, a := range r.Added {
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

func (r *reference) words(tb testing.TB, s string, start bool) []int32 {
	for _, c := range flatten(nil, r.Normalizer, func(c *component) []component { return c.Normalizers }) {
		switch c.Type {
		case "NFC":
			s = nfc(nil, s)
		case "Prepend":
			s = c.Prepend + s
		case "Replace":
			s = strings.ReplaceAll(s, *c.Pattern.String, c.Content)
		}
	}
	list := []string{s}
	for _, c := range flatten(nil, r.Pre, func(c *component) []component { return c.PreTokenizers }) {
		list = r.split(tb, &c, list, start)
	}
	var out []int32
	for _, word := range list {
		out = append(out, r.merge(word)...)
	}
	return out
}

// split applies a pre-tokenizer to all words. start says that the words begin the text.
func (r *reference) split(tb testing.TB, c *component, words []string, start bool) (out []string) {
	switch c.Type {
	case "ByteLevel":
		if c.UseRegex != nil && !*c.UseRegex {
			return words
		}
		return r.splitBy(tb, gpt2Pattern, words)
	case "Digits":
		return r.splitBy(tb, `\p{N}`, words)
	case "Metaspace":
		return splitMetaspace(c, words[0], start)
	case "Split":
		if c.Pattern.String != nil { // Gemma's, which never finds its space
			return words
		}
		return r.splitBy(tb, *c.Pattern.Regex, words)
	}
	tb.Fatalf("the reference does not know the pre-tokenizer %q", c.Type)
	return nil
}

func splitMetaspace(c *component, s string, start bool) (out []string) {
	s = strings.ReplaceAll(s, " ", c.Replacement)
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
}

// splitBy cuts words at the matches of a pattern; matches and gaps are words.
func (r *reference) splitBy(tb testing.TB, pattern string, words []string) (out []string) {
	re := r.regexes[pattern]
	if re == nil {
		var err error
		if re, err = compileRegex(pattern); err != nil {
			tb.Fatal(err)
		}
		r.regexes[pattern] = re
	}
	for _, s := range words {
		steps := allow(1 << 30)
		for i := 0; i < len(s); {
			end := re.match(s, i, steps)
			if end == i {
				_, n := utf8.DecodeRuneInString(s[i:])
				end = re.find(s, i+n, steps)
			}
			out = append(out, s[i:end])
			i = end
		}
	}
	return out
}

// merge is one merge of the lowest rank after the other, the leftmost first.
func (r *reference) merge(word string) []int32 {
	var syms []string
	if r.byteLevel {
		spelled := ""
		for _, b := range []byte(word) {
			spelled += string(byteSpelling[b])
		}
		word = spelled
	}
	if id, ok := r.Model.Vocab[word]; ok && r.Model.IgnoreMerges {
		return []int32{id}
	}
	for _, c := range word {
		if _, ok := r.Model.Vocab[string(c)]; ok {
			syms = append(syms, string(c))
			continue
		}
		for _, b := range []byte(string(c)) {
			syms = append(syms, fmt.Sprintf("<0x%02X>", b))
		}
	}
	for {
		best, at := -1, 0
		for i := 0; i+1 < len(syms); i++ {
			if rank, ok := r.ranks[[2]string{syms[i], syms[i+1]}]; ok && (best < 0 || rank < best) {
				best, at = rank, i
			}
		}
		if best < 0 {
			break
		}
		syms = slices.Replace(syms, at, at+2, syms[at]+syms[at+1])
	}
	ids := make([]int32, len(syms))
	for i, s := range syms {
		ids[i] = r.Model.Vocab[s]
	}
	return ids
}

// decode runs the decoder chain on a list of strings, step by step.
func (r *reference) decode(ids []int32, skip bool) string {
	var list []string
	for _, id := range ids {
		if s, ok := r.spelled[id]; ok && !(skip && r.special[id]) {
			list = append(list, s)
		}
	}
	for _, c := range flatten(nil, r.Decoder, func(c *component) []component { return c.Decoders }) {
		list = referenceDecoders[c.Type](&c, list)
	}
	return strings.Join(list, "")
}

// referenceDecoders are the decoders of the chain, each from a list of strings to the
// next.
var referenceDecoders = map[string]func(c *component, list []string) []string{
	"ByteLevel": func(_ *component, list []string) []string {
		var b []byte
		for _, s := range list {
			if raw, ok := appendUnspelled(nil, s); ok {
				b = append(b, raw...)
			} else {
				b = append(b, s...)
			}
		}
		return []string{string(appendLossy(nil, b))}
	},
	"Replace": func(c *component, list []string) (out []string) {
		for _, s := range list {
			out = append(out, strings.ReplaceAll(s, *c.Pattern.String, c.Content))
		}
		return out
	},
	"ByteFallback": func(_ *component, list []string) []string { return joinByteTokens(list) },
	"Metaspace": func(c *component, list []string) (out []string) {
		for i, s := range list {
			to := " "
			if i == 0 && c.PrependScheme != "never" {
				to = ""
			}
			out = append(out, strings.ReplaceAll(s, c.Replacement, to))
		}
		return out
	},
	"Fuse": func(_ *component, list []string) []string { return []string{strings.Join(list, "")} },
	"Strip": func(c *component, list []string) (out []string) {
		for _, s := range list {
			out = append(out, strings.TrimPrefix(s, c.Content))
		}
		return out
	},
}

// joinByteTokens replaces each run of <0xNN> tokens by its text, or, if that is not
// UTF-8, each token of the run by U+FFFD.
func joinByteTokens(list []string) (out []string) {
	var run []byte
	flush := func() {
		if utf8.Valid(run) && len(run) > 0 {
			out = append(out, string(run))
		} else {
			for range run {
				out = append(out, "\uFFFD")
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
		out = append(out, s)
	}
	flush()
	return out
}

// rounds returns how often a random test tries. Under the race detector, which makes
// all of it ten times as slow and can only find something in TestConcurrentEncode, that
// is a tenth.
func rounds(n int) int {
	if raceEnabled {
		return n / 10
	}
	return n
}

// referenceNames are the mini tokenizers that the reference handles. Together they have
// all kinds of splitting, merging and decoding.
var referenceNames = []string{"bl-llama3", "bl-digits-gpt2", "bl-deepseek3", "bl-qwen35-nfc", "spm-llama2", "spm-gemma", "spm-metaspace"}

func miniReference(tb testing.TB, name string) *reference {
	return newReference(tb, readFile(tb, filepath.Join("testdata/mini", name+".json.gz")))
}
