package model

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

var (
	// ErrConfig says that a config file is missing, malformed or contradicts itself.
	ErrConfig = errors.New("model: bad configuration")
	// ErrUnsupported says that a config asks for something that is not
	// implemented. The message lists what is.
	ErrUnsupported = errors.New("model: not supported")
)

// Config is what a checkpoint's config.json says about the network, with the
// defaults that Hugging Face transformers fills in.
type Config struct {
	Architecture string // as in config.json: one of Architectures()
	VocabSize    int    // V: rows of the embedding and logits per row
	Hidden       int    // D
	Intermediate int    // F
	Layers       int    // L
	Heads        int    // H
	KVHeads      int    // G; divides H
	HeadDim      int    // K; even
	MaxSeqTokens int    // longest sequence the positions were made for
	NormEps      float32
	TiedHead     bool // the embedding is the head too
	QKVBias      bool
	OutBias      bool // of the attention's output product
	MLPBias      bool
	QKNorm       bool    // RMSNorm on each head of Q and K
	Windows      []int   // [L] a position sees itself and the Windows[l]-1 before it; 0: all
	Rope         Rope    // of all layers
	EOS          []int32 // ends of a sequence; generation_config.json may name others
	Network      Network // what all of this says, and for most families more
}

// family is what transformers knows about an architecture besides its config.
type family struct {
	modelType string
	defaults  rawConfig // of fields that a config may leave out
	qkvBias   bool      // always there
	bias      bool      // attention_bias adds biases to all four products
	mlpBias   bool      // mlp_bias means something
	qkNorm    bool
	perLayer  bool // use_sliding_window, max_window_layers and layer_types decide on windows

	gguf  string // the architecture in GGUF files (llama.cpp, src/llama-arch.cpp, LLM_ARCH_NAMES)
	pairs bool   // there, the rows of heads of queries and keys take turns: weights.Tensor.Pairs
}

// families has the defaults of transformers, models/*/configuration_*.py. Sizes have
// defaults there too, those of the 7B model. Here a config without sizes is refused
// as damaged. GGUF files of Mistral models say llama, too, except for later ones.
var families = map[string]family{
	"LlamaForCausalLM": {modelType: "llama", gguf: "llama", pairs: true, bias: true, mlpBias: true,
		defaults: rawConfig{MaxPositionEmbeddings: 2048, EOSTokenID: tokenIDs{2}}},
	"MistralForCausalLM": {modelType: "mistral", gguf: "mistral3", pairs: true,
		defaults: rawConfig{MaxPositionEmbeddings: 131072, NumKeyValueHeads: 8, SlidingWindow: 4096, EOSTokenID: tokenIDs{2}}},
	"Qwen2ForCausalLM": {modelType: "qwen2", gguf: "qwen2", qkvBias: true, perLayer: true,
		defaults: rawConfig{MaxPositionEmbeddings: 32768, NumKeyValueHeads: 32, SlidingWindow: 4096, MaxWindowLayers: 28}},
	"Qwen3ForCausalLM": {modelType: "qwen3", gguf: "qwen3", bias: true, qkNorm: true, perLayer: true,
		defaults: rawConfig{MaxPositionEmbeddings: 32768, NumKeyValueHeads: 32, HeadDim: 128, SlidingWindow: 4096, MaxWindowLayers: 28}},
}

// Architectures lists what config.json may name, sorted.
func Architectures() []string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	for name := range recipes {
		names = append(names, name)
	}
	for name := range wrappers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// rawConfig mirrors config.json. An absent field keeps the family's default. For
// nullable fields null is 0, as transformers has it for None.
type rawConfig struct {
	VocabSize             int      `json:"vocab_size"`
	HiddenSize            int      `json:"hidden_size"`
	IntermediateSize      int      `json:"intermediate_size"`
	NumHiddenLayers       int      `json:"num_hidden_layers"`
	NumAttentionHeads     int      `json:"num_attention_heads"`
	NumKeyValueHeads      int      `json:"num_key_value_heads"` // 0: as many as heads
	HeadDim               int      `json:"head_dim"`            // 0: hidden_size / num_attention_heads
	HiddenAct             string   `json:"hidden_act"`
	MaxPositionEmbeddings int      `json:"max_position_embeddings"`
	RMSNormEps            float64  `json:"rms_norm_eps"`
	TieWordEmbeddings     bool     `json:"tie_word_embeddings"`
	AttentionBias         bool     `json:"attention_bias"`
	MLPBias               bool     `json:"mlp_bias"`
	EOSTokenID            tokenIDs `json:"eos_token_id"`

	SlidingWindow    int      `json:"sliding_window"` // 0: none
	UseSlidingWindow bool     `json:"use_sliding_window"`
	MaxWindowLayers  int      `json:"max_window_layers"`
	LayerTypes       []string `json:"layer_types"`

	rawRope
}

// tokenIDs is null, a token id or a list of them.
type tokenIDs []int32

func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	*t = nil
	var one *int32
	if jsontext.Decode(b, &one) == nil {
		if one != nil {
			*t = tokenIDs{*one}
		}
		return nil
	}
	if jsontext.Decode(b, (*[]int32)(t)) != nil {
		return errors.New("eos_token_id is neither a token id nor a list of them")
	}
	return nil
}

func (t tokenIDs) check(vocab int) error {
	for _, id := range t {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("eos_token_id %d is outside the vocabulary of %d tokens", id, vocab)
		}
	}
	return nil
}

// ParseConfig reads a config.json.
func ParseConfig(b []byte) (Config, error) {
	b = finite(b)
	var head struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
	}
	if err := unmarshal(b, &head); err != nil {
		return Config{}, badConfig("%v", err)
	}
	c, known, err := parseAs(head.Architectures, head.ModelType, b)
	if list := bodies(head.Architectures); !known && list != nil {
		if c, known, err = parseAs(list, "", b); known && err == nil {
			c.dropHead(head.Architectures[0])
		}
	}
	if !known {
		what := fmt.Sprintf("architecture %s", strings.Join(head.Architectures, ", "))
		if len(head.Architectures) == 0 {
			what = fmt.Sprintf("model_type %q", head.ModelType)
		}
		return Config{}, fmt.Errorf("%w: %.200s in config.json (supported: the %d that docs/models.md lists)", ErrUnsupported, what, len(Architectures()))
	}
	return c, err
}

// parseAs reads a config.json as that of the first of the architectures that is known, or of the type if there are none.
func parseAs(architectures []string, modelType string, b []byte) (_ Config, known bool, _ error) {
	for _, a := range architectures {
		if _, ok := wrappers[a]; ok {
			c, err := parseWrapper(a, jsontext.Trim(b))
			return c, true, err
		}
	}
	if arch, r, ok := find(recipes, architectures, func(r recipe) string { return r.modelType }, modelType); ok {
		c, err := readRecipe(arch, r, jsontext.Trim(b), nil)
		return c, true, err
	}
	arch, fam, ok := find(families, architectures, func(f family) string { return f.modelType }, modelType)
	if !ok {
		return Config{}, false, nil
	}
	raw := fam.defaults
	raw.HiddenAct, raw.RMSNormEps = "silu", 1e-6
	if err := unmarshal(b, &raw); err != nil {
		return Config{}, true, badConfig("%v", err)
	}
	raw.clearNulls(jsontext.Trim(b))
	c, err := fam.config(arch, &raw)
	return c, true, err
}

// clearNulls sets the fields to 0 that are null in the file, as None is for transformers.
// The decoder has left the defaults in them.
func (raw *rawConfig) clearNulls(file jsontext.Value) {
	for name, field := range map[string]*int{
		"num_key_value_heads": &raw.NumKeyValueHeads, "head_dim": &raw.HeadDim, "sliding_window": &raw.SlidingWindow,
	} {
		if v := file.Member(name); v != nil && v.Kind() == jsontext.Null {
			*field = 0
		}
	}
}

// find looks for one of the architectures among those of a table, and if there are none for the type.
func find[T any](table map[string]T, architectures []string, typeOf func(T) string, modelType string) (name string, found T, ok bool) {
	for _, a := range architectures {
		if found, ok = table[a]; ok {
			return a, found, true
		}
	}
	for a, x := range table {
		if len(architectures) == 0 && typeOf(x) == modelType {
			return a, x, true
		}
	}
	return "", found, false
}

// bodies are the architectures of the networks of others that have no head or another one, of which models that embed
// and classify are made: Qwen3ForCausalLM of Qwen3Model and of Qwen3ForSequenceClassification.
func bodies(architectures []string) (list []string) {
	for _, a := range architectures {
		for _, end := range []string{"TextModel", "Model", "TextForSequenceClassification", "ForSequenceClassification"} {
			if base, ok := strings.CutSuffix(a, end); ok {
				list = append(list, base+"ForCausalLM")
				break
			}
		}
	}
	return list
}

// dropHead makes c the network without its head, as architecture has it.
func (c *Config) dropHead(architecture string) {
	c.Architecture, c.TiedHead, c.Network.Head, c.Network.HeadBias = architecture, false, NoHead, false
	c.Network.Skip = append(c.Network.Skip, "lm_head.", "score.")
}

func badConfig(format string, args ...any) error {
	return (*origin)(nil).bad(format, args...)
}

// origin is where a rawConfig is from, for messages; nil: a config.json.
type origin struct {
	file  string
	names func(field string) string // what the file calls a field of config.json
}

// name is what the file calls a field of config.json.
func (o *origin) name(field string) string {
	if o == nil {
		return field
	}
	return o.names(field)
}

func (o *origin) path() string {
	if o == nil {
		return "config.json"
	}
	return o.file
}

func (o *origin) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrConfig, o.path(), fmt.Sprintf(format, args...))
}

func (o *origin) unsupported(field string, value any, supported string) error {
	return fmt.Errorf("%w: %s %.200s in %s (supported: %s)", ErrUnsupported, o.name(field), fmt.Sprint(value), o.path(), supported)
}

// unmarshal is jsontext.Decode with messages for people who wrote the file.
func unmarshal(b []byte, into any) error {
	err := jsontext.Decode(b, into)
	if e, ok := errors.AsType[*jsontext.SyntaxError](err); ok {
		return fmt.Errorf("not valid JSON at byte %d: %s", e.Offset, e.Reason)
	}
	if e, ok := errors.AsType[*jsontext.TypeError](err); ok {
		want := map[reflect.Kind]string{
			reflect.Int: "an integer", reflect.Int32: "an integer", reflect.Float32: "a number", reflect.Float64: "a number",
			reflect.Bool: "true or false", reflect.String: "a string", reflect.Slice: "a list", reflect.Struct: "an object",
		}[e.Type.Kind()]
		what := strings.TrimPrefix(e.Field, "rawRope.") // embedded
		if what == "" {
			what = "a value" // the whole file, or inside one of our own types
		}
		return fmt.Errorf("%s is %.60s, not %s", what, e.Value, want)
	}
	return err
}

// These bounds are far above any model, and keep every product of two sizes inside
// an int64.
const (
	maxSize   = 1 << 24 // tokens, columns, positions
	maxLayers = 1 << 12
)

func (f family) config(arch string, raw *rawConfig) (Config, error) {
	if raw.HiddenAct != "silu" && raw.HiddenAct != "swish" { // two names of one function
		return Config{}, raw.from.unsupported("hidden_act", raw.HiddenAct, "silu")
	}
	c := Config{
		Architecture: arch,
		VocabSize:    raw.VocabSize,
		Hidden:       raw.HiddenSize,
		Intermediate: raw.IntermediateSize,
		Layers:       raw.NumHiddenLayers,
		Heads:        raw.NumAttentionHeads,
		KVHeads:      raw.NumKeyValueHeads,
		HeadDim:      raw.HeadDim,
		MaxSeqTokens: raw.MaxPositionEmbeddings,
		NormEps:      float32(raw.RMSNormEps),
		TiedHead:     raw.TieWordEmbeddings,
		QKVBias:      f.qkvBias || f.bias && raw.AttentionBias,
		OutBias:      f.bias && raw.AttentionBias,
		MLPBias:      f.mlpBias && raw.MLPBias,
		QKNorm:       f.qkNorm,
		EOS:          raw.EOSTokenID,
	}
	type size struct {
		name       string
		value, max int
	}
	for _, s := range []size{
		{"vocab_size", c.VocabSize, maxSize},
		{"hidden_size", c.Hidden, maxSize},
		{"intermediate_size", c.Intermediate, maxSize},
		{"num_hidden_layers", c.Layers, maxLayers},
		{"num_attention_heads", c.Heads, maxSize},
		{"max_position_embeddings", c.MaxSeqTokens, maxSize},
	} {
		if err := raw.from.inRange(s.name, s.value, s.max); err != nil {
			return Config{}, err
		}
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 {
		if c.Hidden%c.Heads != 0 {
			return Config{}, raw.from.bad("%s %d is not a multiple of %s %d, and %s is not given", raw.from.name("hidden_size"), c.Hidden, raw.from.name("num_attention_heads"), c.Heads, raw.from.name("head_dim"))
		}
		c.HeadDim = c.Hidden / c.Heads
	}
	if err := raw.from.inRange("num_key_value_heads", c.KVHeads, c.Heads); err != nil {
		return Config{}, err
	}
	if err := raw.from.inRange("head_dim", c.HeadDim, maxSize/c.Heads); err != nil {
		return Config{}, err
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return Config{}, raw.from.bad("%s %d is not a multiple of %s %d", raw.from.name("num_attention_heads"), c.Heads, raw.from.name("num_key_value_heads"), c.KVHeads)
	case c.HeadDim%2 != 0:
		return Config{}, raw.from.bad("%s %d is odd, so its halves cannot be rotated", raw.from.name("head_dim"), c.HeadDim)
	case !(c.NormEps > 0) || math.IsInf(float64(c.NormEps), 0):
		return Config{}, raw.from.bad("%s %v is not a positive number", raw.from.name("rms_norm_eps"), raw.RMSNormEps)
	}
	if err := raw.EOSTokenID.check(c.VocabSize); err != nil {
		return Config{}, raw.from.bad("%v", err)
	}
	var err error
	if c.Windows, err = f.windows(raw); err != nil {
		return Config{}, err
	}
	if c.Rope, c.MaxSeqTokens, err = raw.rope(c.HeadDim, c.MaxSeqTokens); err != nil {
		return Config{}, err
	}
	c.describe()
	return c, nil
}

// describe makes the description of a network whose layers are alike: Llama, Mistral, Qwen2 and Qwen3.
func (c *Config) describe() {
	norm := func(name string) NormSpec { return NormSpec{Name: name, Eps: c.NormEps} }
	c.Network = Network{Final: norm("model.norm"), Ropes: []Rope{c.Rope}}
	for i := range c.Layers {
		a := AttentionSpec{AttentionNames: AttentionNames{Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", O: "self_attn.o_proj"}, Heads: c.Heads, KVHeads: c.KVHeads,
			KeyDim: c.HeadDim, ValueDim: c.HeadDim, QKVBias: c.QKVBias, OutBias: c.OutBias, ShareWith: -1, Window: c.Windows[i]}
		if c.QKNorm {
			a.QNorm, a.KNorm = norm("self_attn.q_norm"), norm("self_attn.k_norm")
		}
		c.Network.Layers = append(c.Network.Layers, Layer{
			At: fmt.Sprintf("model.layers.%d.", i), InNorm: norm("input_layernorm"), Mixers: []Mixer{a}, FeedNorm: norm("post_attention_layernorm"),
			Feeds: []Feed{MLPSpec{Gate: "mlp.gate_proj", Up: "mlp.up_proj", Down: "mlp.down_proj", Inner: c.Intermediate, Bias: c.MLPBias, Act: Activation{Kind: SiLU}}},
		})
	}
}

func (o *origin) inRange(field string, value, limit int) error {
	switch {
	case value == 0:
		return o.bad("%s is missing or 0", o.name(field))
	case value < 0 || value > limit:
		return o.bad("%s %d is not in [1, %d]", o.name(field), value, limit)
	}
	return nil
}

// windows is the attention window of each layer. Llama has none, Mistral has the same
// one in all layers, and Qwen has those that layer_types or max_window_layers choose.
func (f family) windows(raw *rawConfig) ([]int, error) {
	const full, sliding = "full_attention", "sliding_attention"
	window := raw.SlidingWindow
	if f.modelType == "llama" || f.perLayer && !raw.UseSlidingWindow {
		window = 0
	}
	if window < 0 || window > maxSize {
		return nil, raw.from.bad("%s %d is not in [1, %d]", raw.from.name("sliding_window"), window, maxSize)
	}
	if raw.LayerTypes != nil && len(raw.LayerTypes) != raw.NumHiddenLayers {
		return nil, raw.from.bad("layer_types has %d entries for %d layers", len(raw.LayerTypes), raw.NumHiddenLayers)
	}
	windows := make([]int, raw.NumHiddenLayers)
	for i := range windows {
		if !f.perLayer || i >= raw.MaxWindowLayers {
			windows[i] = window
		}
		if raw.LayerTypes == nil {
			continue
		}
		switch t := raw.LayerTypes[i]; {
		case t != full && t != sliding:
			return nil, raw.from.unsupported("layer type", t, full+", "+sliding)
		case t == sliding && window == 0:
			return nil, raw.from.bad("layer_types makes layer %d %s, but no sliding_window is in use", i, sliding)
		case t == full && window != 0 && !f.perLayer:
			return nil, raw.from.unsupported("layer type", t, "the same sliding_window in all layers of "+f.modelType)
		case t == full:
			windows[i] = 0
		default:
			windows[i] = window
		}
	}
	return windows, nil
}
