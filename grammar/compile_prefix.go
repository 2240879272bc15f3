package grammar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// compileAfter is Compile for a spec with a prefix. Mostly the prefix is the beginning of a
// text that the constraint itself generates. Then the grammar is the one that is kept for
// the spec without the prefix, and only its matchers begin elsewhere.
func (c *Compiler) compileAfter(ctx context.Context, s Spec, queue Queue) (*Grammar, error) {
	plain := s
	plain.Prefix = ""
	g, err := c.cached(ctx, plain, queue)
	if err != nil {
		return nil, err
	}
	start, err := g.m.afterOn(ctx, s.Prefix, c.cfg.Deadline, queue)
	if err == nil {
		return &Grammar{m: g.m, start: start, of: g.of, entry: g.entry, warnings: g.warnings}, nil
	}
	if !errors.Is(err, ErrPrefix) || !s.json() {
		g.Release()
		return nil, err
	}
	along, err := c.cached(ctx, s, queue)
	if bad := (*Error)(nil); errors.As(err, &bad) {
		if start := g.m.respelled(ctx, &s, c.cfg.Deadline, queue); start != nil {
			return &Grammar{m: g.m, start: start, of: g.of, entry: g.entry, warnings: g.warnings}, nil
		}
	}
	g.Release()
	return along, err
}

// respelled is the position behind the prefix of s as the machine would have spelled it, or
// nil. This finds beginnings that cannot be followed when the schema is lowered along them:
// arrays whose elements have to be remembered, and patterns that need too many states.
func (m *machine) respelled(ctx context.Context, s *Spec, limit time.Duration, queue Queue) *position {
	g, blank, err := parseGivenAlone(s.Prefix)
	if err != nil || s.WhitespacePattern != "" {
		return nil
	}
	// Until draft 4, 1.0 is no integer.
	r := respeller{exact: bytes.Contains(s.Schema, []byte("/draft-04/")) || bytes.Contains(s.Schema, []byte("/draft-03/"))}
	r.given(g)
	at, err := m.afterOn(ctx, r.String(), limit, queue)
	if err != nil {
		return nil
	}
	return m.behindBlanks(at, blank)
}

func parseGivenAlone(text string) (g *given, blank string, err error) {
	defer catch(&err)
	g, blank = parseGiven(text, unmetered())
	return g, blank, nil
}

// afterOn is after on a worker of queue, which may be nil.
func (m *machine) afterOn(ctx context.Context, text string, limit time.Duration, queue Queue) (*position, error) {
	if queue == nil {
		return m.after(ctx, text, limit)
	}
	type result struct {
		at  *position
		err error
	}
	done := make(chan result, 1)
	err := queue(ctx, len(text) > smallSpec, func() {
		at, err := m.after(ctx, text, limit)
		done <- result{at, err}
	})
	select {
	case r := <-done:
		return r.at, r.err
	default: // the caller has left, or the queue did not take it
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, err
}

// json reports whether the whole output is JSON.
func (s *Spec) json() bool { return s.Kind == JSONSchema || s.Kind == JSONObject }

// prefixPiece is how many bytes of a prefix are read between two looks at the clock.
const prefixPiece = 64

// after is the position behind text.
func (m *machine) after(ctx context.Context, text string, limit time.Duration) (*position, error) {
	deadline := time.Now().Add(limit)
	at := m.root
	for i := range len(text) {
		if i%prefixPiece == 0 {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if time.Now().After(deadline) {
				return nil, ErrDeadline
			}
		}
		before := at
		if at = m.step(at, text[i]); at == dead {
			if before.cost.Load() > m.bounds.step {
				return nil, &Error{Kind: ErrTooComplex, Msg: "the grammar is too ambiguous for the text that is to be continued"}
			}
			return nil, prefixError(i, "", "no text that satisfies the constraint goes on so")
		}
	}
	return m.thinned(at), nil
}

// prefixError says why a text that is given is no beginning, and where. path is that of a
// keyword of the constraint.
func prefixError(at int, path, format string, args ...any) *Error {
	return &Error{Kind: ErrPrefix, Path: path, Msg: fmt.Sprintf("at byte %d of the given text: ", at) + fmt.Sprintf(format, args...)}
}

func failPrefix(at int, path, format string, args ...any) {
	panic(prefixError(at, path, format, args...))
}

// specAfter lowers s to its root rule, along its prefix if it has one.
func (b *builder) specAfter(s Spec) (root int32, after *prefixed) {
	if s.Prefix == "" {
		return b.spec(s), nil
	}
	var schema any = anyObject()
	if s.Kind == JSONSchema {
		schema = b.meter.readJSON(s.Schema)
	}
	after, root = b.schemaAfter(schema, s.Prefix, s.Options)
	return root, after
}

// anyObject is the schema of any object.
func anyObject() *object {
	return &object{keys: []string{"type"}, m: map[string]any{"type": "object"}}
}

// finishAfter is finish for rules along a text. If nothing can follow, it is
// the fault of that text.
func (b *builder) finishAfter(root int32, after *prefixed) *network {
	if after == nil {
		return b.finish(root)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			if r.Kind == ErrUnsatisfiable {
				r = after.refusal()
			}
			panic(r)
		default:
			panic(r)
		}
	}()
	return b.finish(root)
}
