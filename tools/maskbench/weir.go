package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"weir/grammar"
	"weir/tokenizer"
)

// weirEngine is package grammar. The vocabulary with its tables is made once; each schema
// has a compiler of its own, so that no grammar is found that was compiled before.
type weirEngine struct {
	title      string
	vocabulary *grammar.Vocabulary
	bytes      [256]int32 // tokens of one byte; -1: there is none
	options    grammar.Options
	coverage   bool
	mask       []uint32
}

// endTokens are names of tokens that end an answer, of common vocabularies.
var endTokens = []string{"<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "</s>", "<eos>", "<end_of_turn>", "<|end|>"}

func newWeir(title, tokenizerFile string, coverage bool) (*weirEngine, error) {
	data, err := os.ReadFile(tokenizerFile)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Load(data)
	if err != nil {
		return nil, err
	}
	e := &weirEngine{title: title, coverage: coverage}
	if title == servedName {
		e.options.Strict = true // as the server compiles the constraints of requests
	}
	for b := range e.bytes {
		e.bytes[b] = -1
	}
	tokens := make([][]byte, t.VocabSize())
	for i := range tokens {
		if t.IsSpecial(int32(i)) {
			continue
		}
		if tokens[i] = t.Bytes(int32(i)); len(tokens[i]) == 1 {
			e.bytes[tokens[i][0]] = int32(i)
		}
	}
	var ends []int32
	for _, name := range endTokens {
		if id, ok := t.ID(name); ok {
			ends = append(ends, id)
		}
	}
	if e.vocabulary, err = grammar.NewVocabulary(tokens, ends); err != nil {
		return nil, err
	}
	e.vocabulary.Warm()
	e.mask = make([]uint32, (e.vocabulary.Size()+31)/32)
	return e, nil
}

func (e *weirEngine) name() string { return e.title }
func (e *weirEngine) close() error { return nil }

// compile compiles s and fills the first mask.
func (e *weirEngine) compile(s grammar.Spec) (g *grammar.Grammar, took int64, err error) {
	c, err := grammar.NewCompiler(e.vocabulary, grammar.DefaultConfig(), nil)
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	if g, err = c.Compile(context.Background(), s); err == nil {
		err = g.NewMatcher().Fill(e.mask)
	}
	return g, time.Since(start).Nanoseconds(), err
}

func (e *weirEngine) measure(c *testCase) (*result, error) {
	r := &result{}
	g, took, err := e.compile(grammar.Spec{Kind: grammar.JSONSchema, Schema: c.schema, Options: e.options})
	if err != nil {
		r.Error = err.Error()
		return r, nil
	}
	r.First = took
	for i := range c.tests {
		r.Tests = append(r.Tests, e.instance(g, &c.tests[i], r))
	}
	return r, nil
}

// instance reads one instance, and appends the times to r.
func (e *weirEngine) instance(g *grammar.Grammar, t *instance, r *result) (a answer) {
	m := g.NewMatcher()
	for _, id := range t.tokens {
		if !e.coverage {
			start := time.Now()
			err := m.Fill(e.mask)
			r.Masks = append(r.Masks, time.Since(start).Nanoseconds())
			if err != nil {
				a.Error = err.Error()
				return a
			}
			if e.mask[id>>5]>>(id&31)&1 == 0 {
				return a
			}
		}
		start := time.Now()
		ok := m.Accept(id)
		took := time.Since(start).Nanoseconds()
		if !ok {
			if !e.coverage {
				a.Error = "the mask has a token that is not accepted"
			}
			return a
		}
		if !e.coverage {
			r.Commits = append(r.Commits, took)
		}
		a.At++
	}
	a.Accepted = m.Done()
	return a
}

// undeclared tells which valid instances are rejected for undeclared properties only. These
// are those that plain, which differs only in that undeclared properties are produced,
// accepts; and which, byte after byte, can be read until the comma or the name of a property.
func (e *weirEngine) undeclared(c *testCase, plain *result) func(i int) bool {
	if plain == nil || plain.Error != "" {
		return nil
	}
	var g *grammar.Grammar
	return func(i int) bool {
		if !plain.Tests[i].Accepted {
			return false
		}
		if g == nil {
			var err error
			if g, _, err = e.compile(grammar.Spec{Kind: grammar.JSONSchema, Schema: c.schema, Options: e.options}); err != nil {
				panic(fmt.Sprintf("%s was compiled a moment ago: %v", c.id, err))
			}
		}
		m, text := g.NewMatcher(), c.tests[i].text
		for at := range len(text) {
			if id := e.bytes[text[at]]; id < 0 || !m.Accept(id) {
				return id >= 0 && inMembers(text, at)
			}
		}
		return false
	}
}
