package quantconfig

import (
	"fmt"
	"slices"
	"strings"

	"weir/weights"
)

// Matrix is one that a network needs.
type Matrix struct {
	Name  string // of the tensor of a checkpoint that is not quantized
	Shape []int
	Class string // of its module in PyTorch: Linear or Embedding
}

// scheme is how the matrices of some modules are stored.
type scheme interface {
	// build makes the tensor of a matrix out of the stored ones.
	build(p *parts) (weights.Tensor, error)
}

// Assemble makes the tensors of a network out of the stored ones: each quantized matrix becomes
// one tensor with Packed, tensors that change nothing are left out, and all others stay as they
// are. needed reports whether the network has a tensor of this name. Some data is read, so the
// caller defers Checkpoint.CatchFault. An error names the tensor or the module, and wraps
// ErrMismatch if the stored tensors are not those that the configuration asks for, else ErrConfig
// or ErrUnsupported.
func (c *Config) Assemble(stored *weights.Checkpoint, matrices []Matrix, needed func(name string) bool) ([]weights.Tensor, error) {
	taken := map[string]bool{}
	var out []weights.Tensor
	for _, m := range matrices {
		module := strings.TrimSuffix(m.Name, ".weight")
		s, v, err := c.choose(module, m.Class)
		if err != nil {
			return nil, err
		}
		p := &parts{stored: stored, taken: taken, module: module, matrix: m}
		switch has, unpacked := p.packedPart(), p.unpacked(); {
		case v == plain && has != "":
			return nil, fmt.Errorf("%w: the config leaves %.200q out, but there is %.200q", ErrMismatch, module, has)
		case v == quantised && has == "" && unpacked:
			return nil, fmt.Errorf("%w: the config says that %.200q is quantized, but it is not", ErrMismatch, module)
		case has == "":
			continue // it is not quantized, or missing, which the caller finds out
		}
		t, err := s.build(p)
		if err != nil {
			return nil, err
		}
		t.Name, t.Shape = m.Name, m.Shape
		if err := t.CheckSize(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMismatch, err)
		}
		p.dropBias(needed)
		out = append(out, t)
	}
	for _, name := range stored.Names() {
		if t, _ := stored.Tensor(name); !taken[name] && (needed(name) || !passedOver(name)) {
			out = append(out, t)
		}
	}
	return out, nil
}

// parts are the stored tensors of a module.
type parts struct {
	stored *weights.Checkpoint
	taken  map[string]bool // names of tensors that a matrix has been made of
	module string
	matrix Matrix
}

// size is N and K of the matrix: those of all its rows if it is a stack of matrices.
func (p *parts) size() (n, k int) {
	s := p.matrix.Shape
	n = 1
	for _, d := range s[:len(s)-1] {
		n *= d
	}
	return n, s[len(s)-1]
}

// packedPart is the name of a stored tensor that only a quantized module has, or "".
func (p *parts) packedPart() string {
	for _, suffix := range []string{".qweight", ".weight_packed", ".weight_scale", ".weight_scale_inv", "_blocks"} {
		if _, ok := p.stored.Tensor(p.module + suffix); ok {
			return p.module + suffix
		}
	}
	if t, ok := p.stored.Tensor(p.module + ".weight"); ok && !t.Widens() {
		return t.Name
	}
	return ""
}

// unpacked reports whether the module is there and is not quantized.
func (p *parts) unpacked() bool {
	t, ok := p.stored.Tensor(p.matrix.Name)
	return ok && t.Widens()
}

// maybe returns the tensor with this suffix, if there is one, and marks it as taken.
func (p *parts) maybe(suffix string) (weights.Tensor, bool) {
	name := p.module + suffix
	t, ok := p.stored.Tensor(name)
	if ok {
		p.taken[name] = true
	}
	return t, ok
}

// take returns the tensor with this suffix, which has to be of one of these types.
func (p *parts) take(suffix string, types ...weights.DType) (weights.Tensor, error) {
	t, ok := p.maybe(suffix)
	if !ok {
		return t, fmt.Errorf("%w: %.200q is missing", ErrMismatch, p.module+suffix)
	}
	if !slices.Contains(types, t.DType) {
		return t, fmt.Errorf("%w: %.200q is %s instead of %s", ErrMismatch, t.Name, t.DType, anyOf(types))
	}
	return t, nil
}

// anyOf lists types for a message.
func anyOf(types []weights.DType) string {
	var names []string
	for _, d := range types {
		names = append(names, d.String())
	}
	return strings.Join(names, " or ")
}

// shaped checks the shape of a stored tensor.
func (p *parts) shaped(t weights.Tensor, shapes ...[]int) error {
	for _, s := range shapes {
		if slices.Equal(t.Shape, s) {
			return nil
		}
	}
	return fmt.Errorf("%w: %.200q has shape %d instead of %d for a matrix of shape %d", ErrMismatch, t.Name, t.Shape, shapes[0], p.matrix.Shape)
}

// factor is the number in a tensor that holds one, and has to be positive.
func (p *parts) factor(suffix string) (float32, error) {
	t, err := p.take(suffix, weights.F32)
	if err != nil {
		return 0, err
	}
	if err := p.shaped(t, []int{1}, nil); err != nil {
		return 0, err
	}
	var v [1]float32
	one := weights.Tensor{DType: t.DType, Shape: []int{1}, Data: t.Data}
	if one.Widen(v[:], 0, 0); !(v[0] > 0 && v[0] <= maxFactor) {
		return 0, fmt.Errorf("%w: %.200q is %v, which is no factor", ErrMismatch, t.Name, v[0])
	}
	return v[0], nil
}

const maxFactor = 0x1p127

// dropBias leaves out a bias that the network does not have, if it is zero: packers of GPTQ store
// one for every module.
func (p *parts) dropBias(needed func(string) bool) {
	name := p.module + ".bias"
	t, ok := p.stored.Tensor(name)
	if !ok || needed(name) {
		return
	}
	for _, b := range t.Data {
		if b != 0 {
			return
		}
	}
	p.taken[name] = true
}

// idle are the last parts of names of tensors that change nothing here (see the package's
// documentation).
var idle = []string{
	"input_scale", "input_zero_point", "input_global_scale", "input_scale_ub", "activation_scale",
	"output_scale", "output_zero_point", "weight_shape",
	"k_scale", "v_scale", "q_scale", "kv_scale", "prob_scale", "k_zero_point", "v_zero_point", "q_zero_point",
}

// passedOver reports whether a tensor changes nothing.
func passedOver(name string) bool {
	return slices.Contains(idle, name[strings.LastIndexByte(name, '.')+1:])
}
