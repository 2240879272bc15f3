package grammar

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
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
	Options
}

// Options change how JSON is constrained. The zero value is the default.
type Options struct {
	DisableAnyWhitespace        bool   // no whitespace between JSON's tokens
	DisableAdditionalProperties bool   // objects that declare properties have no others, unless additionalProperties says so
	Strict                      bool   // the same, and a schema without type has the type that its keywords are about
	WhitespacePattern           string // a regular expression for what may stand between JSON's tokens
}

// Config bounds what compiling and running grammars may cost.
type Config struct {
	CacheBytes   int64         // all cached grammars together, with what they have built
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

// Compiler turns specs into grammars and caches them. It is safe for concurrent
// use; equal specs that are asked for at the same time are compiled once.
type Compiler struct {
	voc *Vocabulary
	cfg Config

	mu      sync.Mutex
	entries map[string]*list.Element
	recent  *list.List // of *entry, the one asked for last in front
}

type entry struct {
	key  string
	done chan struct{} // closed when g and err are set
	g    *Grammar
	err  error

	// Compiler.mu guards these.
	waiting   int  // calls that wait for the result
	abandoned bool // no call waited any more, so the compilation ends
}

// NewCompiler makes a compiler for the tokens of v.
func NewCompiler(v *Vocabulary, cfg Config) (*Compiler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Compiler{voc: v, cfg: cfg, entries: make(map[string]*list.Element), recent: list.New()}, nil
}

// Compile returns the grammar of s. It may take as long as Config.Deadline, so it
// belongs on a worker. If ctx ends first, it returns the cause. A compilation goes on
// as long as any caller waits for it, and ends soon after the last of them has left.
// All other errors are *Error.
func (c *Compiler) Compile(ctx context.Context, s Spec) (*Grammar, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	key := fmt.Sprintf("%d %t %t %t %q %q %q %q", s.Kind, s.DisableAnyWhitespace, s.DisableAdditionalProperties, s.Strict, s.WhitespacePattern, s.Text, s.Choices, s.Schema)
	e, el := c.join(key)
	stop := context.AfterFunc(ctx, func() { c.leave(e) })
	defer stop()
	if el != nil {
		c.run(s, e, el)
	}
	select {
	case <-e.done:
		if errors.Is(e.err, ErrAbandoned) {
			return nil, context.Cause(ctx)
		}
		return e.g, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join counts the caller among those who wait for the entry of key. If there was no
// entry, the caller has to compile it, and gets its element of the list as well.
func (c *Compiler) join(key string) (e *entry, compile *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.entries[key]; el != nil {
		if e := el.Value.(*entry); !e.abandoned {
			e.waiting++
			c.recent.MoveToFront(el)
			return e, nil
		}
		c.drop(el)
	}
	e = &entry{key: key, done: make(chan struct{}), waiting: 1}
	el := c.recent.PushFront(e)
	c.entries[key] = el
	return e, el
}

// leave takes a caller off the count of join.
func (c *Compiler) leave(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.waiting--
}

// unwanted reports whether nobody waits for e any more. From then on nobody can.
func (c *Compiler) unwanted(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.abandoned = e.abandoned || e.waiting == 0
	return e.abandoned
}

// run compiles s for everybody who waits for e.
func (c *Compiler) run(s Spec, e *entry, el *list.Element) {
	// The error of those who wait if compiling panics.
	e.err = errors.New("grammar: compiling has failed")
	defer func() {
		close(e.done)
		c.mu.Lock()
		defer c.mu.Unlock()
		if e.err != nil {
			c.drop(el)
		}
		c.evict()
	}()
	e.g, e.err = compile(s, c.voc, c.cfg, func() bool { return c.unwanted(e) })
}

// drop removes an entry, unless its key has a newer one.
func (c *Compiler) drop(el *list.Element) {
	e := el.Value.(*entry)
	if c.entries[e.key] == el {
		delete(c.entries, e.key)
		c.recent.Remove(el)
	}
}

// evict drops the grammars that were asked for longest ago until the others fit.
// Matchers that use a dropped grammar keep it.
func (c *Compiler) evict() {
	total := int64(0)
	for el := c.recent.Front(); el != nil; {
		e := el.Value.(*entry)
		next := el.Next()
		select {
		case <-e.done:
			if e.g != nil {
				if total += e.g.Bytes() + int64(len(e.key)); total > c.cfg.CacheBytes {
					c.drop(el)
				}
			}
		default: // being compiled
		}
		el = next
	}
}

// Grammar is a compiled constraint. It is safe for concurrent use by any number of
// matchers, which share what was built for one of them.
type Grammar struct {
	m      *machine
	static int64
}

// Bytes is about how much memory g holds at the moment.
func (g *Grammar) Bytes() int64 {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	return g.static + g.m.held()
}

// Vocabulary is what g was compiled for.
func (g *Grammar) Vocabulary() *Vocabulary { return g.m.voc }

// compile makes the grammar of s. It ends early when abandoned, which may be nil,
// reports true.
func compile(s Spec, v *Vocabulary, cfg Config, abandoned func() bool) (*Grammar, error) {
	return compileMetered(s, v, cfg, &meter{left: cfg.MaxWork, deadline: time.Now().Add(cfg.Deadline), abandoned: abandoned})
}

func compileMetered(s Spec, v *Vocabulary, cfg Config, work *meter) (g *Grammar, err error) {
	defer catch(&err)
	b := newBuilder(commonRules(), cfg.MaxStates, work)
	n := b.finish(b.spec(s))
	m := newMachine(n, v, cfg.GrammarBytes)
	if m.root == dead {
		fail(ErrTooComplex, "", "the grammar is too ambiguous")
	}
	m.firstShape(b.meter)
	return &Grammar{m: m, static: n.bytes()}, nil
}

// spec lowers s to its root rule.
func (b *builder) spec(s Spec) int32 {
	switch s.Kind {
	case JSONSchema:
		v, err := parseJSON(s.Schema)
		if err != nil {
			panic(err)
		}
		return b.schemaRule(v, "$", s.Options)
	case JSONObject:
		return b.schemaRule(&object{keys: []string{"type"}, m: map[string]any{"type": "object"}}, "$", s.Options)
	case Regex:
		return b.regexRule(s.Text)
	case Choice:
		return b.choiceRule(s.Choices)
	case Notation:
		return b.notationRule(s.Text)
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
