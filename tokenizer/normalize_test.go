package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestComposeMarksMatchesNFC: our own NFC, which long runs of marks need, equals that of
// x/text wherever x/text inserts nothing of its own.
func TestComposeMarksMatchesNFC(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	check := func(s string) {
		t.Helper()
		if got, want := composeMarks(nil, norm.NFC, s), norm.NFC.String(s); got != want {
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

// TestPartsMatchWhole: a text that is normalized part by part is the same as one that is
// normalized as a whole, wherever the parts end.
func TestPartsMatchWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	marks := []rune("abeoAUΩαιกগᄀ가ᅡᆨ\u0301\u0300\u0302\u0308\u0316\u0323\u0327\u0345\u0344\u0334\u093c\u09be\u09c7\u05b0\u05bc\u1dc0\u20dd\u212b\u2126\u1e9b\u0958\ufb1d\U0001d15e\U0001d165")
	for i := range rounds(3000) {
		var b strings.Builder
		for range 1 + rng.IntN(60) {
			r := marks[rng.IntN(len(marks))]
			for range 1 + rng.IntN(1+i%40) {
				b.WriteRune(r)
			}
		}
		s := b.String()
		want := nfcParts(nil, s, len(s))
		for _, size := range []int{1, 2, 7} {
			if got := nfcParts(nil, s, size); got != want {
				t.Fatalf("%+q in parts of %d\n got %+q\nwant %+q", s, size, got, want)
			}
		}
	}
}

// A text that normalization or a pre-tokenizer makes longer is encoded only if there is room
// for what it has become, and one that stays as it is never asks.
func TestEncodeWithin(t *testing.T) {
	for _, c := range []struct {
		name, text string
		length     int // 0: nobody is asked
		file       object
	}{
		{"as it is", strings.Repeat("the ", 1000), 0, tinyBytes(object{"normalizer": object{"type": "NFC"}})},
		{"form C", strings.Repeat("\U0001D160", 1000), 12_000, tinyBytes(object{"normalizer": object{"type": "NFC"}})},
		{"replaced", strings.Repeat(" ", 1000), 3003, tinyChars(nil)},
		{"Metaspace", strings.Repeat(" ", 1000), 3000, tinyChars(object{"normalizer": nil, "pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false}})},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := mustLoad(t, marshal(t, c.file))
			asked := 0
			want, err := tok.EncodeWithin(nil, func(n int) bool { asked = n; return true }, nil, c.text, false)
			if err != nil || asked != c.length || len(want) == 0 {
				t.Errorf("asked for %d bytes, want %d; %d tokens, %v", asked, c.length, len(want), err)
			}
			if c.length == 0 {
				return
			}
			if _, err := tok.EncodeWithin(nil, func(int) bool { return false }, nil, c.text, false); err != ErrStopped {
				t.Errorf("without room: %v", err)
			}
			if again, err := tok.Encode(nil, c.text, false); err != nil || !slices.Equal(again, want) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
