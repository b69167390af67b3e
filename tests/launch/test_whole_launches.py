"""Whole launches: every option that a command comes to, and every sentence that is said of it; each worked out from the documentation of its flags."""

from __future__ import annotations

import pytest
from launch.launched import options_of

GPT = "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --swiglu --vocab-size 128256 --max-position-embeddings 8192 --seq-length 4096"
SERVING = {"phase": ["prefill", "decode"], "tp": 1, "pp": 1, "dp": 1, "cp": 1, "ep": 1, "n": 1}
TRAINING = {
    "phase": ["train"],
    "tp": 1,
    "pp": 1,
    "cp": 1,
    "ep": 1,
    "virtual-stages": 1,
    "recompute": "none",
    "sequence-parallel": False,
    "n": 8,
    "dp": 8,
}
ALWAYS = ("the model is taken to be llama-3-8b, which has these sizes", "priced as ")  # of sizes, and of a framework
LAUNCHES = [
    ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --dp 4 --enable-dp-attention",  # nothing to split
     {"dp": 4, "n": 4, "model": "Qwen3-8B", "engine": "sglang"}, ""),
    ('vllm serve Qwen/Qwen3-30B-A3B --enable-expert-parallel --all2all-backend deepep_low_latency',
     {'model': 'Qwen3-30B-A3B', 'engine': 'vllm'}, ''),
    ('vllm serve Qwen/Qwen3-30B-A3B -tp 2 -dp 2 --enable-expert-parallel --all2all-backend deepep_low_latency --enable-dbo',
     {'tp': 2, 'dp': 2, 'ep': 4, 'n': 4, 'model': 'Qwen3-30B-A3B', 'overlap': 'two-batch', 'exchange': 'deepep-low-latency', 'engine': 'vllm'}, ''),
    ('vllm serve Qwen/Qwen3-30B-A3B -tp 2 -dp 2 --all2all-backend deepep_low_latency',
     {'tp': 2, 'dp': 2, 'ep': 2, 'n': 4, 'model': 'Qwen3-30B-A3B', 'engine': 'vllm'}, 'ep 1 of 4 ranks cuts each expert over 4: priced as ep 2, the same bytes per device'),
    ('vllm serve Qwen/Qwen3-8B -tp 2 -dp 2',
     {'tp': 2, 'dp': 2, 'n': 4, 'model': 'Qwen3-8B', 'engine': 'vllm'}, ''),
    ('vllm serve Qwen/Qwen3-30B-A3B -dp 4 --enable-expert-parallel --enable-eplb --eplb-config \'{"num_redundant_experts": 32}\'',
     {'dp': 4, 'ep': 4, 'n': 4, 'model': 'Qwen3-30B-A3B', 'redundant-experts': 32, 'engine': 'vllm'}, ''),
    ('vllm serve Qwen/Qwen3-30B-A3B -dp 4 --enable-expert-parallel --eplb-config \'{"num_redundant_experts": 32}\'',
     {'dp': 4, 'ep': 4, 'n': 4, 'model': 'Qwen3-30B-A3B', 'engine': 'vllm'}, 'may change the cost, and priced without: --eplb-config {"num_redundant_experts": 32} (replicas of experts are left out; give --redundant-experts)'),
    ('vllm serve RedHatAI/Qwen3-8B-FP8-dynamic --kv-cache-dtype fp8 --max-model-len 1024 --gpu-memory-utilization 0.92 --max-num-batched-tokens 4096',
     {'model': 'Qwen3-8B', 'dtype': 'fp8', 'kv-dtype': 'fp8', 'token-budget': '4096', 'gpu-memory-utilization': '0.92', 'prompt': 768, 'output': 256, 'engine': 'vllm'}, 'RedHatAI/Qwen3-8B is taken to have the sizes of Qwen3-8B; give MODEL for another | --max-model-len 1024 caps prompt + output; a launch states no load; give --prompt and --output'),
    ('vllm serve Qwen/Qwen3-8B --dtype half --quantization bitsandbytes --max-num-seqs 16 -pp 2',
     {'pp': 2, 'n': 2, 'weight-dtype': 'int4', 'model': 'Qwen3-8B', 'dtype': 'fp16', 'batch': '16', 'engine': 'vllm'}, ''),
    ('vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_role": "kv_producer"}\'',
     {'phase': ['prefill'], 'model': 'Qwen3-8B', 'engine': 'vllm'}, ''),
    ('python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dp 4 --enable-dp-attention --max-running-requests 130 --chunked-prefill-size -1',
     {'tp': 4, 'dp': 4, 'ep': 4, 'n': 16, 'model': 'DeepSeek-V3', 'batch': 32, 'engine': 'sglang'}, 'ep 1 of 16 ranks cuts each expert over 16: priced as ep 4, the same bytes per device | --max-running-requests 130 is that of 4 ranks of attention: 32 on each'),
    ('python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --moe-a2a-backend deepep --deepep-mode low_latency --enable-two-batch-overlap --chunked-prefill-size 8192',
     {'tp': 16, 'ep': 16, 'n': 16, 'model': 'DeepSeek-V3', 'overlap': 'two-batch', 'token-budget': '8192', 'engine': 'sglang'}, ''),
    ('python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --ep 8 --mem-fraction-static 0.8 --ep-num-redundant-experts 16 --disaggregation-mode decode',
     {'phase': ['decode'], 'tp': 16, 'ep': 8, 'n': 16, 'model': 'DeepSeek-V3', 'expert-tp': 2, 'gpu-memory-utilization': '0.8', 'redundant-experts': '16', 'engine': 'sglang'}, ''),
    ('trtllm-serve nvidia/Llama-3.1-70B-Instruct-FP8 --tp_size 4 --max_batch_size 16 --max_num_tokens 4096 --kv_cache_free_gpu_memory_fraction 0.85 --max_input_len 1000',
     {'tp': 4, 'n': 4, 'model': 'Llama-3.1-70B-Instruct', 'dtype': 'fp8', 'prompt': 1000, 'batch': '16', 'token-budget': '4096', 'gpu-memory-utilization': '0.85', 'engine': 'trtllm'}, 'nvidia/Llama-3.1-70B-Instruct is taken to have the sizes of Llama-3.1-70B-Instruct; give MODEL for another | --max_input_len 1000 caps prompts; a launch states no load; give --prompt and --output'),
    ('trtllm-serve Qwen/Qwen3-30B-A3B --tp_size 4 --ep_size 4 --max_input_len 1000 --max_seq_len 2000',
     {'tp': 4, 'ep': 4, 'n': 4, 'model': 'Qwen3-30B-A3B', 'prompt': 1744, 'output': 256, 'engine': 'trtllm'}, '--max_seq_len 2000 caps prompt + output; a launch states no load; give --prompt and --output'),
    ('text-generation-launcher --model-id Qwen/Qwen3-8B --num-shard 2 --max-batch-total-tokens 8192 --max-total-tokens 2048 --speculate 2 --quantize bitsandbytes',
     {'tp': 2, 'n': 2, 'weight-dtype': 'int8', 'model': 'Qwen3-8B', 'batch': 4, 'prompt': 1792, 'output': 256}, "may change the cost, and priced without: --speculate: drafts by n-grams or by the checkpoint's own heads are left out | --max-batch-total-tokens 8192 admits 4 requests of --max-total-tokens 2048 | --max-total-tokens 2048 caps prompt + output; a launch states no load; give --prompt and --output"),
    ('text-generation-launcher --model-id Qwen/Qwen3-8B --num-shard 2 --max-batch-total-tokens 8192 --max-total-tokens 2048 --max-batch-size 3',
     {'tp': 2, 'n': 2, 'model': 'Qwen3-8B', 'batch': '3', 'prompt': 1792, 'output': 256}, '--max-batch-total-tokens 8192 caps the tokens of the batch; give --batch or --concurrency | --max-total-tokens 2048 caps prompt + output; a launch states no load; give --prompt and --output'),
    ('text-generation-launcher --model-id Qwen/Qwen3-8B --max-batch-total-tokens 8192',
     {'model': 'Qwen3-8B'}, 'without --num-shard TGI takes every device that it sees: not stated, taken as one | --max-batch-total-tokens 8192 caps the tokens of the batch; give --batch or --concurrency'),
    ('lmdeploy serve api_server Qwen/Qwen3-8B --tp 2 --dp 2 --quant-policy 4',
     {'tp': 2, 'dp': 2, 'n': 4, 'model': 'Qwen3-8B', 'kv-dtype': 'int4', 'engine': 'lmdeploy'}, ''),
    ('llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -c 32768 -np 4 --n-cpu-moe 12 -ngl 99',
     {'model': 'Qwen3-30B-A3B', 'weight-dtype': 'q4_k_m', 'experts-on': 'host:12', 'batch': 4, 'engine': 'llamacpp'}, '--ctx-size for each slot 8192 caps prompt + output; a launch states no load; give --prompt and --output'),
    ('llama-server -m Qwen3-8B-Q8_0.gguf -ngl 20 --tensor-split 1,1,1 --split-mode row -ctk q8_0 -ctv q8_0',
     {'tp': 3, 'n': 3, 'model': 'Qwen3-8B', 'weight-dtype': 'q8_0', 'kv-dtype': 'q8_0', 'offload-layers': 20, 'batch': 1, 'engine': 'llamacpp'}, ''),
    ('llama-server -m Qwen3-8B-Q8_0.gguf -ngl 59 --tensor-split 1,1 --split-mode none --cpu-moe -ctk q8_0',
     {'model': 'Qwen3-8B', 'weight-dtype': 'q8_0', 'kv-dtype': 'q8_0', 'offload-layers': 59, 'experts-on': 'host', 'batch': 1, 'engine': 'llamacpp'}, 'may change the cost, and priced without: --cache-type-v unlike --cache-type-k'),
    ('llama-bench -m Qwen3-8B-Q4_0.gguf -p 2048 -n 0',
     {'phase': ['prefill'], 'model': 'Qwen3-8B', 'weight-dtype': 'q4_0', 'batch': 1, 'prompt': 2048, 'engine': 'llamacpp'}, ''),
    ('llama-bench -m Qwen3-8B-Q4_0.gguf -p 0 -n 64',
     {'phase': ['decode'], 'model': 'Qwen3-8B', 'weight-dtype': 'q4_0', 'batch': 1, 'output': 64, 'engine': 'llamacpp'}, ''),
    (f'torchrun --nproc_per_node 8 --nnodes 4 {GPT} --micro-batch-size 1 --global-batch-size 128 --bf16 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 --sequence-parallel --use-distributed-optimizer --recompute-granularity selective --overlap-grad-reduce --context-parallel-size 2',
     {'tp': 4, 'pp': 2, 'cp': 2, 'virtual-stages': 4, 'recompute': 'selective', 'sequence-parallel': True, 'n': 32, 'dp': 2, 'seq': '4096', 'batch': '128', 'micro-batch': '1', 'zero': 1, 'dtype': 'bf16', 'model': 'llama-3-8b', 'software': 'megatron+overlap'}, ''),
    (f'torchrun --nproc_per_node 8 {GPT} --micro-batch-size 2 --global-batch-size 16 --fp16 --deepspeed --zero-stage 2 --cpu-offload',
     {'seq': '4096', 'batch': '16', 'micro-batch': '2', 'zero': '2', 'dtype': 'fp16', 'model': 'llama-3-8b', 'software': 'deepspeed'}, 'may change the cost, and priced without: --cpu-offload'),
    (f'torchrun --nproc_per_node 8 {GPT} --micro-batch-size 2 --global-batch-size 16 --bf16 --fp8-format hybrid --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split',
     {'pp': 4, 'recompute': 'full', 'dp': 2, 'seq': '4096', 'batch': '16', 'micro-batch': '2', 'zero': 0, 'dtype': 'fp8', 'stages': 'loss', 'model': 'llama-3-8b', 'software': 'megatron'}, ''),
    ('torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b --parallelism.tensor_parallel_degree 2 --training.num_tokens_per_microbatch_per_dp_rank 16384',
     {'tp': 2, 'sequence-parallel': True, 'dp': 4, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'recompute': 'op', 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 8}, ''),
    ('torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b_float8',
     {'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 1, 'recompute': 'op', 'dtype': 'fp8', 'software': 'torchtitan', 'batch': 8}, ''),
    ('torchrun --nproc_per_node 8 -m torchtitan.train --module qwen3 --config qwen3_30b_a3b --parallelism.expert_parallel_degree 8',
     {'ep': 8, 'zero': 3, 'model': 'qwen3-30b-a3b', 'seq': 4096, 'micro-batch': 2, 'recompute': 'full', 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 16}, ''),
    ('deepspeed --num_gpus 8 train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --max_seq_length 2048 --bf16 True --zero_stage 3 --gradient_checkpointing True',
     {'recompute': 'full', 'zero': '3', 'dtype': 'bf16', 'model': 'Qwen3-8B', 'micro-batch': 2, 'seq': '2048', 'software': 'deepspeed', 'batch': 64}, "of the training script's own arguments, those of Hugging Face's Trainer are read"),
    ('accelerate launch --num_processes 8 --use_fsdp --fsdp_sharding_strategy FULL_SHARD --mixed_precision bf16 train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --max_seq_length 2048 --gradient_checkpointing',
     {'recompute': 'full', 'zero': 3, 'dtype': 'bf16', 'model': 'Qwen3-8B', 'micro-batch': 2, 'seq': '2048', 'batch': 16}, "of the training script's own arguments, those of Hugging Face's Trainer are read"),
    ("torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --model_max_length 2048 --bf16 True --fsdp 'full_shard auto_wrap' --optim paged_adamw_8bit --lora_r 16",
     {'zero': 3, 'dtype': 'bf16', 'model': 'Qwen3-8B', 'micro-batch': 2, 'seq': '2048', 'optimizer': 'adamw-8bit', 'batch': 64}, "of the training script's own arguments, those of Hugging Face's Trainer are read"),
    ('NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --train_type lora --lora_rank 32 --target_modules all-linear --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --max_length 4096 --torch_dtype bfloat16 --deepspeed zero3',
     {'recompute': 'full', 'n': 4, 'dp': 4, 'model': 'Qwen3-8B', 'micro-batch': 1, 'seq': '4096', 'lora-rank': 32, 'dtype': 'bf16', 'recipe': 'lora', 'zero': 3, 'software': 'deepspeed', 'batch': 64}, ''),
]  # fmt: skip
TORCHTITAN = (
    '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 8192\nlocal_batch_size = 2\n[parallelism]\n'
)
CONFIGS = [  # file, text, what is given beside it, options in addition to TRAINING, what is said
    # 8 sequences to each of 8 chips, in as many micro-batches as stages, each of one layer eight times (base.yml)
    ("m.yml", "model_name: llama2-7b\nici_pipeline_parallelism: 4\nici_fsdp_parallelism: 2\nper_device_batch_size: 8\nmax_target_length: 2048\nremat_policy: full\n", {},
     {"pp": 4, "dp": 2, "recompute": "full", "zero": 3, "model": "llama2-7b", "seq": 2048, "micro-batch": 8, "batch": 64, "virtual-stages": 8, "software": "maxtext"}, ""),
    ('ds.json', '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "pipe-parallel-size": 2, "model-parallel-size": 2, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}, "optimizer": {"type": "Adam"}}', {'model': 'llama-3-8b'},
     {'tp': 2, 'pp': 2, 'zero': 1, 'micro-batch': 2, 'batch': 64, 'n': 32, 'dtype': 'bf16', 'software': 'deepspeed', 'model': 'llama-3-8b'}, 'not stated, so the defaults of an estimate are taken; give --seq'),
    ('ds.json', '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true, "zero_hpz_partition_size": 8, "offload_optimizer": {"device": "cpu"}}, "fp16": {"enabled": true}, "optimizer": {"type": "Lion"}}', {'model': 'llama-3-8b', 'n': 16},
     {'zero': 3, 'micro-batch': 2, 'optimizer': 'lion', 'dtype': 'fp16', 'offload': 'optimizer', 'software': 'deepspeed+hpz+qgz', 'dp': 16, 'batch': 128, 'model': 'llama-3-8b', 'n': 16}, 'not stated, so the defaults of an estimate are taken; give --seq'),
    ('job.toml', TORCHTITAN + 'data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "op"\n', {'n': 16},
     {'tp': 2, 'sequence-parallel': True, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'recompute': 'op', 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 16, 'n': 16}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 2\ntensor_parallel_degree = 2\nfsdp_reshard_after_forward = "never"\n[activation_checkpoint]\nmode = "full"\n', {},
     {'tp': 2, 'sequence-parallel': True, 'n': 16, 'zero': 2, 'shard': 2, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'recompute': 'full', 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 16}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\ncontext_parallel_degree = 2\n[activation_checkpoint]\nmode = "none"\n', {},
     {'cp': 2, 'n': 16, 'zero': 0, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 16}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_replicate_degree = 1\ndata_parallel_shard_degree = 1\ncontext_parallel_degree = 2\n[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "4"\n', {'n': 16},
     {'cp': 2, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'recompute-layers': 8, 'recompute': 'full', 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 16, 'n': 16}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_replicate_degree = 1\ndata_parallel_shard_degree = 1\n[activation_checkpoint]\nmode = "selective"\n', {'n': 16},
     {'zero': 0, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'recompute-layers': 16, 'recompute': 'full', 'dtype': 'bf16', 'software': 'torchtitan', 'dp': 16, 'batch': 32, 'n': 16}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_shard_degree = 4\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "Interleaved1F1B"\n[activation_checkpoint]\nmode = "none"\n[optimizer]\nname = "AdamW"\n', {},
     {'pp': 2, 'virtual-stages': 2, 'dp': 4, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 8}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_shard_degree = 4\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "Interleaved1F1B"\npipeline_parallel_layers_per_stage = 4\npipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0\n[activation_checkpoint]\nmode = "none"\n', {},
     {'pp': 2, 'virtual-stages': 4, 'dp': 4, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 8}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_shard_degree = 4\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "ZBVZeroBubble"\n[activation_checkpoint]\nmode = "none"\n', {},
     {'pp': 2, 'dp': 4, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'dtype': 'bf16', 'schedule': 'zb-v', 'software': 'torchtitan', 'batch': 8}, ''),
    ('job.toml', TORCHTITAN + 'data_parallel_shard_degree = 4\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "Own"\n[activation_checkpoint]\nmode = "none"\n', {},
     {'pp': 2, 'dp': 4, 'zero': 3, 'model': 'llama-3.1-8b', 'seq': 8192, 'micro-batch': 2, 'dtype': 'bf16', 'software': 'torchtitan', 'batch': 8}, 'may change the cost, and priced without: parallelism.pipeline_parallel_schedule Own'),
    ('nemo.yaml', 'trainer: {num_nodes: 2, devices: 8, precision: bf16}\nmodel: {micro_batch_size: 1, global_batch_size: 128, tensor_model_parallel_size: 4, pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 4, sequence_parallel: true, encoder_seq_length: 4096, num_layers: 32, hidden_size: 4096, num_attention_heads: 32, num_query_groups: 8, ffn_hidden_size: 14336, activation: fast-swiglu, activations_checkpoint_granularity: selective, optim: {name: mcore_distributed_optim}, fp8: true, ub_tp_comm_overlap: true}\n', {},
     {'tp': 4, 'pp': 2, 'virtual-stages': 4, 'recompute': 'selective', 'sequence-parallel': True, 'n': 16, 'dp': 2, 'seq': 4096, 'batch': 128, 'micro-batch': 1, 'zero': 1, 'dtype': 'fp8', 'model': 'llama-3-8b', 'software': 'megatron'}, ''),
    ('nemo.yaml', 'trainer: {num_nodes: 1, devices: 4, precision: 16}\nmodel: {restore_from_path: x, micro_batch_size: 2, global_batch_size: 8, tensor_model_parallel_size: 1, encoder_seq_length: 2048, num_layers: 32, hidden_size: 4096, num_attention_heads: 32, num_query_groups: 8, ffn_hidden_size: 14336, activation: swiglu, peft: {peft_scheme: lora}, optim: {name: fused_adam}}\n', {},
     {'n': 4, 'dp': 4, 'seq': 2048, 'batch': 8, 'micro-batch': 2, 'zero': 0, 'dtype': 'fp16', 'recipe': 'lora', 'model': 'llama-3-8b', 'software': 'megatron'}, 'may change the cost, and priced without: model.restore_from_path x'),
    ('acc.yaml', 'compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP, fsdp_activation_checkpointing: true, fsdp_offload_params: false}\n', {'model': 'llama-3-8b'},
     {'recompute': 'full', 'n': 16, 'dp': 16, 'zero': 2, 'dtype': 'bf16', 'model': 'llama-3-8b'}, 'not stated, so the defaults of an estimate are taken; give --batch and --seq'),
    ('acc.yaml', 'compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: fp16\nnum_machines: 1\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, gradient_accumulation_steps: 2}\n', {'model': 'llama-3-8b'},
     {'zero': 3, 'dtype': 'fp16', 'offload': 'optimizer', 'software': 'deepspeed', 'model': 'llama-3-8b'}, 'gradient_accumulation_steps splits a batch but does not set its size; give --batch | not stated, so the defaults of an estimate are taken; give --batch and --seq'),
    ('axolotl.yaml', 'base_model: Qwen/Qwen3-8B\nsequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nadapter: lora\nlora_r: 16\nlora_target_linear: true\nbf16: true\ngradient_checkpointing: true\noptimizer: adamw_bnb_8bit\n', {'n': 16},
     {'recompute': 'full', 'model': 'Qwen3-8B', 'micro-batch': 2, 'seq': 4096, 'lora-rank': 16, 'dtype': 'bf16', 'zero': 0, 'recipe': 'lora', 'lora-targets': 'all', 'optimizer': 'adamw-8bit', 'dp': 16, 'batch': 128, 'n': 16}, ''),
    ('lf.yaml', 'model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\ncutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\ndeepspeed: ds_z3.json\n', {'n': 16},
     {'recompute': 'full', 'model': 'Qwen3-8B', 'micro-batch': 1, 'seq': 2048, 'zero': 3, 'dtype': 'bf16', 'software': 'deepspeed', 'dp': 16, 'batch': 128, 'n': 16}, ''),
]  # fmt: skip


@pytest.mark.parametrize("command, options, said", LAUNCHES, ids=[row[0][:60] for row in LAUNCHES])
def test_a_launch_comes_to_these_options_and_no_others(command, options, said, tmp_path):
    found, notes = options_of(command, tmp_path, "l.sh")
    usual = TRAINING if found["phase"] == ["train"] else SERVING
    wanted = {name: value for name, value in (usual | options).items() if value is not None}
    assert found == wanted
    sentences = [note.removeprefix(f"{tmp_path}/l.sh:1: ") for note in notes.split(" | ") if note]
    assert " | ".join(one for one in sentences if not one.startswith(ALWAYS)) == said


@pytest.mark.parametrize("name, text, given, options, said", CONFIGS)
def test_a_config_comes_to_these_options_and_no_others(name, text, given, options, said, tmp_path):
    found, notes = options_of(text, tmp_path, name, **given)
    assert found == {name: value for name, value in (TRAINING | options).items() if value is not None}
    sentences = [note.removeprefix(f"{tmp_path}/{name}: ") for note in notes.split(" | ") if note]
    assert " | ".join(one for one in sentences if not one.startswith(ALWAYS)) == said
