package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"

	"weir/internal/plainfile"
	"weir/weights"
)

// File is an opened GGUF model, in one file or in several parts. Everything that the headers say
// has been checked; no tensor data has been read. It is safe for concurrent use until Close.
type File struct {
	Metadata Metadata // of the first part
	// Parts are the names of the files, in their order.
	Parts []string

	tensors  []weights.Tensor
	mappings []weights.Mapping
	taken    bool // the mappings belong to a checkpoint
}

// opener maps or reads a file that lies beside the one that is opened.
type opener struct {
	dir  string // for messages
	file func(name string) (weights.Mapping, error)
}

// Is reports whether a file is a GGUF file by its first bytes. A folder is none. An error says
// that they cannot be read.
func Is(name string) (bool, error) {
	f, err := plainfile.Open(name)
	if errors.Is(err, plainfile.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	first := make([]byte, len(magic))
	if _, err := io.ReadFull(f, first); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return Magic(first), nil
}

// Open opens a GGUF file. If it is a part of a split model, all parts are opened, which have to
// lie beside it. The files are mapped as those of [weights.Open].
//
// An error names the file. It wraps ErrNotGGUF for a file of another format, ErrUnsupported for
// a version or type that is not read, and [weights.ErrDamaged] for one that contradicts itself.
func Open(name string) (*File, error) {
	dir, base := filepath.Split(name)
	return open(base, opener{dir, func(base string) (weights.Mapping, error) { return weights.Map(dir + base) }})
}

// OpenFS is Open for a file system that has no files to map: the files are read into memory.
func OpenFS(fsys fs.FS, name string) (*File, error) {
	dir, base := path.Split(name)
	return open(base, opener{dir, func(base string) (weights.Mapping, error) { return weights.Read(fsys, dir+base) }})
}

func open(base string, in opener) (_ *File, err error) {
	f := &File{}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was written
		}
	}()
	h, err := f.add(base, in)
	if err != nil {
		return nil, err
	}
	s, err := splitOf(in.dir+base, h)
	if err != nil {
		return nil, err
	}
	if s.count <= 1 {
		f.Metadata = h.metadata
		return f, nil
	}
	return f, f.addParts(base, s, in)
}

// add opens one file and takes its tensors in.
func (f *File) add(base string, in opener) (*header, error) {
	m, err := in.file(base)
	if err != nil {
		return nil, err
	}
	f.mappings = append(f.mappings, m)
	f.Parts = append(f.Parts, in.dir+base)
	h, err := parseMapped(in.dir+base, m)
	if err != nil {
		return nil, err
	}
	f.tensors = append(f.tensors, h.tensors...)
	return h, nil
}

// parseMapped is parse for a file that may be cut meanwhile.
func parseMapped(name string, m weights.Mapping) (h *header, err error) {
	defer weights.CatchFault(debug.SetPanicOnFault(true), []weights.Tensor{{Data: m.Data, File: m.File}}, &err)
	if h, err = parse(name, m.Data); err != nil {
		return nil, err
	}
	for i := range h.tensors {
		h.tensors[i].File = m.File
	}
	return h, m.File.Check()
}

// split is what a file says about the model that it is a part of.
type split struct {
	no, count, tensors int64 // count is at most 1: the file is whole
}

const (
	splitNoKey      = "split.no"
	splitCountKey   = "split.count"
	splitTensorsKey = "split.tensors.count"
	maxParts        = 1 << 10
)

func splitOf(name string, h *header) (s split, err error) {
	var missing string
	for _, field := range []struct {
		key  string
		into *int64
	}{{splitNoKey, &s.no}, {splitCountKey, &s.count}, {splitTensorsKey, &s.tensors}} {
		v, ok := h.metadata.values[field.key]
		if !ok {
			missing = field.key
			continue
		}
		n, err := v.Int()
		if err == nil && n < 0 {
			err = v.not("a count")
		}
		if err != nil {
			return s, fmt.Errorf("%w: %s: the key %s %w", weights.ErrDamaged, name, field.key, err)
		}
		*field.into = n
	}
	switch {
	case s.count > 1 && missing != "":
		return s, fmt.Errorf("%w: %s is one of %d parts, but has no key %s", weights.ErrDamaged, name, s.count, missing)
	case s.count > maxParts:
		return s, fmt.Errorf("%w: %s: the key %s is %d, more than the %d allowed", weights.ErrDamaged, name, splitCountKey, s.count, maxParts)
	}
	return s, nil
}

// partName is how the parts of a model are called (llama.cpp, llama_split_path).
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.[^.]*|)$`)

// PartName takes the name of a part of a split model apart: part number no, counted from 1, of
// count. ok is false for another name.
func PartName(base string) (stem string, no, count int, ok bool) {
	m := partName.FindStringSubmatch(base)
	if m == nil {
		return "", 0, 0, false
	}
	no, _ = strconv.Atoi(m[2])
	count, _ = strconv.Atoi(m[3])
	return m[1], no, count, true
}

// addParts opens all parts of the model that the file base is a part of, which says s.
func (f *File) addParts(base string, s split, in opener) error {
	name := in.dir + base
	m := partName.FindStringSubmatch(base)
	if m == nil {
		return fmt.Errorf("%w: %s is part %d of %d, and its name does not say how the others are called: rename it to end with -%05d-of-%05d.gguf, and the others accordingly", ErrUnsupported, name, s.no+1, s.count, s.no+1, s.count)
	}
	if _, no, count, _ := PartName(base); int64(no) != s.no+1 || int64(count) != s.count {
		return fmt.Errorf("%w: %s is called part %d of %d, but its keys %s and %s say that it is part %d of %d", weights.ErrDamaged, name, no, count, splitNoKey, splitCountKey, s.no+1, s.count)
	}
	if err := f.Close(); err != nil { // the order of parts is that of their numbers
		return err
	}
	*f = File{}
	found := map[string]string{} // tensors and their files
	for no := range s.count {
		part := fmt.Sprintf("%s-%05d-of-%05d%s", m[1], no+1, s.count, m[4])
		if err := f.addPart(part, no, s, in, found); err != nil {
			return err
		}
	}
	if int64(len(f.tensors)) != s.tensors {
		return fmt.Errorf("%w: %s: the key %s is %d, but the %d parts have %d tensors", weights.ErrDamaged, name, splitTensorsKey, s.tensors, s.count, len(f.tensors))
	}
	return nil
}

// addPart opens part number no, counted from 0, of a model of which another part says s.
func (f *File) addPart(base string, no int64, s split, in opener, found map[string]string) error {
	name := in.dir + base
	h, err := f.add(base, in)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing, which is part %d of %d", weights.ErrDamaged, name, no+1, s.count)
	}
	if err != nil {
		return err
	}
	have, err := splitOf(name, h)
	if err != nil {
		return err
	}
	if want := (split{no, s.count, s.tensors}); have != want {
		return fmt.Errorf("%w: %s has %s %d, %s %d and %s %d where the other parts ask for %d, %d and %d: they are not of one model", weights.ErrDamaged, name,
			splitNoKey, have.no, splitCountKey, have.count, splitTensorsKey, have.tensors, want.no, want.count, want.tensors)
	}
	if no == 0 {
		f.Metadata = h.metadata
	}
	// Parts after the first one need not say what model they are of.
	for _, key := range []string{"general.architecture", "general.name", "general.type"} {
		of, said := h.metadata.String(key)
		if first, _ := f.Metadata.String(key); said && of != first {
			return fmt.Errorf("%w: %s is of another model than %s: its %s is %.100q, not %.100q", weights.ErrDamaged, name, f.Parts[0], key, of, first)
		}
	}
	for _, t := range h.tensors {
		if other, twice := found[t.Name]; twice {
			return fmt.Errorf("%w: the tensor %.200q is in %s and in %s", weights.ErrDamaged, t.Name, other, name)
		}
		found[t.Name] = name
	}
	return nil
}

// Tensors lists the tensors of all parts in the order of the files. Dimensions are in the usual
// order, the innermost last. The caller must not change the list.
func (f *File) Tensors() []weights.Tensor { return f.tensors }

// Checkpoint makes a checkpoint of tensors that are those of f, or made of them. It takes the
// files over: they are closed with it, and Close of f does nothing. If there is an error, they are
// closed at once.
func (f *File) Checkpoint(tensors []weights.Tensor) (*weights.Checkpoint, error) {
	f.taken = true
	return weights.FromMappings(tensors, f.mappings)
}

// CatchFault is [weights.CatchFault] for those who read Metadata.
func (f *File) CatchFault(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if v := recover(); v != nil {
		var all []weights.Tensor
		for _, m := range f.mappings {
			all = append(all, weights.Tensor{Data: m.Data, File: m.File})
		}
		*err = weights.Fault(v, all)
	}
}

// Close unmaps the files. Metadata and the Data of every tensor are invalid from then on.
func (f *File) Close() error {
	if f.taken {
		return nil
	}
	var errs []error
	for _, m := range f.mappings {
		errs = append(errs, m.Close())
	}
	f.mappings, f.tensors = nil, nil
	return errors.Join(errs...)
}
