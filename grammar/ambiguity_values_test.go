package grammar

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// ambiguousTokens are grammars with many parses that name tokens: <[1]> is the text "a", and
// <[2]> is "b".
var ambiguousTokens = []Spec{
	notation(`root ::= root root | <[1]> | "a" | "ab"`),
	notation(`root ::= root root root | <[1]> | !<[3]> "b" | ""`),
	notation(`root ::= (x | y){2,40} "b"` + "\n" + `x ::= "a" | <[2]> x` + "\n" + `y ::= <[1]> | "b" | <[2]> y`),
	notation("root ::= e\ne ::= e <[1]> e | e <[2]> e | <[1]> <[1]> | <[2]> e"),
	notation("root ::= <[1]> root root | <[1]> root | <[2]> | \"b\" root | \"\""),
	notation("root ::= (w{1,9} | w w){2,30} <[2]>\nw ::= (<[1]> | <[1]> <[2]> | \"b\" w)"),
	notation(`root ::= s "b" | s` + "\n" + `s ::= s s | !<[3]> | "a" | ""`),
}

// manyAfter is a grammar in which many rules are called where a repetition of a named token may
// end, so that the step over the end of the token takes many visits, and few without that end.
func manyAfter() Spec {
	text := "root ::= in (\"c\""
	for i := range 40 {
		text += fmt.Sprintf(" | o%d", i)
	}
	text += ")\nin ::= <[1]> <[1]> <[1]>*\n"
	for i := range 40 {
		text += fmt.Sprintf("o%d ::= \"b\" \"a\"{%d}\n", i, i+1)
	}
	return notation(text)
}

// ambiguousCounts are schemas of strings whose counters decide about more than their end, in
// several ways at once.
var ambiguousCounts = []string{
	`{"type":"array","items":{"anyOf":[{"type":"string","pattern":"^a*@?b$","maxLength":9},{"type":"string","pattern":"^(ab|a)*b$","minLength":3,"maxLength":30},{"type":"string","pattern":"^[ab]{2,}$","maxLength":300}]}}`,
	`{"anyOf":[{"type":"string","pattern":"^a*b.{3}$","maxLength":12},{"type":"string","pattern":"^(a|b|aba)*$","minLength":5,"maxLength":500},{"type":"string","minLength":2,"maxLength":40}]}`,
}

// TestFillAndAcceptAgreeOnValues is TestFillAndAcceptAgree for what a frame has beside its
// state: values that must differ, counters that decide before their end, and named tokens.
func TestFillAndAcceptAgreeOnValues(t *testing.T) {
	seeds := 9
	if slow || testing.Short() {
		seeds = 1
	}
	tokens, end := lettersAB()
	letters, err := NewVocabulary(tokens, []int32{end})
	if err != nil {
		t.Fatal(err)
	}
	crossing := crossingVocabulary(t)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 15))
		for _, s := range append(ambiguousTokens[:len(ambiguousTokens):len(ambiguousTokens)], manyAfter()) {
			checkAgreement(t, s, letters, rng, seed)
		}
		for _, text := range append(ambiguousCounts, distinctSpecs...) {
			checkAgreement(t, schema(text), crossing, rng, seed)
		}
	}
}

// checkAgreement follows texts of s, under the usual bounds in one seed of three, and otherwise
// under small ones.
func checkAgreement(t *testing.T, s Spec, voc *Vocabulary, rng *rand.Rand, seed int) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.GrammarBytes = int64(20_000) << rng.IntN(10)
	g, err := compile(s, voc, cfg, nil)
	if err != nil {
		t.Fatalf("%s%s: %v", s.Text, s.Schema, err)
	}
	g = &Grammar{m: newMachine(g.m.net, voc, cfg.GrammarBytes)} // without what compiling has built
	if seed%3 > 0 {
		g.m.bounds = bounds{stacks: 1 + rng.IntN(20), step: 4 + rng.Int32N(10+rng.Int32N(150)), mask: 20_000 + rng.Int64N(500_000)}
	}
	c := &agreementCheck{g: g, name: fmt.Sprintf("seed %d: %s%s with bounds %v and %d bytes", seed, s.Text, s.Schema, g.m.bounds, cfg.GrammarBytes), steps: 8, patience: 1000}
	if c.together(t, seed); t.Failed() {
		t.FailNow()
	}
}
