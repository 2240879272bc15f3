package pooling

import (
	"errors"
	"fmt"
	"strings"
)

// Stored is what a GGUF file says of what follows its network.
type Stored struct {
	Architecture string // general.architecture
	// Pooling is pooling_type, and HeadPooling classifier.pooling_type (llama.cpp, enum llama_pooling_type); -1: there is no such key.
	Pooling, HeadPooling int64
	Types                bool    // the network has embeddings of types of tokens
	NormEps              float32 // of the network's norms
	Tensor               Tensor
}

// Kinds of pooling in GGUF files.
const (
	storedNone  = 0
	storedMean  = 1
	storedFirst = 2
	storedLast  = 3
	storedRank  = 4
)

const scoreHead = "cls.output"

// FromGGUF is the plan of a GGUF file, for a network whose vectors have the given number of components; nil: the file does not say that
// its model embeds or ranks. Vectors get length 1, as llama.cpp's server gives them by default and as the models' modules do. A score goes
// through what a classifier's goes through without settings of its own, since a file has none: a sigmoid if there is one label, and
// a softmax otherwise. (llama.cpp, src/llama-graph.cpp, build_pooling.)
//
// The error says what is unknown, wrong or missing.
func FromGGUF(s *Stored, hidden int) (*Plan, error) {
	h := &head{tensor: s.Tensor, plan: &Plan{Hidden: hidden, Normalize: true}, width: hidden}
	switch s.Pooling {
	case -1, storedNone:
		if !h.has(scoreHead + ".weight") { // a file of a classifier whose pooling llama.cpp asks for by a flag
			return nil, nil
		}
		return h.rank(s)
	case storedMean:
		h.plan.Kind = Mean
	case storedFirst:
		h.plan.Kind = First
	case storedLast:
		h.plan.Kind = Last
	case storedRank:
		return h.rank(s)
	default:
		return nil, fmt.Errorf("pooling: the key %.100q is %d (supported: 0 to 4, which are none, mean, first token, last token and rank)", s.Architecture+".pooling_type", s.Pooling)
	}
	for _, name := range []string{"dense_2", "dense_3"} { // of EmbeddingGemma; not all files have them
		if h.has(name + ".weight") {
			h.layer(Identity, false, name)
		}
	}
	if h.err != nil {
		return nil, fmt.Errorf("pooling: %w", h.err)
	}
	return h.plan, h.plan.Validate(hidden)
}

// rank makes the plan of a head that scores.
func (h *head) rank(s *Stored) (*Plan, error) {
	h.plan.Normalize = false
	switch {
	case strings.HasPrefix(s.Architecture, "qwen3"):
		return h.yesNo()
	case s.Architecture == "bert":
		h.plan.Kind = First
		if !h.has("cls.weight") {
			return nil, errors.New("pooling: the file has the last layer of a classifier, cls.output, but not the one before it, which llama.cpp's converter leaves out of BERT's: scores would not be the model's, so take the folder that the file was made of")
		}
		if s.Types {
			h.layer(Tanh, true, "cls")
		} else { // DistilBERT, where llama.cpp takes tanh, too
			h.layer(ReLU, true, "cls")
		}
	case s.Architecture == "modern-bert":
		if err := h.modernStored(s); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("pooling: a network of the architecture %.100q with the head of a classifier is unknown (supported: bert, modern-bert, qwen3)", s.Architecture)
	}
	h.layer(Identity, h.has(scoreHead+".bias"), scoreHead)
	if h.err != nil {
		return nil, fmt.Errorf("pooling: the head of %.100q: %w", s.Architecture, h.err)
	}
	p := h.plan
	last := &p.Layers[len(p.Layers)-1]
	if p.Labels, last.Activation = last.Out, Softmax; p.Labels == 1 {
		last.Activation = Sigmoid
	}
	return p, p.Validate(p.Hidden)
}

// modernStored describes the layer of ModernBERT's head that is before the last. Without a key the vectors' mean goes through it, as in llama.cpp.
func (h *head) modernStored(s *Stored) error {
	switch s.HeadPooling {
	case -1, storedMean:
		h.plan.Kind = Mean
	case storedFirst:
		h.plan.Kind = First
	default:
		return fmt.Errorf("pooling: the key %.100q is %d (supported: 1 and 2, which are mean and first token)", s.Architecture+".classifier.pooling_type", s.HeadPooling)
	}
	h.layer(GELU, h.has("cls.bias"), "cls")
	norm := &LayerNorm{Eps: s.NormEps}
	if norm.W, _ = h.read(".weight", []string{"cls.norm"}, h.width); h.err == nil {
		h.plan.Layers[len(h.plan.Layers)-1].Norm = norm
	}
	return nil
}

// yesNo is the plan of Qwen3-Reranker: the rows of its head for yes and no, whose share of a softmax is the score.
func (h *head) yesNo() (*Plan, error) {
	w, _ := h.read(".weight", []string{scoreHead}, 2, h.width)
	if h.err != nil {
		return nil, fmt.Errorf("pooling: the two rows of a head that scores: %w", h.err)
	}
	p, err := LogitPlan([][]float32{w[:h.width], w[h.width:]}, true, nil)
	if err != nil {
		return nil, err
	}
	return p, p.Validate(h.width)
}
