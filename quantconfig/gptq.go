package quantconfig

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"weir/internal/jsontext"
	"weir/weights"
)

// words are integers of a few bits in words, with scales and zero points of groups, as GPTQ and
// AWQ store them.
type words struct {
	layout weights.Layout // ColumnWords or AWQWords
	bits   int
	group  int // columns of a group; -1: all
	zero   int32
	sym    bool // zero points may be missing: they are half the range
}

func (s words) build(p *parts) (t weights.Tensor, err error) {
	n, k := p.size()
	group := s.group
	if group == -1 {
		group = k
	}
	groups, codes, zeros := ceil(k, group), []int{ceil(k*s.bits, 32), n}, ceil(n*s.bits, 32)
	if s.layout == weights.AWQWords {
		codes, zeros = []int{k, n / 8}, n/8
	}
	if t, err = p.take(".qweight", weights.I32); err != nil {
		return t, err
	}
	if err := p.shaped(t, codes); err != nil {
		return t, err
	}
	t.Packed = &weights.Packed{Layout: s.layout, Bits: s.bits, GroupRows: 1, GroupColumns: group, Transposed: true, Zero: s.zero, Symmetric: s.sym}
	if t.Packed.Scales, err = p.take(".scales", weights.F16, weights.BF16, weights.F32); err != nil {
		return t, err
	}
	if err := p.shaped(t.Packed.Scales, []int{groups, n}); err != nil {
		return t, err
	}
	if _, ok := p.stored.Tensor(p.module + ".qzeros"); !ok && s.sym {
		t.Packed.Zero = 1 << (s.bits - 1)
	} else if t.Packed.Zeros, err = p.take(".qzeros", weights.I32); err != nil {
		return t, err
	} else if err := p.shaped(t.Packed.Zeros, []int{groups, zeros}); err != nil {
		return t, err
	}
	t.Packed.Order, err = p.order(".g_idx", group)
	return t, err
}

// order reads the groups of columns, and returns nil if they are what they are without it: an
// empty tensor, one that says -1 everywhere, or groups of consecutive columns.
func (p *parts) order(suffix string, group int) ([]int32, error) {
	if _, ok := p.stored.Tensor(p.module + suffix); !ok {
		return nil, nil
	}
	t, err := p.take(suffix, weights.I32)
	if err != nil {
		return nil, err
	}
	_, k := p.size()
	if err := p.shaped(t, []int{k}, []int{0}); err != nil {
		return nil, err
	}
	order := make([]int32, t.Len())
	unset, consecutive := 0, true
	for i := range order {
		order[i] = int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
		consecutive = consecutive && order[i] == int32(i/group)
		if order[i] == -1 {
			unset++
		}
	}
	if consecutive || unset == len(order) {
		return nil, nil
	}
	return order, nil
}

// ceil is a / b, rounded up; both are positive.
func ceil(a, b int) int { return (a-1)/b + 1 }

// gptq is a quantization_config of GPTQ, or of a module by itself.
type gptq struct {
	Bits       *int   `json:"bits"`
	GroupSize  *int   `json:"group_size"`
	Sym        *bool  `json:"sym"`
	Checkpoint string `json:"checkpoint_format"`
	Format     string `json:"format"`
	Marlin     bool   `json:"is_marlin_format"`
	PackDType  string `json:"pack_dtype"`

	Blocks  jsontext.RawMessage `json:"modules_in_block_to_quantize"`
	Dynamic jsontext.RawMessage `json:"dynamic"`
}

// words is the scheme, in which what is missing is that of base.
func (c *gptq) words(base words) (words, error) {
	s := base
	if c.Bits != nil {
		s.bits = *c.Bits
	}
	if c.GroupSize != nil {
		s.group = *c.GroupSize
	}
	if c.Sym != nil {
		s.sym = *c.Sym
	}
	return s, s.check()
}

func (s words) check() error {
	switch {
	case s.layout == weights.ColumnWords && s.bits != 2 && s.bits != 3 && s.bits != 4 && s.bits != 8:
		return unsupported("GPTQ with %d bits; there are 2, 3, 4 and 8", s.bits)
	case s.layout == weights.AWQWords && s.bits != 4:
		return unsupported("AWQ with %d bits; there are 4", s.bits)
	case s.group != -1 && s.group < 1:
		return badConfig("group_size %d is neither positive nor -1", s.group)
	}
	return nil
}

func parseGPTQ(v jsontext.Value) (chooser, error) {
	var c gptq
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	base := words{layout: weights.ColumnWords, bits: 4, group: 128, sym: true}
	format := c.Checkpoint
	if format == "" {
		format = c.Format
	}
	switch {
	case c.Marlin || format == "marlin":
		return nil, unsupported("checkpoint_format marlin of GPTQ; there are gptq and gptq_v2")
	case format == "" || format == "gptq":
		base.zero = 1 // zero points are stored less 1
	case format != "gptq_v2":
		return nil, unsupported("checkpoint_format %.60q of GPTQ; there are gptq and gptq_v2", format)
	}
	if c.PackDType != "" && c.PackDType != "int32" {
		return nil, unsupported("pack_dtype %.60q of GPTQ; there is int32", c.PackDType)
	}
	base, err := c.words(base)
	if err != nil {
		return nil, err
	}
	rules, err := dynamicRules(c.Dynamic, base)
	if err != nil {
		return nil, err
	}
	blocks, err := blockNames(c.Blocks)
	if err != nil {
		return nil, err
	}
	return func(module, class string) (scheme, verdict, error) {
		for _, r := range rules {
			if r.match(module) {
				return r.scheme, r.verdict, nil
			}
		}
		switch {
		case class != "Linear":
			return nil, plain, nil
		case module == head || blocks == nil:
			return base, either, nil
		}
		for _, name := range blocks {
			if module == name || strings.HasSuffix(module, "."+name) {
				return base, quantised, nil
			}
		}
		return nil, plain, nil
	}, nil
}

// rule is what is said of modules whose names match.
type rule struct {
	match   func(name string) bool
	scheme  scheme
	verdict verdict
}

// dynamicRules reads GPTQModel's dynamic: an object of patterns, which begin at the beginning of
// a name. Those after "-:" are of modules that are not quantized; the others, with "+:" or
// without, have another scheme. The first that matches counts.
func dynamicRules(raw jsontext.RawMessage, base words) ([]rule, error) {
	v := jsontext.Trim(raw)
	if len(v) == 0 || v.Kind() == jsontext.Null {
		return nil, nil
	}
	if v.Kind() != jsontext.Object {
		return nil, badConfig("dynamic is %.60s, not an object", v)
	}
	var rules []rule
	for key, value := range v.Members() {
		pattern, leaveOut := strings.CutPrefix(string(key), "-:")
		pattern = strings.TrimPrefix(pattern, "+:")
		re, err := anchored(pattern)
		if err != nil {
			return nil, err
		}
		r := rule{match: re.MatchString, verdict: plain}
		if !leaveOut {
			var c gptq
			if err := decode(value, &c); err != nil {
				return nil, err
			}
			r.verdict = either
			if r.scheme, err = c.words(base); err != nil {
				return nil, err
			}
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// blockNames reads modules_in_block_to_quantize, a list of names or of lists of names within a
// layer; nil if there is none.
func blockNames(raw jsontext.RawMessage) ([]string, error) {
	v := jsontext.Trim(raw)
	if len(v) == 0 || v.Kind() == jsontext.Null {
		return nil, nil
	}
	if v.Kind() != jsontext.Array {
		return nil, badConfig("modules_in_block_to_quantize is %.60s, not a list", v)
	}
	names := []string{}
	for _, e := range v.Elements() {
		list := []jsontext.Value{e}
		if e.Kind() == jsontext.Array {
			list = nil
			for _, inner := range e.Elements() {
				list = append(list, inner)
			}
		}
		for _, name := range list {
			if name.Kind() != jsontext.String {
				return nil, badConfig("modules_in_block_to_quantize holds %.60s, not a name", name)
			}
			names = append(names, name.Text())
		}
	}
	return names, nil
}

func parseAWQ(v jsontext.Value) (chooser, error) {
	var c struct {
		Bits       *int     `json:"bits"`
		WBit       *int     `json:"w_bit"`
		GroupSize  *int     `json:"group_size"`
		QGroupSize *int     `json:"q_group_size"`
		Version    string   `json:"version"`
		Format     string   `json:"format"`
		NotConvert []string `json:"modules_to_not_convert"`
	}
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	version := strings.ToLower(c.Version + c.Format)
	if version != "" && version != "gemm" {
		return nil, unsupported("version %.60q of AWQ; there is gemm", version)
	}
	s := words{layout: weights.AWQWords, bits: 4, group: 128}
	for _, bits := range []*int{c.WBit, c.Bits} {
		if bits != nil {
			s.bits = *bits
		}
	}
	for _, size := range []*int{c.QGroupSize, c.GroupSize} {
		if size != nil {
			s.group = *size
		}
	}
	leaveOut := partList(c.NotConvert)
	return func(module, class string) (scheme, verdict, error) {
		switch {
		case class != "Linear" || leaveOut(module):
			return nil, plain, nil
		case module == head || len(c.NotConvert) == 0:
			return s, either, nil
		}
		return s, quantised, nil
	}, s.check()
}

// parseAutoRound reads configs of AutoRound, which stores the forms of others.
func parseAutoRound(v jsontext.Value) (chooser, error) {
	var c struct {
		gptq
		Packing  string              `json:"packing_format"`
		DataType string              `json:"data_type"`
		Extra    jsontext.RawMessage `json:"extra_config"`
	}
	if err := decode(v, &c); err != nil {
		return nil, err
	}
	if c.DataType != "" && c.DataType != "int" {
		return nil, unsupported("data_type %.60q of AutoRound; there is int", c.DataType)
	}
	base := words{layout: weights.ColumnWords, bits: 4, group: 128, sym: true}
	switch c.Packing {
	case "", "auto_round:auto_gptq":
		base.zero = 1
	case "auto_round", "auto_round:gptqmodel":
	case "auto_round:auto_awq":
		base = words{layout: weights.AWQWords, bits: 4, group: 128}
	default:
		return nil, unsupported("packing_format %.60q of AutoRound; there are auto_round, auto_round:auto_gptq, auto_round:gptqmodel and auto_round:auto_awq", c.Packing)
	}
	base, err := c.words(base)
	if err != nil {
		return nil, err
	}
	exact, patterns, err := extraRules(c.Extra, base)
	if err != nil {
		return nil, err
	}
	return func(module, class string) (scheme, verdict, error) {
		if r, ok := exact[module]; ok {
			return r.scheme, r.verdict, nil
		}
		for _, r := range patterns {
			if r.match(module) {
				return r.scheme, r.verdict, nil
			}
		}
		if class != "Linear" {
			return nil, plain, nil
		}
		return base, either, nil
	}, nil
}

// extraRules reads AutoRound's extra_config: what is different in modules of a name, or of names
// in which a pattern is found. 16 bits and more stand for a module that is not quantized.
func extraRules(raw jsontext.RawMessage, base words) (exact map[string]rule, patterns []rule, err error) {
	v := jsontext.Trim(raw)
	if len(v) == 0 || v.Kind() == jsontext.Null {
		return nil, nil, nil
	}
	if v.Kind() != jsontext.Object {
		return nil, nil, badConfig("extra_config is %.60s, not an object", v)
	}
	exact = map[string]rule{}
	for key, value := range v.Members() {
		var c gptq
		if err := decode(value, &c); err != nil {
			return nil, nil, err
		}
		r := rule{verdict: plain}
		if c.Bits == nil || *c.Bits < 16 {
			r.verdict = either
			if r.scheme, err = c.words(base); err != nil {
				return nil, nil, fmt.Errorf("extra_config %.200q: %w", key, err)
			}
		}
		exact[string(key)] = r
		if strings.ContainsAny(string(key), `*+?^$()[]{}|\`) {
			re, err := regexp.Compile(string(key))
			if err != nil {
				return nil, nil, unsupported("the pattern %.200q: %v", key, err)
			}
			r.match = re.MatchString
			patterns = append(patterns, r)
		}
	}
	return exact, patterns, nil
}
