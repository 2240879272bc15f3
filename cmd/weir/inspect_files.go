package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime/debug"

	"weir/internal/jsontext"
	"weir/internal/plainfile"
	"weir/weights"
	"weir/weights/gguf"
)

// rawFacts is what the files of a model tell whose architecture is not known.
type rawFacts struct {
	format                   string
	architecture             string
	context                  int
	experts, expertsPerToken int
	tensors                  []weights.Tensor
	wrong                    error // why there are no tensors
	close                    func() error
}

// describeFiles describes a model that cannot be opened, because of err, as far as its files
// tell. It returns err if they tell nothing.
func (x *inspection) describeFiles(path string, err error) error {
	facts := readGGUFFacts(path)
	if facts == nil {
		facts = readFolderFacts(path)
	}
	if facts == nil {
		return err
	}
	if facts.close != nil {
		defer facts.close()
	}
	x.Model = path
	x.refuse(err)
	if facts.wrong != nil && !errors.Is(err, weights.ErrDamaged) && !errors.Is(err, weights.ErrNoWeights) {
		x.refuse(facts.wrong)
	}
	x.Format, x.Architecture, x.Context = facts.format, facts.architecture, facts.context
	var kinds layerKinds
	for i := range facts.tensors {
		kinds.add(&facts.tensors[i])
		x.StoredBytes += storedBytes(&facts.tensors[i])
	}
	x.Layers = kinds.list()
	x.Parameters, x.ActiveParameters = kinds.parameters, kinds.parameters
	if facts.experts > 0 && facts.expertsPerToken > 0 {
		x.ActiveParameters -= kinds.experts - kinds.experts/int64(facts.experts)*int64(facts.expertsPerToken)
	}
	return nil
}

// readFolderFacts reads the config.json of an architecture that is not known, and the headers
// beside it; nil if there is no such file.
func readFolderFacts(dir string) *rawFacts {
	src, err := fs.ReadFile(plainfile.Dir(dir), "config.json")
	if err != nil {
		return nil
	}
	var raw struct {
		Architectures   []string `json:"architectures"`
		ModelType       string   `json:"model_type"`
		Context         int      `json:"max_position_embeddings"`
		Experts         int      `json:"num_experts"`
		LocalExperts    int      `json:"num_local_experts"`
		RoutedExperts   int      `json:"n_routed_experts"`
		ExpertsPerToken int      `json:"num_experts_per_tok"`
	}
	if err := jsontext.Decode(src, &raw); err != nil {
		return nil
	}
	f := &rawFacts{architecture: raw.ModelType, context: raw.Context}
	if len(raw.Architectures) > 0 {
		f.architecture = raw.Architectures[0]
	}
	f.experts = max(raw.Experts, raw.LocalExperts, raw.RoutedExperts)
	f.expertsPerToken = min(raw.ExpertsPerToken, f.experts)
	c, err := weights.Open(dir)
	if err != nil {
		f.wrong = err
		return f
	}
	f.format, f.close = "safetensors", c.Close
	for _, name := range c.Names() {
		t, _ := c.Tensor(name)
		f.tensors = append(f.tensors, t)
	}
	return f
}

// readGGUFFacts reads the header of a GGUF file; nil if path is none.
func readGGUFFacts(path string) *rawFacts {
	if is, err := gguf.Is(path); err != nil || !is {
		return nil
	}
	file, err := gguf.Open(path)
	if err != nil {
		return &rawFacts{format: "GGUF", architecture: filepath.Base(path), wrong: err}
	}
	f := &rawFacts{format: "GGUF", tensors: file.Tensors(), close: file.Close}
	if err := f.readMetadata(file); err != nil {
		f.wrong = err
	}
	return f
}

// readMetadata reads keys that all architectures have.
func (f *rawFacts) readMetadata(file *gguf.File) (err error) {
	defer file.CatchFault(debug.SetPanicOnFault(true), &err)
	m := &file.Metadata
	f.architecture, _ = m.String("general.architecture")
	number := func(key string) int {
		n, _ := m.Int(f.architecture + "." + key)
		return int(n)
	}
	f.context = number("context_length")
	f.experts = number("expert_count")
	f.expertsPerToken = min(number("expert_used_count"), f.experts)
	return nil
}
