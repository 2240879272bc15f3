package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// FuzzLoad: any bytes are an error or a tokenizer that works. Nothing panics.
func FuzzLoad(f *testing.F) {
	for _, file := range []object{
		tinyBytes(nil), tinyChars(nil),
		tinyBytes(object{"added_tokens": []any{object{"id": 260, "content": "<x>", "lstrip": true, "rstrip": true, "single_word": true, "normalized": true}}, "normalizer": object{"type": "NFC"}}),
		tinyBytes(object{"post_processor": object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "a"}}, object{"Sequence": object{"id": "A"}}},
			"special_tokens": object{"a": object{"ids": []int{97}}}}}),
		tinyChars(object{"normalizer": nil, "pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
			"decoder": object{"type": "Metaspace", "replacement": "▁"}}),
		withModel(tinyChars(nil), object{"byte_fallback": false, "ignore_merges": true}),
	} {
		f.Add(marshal(f, file))
	}
	for _, w := range pipelines(f).Files {
		f.Add([]byte(w.File))
	}
	for _, s := range readEdges().Splits {
		f.Add([]byte(`{"model":{"vocab":{"u":0,"a":1},"merges":[],"unk_token":"u"},"decoder":{"type":"Fuse"},"pre_tokenizer":` + string(s.Pre) + `}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Load(data)
		if err != nil {
			if tok != nil || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("%v: neither invalid nor unsupported", err)
			}
			return
		}
		text := "The 12 e\u0301 <x> ▁中文's\n\n  \xff!"
		ids, err := tok.Encode(nil, text, true)
		if err != nil && !errors.Is(err, ErrTooComplex) {
			t.Fatal(err)
		}
		for _, id := range ids {
			if tok.vocab.at(id).flags&known == 0 {
				t.Fatalf("%q has the unknown id %d", text, id)
			}
		}
		tok.Decode(ids, DecodeOptions{})
		decodeByPieces(tok, ids, ids, DecodeOptions{JoinSpecial: true})
	})
}

// FuzzEncode: the ids are those of the reference implementation and come back as the text.
func FuzzEncode(f *testing.F) {
	references := make([]*reference, len(referenceNames))
	toks := make([]*Tokenizer, len(referenceNames))
	for i, name := range referenceNames {
		references[i], toks[i] = miniReference(f, name), mini(f, name)
		for k := i; k < len(samples()); k += 41 {
			f.Add(byte(i), samples()[k].Text)
		}
		f.Add(byte(i), "<|im_start|>user\n \xe4\xb8 <|im_end|")
	}
	f.Fuzz(func(t *testing.T, pick byte, text string) {
		if len(text) > 300 {
			text = text[:300]
		}
		k := int(pick) % len(toks)
		tok, name := toks[k], referenceNames[k]
		ids := encode(tok, text, false)
		valid := toValid(text)
		if want := references[k].encode(t, valid); !slices.Equal(ids, want) {
			t.Fatalf("%s: %q\n got %q\nwant %q", name, text, tokens(tok, ids), tokens(tok, want))
		}
		if !tok.byteLevel {
			return // spaces and marks are one: TestRoundTrip
		}
		if len(tok.normalizers) > 0 {
			if manyMarks(valid) {
				return // x/text would insert something
			}
			valid = norm.NFC.String(valid)
		}
		if got := tok.Decode(ids, DecodeOptions{}); got != valid {
			t.Fatalf("%s: %q comes back as %q", name, valid, got)
		}
	})
}

// FuzzDecoder: any ids, in pieces as at once.
func FuzzDecoder(f *testing.F) {
	toks := make([]*Tokenizer, len(referenceNames))
	for i, name := range referenceNames {
		toks[i] = mini(f, name)
		for _, s := range []string{"🙂 中文\uFFFD", "\xE4\xB8", "\xE2\x96\x81A\xE2\x96\x81", "  a"} {
			var data []byte
			for _, b := range []byte(s) {
				id := toks[i].bytes[b]
				if !toks[i].byteLevel {
					id = toks[i].chars.bytes[b]
				}
				data = append(data, byte(id>>8), byte(id))
			}
			f.Add(byte(i), byte(i), append(data, 0x10, 0x01, 0x10, 0x02))
		}
	}
	f.Fuzz(func(t *testing.T, pick, how byte, data []byte) {
		ids := make([]int32, 0, len(data)/2)
		for ; len(data) >= 2 && len(ids) < 40; data = data[2:] {
			ids = append(ids, int32(int16(data[0])<<8|int16(data[1])))
		}
		prompt := min(int(how>>2)%8, len(ids))
		tok, opt := toks[int(pick)%len(toks)], DecodeOptions{SkipSpecial: how&1 != 0, JoinSpecial: how&2 != 0}
		if strings.HasSuffix(tok.Decode(ids[:prompt], opt), "\uFFFD") {
			decodeByPieces(tok, ids[:prompt], ids[prompt:], opt)
			prompt = 0
		}
		checkDecoder(t, tok, ids[:prompt], ids[prompt:], opt)
	})
}

// FuzzRegex: any pattern is refused or cuts a text into pieces within the budget.
func FuzzRegex(f *testing.F) {
	for _, p := range []string{gpt2Pattern, o200kPattern, deepseekPattern, `(?:a+)+b`, `[^(\s|[.,!?…。，、।۔،])]+`, `[\p{L}&&[^\p{Han}]]{2,3}`, `(?i:a(?!b)|\x{41}[^\n])`, `((a|b){1,9}c?){2}`} {
		f.Add(p, "The 12 aaaaaaaab abab\n中文 É")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := compileRegex(pattern)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		steps, split := allow(budget(text)), splitter{matcher: re}
		for i := 0; i < len(text); {
			end, _ := split.next(text, i, steps)
			if end <= i || end > len(text) || !utf8.ValidString(text[i:end]) {
				t.Fatalf("%q on %q: a piece from %d to %d", pattern, text, i, end)
			}
			i = end
		}
	})
}
