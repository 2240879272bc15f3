package pooling

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Tensor reads a tensor of a checkpoint: its numbers and its shape. The error of one that is not there is fs.ErrNotExist.
type Tensor func(name string) (numbers []float32, shape []int, err error)

// classifierSettings are the members of a config.json that say what follows the network of a classifier.
type classifierSettings struct {
	Hidden     int               `json:"hidden_size"`
	Labels     map[string]string `json:"id2label"`
	Problem    string            `json:"problem_type"`
	Pooling    string            `json:"classifier_pooling"`
	Activation string            `json:"classifier_activation"`
	NormEps    float64           `json:"norm_eps"`
	Earlier    string            `json:"sbert_ce_default_activation_function"`
	Own        struct {
		Activation string `json:"activation_fn"`
	} `json:"sentence_transformers"`
}

// IsClassifier reports whether an architecture is that of a network with the head of a classifier.
func IsClassifier(architecture string) bool {
	return strings.HasSuffix(architecture, "ForSequenceClassification")
}

// Classifier makes the plan of a network with vectors [hidden] and the head of a classifier, whose parts have the names and the
// order of transformers. The last layer's activation is what sentence-transformers has saved for a cross-encoder; without that
// it is what problem_type wants; and without that one label has a Sigmoid, and several have a Softmax.
func Classifier(fsys fs.FS, architecture string, hidden int, tensor Tensor) (*Plan, error) {
	c := classifierSettings{Pooling: "cls", Activation: "gelu", NormEps: 1e-5}
	if err := read(fsys, "config.json", &c); err != nil {
		return nil, err
	}
	h := &head{tensor: tensor, plan: &Plan{Kind: First, Hidden: hidden}, width: hidden}
	switch strings.TrimSuffix(architecture, "ForSequenceClassification") {
	case "Bert", "NomicBert", "Gte", "New":
		h.layer(Tanh, true, "pooler.dense", "bert.pooler.dense", "nomic_bert.pooler.dense", "new.pooler.dense", "gte.pooler.dense")
		h.plan.Pooler = 1
		h.layer(Identity, true, "classifier")
	case "Roberta", "XLMRoberta", "Camembert":
		h.layer(Tanh, true, "classifier.dense")
		h.layer(Identity, true, "classifier.out_proj")
	case "DistilBert":
		h.layer(ReLU, true, "pre_classifier")
		h.layer(Identity, true, "classifier")
	case "ModernBert":
		h.modern(&c)
	default:
		h.plan.Kind = Last
		h.layer(Identity, false, "score")
	}
	if h.err != nil {
		return nil, fmt.Errorf("pooling: the head of %s: %w", architecture, h.err)
	}
	p := h.plan
	last := &p.Layers[len(p.Layers)-1]
	p.Labels = last.Out
	if p.Pooler > 0 && p.Layers[p.Pooler].In != hidden {
		p.Pooler = 0
	}
	if n := len(c.Labels); n > 0 && n != p.Labels {
		return nil, fmt.Errorf("pooling: config.json names %d labels, but the head of %s has %d rows", n, architecture, p.Labels)
	}
	var err error
	if last.Activation, err = c.activation(fsys, p.Labels); err != nil {
		return nil, err
	}
	return p, p.Validate(hidden)
}

// activation is that of the last layer.
func (c *classifierSettings) activation(fsys fs.FS, labels int) (Activation, error) {
	var s struct {
		Kind       string `json:"model_type"`
		Activation string `json:"activation_fn"`
	}
	if err := read(fsys, "config_sentence_transformers.json", &s); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if s.Kind != "CrossEncoder" {
		s.Activation = ""
	}
	for _, class := range []string{s.Activation, c.Own.Activation, c.Earlier} {
		if !strings.HasPrefix(class, "torch.") { // what is not torch's is not trusted by sentence-transformers either
			continue
		}
		a, ok := torchActivation(class)
		if !ok {
			return 0, fmt.Errorf("pooling: the activation_fn %.200q is unknown", class)
		}
		return a, nil
	}
	switch {
	case c.Problem == "regression":
		return Identity, nil
	case c.Problem == "multi_label_classification" || labels == 1:
		return Sigmoid, nil
	}
	return Softmax, nil
}

// head reads the layers of a classifier one after the other.
type head struct {
	tensor Tensor
	plan   *Plan
	width  int // of what the next layer reads
	err    error
}

// read reads a tensor with the first of the names that is there, and of this shape, where 0 stands for any size.
func (h *head) read(end string, names []string, shape ...int) (numbers []float32, rows int) {
	for _, name := range names {
		if h.err != nil {
			return nil, 0
		}
		x, have, err := h.tensor(name + end)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			h.err = err
		case len(have) != len(shape) || len(x) == 0 || !slices.EqualFunc(have, shape, func(a, b int) bool { return a == b || b == 0 }):
			h.err = fmt.Errorf("the tensor %s has the shape %v, want %v", name+end, have, shape)
		default:
			return x, have[0]
		}
		return nil, 0
	}
	h.err = fmt.Errorf("there is no tensor %s", names[0]+end)
	return nil, 0
}

// layer adds a product, which has a bias if it must have one.
func (h *head) layer(a Activation, bias bool, names ...string) {
	d := Dense{In: h.width, Activation: a}
	d.W, d.Out = h.read(".weight", names, 0, d.In)
	if bias {
		d.B, _ = h.read(".bias", names, d.Out)
	}
	if h.err == nil {
		h.plan.Layers = append(h.plan.Layers, d)
		h.width = d.Out
	}
}

// modern adds the head of ModernBERT: a product, an activation and a norm before the classifier's product.
func (h *head) modern(c *classifierSettings) {
	switch c.Pooling {
	case "cls":
	case "mean":
		h.plan.Kind = Mean
	default:
		h.err = fmt.Errorf("classifier_pooling %.100q is neither cls nor mean", c.Pooling)
	}
	a, ok := map[string]Activation{"gelu": GELU, "relu": ReLU, "tanh": Tanh}[c.Activation]
	if !ok && h.err == nil {
		h.err = fmt.Errorf("classifier_activation %.100q is none of gelu, relu and tanh", c.Activation)
	}
	h.layer(a, h.has("head.dense.bias"), "head.dense")
	norm := &LayerNorm{Eps: float32(c.NormEps)}
	norm.W, _ = h.read(".weight", []string{"head.norm"}, h.width)
	if h.has("head.norm.bias") {
		norm.B, _ = h.read(".bias", []string{"head.norm"}, h.width)
	}
	if h.err == nil {
		h.plan.Layers[len(h.plan.Layers)-1].Norm = norm
		h.plan.Pooler = len(h.plan.Layers)
	}
	h.layer(Identity, true, "classifier")
}

// has reports whether a tensor is there.
func (h *head) has(name string) bool {
	_, _, err := h.tensor(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// Embeds reports whether the modules.json of a folder, if there is one, pools the vectors of its network. That of a
// cross-encoder has the network alone, whose head gives scores.
func Embeds(fsys fs.FS) (bool, error) {
	var modules []module
	if err := read(fsys, ModulesFile, &modules); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return slices.ContainsFunc(modules, func(m module) bool { return kindOf(m) == "Pooling" }), nil
}
