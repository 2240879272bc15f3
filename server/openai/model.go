package openai

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/chat"
	"weir/engine"
	"weir/tokenizer"
)

// Model is what requests are answered with: an engine, and everything about its
// model that has to be known before a request reaches it. It is constant once
// SetModel has it.
type Model struct {
	Names   []string // what clients may call it; the first is what answers say
	Root    string   // path or repository of the weights
	Created time.Time
	// Fingerprint is the hash of build, instructions, weights and types that
	// decide the bits of an answer; "": null.
	Fingerprint string

	Engine    *engine.Engine
	Tokenizer *tokenizer.Tokenizer
	Chat      *chat.Renderer

	// TokenizerInfo is what GET /tokenizer_info says: a JSON object in the form of
	// tokenizer_config.json; "": little.
	TokenizerInfo string

	CacheType  string // of keys and values, for GET /metrics; "": unknown
	MaxLen     int    // context in tokens, prompt and output together
	VocabSize  int    // ids below it can be drawn
	Priority   bool   // the scheduler goes by priority
	Generation Generation

	constraints *constraints
}

// Generation is what the model's generation_config.json and the operator's
// settings say for requests that do not. nil is not given.
type Generation struct {
	Temperature, TopP, MinP, RepetitionPenalty *float64

	TopK         *int
	MaxNewTokens *int // for requests without max_tokens
	MaxTokens    *int // a cap on every request

	EOS  int32   // the primary end-of-sequence token; -1: none
	Stop []int32 // further ids that end the output
}

func (m *Model) validate() error {
	switch {
	case len(m.Names) == 0 || slices.Contains(m.Names, ""):
		return errors.New("server: a model needs a name")
	case m.Engine == nil || m.Tokenizer == nil || m.Chat == nil:
		return errors.New("server: a model needs an engine, a tokenizer and a chat renderer")
	case m.MaxLen < 1 || m.VocabSize < 1:
		return fmt.Errorf("server: a model of %d tokens context and %d tokens vocabulary", m.MaxLen, m.VocabSize)
	}
	select {
	case <-m.Engine.Ready():
	default:
		return errors.New("server: the model's engine is not ready")
	}
	if spec := m.Engine.Spec(); m.MaxLen > spec.MaxSeqTokens || m.VocabSize > spec.VocabSize {
		return fmt.Errorf("server: %d tokens context and %d tokens vocabulary, but the engine has %d and %d", m.MaxLen, m.VocabSize, spec.MaxSeqTokens, spec.VocabSize)
	}
	for _, id := range append([]int32{max(m.Generation.EOS, 0)}, m.Generation.Stop...) {
		if id < 0 || int(id) >= m.VocabSize {
			return fmt.Errorf("server: the stop token %d is not in the vocabulary of %d", id, m.VocabSize)
		}
	}
	return nil
}

// serves reports whether a request for name is for this model; "" is.
func (m *Model) serves(name string) bool { return name == "" || slices.Contains(m.Names, name) }

// String lists what is given, for the log.
func (g Generation) String() string {
	var b []byte
	add := func(name string, v any) {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%s=%v", name, v)
	}
	for _, f := range []struct {
		name  string
		value *float64
	}{{"temperature", g.Temperature}, {"top_p", g.TopP}, {"min_p", g.MinP}, {"repetition_penalty", g.RepetitionPenalty}} {
		if f.value != nil {
			add(f.name, float32(*f.value))
		}
	}
	for _, f := range []struct {
		name  string
		value *int
	}{{"top_k", g.TopK}, {"max_new_tokens", g.MaxNewTokens}, {"max_tokens", g.MaxTokens}} {
		if f.value != nil {
			add(f.name, *f.value)
		}
	}
	add("eos", g.EOS)
	if len(g.Stop) > 0 {
		add("stop", g.Stop)
	}
	return string(b)
}
