package pooling

import (
	"encoding/binary"
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
	default:
		return fmt.Errorf("pooling: the module %.200q is a %.200q, which is unknown", m.Path, m.Type)
	}
	return err
}

// readPooling reads the settings of a Pooling. Modes can be combined there; none that is in use does.
func readPooling(fsys fs.FS, name string, hidden int) (Kind, error) {
	var c struct {
		Size  int  `json:"word_embedding_dimension"`
		CLS   bool `json:"pooling_mode_cls_token"`
		Mean  bool `json:"pooling_mode_mean_tokens"`
		Max   bool `json:"pooling_mode_max_tokens"`
		Last  bool `json:"pooling_mode_lasttoken"`
		Sqrt  bool `json:"pooling_mode_mean_sqrt_len_tokens"`
		WMean bool `json:"pooling_mode_weightedmean_tokens"`
	}
	if err := read(fsys, name, &c); err != nil {
		return 0, err
	}
	if c.Size != hidden {
		return 0, fmt.Errorf("pooling: %s is for vectors of %d components, but the network has %d", name, c.Size, hidden)
	}
	var kinds []Kind
	for kind, on := range [...]bool{Last: c.Last, First: c.CLS, Mean: c.Mean, Max: c.Max} {
		if on {
			kinds = append(kinds, Kind(kind))
		}
	}
	if len(kinds) != 1 || c.Sqrt || c.WMean {
		return 0, fmt.Errorf("pooling: %s wants another pooling than one of the last token, the first token, mean and max", name)
	}
	return kinds[0], nil
}

// readDense reads the settings and the weights of a Dense.
func readDense(fsys fs.FS, dir string) (Dense, error) {
	var c struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       bool   `json:"bias"`
		Activation string `json:"activation_function"`
	}
	d := Dense{}
	name := path.Join(dir, "config.json")
	if err := read(fsys, name, &c); err != nil {
		return d, err
	}
	d.In, d.Out = c.In, c.Out
	switch c.Activation[strings.LastIndexByte(c.Activation, '.')+1:] {
	case "Identity":
	case "Tanh":
		d.Activation = Tanh
	case "Sigmoid":
		d.Activation = Sigmoid
	default:
		return d, fmt.Errorf("pooling: %s has the activation_function %.200q, which is unknown", name, c.Activation)
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
	case t.DType != weights.F32:
		return nil, fmt.Errorf("the tensor %s has the type %v, want float32", name, t.DType)
	}
	out := make([]float32, len(t.Data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return out, nil
}
