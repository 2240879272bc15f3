package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/weights"
)

// ggufRecipe says how a GGUF file has a family of recipes. Its metadata become the fields of a
// config.json, and its tensors get the names that the recipe has (llama.cpp, src/llama-arch.cpp, and
// conversion/*.py for what is done to tensors).
type ggufRecipe struct {
	arch     string                                    // as Hugging Face calls it
	fields   func(g *ggufModel, fields map[string]any) // beside those that all have
	names    map[string]string                         // of tensors of layers: with the kind (.weight) or without
	whole    map[string]string                         // of other tensors, with the kind
	pairs    bool                                      // the rows of heads of queries and keys take turns
	lists    bool                                      // keys may have a number for each layer, at which fields looks
	encoder  bool                                      // every position sees all others
	describe func(g *ggufModel, n *Network)            // what the description has in another way
	// parts makes tensors of one, after it got its name; nil: there is nothing to do.
	parts func(t weights.Tensor) []weights.Tensor
}

// ggufExperts are the names of experts in a description of a network in a GGUF file, and of their
// tensors there.
var ggufExperts = map[string]string{
	"ffn_gate_exps.weight":    "experts.gate",
	"ffn_up_exps.weight":      "experts.up",
	"ffn_down_exps.weight":    "experts.down",
	"ffn_gate_up_exps.weight": "experts.gate_up",
	"ffn_gate_exps.bias":      "experts.gate_bias",
	"ffn_up_exps.bias":        "experts.up_bias",
	"ffn_down_exps.bias":      "experts.down_bias",
}

// shared are the names of a shared expert, and of the router.
func ggufNamesOf(router, shared string, more ...string) map[string]string {
	m := maps.Clone(ggufExperts)
	m["ffn_gate_inp"] = router
	for _, part := range []string{"gate", "up", "down"} {
		m["ffn_"+part+"_shexp"] = shared + part + "_proj"
	}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

var ggufRecipes = map[string]ggufRecipe{
	"qwen2moe": {arch: "Qwen2MoeForCausalLM", names: ggufNamesOf("mlp.gate", "mlp.shared_expert.", "ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
		fields: func(g *ggufModel, f map[string]any) {
			f["shared_expert_intermediate_size"] = g.int("expert_shared_feed_forward_length")
		}},
	"qwen3moe": {arch: "Qwen3MoeForCausalLM", names: ggufNamesOf("mlp.gate", ""),
		fields: func(_ *ggufModel, f map[string]any) { f["norm_topk_prob"] = true }}, // in all that were published
	"gpt-oss": {arch: "GptOssForCausalLM", names: ggufNamesOf("mlp.router", "", "post_attention_norm", "post_attention_layernorm", "attn_sinks.weight", "self_attn.sinks")},
	"gemma2": {arch: "Gemma2ForCausalLM", names: gemmaNames, describe: withOnes, fields: func(g *ggufModel, f map[string]any) {
		// The scale of queries follows from the size, as in llama.cpp: the 27B model has one of its own.
		f["query_pre_attn_scalar"] = f["head_dim"]
		if layers, _ := f["num_hidden_layers"].(int); layers == 46 {
			f["query_pre_attn_scalar"] = float64(f["hidden_size"].(int)) / float64(max(f["num_attention_heads"].(int), 1))
		}
		g.copyFloats(f, "attn_logit_softcapping", "final_logit_softcapping")
	}},
	"gemma3": {arch: "Gemma3ForCausalLM", names: gemmaNames, describe: withOnes, fields: func(g *ggufModel, f map[string]any) {
		f["query_pre_attn_scalar"] = f["head_dim"]
		if layers, _ := f["num_hidden_layers"].(int); layers == 62 {
			f["query_pre_attn_scalar"] = float64(f["hidden_size"].(int)) / float64(max(f["num_attention_heads"].(int), 1))
		}
		g.copyFloats(f, "final_logit_softcapping")
		if local := g.float("rope.freq_base_swa"); local != nil {
			f["rope_local_base_freq"] = *local
		}
		if every := g.int("attention.sliding_window_pattern"); every > 0 {
			f["sliding_window_pattern"] = every
		}
	}},
	"seed_oss": {arch: "SeedOssForCausalLM", names: map[string]string{"post_attention_norm": "post_attention_layernorm"}},
	"smollm3":  {arch: "SmolLM3ForCausalLM", pairs: true},
	"olmo2":    {arch: "Olmo2ForCausalLM", names: postNames, fields: olmoFields},
	"exaone4": {arch: "Exaone4ForCausalLM", names: postNames, fields: func(g *ggufModel, f map[string]any) {
		if types := g.windowTypes(f); types != nil {
			f["layer_types"] = types
		}
	}},
	"glm4": {arch: "Glm4ForCausalLM", names: map[string]string{"ffn_up": "mlp.gate_up_proj", "post_ffw_norm": "post_mlp_layernorm", "post_attention_norm": "post_self_attn_layernorm"},
		fields: func(_ *ggufModel, f map[string]any) { f["attention_bias"] = false }},
	"phi3": {arch: "Phi3ForCausalLM", fields: phiFields, names: map[string]string{"ffn_up": "mlp.gate_up_proj", "attn_qkv": "self_attn.qkv_proj"}},
	"starcoder2": {arch: "Starcoder2ForCausalLM", names: map[string]string{"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}, whole: map[string]string{"output_norm.bias": "model.norm.bias"},
		fields: func(g *ggufModel, f map[string]any) { f["norm_epsilon"] = g.float("attention.layer_norm_epsilon") }},
	"granite":    {arch: "GraniteForCausalLM", pairs: true, fields: graniteFields},
	"granitemoe": {arch: "GraniteMoeForCausalLM", pairs: true, fields: graniteFields, names: ggufNamesOf("block_sparse_moe.router.layer", "")},
	"ernie4_5":   {arch: "Ernie4_5ForCausalLM"},
	"ernie4_5-moe": {arch: "Ernie4_5_MoeForCausalLM", names: ggufNamesOf("mlp.gate", "mlp.shared_experts.", "exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias"),
		fields: func(g *ggufModel, f map[string]any) {
			f["moe_num_experts"], f["moe_k"], f["moe_intermediate_size"] = g.int("expert_count"), g.int("expert_used_count"), g.int("expert_feed_forward_length")
			f["moe_num_shared_experts"], f["moe_layer_interval"], f["moe_layer_start_index"] = g.int("expert_shared_count"), g.int("interleave_moe_layer_step"), g.int("leading_dense_block_count")
			g.int("expert_shared_feed_forward_length") // the product of two of these
		}},
	"glm4moe": {arch: "Glm4MoeForCausalLM", fields: func(g *ggufModel, f map[string]any) {
		f["use_qk_norm"] = g.hasAny("blk.0.attn_q_norm.weight")
		g.deepseekFields(f)
	}, names: ggufNamesOf("mlp.gate", "mlp.shared_experts.", "exp_probs_b.bias", "mlp.gate.e_score_correction_bias", "post_attention_norm", "post_attention_layernorm")},
	"deepseek2": {arch: "DeepseekV3ForCausalLM", names: ggufNamesOf("mlp.gate", "mlp.shared_experts.", "exp_probs_b.bias", "mlp.gate.e_score_correction_bias",
		"attn_q_a", "self_attn.q_a_proj", "attn_q_a_norm", "self_attn.q_a_layernorm", "attn_q_b", "self_attn.q_b_proj", "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa",
		"attn_kv_a_norm", "self_attn.kv_a_layernorm", "attn_kv_b", "self_attn.kv_b_proj", "attn_k_b", "self_attn.k_b", "attn_v_b", "self_attn.v_b"),
		fields: func(g *ggufModel, f map[string]any) {
			g.latentFields(f)
			g.deepseekFields(f)
			if g.int("expert_count") == 0 {
				g.name = "YoutuForCausalLM"
			}
		}},
	// Mixtral, whose files say llama.
	"llama": {arch: "MixtralForCausalLM", pairs: true, names: ggufNamesOf("block_sparse_moe.gate", "")},
}

// gemmaNames are the four norms of a layer of Gemma.
var gemmaNames = map[string]string{"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}

// postNames are norms behind the parts of a layer.
var postNames = map[string]string{"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}

func graniteFields(g *ggufModel, f map[string]any) {
	for key, field := range map[string]string{"attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling"} {
		if x := g.float(key); x != nil {
			f[field] = *x
		}
	}
	for _, key := range []string{"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.inner_size", "ssm.time_step_rank"} {
		g.int(key) // which is written for Granite 4 without Mamba layers, too
	}
	if !g.in("ffn_up_shexp.weight") {
		g.int("expert_shared_feed_forward_length")
	}
}

// copyFloats copies numbers whose keys and fields have one name.
func (g *ggufModel) copyFloats(f map[string]any, names ...string) {
	for _, name := range names {
		if x := g.float(name); x != nil {
			f[name] = *x
		}
	}
}

// deepseekFields translates the keys about the choice of experts. Which layers have some follows from
// the tensors.
func (g *ggufModel) deepseekFields(f map[string]any) {
	for key, field := range map[string]string{"expert_group_count": "n_group", "expert_group_used_count": "topk_group", "expert_shared_count": "n_shared_experts"} {
		f[field] = g.int(key)
	}
	f["n_routed_experts"] = g.int("expert_count")
	f["routed_scaling_factor"] = 1.0
	if x := g.positive("expert_weights_scale"); x != nil {
		f["routed_scaling_factor"] = *x
	}
	f["norm_topk_prob"] = false
	if v, ok := g.value("expert_weights_norm"); ok {
		norm, err := v.Bool()
		g.wrong("expert_weights_norm", err)
		f["norm_topk_prob"] = norm
	}
	sigmoid := slices.ContainsFunc(g.order, func(name string) bool { return strings.HasSuffix(name, ".exp_probs_b.bias") })
	if kind := g.int("expert_gating_func"); kind != 0 && (kind == 2) != sigmoid { // llama.cpp, LLAMA_EXPERT_GATING_FUNC_TYPE
		g.wrong("expert_gating_func", fmt.Errorf("is %d, which does not go with the tensors", kind))
	}
	if g.arch == "deepseek2" && !sigmoid {
		g.name = "DeepseekV2ForCausalLM"
		if groups, _ := f["n_group"].(int); groups > 1 {
			f["topk_method"] = "group_limited_greedy"
		}
	}
	g.int("leading_dense_block_count")
	f["mlp_layer_types"] = g.feedTypes(f)
}

// latentFields translates the keys about latent attention.
func (g *ggufModel) latentFields(f map[string]any) {
	rope := g.int("rope.dimension_count")
	f["kv_lora_rank"], f["qk_rope_head_dim"] = g.int("attention.kv_lora_rank"), rope
	f["q_lora_rank"] = nil
	if rank := g.int("attention.q_lora_rank"); rank > 0 {
		f["q_lora_rank"] = rank
	}
	key, value := g.int("attention.key_length_mla"), g.int("attention.value_length_mla")
	if key == 0 { // files made before keys and values had been taken apart
		key, value = g.int("attention.key_length"), g.int("attention.value_length")
	}
	f["qk_nope_head_dim"], f["v_head_dim"] = key-rope, value
	delete(f, "head_dim")
	f["num_key_value_heads"] = f["num_attention_heads"]
	p, _ := f["rope_parameters"].(map[string]any)
	delete(p, "partial_rotary_factor")
	if x := g.positive("rope.scaling.yarn_log_multiplier"); x != nil {
		// The converter multiplies mscale_all_dim by 0.1, which is in the formula.
		p["mscale_all_dim"], p["mscale"] = *x*10, *x*10
	}
}

// latentApart says that the parts of kv_b_proj that make keys and values are tensors of their own.
func (n *Network) latentApart() {
	for i := range n.Layers {
		for k, m := range n.Layers[i].Mixers {
			if l, ok := m.(LatentSpec); ok {
				l.KB, l.VB = "self_attn.k_b", "self_attn.v_b"
				n.Layers[i].Mixers[k] = l
			}
		}
	}
}

// withOnes says that norms are stored with the 1 that is added to them.
func withOnes(_ *ggufModel, n *Network) {
	n.Final.PlusOne = false
	for i := range n.Layers {
		l := &n.Layers[i]
		for _, s := range []*NormSpec{&l.InNorm, &l.MixNorm, &l.FeedNorm, &l.OutNorm} {
			s.PlusOne = false
		}
		for k, m := range l.Mixers {
			if a, ok := m.(AttentionSpec); ok {
				a.QNorm.PlusOne, a.KNorm.PlusOne = false, false
				l.Mixers[k] = a
			}
		}
	}
}

// recipeConfig makes a Config of the metadata of a file of one of the recipes.
func (g *ggufModel) recipeConfig(r ggufRecipe) (Config, error) {
	embed, ok := g.tensors["token_embd.weight"]
	if !ok || len(embed.Shape) != 2 {
		return Config{}, g.bad("the tensor token_embd.weight is missing or not a matrix: the file holds no whole network")
	}
	_, head := g.tensors["output.weight"]
	f := map[string]any{"vocab_size": embed.Shape[0], "tie_word_embeddings": !head, "eos_token_id": []int32(g.ends(embed.Shape[0]))}
	read := g.int
	if r.lists {
		read = g.greatest
	}
	for key, fields := range ggufRecipeInts {
		if n := read(key); n != 0 {
			for _, field := range fields {
				f[field] = n
			}
		}
	}
	if eps := g.float("attention.layer_norm_rms_epsilon"); eps != nil {
		f["rms_norm_eps"] = *eps
	}
	if more := g.int("nextn_predict_layers"); more > 0 {
		layers, _ := f["num_hidden_layers"].(int)
		f["num_hidden_layers"] = layers - more // the others predict several tokens at a time
	}
	if layers, _ := f["num_hidden_layers"].(int); layers > len(g.order) {
		return Config{}, g.bad("the key %s.block_count is %d, and the file has %d tensors", g.arch, layers, len(g.order))
	}
	if heads, _ := f["num_attention_heads"].(int); f["head_dim"] == nil && heads > 0 {
		hidden, _ := f["hidden_size"].(int)
		f["head_dim"] = hidden / heads
	}
	g.recipeRope(f)
	if r.fields != nil {
		r.fields(g, f)
	}
	f["attention_bias"] = g.hasAny("blk.0.attn_q.bias", "blk.0.attn_qkv.bias")
	f["attention_out_bias"] = g.hasAny("blk.0.attn_output.bias")
	g.int("attention.value_length")
	g.refuseUnknown(r.encoder)
	if g.err != nil {
		return Config{}, g.err
	}
	b, err := jsontext.Encode(f)
	if err != nil {
		return Config{}, g.bad("%v", err)
	}
	c, err := readRecipe(g.name, recipes[g.name], jsontext.Trim(b), &origin{g.path, func(field string) string { return field }})
	if err != nil {
		return Config{}, err
	}
	g.expertsApart(&c.Network)
	c.Network.decaysStored()
	if slices.ContainsFunc(g.order, func(name string) bool { return strings.HasSuffix(name, ".attn_k_b.weight") }) {
		c.Network.latentApart()
	}
	if r.describe != nil {
		r.describe(g, &c.Network)
	}
	g.headless(&c)
	return c, g.err
}

// ggufRecipeInts are keys of GGUF files, and the fields of config.json that say the same in one family
// or another.
var ggufRecipeInts = map[string][]string{
	"embedding_length":           {"hidden_size"},
	"feed_forward_length":        {"intermediate_size"},
	"block_count":                {"num_hidden_layers"},
	"attention.head_count":       {"num_attention_heads"},
	"attention.head_count_kv":    {"num_key_value_heads"},
	"attention.key_length":       {"head_dim"},
	"context_length":             {"max_position_embeddings"},
	"attention.sliding_window":   {"sliding_window"},
	"expert_count":               {"num_experts", "num_local_experts"},
	"expert_used_count":          {"num_experts_per_tok"},
	"expert_feed_forward_length": {"moe_intermediate_size"},
}

// recipeRope translates the keys about rotary embeddings.
func (g *ggufModel) recipeRope(f map[string]any) {
	r := g.rope()
	p := map[string]any{"rope_type": "default"}
	if r.RopeTheta != nil {
		p["rope_theta"] = *r.RopeTheta
	}
	if s := r.RopeScaling; s != nil {
		p["rope_type"] = s.RopeType
		for name, x := range map[string]*float64{"factor": s.Factor, "original_max_position_embeddings": s.OriginalMax, "beta_fast": s.BetaFast, "beta_slow": s.BetaSlow,
			"attention_factor": s.AttentionFactor, "mscale": s.MScale, "mscale_all_dim": s.MScaleAllDim} {
			if x != nil {
				p[name] = *x
			}
		}
		p["truncate"] = g.arch != "gpt-oss"
	}
	head, _ := f["head_dim"].(int)
	if n := g.int("rope.dimension_count"); n > 0 && head > 0 { // also if it is all of it: some families rotate less
		p["partial_rotary_factor"] = float64(n) / float64(head)
	}
	f["rope_parameters"] = p
}

// expertsApart makes the experts of all layers those of a GGUF file.
func (g *ggufModel) expertsApart(n *Network) {
	for i := range n.Layers {
		for k, f := range n.Layers[i].Feeds {
			if e, ok := f.(ExpertsSpec); ok {
				e.Layout, e.EitherWay = StackedApart, false
				e.Gate, e.Up, e.DownAll = "experts.gate", "experts.up", "experts.down"
				if e.Plain {
					e.Gate = ""
				}
				if g.hasAny(fmt.Sprintf("blk.%d.ffn_gate_up_exps.weight", i)) {
					e.Layout, e.GateUp = Stacked, "experts.gate_up"
				}
				n.Layers[i].Feeds[k] = e
			}
		}
	}
}

// recipeTensors names the tensors of a file of one of the recipes.
func (g *ggufModel) recipeTensors(r ggufRecipe, c *Config) ([]weights.Tensor, error) {
	var all []weights.Tensor
	var extra []string
	for _, name := range g.order {
		if g.passedOver(name, c) {
			continue
		}
		t := g.tensors[name]
		if t.Name = g.recipeName(r, name); t.Name == "" {
			extra = append(extra, name)
			continue
		}
		t.Shape = recurrentShape(name, &t)
		if r.parts != nil {
			all = append(all, r.parts(t)...)
		} else {
			all = append(all, t)
		}
	}
	if len(extra) > 0 {
		return nil, fmt.Errorf("%w: %s: not expected: %s", ErrMismatch, g.path, some(extra))
	}
	if g.hasAny(ropeFactors) {
		if err := g.scaleRecipeRope(c); err != nil {
			return nil, err
		}
	}
	if !r.pairs {
		return all, nil
	}
	for i := range all {
		if err := g.pair(&all[i], c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// passedOver reports whether a tensor is none of the network's parameters: factors of rotary embeddings, and
// layers that predict several tokens at a time.
func (g *ggufModel) passedOver(name string, c *Config) bool {
	switch name {
	case ropeFactors:
		return true
	case longFactors, shortFactors:
		return strings.HasPrefix(g.arch, "phi") || strings.HasPrefix(g.arch, "minicpm") // whose fields they are
	}
	layer, _, ok := layerName(name, "blk.")
	n, err := strconv.Atoi(layer)
	return ok && err == nil && n >= c.Layers
}

// scaleRecipeRope divides the frequencies of a table by the factors that are stored: of the only one, or of
// that of layers without a window in Gemma 4.
func (g *ggufModel) scaleRecipeRope(c *Config) error {
	at := 0
	switch n := len(c.Network.Ropes); {
	case n == 2 && g.arch == "gemma4":
		at = 1
	case n != 1:
		return fmt.Errorf("%w: %s: the tensor %s of a network with %d rotary tables", ErrUnsupported, g.path, ropeFactors, n)
	}
	family := g.family
	g.family.pairs = true // as scaleRope asks
	c.Rope = c.Network.Ropes[at]
	c.Rope.InvFreq = slices.Clone(c.Rope.InvFreq)
	err := g.scaleRope(c)
	c.Network.Ropes[at], c.Rope, g.family = c.Rope, Rope{}, family
	return err
}

// recipeName is the name that a tensor has in the recipe's description; "" if it has none.
func (g *ggufModel) recipeName(r ggufRecipe, name string) string {
	if other, ok := r.whole[name]; ok {
		return other
	}
	layer, rest, ok := layerName(name, "blk.")
	if !ok {
		return g.transformersName(name)
	}
	if other, known := r.names[rest]; known {
		return "model.layers." + layer + "." + other
	}
	part, kind, _ := cutLast(rest)
	if other, known := r.names[part]; known {
		return "model.layers." + layer + "." + other + "." + kind
	}
	return g.transformersName(name)
}

// recipeStoredName is what the file calls a tensor of the description. Of several names that mean the same
// it is one that is there, or else the first.
func (g *ggufModel) recipeStoredName(r ggufRecipe) func(string) string {
	return func(name string) string {
		for stored, other := range r.whole {
			if other == name {
				return stored
			}
		}
		layer, rest, ok := layerName(name, "model.layers.")
		part, kind, _ := cutLast(rest)
		var known []string
		for stored, other := range r.names {
			switch {
			case !ok:
			case other == rest:
				known = append(known, "blk."+layer+"."+stored)
			case other == part:
				known = append(known, "blk."+layer+"."+stored+"."+kind)
			}
		}
		if len(known) == 0 {
			return g.storedName(name)
		}
		slices.Sort(known)
		for _, stored := range known {
			if g.hasAny(stored) {
				return stored
			}
		}
		return known[0]
	}
}
