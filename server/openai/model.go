package openai

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/chat"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/pooling"
	"weir/tokenizer"
)

// Model is what requests are answered with: an engine, and everything about its model that
// has to be known before a request reaches the engine. It must not change after
// Service.SetModel.
type Model struct {
	Names   []string // the names that clients may use; answers have the first
	Root    string   // path or repository of the weights
	Created time.Time
	// Fingerprint is the system_fingerprint of answers: a hash of all that decides their
	// bits (build, instruction set, weights, types); "": null.
	Fingerprint string

	Engine    *engine.Engine
	Tokenizer *tokenizer.Tokenizer
	Chat      *chat.Renderer

	// TokenizerInfo is the answer of GET /tokenizer_info: a JSON object in the form of
	// tokenizer_config.json; "": an object that names the class of the tokenizer only.
	TokenizerInfo string

	CacheType  string     // type of the keys and values in the cache, for GET /metrics; "": unknown
	MaxLen     int        // context in tokens, prompt and output together
	VocabSize  int        // token ids below it can be drawn
	Priority   bool       // the scheduler orders requests by priority
	Generation Generation // defaults and end tokens

	About About // for people and programs that ask what it is

	// Pooling is what follows a network whose answers are vectors or scores; nil: the model generates.
	Pooling *pooling.Plan
	Scoring Scoring

	Transfer Transfer // of KV blocks to and from other servers

	constraints *constraints
}

// PairForm says how a network reads two texts at once.
type PairForm uint8

const (
	PairJoined   PairForm = iota // their tokens in the template that the tokenizer has for two texts
	PairTexts                    // the one text behind the other, as one text
	PairRendered                 // rendered by the chat template, as messages of the roles query and document
)

// Scoring is what a model that classifies has beside its plan.
type Scoring struct {
	Form   PairForm
	Types  int      // token types (segments) of the network; up to 1: it has none
	Labels []string // names of the classes; nil: they have none

	Prompt     string              // the system message of rendered pairs, or what stands in front of the first text; "": nothing
	Kwargs     jsontext.RawMessage // arguments of the template, an object, which requests may override; nil: none
	Generation bool                // the template is asked for a generation prompt
}

// longest is the length of the longest name of a class, as it may be encoded.
func (s *Scoring) longest() int {
	n := 0
	for _, l := range s.Labels {
		n = max(n, jsontext.MaxLen(l))
	}
	return n
}

// Generation holds the defaults of sampling parameters for requests that do not give them.
// They come from the model's generation_config.json and from the operator's settings; nil:
// there is no such default.
type Generation struct {
	Temperature, TopP, MinP, RepetitionPenalty *float64

	TopK         *int
	MaxNewTokens *int // for requests without max_tokens
	MaxTokens    *int // a cap on every request

	EOS  int32   // the primary end-of-sequence token; -1: none
	Stop []int32 // further ids that end the output
}

// About describes a model. Zero values are unknown.
type About struct {
	Family       string // architecture, such as llama
	Format       string // of its files: safetensors or gguf
	Quantization string // type of its weights
	Parameters   int64
	Bytes        int64 // of its weights
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
	if p := m.Pooling; p != nil {
		if err := p.Validate(m.Engine.Spec().Hidden); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	for _, id := range append([]int32{max(m.Generation.EOS, 0)}, m.Generation.Stop...) {
		if id < 0 || int(id) >= m.VocabSize {
			return fmt.Errorf("server: the stop token %d is not in the vocabulary of %d", id, m.VocabSize)
		}
	}
	return nil
}

// serves reports whether a request for name is for this model. A request without a name
// ("") is.
// Serves reports whether clients may use a name for the model.
func (m *Model) Serves(name string) bool { return m.serves(name) }

func (m *Model) serves(name string) bool { return name == "" || slices.Contains(m.Names, name) }

// String lists the defaults that are given, for the log.
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
