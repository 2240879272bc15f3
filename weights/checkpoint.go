package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/jsontext"
	"weir/internal/plainfile"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
	maxIndex   = 100_000_000 // bytes
)

// ErrNoWeights says that a folder holds no safetensors checkpoint.
var ErrNoWeights = errors.New("weights: no checkpoint")

// Checkpoint is a set of tensors by their names, in safetensors or GGUF files that are opened, or
// in memory. What the headers of the files say has been checked; whoever has made it may
// have read some of the data, Open has read none. It is safe for concurrent use until Close.
type Checkpoint struct {
	tensors map[string]Tensor
	names   []string
	bytes   int64
	files   []Mapping
}

// opener maps or reads one file of a checkpoint.
type opener func(name string) (Mapping, error)

// Open opens model.safetensors, or the shards of model.safetensors.index.json,
// in dir. The files are mapped read-only and must not be changed until Close: a file
// that is cut is found by those who defer CatchFault where they read it, a file whose
// bytes are changed in place is not. Replacing files by renaming is harmless. On
// systems without memory mapping they are read.
func Open(dir string) (*Checkpoint, error) {
	return open(dir, plainfile.Dir(dir), func(name string) (Mapping, error) { return Map(filepath.Join(dir, name)) })
}

// OpenFS is Open for a file system that has no files to map, such as one
// embedded in the binary: the files are read into memory.
func OpenFS(fsys fs.FS) (*Checkpoint, error) {
	return open("", fsys, func(name string) (Mapping, error) { return Read(fsys, name) })
}

// FromTensors is a checkpoint of tensors that are in memory already. release,
// if it is not nil, is called by Close, or at once if there is an error.
func FromTensors(tensors []Tensor, release func() error) (_ *Checkpoint, err error) {
	c := &Checkpoint{tensors: map[string]Tensor{}}
	if release != nil {
		c.files = []Mapping{{release: release}}
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, t := range tensors {
		if _, twice := c.tensors[t.Name]; twice {
			return nil, fmt.Errorf("weights: tensor %.200q is given twice", t.Name)
		}
		if err := t.CheckSize(); err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		c.tensors[t.Name] = t
		c.names = append(c.names, t.Name)
		c.bytes += t.Bytes()
	}
	slices.Sort(c.names)
	return c, nil
}

// FromMappings is a checkpoint of tensors that lie in files, which it takes over: Close unmaps
// them. They are unmapped at once if there is an error.
func FromMappings(tensors []Tensor, files []Mapping) (*Checkpoint, error) {
	c, err := FromTensors(tensors, nil)
	if err != nil {
		errs := []error{err}
		for _, m := range files {
			errs = append(errs, m.Close())
		}
		return nil, errors.Join(errs...)
	}
	c.files = files
	return c, nil
}

// With is a checkpoint of other tensors, made of those of c, whose files it takes over: c must
// not be used or closed any more. After an error it is as before.
func (c *Checkpoint) With(tensors []Tensor) (*Checkpoint, error) {
	n, err := FromTensors(tensors, nil)
	if err != nil {
		return nil, err
	}
	n.files, c.files = c.files, nil
	return n, nil
}

func open(dir string, fsys fs.FS, file opener) (_ *Checkpoint, err error) {
	c := &Checkpoint{tensors: map[string]Tensor{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := c.add(dir, fsys, file); err != nil {
		return nil, err
	}
	for name, t := range c.tensors {
		c.names = append(c.names, name)
		c.bytes += int64(len(t.Data))
	}
	slices.Sort(c.names)
	return c, nil
}

// add takes in all files. The single file wins where there is an index too, as
// in the reference loader.
func (c *Checkpoint) add(dir string, fsys fs.FS, file opener) error {
	_, single := fs.Stat(fsys, singleFile)
	_, index := fs.Stat(fsys, indexFile)
	_, root := fs.Stat(fsys, ".")
	switch {
	case single == nil:
		return c.addFile(dir, singleFile, file, nil)
	case errors.Is(single, fs.ErrNotExist) && index == nil:
		return c.addShards(dir, fsys, file)
	case root != nil:
		return fmt.Errorf("weights: %w", root)
	}
	for _, err := range []error{single, index} {
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("weights: %w", err)
		}
	}
	return fmt.Errorf("%w: neither %s nor %s is in %s (only safetensors can be read)", ErrNoWeights, singleFile, indexFile, orHere(dir))
}

func orHere(dir string) string {
	if dir == "" {
		return "the embedded files"
	}
	return dir
}

// addFile takes in the tensors of one file, or of those only the ones that
// wanted names.
func (c *Checkpoint) addFile(dir, name string, file opener, wanted []string) error {
	m, err := file(name)
	if err != nil {
		return err
	}
	c.files = append(c.files, m)
	path := filepath.Join(dir, name)
	tensors, err := m.parse(path)
	if err != nil {
		return err
	}
	if wanted == nil {
		for _, t := range tensors {
			c.tensors[t.Name] = t
		}
		return nil
	}
	there := make(map[string]Tensor, len(tensors))
	for _, t := range tensors {
		there[t.Name] = t
	}
	for _, name := range wanted {
		t, ok := there[name]
		if !ok {
			return damaged(path, "tensor %.200q is missing, although %s places it here", name, indexFile)
		}
		c.tensors[name] = t
	}
	return nil
}

// parse is the function of this name, for a file that may be cut meanwhile.
func (m Mapping) parse(path string) (tensors []Tensor, err error) {
	defer CatchFault(debug.SetPanicOnFault(true), []Tensor{{Data: m.Data, File: m.File}}, &err)
	tensors, err = parse(path, m.Data)
	for i := range tensors {
		tensors[i].File = m.File
	}
	return tensors, err
}

func (c *Checkpoint) addShards(dir string, fsys fs.FS, file opener) error {
	path := filepath.Join(dir, indexFile)
	if info, err := fs.Stat(fsys, indexFile); err == nil && info.Size() > maxIndex {
		return damaged(path, "%d bytes are more than the %d allowed", info.Size(), maxIndex)
	}
	b, err := fs.ReadFile(fsys, indexFile)
	if err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	shards, err := parseIndex(path, b)
	if err != nil {
		return err
	}
	for _, s := range shards {
		err := c.addFile(dir, s.file, file, s.tensors)
		if errors.Is(err, fs.ErrNotExist) {
			return damaged(path, "shard %s is missing, which holds tensor %.200q and %d others", s.file, s.tensors[0], len(s.tensors)-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shard is a file of a sharded checkpoint and the tensors that the index
// expects in it; never none.
type shard struct {
	file    string
	tensors []string
}

// parseIndex reads {"weight_map": {tensor: file, ...}, ...}; shards come in the
// order of their first tensor.
func parseIndex(path string, b []byte) ([]shard, error) {
	if !utf8.Valid(b) {
		return nil, damaged(path, "the index is not UTF-8")
	}
	weights, err := weightMap(b)
	if err != nil {
		return nil, damaged(path, "%v", err)
	}
	var shards []shard
	at := map[string]int{} // file -> its place in shards
	seen := map[string]bool{}
	for key, v := range weights.Members() {
		tensor := string(key)
		file, err := shardFile(v)
		if err == nil && seen[tensor] {
			return nil, damaged(path, "tensor %.200q is named twice", tensor)
		}
		if err != nil {
			return nil, damaged(path, "tensor %.200q: %v", tensor, err)
		}
		seen[tensor] = true
		i, ok := at[file]
		if !ok {
			i = len(shards)
			at[file] = i
			shards = append(shards, shard{file: file})
		}
		shards[i].tensors = append(shards[i].tensors, tensor)
	}
	if len(shards) == 0 {
		return nil, damaged(path, "weight_map names no tensor")
	}
	return shards, nil
}

// weightMap returns the object weight_map of an index, which has to be there once.
func weightMap(index []byte) (jsontext.Value, error) {
	if err := jsontext.Scan(index, maxDepth); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	file := jsontext.Trim(index)
	if err := expect(file, jsontext.Object); err != nil {
		return nil, err
	}
	var weights jsontext.Value
	maps := 0
	for key, v := range file.Members() {
		if string(key) == "weight_map" {
			weights = v
			maps++
		}
	}
	if maps != 1 {
		return nil, fmt.Errorf("weight_map occurs %d times, not once", maps)
	}
	return weights, expect(weights, jsontext.Object)
}

// shardFile reads the name of a shard. It lies beside its index; anything else would let a
// checkpoint read files of the machine.
func shardFile(v jsontext.Value) (string, error) {
	if err := expect(v, jsontext.String); err != nil {
		return "", err
	}
	file := v.Text()
	const longest = 255 // bytes of a name, on all file systems in use
	if file == "." || len(file) > longest || strings.ContainsAny(file, "/\\\x00") || !filepath.IsLocal(file) {
		return "", fmt.Errorf("%.200q is not the name of a file beside the index", file)
	}
	return file, nil
}

// Tensor finds a tensor by name. Its Data is valid until Close.
func (c *Checkpoint) Tensor(name string) (Tensor, bool) {
	t, ok := c.tensors[name]
	return t, ok
}

// Names lists all tensors, sorted. The caller must not change it.
func (c *Checkpoint) Names() []string { return c.names }

// Bytes is the size of all tensors' data.
func (c *Checkpoint) Bytes() int64 { return c.bytes }

// Close unmaps the files. The Data of every tensor is invalid from then on.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, m := range c.files {
		errs = append(errs, m.Close())
	}
	c.files, c.tensors, c.names = nil, nil, nil
	return errors.Join(errs...)
}
