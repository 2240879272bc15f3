package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var (
	skipSpecial = DecodeOptions{SkipSpecial: true}
	endToken    = object{"id": 260, "content": "<|end|>", "special": true}
)

// steps returns what a Decoder releases after each id.
func steps(tok *Tokenizer, prompt, ids []int32, opt DecodeOptions) []string {
	d := tok.NewDecoder(prompt, opt)
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(d.Append(nil, id))
	}
	return out
}

func idsOf(bytes string) []int32 {
	ids := make([]int32, len(bytes))
	for i := range len(bytes) {
		ids[i] = int32(bytes[i])
	}
	return ids
}

// TestDecoderReleasesWholeCharacters: docs/interface/chat-completions.md, section 6, over
// a vocabulary in which ids 0 to 255 are bytes.
func TestDecoderReleasesWholeCharacters(t *testing.T) {
	tok := mustLoad(t, marshal(t, tinyBytes(object{"added_tokens": []any{endToken}})))
	for _, c := range []struct {
		rule string
		ids  []int32
		opt  DecodeOptions
		want []string
	}{
		{"a character over four tokens comes with the last", idsOf("🙂!"), skipSpecial, []string{"", "", "", "🙂", "!"}},
		{"bytes that stay incomplete are never released", idsOf("a\xF0\x9F\x99"), skipSpecial, []string{"a", "", "", ""}},
		{"U+FFFD waits like an incomplete character", idsOf("\uFFFDa"), skipSpecial, []string{"", "", "", "\uFFFDa"}},
		{"U+FFFD at the end is lost", idsOf("a\uFFFD"), skipSpecial, []string{"a", "", "", ""}},
		{"broken bytes come as U+FFFD with what follows", idsOf("\xE4\xB8a\xFFb"), skipSpecial, []string{"", "", "\uFFFDa", "", "\uFFFDb"}},
		{"special tokens are skipped", []int32{'a', 260, 'b'}, skipSpecial, []string{"a", "", "b"}},
		{"special tokens are shown if asked", []int32{'a', 260, 'b'}, DecodeOptions{}, []string{"a", "<|end|>", "b"}},
		{"some are shown in any case", []int32{'a', 260, 'b'}, DecodeOptions{SkipSpecial: true, Show: []int32{7, 260}}, []string{"a", "<|end|>", "b"}},
		{"but no others", []int32{'a', 260, 'b'}, DecodeOptions{SkipSpecial: true, Show: []int32{7}}, []string{"a", "", "b"}},
		{"a skipped token does not break a character", []int32{0xC3, 260, 0xA9}, skipSpecial, []string{"", "", "é"}},
		{"a shown token does", []int32{0xC3, 260, 0xA9}, DecodeOptions{}, []string{"", "\uFFFD<|end|>", ""}},
		{"unknown ids are nothing", []int32{'a', -5, 70000, 0xC3, 261, 0xA9}, skipSpecial, []string{"a", "", "", "", "", "é"}},
	} {
		if got := steps(tok, nil, c.ids, c.opt); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
	}
}

// TestDecoderAfterPrompt: the prompt decides about the leading space and is never
// released itself.
func TestDecoderAfterPrompt(t *testing.T) {
	tok := mustLoad(t, marshal(t, tinyChars(object{"added_tokens": []any{object{"id": 289, "content": "<s>", "special": true}}})))
	id := func(s string) int32 {
		id, ok := tok.ID(s)
		if !ok {
			t.Fatalf("no token %q", s)
		}
		return id
	}
	the := id("▁the")
	for _, c := range []struct {
		rule        string
		prompt, ids []int32
		opt         DecodeOptions
		want        []string
	}{
		{"at the start of a text the space is dropped", nil, []int32{the, the}, skipSpecial, []string{"the", " the"}},
		{"after a prompt it is kept", []int32{id("a")}, []int32{the, the}, skipSpecial, []string{" the", " the"}},
		{"skipped tokens are no text", []int32{289, 289}, []int32{the, the}, skipSpecial, []string{"the", " the"}},
		{"shown tokens are", []int32{289}, []int32{the}, DecodeOptions{}, []string{" the"}},
		{"skipped tokens do not hide the text before them", []int32{the, 289, 289, 289, 289, 289}, []int32{the}, skipSpecial, []string{" the"}},
		{"a lone space mark at the start is nothing", nil, []int32{id("▁"), id("▁"), id("a")}, skipSpecial, []string{"", " ", "a"}},
		{"bytes in a row are characters", nil, []int32{id("<0xE4>"), id("<0xB8>"), id("<0xAD>"), id("<0x41>")}, skipSpecial, []string{"", "", "中", "A"}},
		{"a byte that is a space is dropped at the start too", nil, []int32{id("<0x20>"), id("<0x20>"), id("a")}, skipSpecial, []string{"", " ", "a"}},
		{"each broken byte becomes U+FFFD", nil, []int32{id("<0xE4>"), id("<0xB8>"), id("a")}, skipSpecial, []string{"", "", "\uFFFD\uFFFDa"}},
		{"a character that the prompt began is finished", []int32{the, id("<0xE4>"), id("<0xB8>")}, []int32{id("<0xAD>"), id("a")}, skipSpecial, []string{"中", "a"}},
		{"the prompt's text waits for nothing", []int32{the, id("<0xEF>"), id("<0xBF>"), id("<0xBD>")}, []int32{id("a")}, skipSpecial, []string{"a"}},
	} {
		if got := steps(tok, c.prompt, c.ids, c.opt); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
	}
}

// TestJoinSpecial: spaces_between_special_tokens matters only where the decoder puts
// something between added tokens.
func TestJoinSpecial(t *testing.T) {
	tok := mustLoad(t, marshal(t, tinyChars(object{"added_tokens": []any{
		object{"id": 289, "content": "<a>", "normalized": true}, object{"id": 290, "content": "<b>", "normalized": true, "special": true}}})))
	a, _ := tok.ID("a")
	ids := []int32{289, 290, 289, a, 290}
	for _, c := range []struct {
		opt  DecodeOptions
		want []string
	}{
		{DecodeOptions{}, []string{"<a>", " <b>", " <a>", "a", " <b>"}},
		{DecodeOptions{JoinSpecial: true}, []string{"<a>", "<b>", "<a>", "a", " <b>"}},
		{DecodeOptions{SkipSpecial: true}, []string{"<a>", "", " <a>", "a", ""}},
		{DecodeOptions{SkipSpecial: true, JoinSpecial: true}, []string{"<a>", "", " <a>", "a", ""}},
	} {
		if got := steps(tok, nil, ids, c.opt); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c.opt, got, c.want)
		}
		if got, want := tok.Decode(ids, c.opt), strings.Join(c.want, ""); got != want {
			t.Errorf("%+v: Decode gives %q, want %q", c.opt, got, want)
		}
	}
}

// TestRoundTrip: valid UTF-8 survives, under NFC up to NFC.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	texts := make([]string, 0, 3000)
	for _, s := range samples() {
		texts = append(texts, s.Text)
	}
	for range rounds(1500) {
		texts = append(texts, mixedText(rng, 1+rng.IntN(30)))
	}
	for _, name := range miniNames {
		tok := mini(t, name)
		for _, s := range texts {
			want := s
			switch {
			case strings.HasSuffix(name, "-nfc"):
				want = norm.NFC.String(s)
			case strings.HasPrefix(name, "spm-") && strings.ContainsAny(s, "▁"):
				continue // the mark is decoded to a space
			case (name == "spm-metaspace" || name == "spm-llama2") && strings.Contains(s, "<|"):
				continue // every stretch between added tokens gets a space of its own
			case name == "spm-metaspace" && strings.HasPrefix(s, " "):
				continue // no mark is added where there is one, and decoding drops the one there is
			}
			ids := encode(tok, s, false)
			if got := tok.Decode(ids, DecodeOptions{}); got != want {
				t.Errorf("%s: %q comes back as %q", name, s, got)
			}
			for _, id := range ids {
				if int(id) >= tok.VocabSize() || id < 0 {
					t.Fatalf("%s: id %d of %d", name, id, tok.VocabSize())
				}
			}
		}
	}
}

// TestInvalidUTF8 follows the examples of the Unicode standard, tables 3-8 to
// 3-11: one U+FFFD for each maximal subpart.
func TestInvalidUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64": "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd",
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41":                 "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41":                 "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42":                 "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41":                 "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xF4\x8F\xBF\xF0\x90\x80":                             "\uFFFD\uFFFD",
		"ok\xE4\xB8":                                           "ok\uFFFD",
	} {
		if got := toValid(in); got != want {
			t.Errorf("%+q becomes %+q, want %+q", in, got, want)
		}
		tok := mini(t, "bl-llama3")
		if got, want := encode(tok, in, false), encode(tok, want, false); !slices.Equal(got, want) {
			t.Errorf("Encode(%+q) = %v, want %v", in, got, want)
		}
		if got := mini(t, "bl-gpt2").Decode(idsOfBytes(t, mini(t, "bl-gpt2"), in), DecodeOptions{}); got != want {
			t.Errorf("Decode of the bytes %+q gives %+q", in, got)
		}
	}
}

func idsOfBytes(t *testing.T, tok *Tokenizer, bytes string) []int32 {
	t.Helper()
	ids := make([]int32, len(bytes))
	for i := range len(bytes) {
		ids[i] = tok.bytes[bytes[i]]
		if got := string(tok.Bytes(ids[i])); got != bytes[i:i+1] {
			t.Fatalf("byte %q has the token of %q", bytes[i], got)
		}
	}
	return ids
}

// TestDecodeMatchesReference: Decode equals the decoder chain run step by step.
func TestDecodeMatchesReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, name := range referenceNames {
		tok, slow := mini(t, name), miniReference(t, name)
		for range rounds(1000) {
			ids := randomIDs(rng, tok, 1+rng.IntN(12))
			for _, skip := range []bool{false, true} {
				if got, want := tok.Decode(ids, DecodeOptions{SkipSpecial: skip}), slow.decode(ids, skip); got != want {
					t.Fatalf("%s: %v\n got %q\nwant %q", name, tokens(tok, ids), got, want)
				}
			}
		}
	}
}

// randomIDs returns ids, most of them of parts of characters.
func randomIDs(rng *rand.Rand, tok *Tokenizer, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		switch b := "\xE4\xB8\xAD\xE2\x96\x81\xEF\xBF\xBD\xC3\xA9\xFF a"[rng.IntN(14)]; rng.IntN(4) {
		case 0:
			ids[i] = int32(rng.IntN(tok.VocabSize()+3)) - 1
		case 1:
			ids[i] = int32(tok.VocabSize() - 1 - rng.IntN(4))
		default:
			if ids[i] = tok.chars.bytes[b]; tok.byteLevel {
				ids[i] = tok.bytes[b]
			}
		}
	}
	return ids
}

// checkDecoder compares a Decoder with the rule of the interface, taken literally: what
// is released after a token is what Decode of all tokens so far adds to the text that is
// out, unless that is nothing or ends in U+FFFD.
func checkDecoder(t *testing.T, tok *Tokenizer, prompt, ids []int32, opt DecodeOptions) {
	t.Helper()
	if d := tok.NewDecoder(prompt, opt); len(d.held) > 0 || restarts(tok, append(slices.Clone(prompt), ids...), opt) {
		decodeByPieces(tok, prompt, ids, opt) // the rule says nothing of it, but it must not panic
		return
	}
	all, out := slices.Clone(prompt), tok.Decode(prompt, opt)
	d := tok.NewDecoder(prompt, opt)
	for _, id := range ids {
		all = append(all, id)
		whole, want := tok.Decode(all, opt), ""
		if len(whole) > len(out) && !strings.HasSuffix(whole, "\uFFFD") {
			want = whole[len(out):]
		}
		if got := string(d.Append(nil, id)); got != want {
			t.Fatalf("prompt %q, tokens %q %+v: after %q got %q, want %q", tokens(tok, prompt), tokens(tok, ids), opt, tok.Token(id), got, want)
		}
		out += want
	}
}

// restarts reports whether a run of <0xNN> tokens begins with a whole character
// and then breaks: the exception that Decoder documents.
func restarts(tok *Tokenizer, ids []int32, opt DecodeOptions) bool {
	var run []byte
	broken := func() bool {
		defer func() { run = run[:0] }()
		if utf8.Valid(run) {
			return false
		}
		r, n := utf8.DecodeRune(run)
		return r != utf8.RuneError || n > 1
	}
	for _, id := range ids {
		e := tok.vocab.at(id)
		if e.flags&known == 0 || opt.SkipSpecial && e.flags&special != 0 {
			continue
		}
		if e.flags&isByte != 0 {
			run = append(run, tok.vocab.textOf(e)...)
		} else if broken() {
			return true
		}
	}
	return broken()
}

func TestDecoderMatchesDecode(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, name := range referenceNames {
		tok := mini(t, name)
		for range rounds(1500) {
			opt := DecodeOptions{SkipSpecial: rng.IntN(2) == 0, JoinSpecial: rng.IntN(2) == 0}
			var prompt []int32
			if rng.IntN(2) == 0 {
				prompt = randomIDs(rng, tok, rng.IntN(6))
				if s := tok.Decode(prompt, opt); strings.HasSuffix(s, "\uFFFD") {
					prompt = nil // the rule does not say what becomes of a character that the prompt began
				}
			}
			checkDecoder(t, tok, prompt, randomIDs(rng, tok, 1+rng.IntN(12)), opt)
		}
		for _, s := range samples()[:rounds(300)] {
			checkDecoder(t, tok, nil, encode(tok, s.Text, false), skipSpecial)
		}
	}
}
