"""Fields that any Hugging Face config may carry and that never change a shape. Source: transformers 5.23 PreTrainedConfig and
GenerationConfig; older releases wrote the rest."""

from __future__ import annotations

_BOOKKEEPING = """
architectures auto_map model_type torch_dtype dtype transformers_version _name_or_path name_or_path _commit_hash use_cache
_attn_implementation _attn_implementation_autoset _attn_implementation_internal _experts_implementation attn_implementation
_flash_attn_2_enabled output_hidden_states output_attentions return_dict torchscript use_bfloat16 tf_legacy_loss
finetuning_task id2label label2id num_labels problem_type task_specific_params prefix tokenizer_class chunk_size_feed_forward
cross_attention_hidden_size tie_encoder_decoder is_decoder gradient_checkpointing unsloth_version unsloth_fixed
cache_implementation use_flash_attn attn_impl _from_model_config license model_max_length
max_sequence_length transformers.js_config
"""
_TOKENS = """
bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id mask_token_id cls_token_id decoder_start_token_id
tokenizer_vocab_size _pad_token_id
"""
_TRAINING = """
initializer_range initializer_factor attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop dropout
attention_probs_dropout_prob hidden_dropout_prob classifier_dropout activation_dropout residual_dropout embedding_dropout
resid_dropout output_router_logits router_aux_loss_coef router_jitter_noise aux_loss_alpha seq_aux pretraining_tp
layer_norm_eps layer_norm_epsilon rms_norm_eps norm_epsilon norm_eps summary_type summary_use_proj summary_activation
summary_proj_to_labels summary_first_dropout neftune_noise_alpha
"""
_ROPE = """
rope_theta rope_scaling rope_parameters rope_interleave rope_local_base_freq partial_rotary_factor rotary_pct rotary_emb_base
rotary_dim original_max_position_embeddings initial_context_length rope_ratio
"""
_GENERATION = """
max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
min_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values
exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
"""
NOISE = frozenset(" ".join((_BOOKKEEPING, _TOKENS, _TRAINING, _ROPE, _GENERATION)).split())
# Sets that rows name as $set
SETS: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "scan": """
            fused_add_norm hidden_act num_logits_to_keep rescale_prenorm_residual residual_in_fp32 rms_norm
            time_step_floor time_step_init_scheme time_step_limit time_step_max time_step_min time_step_scale
            use_associative_scan use_mamba_kernels use_mambapy use_mem_eff_path
        """,  # of state-space layers: how a scan is run and started
        "scales": """
            afn attention_layers attention_multiplier attn_logit_softcapping clip_qkv dim_model_base emb_pdrop
            embed_dropout embedding_fraction embedding_initializer_range embedding_multiplier enable_moe_fp32_combine
            ep_size final_logit_softcapping fp8_config head_dim hidden_act index_share_for_mtp_iteration
            indexer_rope_interleave init_device init_std initializer_cutoff_factor input_jitter_noise layerdrop
            learned_pos_emb linear_a_log_max linear_a_log_min linear_allow_neg_eigval linear_dt_init_floor
            linear_dt_max linear_dt_min load_balance_coeff logit_scale logits_scaling moe_router_dtype mup_enabled
            n_ctx n_group norm_topk_prob norm_type num_key_value_heads qk_head_dim query_pre_attn_scalar
            reorder_and_upcast_attn residual_multiplier route_scale routed_scaling_factor router_scaling_factor
            scale_attn_by_inverse_layer_idx scale_attn_weights scale_depth scale_emb scale_embedding score_func
            scoring_func topk_group topk_method
        """,  # scales, thresholds and switches that change a number and no shape
        "older": """
            attention_softmax_in_fp32 cache_config clip_qkv eod_token_id hidden_act logit_scale mlp_type moe_capacity
            moe_gate moe_norm_min moe_use_aux_free norm_topk_prob norm_type num_key_value_heads
            scale_attention_softmax_in_fp32 scale_attn_weights use_cla
        """,  # the same, of older decoders
        "routing": """
            n_group norm_topk_prob routed_scaling_factor scoring_func topk_group topk_method
        """,  # how a router scores and picks
        "multipliers": """
            attention_multiplier embedding_multiplier logits_scaling residual_multiplier
        """,  # of Granite's scaled residuals
        "bart": """
            add_bias_logits add_final_layer_norm classif_dropout decoder_layerdrop do_blenderbot_90_layernorm
            encoder_layerdrop extra_pos_embeddings force_bos_token_to_be_generated init_std layernorm_variant
            normalize_before normalize_embedding num_hidden_layers scale_embedding static_position_embeddings unk_id
            variant
        """,  # of BART and its relatives
    }.items()
}
