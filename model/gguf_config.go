package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weir/weights"
	"weir/weights/gguf"
)

// ggufFields has, for fields of config.json, the keys of GGUF files that say the same, which stand
// behind the name of the architecture: llama.block_count (ggml, docs/gguf.md; llama.cpp,
// src/llama-arch.cpp, LLM_KV_NAMES).
var ggufFields = map[string]string{
	"vocab_size":                       "vocab_size",
	"hidden_size":                      "embedding_length",
	"intermediate_size":                "feed_forward_length",
	"num_hidden_layers":                "block_count",
	"num_attention_heads":              "attention.head_count",
	"num_key_value_heads":              "attention.head_count_kv",
	"head_dim":                         "attention.key_length",
	"max_position_embeddings":          "context_length",
	"rms_norm_eps":                     "attention.layer_norm_rms_epsilon",
	"sliding_window":                   "attention.sliding_window",
	"rope_theta":                       "rope.freq_base",
	"rope type":                        "rope.scaling.type",
	"original_max_position_embeddings": "rope.scaling.original_context_length",
}

// ggufWithoutEffect are keys that change no logit of the networks that are known here, whatever
// their value is.
var ggufWithoutEffect = []string{
	"vocab_size",                                                          // the embedding has as many rows as there are tokens
	"tensor_data_layout",                                                  // what every file has
	"rope.scaling.finetuned",                                              // a remark
	"attention.layer_norm_epsilon",                                        // of a norm that these networks do not have
	"pooling_type", "classifier.output_labels", "classifier.pooling_type", // of what follows the network
	"rope.dimension_sections", // axes of positions, which are the same for text
	"n_deepstack_layers",      // to which parts of images are added
	// Of layers with a window in networks that have layers without one, too.
	"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa", "rope.freq_base_swa",
}

// ggufLike are architectures that are others for text: their networks also see.
var ggufLike = map[string]string{"qwen2vl": "qwen2", "qwen3vl": "qwen3", "qwen3vlmoe": "qwen3moe"}

// ggufModel reads a model from a GGUF file. Its getters remember the first error.
type ggufModel struct {
	path    string
	arch    string // as llama.cpp calls it
	name    string // as Hugging Face calls it
	family  family
	recipe  *ggufRecipe // nil: the network's layers are alike
	meta    *gguf.Metadata
	tensors map[string]weights.Tensor
	order   []string        // names of tensors
	read    map[string]bool // keys, without the architecture
	err     error
}

func newGGUFModel(path string, f *gguf.File) (*ggufModel, error) {
	g := &ggufModel{path: path, meta: &f.Metadata, tensors: map[string]weights.Tensor{}, read: map[string]bool{}}
	v, ok := g.meta.Value("general.architecture")
	if !ok {
		return nil, g.bad("the key general.architecture is missing")
	}
	var err error
	if g.arch, err = v.Text(); err != nil {
		return nil, g.bad("the key general.architecture %v", err)
	}
	arch := g.arch
	if other, ok := ggufLike[arch]; ok {
		arch = other
	}
	known := slices.Collect(maps.Keys(ggufLike))
	for name, fam := range families {
		known = append(known, fam.gguf)
		if fam.gguf == arch {
			g.name, g.family = name, fam
		}
	}
	for name := range ggufRecipes {
		if name != "llama" && name != "mistral3" { // which are listed
			known = append(known, name)
		}
	}
	if r, ok := ggufRecipes[arch]; ok && (g.name == "" || g.int("expert_count") > 0 || g.arch == "mistral3" && g.positive("attention.temperature_scale") != nil) {
		g.name, g.recipe = r.arch, &r
	}
	if g.name == "" {
		return nil, fmt.Errorf("%w: %s: general.architecture %.100q (supported: the %d that docs/models.md lists)", ErrUnsupported, path, g.arch, len(known))
	}
	for _, t := range f.Tensors() {
		g.tensors[t.Name] = t
		g.order = append(g.order, t.Name)
	}
	if len(g.order) == 0 {
		return nil, g.bad("the file has metadata but no tensors")
	}
	return g, nil
}

func (g *ggufModel) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrConfig, g.path, fmt.Sprintf(format, args...))
}

// value finds the value of a key of the architecture.
func (g *ggufModel) value(key string) (gguf.Value, bool) {
	g.read[key] = true
	return g.meta.Value(g.arch + "." + key)
}

// wrong remembers that a value cannot be used.
func (g *ggufModel) wrong(key string, err error) {
	if err != nil && g.err == nil {
		g.err = g.bad("the key %s.%s %v", g.arch, key, err)
	}
}

// int is the integer of a key, or 0. A list with a number for each layer will do if they are equal.
func (g *ggufModel) int(key string) int {
	v, ok := g.value(key)
	if !ok {
		return 0
	}
	n, err := v.Int()
	if list, notList := v.Ints(); notList == nil && len(list) > 0 {
		if err = nil; slices.Min(list) != slices.Max(list) {
			err = fmt.Errorf("differs between layers, from %d to %d", slices.Min(list), slices.Max(list))
		}
		n = int64(list[0])
	}
	g.wrong(key, err)
	return int(min(max(n, -1), math.MaxInt32))
}

// greatest is the greatest number of a key's list with one for each layer, or its only one.
func (g *ggufModel) greatest(key string) int {
	if list := g.list(key); len(list) > 0 {
		return slices.Max(list)
	}
	return g.int(key)
}

// list has the numbers of a key for each layer; nil: there is one for all, or none.
func (g *ggufModel) list(key string) []int {
	v, ok := g.value(key)
	if !ok {
		return nil
	}
	var list []int
	if numbers, err := v.Ints(); err == nil {
		for _, n := range numbers {
			list = append(list, int(n))
		}
	}
	return list
}

// float is the number of a key; nil if it is missing.
func (g *ggufModel) float(key string) *float64 {
	v, ok := g.value(key)
	if !ok {
		return nil
	}
	f, err := v.Float()
	g.wrong(key, err)
	return &f
}

// positive is float without what stands for nothing.
func (g *ggufModel) positive(key string) *float64 {
	f := g.float(key)
	if f == nil || *f == 0 {
		return nil
	}
	return f
}

func (g *ggufModel) text(key string) string {
	v, ok := g.value(key)
	if !ok {
		return ""
	}
	s, err := v.Text()
	g.wrong(key, err)
	return s
}

// config makes a Config of the metadata and of which tensors there are. What a file says that
// the network cannot do is refused, and so is what nobody here knows.
func (g *ggufModel) config() (Config, error) {
	embed, ok := g.tensors["token_embd.weight"]
	if !ok || len(embed.Shape) != 2 {
		return Config{}, g.bad("the tensor token_embd.weight is missing or not a matrix: the file holds no whole network")
	}
	raw := rawConfig{
		VocabSize:             min(embed.Shape[0], math.MaxInt32),
		HiddenSize:            g.int("embedding_length"),
		IntermediateSize:      g.int("feed_forward_length"),
		NumHiddenLayers:       g.int("block_count"),
		NumAttentionHeads:     g.int("attention.head_count"),
		NumKeyValueHeads:      g.int("attention.head_count_kv"),
		HeadDim:               g.int("attention.key_length"),
		MaxPositionEmbeddings: g.int("context_length"),
		SlidingWindow:         g.int("attention.sliding_window"),
		HiddenAct:             "silu",
		EOSTokenID:            g.ends(embed.Shape[0]),
	}
	if eps := g.float("attention.layer_norm_rms_epsilon"); eps != nil {
		raw.RMSNormEps = *eps
	}
	raw.rawRope = g.rope()
	raw.from = &origin{g.path, g.field}
	g.refuse(&raw)
	if g.err != nil {
		return Config{}, g.err
	}
	fam := g.family
	if raw.SlidingWindow > 0 {
		if fam.perLayer {
			return Config{}, g.bad("the key %s is %d, but which layers have that window is not said", g.field("sliding_window"), raw.SlidingWindow)
		}
		fam = families["MistralForCausalLM"] // a window in every layer
	}
	c, err := fam.config(g.name, &raw)
	if err != nil {
		return Config{}, err
	}
	_, head := g.tensors["output.weight"]
	c.TiedHead = !head
	c.QKVBias = g.hasAny("blk.0.attn_q.bias", "blk.0.attn_qkv.bias")
	c.OutBias = g.hasAny("blk.0.attn_output.bias")
	c.MLPBias = g.hasAny("blk.0.ffn_gate.bias", "blk.0.ffn_up.bias", "blk.0.ffn_down.bias")
	if err := g.checkHeads(&c); err != nil {
		return Config{}, err
	}
	if err := g.scaleRope(&c); err != nil {
		return Config{}, err
	}
	c.describe()
	g.headless(&c)
	return c, nil
}

// field is what the file calls a field of config.json.
func (g *ggufModel) field(field string) string {
	if key, ok := ggufFields[field]; ok {
		return g.arch + "." + key
	}
	return field
}

func (g *ggufModel) hasAny(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := g.tensors[name]; return ok })
}

// checkHeads compares the sizes of parts of heads, which are equal in these networks.
func (g *ggufModel) checkHeads(c *Config) error {
	for _, key := range []string{"attention.value_length", "rope.dimension_count"} {
		if n := g.int(key); n != 0 && n != c.HeadDim {
			return fmt.Errorf("%w: %s: the key %s.%s is %d (supported: the head size, which is %d)", ErrUnsupported, g.path, g.arch, key, n, c.HeadDim)
		}
	}
	return g.err
}

// rope translates the keys about rotary embeddings. A factor without a type is linear.
func (g *ggufModel) rope() rawRope {
	r := rawRope{RopeTheta: g.float("rope.freq_base")}
	kind, factor := g.text("rope.scaling.type"), g.positive("rope.scaling.factor")
	if older := g.positive("rope.scale_linear"); factor == nil {
		factor = older
	}
	original := g.positive("rope.scaling.original_context_length")
	yarn := ropeParameters{
		BetaFast:        g.float("rope.scaling.yarn_beta_fast"),
		BetaSlow:        g.float("rope.scaling.yarn_beta_slow"),
		AttentionFactor: g.float("rope.scaling.yarn_attn_factor"),
		MScaleAllDim:    g.positive("rope.scaling.yarn_log_multiplier"),
	}
	g.neutral("rope.scaling.yarn_ext_factor", -1, 1)
	if !g.hasAny(shortFactors) {
		g.neutral("rope.scaling.attn_factor", 1)
	}
	if kind == "" && factor != nil {
		kind = "linear"
	}
	switch {
	case kind == "" || kind == "none" || kind == "linear" && factor == nil:
		return r
	case kind == "yarn":
		if yarn.MScaleAllDim != nil {
			yarn.MScale = new(1.0)
		}
		r.RopeScaling = &yarn
	default:
		r.RopeScaling = &ropeParameters{}
	}
	r.RopeScaling.RopeType, r.RopeScaling.Factor, r.RopeScaling.OriginalMax = kind, factor, original
	return r
}

// neutral refuses a number of a key that is not one of those that change nothing.
func (g *ggufModel) neutral(key string, values ...float64) {
	if f := g.float(key); f != nil && !slices.Contains(values, *f) {
		g.wrong(key, fmt.Errorf("is %v, which is not supported", *f))
	}
}

// scaleRope divides the frequencies by the factors that are stored as a tensor, as Llama 3.1 and
// later ones have them (llama.cpp, ggml_rope_ext).
func (g *ggufModel) scaleRope(c *Config) error {
	t, ok := g.tensors[ropeFactors]
	if !ok || !g.family.pairs {
		return nil // where it is not used it is not expected
	}
	if t.DType != weights.F32 || !slices.Equal(t.Shape, []int{len(c.Rope.InvFreq)}) {
		return g.bad("the tensor %s is %v of %d, not float32 of [%d]", ropeFactors, t.DType, t.Shape, len(c.Rope.InvFreq))
	}
	if c.Rope.Scale != 1 {
		return fmt.Errorf("%w: %s: the tensor %s beside rope.scaling.type yarn", ErrUnsupported, g.path, ropeFactors)
	}
	factors := make([]float32, len(c.Rope.InvFreq))
	t.Widen(factors, 0, 0)
	for i, f := range factors {
		if !(f > 0 && f <= math.MaxFloat32) {
			return g.bad("factor %d of the tensor %s is %v, not a positive number", i, ropeFactors, f)
		}
		c.Rope.InvFreq[i] /= f
	}
	return nil
}

const (
	ropeFactors  = "rope_freqs.weight"
	longFactors  = "rope_factors_long.weight" // of LongRoPE
	shortFactors = "rope_factors_short.weight"
)

// ends are the tokens that end a sequence. One that is not in the vocabulary is passed over, as in
// llama.cpp: it can never be drawn.
func (g *ggufModel) ends(vocab int) (ids tokenIDs) {
	for _, name := range []string{"eos", "eot", "eom"} {
		key := "tokenizer.ggml." + name + "_token_id"
		v, ok := g.meta.Value(key)
		if !ok {
			continue
		}
		n, err := v.Int()
		if err != nil && g.err == nil {
			g.err = g.bad("the key %s %v", key, err)
		}
		if n >= 0 && n < int64(vocab) && !slices.Contains(ids, int32(n)) {
			ids = append(ids, int32(n))
		}
	}
	return ids
}

// refuse looks for keys whose meaning the network does not have.
func (g *ggufModel) refuse(raw *rawConfig) {
	for _, key := range []string{"attention.value_length", "rope.dimension_count"} { // checkHeads reads them
		g.read[key] = true
	}
	if n := g.int("expert_count"); n > 0 && g.err == nil {
		g.err = fmt.Errorf("%w: %s: the key %s.expert_count is %d (supported: networks without experts)", ErrUnsupported, g.path, g.arch, n)
	}
	if act := g.text("hidden_activation"); act != "" {
		raw.HiddenAct = act
	}
	g.refuseUnknown(false)
}

// refuseUnknown remembers an error if there is a key that nobody has read and that may have an effect. whole says that every position of
// the network sees all others.
func (g *ggufModel) refuseUnknown(whole bool) {
	for _, key := range ggufWithoutEffect {
		g.read[key] = true
	}
	if v, ok := g.value("attention.causal"); ok {
		if causal, err := v.Bool(); err != nil || causal == whole {
			g.wrong("attention.causal", fmt.Errorf("is %v (supported: %v)", v, !whole))
		}
	}
	for _, key := range g.meta.Keys() {
		rest, ours := strings.CutPrefix(key, g.arch+".")
		if v, _ := g.meta.Value(key); ours && !g.read[rest] && !v.Zero() && g.err == nil {
			g.err = fmt.Errorf("%w: %s: the key %s is %v, and what it would change is not known here", ErrUnsupported, g.path, plain(key), v)
		}
	}
}

// generation translates the sampling parameters that a file proposes.
func (g *ggufModel) generation(c Config) (GenerationDefaults, error) {
	raw := rawGeneration{EOS: c.EOS}
	for key, into := range map[string]**float32{
		"temp": &raw.Temperature, "top_p": &raw.TopP, "min_p": &raw.MinP, "penalty_repeat": &raw.RepetitionPenalty,
	} {
		if f, ok := g.meta.Float("general.sampling." + key); ok {
			*into = new(float32(f))
		}
	}
	if n, ok := g.meta.Int("general.sampling.top_k"); ok {
		raw.TopK = new(int(min(max(n, -2), math.MaxInt32)))
	}
	return raw.defaults(c, g.bad)
}

// ggufNames are the names of tensors beside those of transformers (llama.cpp, src/llama-arch.cpp,
// LLM_TENSOR_NAMES). In names of layers, the number of the layer follows blk. and model.layers.
var (
	ggufTensors = map[string]string{
		"token_embd.weight":  embedName,
		"output_norm.weight": "model.norm.weight",
		"output.weight":      headName,
		"cls.output.weight":  "cls.output.weight",
	}
	ggufLayerTensors = map[string]string{
		"attn_norm":   "input_layernorm",
		"attn_q":      "self_attn.q_proj",
		"attn_k":      "self_attn.k_proj",
		"attn_v":      "self_attn.v_proj",
		"attn_q_norm": "self_attn.q_norm",
		"attn_k_norm": "self_attn.k_norm",
		"attn_output": "self_attn.o_proj",
		"ffn_norm":    "post_attention_layernorm",
		"ffn_gate":    "mlp.gate_proj",
		"ffn_up":      "mlp.up_proj",
		"ffn_down":    "mlp.down_proj",
	}
	transformersTensors      = inverse(ggufTensors)
	transformersLayerTensors = inverse(ggufLayerTensors)
)

func inverse(m map[string]string) map[string]string {
	n := map[string]string{}
	for k, v := range maps.All(m) {
		n[v] = k
	}
	return n
}
