package openai

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"weir/api"
	"weir/chat/toolcall"
	"weir/grammar"
	"weir/internal/jsontext"
	"weir/server/failure"
)

// refusedTools remembers the parameters of tools that the compiler of grammars refuses: agents
// send the same tools with every request.
type refusedTools struct {
	mu   sync.Mutex
	sums map[[sha256.Size]byte]bool
}

// mostRefused bounds what is remembered. When there is more, all of it is forgotten.
const mostRefused = 4096

func (r *refusedTools) has(parameters []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sums) > 0 && r.sums[sha256.Sum256(parameters)]
}

func (r *refusedTools) add(parameters []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sums == nil || len(r.sums) == mostRefused {
		r.sums = map[[sha256.Size]byte]bool{}
	}
	r.sums[sha256.Sum256(parameters)] = true
}

// calls makes the grammar of an answer that may call tools, and that q, unless it is nil,
// constrains besides. want is the constraint of q, or has the options alone. Where tools need
// not be called, and are not strict, those whose parameters the compiler refuses take any
// object; if that does not help, there is no grammar, and g is nil.
func (c *compilation) calls(ctx context.Context, k *calling, q *api.Constraint, want grammar.Spec) (set *grammarSet, g *grammar.Grammar, err error) {
	var content []byte
	if q != nil {
		content = contentFormat(q)
	}
	for i := range k.tools {
		if k.lenient(i) && c.to.refused.has(k.tools[i].Parameters) {
			k.loosen(i)
		}
	}
	for step := tryWhole; ; step++ {
		set, g, err = c.tag(ctx, k, content, want)
		no := (*refusal)(nil)
		refused := errors.As(err, &no)
		switch {
		case !refused && !errors.Is(err, failure.ErrCompiling):
			return set, g, err
		case refused && no.continued:
			return nil, nil, api.ErrContinued(no.detail)
		case step == tryWhole && q != nil: // is it the constraint alone that cannot be used?
			if _, _, err := c.constraint(ctx, q.Kind, want); err != nil {
				return nil, nil, err
			}
			fallthrough
		case step == tryWhole:
			if err := c.eachTool(ctx, k, want); err != nil {
				return nil, nil, err
			}
		case step == tryLoosened:
			k.loosenAll()
		case k.choice.Mode == toolcall.Auto && !slices.Contains(k.strict, true) && q == nil:
			return nil, nil, nil
		case refused:
			return nil, nil, api.ErrTools("they cannot all be kept together: " + no.detail)
		default:
			return nil, nil, err
		}
	}
}

// The attempts of calls.
const (
	tryWhole    = iota // with all schemas
	tryLoosened        // without those that are refused on their own
	_                  // without any schema
)

// lenient reports that tool i may be loosened.
func (k *calling) lenient(i int) bool {
	return k.choice.Mode == toolcall.Auto && !k.strict[i] && k.tools[i].Parameters != nil
}

// loosen allows any object as arguments of tool i.
func (k *calling) loosen(i int) {
	k.tools[i].Parameters = nil
	k.loosened = append(k.loosened, k.tools[i].Name)
}

func (k *calling) loosenAll() {
	for i := range k.tools {
		if k.lenient(i) {
			k.loosen(i)
		}
	}
}

// tag makes the grammar of calls and content. The error may be a *refusal.
func (c *compilation) tag(ctx context.Context, k *calling, content []byte, want grammar.Spec) (*grammarSet, *grammar.Grammar, error) {
	text, err := k.format.Grammar(k.tools, k.choice, content)
	if err != nil {
		return nil, nil, &refusal{detail: err.Error()}
	}
	return c.compile(ctx, grammar.Spec{Kind: grammar.Tag, Schema: text, Prefix: want.Prefix, Options: want.Options})
}

// eachTool makes the grammar of each tool on its own, and loosens those that are refused, or
// says which of them cannot be used.
func (c *compilation) eachTool(ctx context.Context, k *calling, want grammar.Spec) error {
	want.Prefix = ""
	for i := range k.tools {
		if k.choice.Mode == toolcall.Function && k.tools[i].Name != k.choice.Name {
			continue
		}
		one := *k
		one.tools, one.choice = k.tools[i:i+1], toolcall.Choice{Mode: toolcall.Required}
		_, _, err := c.tag(ctx, &one, nil, want)
		no := (*refusal)(nil)
		switch {
		case err == nil:
		case !errors.As(err, &no) && !errors.Is(err, failure.ErrCompiling):
			return err
		case k.lenient(i):
			if no != nil {
				c.to.refused.add(k.tools[i].Parameters)
			}
			k.loosen(i)
		case no == nil:
			return err
		default:
			return api.ErrTool(k.tools[i].Name, "has parameters that cannot be kept: "+no.detail)
		}
	}
	return nil
}

// mostNamed bounds the header that names tools, in bytes.
const mostNamed = 1 << 10

// report says in a header which tools take any object.
func (k *calling) report(r *reply) {
	if len(k.loosened) == 0 {
		return
	}
	var names strings.Builder
	for i, name := range k.loosened {
		name = url.QueryEscape(name)
		if names.Len()+len(name)+2 > mostNamed {
			fmt.Fprintf(&names, ", and %d more", len(k.loosened)-i)
			break
		}
		if i > 0 {
			names.WriteString(", ")
		}
		names.WriteString(name)
	}
	r.setHeader("X-Tools-Loosened", names.String())
}

// contentFormat is a constraint as a format of a structural tag.
func contentFormat(q *api.Constraint) []byte {
	var format any
	switch q.Kind {
	case api.ConstraintJSON:
		format = map[string]any{"type": "json_schema", "json_schema": jsontext.RawMessage(q.Schema)}
	case api.ConstraintJSONObject:
		format = map[string]any{"type": "json_schema", "json_schema": map[string]any{"type": "object"}}
	case api.ConstraintRegex:
		format = map[string]any{"type": "regex", "pattern": q.Text}
	case api.ConstraintChoice:
		var all []any
		for _, s := range q.Choices {
			all = append(all, map[string]any{"type": "const_string", "value": s})
		}
		format = map[string]any{"type": "or", "elements": all}
	case api.ConstraintGrammar:
		format = map[string]any{"type": "grammar", "grammar": q.Text}
	case api.ConstraintTag:
		if f := q.Schema.Member("format"); f != nil {
			return f
		}
		format = olderTag(q.Schema)
	}
	text, err := jsontext.Encode(format)
	if err != nil {
		panic("openai: a constraint that was decoded does not encode: " + err.Error())
	}
	return text
}

// olderTag is the older form of a structural tag as a format.
func olderTag(v api.Raw) any {
	var tags []any
	for _, s := range v.Member("structures").Elements() {
		content := map[string]any{"type": "json_schema", "json_schema": true}
		if schema := s.Member("schema"); schema.Given() {
			content["json_schema"] = jsontext.RawMessage(schema)
		}
		tags = append(tags, map[string]any{"type": "tag", "begin": s.Member("begin").Text(), "end": s.Member("end").Text(), "content": content})
	}
	return map[string]any{"type": "triggered_tags", "tags": tags, "triggers": jsontext.RawMessage(v.Member("triggers"))}
}
