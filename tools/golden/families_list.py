"""The families of families.py: sizes are small and odd, and every kind of layer is there."""

BASE = dict(vocab_size=80, hidden_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=40,
            max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)


def base(**more):
    config = dict(BASE)
    config.update(more)
    return {k: v for k, v in config.items() if v is not ...}


def tiny(**more):
    return base(**dict(dict(hidden_size=24, num_hidden_layers=4, head_dim=8, intermediate_size=24), **more))


MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20)
LINEAR = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, linear_conv_kernel_dim=4)
ROPE = dict(rope_theta=10000.0, rope_type="default")
MTP = {"mtp.fc.weight": (40, 80), "mtp.norm.weight": (40,)}
VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=40, patch_size=2, spatial_merge_size=1, temporal_patch_size=1,
              num_position_embeddings=4, deepstack_visual_indexes=[])

FAMILIES = {
    "qwen3_moe": dict(model_type="qwen3_moe", architecture="Qwen3MoeForCausalLM", config=base(
        **MOE, norm_topk_prob=True, num_local_experts=6), edits={"norm_topk_prob": False, "num_experts_per_tok": 3}),
    "qwen2_moe": dict(model_type="qwen2_moe", architecture="Qwen2MoeForCausalLM", config=base(
        **MOE, head_dim=..., shared_expert_intermediate_size=28, use_sliding_window=True, sliding_window=16, max_window_layers=2),
        edits={"norm_topk_prob": True, "sliding_window": 400}),
    "mixtral": dict(model_type="mixtral", architecture="MixtralForCausalLM", config=base(num_local_experts=5, num_experts_per_tok=2, sliding_window=20),
                    edits={"sliding_window": None}),
    "qwen3_next": dict(model_type="qwen3_next", architecture="Qwen3NextForCausalLM", plus_one=True, extra=MTP, config=base(
        **MOE, **LINEAR, shared_expert_intermediate_size=28, head_dim=16, norm_topk_prob=True,
        layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"],
        rope_parameters=dict(ROPE, partial_rotary_factor=0.25))),
    "qwen3_5": dict(model_type="qwen3_5_text", architecture="Qwen3_5ForCausalLM", plus_one=True, extra=MTP, config=base(
        **LINEAR, head_dim=16, layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
        rope_parameters=dict(ROPE, partial_rotary_factor=0.25, mrope_section=[1, 1, 0]))),
    "qwen3_5_moe": dict(model_type="qwen3_5_moe_text", architecture="Qwen3_5MoeForCausalLM", plus_one=True, config=base(
        **MOE, **LINEAR, shared_expert_intermediate_size=28, head_dim=16, intermediate_size=...,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        rope_parameters=dict(ROPE, partial_rotary_factor=0.25, mrope_section=[1, 1, 0])), edits={"num_experts_per_tok": 3}),
    "gemma2": dict(model_type="gemma2", architecture="Gemma2ForCausalLM", plus_one=True, plain_norm="no such", post=12.0, config=base(
        tie_word_embeddings=True, query_pre_attn_scalar=20, sliding_window=16, attn_logit_softcapping=2.0, final_logit_softcapping=20.0,
        layer_types=["sliding_attention", "full_attention"] * 2),
        edits={"attn_logit_softcapping": None, "final_logit_softcapping": None, "query_pre_attn_scalar": 12, "sliding_window": 400}),
    "gemma3": dict(model_type="gemma3_text", architecture="Gemma3ForCausalLM", plus_one=True, plain_norm="no such", post=12.0, config=base(
        tie_word_embeddings=True, query_pre_attn_scalar=20, sliding_window=16,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(sliding_attention=dict(ROPE), full_attention=dict(rope_type="linear", factor=4.0, rope_theta=100000.0))),
        edits={"query_pre_attn_scalar": 12, "sliding_window": 400, "rope_parameters.full_attention.factor": 1.0}),
    "gemma4": dict(model_type="gemma4_text", architecture="Gemma4ForCausalLM", post=20.0, config=base(
        tie_word_embeddings=True, sliding_window=16, hidden_size_per_layer_input=0, final_logit_softcapping=20.0, attention_k_eq_v=True, num_key_value_heads=2,
        global_head_dim=16, num_global_key_value_heads=1, layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"]),
        edits={"sliding_window": 400, "final_logit_softcapping": None}),
    "gemma4_moe": dict(model_type="gemma4_text", architecture="Gemma4ForCausalLM", post=12.0, config=base(
        tie_word_embeddings=True, sliding_window=16, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=20,
        global_head_dim=16, layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"])),
    "gemma4_e": dict(model_type="gemma4_text", architecture="Gemma4ForCausalLM", post=12.0, config=base(
        tie_word_embeddings=True, sliding_window=16, hidden_size_per_layer_input=8, vocab_size_per_layer_input=80, num_hidden_layers=5, num_kv_shared_layers=2,
        use_double_wide_mlp=True, global_head_dim=16,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"])),
    "gpt_oss": dict(model_type="gpt_oss", architecture="GptOssForCausalLM", gain=1.5, config=base(
        num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, sliding_window=16, swiglu_limit=1.5,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters=dict(rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=32, rope_theta=150000.0)),
        edits={"sliding_window": 400, "swiglu_limit": 100.0, "swiglu_alpha": 1.0, "rope_parameters.factor": 1.0}),
    "mistral4": dict(model_type="mistral4", architecture="Mistral4ForCausalLM", config=base(
        head_dim=..., num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=20, first_k_dense_replace=1,
        rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                             llama_4_scaling_beta=0.4, rope_theta=10000.0)), edits={"rope_parameters.llama_4_scaling_beta": 0.0, "rope_parameters.mscale_all_dim": 0.0}),
    "ministral3": dict(model_type="ministral3", architecture="Ministral3ForCausalLM", config=base(
        rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                             llama_4_scaling_beta=0.4, rope_theta=10000.0)), edits={"rope_parameters.llama_4_scaling_beta": 0.0}),
    "glm4": dict(model_type="glm4", architecture="Glm4ForCausalLM", config=base(attention_bias=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
                 same=["k_proj.bias"], edits={"rope_parameters.partial_rotary_factor": 1.0}),
    "glm4_moe": dict(model_type="glm4_moe", architecture="Glm4MoeForCausalLM", config=base(
        n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=20, first_k_dense_replace=1, n_group=4, topk_group=2,
        routed_scaling_factor=1.7, use_qk_norm=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.5), num_nextn_predict_layers=1),
        extra={"model.layers.4.eh_proj.weight": (40, 80)}, edits={"routed_scaling_factor": 1.0, "norm_topk_prob": False, "topk_group": 4}),
    "glm4_moe_lite": dict(model_type="glm4_moe_lite", architecture="Glm4MoeLiteForCausalLM", config=base(
        head_dim=..., num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=20, mlp_layer_types=["dense", "sparse", "sparse", "sparse"]),
        extra={"model.layers.4.eh_proj.weight": (40, 80)}, edits={"routed_scaling_factor": 1.0}),
    "deepseek_v3": dict(model_type="deepseek_v3", architecture="DeepseekV3ForCausalLM", config=base(
        head_dim=..., num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=20, first_k_dense_replace=1, n_group=4, topk_group=2, routed_scaling_factor=2.5,
        rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, rope_theta=10000.0)),
        extra={"model.layers.4.eh_proj.weight": (40, 80)}, edits={"topk_group": 4, "rope_parameters.mscale_all_dim": 0.0, "norm_topk_prob": False}),
    "deepseek_v2": dict(model_type="deepseek_v2", architecture="DeepseekV2ForCausalLM", config=base(
        head_dim=..., num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=24, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=20, first_k_dense_replace=1, n_group=4, topk_group=2, topk_method="group_limited_greedy",
        routed_scaling_factor=2.0), edits={"topk_method": "greedy"}),
    "lfm2": dict(model_type="lfm2", architecture="Lfm2ForCausalLM", gain=2.0, config=base(
        rms_norm_eps=..., norm_eps=1e-5, tie_word_embeddings=True, block_auto_adjust_ff_dim=True, block_multiple_of=12, block_ffn_dim_multiplier=1.0,
        layer_types=["conv", "full_attention", "conv", "conv"], head_dim=...)),
    "lfm2_moe": dict(model_type="lfm2_moe", architecture="Lfm2MoeForCausalLM", gain=2.0, config=base(
        rms_norm_eps=..., norm_eps=1e-5, tie_word_embeddings=True, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, num_dense_layers=1,
        layer_types=["conv", "full_attention", "conv", "full_attention"], head_dim=...), edits={"norm_topk_prob": False}),
    "granite": dict(model_type="granite", architecture="GraniteForCausalLM", config=base(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15),
        edits={"embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 0.3, "logits_scaling": 1.0}),
    "granitemoe": dict(model_type="granitemoe", architecture="GraniteMoeForCausalLM", config=base(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, num_local_experts=5, num_experts_per_tok=2)),
    "granitemoehybrid": dict(model_type="granitemoehybrid", architecture="GraniteMoeHybridForCausalLM", config=base(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, num_local_experts=5, num_experts_per_tok=2,
        shared_intermediate_size=28, mamba_n_heads=5, mamba_d_head=16, mamba_expand=2, mamba_d_state=8, mamba_n_groups=1, mamba_d_conv=4, mamba_chunk_size=16,
        layer_types=["mamba", "attention", "mamba", "mamba"])),
    "granite4_dense": dict(model_type="granitemoehybrid", architecture="GraniteMoeHybridForCausalLM", config=base(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, num_local_experts=0, num_experts_per_tok=0,
        shared_intermediate_size=40, position_embedding_type="rope", mamba_n_heads=5, mamba_d_head=16, layer_types=["attention"] * 4)),
    "granite4_h_dense": dict(model_type="granitemoehybrid", architecture="GraniteMoeHybridForCausalLM", config=base(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, num_local_experts=0, num_experts_per_tok=0,
        shared_intermediate_size=28, mamba_n_heads=5, mamba_d_head=16, mamba_expand=2, mamba_d_state=8, mamba_n_groups=1, mamba_d_conv=4, mamba_chunk_size=16,
        layer_types=["mamba", "attention", "mamba"], num_hidden_layers=3)),
    "nemotron_h_dense": dict(model_type="nemotron_h", architecture="NemotronHForCausalLM", config=base(
        rms_norm_eps=..., layer_norm_epsilon=1e-5, num_hidden_layers=..., layers_block_type=["mamba", "mlp", "attention", "mlp", "mamba"], mamba_num_heads=4,
        mamba_head_dim=10, ssm_state_size=8, n_groups=2, conv_kernel=4, expand=1, chunk_size=16, intermediate_size=28)),
    "nemotron_h": dict(model_type="nemotron_h", architecture="NemotronHForCausalLM", config=base(
        rms_norm_eps=..., layer_norm_epsilon=1e-5, num_hidden_layers=..., layers_block_type=["mamba", "moe", "attention", "mlp", "mamba", "moe"], mamba_num_heads=4,
        mamba_head_dim=10, ssm_state_size=8, n_groups=2, conv_kernel=4, expand=1, chunk_size=16, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
        moe_shared_expert_intermediate_size=28, n_shared_experts=1, routed_scaling_factor=1.5), edits={"routed_scaling_factor": 1.0}),
    "falcon_h1": dict(model_type="falcon_h1", architecture="FalconH1ForCausalLM", config=base(
        mamba_d_ssm=40, mamba_n_heads=5, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1, mamba_d_conv=4, mamba_chunk_size=16, mamba_rms_norm=False,
        embedding_multiplier=2.0, lm_head_multiplier=0.5, mlp_multipliers=[1.5, 0.6], key_multiplier=1.4, attention_out_multiplier=0.7, attention_in_multiplier=1.3,
        ssm_multipliers=[1.2, 0.8, 1.3, 0.7, 1.1], ssm_in_multiplier=1.25, ssm_out_multiplier=0.75),
        edits={"mlp_multipliers": [1.0, 1.0], "key_multiplier": 1.0, "attention_out_multiplier": 1.0, "attention_in_multiplier": 1.0, "ssm_multipliers": [1.0] * 5,
               "ssm_in_multiplier": 1.0, "ssm_out_multiplier": 1.0, "embedding_multiplier": 1.0}),
    "olmo2": dict(model_type="olmo2", architecture="Olmo2ForCausalLM", config=base(head_dim=...)),
    "olmo3": dict(model_type="olmo3", architecture="Olmo3ForCausalLM", config=base(
        head_dim=..., sliding_window=16, layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(sliding_attention=dict(ROPE, rope_theta=500000.0), full_attention=dict(
            rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, rope_theta=500000.0))),
        edits={"sliding_window": 400}),
    "smollm3": dict(model_type="smollm3", architecture="SmolLM3ForCausalLM", gain=3.0, config=base(head_dim=..., tie_word_embeddings=True, no_rope_layers=[1, 1, 1, 0]),
                    edits={"no_rope_layers": [1, 1, 1, 1]}),
    "cohere2": dict(model_type="cohere2", architecture="Cohere2ForCausalLM", gain=3.0, config=base(
        rms_norm_eps=..., layer_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=16, logit_scale=0.3,
        layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]), edits={"sliding_window": 400, "logit_scale": 0.6}),
    "exaone4": dict(model_type="exaone4", architecture="Exaone4ForCausalLM", config=base(
        sliding_window=16, sliding_window_pattern=4, layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        edits={"sliding_window": 400}),
    "seed_oss": dict(model_type="seed_oss", architecture="SeedOssForCausalLM", config=base(attention_bias=True, attention_out_bias=False), same=["k_proj.bias"]),
    "ernie4_5": dict(model_type="ernie4_5", architecture="Ernie4_5ForCausalLM", gain=3.0, config=base(tie_word_embeddings=True)),
    "ernie4_5_moe": dict(model_type="ernie4_5_moe", architecture="Ernie4_5_MoeForCausalLM", gain=3.0, config=base(
        head_dim=..., tie_word_embeddings=True, moe_num_experts=6, moe_k=2, moe_intermediate_size=20, moe_num_shared_experts=1, moe_layer_start_index=1,
        moe_layer_end_index=3, moe_layer_interval=1)),
    "hunyuan": dict(model_type="hunyuan_v1_dense", architecture="HunYuanDenseV1ForCausalLM", config=base(
        rope_parameters=dict(rope_type="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0, rope_theta=10000.0))),
    "starcoder2": dict(model_type="starcoder2", seed=15, architecture="Starcoder2ForCausalLM", gain=3.0, config=base(
        rms_norm_eps=..., norm_epsilon=1e-5, head_dim=..., tie_word_embeddings=True, sliding_window=16), same=["k_proj.bias"], edits={"sliding_window": None}),
    "stablelm": dict(model_type="stablelm", architecture="StableLmForCausalLM", config=base(
        rms_norm_eps=..., layer_norm_eps=1e-5, head_dim=..., use_qkv_bias=True, qk_layernorm=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.4)), same=["k_proj.bias"]),
    "stablelm_parallel": dict(model_type="stablelm", architecture="StableLmForCausalLM", config=base(
        rms_norm_eps=..., layer_norm_eps=1e-5, head_dim=..., use_parallel_residual=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.4))),
    "phi3": dict(model_type="phi3", architecture="Phi3ForCausalLM", config=base(
        head_dim=..., sliding_window=16, original_max_position_embeddings=128, max_position_embeddings=256,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.4, original_max_position_embeddings=128,
                             short_factor=[1.0, 1.5], long_factor=[1.0, 4.0])), edits={"sliding_window": None}),
    "phimoe": dict(model_type="phimoe", architecture="PhimoeForCausalLM", config=base(
        head_dim=..., num_local_experts=5, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.3), same=["k_proj.bias"],
        edits={"router_jitter_noise": 3.0}),
    "llama4": dict(model_type="llama4_text", architecture="Llama4ForCausalLM", config=base(
        num_local_experts=4, num_experts_per_tok=1, intermediate_size_mlp=40, intermediate_size=20, moe_layers=[1, 3], attention_chunk_size=16, floor_scale=8, attn_scale=0.4,
        no_rope_layers=[1, 1, 1, 0], layer_types=["chunked_attention", "chunked_attention", "chunked_attention", "full_attention"], pad_token_id=0),
        edits={"attention_chunk_size": 200, "attn_temperature_tuning": False, "use_qk_norm": False}),
    "apertus": dict(model_type="apertus", architecture="ApertusForCausalLM", same=["act_fn.eps"], config=base(head_dim=...)),
    "minimax_m2": dict(model_type="minimax_m2", architecture="MiniMaxM2ForCausalLM", config=base(
        num_local_experts=6, num_experts_per_tok=2, intermediate_size=20, rope_parameters=dict(ROPE, partial_rotary_factor=0.5))),
    "hy_v3": dict(model_type="hy_v3", architecture="HYV3ForCausalLM", config=base(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, num_shared_experts=1, mlp_layer_types=["dense", "sparse", "sparse", "sparse"])),
    "mimo_v2_flash": dict(model_type="mimo_v2_flash", architecture="MiMoV2FlashForCausalLM", config=base(
        num_key_value_heads=1, head_dim=18, v_head_dim=12, sliding_window=16, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"], mlp_layer_types=["dense", "sparse", "sparse", "sparse"])),
    "kimi_linear": dict(model_type="kimi_linear", architecture="KimiLinearForCausalLM", rename={"layers.0.block_sparse_moe.": "layers.0.mlp."}, config=base(
        head_dim=..., num_key_value_heads=4, max_position_embeddings=..., model_max_length=256, kv_lora_rank=24, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12,
        num_experts=6, num_experts_per_token=2, moe_intermediate_size=20, num_shared_experts=1, linear_head_dim=8, linear_num_heads=4, linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"], mlp_layer_types=["dense", "sparse", "sparse", "sparse"])),
    "lfm3": dict(model_type="lfm3", architecture="Lfm3ForCausalLM", gain=2.0, config=base(
        rms_norm_eps=..., norm_eps=1e-5, tie_word_embeddings=True, sliding_window=16, conv_L_cache=5,
        layer_types=["conv", "full_attention", "conv", "sliding_attention"],
        rope_parameters=dict(sliding_attention=dict(ROPE), full_attention=dict(rope_type="proportional", rope_theta=100000.0, partial_rotary_factor=0.5)))),
    "exaone_moe": dict(model_type="exaone_moe", architecture="ExaoneMoeForCausalLM", extra=MTP, config=tiny(
        num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12, num_shared_experts=1, n_group=4, topk_group=2, routed_scaling_factor=1.7, sliding_window=16,
        sliding_window_pattern=4, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]),
        edits={"sliding_window": 400, "topk_group": 4, "routed_scaling_factor": 1.0, "norm_topk_prob": False}),
    "cohere2_moe": dict(model_type="cohere2_moe", architecture="Cohere2MoeForCausalLM", gain=3.0, config=tiny(
        rms_norm_eps=..., layer_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=16, logit_scale=0.3, num_experts=6, num_experts_per_tok=2, num_shared_experts=2,
        expert_selection_fn="sigmoid", intermediate_size=12, prefix_dense_intermediate_size=24, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        edits={"sliding_window": 400, "logit_scale": 0.6, "norm_topk_prob": False, "shared_expert_combination_strategy": "sum", "prefix_dense_sliding_window_pattern": 2}),
    "cohere2_moe_softmax": dict(model_type="cohere2_moe", architecture="Cohere2MoeForCausalLM", gain=3.0, config=tiny(
        rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=16, logit_scale=0.3, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
        shared_expert_combination_strategy="sum", intermediate_size=12, layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        edits={"expert_selection_fn": "sigmoid"}),
    "arcee": dict(model_type="arcee", architecture="ArceeForCausalLM", config=tiny()),
    "helium": dict(model_type="helium", architecture="HeliumForCausalLM", config=tiny(rms_norm_eps=1e-8, head_dim=6)),
    "nemotron": dict(model_type="nemotron", architecture="NemotronForCausalLM", plus_one=True, config=tiny(
        rms_norm_eps=..., norm_eps=1e-5, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)), edits={"rope_parameters.partial_rotary_factor": 1.0}),
    "glm": dict(model_type="glm", architecture="GlmForCausalLM", config=tiny(attention_bias=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
                same=["k_proj.bias"], edits={"rope_parameters.partial_rotary_factor": 1.0}),
    "olmo": dict(model_type="olmo", architecture="OlmoForCausalLM", final="lm_head.weight", config=tiny(head_dim=..., rms_norm_eps=...)),
    "gemma": dict(model_type="gemma", architecture="GemmaForCausalLM", plus_one=True, plain_norm="no such", gain=1.1, embed=0.1, config=tiny(tie_word_embeddings=True)),
    "cohere": dict(model_type="cohere", architecture="CohereForCausalLM", gain=3.0, config=tiny(
        rms_norm_eps=..., layer_norm_eps=1e-5, head_dim=..., tie_word_embeddings=True, logit_scale=0.3, use_qk_norm=True), edits={"logit_scale": 0.6}),
    "internlm3": dict(model_type="internlm3", architecture="InternLM3ForCausalLM", cls="LlamaForCausalLM", config=tiny(attention_bias=True, mlp_bias=True), same=["k_proj.bias"]),
    "iquestcoder": dict(model_type="iquestcoder", architecture="IQuestCoderForCausalLM", cls="LlamaForCausalLM", config=tiny()),
    "ministral": dict(model_type="ministral", architecture="MinistralForCausalLM", config=tiny(
        sliding_window=16, layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]), edits={"sliding_window": 400}),
    "olmoe": dict(model_type="olmoe", architecture="OlmoeForCausalLM", config=tiny(
        head_dim=..., num_experts=6, num_experts_per_tok=2, intermediate_size=12), edits={"norm_topk_prob": True}),
    "flex_olmo": dict(model_type="flex_olmo", architecture="FlexOlmoForCausalLM", config=tiny(
        head_dim=..., num_experts=6, num_experts_per_tok=2, intermediate_size=12, norm_topk_prob=False)),
    "dots1": dict(model_type="dots1", architecture="Dots1ForCausalLM", config=tiny(
        n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=12, first_k_dense_replace=1, n_group=4, topk_group=2,
        routed_scaling_factor=1.7, norm_topk_prob=True, sliding_window=16, layer_types=["full_attention", "sliding_attention", "full_attention", "sliding_attention"]),
        edits={"routed_scaling_factor": 1.0, "norm_topk_prob": False, "topk_group": 4, "sliding_window": 400}),
    "afmoe": dict(model_type="afmoe", architecture="AfmoeForCausalLM", post=3.0, embed=0.3, config=tiny(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, num_shared_experts=2, num_dense_layers=1, route_scale=1.7, sliding_window=16, mup_enabled=True,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]),
        edits={"route_scale": 1.0, "sliding_window": 400, "mup_enabled": False}),
    "solar_open": dict(model_type="solar_open", architecture="SolarOpenForCausalLM", config=tiny(
        intermediate_size=..., n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=12, n_group=4, topk_group=2, routed_scaling_factor=1.7),
        edits={"routed_scaling_factor": 1.0, "topk_group": 4}),
    "gpt_oss_mxfp4": dict(model_type="gpt_oss", architecture="GptOssForCausalLM", mxfp4=True, gain=1.5, config=tiny(
        hidden_size=32, num_local_experts=4, num_experts_per_tok=2, intermediate_size=64, sliding_window=16, swiglu_limit=1.5, num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "phi3_long": dict(model_type="phi3", architecture="Phi3ForCausalLM", prompt=30, stepwise=True, config=tiny(
        head_dim=..., num_hidden_layers=3, original_max_position_embeddings=40, max_position_embeddings=256,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.7, original_max_position_embeddings=40,
                             short_factor=[1.0, 1.5], long_factor=[3.0, 9.0])), edits={"rope_parameters.long_factor": [1.0, 1.5]}),
    "gemma3n": dict(model_type="gemma3n_text", architecture="Gemma3nForCausalLM", post=4.0, config=tiny(
        hidden_size=24, intermediate_size=[24, 24, 32, 24, 24], num_hidden_layers=5, tie_word_embeddings=True, sliding_window=16, final_logit_softcapping=20.0,
        vocab_size_per_layer_input=76, hidden_size_per_layer_input=8, num_kv_shared_layers=2, laurel_rank=6, activation_sparsity_pattern=[0.9, 0.6, 0.0, 0.0, 0.0],
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(sliding_attention=dict(ROPE), full_attention=dict(rope_type="default", rope_theta=1000000.0))),
        edits={"sliding_window": 400, "final_logit_softcapping": 5.0, "activation_sparsity_pattern": [0.0] * 5, "altup_correct_scale": False}),
    "deepseek_v32": dict(model_type="deepseek_v32", architecture="DeepseekV32ForCausalLM", gain=1.5, config=tiny(
        head_dim=8, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=12, first_k_dense_replace=1, routed_scaling_factor=2.5,
        index_topk=12, index_head_dim=12, index_n_heads=8, n_group=4, topk_group=2, num_hidden_layers=3,
        rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, rope_theta=10000.0)),
        extra={"model.layers.3.eh_proj.weight": (24, 48)}, edits={"index_topk": 400, "topk_group": 4}),
    "glm_moe_dsa": dict(model_type="glm_moe_dsa", architecture="GlmMoeDsaForCausalLM", gain=1.5, config=tiny(
        head_dim=8, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=12, first_k_dense_replace=1, routed_scaling_factor=2.5,
        index_topk=12, index_head_dim=12, index_n_heads=8, n_group=1, topk_group=1, indexer_types=["full", "shared", "full", "shared"]),
        extra={"model.layers.4.eh_proj.weight": (24, 48)}, edits={"index_topk": 400}),
    "bailing_hybrid": dict(model_type="bailing_hybrid", architecture="BailingHybridForCausalLM", config=tiny(
        num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, num_local_experts=8, num_experts_per_tok=2, n_shared_experts=1,
        moe_intermediate_size=12, n_group=4, topk_group=2, routed_scaling_factor=1.7, first_k_dense_replace=1, kda_lower_bound=-3.0,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"]),
        edits={"topk_group": 4, "routed_scaling_factor": 1.0, "kda_lower_bound": -9.0, "kda_safe_gate": False}),
    "olmo_hybrid": dict(model_type="olmo_hybrid", architecture="OlmoHybridForCausalLM", plain_norm="no such", resplit=[16, 16, 48],
        rename={"layers.1.feedforward_layer_norm": "layers.1.post_attention_layernorm", "layers.3.feedforward_layer_norm": "layers.3.post_attention_layernorm"}, config=tiny(
        head_dim=..., linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12,
        layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"]), edits={"linear_allow_neg_eigval": False}),
    "bamba": dict(model_type="bamba", architecture="BambaForCausalLM", config=tiny(
        head_dim=..., hidden_size=32, num_hidden_layers=3, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2, mamba_d_conv=4, mamba_chunk_size=16)),
    "hunyuan_moe": dict(model_type="hunyuan_v1_moe", architecture="HunYuanMoEV1ForCausalLM", config=tiny(
        intermediate_size=12, num_experts=6, moe_topk=[2, 2, 2, 2],
        rope_parameters=dict(rope_type="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0, rope_theta=10000.0))),
    "mellum": dict(model_type="mellum", architecture="MellumForCausalLM", config=tiny(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, sliding_window=16, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(sliding_attention=dict(ROPE), full_attention=dict(rope_type="default", rope_theta=500000.0))),
        edits={"sliding_window": 400, "norm_topk_prob": False}),
    "mellum_sparse": dict(model_type="mellum", architecture="MellumForCausalLM", config=tiny(  # as published, and as llama.cpp's converter wants it
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, sliding_window=16, mlp_layer_types=["sparse"] * 4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(sliding_attention=dict(ROPE), full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0))),
        edits={"sliding_window": 400}),
    "youtu": dict(model_type="youtu", architecture="YoutuForCausalLM", config=tiny(
        head_dim=..., num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12)),
    "granitemoeshared": dict(model_type="granitemoeshared", architecture="GraniteMoeSharedForCausalLM", config=tiny(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=16)),
    "granite_swa": dict(model_type="granite_swa", architecture="GraniteSWAForCausalLM", gain=3.0, config=tiny(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, sliding_window=16, layer_rope_theta=[0.0, 10000.0, 10000.0, 500000.0], tie_word_embeddings=True,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]),
        edits={"sliding_window": 400, "layer_rope_theta": [10000.0] * 4}),
    "granitemoe_swa": dict(model_type="granitemoe_swa", architecture="GraniteMoeSWAForCausalLM", config=tiny(
        head_dim=..., embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4, attention_multiplier=0.15, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=16, sliding_window=16,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]), edits={"sliding_window": 400}),
}
