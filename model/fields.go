package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"weir/internal/jsontext"
)

// fields reads a config.json for a family. Its getters return the family's default where a field is
// missing, and remember the first error.
type fields struct {
	Config                       // what is being read
	v          jsontext.Value    // the file, or its text_config
	outer      jsontext.Value    // the file around a text_config; nil: there is none
	prefix     string            // of the names of tensors: "model." for most
	below      string            // where the layers are below it; "": layers
	from       *origin           // for messages
	partial    float64           // share of a head's dimensions that are rotated, said in a way of its own; 0: not
	unattended bool              // no layer has attention, and nothing says how many heads there are
	described  int               // layers that another field lists; 0: num_hidden_layers says how many there are
	renamed    map[string]string // other names that fields may have
	err        error
}

// recipe is a family that is put together of pieces.
type recipe struct {
	modelType string // of the text part
	read      func(*fields)
	// prefix is what the names of tensors of the text part begin with; "": "model.".
	prefix string
	// skip are prefixes of tensors that are not the text part's.
	skip []string
}

// recipes are the families by the architectures that config.json names.
var recipes = map[string]recipe{}

// readRecipe reads the config.json of one of the recipes. from is what else the fields are from; nil: a config.json.
func readRecipe(arch string, r recipe, file jsontext.Value, from *origin) (Config, error) {
	f := &fields{v: file, from: from, prefix: cmp.Or(r.prefix, "model.")}
	if t := file.Member("text_config"); t != nil && t.Kind() == jsontext.Object {
		f.v, f.outer = t, file
	}
	f.Architecture = arch
	f.Network.Skip = slices.Clone(r.skip)
	if f.outer != nil {
		f.Network.Skip = append(f.Network.Skip, towers...)
	}
	r.read(f)
	if f.err == nil {
		f.check()
	}
	return f.Config, f.err
}

func (f *fields) bad(format string, args ...any) {
	if f.err == nil {
		f.err = f.from.bad(format, args...)
	}
}

func (f *fields) unsupported(field string, value any, supported string) {
	if f.err == nil {
		f.err = f.from.unsupported(field, value, supported)
	}
}

// member is a field that is given and not null. Of a text_config's fields, those that say
// something about the whole model may stand outside of it.
func (f *fields) member(name string) (jsontext.Value, bool) {
	v := f.v.Member(name)
	if other := f.renamed[name]; v == nil && other != "" {
		v = f.v.Member(other)
	}
	if v == nil && f.outer != nil {
		switch name {
		case "tie_word_embeddings", "eos_token_id":
			v = f.outer.Member(name)
		}
	}
	return v, v.Given()
}

func (f *fields) has(name string) bool { _, ok := f.member(name); return ok }

func get[T any](f *fields, name string, otherwise T) T {
	v, ok := f.member(name)
	if !ok {
		return otherwise
	}
	var x T
	if err := unmarshal(v, &x); err != nil {
		f.bad("%s: %v", name, err)
		return otherwise
	}
	return x
}

func (f *fields) int(name string, otherwise int) int {
	n := get(f, name, otherwise)
	if n < -1 || n > maxSize {
		f.bad("%s %d is not in [0, %d]", name, n, maxSize)
		return otherwise
	}
	return n
}

func (f *fields) float(name string, otherwise float64) float64 {
	x := get(f, name, otherwise)
	if math.IsNaN(x) || math.Abs(x) > math.MaxFloat32 {
		f.bad("%s %v is not a finite number", name, x)
		return otherwise
	}
	return x
}

func (f *fields) float32(name string, otherwise float64) float32 {
	return float32(f.float(name, otherwise))
}

func (f *fields) bool(name string, otherwise bool) bool { return get(f, name, otherwise) }

func (f *fields) text(name, otherwise string) string { return get(f, name, otherwise) }

// texts is a list with one entry for each layer; nil: it is not given.
func (f *fields) texts(name string) []string {
	list := get[[]string](f, name, nil)
	if list != nil && len(list) < f.Layers {
		f.bad("%s has %d entries for %d layers", name, len(list), f.Layers)
		return nil
	}
	return list
}

// ints is a list of integers; nil: it is not given.
func (f *fields) ints(name string) []int { return get[[]int](f, name, nil) }

// usual are the defaults of fields that nearly every family has.
type usual struct {
	maxPositions int
	eps          float64
	epsName      string // "": rms_norm_eps
	tied         bool
	kvHeads      int    // 0: as many as heads
	headDim      int    // 0: hidden_size / num_attention_heads
	inner        string // "": intermediate_size
}

// usual reads the fields that nearly every family has.
func (f *fields) usual(d usual) {
	f.VocabSize = f.positive("vocab_size")
	f.Hidden = f.positive("hidden_size")
	if f.Layers = f.described; f.Layers == 0 {
		f.Layers = f.positive("num_hidden_layers")
	}
	if f.Heads = 1; !f.unattended {
		f.Heads = f.positive("num_attention_heads")
	}
	f.KVHeads = cmp.Or(f.int("num_key_value_heads", d.kvHeads), f.Heads)
	f.MaxSeqTokens = f.int("max_position_embeddings", d.maxPositions)
	f.NormEps = f.float32(cmp.Or(d.epsName, "rms_norm_eps"), d.eps)
	f.TiedHead = f.bool("tie_word_embeddings", d.tied)
	inner := cmp.Or(d.inner, "intermediate_size")
	if v, ok := f.member(inner); ok && v.Kind() != jsontext.Array { // else there is one for each layer
		f.Intermediate = f.int(inner, 0)
	}
	f.EOS = get[tokenIDs](f, "eos_token_id", nil)
	if f.HeadDim = f.int("head_dim", d.headDim); f.HeadDim == 0 && f.Heads > 0 {
		f.HeadDim = f.Hidden / f.Heads
	}
	f.Layers = min(f.Layers, maxLayers)
	f.Windows = make([]int, f.Layers)
}

func (f *fields) positive(name string) int {
	n := f.int(name, 0)
	if f.err == nil {
		f.err = f.from.inRange(name, n, maxSize)
	}
	return max(n, 0)
}

// check refuses sizes that make no network, whatever the family is.
func (f *fields) check() {
	for _, s := range []struct {
		name  string
		value int
	}{{"vocab_size", f.VocabSize}, {"hidden_size", f.Hidden}, {"num_hidden_layers", f.Layers}, {"num_attention_heads", f.Heads},
		{"num_key_value_heads", f.KVHeads}, {"head_dim", f.HeadDim}, {"max_position_embeddings", f.MaxSeqTokens}} {
		if f.err == nil {
			f.err = f.from.inRange(s.name, s.value, maxSize)
		}
	}
	switch {
	case f.err != nil:
	case f.Heads%f.KVHeads != 0:
		f.bad("num_attention_heads %d is not a multiple of num_key_value_heads %d", f.Heads, f.KVHeads)
	case !(f.NormEps > 0):
		f.bad("the eps of norms, %v, is not a positive number", f.NormEps)
	case len(f.Network.Layers) != f.Layers:
		f.bad("%d layers are described instead of %d", len(f.Network.Layers), f.Layers)
	default:
		if err := tokenIDs(f.EOS).check(f.VocabSize); err != nil {
			f.bad("%v", err)
		}
	}
	if f.err == nil {
		if err := f.Network.check(&f.Config); err != nil {
			f.bad("%v", err)
		}
	}
}

// layers describes each layer. It sets the names of the embedding and the head, which follow
// from the prefix, and the final norm.
func (f *fields) layers(describe func(i int, l *Layer)) {
	if f.err != nil {
		return
	}
	n := &f.Network
	n.Embed = cmp.Or(n.Embed, f.prefix+"embed_tokens")
	if !n.Final.Is() {
		n.Final = f.norm("norm")
	}
	if n.Final.Name != Unweighted {
		n.Final.Name = f.prefix + n.Final.Name
	}
	for i := range f.Layers {
		l := Layer{At: fmt.Sprintf("%s%s.%d.", f.prefix, cmp.Or(f.below, "layers"), i)}
		describe(i, &l)
		n.Layers = append(n.Layers, l)
	}
}

// norm is an RMSNorm of that name.
func (f *fields) norm(name string) NormSpec { return NormSpec{Name: name, Eps: f.NormEps} }

// norm1 is an RMSNorm whose weights are added to 1.
func (f *fields) norm1(name string) NormSpec {
	return NormSpec{Name: name, Eps: f.NormEps, PlusOne: true}
}

// attention is attention with the usual names, without norms of heads, and with rotary table 0.
func (f *fields) attention() AttentionSpec {
	return AttentionSpec{
		AttentionNames: AttentionNames{Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", O: "self_attn.o_proj"},
		Heads:          f.Heads,
		KVHeads:        f.KVHeads,
		KeyDim:         f.HeadDim,
		ValueDim:       f.HeadDim,
		ShareWith:      -1,
	}
}

// mlp is a gated network with the usual names.
func (f *fields) mlp(inner int) MLPSpec {
	return MLPSpec{Gate: "mlp.gate_proj", Up: "mlp.up_proj", Down: "mlp.down_proj", Inner: inner, Act: f.activation("hidden_act", "silu")}
}

// activation reads the name of an activation, as transformers has it (activations.py, ACT2FN).
func (f *fields) activation(field, otherwise string) Activation {
	name := f.text(field, otherwise)
	kinds := map[string]ActivationKind{"silu": SiLU, "swish": SiLU, "gelu": GELU, "gelu_pytorch_tanh": GELUTanh, "gelu_new": GELUTanh,
		"gelu_fast": GELUTanh, "relu": ReLU, "relu2": ReLUSquared, "sigmoid": Sigmoid, "tanh": Tanh, "xielu": XIELU}
	kind, ok := kinds[name]
	if !ok {
		f.unsupported(field, name, "silu, gelu, gelu_pytorch_tanh, relu, relu2")
	}
	return Activation{Kind: kind}
}

// window sets the window of a layer, also where a reader of the configuration sees it.
func (f *fields) window(layer, n int) int {
	if n < 0 || n > maxSize {
		f.bad("sliding_window %d is not in [0, %d]", n, maxSize)
		return 0
	}
	f.Windows[layer] = n
	return n
}

// isWide reports whether layer i is "full_attention" in layer_types or, if that is not given, as every says:
// each every-th layer is.
func (f *fields) isWide(types []string, i, every int) bool {
	if types == nil {
		return every > 0 && (i+1)%every == 0
	}
	return types[i] == "full_attention"
}

// skipMTP skips layers behind the last, which are for predicting several tokens at a time.
func (f *fields) skipMTP(n int) {
	for i := range n {
		f.Network.Skip = append(f.Network.Skip, fmt.Sprintf("%slayers.%d.", f.prefix, f.Layers+i))
	}
	f.Network.Skip = append(f.Network.Skip, "mtp.", "model.mtp.")
}

// check compares what a description says with itself, before anything is built of it.
func (n *Network) check(c *Config) error {
	for i := range n.Layers {
		for _, m := range n.Layers[i].Mixers {
			a, ok := m.(AttentionSpec)
			if !ok {
				continue
			}
			switch {
			case a.Heads < 1 || a.KVHeads < 1 || a.KeyDim < 1 || a.ValueDim < 1 || a.Heads%a.KVHeads != 0:
				return fmt.Errorf("layer %d has %d heads, %d of keys and values, of %d and %d numbers", i, a.Heads, a.KVHeads, a.KeyDim, a.ValueDim)
			case a.ShareWith >= i:
				return fmt.Errorf("layer %d reads the keys of layer %d, which comes after it", i, a.ShareWith)
			case a.Rope != NoRope && a.Rope >= len(n.Ropes):
				return fmt.Errorf("layer %d has no rotary table", i)
			case a.Rope != NoRope && n.Ropes[a.Rope].Offset+2*len(n.Ropes[a.Rope].InvFreq) > a.KeyDim:
				return fmt.Errorf("layer %d rotates %d of %d dimensions", i, 2*len(n.Ropes[a.Rope].InvFreq), a.KeyDim)
			}
		}
	}
	return nil
}

// checkExperts refuses sizes of experts that make no network.
func (f *fields) checkExperts(e *ExpertsSpec) {
	const most, mostGroups = 1 << 12, 64 // a device has a bit for each group
	switch {
	case f.err != nil:
	case e.Experts < 1 || e.Experts > most:
		f.bad("the number of experts, %d, is not in [1, %d]", e.Experts, most)
	case e.TopK < 1 || e.TopK > e.Experts:
		f.bad("%d experts per token are not in [1, %d]", e.TopK, e.Experts)
	case e.Inner < 1:
		f.bad("the intermediate size of experts is %d", e.Inner)
	case e.Groups > 0 && (e.Experts%e.Groups != 0 || e.Groups > mostGroups || e.TopGroups < 1 || e.TopGroups > e.Groups):
		f.bad("%d of %d groups of %d experts", e.TopGroups, e.Groups, e.Experts)
	}
}

// layerKey is the name of layer i in objects that have an entry for each: its number, with as many
// digits as the greatest one has.
func layerKey(i, layers int) string { return fmt.Sprintf("%0*d", len(fmt.Sprint(layers-1)), i) }
