package pooling

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"weir/internal/jsontext"
	"weir/weights"
)

// ModulesFile lists what a model of sentence-transformers consists of. A folder that has it embeds.
const ModulesFile = "modules.json"

// maxModules is the most modules of a model; more are not a model.
const maxModules = 64

// module is an entry of modules.json.
type module struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// Load reads the plan of a model folder of sentence-transformers, whose network has vectors [hidden]: the
// modules after the network, which comes first. Its error names the module that is unknown or broken.
func Load(fsys fs.FS, hidden int) (*Plan, error) {
	var modules []module
	if err := read(fsys, ModulesFile, &modules); err != nil {
		return nil, err
	}
	if len(modules) < 2 || len(modules) > maxModules || kindOf(modules[0]) != "Transformer" {
		return nil, fmt.Errorf("pooling: %s has %d modules, want a Transformer first and a Pooling after it", ModulesFile, len(modules))
	}
	p := &Plan{Hidden: hidden}
	pooled := false
	for _, m := range modules[1:] {
		if !fs.ValidPath(m.Path) {
			return nil, fmt.Errorf("pooling: %s has the path %.200q", ModulesFile, m.Path)
		}
		if err := p.add(fsys, m, pooled); err != nil {
			return nil, err
		}
		pooled = true
	}
	return p, p.Validate(hidden)
}

// kindOf is the class of a module: "Pooling" of sentence_transformers.models.Pooling.
func kindOf(m module) string { return m.Type[strings.LastIndexByte(m.Type, '.')+1:] }

// add adds a module to the plan.
func (p *Plan) add(fsys fs.FS, m module, pooled bool) (err error) {
	kind := kindOf(m)
	switch {
	case (kind == "Pooling") == pooled:
		return fmt.Errorf("pooling: the module %.200q is a %.200q, want a Pooling first and once", m.Path, m.Type)
	case p.Normalize:
		return fmt.Errorf("pooling: the module %.200q follows the normalization, which has to be the last", m.Path)
	case kind == "Pooling":
		p.Kind, err = readPooling(fsys, path.Join(m.Path, "config.json"), p.Hidden)
	case kind == "Dense":
		var d Dense
		d, err = readDense(fsys, m.Path)
		p.Layers = append(p.Layers, d)
	case kind == "Normalize":
		p.Normalize = true
	case kind == "Dropout": // only in training
	default:
		return fmt.Errorf("pooling: the module %.200q is a %.200q, which is unknown", m.Path, m.Type)
	}
	return err
}

// poolingModes are the names of kinds in a Pooling's pooling_mode, and those of the older switches, one for each kind.
var poolingModes = []struct {
	kind          Kind
	name, earlier string
}{
	{First, "cls", "pooling_mode_cls_token"}, {Max, "max", "pooling_mode_max_tokens"}, {Mean, "mean", "pooling_mode_mean_tokens"}, {Last, "lasttoken", "pooling_mode_lasttoken"},
	{numKinds, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"}, {numKinds, "weightedmean", "pooling_mode_weightedmean_tokens"},
}

// readPooling reads the settings of a Pooling, in the form that sentence-transformers has written since version 5.7 or in the
// one before. Modes can be combined there; none that is in use does.
func readPooling(fsys fs.FS, name string, hidden int) (Kind, error) {
	var c map[string]jsontext.RawMessage
	if err := read(fsys, name, &c); err != nil {
		return 0, err
	}
	size, include := 0, true
	var modes []string
	for _, f := range []struct {
		key  string
		into any
	}{{"word_embedding_dimension", &size}, {"embedding_dimension", &size}, {"include_prompt", &include}} {
		if err := member(c, name, f.key, f.into); err != nil {
			return 0, err
		}
	}
	for _, m := range poolingModes {
		on := false
		if err := member(c, name, m.earlier, &on); err != nil {
			return 0, err
		}
		if on {
			modes = append(modes, m.name)
		}
	}
	if raw := c["pooling_mode"]; raw != nil { // a name or a list of them, before which the switches mean nothing
		one := ""
		if jsontext.Decode(raw, &one) == nil {
			modes = []string{one}
		} else if err := member(c, name, "pooling_mode", &modes); err != nil {
			return 0, err
		}
	}
	switch {
	case size != hidden:
		return 0, fmt.Errorf("pooling: %s is for vectors of %d components, but the network has %d", name, size, hidden)
	case !include:
		return 0, fmt.Errorf("pooling: %s leaves out the tokens of prompts, which are not known here: a client writes its prompt into the text", name)
	case len(modes) == 0:
		return Mean, nil
	}
	for _, m := range poolingModes {
		if len(modes) == 1 && modes[0] == m.name && m.kind < numKinds {
			return m.kind, nil
		}
	}
	return 0, fmt.Errorf("pooling: %s wants another pooling than one of the last token, the first token, mean and max", name)
}

// member decodes a member of an object, if it is there and not null.
func member(object map[string]jsontext.RawMessage, name, key string, into any) error {
	if object[key] == nil {
		return nil
	}
	if err := jsontext.Decode(object[key], into); err != nil {
		return fmt.Errorf("pooling: %s: %s: %w", name, key, err)
	}
	return nil
}

// readDense reads the settings and the weights of a Dense.
func readDense(fsys fs.FS, dir string) (Dense, error) {
	var c struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       bool   `json:"bias"`
		Activation string `json:"activation_function"`
		Input      string `json:"module_input_name"`
		Output     string `json:"module_output_name"`
		Residual   bool   `json:"use_residual"`
	}
	d := Dense{}
	name := path.Join(dir, "config.json")
	if err := read(fsys, name, &c); err != nil {
		return d, err
	}
	d.In, d.Out = c.In, c.Out
	const vector = "sentence_embedding"
	var ok bool
	switch d.Activation, ok = torchActivation(c.Activation); {
	case !ok:
		return d, fmt.Errorf("pooling: %s has the activation_function %.200q, which is unknown", name, c.Activation)
	case c.Residual || c.Input != "" && c.Input != vector || c.Output != "" && c.Output != vector:
		return d, fmt.Errorf("pooling: %s does something else than to replace the vector of a text by a product of it", name)
	}
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		return d, err
	}
	w, err := weights.OpenFS(sub)
	if err != nil {
		return d, fmt.Errorf("pooling: %s: %w", dir, err)
	}
	defer w.Close()
	if d.W, err = floats(w, "linear.weight", d.Out, d.In); err == nil && c.Bias {
		d.B, err = floats(w, "linear.bias", d.Out)
	}
	if err != nil {
		return d, fmt.Errorf("pooling: %s: %w", dir, err)
	}
	return d, nil
}

// torchActivation is the activation of a class of torch: Tanh of torch.nn.modules.activation.Tanh.
func torchActivation(class string) (Activation, bool) {
	a, ok := map[string]Activation{"Identity": Identity, "Tanh": Tanh, "Sigmoid": Sigmoid, "Softmax": Softmax, "ReLU": ReLU, "GELU": GELU}[class[strings.LastIndexByte(class, '.')+1:]]
	return a, ok
}

// read decodes a file of JSON.
func read(fsys fs.FS, name string, into any) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fmt.Errorf("pooling: %w", err)
	}
	if err := jsontext.Decode(data, into); err != nil {
		return fmt.Errorf("pooling: %s: %w", name, err)
	}
	return nil
}

// floats reads a tensor of this shape as float32.
func floats(c *weights.Checkpoint, name string, shape ...int) ([]float32, error) {
	t, ok := c.Tensor(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no tensor %s", name)
	case !slices.Equal(t.Shape, shape):
		return nil, fmt.Errorf("the tensor %s has the shape %v, want %v", name, t.Shape, shape)
	case !t.Widens() || t.Len() == 0:
		return nil, fmt.Errorf("the tensor %s has %d numbers of the type %v, want some of float32, float16 or bfloat16", name, t.Len(), t.DType)
	}
	out, columns := make([]float32, t.Len()), shape[len(shape)-1]
	for r := range len(out) / columns {
		t.Widen(out[r*columns:(r+1)*columns], r, 0)
	}
	if slices.ContainsFunc(out, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }) {
		return nil, fmt.Errorf("the tensor %s has a number that is not finite", name)
	}
	return out, nil
}

// transformerFiles are the names that the settings of a Transformer have had.
var transformerFiles = []string{"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json", "sentence_camembert_config.json",
	"sentence_albert_config.json", "sentence_xlm-roberta_config.json"}

// Text is what a model folder says of the texts that it was made for.
type Text struct {
	MaxTokens int  // the most tokens of a text, or of a pair, with those that the tokenizer puts around them; 0: any
	Lowercase bool // texts are written in small letters before they become tokens, whatever the tokenizer does
	// Types says that the network is told which tokens are of the second text of a pair. A tokenizer of a class that is
	// not made for one network does so only if model_input_names has token_type_ids, as in transformers 5.
	Types bool
}

// ReadText reads what a model folder says of its texts: the settings of the Transformer of sentence-transformers, and where
// they have no length the tokenizer's, which may be 1e30 for none.
func ReadText(fsys fs.FS) (Text, error) {
	var t struct {
		MaxTokens *int `json:"max_seq_length"`
		Lowercase bool `json:"do_lower_case"`
	}
	for _, name := range transformerFiles {
		if err := read(fsys, name, &t); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return Text{}, err
		}
	}
	var c struct {
		Length float64  `json:"model_max_length"`
		Class  string   `json:"tokenizer_class"`
		Inputs []string `json:"model_input_names"`
	}
	if err := read(fsys, "tokenizer_config.json", &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Text{}, err
	}
	text := Text{Lowercase: t.Lowercase, Types: slices.Contains(c.Inputs, "token_type_ids")}
	if c.Inputs == nil {
		text.Types = c.Class != "TokenizersBackend" && c.Class != "PreTrainedTokenizerFast"
	}
	switch {
	case t.MaxTokens != nil && *t.MaxTokens < 1:
		return Text{}, fmt.Errorf("pooling: a max_seq_length of %d", *t.MaxTokens)
	case t.MaxTokens != nil:
		text.MaxTokens = *t.MaxTokens
	case c.Length >= 1 && c.Length <= 1<<30:
		text.MaxTokens = int(c.Length)
	}
	return text, nil
}
