package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"weir/weights"
	"weir/weights/gguf"
)

// GGUF is the file that the model was opened from, for its metadata; nil if it is a folder in
// Hugging Face's layout. It is valid until Close or Reopen.
func (m *Model) GGUF() *gguf.File { return m.gguf }

// FindGGUF returns the GGUF file that path is, whatever its name, or, if path is a folder without
// safetensors or a config.json, the one that is in it: the first part of a model in several parts.
// It returns "" for a path that has to be read in another way, and an error if there are several
// models in the folder.
func FindGGUF(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("model: %w", err)
	}
	if !info.IsDir() {
		is, err := gguf.Is(path)
		if err != nil {
			return "", fmt.Errorf("model: %w", err)
		}
		if !is {
			return "", nil
		}
		return path, nil
	}
	if has(path, "config.json") && (has(path, "model.safetensors") || has(path, "model.safetensors.index.json")) {
		return "", nil
	}
	names, err := ggufNames(path)
	if err != nil {
		return "", err
	}
	if len(names) > 1 {
		names = slices.DeleteFunc(names, func(name string) bool { return isCompanion(filepath.Join(path, name)) })
	}
	switch {
	case len(names) == 0:
		return "", nil
	case len(names) > 1:
		return "", fmt.Errorf("%w: %s holds %d models: name one of the files %s", ErrConfig, path, len(names), some(names))
	}
	return filepath.Join(path, names[0]), nil
}

func has(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// ggufNames lists the GGUF models in a folder by the names of their first parts.
func ggufNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var names []string
	type model struct {
		stem  string
		count int
	}
	seen := map[model]bool{}
	for _, e := range entries {
		if e.IsDir() || !strings.EqualFold(filepath.Ext(e.Name()), ".gguf") {
			continue
		}
		if stem, _, count, ok := gguf.PartName(e.Name()); ok {
			if seen[model{stem, count}] {
				continue
			}
			seen[model{stem, count}] = true
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// isCompanion reports whether a file is not a model of its own, but goes with one.
func isCompanion(path string) bool {
	f, err := gguf.Open(path)
	if err != nil {
		return false // what is wrong with it is said when it is opened
	}
	defer f.Close()
	err = func() (err error) {
		defer f.CatchFault(debug.SetPanicOnFault(true), &err)
		return checkKind(path, &f.Metadata)
	}()
	return errors.Is(err, errCompanion)
}

// errCompanion is the error of a file that goes with a model.
var errCompanion = errors.New("it is not a model of its own")

// checkKind refuses files that are not networks of text.
func checkKind(path string, m *gguf.Metadata) error {
	kind, _ := m.String("general.type")
	arch, _ := m.String("general.architecture")
	what := ""
	switch {
	case kind == "mmproj" || arch == "clip" || arch == "mmproj":
		what = "projects images or sound for another model (mmproj)"
	case kind == "adapter":
		what = "is an adapter (LoRA) for another model"
	case kind == "imatrix":
		what = "is an importance matrix, which only a quantizer needs"
	case kind != "" && kind != "model":
		return fmt.Errorf("%w: %s: the key general.type is %.100q (supported: model)", ErrUnsupported, path, kind)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s %s: %w", ErrUnsupported, path, what, errCompanion)
}

// OpenGGUF is Open for a GGUF file that is not on a disk.
func OpenGGUF(fsys fs.FS, name string) (*Model, error) {
	return openGGUF(name, func() (*gguf.File, error) { return gguf.OpenFS(fsys, name) })
}

// openGGUF opens the model in a GGUF file, which open opens.
func openGGUF(path string, open func() (*gguf.File, error)) (*Model, error) {
	m := &Model{}
	f, c, err := m.readGGUF(path, open)
	if err != nil {
		return nil, err
	}
	m.gguf, m.checkpoint = f, c
	if m.digest, err = m.check(c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), c.Close())
	}
	m.files = func() (*weights.Checkpoint, error) {
		again := &Model{}
		f, c, err := again.readGGUF(path, open)
		if err != nil {
			return nil, err
		}
		if !reflect.DeepEqual(again.Config, m.Config) {
			return nil, errors.Join(fmt.Errorf("%w: %s holds another model than before", ErrMismatch, path), c.Close())
		}
		m.gguf = f
		return c, nil
	}
	return m, nil
}

// readGGUF reads the configuration of a file, and makes a checkpoint of its tensors, with the
// names that they have in checkpoints of Hugging Face.
func (m *Model) readGGUF(path string, open func() (*gguf.File, error)) (_ *gguf.File, _ *weights.Checkpoint, err error) {
	f, err := open()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was written
		}
	}()
	tensors, err := m.interpretGGUF(path, f)
	if err != nil {
		return nil, nil, err
	}
	c, err := f.Checkpoint(tensors)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, c, nil
}

// interpretGGUF sets m's configuration, and returns the tensors as the network wants them.
func (m *Model) interpretGGUF(path string, f *gguf.File) (tensors []weights.Tensor, err error) {
	defer f.CatchFault(debug.SetPanicOnFault(true), &err)
	if err := checkKind(path, &f.Metadata); err != nil {
		return nil, err
	}
	g, err := newGGUFModel(path, f)
	if err != nil {
		return nil, err
	}
	if g.recipe != nil {
		m.Config, err = g.recipeConfig(*g.recipe)
	} else {
		m.Config, err = g.config()
	}
	if err != nil {
		return nil, err
	}
	if m.Generation, err = g.generation(m.Config); err != nil {
		return nil, err
	}
	if g.recipe != nil {
		m.storedName = g.recipeStoredName(*g.recipe)
		return g.recipeTensors(*g.recipe, &m.Config)
	}
	m.storedName = g.storedName
	return g.logical(&m.Config)
}
