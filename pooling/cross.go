package pooling

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"weir/internal/jsontext"
)

// Cross is what the files of sentence-transformers say of a cross-encoder, which gives a number for two texts.
type Cross struct {
	// Logits says that the number is made of logits of a network that generates: that of the token Yes, less that of
	// the token No; No is -1 where it is the logit itself.
	Logits  bool
	Yes, No int

	Rendered   bool                // the chat template renders pairs, as messages of the roles query and document
	Kwargs     jsontext.RawMessage // arguments of the template, an object; nil: none
	Generation bool                // the template is asked for a generation prompt
	Prompt     string              // in front of the first text, or the system message
	Activation *Activation         // of a number that is made of logits; nil: they do not say
}

// The files of a cross-encoder.
const (
	crossFile       = "config_sentence_transformers.json"
	transformerFile = "sentence_bert_config.json"
	networkFile     = "config.json"
)

// ReadCross reads what a model folder says of a cross-encoder, as sentence-transformers has written it since version
// 5.4. found is false if it is none; one whose number is no logit has its head in its network.
func ReadCross(fsys fs.FS) (c Cross, found bool, err error) {
	c.No = -1
	var modules []module
	if err := read(fsys, ModulesFile, &modules); errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	} else if err != nil {
		return c, false, err
	}
	var s struct {
		Kind       string            `json:"model_type"`
		Activation string            `json:"activation_fn"`
		Default    string            `json:"default_prompt_name"`
		Prompts    map[string]string `json:"prompts"`
	}
	if err := read(fsys, crossFile, &s); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, false, err
	}
	c.Logits = len(modules) > 0 && kindOf(modules[len(modules)-1]) == "LogitScore"
	if s.Kind != "CrossEncoder" && !c.Logits {
		return c, false, nil
	}
	if len(modules) == 0 || len(modules) > 2 || kindOf(modules[0]) != "Transformer" || !c.Logits && len(modules) > 1 {
		return c, false, fmt.Errorf("pooling: %s has %d modules, and a cross-encoder a Transformer alone or with a LogitScore after it", ModulesFile, len(modules))
	}
	for _, m := range modules {
		if m.Path != "" && !fs.ValidPath(m.Path) {
			return c, false, fmt.Errorf("pooling: %s has the path %.200q", ModulesFile, m.Path)
		}
	}
	if c.Logits {
		if err := c.readLogits(fsys, path.Join(modules[1].Path, "config.json")); err != nil {
			return c, false, err
		}
	}
	if err := c.readForm(fsys, path.Join(modules[0].Path, transformerFile)); err != nil {
		return c, false, err
	}
	if c.Prompt = s.Prompts[s.Default]; !c.Logits {
		return c, true, nil
	}
	if s.Activation == "" {
		if s.Activation, err = networkActivation(fsys, path.Join(modules[0].Path, networkFile)); err != nil {
			return c, false, err
		}
	}
	c.Activation, err = crossActivation(s.Activation)
	return c, err == nil, err
}

// readLogits reads the settings of a LogitScore.
func (c *Cross) readLogits(fsys fs.FS, name string) error {
	var l struct {
		Yes   *int   `json:"true_token_id"`
		No    *int   `json:"false_token_id"`
		Input string `json:"module_input_name"`
	}
	if err := read(fsys, name, &l); err != nil {
		return err
	}
	if l.Yes == nil || *l.Yes < 0 || l.No != nil && *l.No < 0 || l.Input != "" && l.Input != "causal_logits" {
		return fmt.Errorf("pooling: %s does not name the tokens whose logits are the score", name)
	}
	if c.Yes = *l.Yes; l.No != nil {
		c.No = *l.No
	}
	return nil
}

// readForm reads how pairs are put together.
func (c *Cross) readForm(fsys fs.FS, name string) error {
	var t struct {
		Modalities map[string]jsontext.RawMessage `json:"modality_config"`
		Processing struct {
			Template map[string]jsontext.RawMessage `json:"chat_template"`
		} `json:"processing_kwargs"`
	}
	if err := read(fsys, name, &t); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if c.Rendered = t.Modalities["message"] != nil; !c.Rendered {
		return nil
	}
	kwargs := t.Processing.Template
	if raw := kwargs["add_generation_prompt"]; raw != nil {
		if err := jsontext.Decode(raw, &c.Generation); err != nil {
			return fmt.Errorf("pooling: %s: add_generation_prompt: %w", name, err)
		}
	}
	for _, other := range []string{"chat_template", "tools", "tokenize"} {
		if kwargs[other] != nil {
			return fmt.Errorf("pooling: %s sets %s of the chat template, which is not supported", name, other)
		}
	}
	for _, known := range []string{"add_generation_prompt", "restore_suffix", "padding", "truncation", "max_length", "return_tensors"} {
		delete(kwargs, known) // what a request says of its length counts
	}
	if len(kwargs) == 0 {
		return nil
	}
	var err error
	c.Kwargs, err = jsontext.Encode(kwargs)
	return err
}

// networkActivation is the activation that a network's own file names, in either of its forms; "": none.
func networkActivation(fsys fs.FS, name string) (string, error) {
	var n struct {
		Own struct {
			Activation string `json:"activation_fn"`
		} `json:"sentence_transformers"`
		Earlier *string `json:"sbert_ce_default_activation_function"`
	}
	if err := read(fsys, name, &n); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	if n.Own.Activation == "" && n.Earlier != nil {
		return *n.Earlier, nil
	}
	return n.Own.Activation, nil
}

// crossActivation is the activation that a class of torch is. A class of another library is not run, and then the
// activation is what it is without one.
func crossActivation(class string) (*Activation, error) {
	if !strings.HasPrefix(class, "torch.") {
		return nil, nil
	}
	a, ok := torchActivation(class)
	if !ok {
		return nil, fmt.Errorf("pooling: the activation_fn %.200q is unknown", class)
	}
	return &a, nil
}

// LogitPlan is the plan of a score that is made of rows of the head, [hidden] each. Of two rows whose difference
// is asked for, the number is the logit of the first less that of the second, and the activation is a Sigmoid unless
// another one is given: together the probability of the first token of the two. Otherwise each row is a class.
func LogitPlan(rows [][]float32, difference bool, activation *Activation) (*Plan, error) {
	if len(rows) == 0 || difference && len(rows) != 2 {
		return nil, fmt.Errorf("pooling: %d rows of the head make no score", len(rows))
	}
	if difference {
		row := make([]float32, len(rows[0]))
		for i, x := range rows[0] {
			row[i] = x - rows[1][i]
		}
		rows = [][]float32{row}
	}
	d := Dense{In: len(rows[0]), Out: len(rows), Activation: Sigmoid}
	if d.Out > 1 {
		d.Activation = Softmax
	}
	if activation != nil {
		d.Activation = *activation
	}
	for _, r := range rows {
		d.W = append(d.W, r...)
	}
	return &Plan{Kind: Last, Hidden: d.In, Layers: []Dense{d}, Labels: d.Out}, nil
}
