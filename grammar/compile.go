package grammar

import (
	"errors"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Kind is the kind of a constraint.
type Kind uint8

const (
	JSONSchema Kind = iota // Schema is a JSON schema
	JSONObject             // any JSON object
	Regex                  // Text must match the whole output
	Choice                 // the output is one of Choices
	Notation               // Text is EBNF in the manner of GBNF if it has ::= in it, and Lark otherwise
	Tag                    // Schema is a structural tag: {"format": ...}, or the older {"structures": ..., "triggers": ...}
)

// Spec says what an output must look like.
type Spec struct {
	Kind    Kind
	Schema  []byte
	Text    string
	Choices []string
	// Prefix is what the output already has: it is continued, so matchers begin behind it.
	// In JSON (JSONSchema and JSONObject) it may have the properties of objects in any order
	// and all values in any spelling. Other constraints take the beginnings of the texts that
	// they would generate.
	Prefix string
	Options
}

// Options change how JSON is constrained. The zero value is the default.
type Options struct {
	DisableAnyWhitespace        bool   // no whitespace between JSON's tokens
	DisableAdditionalProperties bool   // objects that declare properties get no others, unless additionalProperties says so; in Spec.Prefix they may be
	Strict                      bool   // the same, and a schema without type has the type that its keywords are about
	OneOfAny                    bool   // a oneOf that cannot be kept exactly is read as anyOf, with a warning, as if it said "x-oneOf": "any"
	WhitespacePattern           string // a regular expression for what may stand between JSON's tokens
	spaced                      bool   // one space after each comma and colon, and no other whitespace; of a format in a tag
}

// Config bounds what compiling and running grammars may cost.
type Config struct {
	CacheBytes   int64         // all cached grammars that nobody uses together, with what they have built
	GrammarBytes int64         // what one grammar builds while it runs; when it is more, it is dropped and built again on demand
	MaxStates    int           // of one grammar
	MaxWork      int64         // units of work that compiling one grammar may take (meter)
	Deadline     time.Duration // for compiling one grammar, on a machine that is slower than expected
}

// DefaultConfig holds the defaults.
func DefaultConfig() Config {
	return Config{CacheBytes: 512 << 20, GrammarBytes: 64 << 20, MaxStates: 400_000, MaxWork: 80_000_000, Deadline: 5 * time.Second}
}

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.CacheBytes < 0:
		return errors.New("grammar: CacheBytes must not be negative")
	case c.GrammarBytes < 1<<20:
		return errors.New("grammar: GrammarBytes must be at least 1 MiB")
	case c.MaxStates < 1000:
		return errors.New("grammar: MaxStates must be at least 1000")
	case c.MaxWork < 1000:
		return errors.New("grammar: MaxWork must be at least 1000")
	case c.Deadline <= 0:
		return errors.New("grammar: Deadline must be positive")
	}
	return nil
}

// Grammar is a compiled constraint. It is safe for concurrent use by any number of
// matchers, which share what was built for one of them.
type Grammar struct {
	m        *machine
	start    *position // where matchers begin; nil: at the beginning of a text
	of       *Compiler // nil: it is in no cache
	entry    *entry
	warnings []Warning
	used     atomic.Bool // see FirstUse
}

// Warnings are the parts of the constraint that are not read as their author may expect.
func (g *Grammar) Warnings() []Warning { return g.warnings }

// FirstUse reports true once. So who logs the warnings can do so once for a grammar, however
// many requests share it.
func (g *Grammar) FirstUse() bool { return !g.used.Swap(true) }

// Release is called once for each time that Compile has returned g, when none of the
// matchers that were made for it are used any more. When nobody uses g, it is kept as long
// as there is memory that nobody needs.
func (g *Grammar) Release() {
	if g.of != nil {
		g.of.leave(g.entry)
	}
}

// Bytes is about how much memory g holds at the moment.
func (g *Grammar) Bytes() int64 {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	return g.m.static + g.m.held()
}

// Vocabulary is what g was compiled for.
func (g *Grammar) Vocabulary() *Vocabulary { return g.m.voc }

// compile makes the grammar of s. It ends early when abandoned, which may be nil,
// reports true.
func compile(s Spec, v *Vocabulary, cfg Config, abandoned func() bool) (*Grammar, error) {
	return compileMetered(s, v, cfg, &meter{left: cfg.MaxWork, deadline: time.Now().Add(cfg.Deadline), abandoned: abandoned}, nil)
}

// compileMetered is compile with a meter, and with memory that the meter and h reserve. In
// the end h holds what the grammar takes and needs to be used.
func compileMetered(s Spec, v *Vocabulary, cfg Config, work *meter, h *holding) (g *Grammar, err error) {
	defer catch(&err)
	work.hold(specBytes * s.size())
	b := newBuilder(commonRules(), cfg.MaxStates, work)
	b.voc = v
	root, after := b.specAfter(s)
	m := newMachine(b.finishAfter(root, after), v, cfg.GrammarBytes)
	if m.root == dead {
		fail(ErrTooComplex, "", "the grammar is too ambiguous")
	}
	m.hold.Store(h)
	if after != nil && !after.begin(m) {
		panic(after.refusal())
	}
	m.firstShape(b.meter)
	g = &Grammar{m: m, warnings: b.warnings}
	if h != nil {
		work.settle(h, g.Bytes()+v.working())
	}
	return g, nil
}

// specBytes is how much memory a byte of a specification may take while it is read: that of
// JSON as a tree of values.
const specBytes = 48

// size is about the number of bytes of s.
func (s *Spec) size() int64 {
	n := 1024 + len(s.Schema) + len(s.Text) + len(s.WhitespacePattern) + len(s.Prefix)
	for _, c := range s.Choices {
		n += 16 + len(c)
	}
	return int64(n)
}

// spec lowers s to its root rule.
func (b *builder) spec(s Spec) int32 {
	switch s.Kind {
	case JSONSchema:
		return b.schemaRule(b.meter.readJSON(s.Schema), "", s.Options)
	case JSONObject:
		return b.schemaRule(anyObject(), "", s.Options)
	case Regex:
		return b.regexRule(s.Text)
	case Choice:
		return b.choiceRule(s.Choices)
	case Notation:
		return b.notationRule(s.Text, false, s.Options)
	case Tag:
		return b.tagRule(s.Schema, s.Options)
	}
	fail(ErrInvalid, "", "unknown kind of constraint %d", s.Kind)
	return 0
}

func (b *builder) choiceRule(choices []string) int32 {
	if len(choices) == 0 {
		fail(ErrInvalid, "", "there is nothing to choose from")
	}
	r := b.rule()
	end := b.state()
	b.accept(end)
	for _, c := range choices {
		if !utf8.ValidString(c) {
			fail(ErrInvalid, "", "a choice must be UTF-8")
		}
		b.eps(b.lit(b.start(r), c), end)
	}
	return r
}
