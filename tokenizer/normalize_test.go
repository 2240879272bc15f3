package tokenizer

import (
	"math/rand/v2"
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
		if got, want := composeMarks(nil, s), norm.NFC.String(s); got != want {
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
