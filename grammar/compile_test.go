package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

func testCompiler(t testing.TB, v *Vocabulary, cfg Config) *Compiler {
	t.Helper()
	c, err := NewCompiler(v, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChoice(t *testing.T) {
	checkTexts(t, []textCase{
		{"one choice (docs/interface/chat-completions.md, C71)", Spec{Kind: Choice, Choices: []string{"a"}}, []string{"a"}, []string{"", "aa"}},
		{"prefixes", Spec{Kind: Choice, Choices: []string{"yes", "yes please", "yé"}}, []string{"yes", "yes please", "yé"}, []string{"yes ", "y"}},
	})
	if _, err := compileFor(Spec{Kind: Choice}, testVocabulary); !errors.Is(err, ErrInvalid) {
		t.Errorf("no choices: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.CacheBytes = -1 }, func(c *Config) { c.GrammarBytes = 0 }, func(c *Config) { c.MaxStates = 0 }, func(c *Config) { c.Deadline = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := NewCompiler(testVocabulary, cfg, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestCompilerCachesAndForgetsTheOldest(t *testing.T) {
	cfg := DefaultConfig()
	c := testCompiler(t, testVocabulary, cfg)
	a, err := c.Compile(t.Context(), re("a"))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := c.Compile(t.Context(), re("a")); a != b {
		t.Error("compiled twice")
	}
	cfg.CacheBytes = 3 * a.Bytes()
	c = testCompiler(t, testVocabulary, cfg)
	specs := []string{"aa", "ab", "aa", "ac", "ad", "ae", "af", "ag", "ah", "ai"}
	grammars := make(map[string]*Grammar)
	for _, s := range specs {
		g, err := c.Compile(t.Context(), re(s))
		if err != nil {
			t.Fatal(err)
		}
		grammars[s] = g
		g.Release()
	}
	total := int64(0)
	for el := c.recent.Front(); el != nil; el = el.Next() {
		total += el.Value.(*entry).g.Bytes()
	}
	if total > cfg.CacheBytes || c.recent.Len() != len(c.entries) || c.recent.Len() == 0 {
		t.Errorf("%d bytes in %d and %d entries, limit %d", total, c.recent.Len(), len(c.entries), cfg.CacheBytes)
	}
	if g, _ := c.Compile(t.Context(), re("ai")); g != grammars["ai"] {
		t.Error("the latest was forgotten")
	}
	if g, _ := c.Compile(t.Context(), re("aa")); g == grammars["aa"] {
		t.Error("the oldest was kept")
	}
	if !grammars["aa"].accepts("aa") {
		t.Error("a forgotten grammar died")
	}
}

func TestCompilerDoesNotCacheRefusals(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	for range 2 {
		if _, err := c.Compile(t.Context(), re("[")); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
	if len(c.entries) != 0 || c.recent.Len() != 0 {
		t.Error("an error was cached")
	}
}

func TestCompilerOptionsAreKeys(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	seen := make(map[*Grammar]bool)
	for i := range 8 {
		s := schema(`{"type":"object","properties":{"a":{}}}`)
		s.DisableAnyWhitespace, s.DisableAdditionalProperties, s.Strict = i&1 > 0, i&2 > 0, i&4 > 0
		g, err := c.Compile(t.Context(), s)
		if err != nil || seen[g] {
			t.Fatalf("%+v: %v", s.Options, err)
		}
		seen[g] = true
	}
}

// TestCompileBounds: a constraint that needs too much is refused in time, whatever it is
// written in.
func TestCompileBounds(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 300) + "true" + strings.Repeat("}", 300)
	var wide strings.Builder
	for i := range 14 {
		fmt.Fprintf(&wide, `{"anyOf":[{"type":"object","properties":{"a%d":{}}},{"type":"object","properties":{"b%d":{}}},{"type":"array","minItems":%d}]},`, i, i, i)
	}
	var doubling strings.Builder
	doubling.WriteString("root ::= r0\n")
	for i := range 40 {
		fmt.Fprintf(&doubling, "r%d ::= r%d{0,9} \"x\"? r%d{0,9}\n", i, i+1, i+1)
	}
	doubling.WriteString("r40 ::= \"y\"\n")
	for name, s := range map[string]Spec{
		"deep JSON":           schema(deep),
		"choices multiplied":  schema(`{"allOf":[` + strings.TrimSuffix(wide.String(), ",") + `]}`),
		"a long number":       schema(`{"minimum":1e400000000}`),
		"nested counts":       re(`((((((a{9}b){9}c){9}d){9}e){9}f){9}g){9}`),
		"deep groups":         re(strings.Repeat("(", 5000) + strings.Repeat(")", 5000)),
		"a large class count": schema(`{"pattern":"^(?:[a-z]{1,99}[0-9]{1,99}){1,99}$|^$","minLength":70}`),
		"many states":         {Kind: Choice, Choices: []string{strings.Repeat("x", 500_000)}},
		"deep EBNF":           notation("root ::= " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000)),
		"too many repeats":    notation(`root ::= "a"{1000000}`),
	} {
		start := time.Now()
		_, err := compileFor(s, testVocabulary)
		if d := time.Since(start); d > 8*time.Second {
			t.Errorf("%s: %v", name, d)
		}
		if name == "nested counts" && err == nil {
			continue // counters make it cheap
		}
		if !errors.Is(err, ErrTooComplex) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Rules that double at each level are shared, not copied.
	if _, err := compileFor(notation(doubling.String()), testVocabulary); err != nil && !errors.Is(err, ErrTooComplex) {
		t.Errorf("doubling: %v", err)
	}
	cfg := DefaultConfig()
	cfg.Deadline = time.Nanosecond
	if _, err := compile(schema(sampleSchema(200)), testVocabulary, cfg, nil); err != ErrDeadline {
		t.Errorf("deadline: %v", err)
	}
}

// sampleSchema has n properties.
func sampleSchema(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"property%d":{"type":"string","maxLength":%d}`, i, i+1)
	}
	b.WriteString("}}")
	return b.String()
}

// TestMachineForgets: what a grammar builds while it runs stays within its bound, and a
// matcher does not notice when it is dropped.
func TestMachineForgets(t *testing.T) {
	cfg := DefaultConfig()
	cfg.GrammarBytes = 1 << 20
	voc := syntheticVocabulary(t, 4096, false)
	g, err := compile(schema(`{"type":"array","items":{"type":"string","minLength":90000}}`), voc, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	w := newRandomWalk(t, "", g, rng)
	most, forgotten, before := int64(0), 0, int64(0)
	for range 4000 {
		w.fill()
		tok := randomLegal(rng, w.mask, voc.size)
		if w.m.Len() < 2 {
			tok = []int32{'[', '"'}[w.m.Len()] // into a string that is long to come
		}
		w.accept(tok)
		b := g.Bytes()
		if b < before {
			forgotten++
		}
		most, before = max(most, b), b
	}
	if most > 2*cfg.GrammarBytes || forgotten == 0 {
		t.Errorf("%d bytes, forgot %d times", most, forgotten)
	}
	w.m.Rollback(4000)
	if w.m.at != g.m.root || w.m.Len() != 0 {
		t.Error("Rollback does not lead to the beginning")
	}
	compareMasks(t, g, rng, 30, 1, "after forgetting")
}

// TestGrammarShared: 64 goroutines share grammars that are built while they use them,
// and that may hold so little that they forget now and then. Each goroutine sees what
// it would see alone.
func TestGrammarShared(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, true)
	cfg := DefaultConfig()
	cfg.GrammarBytes = 1 << 20
	c := testCompiler(t, voc, cfg)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			s := sampleSpecs[i%4]
			shared, err := c.Compile(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			alone, err := compile(s, voc, DefaultConfig(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := sameMasks(shared, alone, rand.New(rand.NewPCG(uint64(i), 9))); err != nil {
				t.Errorf("goroutine %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// sameMasks takes 40 random tokens through both grammars and compares the masks.
func sameMasks(shared, alone *Grammar, rng *rand.Rand) error {
	m, n := shared.NewMatcher(), alone.NewMatcher()
	voc := shared.Vocabulary()
	a, b := make([]uint32, voc.words()), make([]uint32, voc.words())
	for range 40 {
		if err := errors.Join(m.Fill(a), n.Fill(b)); err != nil {
			return err
		}
		if diff := maskDifference(voc, a, b); diff != "" {
			return fmt.Errorf("other than alone: %s", diff)
		}
		tok := randomLegal(rng, a, voc.size)
		if !m.Accept(tok) || !n.Accept(tok) {
			return fmt.Errorf("the legal token %d was not accepted", tok)
		}
		if m.Ended() {
			break
		}
	}
	return nil
}
