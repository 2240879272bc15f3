package grammar

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// syntheticTokens imitates a published vocabulary of n tokens: words of skewed length
// with and without a space in front, numbers, runs of punctuation as in JSON and code,
// indentation, scripts with several bytes per character, parts of characters. With
// pieces it has a second token for every byte, as SentencePiece models have, so that
// some texts have two ids. The first 256 tokens are the bytes. The second result are
// the end tokens.
func syntheticTokens(n int, pieces bool) ([][]byte, []int32) {
	s := &tokenSynthesis{rng: rand.New(rand.NewPCG(7, uint64(n))), limit: n - 8,
		seen: make(map[string]bool, n), tokens: make([][]byte, 0, n)}
	for i := range 256 {
		s.add(string([]byte{byte(i)}))
	}
	s.numbers()
	s.punctuation()
	s.indentation()
	for len(s.tokens) < s.limit {
		s.wordOrScript()
	}
	tokens := s.tokens
	if pieces { // <0x00> to <0xFF>, in place of the last words
		for i := range 256 {
			tokens[len(tokens)-1-i] = []byte{byte(i)}
		}
	}
	for len(tokens) < n {
		tokens = append(tokens, nil) // special tokens
	}
	return tokens, []int32{int32(n - 8), int32(n - 3)}
}

func syntheticVocabulary(t testing.TB, n int, pieces bool) *Vocabulary {
	t.Helper()
	tokens, eos := syntheticTokens(n, pieces)
	v, err := NewVocabulary(tokens, eos)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type tokenSynthesis struct {
	rng    *rand.Rand
	limit  int
	seen   map[string]bool
	tokens [][]byte
}

// add adds a token that is new, as long as there is room.
func (s *tokenSynthesis) add(token string) {
	if len(s.tokens) < s.limit && token != "" && !s.seen[token] {
		s.seen[token] = true
		s.tokens = append(s.tokens, []byte(token))
	}
}

func (s *tokenSynthesis) numbers() {
	for i := range 1110 {
		if i < 10 || i >= 110 {
			s.add(strconv.Itoa(i)[max(0, len(strconv.Itoa(i))-3):])
		} else {
			s.add(strconv.Itoa(i))
		}
	}
}

var (
	marks = []string{`"`, `:`, `,`, `{`, `}`, `[`, `]`, ` `, `\`, `.`, `/`, `-`, `_`, `=`, `(`, `)`, `;`, `<`, `>`, "\n", `'`, `*`, `#`, `0`, `1`}

	// Words are made of syllables.
	onsets = strings.Fields("b c d f g h k l m n p r s t v w br ch cl dr gr pl pr sh sp st str th tr qu")
	nuclei = strings.Fields("a e i o u ai ea ee io ou")
	codas  = append(strings.Fields("n r s t l m nd ng nt st ck rs tion ing ed er ment able"), "", "", "")

	scripts = [][2]rune{{0x4E00, 0x8FFF}, {0x430, 0x44F}, {0x3040, 0x30FF}, {0xAC00, 0xD7A3}, {0x627, 0x64A}, {0xE0, 0xFF}, {0x1F300, 0x1F6FF}}
)

func (s *tokenSynthesis) mark() string { return marks[s.rng.IntN(len(marks))] }

// punctuation adds all pairs of marks, and some runs of three and four.
func (s *tokenSynthesis) punctuation() {
	for _, a := range marks {
		for _, b := range marks {
			s.add(a + b)
			s.runsOf(a + b)
		}
	}
}

func (s *tokenSynthesis) runsOf(pair string) {
	for _, c := range marks {
		if s.rng.IntN(3) == 0 {
			s.add(pair + c)
			if s.rng.IntN(4) == 0 {
				s.add(pair + c + s.mark())
			}
		}
	}
}

func (s *tokenSynthesis) indentation() {
	for i := range 128 {
		s.add(strings.Repeat(" ", i+1))
		s.add(strings.Repeat("\t", i%20+1))
		s.add("\n" + strings.Repeat(" ", i%80))
		s.add(strings.Repeat("-", i%60+1))
	}
}

func (s *tokenSynthesis) word() string {
	var b strings.Builder
	for range 1 + min(s.rng.IntN(3)+s.rng.IntN(2), 3) {
		b.WriteString(onsets[s.rng.IntN(len(onsets))])
		b.WriteString(nuclei[s.rng.IntN(len(nuclei))])
		b.WriteString(codas[s.rng.IntN(len(codas))])
	}
	return b.String()
}

func (s *tokenSynthesis) wordOrScript() {
	switch s.rng.IntN(12) {
	case 0, 1, 2, 3:
		s.add(" " + s.word())
	case 4, 5:
		s.add(s.word())
	case 6:
		w := s.word()
		s.add(" " + strings.ToUpper(w[:1]) + w[1:])
		s.add(strings.ToUpper(w[:1]) + w[1:])
		s.add(strings.ToUpper(w))
	case 7:
		s.add(s.mark() + s.word())
	case 8:
		s.add(s.word() + s.mark())
	case 9:
		w := s.word()
		s.add("_" + w)
		s.add("." + w)
	default:
		s.script()
	}
}

// script adds one to three characters of a script, now and then without the last byte.
func (s *tokenSynthesis) script() {
	of := scripts[s.rng.IntN(len(scripts))]
	var b strings.Builder
	for range 1 + s.rng.IntN(3) {
		b.WriteRune(of[0] + s.rng.Int32N(of[1]-of[0]+1))
	}
	t := b.String()
	if s.rng.IntN(8) == 0 {
		t = t[:len(t)-1]
	}
	s.add(t)
}
