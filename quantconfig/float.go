package quantconfig

import (
	"slices"
	"strings"

	"weir/internal/jsontext"
	"weir/weights"
)

// fp8 are numbers of FP8 with scales that are multiplied with them, though their name says
// "inv".
var fp8 = codes{
	suffix: ".weight", types: []weights.DType{weights.F8E4M3, weights.F8E5M2},
	scale:      []string{".weight_scale_inv", ".weight_scale"},
	scaleTypes: append(slices.Clone(floatTypes), weights.F8E8M0, weights.U8),
	// Activations are FP8 too, of the same type.
	activations: weights.F8E4M3,
}

// parseFP8 reads configs of transformers' FineGrainedFP8 and FbgemmFp8, and those of AutoFP8,
// which have the same quant_method.
func parseFP8(v jsontext.Value) (chooser, error) {
	var c struct {
		Block      []int    `json:"weight_block_size"`
		Fmt        string   `json:"fmt"`
		Experts    string   `json:"expert_dtype"`
		NotConvert []string `json:"modules_to_not_convert"`
		Ignored    []string `json:"ignored_layers"`
	}
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	if c.Experts != "" && c.Experts != "fp8" {
		return nil, unsupported("expert_dtype %.60q of fp8; there is fp8", c.Experts)
	}
	s := fp8
	if c.Block != nil {
		if len(c.Block) != 2 || c.Block[0] < 1 || c.Block[1] < 1 {
			return nil, badConfig("weight_block_size %v is not two positive numbers", c.Block)
		}
		s.grouping, s.rows, s.columns = byBlock, c.Block[0], c.Block[1]
	}
	list := append(c.NotConvert, c.Ignored...)
	leaveOut := moduleList(list)
	return func(module, class string) (scheme, verdict, error) {
		switch {
		case class == "Embedding" || leaveOut(module):
			return nil, plain, nil
		case module == head || len(list) == 0:
			return s, either, nil
		}
		return s, quantised, nil
	}, nil
}

// mxfp4 are the experts of gpt-oss: blocks of 16 bytes for 32 columns.
type mxfp4 struct{}

func (mxfp4) build(p *parts) (t weights.Tensor, err error) {
	if t, err = p.take("_blocks", weights.U8); err != nil {
		return t, err
	}
	const columns = 32 // of a block
	n, k := p.size()
	front := p.matrix.Shape[:len(p.matrix.Shape)-1]
	scales := append(slices.Clone(front), k/columns)
	if err := p.shaped(t, append(slices.Clone(scales), columns/2)); err != nil {
		return t, err
	}
	t.DType = weights.F4
	t.Packed = &weights.Packed{Layout: weights.RowPairs, Bits: 4, GroupRows: 1, GroupColumns: columns}
	if t.Packed.Scales, err = p.take("_scales", weights.U8); err != nil {
		return t, err
	}
	t.Packed.Scales.DType = weights.F8E8M0
	if n < 1 || k%columns != 0 {
		return t, badConfig("%.200q has rows of %d, which are not whole blocks of %d", p.matrix.Name, k, columns)
	}
	return t, p.shaped(t.Packed.Scales, scales)
}

func parseMXFP4(v jsontext.Value) (chooser, error) {
	var c struct {
		NotConvert []string `json:"modules_to_not_convert"`
	}
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	leaveOut := moduleList(c.NotConvert)
	return func(module, _ string) (scheme, verdict, error) {
		if leaveOut(module) {
			return nil, plain, nil
		}
		return mxfp4{}, either, nil
	}, nil
}

// modelOpt is a config of NVIDIA ModelOpt, in config.json or below "quantization" in
// hf_quant_config.json.
type modelOpt struct {
	Algo      string              `json:"quant_algo"`
	GroupSize int                 `json:"group_size"`
	Exclude   []string            `json:"exclude_modules"`
	Ignore    []string            `json:"ignore"`
	Layers    map[string]modelOpt `json:"quantized_layers"`
	Groups    map[string]struct {
		Weights struct {
			GroupSize int `json:"group_size"`
		} `json:"weights"`
	} `json:"config_groups"`
}

// scheme is that of an algorithm.
func (c *modelOpt) scheme() (codes, error) {
	group := c.GroupSize
	for _, g := range c.Groups {
		group = max(group, g.Weights.GroupSize)
	}
	s := fp8
	s.scale, s.types = []string{".weight_scale"}, fp8.types[:1]
	switch algo := strings.ToUpper(c.Algo); algo {
	case "FP8", "FP8_PER_CHANNEL_PER_TOKEN":
		return s, nil
	case "FP8_PB_WO":
		s.grouping, s.rows, s.columns, s.activations = byBlock, 128, 128, weights.Invalid
		return s, nil
	case "MXFP8":
		return mx(s, 32), nil
	case "NVFP4", "W4A16_NVFP4":
		s = nvfp4(max(group, 0))
		s.suffix, s.global, s.globalDivides = ".weight", ".weight_scale_2", false
		if algo == "W4A16_NVFP4" {
			s.activations = weights.Invalid
		}
		return s, nil
	}
	return s, unsupported("quant_algo %.60q of ModelOpt; there are FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, MXFP8, NVFP4, W4A16_NVFP4 and MIXED_PRECISION of them", c.Algo)
}

// nvfp4 are pairs of E2M1 with scales of E4M3 for 16 columns.
func nvfp4(group int) codes {
	if group == 0 {
		group = 16
	}
	return codes{
		suffix: ".weight_packed", types: []weights.DType{weights.U8}, dtype: weights.F4,
		scale: []string{".weight_scale"}, scaleTypes: []weights.DType{weights.F8E4M3},
		grouping: byBlock, rows: 1, columns: group,
		global: ".weight_global_scale", globalDivides: true,
		activations: weights.F4,
	}
}

// mx is s with powers of two as scales, for so many columns each.
func mx(s codes, group int) codes {
	s.scale, s.scaleTypes = []string{".weight_scale"}, []weights.DType{weights.U8, weights.F8E8M0}
	s.grouping, s.rows, s.columns = byBlock, 1, group
	return s
}

func parseModelOpt(v jsontext.Value) (chooser, error) {
	if inner := v.Member("quantization"); inner != nil {
		v = inner
	}
	var c modelOpt
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	leaveOut := wildcardList(append(c.Exclude, c.Ignore...))
	if strings.ToUpper(c.Algo) == "MIXED_PRECISION" {
		layers := map[string]codes{}
		for name, layer := range c.Layers {
			s, err := layer.scheme()
			if err != nil {
				return nil, err
			}
			layers[name] = s
		}
		return func(module, _ string) (scheme, verdict, error) {
			if s, ok := layers[module]; ok && !leaveOut(module) {
				return s, quantised, nil
			}
			return nil, plain, nil
		}, nil
	}
	s, err := c.scheme()
	if err != nil {
		return nil, err
	}
	return func(module, class string) (scheme, verdict, error) {
		switch {
		case class == "Embedding" || leaveOut(module):
			return nil, plain, nil
		case module == head:
			return s, either, nil
		}
		return s, quantised, nil
	}, nil
}
