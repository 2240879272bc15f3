package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unicode"

	"weir/internal/plainfile"
	"weir/quantconfig"
	"weir/weights"
	"weir/weights/gguf"
)

// ErrMismatch says that a checkpoint's tensors are not those its config asks for.
var ErrMismatch = errors.New("model: the tensors do not match the configuration")

// Model is an opened checkpoint: its config is supported, and all tensors that the
// network needs are there in the right shapes. No weights have been read. Several runners,
// one after the other, may be made from it.
type Model struct {
	Config     Config
	Generation GenerationDefaults

	files        func() (*weights.Checkpoint, error) // opens the checkpoint again; nil if it is in memory
	quantization *quantconfig.Config                 // nil: nothing says that the checkpoint is quantized
	gguf         *gguf.File                          // nil: the layout of Hugging Face
	storedName   func(name string) string            // what the files call a tensor; nil: as transformers do
	digest       string

	mu         sync.Mutex // held to change checkpoint, and to read it beside the goroutine that may
	checkpoint *weights.Checkpoint
}

// Open opens a checkpoint: a GGUF file, whatever its name, a folder with one of these, or a folder
// with config.json, generation_config.json where there is one, and safetensors.
func Open(dir string) (*Model, error) {
	file, err := FindGGUF(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if file != "" {
		return openGGUF(file, func() (*gguf.File, error) { return gguf.Open(file) })
	}
	files := func() (*weights.Checkpoint, error) { return weights.Open(dir) }
	m, err := open(dir, plainfile.Dir(dir), files)
	if err == nil {
		m.files = files
	}
	return m, err
}

// OpenFS is Open for files that are not on a disk, such as embedded ones.
func OpenFS(fsys fs.FS) (*Model, error) {
	return open("", fsys, func() (*weights.Checkpoint, error) { return weights.OpenFS(fsys) })
}

// FromTensors makes a model whose weights are not in files. It calls tensor for each
// one that the network of c needs, with the name and shape that a checkpoint has, but
// not for a tied head. The Network of Llama, Mistral, Qwen2 and
// Qwen3 follows from the other fields of c. release, if not nil, is called by Close, or at once if the
// tensors are refused.
func FromTensors(c Config, tensor func(name string, shape []int) weights.Tensor, release func() error) (*Model, error) {
	if _, alike := families[c.Architecture]; alike || len(c.Network.Layers) == 0 {
		c.describe()
	}
	m := &Model{Config: c, Generation: GenerationDefaults{EOS: c.EOS}}
	n := newDecoder(&m.Config)
	seen := map[string]bool{}
	var tensors []weights.Tensor
	for _, p := range n.params {
		for _, s := range slices.Concat(p.rows, p.bias) {
			if (s.name != c.headName() || !c.TiedHead) && !seen[s.name] {
				seen[s.name] = true // one that several parameters are parts of
				tensors = append(tensors, tensor(s.name, s.shape))
			}
		}
	}
	var err error
	if m.checkpoint, err = weights.FromTensors(tensors, release); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if m.digest, err = m.check(m.checkpoint); err != nil {
		m.checkpoint.Close()
		return nil, err
	}
	return m, nil
}

func open(dir string, fsys fs.FS, checkpoint func() (*weights.Checkpoint, error)) (*Model, error) {
	var m Model
	b, err := readConfig(dir, fsys, "config.json")
	if err != nil {
		return nil, err
	}
	if m.Config, err = ParseConfig(b); err != nil {
		return nil, err
	}
	if m.quantization, err = readQuantization(dir, fsys, b); err != nil {
		return nil, err
	}
	b, err = readConfig(dir, fsys, "generation_config.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if m.Generation, err = ParseGeneration(b, m.Config); err != nil {
		return nil, err
	}
	stored, err := checkpoint()
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if m.checkpoint, m.digest, err = m.logical(stored); err != nil {
		if dir != "" {
			err = fmt.Errorf("%s: %w", dir, err)
		}
		return nil, err
	}
	return &m, nil
}

// logical is the checkpoint of the network's tensors, made of the stored ones, and its digest.
// stored is taken over, and closed if there is an error.
func (m *Model) logical(stored *weights.Checkpoint) (*weights.Checkpoint, string, error) {
	m.Config.Network.layOut(func(name string) ([]int, bool) { t, ok := stored.Tensor(name); return t.Shape, ok })
	c, err := m.assemble(stored)
	if err != nil {
		return nil, "", errors.Join(err, stored.Close())
	}
	digest, err := m.check(c)
	if err != nil {
		return nil, "", errors.Join(err, c.Close())
	}
	return c, digest, nil
}

const maxConfig = 1 << 20 // bytes

func readConfig(dir string, fsys fs.FS, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := fs.Stat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	if !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxConfig {
		return nil, fmt.Errorf("%w: %s is not a file of 1 to %d bytes", ErrConfig, path, maxConfig)
	}
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	return b, nil
}

// Close unmaps the weights. Runners made from m must be closed before.
func (m *Model) Close() error { return m.checkpoint.Close() }

// Reopen opens the files anew, which may have been cut or replaced since. It returns an error,
// and changes nothing, if they are not whole or hold another model. No runner may be
// open.
func (m *Model) Reopen() error {
	if m.files == nil {
		return nil
	}
	c, err := m.files()
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	c, digest, err := m.logical(c)
	if err != nil {
		return err
	}
	if digest != m.digest {
		return errors.Join(fmt.Errorf("%w: the files hold another model than before", ErrMismatch), c.Close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.checkpoint
	m.checkpoint = c
	return before.Close()
}

// check compares the tensors of a checkpoint with those that the network needs, and returns
// the digest, if that of the model is known. No weights are read for a model whose digest nobody
// has asked for.
func (m *Model) check(c *weights.Checkpoint) (digest string, err error) {
	if err := m.checkTensors(c); err != nil || m.digest == "" {
		return "", err
	}
	defer c.CatchFault(debug.SetPanicOnFault(true), &err)
	return digestOf(&m.Config, c), nil
}

// checkTensors returns an error that says what is missing, wrong or not expected.
func (m *Model) checkTensors(c *weights.Checkpoint) error {
	n := newDecoder(&m.Config)
	needed := map[string]bool{}
	var missing, wrong []string
	for _, p := range n.params {
		for _, group := range [][]stored{p.rows, p.bias} {
			for _, s := range group {
				if needed[s.name] {
					continue // several parameters are parts of it
				}
				needed[s.name] = true
				t, ok := c.Tensor(s.name)
				switch {
				case !ok && s.name == m.Config.headName() && m.Config.TiedHead:
				case !ok:
					missing = append(missing, m.nameOf(s.name))
				case !slices.Equal(t.Shape, s.shape):
					wrong = append(wrong, fmt.Sprintf("%s is %d instead of %d", m.nameOf(s.name), t.Shape, s.shape))
				case !t.Widens():
					wrong = append(wrong, fmt.Sprintf("%s is %v instead of float32, float16 or bfloat16", m.nameOf(s.name), t.DType))
				}
			}
		}
	}
	var extra []string
	for _, name := range c.Names() {
		// Checkpoints of 2023 hold a buffer that follows from the config.
		if !needed[name] && !strings.HasSuffix(name, ".rotary_emb.inv_freq") && !m.Config.Network.skips(name) {
			extra = append(extra, m.nameOf(name))
		}
	}
	var faults []string
	for _, f := range []struct {
		what  string
		names []string
	}{{"missing: ", missing}, {"", wrong}, {"not expected: ", extra}} {
		if len(f.names) > 0 {
			faults = append(faults, f.what+some(f.names))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrMismatch, strings.Join(faults, "; "))
}

// nameOf is what the files call a tensor.
func (m *Model) nameOf(name string) string {
	if m.storedName == nil {
		return name
	}
	return m.storedName(name)
}

// some lists the first few names.
func some(names []string) string {
	const few = 4
	var list []string
	for _, name := range names[:min(few, len(names))] {
		list = append(list, plain(name))
	}
	if len(names) <= few {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list, ", "), len(names)-few)
}

// plain is a name that a file gives, quoted if it could be taken for something else than a name.
func plain(name string) string {
	const usual = 200
	if len(name) > usual || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%.*q", usual, name)
	}
	return name
}

// matrix collects a parameter's tensors. A tied head that is not stored, or stored as
// a copy of the embedding, is the embedding. One that differs from it is used although
// the config calls it tied, as in transformers (tie_weights).
func (m *Model) matrix(p parameter) (Matrix, error) {
	x := m.stored(p)
	if embed, ok := m.checkpoint.Tensor(m.Config.embedName()); ok && m.Config.TiedHead && p.rows[0].name == m.Config.headName() {
		if t := x.Rows[0]; t.Packed == nil && embed.Packed == nil && t.DType == embed.DType && bytes.Equal(t.Data, embed.Data) {
			x.Rows[0] = embed
		}
	}
	for i, s := range p.rows {
		var err error
		if x.Rows[i], err = s.of(x.Rows[i]); err != nil {
			return Matrix{}, err
		}
	}
	for i, s := range p.bias {
		var err error
		if x.Bias[i], err = s.of(x.Bias[i]); err != nil {
			return Matrix{}, err
		}
	}
	return x, nil
}

// number is the value of a tensor of one number.
func (m *Model) number(s stored) (float32, error) {
	t, _ := m.checkpoint.Tensor(s.name)
	if t.Packed != nil || t.DType.Size() == 0 {
		return 0, fmt.Errorf("%w: %s is %v instead of a plain number", ErrMismatch, m.nameOf(s.name), t.DType)
	}
	var x [1]float32
	t.Shape = []int{1} // which may be []
	t.Widen(x[:], 0, 0)
	return x[0], nil
}

// Matrices are all matrices of the network, in the order in which steps use them, with the shapes
// in which devices load them. A tied head that is stored beside the embedding is taken as it is
// stored, so that no weights are read. Parts of tensors that would have to be copied have their
// shape, and no data. The tensors are valid until Close or Reopen.
func (m *Model) Matrices() []Matrix {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := newDecoder(&m.Config)
	var list []Matrix
	for _, p := range n.params {
		if p.value != nil {
			continue
		}
		x := m.stored(p)
		for i, s := range p.rows {
			x.Rows[i] = s.described(x.Rows[i])
		}
		for i, s := range p.bias {
			x.Bias[i] = s.described(x.Bias[i])
		}
		list = append(list, x)
	}
	return list
}

// Tensors are the stored tensors that the network uses, each once, as they are stored. They are
// valid until Close or Reopen.
func (m *Model) Tensors() []weights.Tensor {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	var list []weights.Tensor
	for _, p := range newDecoder(&m.Config).params {
		for _, s := range slices.Concat(p.rows, p.bias) {
			if t, ok := m.checkpoint.Tensor(s.name); ok && !seen[s.name] {
				seen[s.name] = true
				list = append(list, t)
			}
		}
	}
	return list
}

// ActiveParameters is the number of stored numbers that a token uses: of experts, as many as are
// chosen for it.
func (m *Model) ActiveParameters() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.sumLocked(func(t weights.Tensor) int64 { return int64(t.Len()) })
	for i := range m.Config.Network.Layers {
		l := &m.Config.Network.Layers[i]
		for _, f := range l.Feeds {
			if e, ok := f.(ExpertsSpec); ok {
				width := m.Config.Hidden
				if e.Latent > 0 {
					width = e.Latent
				}
				products := 3
				if e.Plain {
					products = 2
				}
				n -= int64(e.Experts-e.TopK) * int64(products*e.Inner) * int64(width)
			}
		}
	}
	return n
}

// stored collects a parameter's tensors as they are stored; a tied head that is not stored is
// the embedding.
func (m *Model) stored(p parameter) Matrix {
	x := Matrix{Use: p.use}
	for _, s := range p.rows {
		t, ok := m.checkpoint.Tensor(s.name)
		if !ok && s.name == m.Config.headName() && m.Config.TiedHead {
			t, _ = m.checkpoint.Tensor(m.Config.embedName())
		}
		x.Rows = append(x.Rows, t)
	}
	for _, s := range p.bias {
		t, _ := m.checkpoint.Tensor(s.name)
		x.Bias = append(x.Bias, t)
	}
	return x
}

// mostExtra is the greatest number of numbers that Extra reads: 1 GiB of float32.
const mostExtra = 1 << 28

// Extra reads a tensor that the checkpoint holds beside those of the network, such as one of a classifier's head: its
// numbers, widened to float32, and its shape. The error is fs.ErrNotExist if there is none. No head is larger than a bound, which keeps a
// hostile file whose numbers are a hole from taking memory.
func (m *Model) Extra(name string) (numbers []float32, shape []int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.checkpoint.CatchFault(debug.SetPanicOnFault(true), &err)
	t, ok := m.checkpoint.Tensor(name)
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("model: the tensor %s: %w", name, fs.ErrNotExist)
	case !t.Widens() || t.Len() == 0 || t.Len() > mostExtra:
		return nil, nil, fmt.Errorf("%w: %s has %d numbers of the type %v", ErrMismatch, name, t.Len(), t.DType)
	}
	numbers, columns := make([]float32, t.Len()), t.Shape[len(t.Shape)-1]
	for r := range len(numbers) / columns {
		t.Widen(numbers[r*columns:(r+1)*columns], r, 0)
	}
	for _, x := range numbers {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, nil, fmt.Errorf("%w: %s has a number that is not finite", ErrMismatch, name)
		}
	}
	return numbers, slices.Clone(t.Shape), nil
}

// skips reports whether a checkpoint may hold a tensor that is not used.
func (n *Network) skips(name string) bool {
	return slices.ContainsFunc(n.Skip, func(s string) bool { return name == s || strings.HasSuffix(s, ".") && strings.HasPrefix(name, s) })
}

// Parameters is the number of stored numbers that the network uses.
func (m *Model) Parameters() int64 {
	return m.sum(func(t weights.Tensor) int64 { return int64(t.Len()) })
}

// WeightBytes is the size of those numbers as stored.
func (m *Model) WeightBytes() int64 {
	return m.sum(func(t weights.Tensor) int64 { return t.Bytes() })
}

func (m *Model) sum(size func(weights.Tensor) int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sumLocked(size)
}

func (m *Model) sumLocked(size func(weights.Tensor) int64) int64 {
	var total int64
	n := newDecoder(&m.Config)
	seen := map[string]bool{}
	for _, p := range n.params {
		for _, s := range slices.Concat(p.rows, p.bias) {
			if t, ok := m.checkpoint.Tensor(s.name); ok && !seen[s.name] {
				seen[s.name] = true
				total += size(t)
			}
		}
	}
	return total
}

// KVBytesPerToken is the size of one position in the KV cache: a key and a value of
// each KV head in each cache, a value that is a part of its key counted once.
func (c *Config) KVBytesPerToken(kv weights.DType) int64 {
	var n int64
	for _, s := range c.Shape().KV {
		n += int64(s.KVHeads) * int64(s.Numbers()) * int64(kv.Size())
	}
	return n
}

// StateBytes is the size of the recurrent state of a sequence; 0: there is none.
func (c *Config) StateBytes() int64 {
	var n int64
	for _, s := range c.Shape().States {
		n += 4 * int64(s)
	}
	return n
}

// Shape is what a device has to allocate for the network, but for the Spec.
func (c *Config) Shape() Shape { return newDecoder(c).shape }

// GroupedShape is the same with groups of layers (Shape.GroupKV); below 0: without.
func (c *Config) GroupedShape(below int) Shape {
	s := c.Shape()
	if below > 0 && !c.Network.Whole {
		s.GroupKV(below)
	}
	return s
}

// ActivationBytes is what a device allocates, in bytes, for the activations of steps of
// maxTokens tokens that are all drawn.
func (c *Config) ActivationBytes(maxTokens int) int64 {
	var width int64
	for _, s := range c.Shape().Acts {
		width += int64(s.Width)
	}
	return 4 * width * int64(maxTokens)
}

// Digest is a hash that differs between models. It covers the config, and the name,
// type, shape and first bytes of every tensor. Reading all bytes would take seconds,
// and two trainings of one network differ in the first ones. It is "" if the files have been
// cut, which those who load the weights are told.
func (m *Model) Digest() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.digest == "" {
		var err error
		func() {
			defer m.checkpoint.CatchFault(debug.SetPanicOnFault(true), &err)
			m.digest = digestOf(&m.Config, m.checkpoint)
		}()
	}
	return m.digest
}

// Identity tells the weights of files from all others, also from those of a training of the same
// network that are equal in what Digest covers. It is "" if they are not in files.
func (m *Model) Identity() string {
	digest := m.Digest()
	m.mu.Lock()
	defer m.mu.Unlock()
	files := m.checkpoint.Identity()
	if digest == "" || files == "" {
		return ""
	}
	return digest + " " + files
}

func digestOf(config *Config, c *weights.Checkpoint) string {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n", *config)
	for _, name := range c.Names() {
		t, _ := c.Tensor(name)
		fmt.Fprintf(h, "%s %v %v %x\n", name, t.DType, t.Shape, t.Data[:min(len(t.Data), 64)])
		if p := t.Packed; p != nil {
			fmt.Fprintf(h, "%d %d %d %v %v %x %x\n", p.Layout, p.Bits, p.GroupColumns, p.Zero, p.Global, p.Scales.Data[:min(len(p.Scales.Data), 64)], p.Zeros.Data[:min(len(p.Zeros.Data), 64)])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
