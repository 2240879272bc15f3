package model

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"

	"weir/internal/jsontext"
	"weir/quantconfig"
	"weir/weights"
)

// readQuantization finds how a checkpoint is quantized: in its config.json, under either of two
// names, or in a file of its own; nil: not at all.
func readQuantization(dir string, fsys fs.FS, config []byte) (*quantconfig.Config, error) {
	file := jsontext.Value(jsontext.Trim(config))
	for _, name := range []string{"quantization_config", "compression_config"} {
		if v := file.Member(name); v != nil && v.Kind() != jsontext.Null {
			return parseQuantization("config.json", v)
		}
	}
	for _, name := range quantconfig.Files {
		b, err := readConfig(dir, fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := jsontext.Scan(b, maxDepth); err != nil {
			return nil, fmt.Errorf("%w: %s: not valid JSON: %w", ErrConfig, name, err)
		}
		return parseQuantization(name, jsontext.Trim(b))
	}
	return nil, nil
}

// maxDepth bounds the nesting of JSON in files that say how a checkpoint is quantized.
const maxDepth = 100

func parseQuantization(file string, v jsontext.Value) (*quantconfig.Config, error) {
	c, err := quantconfig.Parse(v)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", file, err)
	}
	return c, nil
}

// assemble makes the tensors of the network out of those of a quantized checkpoint, whose files
// the result takes over. After an error c is as before.
func (m *Model) assemble(c *weights.Checkpoint) (_ *weights.Checkpoint, err error) {
	if m.quantization == nil {
		return c, nil
	}
	defer c.CatchFault(debug.SetPanicOnFault(true), &err)
	n := newDecoder(&m.Config)
	needed := map[string]bool{}
	seen := map[string]bool{}
	var matrices []quantconfig.Matrix
	for _, p := range n.params {
		for _, s := range slices.Concat(p.rows, p.bias) {
			needed[s.name] = true
		}
		class := map[Use]string{Linear: "Linear", Exact: "Linear", Gated: "Linear", Embedding: "Embedding"}[p.use]
		for _, s := range p.rows {
			if class != "" && !seen[s.name] {
				seen[s.name] = true // one that several parameters are parts of
				matrices = append(matrices, quantconfig.Matrix{Name: s.name, Shape: s.shape, Class: class})
			}
		}
	}
	tensors, err := m.quantization.Assemble(c, matrices, func(name string) bool { return needed[name] })
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return c.With(tensors)
}
