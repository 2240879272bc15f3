package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// randomRules draws grammars over the letters a and b whose rules may be ambiguous, left-
// recursive, hidden left-recursive and nullable, and gives the texts that they accept.
type randomRules struct {
	rng   *rand.Rand
	rules []randomExpr // their names are root, r1, r2 and so on
}

// randomExpr is an expression, as a text in GBNF and as what it does to sets of texts.
type randomExpr struct {
	text  string
	texts func(rules []texts) texts
}

// texts is a set of short texts over a and b.
type texts map[string]bool

// maxText is the length up to which a set of texts is complete.
const maxText = 6

func (t texts) then(u texts) texts {
	res := texts{}
	for a := range t {
		for b := range u {
			if len(a)+len(b) <= maxText {
				res[a+b] = true
			}
		}
	}
	return res
}

func (t texts) or(u texts) texts {
	res := texts{}
	for _, s := range []texts{t, u} {
		for a := range s {
			res[a] = true
		}
	}
	return res
}

func newRandomRules(rng *rand.Rand) *randomRules {
	r := &randomRules{rng: rng, rules: make([]randomExpr, 1+rng.IntN(3))}
	for i := range r.rules {
		r.rules[i] = r.alternatives(2)
	}
	return r
}

func (r *randomRules) spec() Spec {
	var b strings.Builder
	for i, rule := range r.rules {
		fmt.Fprintf(&b, "%s ::= %s\n", r.name(i), rule.text)
	}
	return notation(b.String())
}

func (r *randomRules) name(i int) string {
	if i == 0 {
		return "root"
	}
	return fmt.Sprint("r", i)
}

// language is the set of the texts of root, the least fixed point of the rules.
func (r *randomRules) language() texts {
	sets := make([]texts, len(r.rules))
	for again := true; again; {
		again = false
		for i, rule := range r.rules {
			next := rule.texts(sets)
			again = again || len(next) > len(sets[i])
			sets[i] = next
		}
	}
	return sets[0]
}

func (r *randomRules) alternatives(depth int) randomExpr {
	e := r.sequence(depth)
	for range r.rng.IntN(3) {
		a, b := e, r.sequence(depth)
		e = randomExpr{a.text + " | " + b.text, func(s []texts) texts { return a.texts(s).or(b.texts(s)) }}
	}
	return e
}

func (r *randomRules) sequence(depth int) randomExpr {
	e := r.item(depth)
	for range r.rng.IntN(3) {
		a, b := e, r.item(depth)
		e = randomExpr{a.text + " " + b.text, func(s []texts) texts { return a.texts(s).then(b.texts(s)) }}
	}
	return e
}

func (r *randomRules) item(depth int) randomExpr {
	switch k := r.rng.IntN(9); {
	case k < 3:
		text := []string{"a", "b", "aa", "ab", ""}[r.rng.IntN(5)]
		return randomExpr{`"` + text + `"`, func([]texts) texts { return texts{text: true} }}
	case k < 7:
		i := r.rng.IntN(len(r.rules))
		return randomExpr{r.name(i), func(s []texts) texts { return texts{}.or(s[i]) }}
	case depth > 0:
		e := r.alternatives(depth - 1)
		counts := [][2]int{{0, 1}, {0, 99}, {1, 99}, {2, 3}, {0, 20}, {1, 30}, {3, 40}, {4, 4}, {5, 17}}[r.rng.IntN(9)]
		quantifier := fmt.Sprintf("{%d,%d}", counts[0], counts[1])
		if counts[1] == 99 {
			quantifier = []string{"*", "+"}[counts[0]]
		}
		return randomExpr{"(" + e.text + ")" + quantifier, func(s []texts) texts {
			each, power, res := e.texts(s), texts{"": true}, texts{}
			for n := 0; n <= counts[1]; n++ {
				if n >= counts[0] {
					before := len(res)
					if res = res.or(power); n > counts[0]+maxText && len(res) == before {
						break
					}
				}
				power = power.then(each)
			}
			return res
		}}
	}
	return randomExpr{"[ab]", func([]texts) texts { return texts{"a": true, "b": true} }}
}

// eachText calls f for all texts over a and b of at most n letters.
func eachText(n int, f func(text string)) {
	for length := range n + 1 {
		for k := range 1 << length {
			text := make([]byte, length)
			for i := range text {
				text[i] = 'a' + byte(k>>i&1)
			}
			f(string(text))
		}
	}
}

// TestRandomGrammarsHaveTheirLanguage: a grammar accepts the texts that its rules say, and
// no prefix of them is a dead end, however ambiguous it is.
func TestRandomGrammarsHaveTheirLanguage(t *testing.T) {
	compiled, exact, cut, seeds := 0, 0, 0, 700
	if slow || testing.Short() {
		seeds = 150
	}
	for seed := range seeds {
		r := newRandomRules(rand.New(rand.NewPCG(uint64(seed), 11)))
		want := r.language()
		cfg := DefaultConfig()
		cfg.GrammarBytes = int64(1000 << (seed % 12)) // with the smallest, all is forgotten at each step
		g, err := compile(r.spec(), testVocabulary, cfg, nil)
		if errors.Is(err, ErrUnsatisfiable) || errors.Is(err, ErrUnsupported) {
			if errors.Is(err, ErrUnsatisfiable) && len(want) > 0 {
				t.Fatalf("seed %d:\n%sis said to be unsatisfiable", seed, r.spec().Text)
			}
			continue
		}
		if err != nil {
			t.Fatalf("seed %d:\n%s%v", seed, r.spec().Text, err)
		}
		compiled++
		g.m.bounds = bounds{stacks: 1 << 20, step: 1 << 16, mask: 1 << 40}
		e, c := checkLanguage(t, g, want, fmt.Sprintf("seed %d:\n%s", seed, r.spec().Text))
		exact, cut = exact+e, cut+c
	}
	if t.Logf("%d of %d grammars compiled, %d texts compared, %d have too many parses", compiled, seeds, exact, cut); compiled < seeds/4 || cut > exact/50 {
		t.Error("too few texts were compared")
	}
}

// checkLanguage compares the short texts that g accepts with want. It returns how many it has
// compared, and how many have too many parses.
func checkLanguage(t *testing.T, g *Grammar, want texts, name string) (exact, cut int) {
	t.Helper()
	prefixes := texts{}
	for text := range want {
		for i := range len(text) + 1 {
			prefixes[text[:i]] = true
		}
	}
	eachText(maxText, func(text string) {
		p := g.m.root
		for i := 0; i < len(text) && p != dead; i++ {
			before := p
			if p = g.m.step(p, text[i]); before.cost.Load() > g.m.bounds.step {
				cut++
				return
			}
		}
		exact++
		if accepted := p != dead && p.accept; accepted != want[text] {
			t.Fatalf("%s%q: accepted %t, want %t", name, text, accepted, want[text])
		}
		if p == dead && prefixes[text] {
			t.Fatalf("%s%q is dead", name, text)
		}
	})
	return exact, cut
}

// ambiguousSpecs are grammars and patterns with many parses.
var ambiguousSpecs = []Spec{
	notation(`root ::= root root | "a"`),
	notation(`root ::= root root | root root root | "a" | ""`),
	notation(`root ::= s "b" | s` + "\n" + `s ::= s s | s s s | "a" | ""`),
	notation("root ::= a | b | c | \"ab\"\na ::= \"a\" root \"a\"\nb ::= \"a\" root \"b\"\nc ::= \"a\" root \"ab\""),
	notation("root ::= e\ne ::= e \"a\" e | e \"b\" e | \"aa\" | \"b\" e"),
	notation("root ::= \"a\" root root | \"a\" root | \"b\" | \"\""),
	notation("root ::= if | \"a\"\nif ::= \"b\" root | \"b\" root \"a\" root"),
	notation(`root ::= ([a-b]{1,20} "a"?){3,40} "b"`),
	notation("root ::= (w{1,9} | w w){2,30} \"b\"\nw ::= (\"a\" | \"ab\" | \"b\" w)"),
	notation(`root ::= x{0,300} y{0,300} x{0,300}` + "\nx ::= \"a\" | \"b\" | y\ny ::= \"a\" | \"aa\" | \"ab\""),
	re(`(a|aa|ab|b)*(a|b|ab){4,30}(a*b?)*`),
	re(`((a{0,9}b?){0,9}a){0,9}`),
	re(`(a?b?){300}(ab|a|b){2,200}`),
	re(`(a|b)*a(a|b){18}`),
}

// lettersAB has tokens of a and b of up to 5 letters, some longer ones, and other bytes.
func lettersAB() (tokens [][]byte, end int32) {
	eachText(5, func(text string) { tokens = append(tokens, []byte(text)) }) // the first has no bytes, and is never legal
	for _, text := range []string{"aaaaaaaaaaaaaaaaaaaa", "abababababababab", "bbbbbbbbba", "c", "ac", "bbbbc"} {
		tokens = append(tokens, []byte(text))
	}
	return append(tokens, nil), int32(len(tokens))
}

// agreementCheck checks that Fill and Accept agree, in texts of random tokens.
type agreementCheck struct {
	g        *Grammar
	name     string
	steps    int
	patience int // of so many calls of a pace one gives up, after the first few
}

// run follows one text. Fills are abandoned now and then. If the text is read a second time,
// every token is accepted again.
func (c *agreementCheck) run(rng *rand.Rand) error {
	v := c.g.Vocabulary()
	m, mask, want := c.g.NewMatcher(), make([]uint32, v.words()), make([]uint32, v.words())
	var read []int32
	for len(read) < c.steps {
		left := 1 + rng.IntN(40)
		err := m.FillPaced(mask, func(waiting bool) bool { left--; return left > 0 || rng.IntN(c.patience) > 0 })
		switch {
		case errors.Is(err, ErrAbandoned):
			continue
		case errors.Is(err, ErrTooComplex):
			return nil
		case err != nil:
			return fmt.Errorf("%s: after %d tokens: %w", c.name, len(read), err)
		}
		if rng.IntN(8) == 0 { // what is legal must not depend on what has been built
			forgetAll(c.g.m)
		}
		if referenceMask(m, want); maskDifference(v, mask, want) != "" {
			return fmt.Errorf("%s: after %v: %s", c.name, read, maskDifference(v, mask, want))
		}
		if err := c.tryAll(m, mask, read); err != nil {
			return err
		}
		tok := randomLegal(rng, mask, v.size)
		if v.ends(tok) && rng.IntN(8) > 0 {
			tok = nextLegal(mask, int(tok)+1, v.size)
		}
		if !m.Accept(tok) {
			return fmt.Errorf("%s: after %v: token %d is not accepted any more", c.name, read, tok)
		}
		if read = append(read, tok); m.Ended() {
			break
		}
	}
	m.Rollback(m.Len() - rng.IntN(m.Len()+1))
	for _, tok := range read[m.Len():] {
		if !m.Accept(tok) {
			return fmt.Errorf("%s: the text %v is not accepted a second time", c.name, read)
		}
	}
	return nil
}

// tryAll checks that m, which has read some tokens, accepts those that mask allows and no others.
func (c *agreementCheck) tryAll(m *Matcher, mask []uint32, read []int32) error {
	v := c.g.Vocabulary()
	for tok := range int32(v.size) {
		accepted := m.Accept(tok)
		if accepted {
			m.Rollback(1)
		}
		if accepted != legal(mask, tok) {
			return fmt.Errorf("%s: after %v: token %d %q is accepted %t, legal %t", c.name, read, tok, v.tokens[tok], accepted, legal(mask, tok))
		}
	}
	return nil
}

// TestFillAndAcceptAgree: every token that a mask allows is accepted, and no other one, in
// grammars with many parses, when bounds are passed, when what was built is forgotten in the
// middle, when fills are abandoned, and while others work with the same grammar.
func TestFillAndAcceptAgree(t *testing.T) {
	seeds := 14
	if slow || testing.Short() {
		seeds = 6
	}
	tokens, end := lettersAB()
	newVocabulary := func() *Vocabulary {
		v, err := NewVocabulary(tokens, []int32{end})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	voc := newVocabulary()
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 12))
		specs := ambiguousSpecs
		for range 12 {
			specs = append(specs[:len(specs):len(specs)], newRandomRules(rng).spec())
		}
		for _, s := range specs {
			cfg := DefaultConfig()
			cfg.GrammarBytes = int64(2000) << rng.IntN(14)
			g, err := compile(s, voc, cfg, nil)
			if err != nil {
				continue
			}
			g = &Grammar{m: newMachine(g.m.net, newVocabulary(), cfg.GrammarBytes)} // without what compiling has built
			g.m.bounds = bounds{stacks: 300, step: 1000, mask: 50_000}
			if seed%2 == 1 {
				g.m.bounds = bounds{stacks: 1 + rng.IntN(20), step: 4 + rng.Int32N(60), mask: 500 + rng.Int64N(5000)}
			}
			c := &agreementCheck{g: g, name: fmt.Sprintf("seed %d: %s with bounds %v and %d bytes", seed, s.Text, g.m.bounds, cfg.GrammarBytes), steps: 15, patience: 2}
			if c.together(t, seed); t.Failed() {
				return
			}
		}
	}
}

// together follows two texts at the same time.
func (c *agreementCheck) together(t *testing.T, seed int) {
	var texts sync.WaitGroup
	for i := range 2 {
		texts.Go(func() {
			if err := c.run(rand.New(rand.NewPCG(uint64(seed), uint64(13+i)))); err != nil {
				t.Error(err)
			}
		})
	}
	texts.Wait()
}

// TestRepeatedRules: in the most usual ambiguous grammars the number of stacks does not grow
// with the text.
func TestRepeatedRules(t *testing.T) {
	tokens, end := lettersAB()
	voc, err := NewVocabulary(tokens, []int32{end})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range ambiguousSpecs[:3] {
		g := mustCompile(t, s, voc)
		w := newRandomWalk(t, s.Text, g, rand.New(rand.NewPCG(1, 14)))
		for w.m.Len() < 500 && len(w.text) < 2000 {
			w.fill()
			if tok := nextLegal(w.mask, w.rng.IntN(voc.size), voc.size-1); tok < 0 || !w.accept(tok) {
				break
			}
			if n := len(w.m.at.tops); n > 8 {
				t.Fatalf("%s: %d stacks after %d bytes", s.Text, n, len(w.text))
			}
		}
		if bytes := g.Bytes(); bytes > 1<<20 {
			t.Errorf("%s: %d bytes", s.Text, bytes)
		}
	}
}
