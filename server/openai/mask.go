package openai

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"weir/chat/reasoning"
	"weir/engine"
	"weir/grammar"
	"weir/tokenizer"
)

// lexicon is what masks need to know of a model's tokens. It is made once, with the first
// constrained request, and nothing but scratch changes after that.
type lexicon struct {
	vocabulary *grammar.Vocabulary
	tok        *tokenizer.Tokenizer
	eos        []int32
	open       string   // the mark that opens thoughts
	closing    string   // the text that ends what is not constrained
	openers    []int32  // tokens whose bytes are a part of the tag that opens thoughts
	closers    []int32  // tokens in which more bytes follow the end of the closing tag
	scratch    []uint32 // a row for Only, which is called by the engine's loop alone
}

func newLexicon(m *Model) (*lexicon, error) {
	l := &lexicon{tok: m.Tokenizer, scratch: make([]uint32, (m.VocabSize+31)/32)}
	if m.Generation.EOS >= 0 {
		l.eos = append(l.eos, m.Generation.EOS)
	}
	l.eos = append(l.eos, m.Generation.Stop...)
	tokens := make([][]byte, min(m.VocabSize, m.Tokenizer.VocabSize()))
	var special []grammar.Special // grammars can name them
	l.open, l.closing = reasoning.Open, reasoning.Close
	if m.Chat != nil {
		l.open, l.closing = m.Chat.Marks().Opening(), m.Chat.Marks().Constrains()
	}
	open, closing := []byte(l.open), []byte(l.closing)
	for i := range tokens {
		id := int32(i)
		b := m.Tokenizer.Bytes(id)
		if m.Tokenizer.IsSpecial(id) {
			special = append(special, grammar.Special{ID: id, Name: m.Tokenizer.Token(id)})
		} else {
			tokens[i] = b
		}
		if len(b) > 0 && bytes.Contains(open, b) {
			l.openers = append(l.openers, id)
		}
		for at := range len(b) - 1 {
			if head := b[:at+1]; bytes.HasSuffix(closing, head) || bytes.HasSuffix(head, closing) {
				l.closers = append(l.closers, id)
				break
			}
		}
	}
	var err error
	l.vocabulary, err = grammar.NewVocabulary(tokens, l.eos, special...)
	return l, err
}

// mask is the constraint of one choice. It does not constrain thoughts: the grammar begins
// after the tag that closes them (docs/interface/chat-completions.md, section 8.3). Until
// then end tokens are forbidden, and so are tokens that would go on after the tag, so that
// the grammar begins with a token of its own.
type mask struct {
	lexicon *lexicon
	matcher *grammar.Matcher
	phase   phase
	tag     int  // how many bytes of the tag that the phase waits for have come
	plain   bool // in phase opening: the grammar accepts the output so far

	// narrowed says that the request forbids tokens of its own, so that the grammar's masks
	// must leave every way to go on.
	narrowed bool
}

// phase says which part of the output a mask is in.
type phase uint8

const (
	constrained phase = iota
	opening           // at the beginning: either the opening tag or the grammar may come
	inThoughts
	ended // after an end token that did not end the choice (ignore_eos): all tokens are legal
)

// newMask returns the mask of a choice whose output begins with start. With narrowed the
// request forbids tokens besides.
func (l *lexicon) newMask(g *grammar.Grammar, start reasoning.Start, narrowed bool) engine.Mask {
	k := &mask{lexicon: l, matcher: g.NewMatcher(), plain: true, narrowed: narrowed}
	switch start {
	case reasoning.Thought:
		k.phase = inThoughts
	case reasoning.Either:
		k.phase = opening
	}
	return k
}

// Fill implements engine.Mask. If no token can continue the output no bit is set, and the
// engine ends the choice with an error.
func (k *mask) Fill(row []uint32, pace func(waiting bool) (goOn bool)) error {
	switch k.phase {
	case constrained:
		return k.legal(row, pace)
	case opening:
		clear(row)
		if k.plain {
			if err := k.legal(row, pace); err != nil {
				return err
			}
		}
		for _, t := range k.lexicon.openers {
			if k.opens(t) {
				row[t/32] |= 1 << (t % 32)
			}
		}
	default:
		for i := range row {
			row[i] = ^uint32(0)
		}
		if k.phase == ended {
			return nil
		}
		for _, t := range k.lexicon.eos {
			row[t/32] &^= 1 << (t % 32)
		}
		for _, t := range k.lexicon.closers {
			if _, end := k.closes(t); end == early {
				row[t/32] &^= 1 << (t % 32)
			}
		}
	}
	return nil
}

// legal fills row with the tokens that the grammar accepts. Where the output may end these
// include all end tokens, so that the model draws the one that it would draw without a
// constraint.
func (k *mask) legal(row []uint32, pace grammar.Pace) error {
	switch err := k.matcher.FillPaced(row, pace); {
	case err == nil && !k.narrowed: // see Matcher.WithoutLoneSpace for why
		k.matcher.WithoutLoneSpace(row)
		return nil
	case errors.Is(err, grammar.ErrStuck):
		return nil // no bit is set
	case errors.Is(err, grammar.ErrTooComplex):
		return fmt.Errorf("%w: %w", engine.ErrTooComplex, err)
	default:
		return err
	}
}

// Quick implements engine.Mask.
func (k *mask) Quick(t int32) bool {
	switch {
	case k.phase == ended || k.phase == inThoughts:
		return true
	case t < 0:
		return k.matcher.QuickFill()
	}
	return k.matcher.QuickAccept(t)
}

// Only implements engine.Mask.
func (k *mask) Only() int32 {
	if k.phase != constrained || !k.matcher.Settled() || !k.matcher.QuickFill() {
		return -1
	}
	if k.legal(k.lexicon.scratch, nil) != nil {
		return -1
	}
	if t, ok := grammar.Single(k.lexicon.scratch); ok {
		return t
	}
	return -1
}

// Accept implements engine.Mask.
func (k *mask) Accept(t int32) bool {
	switch k.phase {
	case ended:
		return true
	case opening:
		tag := k.opens(t)
		k.plain = k.plain && k.matcher.Accept(t)
		switch {
		case tag:
			if k.tag += len(k.lexicon.tok.Bytes(t)); k.tag == len(k.lexicon.open) {
				k.phase, k.tag = inThoughts, 0
				k.matcher.Rollback(k.matcher.Len()) // it may have taken the tag for content
			}
			return true
		case k.plain:
			k.phase = constrained
			if k.matcher.Ended() {
				k.phase = ended
			}
		}
		return k.plain
	case inThoughts:
		tag, end := k.closes(t)
		if k.tag = tag; end == last {
			k.phase = constrained
		}
		return end != early && !slices.Contains(k.lexicon.eos, t)
	}
	if !k.matcher.Accept(t) {
		return false
	}
	if k.matcher.Ended() {
		k.phase = ended
	}
	return true
}

// opens reports whether t goes on with the tag that opens thoughts.
func (k *mask) opens(t int32) bool {
	b := k.lexicon.tok.Bytes(t)
	return len(b) > 0 && bytes.HasPrefix([]byte(k.lexicon.open[k.tag:]), b)
}

// closing says where in a token the tag that closes thoughts has its end.
type closing uint8

const (
	nowhere closing = iota // the tag does not end in the token
	early                  // more bytes of the token follow the tag
	last                   // the token ends with the tag
)

// closes returns where the closing tag ends in token t, if k.tag bytes of it came before t,
// and how many bytes of the tag have come after t.
func (k *mask) closes(t int32) (tag int, end closing) {
	closer := k.lexicon.closing
	tag = k.tag
	b := k.lexicon.tok.Bytes(t)
	for i, c := range b {
		if tag = reasoning.Follow(closer, tag, c); tag == len(closer) {
			if i < len(b)-1 {
				return 0, early
			}
			return 0, last
		}
	}
	return tag, nowhere
}
