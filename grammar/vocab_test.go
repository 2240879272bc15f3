package grammar

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// published imitates the make-up of a published vocabulary of n tokens: words of
// skewed length with and without a space in front, numbers, runs of punctuation
// as they occur in JSON and code, indentation, scripts of several bytes per
// character, parts of characters. With pieces it has, like SentencePiece models,
// a second token for every byte, so that some texts have two ids.
func published(n int, pieces bool) ([][]byte, []int32) {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	seen := make(map[string]bool, n)
	tokens := make([][]byte, 0, n)
	add := func(s string) {
		if len(tokens) < n-8 && s != "" && !seen[s] {
			seen[s] = true
			tokens = append(tokens, []byte(s))
		}
	}
	for i := range 256 {
		add(string([]byte{byte(i)}))
	}
	for i := range 1110 {
		if i < 10 || i >= 110 {
			add(itoa(i % 1110)[max(0, len(itoa(i))-3):])
		} else {
			add(itoa(i))
		}
	}
	marks := []string{`"`, `:`, `,`, `{`, `}`, `[`, `]`, ` `, `\`, `.`, `/`, `-`, `_`, `=`, `(`, `)`, `;`, `<`, `>`, "\n", `'`, `*`, `#`, `0`, `1`}
	for _, a := range marks {
		for _, b := range marks {
			add(a + b)
			for _, c := range marks {
				if rng.IntN(3) == 0 {
					add(a + b + c)
					if rng.IntN(4) == 0 {
						add(a + b + c + marks[rng.IntN(len(marks))])
					}
				}
			}
		}
	}
	for i := range 128 {
		add(strings.Repeat(" ", i+1))
		add(strings.Repeat("\t", i%20+1))
		add("\n" + strings.Repeat(" ", i%80))
		add(strings.Repeat("-", i%60+1))
	}
	onsets := strings.Fields("b c d f g h k l m n p r s t v w br ch cl dr gr pl pr sh sp st str th tr qu")
	nuclei := strings.Fields("a e i o u ai ea ee io ou")
	codas := append(strings.Fields("n r s t l m nd ng nt st ck rs tion ing ed er ment able"), "", "", "")
	word := func() string {
		var b strings.Builder
		for range 1 + min(rng.IntN(3)+rng.IntN(2), 3) {
			b.WriteString(onsets[rng.IntN(len(onsets))])
			b.WriteString(nuclei[rng.IntN(len(nuclei))])
			b.WriteString(codas[rng.IntN(len(codas))])
		}
		return b.String()
	}
	scripts := [][2]rune{{0x4E00, 0x8FFF}, {0x430, 0x44F}, {0x3040, 0x30FF}, {0xAC00, 0xD7A3}, {0x627, 0x64A}, {0xE0, 0xFF}, {0x1F300, 0x1F6FF}}
	for len(tokens) < n-8 {
		switch rng.IntN(12) {
		case 0, 1, 2, 3:
			add(" " + word())
		case 4, 5:
			add(word())
		case 6:
			w := word()
			add(" " + strings.ToUpper(w[:1]) + w[1:])
			add(strings.ToUpper(w[:1]) + w[1:])
			add(strings.ToUpper(w))
		case 7:
			add(marks[rng.IntN(len(marks))] + word())
		case 8:
			add(word() + marks[rng.IntN(len(marks))])
		case 9:
			w := word()
			add("_" + w)
			add("." + w)
		default:
			s := scripts[rng.IntN(len(scripts))]
			var b strings.Builder
			for range 1 + rng.IntN(3) {
				b.WriteRune(s[0] + rng.Int32N(s[1]-s[0]+1))
			}
			t := b.String()
			if rng.IntN(8) == 0 {
				t = t[:len(t)-1]
			}
			add(t)
		}
	}
	if pieces { // <0x00> to <0xFF>, in place of the last words
		for i := range 256 {
			tokens[len(tokens)-1-i] = []byte{byte(i)}
		}
	}
	for len(tokens) < n {
		tokens = append(tokens, nil) // special
	}
	return tokens, []int32{int32(n - 8), int32(n - 3)}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func publishedVocabulary(t testing.TB, n int, pieces bool) *Vocabulary {
	t.Helper()
	tokens, eos := published(n, pieces)
	v, err := NewVocabulary(tokens, eos)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVocabularyRefusesEndTokenOutside(t *testing.T) {
	if _, err := NewVocabulary([][]byte{{'a'}}, []int32{1}); err == nil {
		t.Error("an end token outside the vocabulary was taken")
	}
	if _, err := NewVocabulary(nil, nil); err == nil {
		t.Error("an empty vocabulary was taken")
	}
}
