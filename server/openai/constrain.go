package openai

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/api"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/grammar"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
)

// constraints turns the constraints of requests for one model into masks. It prepares the
// vocabulary for that when the first constrained request comes.
type constraints struct {
	prepare func() (*grammarSet, error)
	ready   atomic.Pointer[grammarSet] // what prepare has returned
	refused refusedTools
}

// grammarSet is what all grammars of one model share.
type grammarSet struct {
	lexicon  *lexicon
	compiler *grammar.Compiler
}

func newConstraints(m *Model, account *memory.Account) *constraints {
	c := &constraints{}
	c.prepare = sync.OnceValues(func() (*grammarSet, error) {
		l, err := newLexicon(m)
		if err != nil {
			return nil, err
		}
		compiler, err := grammar.NewCompiler(l.vocabulary, grammar.DefaultConfig(), account)
		if err != nil {
			return nil, err
		}
		go l.vocabulary.Warm() // the first requests need only parts of it and do not wait
		set := &grammarSet{l, compiler}
		c.ready.Store(set)
		return set, nil
	})
	return c
}

// constrain gives the requests of p their masks, before they enter the engine. Grammars
// are compiled on a queue of their own, so that one which takes seconds does not delay the
// prompts of other requests. In the queue, large ones do not delay small ones.
func (s *Service) constrain(c *transport.Call, m *Model, p *prepared) error {
	q, calls := p.constraint, p.calls
	if q == nil && !calls.constrains() {
		return nil
	}
	if err := c.Memory().Grow(c.Context(), pastSize(p)); err != nil {
		return err
	}
	kept := q
	if kept == nil {
		kept = &api.Constraint{} // which has the options alone
	}
	want := spec(kept, s.cfg.Constrained)
	want.Prefix = p.given
	p.constraint, p.given = nil, "" // from here on they are the compiler's
	// A worker that compiles for a client that leaves goes on alone until the compiler
	// notices that.
	used := new(use)
	c.AtEnd(used.end)
	compile := compilation{to: m.constraints, used: used, queue: func(ctx context.Context, large bool, f func()) error {
		turn := c.Turn()
		if large {
			turn.Size = transport.LargeBody
		}
		return s.compiling.Do(ctx, turn, f)
	}}
	var set *grammarSet
	var g *grammar.Grammar
	var err error
	if calls.constrains() {
		set, g, err = compile.calls(c.Context(), calls, q, want)
		calls.report(&p.reply)
	} else {
		set, g, err = compile.constraint(c.Context(), q.Kind, want)
	}
	if err != nil || g == nil {
		return err
	}
	p.reply.form.Warnings = s.warnings(g, p.reply.meta.ID)
	start := p.output
	marks := p.marks
	if s.cfg.InThoughts {
		start = reasoning.Content
	}
	if calls.constrains() && calls.format.Whole() {
		start, marks = reasoning.Content, nil
	}
	for i := range p.requests {
		r := &p.requests[i]
		for range max(1, r.N) {
			r.Masks = append(r.Masks, engine.Mask(set.lexicon.newMask(g, marks.Unconstrained(start), len(r.Sampling.Allowed) > 0)))
		}
	}
	return nil
}

// warnings returns the warnings of the grammar of a request as texts. The first request with
// a grammar that is not in the cache logs them, so that whoever runs the server learns
// of them; but no more than one request a second does, whatever clients send.
func (s *Service) warnings(g *grammar.Grammar, id string) []string {
	var texts []string
	for _, w := range g.Warnings() {
		texts = append(texts, w.String())
	}
	if len(texts) > 0 && g.FirstUse() {
		if skipped, due := s.warned.due(time.Now()); due {
			s.log.Info("a constraint is not kept in all its parts", "id", id, "warnings", texts, "not_logged_before", skipped)
		}
	}
	return texts
}

// warningInterval is the least time between two lines of the log about constraints.
const warningInterval = time.Second

// sometimes bounds how often something is logged.
type sometimes struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

// due reports whether it may be logged now and, if so, how often it was not since the last
// time.
func (s *sometimes) due(now time.Time) (skipped int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last) < warningInterval {
		s.skipped++
		return 0, false
	}
	skipped, s.skipped, s.last = s.skipped, 0, now
	return skipped, true
}

// pastToken is what a matcher keeps of a token, in a slice that doubles as it grows.
const pastToken = 24

// pastSize returns the bytes that the matchers of p may come to hold.
func pastSize(p *prepared) int64 {
	n := int64(0)
	for i := range p.requests {
		r := &p.requests[i]
		n += int64(max(1, r.N)) * int64(r.Limits.MaxTokens) * pastToken
	}
	return n
}

// use is the use of a grammar by a call. The grammar may be compiled when the call has ended
// already.
type use struct {
	mu    sync.Mutex
	g     *grammar.Grammar
	ended bool
}

// begin is called with a grammar that was compiled for the call.
func (u *use) begin(g *grammar.Grammar) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		g.Release()
		return
	}
	if u.g != nil { // of a constraint that was given up
		u.g.Release()
	}
	u.g = g
}

// end is called when the call ends.
func (u *use) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.g != nil {
		u.g.Release()
	}
	u.g, u.ended = nil, true
}

// given is the beginning of the constrained text that a request gives, as it was sent. As in
// outputs, thoughts do not count, nor the white space after them.
func (s *Service) given(p *chat.Prompt) string {
	switch {
	case p.Given == "" || s.cfg.InThoughts:
		return strings.Clone(p.Given)
	case p.Output != reasoning.Content: // the constraint begins after the thoughts
		return ""
	case len(p.EchoText) < len(p.Given):
		return strings.Clone(strings.TrimLeft(p.EchoText, " \t\r\n"))
	}
	return strings.Clone(p.Given)
}

// A refusal says why a constraint cannot be used.
type refusal struct {
	detail    string
	continued bool // it is the beginning of the output that does not fit
}

func (r *refusal) Error() string { return r.detail }

// compilation is how the grammars of a request are made.
type compilation struct {
	to    *constraints
	used  *use
	queue grammar.Queue
}

// constraint makes the grammar of a constraint of the given kind, or says in its words why it
// cannot be used.
func (c *compilation) constraint(ctx context.Context, kind api.ConstraintKind, want grammar.Spec) (*grammarSet, *grammar.Grammar, error) {
	set, g, err := c.compile(ctx, want)
	if no := (*refusal)(nil); errors.As(err, &no) {
		if no.continued {
			return nil, nil, api.ErrContinued(no.detail)
		}
		return nil, nil, api.ErrConstraint(kind, no.detail)
	}
	return set, g, err
}

// compile makes the grammar of want on workers of the queue,
// and fills its first mask. The first mask is by far the most expensive, and what it computes
// is kept for later ones. (Compiling has filled it already; here it is looked at.) If want
// cannot be used the error is a *refusal.
func (c *compilation) compile(ctx context.Context, want grammar.Spec) (*grammarSet, *grammar.Grammar, error) {
	set, err := c.to.set(ctx, c.queue)
	if err != nil {
		return nil, nil, err
	}
	g, err := set.compiler.CompileOn(ctx, want, c.queue)
	if errors.Is(err, grammar.ErrPrefix) {
		return nil, nil, &refusal{err.Error(), true}
	}
	if bad := (*grammar.Error)(nil); errors.As(err, &bad) {
		return nil, nil, &refusal{detail: bad.Error()}
	}
	if errors.Is(err, memory.ErrNever) {
		return nil, nil, &refusal{detail: "it needs more memory than the server has"}
	}
	if errors.Is(err, grammar.ErrDeadline) {
		return nil, nil, failure.ErrCompiling
	}
	if err != nil {
		return nil, nil, err
	}
	c.used.begin(g)
	bad := g.NewMatcher().FillPaced(make([]uint32, len(set.lexicon.scratch)), func(waiting bool) bool {
		if waiting { // for another request that fills a mask of this grammar
			time.Sleep(100 * time.Microsecond)
		}
		return ctx.Err() == nil
	})
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if errors.Is(bad, grammar.ErrTooComplex) {
		return nil, nil, &refusal{detail: "it is too ambiguous"}
	}
	if bad != nil {
		return nil, nil, &refusal{detail: "this model's vocabulary has no token that such an output can begin with"}
	}
	return set, g, nil
}

// set returns what all grammars of the model share, which takes a worker at the first time.
func (c *constraints) set(ctx context.Context, queue grammar.Queue) (*grammarSet, error) {
	if set := c.ready.Load(); set != nil {
		return set, nil
	}
	var bad error
	if err := queue(ctx, false, func() { _, bad = c.prepare() }); err != nil {
		return nil, err
	}
	return c.ready.Load(), bad
}

// spec returns the constraint of a request in the form that package grammar compiles.
func spec(q *api.Constraint, defaults Constrained) grammar.Spec {
	s := grammar.Spec{
		Schema: q.Schema, Text: q.Text, Choices: q.Choices,
		// Strict: undeclared properties are not produced (docs/interface/chat-completions.md,
		// section 8.3), so the option that forbids them is always kept.
		Options: grammar.Options{Strict: true, DisableAnyWhitespace: q.DisableAnyWhitespace || defaults.NoWhitespace,
			DisableAdditionalProperties: q.DisableAdditionalProperties, OneOfAny: defaults.OneOfAny},
	}
	if q.WhitespacePattern != nil {
		s.WhitespacePattern = *q.WhitespacePattern
	}
	switch q.Kind {
	case api.ConstraintJSON:
		s.Kind = grammar.JSONSchema
	case api.ConstraintJSONObject:
		s.Kind = grammar.JSONObject
	case api.ConstraintRegex:
		s.Kind = grammar.Regex
	case api.ConstraintChoice:
		s.Kind = grammar.Choice
	case api.ConstraintGrammar:
		s.Kind = grammar.Notation
	case api.ConstraintTag:
		s.Kind = grammar.Tag
	}
	return s
}
