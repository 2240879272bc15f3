package model

import (
	"fmt"
	"slices"
	"strings"

	"weir/weights"
)

// logical names the tensors as transformers does, takes fused ones apart, and says how rows of
// queries and keys are stored.
func (g *ggufModel) logical(c *Config) ([]weights.Tensor, error) {
	var all []weights.Tensor
	var extra []string
	for _, name := range g.order {
		t := g.tensors[name]
		if name == ropeFactors && g.family.pairs {
			continue // scaleRope has used it
		}
		if layer, ok := fused(name); ok {
			parts, err := g.takeApart(t, c, layer)
			if err != nil {
				return nil, err
			}
			all = append(all, parts...)
			continue
		}
		if t.Name = g.transformersName(name); t.Name == "" {
			extra = append(extra, name)
			continue
		}
		all = append(all, t)
	}
	if len(extra) > 0 {
		return nil, fmt.Errorf("%w: %s: not expected: %s", ErrMismatch, g.path, some(extra))
	}
	if !g.family.pairs {
		return all, nil
	}
	for i := range all {
		if err := g.pair(&all[i], c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// transformersName is the name that a tensor has in checkpoints of Hugging Face; "" if it has none.
func (g *ggufModel) transformersName(name string) string {
	if other, ok := ggufTensors[name]; ok {
		return other
	}
	layer, rest, ok := layerName(name, "blk.")
	part, kind, ok2 := cutLast(rest)
	if other, known := ggufLayerTensors[part]; ok && ok2 && known && (kind == "weight" || kind == "bias") {
		return "model.layers." + layer + "." + other + "." + kind
	}
	return ""
}

// storedName is what the file calls a tensor of transformers, for messages.
func (g *ggufModel) storedName(name string) string {
	if other, ok := transformersTensors[name]; ok {
		return other
	}
	layer, rest, ok := layerName(name, "model.layers.")
	part, kind, ok2 := cutLast(rest)
	if other, known := transformersLayerTensors[part]; ok && ok2 && known {
		return "blk." + layer + "." + other + "." + kind
	}
	return name
}

// layerName cuts the prefix and the number of a layer off a name. Numbers are as fmt writes
// them, so that two names cannot be of the same tensor.
func layerName(name, prefix string) (layer, rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, prefix)
	if !ok {
		return "", "", false
	}
	layer, rest, ok = strings.Cut(rest, ".")
	if strings.Trim(layer, "0123456789") != "" || layer == "" || len(layer) > 1 && layer[0] == '0' {
		return "", "", false
	}
	return layer, rest, ok
}

func cutLast(name string) (part, kind string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// fused reports whether a tensor is queries, keys and values of a layer in one.
func fused(name string) (layer string, ok bool) {
	layer, rest, ok := layerName(name, "blk.")
	return layer, ok && (rest == "attn_qkv.weight" || rest == "attn_qkv.bias")
}

// takeApart makes three tensors of one that is fused, which share its bytes.
func (g *ggufModel) takeApart(t weights.Tensor, c *Config, layer string) ([]weights.Tensor, error) {
	width, kvWidth := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	if len(t.Shape) == 0 || t.Shape[0] != width+2*kvWidth {
		return nil, fmt.Errorf("%w: %s: %s of %d has not the %d rows of queries, keys and values", ErrMismatch, g.path, t.Name, t.Shape, width+2*kvWidth)
	}
	_, kind, _ := cutLast(t.Name)
	row := len(t.Data) / t.Shape[0]
	if t.DType.Blocked() && len(t.Shape) != 2 {
		return nil, fmt.Errorf("%w: %s: %s is %v of %d", ErrMismatch, g.path, t.Name, t.DType, t.Shape)
	}
	var parts []weights.Tensor
	at := 0
	for _, p := range []struct {
		name string
		rows int
	}{{"q_proj", width}, {"k_proj", kvWidth}, {"v_proj", kvWidth}} {
		part := t
		part.Name = "model.layers." + layer + ".self_attn." + p.name + "." + kind
		part.Shape = slices.Concat([]int{p.rows}, t.Shape[1:])
		end := (at + p.rows) * row
		part.Data = t.Data[at*row : end : end]
		at += p.rows
		parts = append(parts, part)
	}
	return parts, nil
}

// pair says of queries and keys that the rows of each head take turns. The numbers of a bias are
// put into order here, since there are few.
func (g *ggufModel) pair(t *weights.Tensor, c *Config) error {
	part, kind, _ := cutLast(t.Name)
	if !strings.HasSuffix(part, ".self_attn.q_proj") && !strings.HasSuffix(part, ".self_attn.k_proj") {
		return nil
	}
	if len(t.Shape) == 0 || t.Shape[0]%c.HeadDim != 0 {
		return nil // of a wrong shape, which checkTensors says
	}
	t.Pairs = c.HeadDim
	if kind == "weight" {
		return nil
	}
	if t.DType.Blocked() || len(t.Shape) != 1 {
		return fmt.Errorf("%w: %s: %s is %v of %d, not a vector of plain numbers", ErrMismatch, g.path, g.storedName(t.Name), t.DType, t.Shape)
	}
	size := t.DType.Size()
	ordered := make([]byte, 0, len(t.Data))
	for r := range t.Shape[0] {
		ordered = append(ordered, t.Data[t.StoredRow(r)*size:][:size]...)
	}
	t.Data, t.File, t.Pairs = ordered, nil, 0
	return nil
}
