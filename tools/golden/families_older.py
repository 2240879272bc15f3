"""Further families of families.py: older ones, and forms of those of families_list.py that have a peculiarity which no other checkpoint has."""

from families_list import BASE, MTP, ROPE, VISION, base, tiny

PLAIN = dict(vocab_size=80, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GPT = dict(PLAIN, n_embd=24, n_layer=3, n_head=4, n_positions=128, layer_norm_epsilon=1e-5)

OLDER = {
    "gpt2": dict(final="ln_f.weight", model_type="gpt2", architecture="GPT2LMHeadModel", gain=2.0, config=dict(GPT, scale_attn_by_inverse_layer_idx=True), same=["c_attn.bias"],
                 edits={"scale_attn_by_inverse_layer_idx": False, "activation_function": "relu"}),
    # Without what llama.cpp's converter leaves out.
    "gpt2_plain": dict(final="ln_f.weight", model_type="gpt2", architecture="GPT2LMHeadModel", gain=2.0, config=dict(GPT), same=["c_attn.bias"]),
    "mpt_plain": dict(final="norm_f.weight", model_type="mpt", architecture="MptForCausalLM", gain=2.0, config=dict(
        PLAIN, d_model=24, n_layers=3, n_heads=6, max_seq_len=128, attn_config=dict(clip_qkv=1.0)), edits={"attn_config.clip_qkv": None}),
    "gpt_neo": dict(final="ln_f.weight", model_type="gpt_neo", architecture="GPTNeoForCausalLM", gain=2.0, config=dict(
        PLAIN, hidden_size=24, num_layers=4, num_heads=4, max_position_embeddings=128, window_size=16, attention_types=[[["global", "local"], 2]]),
        edits={"activation_function": "relu"}),
    "gpt_bigcode": dict(final="ln_f.weight", model_type="gpt_bigcode", architecture="GPTBigCodeForCausalLM", gain=4.0, config=dict(GPT)),
    "gpt_bigcode_heads": dict(final="ln_f.weight", model_type="gpt_bigcode", architecture="GPTBigCodeForCausalLM", gain=2.0, config=dict(GPT, multi_query=False)),
    "opt": dict(final="decoder.final_layer_norm.weight", model_type="opt", architecture="OPTForCausalLM", gain=2.0, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, ffn_dim=40, max_position_embeddings=128), same=["k_proj.bias"],
        edits={"activation_function": "gelu"}),
    "gptj": dict(gain=2.5, final="ln_f.weight", model_type="gptj", architecture="GPTJForCausalLM", config=dict(GPT, rotary_dim=4), edits={"rotary_dim": 6}),
    "codegen": dict(gain=2.5, final="ln_f.weight", model_type="codegen", architecture="CodeGenForCausalLM", config=dict(GPT, n_head=8, n_embd=32, rotary_dim=2)),
    "gpt_neox": dict(embed=0.3, gain=2.0, final="gpt_neox.final_layer_norm.weight", model_type="gpt_neox", architecture="GPTNeoXForCausalLM", config=dict(
        PLAIN, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40, max_position_embeddings=128,
        rope_parameters=dict(ROPE, partial_rotary_factor=0.5)), edits={"use_parallel_residual": False, "rope_parameters.partial_rotary_factor": 1.0}),
    "gpt_neox_serial": dict(final="gpt_neox.final_layer_norm.weight", model_type="gpt_neox", architecture="GPTNeoXForCausalLM", config=dict(
        PLAIN, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40, max_position_embeddings=128, use_parallel_residual=False,
        rope_parameters=dict(ROPE, partial_rotary_factor=0.5)), edits={"use_parallel_residual": True}),
    "phi": dict(embed=0.3, gain=2.0, model_type="phi", architecture="PhiForCausalLM", config=dict(
        PLAIN, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40, max_position_embeddings=128), same=["k_proj.bias"],
        edits={"rope_parameters.partial_rotary_factor": 1.0}),
    "bloom": dict(embed=0.5, final="ln_f.weight", model_type="bloom", architecture="BloomForCausalLM", gain=3.0, config=dict(PLAIN, hidden_size=24, n_layer=3, n_head=6)),
    "mpt": dict(final="norm_f.weight", model_type="mpt", architecture="MptForCausalLM", gain=2.0, config=dict(
        PLAIN, d_model=24, n_layers=3, n_heads=6, max_seq_len=128, attn_config=dict(clip_qkv=1.0, softmax_scale=0.4)),
        edits={"attn_config.clip_qkv": None, "attn_config.softmax_scale": None}),
    "falcon": dict(final="ln_f.weight", model_type="falcon", architecture="FalconForCausalLM", gain=2.0, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128)),
    "falcon_new": dict(embed=0.5, final="ln_f.weight", model_type="falcon", architecture="FalconForCausalLM", gain=3.0, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128, new_decoder_architecture=True, num_kv_heads=2)),
    "falcon_2": dict(embed=0.5, final="ln_f.weight", model_type="falcon", architecture="FalconForCausalLM", gain=3.0, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128, new_decoder_architecture=True, num_kv_heads=2,
        num_ln_in_parallel_attn=1)),
    # With eager attention, the slopes are added twice: to the mask, and to the scores.
    "falcon_alibi": dict(embed=0.5, attention="sdpa", final="ln_f.weight", model_type="falcon", architecture="FalconForCausalLM", gain=3.0, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128, alibi=True, multi_query=False, parallel_attn=False, bias=True),
        edits={"alibi": False}),
    "olmo_clip": dict(model_type="olmo", architecture="OlmoForCausalLM", final="lm_head.weight", config=tiny(head_dim=..., rms_norm_eps=..., clip_qkv=0.8),
                      edits={"clip_qkv": None}),
    "olmoe_clip": dict(model_type="olmoe", architecture="OlmoeForCausalLM", config=tiny(
        head_dim=..., num_experts=6, num_experts_per_tok=2, intermediate_size=12, clip_qkv=0.8), edits={"clip_qkv": None}),
    "nemotron_h_latent": dict(model_type="nemotron_h", architecture="NemotronHForCausalLM", config=base(
        rms_norm_eps=..., layer_norm_epsilon=1e-5, num_hidden_layers=..., layers_block_type=["mamba", "moe", "attention", "moe"], mamba_num_heads=4,
        mamba_head_dim=10, ssm_state_size=8, n_groups=2, conv_kernel=4, expand=1, chunk_size=16, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=20,
        moe_shared_expert_intermediate_size=28, n_shared_experts=1, moe_latent_size=16, n_group=4, topk_group=2, routed_scaling_factor=1.5),
        edits={"routed_scaling_factor": 1.0, "topk_group": 4}),
    "deepseek_v2_lite": dict(model_type="deepseek_v2", architecture="DeepseekV2ForCausalLM", config=tiny(
        head_dim=..., num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=12, first_k_dense_replace=1, topk_method="greedy", norm_topk_prob=False, routed_scaling_factor=1.0,
        rope_parameters=dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, mscale=0.707, mscale_all_dim=0.707, rope_theta=10000.0)),
        edits={"rope_parameters.mscale_all_dim": 0.0, "rope_parameters.factor": 1.0}),
    "falcon_h1_norm": dict(model_type="falcon_h1", architecture="FalconH1ForCausalLM", config=tiny(
        num_hidden_layers=3, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=2, mamba_d_conv=4, mamba_chunk_size=16, mamba_rms_norm=True,
        mamba_norm_before_gate=True), edits={"mamba_norm_before_gate": False}),
    "falcon_h1_gated": dict(model_type="falcon_h1", architecture="FalconH1ForCausalLM", config=tiny(
        num_hidden_layers=3, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=2, mamba_d_conv=4, mamba_chunk_size=16, mamba_rms_norm=True,
        mamba_norm_before_gate=False), edits={"mamba_norm_before_gate": True}),
    "glm4_moe_bias": dict(model_type="glm4_moe", architecture="Glm4MoeForCausalLM", config=tiny(
        n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=12, first_k_dense_replace=1, routed_scaling_factor=1.0, attention_bias=True,
        rope_parameters=dict(ROPE, partial_rotary_factor=0.5)), same=["k_proj.bias"]),
    "qwen3_vl": dict(embed=0.5, gain=2.0, model_type="qwen3_vl", architecture="Qwen3VLForConditionalGeneration", towers=["visual"], final="language_model.norm.weight", config=dict(
        text_config=tiny(rope_parameters=dict(ROPE, mrope_section=[2, 1, 1])), vision_config=dict(VISION, out_hidden_size=24), tie_word_embeddings=False)),
    "qwen3_vl_moe": dict(model_type="qwen3_vl_moe", architecture="Qwen3VLMoeForConditionalGeneration", towers=["visual"], final="language_model.norm.weight", config=dict(
        text_config=tiny(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, rope_parameters=dict(ROPE, mrope_section=[2, 1, 1])),
        vision_config=dict(VISION, out_hidden_size=24), tie_word_embeddings=False)),
    "jamba": dict(model_type="jamba", architecture="JambaForCausalLM", config=tiny(
        head_dim=..., num_experts=6, num_experts_per_tok=2, intermediate_size=12, attn_layer_period=4, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        mamba_d_state=6, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=5), edits={"num_experts_per_tok": 3}),
    "mamba": dict(model_type="mamba", architecture="MambaForCausalLM", gain=2.0, embed=0.5, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, state_size=6, time_step_rank=5, use_bias=True)),
    "falcon_mamba": dict(model_type="falcon_mamba", architecture="FalconMambaForCausalLM", gain=2.0, embed=0.5, config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, state_size=6, time_step_rank="auto")),
    "mamba2": dict(model_type="mamba2", architecture="Mamba2ForCausalLM", config=dict(
        PLAIN, hidden_size=24, num_hidden_layers=3, num_heads=4, head_dim=12, state_size=8, n_groups=2, chunk_size=16, expand=2)),
    "minicpm": dict(model_type="granite", architecture="MiniCPMForCausalLM", cls="GraniteForCausalLM", gain=1.5, embed=0.5, config=tiny(
        head_dim=..., tie_word_embeddings=True, embedding_multiplier=3.0, logits_scaling=1.5, residual_multiplier=0.7, attention_multiplier=6 ** -0.5),
        edits={"embedding_multiplier": 1.0, "residual_multiplier": 1.0, "logits_scaling": 1.0},
        written=dict(model_type="minicpm", scale_emb=3, scale_depth=1.4, dim_model_base=16, embedding_multiplier=..., logits_scaling=..., residual_multiplier=..., attention_multiplier=...)),
    "minicpm3": dict(model_type="minicpm3", architecture="MiniCPM3ForCausalLM", gain=2.0, config=tiny(
        head_dim=..., num_key_value_heads=4, tie_word_embeddings=True, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12,
        scale_emb=3, scale_depth=1.4, dim_model_base=16,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=256, short_factor=[1.0, 1.2, 1.5, 2.0], long_factor=[1.0, 1.2, 1.5, 2.0])),
        edits={"scale_emb": 1.0, "scale_depth": 0.5, "dim_model_base": 24, "rope_parameters.short_factor": [1.0] * 4}),
    "hyperclovax": dict(model_type="hyperclovax", architecture="HyperCLOVAXForCausalLM", config=tiny(
        embedding_multiplier=3.0, logits_scaling=0.6, residual_multiplier=0.4, attention_multiplier=0.15),
        edits={"embedding_multiplier": 1.0, "residual_multiplier": 1.0, "logits_scaling": 1.0, "attention_multiplier": 0.35}),
    "qwen2_5_vl": dict(model_type="qwen2_5_vl", architecture="Qwen2_5_VLForConditionalGeneration", towers=["visual"], final="language_model.norm.weight", same=["k_proj.bias"],
        config=dict(text_config=tiny(head_dim=..., rope_parameters=dict(ROPE, mrope_section=[1, 1, 1])), tie_word_embeddings=False, vision_config=dict(
            depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=24, patch_size=2, spatial_merge_size=1, temporal_patch_size=1, fullatt_block_indexes=[0]))),
}
