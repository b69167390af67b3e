"""Launches that `--emit` writes, whole: every flag in the spelling of its tool, and what of the plan the tool has no flag for."""

from __future__ import annotations

import pytest
from conftest import run_cli

WRITTEN = [
    ("vllm", "deepseek-v3 --hw h200 -n 16 --tp 8 --dp 2 --ep 16 --pp 1 --phase decode --batch 64 --dtype fp8 --kv-dtype fp8 --engine vllm", r"""
# read by `roofline estimate --from`:
# roofline: --hw h200 --dtype fp8 --prompt 2048 --output 256
vllm serve deepseek-ai/DeepSeek-V3 \
  --tensor-parallel-size 8 \
  --data-parallel-size 2 \
  --enable-expert-parallel \
  --quantization fp8 \
  --kv-cache-dtype fp8 \
  --max-model-len 2304 \
  --max-num-seqs 64
"""),
    ("vllm", "llama-3-8b --hw h100 -n 2 --tp 1 --pp 2 --dp 1 --phase decode --batch 16 --prompt 1024 --output 128 --weight-dtype int4 --engine vllm", r"""
# not part of this launch: --weight-dtype int4: vLLM 0.11 has no flag for it in this layout
# read by `roofline estimate --from`:
# roofline: --hw h100 --weight-dtype int4 --prompt 1024 --output 128
vllm serve meta-llama/Meta-Llama-3-8B \
  --tensor-parallel-size 1 \
  --pipeline-parallel-size 2 \
  --dtype bfloat16 \
  --max-model-len 1152 \
  --max-num-seqs 16
"""),
    ("sglang", "deepseek-v3 --hw h200 -n 16 --tp 2 --dp 8 --ep 8 --pp 1 --phase decode --batch 64 --kv-dtype fp8 --engine sglang", r"""
# read by `roofline estimate --from`:
# roofline: --hw h200 --prompt 2048 --output 256
python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 \
  --tp-size 16 \
  --dp-size 8 \
  --enable-dp-attention \
  --ep-size 8 \
  --kv-cache-dtype fp8_e4m3 \
  --context-length 2304 \
  --max-running-requests 512
"""),
    ("sglang", "llama-3-70b --hw h100 -n 8 --tp 4 --dp 2 --pp 1 --phase decode --batch 32 --engine sglang --max-num-batched-tokens 4096 --gpu-memory-utilization 0.8", r"""
# read by `roofline estimate --from`:
# roofline: --hw h100 --prompt 2048 --output 256
python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-70B \
  --tp-size 4 \
  --dp-size 2 \
  --dtype bfloat16 \
  --context-length 2304 \
  --max-running-requests 32 \
  --chunked-prefill-size 4096 \
  --mem-fraction-static 0.8
"""),
    ("trtllm", "qwen3-30b-a3b --hw h100 -n 4 --tp 4 --ep 4 --dp 1 --pp 1 --phase decode --batch 32 --dtype fp8 --engine trtllm", r"""
# not part of this launch: --dtype fp8: TensorRT-LLM 1.1 has no flag for it in this layout
# read by `roofline estimate --from`:
# roofline: --hw h100 --dtype fp8 --prompt 2048 --output 256
trtllm-serve Qwen/Qwen3-30B-A3B \
  --tp_size 4 \
  --ep_size 4 \
  --max_batch_size 32 \
  --max_seq_len 2304
"""),
    ("llama.cpp", "llama-3-8b --hw rtx-4090 -n 2 --tp 1 --pp 2 --dp 1 --phase decode --batch 4 --prompt 4096 --output 512 --weight-dtype q4_k_m --kv-dtype q8_0 --engine llamacpp", r"""
# read by `roofline estimate --from`:
# roofline: --hw rtx-4090 --prompt 4096 --output 512 --dtype bf16
llama-server -m Meta-Llama-3-8B-Q4_K_M.gguf \
  --n-gpu-layers 999 \
  --split-mode layer \
  --tensor-split 1,1 \
  --ctx-size 18432 \
  --parallel 4 \
  --cache-type-k q8_0 \
  --cache-type-v q8_0
"""),
    ("llama.cpp", "qwen3-30b-a3b --hw rtx-4090 -n 1 --phase decode --weight-dtype q8_0 --expert-offload host:24 --batch 4 --host-cpu ryzen-9-9950x --engine llamacpp", r"""
# read by `roofline estimate --from`:
# roofline: --hw rtx-4090 --host-cpu ryzen-9-9950x --dtype bf16 --prompt 2048 --output 256
llama-server -m Qwen3-30B-A3B-Q8_0.gguf \
  --n-gpu-layers 999 \
  --n-cpu-moe 24 \
  --ctx-size 9216 \
  --parallel 4
"""),
    ("torchtitan", "llama-3-8b --hw h100 -n 64 --tp 4 --pp 2 --dp 8 --virtual-stages 4 --zero 3 --dp-shard 4 --batch 256 --micro-batch-size 2 --seq-len 8192 --recompute full --phase train --framework torchtitan --dtype fp8", r"""
# read by `roofline estimate --from`:
# roofline: --model llama-3-8b --hw h100
[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]

[training]
local_batch_size = 2
global_batch_size = 256
seq_len = 8192

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
tensor_parallel_degree = 4
pipeline_parallel_degree = 2
context_parallel_degree = 1
expert_parallel_degree = 1
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_layers_per_stage = 4
pipeline_parallel_first_stage_less_layers = 0
pipeline_parallel_last_stage_less_layers = 0

[activation_checkpoint]
mode = "full"
"""),
    ("torchtitan", "qwen3-30b-a3b --hw h100 -n 16 --tp 1 --pp 1 --dp 16 --ep 8 --zero 3 --batch 64 --micro-batch-size 1 --seq-len 4096 --recompute none --phase train --framework torchtitan", r"""
# read by `roofline estimate --from`:
# roofline: --hw h100
[model]
name = "qwen3"
flavor = "30B-A3B"

[training]
local_batch_size = 1
global_batch_size = 64
seq_len = 4096

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 16
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
context_parallel_degree = 1
expert_parallel_degree = 8

[activation_checkpoint]
mode = "none"
"""),
    ("megatron", "llama-3-70b --hw h100 -n 64 --tp 8 --pp 4 --dp 2 --virtual-stages 5 --zero 1 --batch 128 --micro-batch-size 1 --seq-len 8192 --recompute selective --sequence-parallel --phase train --framework megatron-2025 --dtype fp8", r"""
# read by `roofline estimate --from`:
# roofline: --framework megatron-2025 --model llama-3-70b --hw h100
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py \
  --num-layers 80 \
  --hidden-size 8192 \
  --ffn-hidden-size 28672 \
  --num-attention-heads 64 \
  --normalization RMSNorm \
  --position-embedding-type rope \
  --disable-bias-linear \
  --group-query-attention \
  --num-query-groups 8 \
  --swiglu \
  --untie-embeddings-and-output-weights \
  --vocab-size 128256 \
  --seq-length 8192 \
  --max-position-embeddings 8192 \
  --tensor-model-parallel-size 8 \
  --pipeline-model-parallel-size 4 \
  --sequence-parallel \
  --num-layers-per-virtual-pipeline-stage 4 \
  --micro-batch-size 1 \
  --global-batch-size 128 \
  --bf16 \
  --fp8-format hybrid \
  --use-distributed-optimizer \
  --recompute-granularity selective
"""),
    ("megatron", "qwen3-30b-a3b --hw h100 -n 16 --tp 2 --pp 1 --cp 2 --dp 4 --ep 4 --expert-tp 2 --zero 1 --batch 64 --micro-batch-size 1 --seq-len 4096 --recompute full --recompute-num-layers 8 --phase train --framework megatron-2025", r"""
# not part of this launch: --recompute-num-layers 8: Megatron Core 0.20 has no flag for it in this layout
# read by `roofline estimate --from`:
# roofline: --framework megatron-2025 --model qwen3-30b-a3b --hw h100 --recompute-num-layers 8
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \
  --num-layers 48 \
  --hidden-size 2048 \
  --num-attention-heads 32 \
  --kv-channels 128 \
  --normalization RMSNorm \
  --position-embedding-type rope \
  --disable-bias-linear \
  --qk-layernorm \
  --group-query-attention \
  --num-query-groups 4 \
  --num-experts 128 \
  --moe-ffn-hidden-size 768 \
  --moe-router-topk 8 \
  --swiglu \
  --untie-embeddings-and-output-weights \
  --vocab-size 151936 \
  --seq-length 4096 \
  --max-position-embeddings 4096 \
  --tensor-model-parallel-size 2 \
  --pipeline-model-parallel-size 1 \
  --context-parallel-size 2 \
  --expert-model-parallel-size 4 \
  --expert-tensor-parallel-size 2 \
  --sequence-parallel \
  --micro-batch-size 1 \
  --global-batch-size 64 \
  --bf16 \
  --use-distributed-optimizer \
  --recompute-granularity full \
  --recompute-method uniform \
  --recompute-num-layers 1
"""),
    ("nemo", "llama-3-8b --hw h100 -n 12 --tp 4 --pp 1 --dp 3 --zero 3 --batch 48 --micro-batch-size 2 --seq-len 4096 --recompute full --phase train --framework nemo-2024 --dtype fp16", r"""
# read by `roofline estimate --from`:
# roofline: --framework nemo-2024 --model llama-3-8b --hw h100
trainer:
  num_nodes: 2
  devices: 6
  accelerator: gpu
  precision: '16'
model:
  micro_batch_size: 2
  global_batch_size: 48
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: true
  encoder_seq_length: 4096
  num_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
  num_query_groups: 8
  ffn_hidden_size: 14336
  normalization: rmsnorm
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  activation: fast-swiglu
  activations_checkpoint_granularity: full
  activations_checkpoint_method: uniform
  activations_checkpoint_num_layers: 1
  fp8: false
  fsdp: true
  fsdp_sharding_strategy: full
  optim:
    name: fused_adam
"""),
    ("nemo", "gpt3-175b --hw h100 -n 64 --tp 8 --pp 8 --dp 1 --virtual-stages 6 --zero 1 --batch 64 --micro-batch-size 1 --seq-len 2048 --recompute selective --sequence-parallel --phase train --framework nemo-2024 --dtype fp8", r"""
# read by `roofline estimate --from`:
# roofline: --framework nemo-2024 --model gpt3-175b --hw h100
trainer:
  num_nodes: 8
  devices: 8
  accelerator: gpu
  precision: bf16
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 8
  pipeline_model_parallel_size: 8
  virtual_pipeline_model_parallel_size: 6
  sequence_parallel: true
  encoder_seq_length: 2048
  num_layers: 96
  hidden_size: 12288
  num_attention_heads: 96
  num_query_groups: 96
  ffn_hidden_size: 49152
  normalization: layernorm
  bias: true
  position_embedding_type: learned_absolute
  share_embeddings_and_output_weights: true
  activation: gelu
  activations_checkpoint_granularity: selective
  activations_checkpoint_method: null
  activations_checkpoint_num_layers: null
  fp8: true
  optim:
    name: mcore_distributed_optim
"""),
    ("deepspeed", "llama-3-8b --hw h100 -n 8 --tp 1 --pp 1 --dp 8 --zero 3 --batch 64 --micro-batch-size 2 --seq-len 4096 --recompute full --offload optimizer --phase train --framework deepspeed", r"""
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    }
  },
  "gradient_accumulation_steps": 4,
  "bf16": {
    "enabled": true
  },
  "roofline_left_out": "--recompute full: DeepSpeed 0.17 has no flag for it in this layout",
  "roofline": "--model llama-3-8b --hw h100 --recompute full --seq-len 4096"
}
"""),
    ("maxtext", "llama-2-7b --hw tpu-v5p -n 64 --tp 4 --pp 1 --dp 16 --zero 3 --dp-shard 8 --batch 64 --micro-batch-size 4 --seq-len 4096 --recompute full --phase train --framework maxtext", r"""
# not part of this launch: --sequence-parallel: MaxText e591f30 has no flag for it in this layout
# read by `roofline estimate --from`:
# roofline: --hw tpu-v5p --sequence-parallel
base_config: base.yml
model_name: llama2-7b
per_device_batch_size: 1.0
max_target_length: 4096
dcn_data_parallelism: 1
ici_data_parallelism: 2
ici_fsdp_parallelism: 8
ici_tensor_parallelism: 4
ici_pipeline_parallelism: 1
ici_context_parallelism: 1
ici_expert_parallelism: 1
remat_policy: full
dtype: bfloat16
"""),
    ("maxtext", "mixtral-8x7b --hw tpu-v5p -n 64 --tp 1 --pp 1 --dp 64 --ep 8 --zero 3 --batch 256 --micro-batch-size 4 --seq-len 4096 --recompute selective --recompute-modules mlp --phase train --framework maxtext --dtype int8", r"""
# not part of this launch: --recompute-modules mlp: MaxText e591f30 has no flag for it in this layout
# read by `roofline estimate --from`:
# roofline: --hw tpu-v5p --recompute-modules mlp
base_config: base.yml
model_name: mixtral-8x7b
per_device_batch_size: 4.0
max_target_length: 4096
dcn_data_parallelism: 1
ici_data_parallelism: 1
ici_fsdp_parallelism: 8
ici_tensor_parallelism: 1
ici_pipeline_parallelism: 1
ici_context_parallelism: 1
ici_expert_parallelism: 8
remat_policy: save_qkv_proj
dtype: bfloat16
quantization: int8
"""),
]  # fmt: skip


@pytest.mark.parametrize("tool, question, text", WRITTEN, ids=[f"{row[0]} {row[1].split()[0]}" for row in WRITTEN])
def test_a_launch_is_written_flag_by_flag(tool, question, text):
    ran = run_cli("estimate", *question.split(), "--emit", tool)
    assert ran.code == ("not part of this launch" in text or "roofline_left_out" in text)
    assert ran.out.strip("\n") == text.strip("\n")
