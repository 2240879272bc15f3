package quantconfig

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/weights"
)

// numbers is how compressed-tensors rounds the weights or the activations of some modules
// (quantization/quant_args.py, QuantizationArgs).
type numbers struct {
	Bits      int                 `json:"num_bits"`
	Type      string              `json:"type"`
	Symmetric *bool               `json:"symmetric"`
	Strategy  string              `json:"strategy"`
	GroupSize *int                `json:"group_size"`
	Block     jsontext.RawMessage `json:"block_structure"`
}

// group is one of config_groups.
type group struct {
	Targets     []string `json:"targets"`
	Weights     *numbers `json:"weights"`
	Activations *numbers `json:"input_activations"`
	Format      string   `json:"format"`
}

// formats are those of compressed-tensors that are supported.
const formats = "int-quantized, float-quantized, naive-quantized, pack-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized and dense"

func parseCompressed(v jsontext.Value) (chooser, error) {
	var c struct {
		Groups    jsontext.RawMessage `json:"config_groups"`
		Format    string              `json:"format"`
		Ignore    []string            `json:"ignore"`
		Transform *struct {
			Groups map[string]jsontext.RawMessage `json:"config_groups"`
		} `json:"transform_config"`
	}
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	var sparsity struct {
		Format string `json:"format"`
	}
	if raw := v.Member("sparsity_config"); raw != nil && raw.Kind() == jsontext.Object {
		if err := decode(raw, &sparsity); err != nil {
			return nil, err
		}
	}
	switch {
	case sparsity.Format != "" && sparsity.Format != "dense":
		return nil, unsupported("the sparsity format %.60q of compressed-tensors; there is dense", sparsity.Format)
	case c.Transform != nil && len(c.Transform.Groups) > 0:
		return nil, unsupported("transform_config of compressed-tensors, which rotates activations")
	}
	ignore, err := parseTargets(c.Ignore)
	if err != nil {
		return nil, err
	}
	list, err := parseGroups(c.Groups, c.Format)
	if err != nil {
		return nil, err
	}
	return func(module, class string) (scheme, verdict, error) {
		if ignore.match(module, class) > 0 {
			return nil, plain, nil
		}
		best, found := closeness(0), scheme(nil)
		for _, g := range list {
			if m := g.targets.match(module, class); m > 0 && (best == 0 || m < best) {
				best, found = m, g.scheme
			}
		}
		if found == nil {
			return nil, plain, nil
		}
		return found, quantised, nil
	}, nil
}

// targeted is the scheme of the modules that a list names; nil: they are not quantized.
type targeted struct {
	targets targets
	scheme  scheme
}

func parseGroups(raw jsontext.RawMessage, format string) ([]targeted, error) {
	v := jsontext.Trim(raw)
	if len(v) == 0 || v.Kind() != jsontext.Object {
		return nil, badConfig("config_groups is %.60s, not an object", v)
	}
	var list []targeted
	for name, value := range v.Members() {
		if value.Kind() != jsontext.Object {
			return nil, unsupported("config_groups of compressed-tensors by the name of a preset, %.60q", name)
		}
		var g group
		if err := decode(value, &g); err != nil {
			return nil, err
		}
		if g.Format == "" {
			g.Format = format
		}
		t, err := parseTargets(g.Targets)
		if err != nil {
			return nil, err
		}
		s, err := g.scheme()
		if err != nil {
			return nil, fmt.Errorf("config_groups, %.60q: %w", name, err)
		}
		list = append(list, targeted{t, s})
	}
	return list, nil
}

// dtype is the type that rows are rounded to.
func (a *numbers) dtype() weights.DType {
	switch {
	case a == nil:
		return weights.Invalid
	case a.Type != "float" && a.Bits == 8:
		return weights.I8
	case a.Type == "float" && a.Bits == 8:
		return weights.F8E4M3
	case a.Type == "float" && a.Bits == 4:
		return weights.F4
	}
	return weights.Invalid
}

// scheme is how the matrices of a group are stored; nil if they are not quantized.
func (g *group) scheme() (scheme, error) {
	w := g.Weights
	if w == nil || g.Format == "dense" {
		return nil, nil
	}
	if w.Bits == 0 {
		w.Bits = 8
	}
	symmetric := w.Symmetric == nil || *w.Symmetric
	kind, rows, columns, err := w.grouping()
	if err != nil {
		return nil, err
	}
	activations := g.Activations.dtype()
	switch g.Format {
	case "pack-quantized":
		if w.Type == "float" || w.Bits < 1 || w.Bits > 8 {
			return nil, unsupported("pack-quantized weights of %d bits and type %.60q", w.Bits, w.Type)
		}
		if rows > 1 {
			return nil, unsupported("pack-quantized weights in blocks of %d rows", rows)
		}
		return rowWords{bits: w.Bits, symmetric: symmetric, grouping: kind, columns: columns, activations: activations}, nil
	case "nvfp4-pack-quantized":
		s := nvfp4(columns)
		s.activations = activations
		return s, nil
	case "mxfp4-pack-quantized":
		s := mx(nvfp4(0), 32)
		s.global, s.activations = "", activations
		return s, nil
	case "mxfp8-quantized":
		return mx(bytes(weights.F8E4M3, activations), 32), nil
	case "int-quantized", "float-quantized", "naive-quantized":
		s := bytes(weights.I8, activations)
		if w.Type == "float" {
			s = bytes(weights.F8E4M3, activations)
			if w.Bits != 8 {
				return nil, unsupported("%s weights of %d bits of floating point; there are 8", g.Format, w.Bits)
			}
		}
		s.grouping, s.rows, s.columns, s.zeros = kind, rows, columns, !symmetric
		return s, nil
	}
	return nil, unsupported("the format %.60q of compressed-tensors; there are %s", g.Format, formats)
}

// bytes are numbers of 8 bits with one scale or one for each row.
func bytes(dtype, activations weights.DType) codes {
	return codes{
		suffix: ".weight", types: []weights.DType{dtype}, scale: []string{".weight_scale"}, scaleTypes: floatTypes,
		activations: activations,
	}
}

// grouping is which numbers of a matrix share a scale; columns is 0 for all.
func (a *numbers) grouping() (kind grouping, rows, columns int, err error) {
	strategy := a.Strategy
	size := 0
	if a.GroupSize != nil {
		size = *a.GroupSize
	}
	if strategy == "" { // as QuantizationArgs fills it in
		switch {
		case size == 0:
			strategy = "tensor"
		case size == -1:
			strategy = "channel"
		default:
			strategy = "group"
		}
	}
	switch strategy {
	case "tensor":
		return byTensor, 0, 0, nil
	case "channel":
		return byRow, 0, 0, nil
	case "group", "tensor_group":
		if size < 1 {
			return 0, 0, 0, badConfig("group_size %d of the strategy %s is not positive", size, strategy)
		}
		return byBlock, 1, size, nil
	case "block":
		if rows, columns, err = blockStructure(a.Block); err != nil {
			return 0, 0, 0, err
		}
		return byBlock, rows, columns, nil
	}
	return 0, 0, 0, unsupported("the strategy %.60q of compressed-tensors for weights; there are tensor, channel, group, tensor_group and block", strategy)
}

// blockStructure reads [rows, columns], or "ROWSxCOLUMNS" of older versions.
func blockStructure(raw jsontext.RawMessage) (rows, columns int, err error) {
	var list []int
	if v := jsontext.Trim(raw); len(v) > 0 && v.Kind() == jsontext.String {
		for part := range strings.SplitSeq(v.Text(), "x") {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
	} else if len(v) > 0 {
		if err := decode(v, &list); err != nil {
			return 0, 0, badConfig("block_structure is %.60s, not two numbers", v)
		}
	}
	if len(list) != 2 || list[0] < 1 || list[1] < 1 {
		return 0, 0, badConfig("block_structure %.60s is not two positive numbers", raw)
	}
	return list[0], list[1], nil
}

// rowWords are integers of a few bits in words along the rows ("pack-quantized").
type rowWords struct {
	bits        int
	symmetric   bool
	grouping    grouping
	columns     int // of a group
	activations weights.DType
}

func (s rowWords) build(p *parts) (t weights.Tensor, err error) {
	n, k := p.size()
	if t, err = p.take(".weight_packed", weights.I32); err != nil {
		return t, err
	}
	if err := p.shaped(t, []int{n, ceil(k*s.bits, 32)}); err != nil {
		return t, err
	}
	pk := &weights.Packed{Layout: weights.RowWords, Bits: s.bits, GroupRows: 1, GroupColumns: k, Activations: s.activations}
	scales := [][]int{{n, 1}, {n}}
	switch s.grouping {
	case byTensor:
		pk.GroupRows, scales = n, [][]int{{1}, nil, {1, 1}}
	case byBlock:
		pk.GroupColumns, scales = s.columns, [][]int{{n, ceil(k, s.columns)}}
	}
	t.Packed = pk
	if pk.Scales, err = p.take(".weight_scale", floatTypes...); err != nil {
		return t, err
	}
	if err := p.shaped(pk.Scales, scales...); err != nil {
		return t, err
	}
	if pk.Order, err = p.order(".weight_g_idx", pk.GroupColumns); err != nil {
		return t, err
	}
	pk.Zero = int32(1) << (s.bits - 1) // codes are stored with this added, so that they have no sign
	zeros, ok := p.maybe(".weight_zero_point")
	switch {
	case s.symmetric:
		return t, nil
	case !ok:
		return t, fmt.Errorf("%w: %.200q is missing", ErrMismatch, p.module+".weight_zero_point")
	case zeros.DType == weights.I32:
		pk.Zero = 0 // they have it added, too
	}
	pk.Zeros = zeros
	return t, nil
}
