package openai

import (
	"context"
	"errors"
	"sync"

	"weir/api"
	"weir/engine"
	"weir/grammar"
	"weir/server/transport"
)

// constraints turns the constraints of requests for one model into masks. What
// it needs of the vocabulary is made with the first of them.
type constraints struct {
	prepare func() (*grammarSet, error)
}

type grammarSet struct {
	lexicon  *lexicon
	compiler *grammar.Compiler
}

func newConstraints(m *Model) *constraints {
	return &constraints{sync.OnceValues(func() (*grammarSet, error) {
		l, err := newLexicon(m)
		if err != nil {
			return nil, err
		}
		c, err := grammar.NewCompiler(l.vocabulary, grammar.DefaultConfig())
		go l.vocabulary.Warm() // beside the first requests, which need only parts of it
		return &grammarSet{l, c}, err
	})}
}

// constrain gives p's requests their masks. It waits for the grammar on a queue
// of its own, so that one which takes seconds to compile holds up nobody's
// prompt, and before the request enters the engine.
func (s *Service) constrain(c *transport.Call, m *Model, p *prepared) error {
	q := p.options.Constraint
	if q == nil {
		return nil
	}
	var set *grammarSet
	var g *grammar.Grammar
	var bad error
	// If the client leaves, the worker goes on alone until the grammar's compiler
	// notices that nobody waits.
	ctx := c.Context()
	err := s.compiling.Do(c.Context(), c.QueueKey, func() { set, g, bad = m.constraints.compile(ctx, q) })
	if err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	for i := range p.requests {
		r := &p.requests[i]
		for range max(1, r.N) {
			r.Masks = append(r.Masks, engine.Mask(set.lexicon.newMask(g, p.output)))
		}
	}
	return nil
}

// compile makes the grammar of q and its first mask, which is where most of what
// it costs is spent: later ones find parts of theirs made.
func (c *constraints) compile(ctx context.Context, q *api.Constraint) (*grammarSet, *grammar.Grammar, error) {
	set, err := c.prepare()
	if err != nil {
		return nil, nil, err
	}
	g, err := set.compiler.Compile(ctx, spec(q))
	if bad := (*grammar.Error)(nil); errors.As(err, &bad) {
		return nil, nil, api.ErrConstraint(q.Kind, bad.Error())
	}
	if err != nil {
		return nil, nil, err
	}
	if err := g.NewMatcher().Fill(make([]uint32, len(set.lexicon.scratch))); err != nil {
		return nil, nil, api.ErrConstraint(q.Kind, "this model's vocabulary has no token that such an output can begin with")
	}
	return set, g, nil
}

func spec(q *api.Constraint) grammar.Spec {
	s := grammar.Spec{
		Schema: q.Schema, Text: q.Text, Choices: q.Choices,
		// Strict: undeclared properties are not produced (docs/interface/chat-completions.md,
		// section 8.3), so the option that forbids them is always kept.
		Options: grammar.Options{Strict: true, DisableAnyWhitespace: q.DisableAnyWhitespace, DisableAdditionalProperties: q.DisableAdditionalProperties},
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
