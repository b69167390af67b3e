"""Launch files as they are published, cut to what decides their reading, each with where it is from; and what is left of a damaged one."""

from __future__ import annotations

import json
import random
import re

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from launch.launched import options_of

import rooflinecli as rl
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.importers.launch import read

XPK = """ARGS="model_name=llama3.1-70b per_device_batch_size=2 ici_fsdp_parallelism=-1 mu_dtype=bfloat16 max_target_length=8192 quantization=fp8_full"
xpk workload create --cluster=$CLUSTER --device-type=tpu7x-4x8x8 --num-slices=1 --command="set -e && python3 -m maxtext.trainers.pre_train.train base.yml ${ARGS}"
"""
POD = """kind: JobSet
spec:
  replicatedJobs:
    - template:
        spec:
          parallelism: 16
          template:
            metadata: {annotations: {cloud.google.com/gke-tpu-slice-topology: 4x4x4}}
            spec:
              nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu7x}
              containers:
                - name: jax-tpu-1
                  command: [bash, -c, "python3 -m maxtext.train base.yml model_name=llama3.1-8b per_device_batch_size=2 ici_data_parallelism=4 ici_fsdp_parallelism=-1"]
                  resources: {limits: {google.com/tpu: 2}}
"""
STACK = """servingEngineSpec:
  modelSpec:
    - name: qwen14b
      modelURL: Qwen/Qwen2.5-14B-Instruct
      replicaCount: 2
      requestGPU: 4
      vllmConfig: {dtype: half, v0: "1", tensorParallelSize: 4, maxModelLen: 8192, gpuMemoryUtilization: 0.85, extraArgs: [--enforce-eager]}
"""
GUARDED = """if [ $# -ne 3 ]; then
  echo "Usage: $0 model port device"
  exit 1
fi
tp=$(echo "$3" | grep -c "")
trtllm-serve $1 --port $2 --tp_size ${tp}
"""
NEURON = """services:
  tgi-1:
    image: ghcr.io/huggingface/text-generation-inference:latest-neuron
    environment: [MODEL_ID=meta-llama/Llama-3.1-8B, HF_NUM_CORES=8, MAX_BATCH_SIZE=16, MAX_CONCURRENT_REQUESTS=512]
"""
AXOLOTL = """base_model: Qwen/Qwen2.5-72B
datasets: [{path: a, type: alpaca}]
micro_batch_size: 16
fsdp_version: 2
fp8: true
fsdp_config: {offload_params: true, activation_checkpointing: true}
"""
PRIMUS = """modules:
  pre_trainer:
    framework: megatron
    model: mixtral_8x22B_v0.1.yaml
    overrides: {micro_batch_size: 2, global_batch_size: 128, pipeline_model_parallel_size: 4, tensor_model_parallel_size: 1,
      expert_model_parallel_size: 8, recompute_granularity: full, recompute_method: block, recompute_num_layers: 0}
"""
PRIMUS_TITAN = """modules:
  pre_trainer:
    framework: torchtitan
    model: llama4_17Bx128E.yaml
    overrides:
      training: {local_batch_size: 4, seq_len: 8192}
      activation_checkpoint: {mode: full, selective_ac_option: op}
"""
DBRX = """base_model: databricks/dbrx-base
datasets: [{path: a, type: alpaca}]
sequence_len: 512
adapter: lora
lora_r: 8
lora_target_modules: [q_proj, k_proj, v_proj, out_proj, layer]
micro_batch_size: 1
fsdp: [full_shard]
fsdp_config: {fsdp_activation_checkpointing: true}
"""
DOCUMENT = """```bash
MODEL_PATH=/models/Nemotron-3-Nano-30B-A3B-Q4_K_M.gguf
GPU_LAYERS=35
```
  ``` bash
docker tag vllm/vllm-openai:v0.12.0 vllm/vllm-openai:deploy
docker run --gpus all --entrypoint /bin/bash -it vllm/vllm-openai:deploy
llama-server --model ${MODEL_PATH} --n-gpu-layers ${GPU_LAYERS}
  ```
"""
MTP = """```bash
vllm serve zai-org/GLM-5.1-FP8 -tp 8
vllm serve zai-org/GLM-5.1-FP8 -tp 8 --speculative-config.method mtp --speculative-config.num_speculative_tokens 3
```
"""
CPP = """services:
  llamacpp:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    environment: {LLAMA_ARG_MODEL: /models/Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf, LLAMA_ARG_CTX_SIZE: 65536, LLAMA_ARG_N_PARALLEL: 2, LLAMA_ARG_N_CPU_MOE: 20}
"""
LOOP = """for attempt in 1 2; do
  hf download x && break
  if [ "$attempt" = 2 ]; then exit 1; fi
done
vllm serve Qwen/Qwen3-8B -tp 2
"""
ZERO = """cat > "ds_$1.json" <<EOF
{"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}}
EOF
CMD="deepspeed --num_gpus=2 finetune_llama.py --deepspeed_config=ds_$1.json --model_name meta-llama/Llama-2-7b-hf --gradient_checkpointing --max_length 4096"
eval $CMD
"""
FLAGS = """accelerate launch --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP --num_machines 2 --num_processes 16 --mixed_precision bf16 train.py \\
  --model_name_or_path meta-llama/Llama-2-70b-hf --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --max_seq_length 2048
"""
NEOX = {"pipe_parallel_size": 0, "model_parallel_size": 4, "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "seq_length": 1024,
        "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 32, "bf16": {"enabled": True}}  # fmt: skip
# NVIDIA-NeMo/Megatron-Bridge, examples/models/*/slurm_pretrain.sh: keys over a recipe, one rank a task
RECIPE = """#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
KEYS="model.tensor_model_parallel_size=2 model.expert_model_parallel_size=4 train.global_batch_size=64 train.micro_batch_size=1 model.seq_length=4096"
read -r -d '' INNER <<EOF || true
uv run python scripts/training/run_recipe.py --recipe qwen3_30b_a3b_pretrain_config ${KEYS} model.recompute_granularity=full
EOF
srun --container-image=x bash -c "${INNER}"
"""
# mattbucci/2x-3090-GA102-300-A1-sglang-inference, benchmarks/glm-air-probe-2026-06-11/probe.sh: a function is the condition
PROBE = """boot() {
  python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --mem-fraction-static "$1" & disown
}
if ! boot 0.9; then exit 1; fi
"""
# alibaba/Pai-Megatron-Patch, examples/qwen2/run_mcore_qwen.sh: more than nine arguments
TENTH = """run() { vllm serve $1 -tp ${10} --max-num-seqs ${11}; }
run Qwen/Qwen3-8B b c d e f g h i 4 32
"""
# FlagOpen/FlagScale, examples/deepseek_v3/conf/train/16b_a3b_finetune.yaml
FLAGSCALE = {"system": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "decoder_first_pipeline_num_layers": 13},
             "model": {"num_layers": 27, "hidden_size": 2048, "num_attention_heads": 16, "micro_batch_size": 1, "global_batch_size": 128, "seq_length": 4096,
                       "peft_type": "lora", "lora_dim": 32}}  # fmt: skip
# NVIDIA/NeMo, examples/nlp/language_modeling/conf/megatron_baichuan2_config.yaml
FULL = {"trainer": {"devices": 1, "num_nodes": 1, "precision": 32}, "model": {"tensor_model_parallel_size": 1, "micro_batch_size": 4, "global_batch_size": 8,
        "megatron_amp_O2": False, "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "encoder_seq_length": 4096}}  # fmt: skip
SWIFT = """CUDA_VISIBLE_DEVICES=0 swift rlhf --rlhf_type dpo --model /root/.cache/modelscope/models/google/gemma-9-1B-it --tuner_type lora --lora_rank 8
"""
# AI-Hypercomputer/gpu-recipes, training/a4x-max/qwen3-235b-a22b/megatron-bridge-gke/.../launcher.sh: a document that is a script, behind torchrun
PERFORMANCE = """worker=$(cat <<- EOM
  nice -10 \\
  python scripts/performance/custom_setup_experiment.py \\
    --model_family_name qwen --model_recipe_name qwen3_235b_a22b --gpu gb300 --num_gpus 128 --gpus_per_node 4 --compute_dtype fp8_mx --seq_length 4096 \\
    --global_batch_size 1024 -mb 2 -tp 1 -ep 64
EOM
)
echo "$worker" > worker.sh
torchrun --nproc-per-node="4" --nnodes="32" --no-python bash worker.sh
"""
# OpenGVLab/InternVL, internvl_chat/shell/internvl2.5/2nd_finetune: adapters of the language model, whose vision backbone is frozen
INTERNVL = """torchrun --nproc_per_node=8 internvl/train/internvl_chat_finetune.py --model_name_or_path OpenGVLab/InternVL2_5-2B --freeze_llm True --freeze_mlp True --freeze_backbone True \\
  --use_llm_lora 128 --bf16 True --per_device_train_batch_size 4 --gradient_accumulation_steps 16 --grad_checkpoint True
"""
# vllm-project/tpu-inference, .buildkite/kubernetes/manifests/v7x/single_prefill.yaml: two cores to a chip, for experts too
CORES = """kind: Deployment
spec:
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-tpu-topology: 2x2x1, cloud.google.com/gke-tpu-accelerator: tpu7x}
      containers:
        - command: [bash, -c, "vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size=8 --enable-expert-parallel"]
"""
CHART = {"environment": {"SERVER_TYPE": "vLLM", "SERVER_ARGS": "", "MODEL_NAME": "Qwen/Qwen3-0.6B", "NUM_GPUS": "1"}}
# Tennsoku/k8s-llm-serving-public, labs/vllm-basics/lab2-online-serving/README.md: a block exports what the next one's script reads
EXPORTS = """```bash
export UTIL=0.15
```
```bash
cat > start.sh <<'EOF'
vllm serve Qwen/Qwen3-8B ${UTIL:+--gpu-memory-utilization} ${UTIL:-}
EOF
bash start.sh
```
"""
# fyh2001/megatron-sft-recipes, experiments/gemma4_opt: the arguments that ModelScope's swift saves, which has those of vLLM too
SAVED = {"model": "Qwen/Qwen3-8B", "tuner_type": "full", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 16, "max_length": 16384, "global_world_size": 8, "sequence_parallel_size": 2,
         "vllm_tensor_parallel_size": 1, "max_model_len": None, "max-num-seqs": 256, "torch_dtype": "bfloat16", "deepspeed": {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}}  # fmt: skip
FILES = {
    "args.json": (json.dumps(SAVED), {}, {"model": "Qwen3-8B", "n": 8, "cp": 2, "dp": 4, "batch": 64, "zero": 3, "offload": "optimizer", "recompute": "full", "seq": 16384}),
    "trl.sh": ("trl sft --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2", {"n": 1}, {"recompute": "full", "dtype": "bf16"}),
    "own.sh": ("trl sft --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --gradient_checkpointing False", {"n": 1}, {"recompute": "none"}),
    "exports.md": (EXPORTS, {}, {"gpu-memory-utilization": "0.15"}),
    "performance.sh": (PERFORMANCE, {}, {"model": "qwen3-235b-a22b", "hw": "gb300", "n": 128, "ep": 64, "batch": "1024", "micro-batch": "2", "seq": "4096", "dtype": "fp8"}),
    # GeodesicResearch/geodesic-megatron, scripts/training/launch_with_sbatch.sh: a recipe without a key
    "alone.sh": ("torchrun --nproc_per_node=8 --nnodes=2 run_recipe.py --recipe llama32_1b_pretrain_config", {}, {"model": "llama3.2-1b", "n": 16}),
    "internvl.sh": (INTERNVL, {}, {"recipe": "lora", "lora-rank": 128, "batch": 512, "recompute": "full"}),
    # huggingface/optimum-neuron, notebooks/ec2/text-generation/scripts: a folder named after generation
    "text.sh": ("torchrun --nproc_per_node 32 notebooks/text-generation/scripts/sft.py --model_id Qwen/Qwen3-8B --per_device_train_batch_size 1 --tensor_parallel_size 8",
                {}, {"tp": 8, "n": 32, "dp": 4}),
    "cores.yaml": (CORES, {}, {"tp": 4, "ep": 4, "n": 4}),
    "values.yaml": (json.dumps(CHART), {}, {"model": "Qwen3-0.6B", "tp": 1, "n": 1}),
    "recipe.sh": (RECIPE, {}, {"model": "qwen3-30b-a3b", "n": 16, "tp": 2, "ep": 4, "dp": 8, "batch": 64, "micro-batch": 1, "seq": 4096, "recompute": "full", "zero": 1}),
    "probe.sh": (PROBE, {}, {"model": "Qwen3-8B", "tp": 2, "gpu-memory-utilization": "0.9"}),
    "tenth.sh": (TENTH, {}, {"model": "Qwen3-8B", "tp": 4, "batch": "32"}),
    "flagscale.yaml": (json.dumps(FLAGSCALE), {"model": "deepseek-v2-lite", "n": 8}, {"recipe": "lora", "lora-rank": 32, "stages": "13,14"}),
    "full.yaml": (json.dumps(FULL), {}, {"dtype": "fp32"}),
    # AI-Hypercomputer/maxtext, src/maxtext/configs/post_train/dpo.yml: a reference model runs forward too
    "dpo.yml": ("use_dpo: true\nper_device_batch_size: 2.0\nmodel_name: qwen3-0.6b\nmax_target_length: 512\n", {"n": 8}, {"recipe": "dpo", "batch": 16}),
    "swift.sh": (SWIFT, {}, {"model": "google/gemma-9-1B-it", "recipe": "lora", "lora-rank": 8}),
    # AI-Hypercomputer/tpu-recipes, training/ironwood/llama3.1-70b/8k-fp8-tpu7x-4x8x8/run_recipe.sh: two cores to a chip
    "xpk.sh": (XPK, {}, {"n": 256, "dp": 256, "batch": 1024, "optimizer-bytes": 10, "dtype": "fp8", "zero": 3}),
    # AI-Hypercomputer/tpu-recipes, training/ironwood/gemma4-4b/8k-bf16-tpu7x-4x4x4/k8s/k8s_manifest.yaml: the slice is in an annotation
    "pod.yaml": (POD, {}, {"n": 64, "dp": 64, "shard": 16, "batch": 256}),
    # vllm-project/production-stack, tutorials/assets/values-25-v100-multi-gpu-tp4.yaml
    "stack.yaml": (STACK, {}, {"model": "Qwen2.5-14B-Instruct", "tp": 4, "dp": 2, "dtype": "fp16", "gpu-memory-utilization": "0.85", "n": 8}),
    # vllm-project/recipes, MiniMax/MiniMax-M2.5.md: the image is the server
    "docker.md": ("```bash\ndocker run --gpus all vllm/vllm-openai:nightly MiniMaxAI/MiniMax-M2.5 \\\n  --tensor-parallel-size 4\n```\n", {}, {"tp": 4, "model": "MiniMax-M2.5"}),
    # a compose file of TGI on Inferentia2: its flags are in the environment, and concurrent requests are a queue
    "neuron.yaml": (NEURON, {}, {"tp": 4, "batch": "16", "model": "Llama-3.1-8B"}),
    # axolotl-ai-cloud/axolotl, examples/qat_nvfp4/Qwen2.5-72B_qat.yml: activations are recomputed by FSDP's own setting
    "axolotl.yml": (AXOLOTL, {"n": 8}, {"recompute": "full", "zero": 3, "dtype": "fp8", "batch": 128}),
    # AMD-AGI/Primus, examples/megatron/configs/MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml: no layer is recomputed
    "primus.yaml": (PRIMUS, {}, {"pp": 4, "ep": 8, "recompute": "none", "batch": 128, "zero": 1, "software": "megatron"}),
    # AMD-AGI/Primus, examples/torchtitan/configs/MI325X/llama4_17Bx128E-BF16-pretrain.yaml: the framework it wraps reads it
    "titan.yaml": (PRIMUS_TITAN, {"n": 64}, {"model": "llama-4-maverick", "seq": 8192, "micro-batch": 4, "batch": 256, "recompute": "full", "zero": 3}),
    # axolotl-ai-cloud/axolotl, examples/archived/dbrx/16bit-lora.yaml: attention and its router, no feed-forward
    "dbrx.yaml": (DBRX, {"n": 8}, {"lora-targets": "attention", "recompute": "full", "zero": 3, "batch": 8}),
    # axolotl-ai-cloud/axolotl, examples/distributed-parallel/qwen3-8b-fsdp-tp-cp.yaml: the sizes of a mesh are the devices
    "mesh.yaml": (AXOLOTL + "dp_shard_size: 2\ndp_replicate_size: 2\ncontext_parallel_size: 2\ntensor_parallel_size: 2\n", {},
                  {"tp": 2, "cp": 2, "dp": 4, "shard": 2, "n": 16, "batch": 64}),
    # axolotl-ai-cloud/axolotl, examples/gemma4/26b-a4b-moe-nvfp4-lora.yaml: a pattern of modules
    "pattern.yaml": (DBRX.replace("[q_proj, k_proj, v_proj, out_proj, layer]", "'layers.*(mlp|self_attn).(up|down|gate|q|k|v|o)_proj'"), {"n": 8}, {"lora-targets": "all"}),
    # code blocks share their variables, and an image that is tagged or given a shell is no server: vllm-project/recipes, NVIDIA/Nemotron-3-Nano-30B-A3B.md
    "document.md": (DOCUMENT, {}, {"model": "Nemotron-3-Nano-30B-A3B", "weight-dtype": "q4_k_m", "offload-layers": 35}),
    # ggml-org/llama.cpp, tools/server/README.md: variables of the environment
    "cpp.yml": (CPP, {}, {"batch": 2, "experts-on": "host:20", "weight-dtype": "q4_k_m"}),
    # SemiAnalysisAI/InferenceX, benchmarks/single_node/agentic/minimaxm3_fp8_h200_mtp.sh: a retry loop that gives up does not end the script
    "loop.sh": (LOOP, {}, {"model": "Qwen3-8B", "tp": 2}),
    # deepspeedai/DeepSpeedExamples, training/DeepSpeed-SuperOffload/finetune_llama-70b_4gpu.sh: the script's own arguments
    "zero.sh": (ZERO, {}, {"model": "Llama-2-7b-hf", "n": 2, "zero": 2, "batch": 8, "seq": "4096", "recompute": "full", "offload": "optimizer"}),
    # deepspeedai/DeepSpeedExamples, applications/DeepSpeed-Chat/training/step1_supervised_finetuning: the stage is an argument
    "chat.sh": ("deepspeed --num_nodes 2 --num_gpus 8 main.py --model_name_or_path facebook/opt-1.3b --per_device_train_batch_size 4 --max_seq_len 512 --gradient_checkpointing --zero_stage 3 --deepspeed",
                {}, {"model": "facebook/opt-1.3b", "n": 16, "zero": "3", "micro-batch": 4, "batch": 64, "recompute": "full", "seq": "512"}),
    # huggingface/accelerate: flags of the launcher instead of a config
    "flags.sh": (FLAGS, {}, {"model": "Llama-2-70b-hf", "n": 16, "zero": 2, "micro-batch": 2, "batch": 128, "seq": "2048", "dtype": "bf16"}),
    "fsdp.sh": ("accelerate launch --use_fsdp --num_processes 8 train.py --model_name meta-llama/Llama-2-7b-hf --fp16", {}, {"n": 8, "zero": 3, "dtype": "fp16"}),
    "qwix.sh": ("""vllm serve Qwen/Qwen3-8B --max-num-seqs 1_024 --additional-config '{"quantization": {"rules": [{"weight_qtype": "int4"}]}}'""",
                {}, {"weight-dtype": "int4", "batch": "1024"}),
    "module.yaml": ("image: vllm/vllm-openai:v0.11.0\nargs: [-m, vllm.entrypoints.openai.api_server, --model, Qwen/Qwen3-8B]\n", {}, {"model": "Qwen3-8B"}),
    # EleutherAI/gpt-neox, post-training/configs/llama3-8b-sft.yml and configs/pythia/14M.yml: one accumulation step where none is given
    "neox.yml": (json.dumps(NEOX), {"n": 8}, {"tp": 4, "zero": 1, "batch": 64, "seq": 1024}),
    # banjuede/deepseek-test, trt-llm/serve.sh
    "trt.sh": ("trtllm-serve /llms/deepseek-ai/DeepSeek-R1 --backend pytorch --tp_size 8 --ep_size 4 --max_batch_size 161", {}, {"tp": 8, "ep": 4, "expert-tp": 2, "batch": "161"}),
    # llama-bench of a GGUF file
    "bench.sh": ("llama-bench -m Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -p 1024 -n 64 -ngl 99", {}, {"prompt": 1024, "output": 64, "weight-dtype": "q4_k_m", "engine": "llamacpp"}),
    # a model given with a file that is not here
    "gguf.sh": ("llama-server -m /x/any.q4_k_m.gguf", {"model": "llama-3.1-8b"}, {"model": "llama-3.1-8b", "weight-dtype": "q4_k_m"}),
    # Hermes-3-Llama-3.1-8B.Q8_0.gguf, a tuned model after its base
    "hermes.sh": ("./llama-server --model /m/Hermes-3-Llama-3.1-8B.Q8_0.gguf", {}, {"model": "Llama-3.1-8B", "weight-dtype": "q8_0"}),
    # huggingface/text-generation-inference, launcher: the limit of tokens is the batch
    "tgi.sh": ("text-generation-launcher --model-id tiiuae/falcon-7b --max-total-tokens 4096 --max-batch-total-tokens 65536 --max-concurrent-requests 512", {}, {"batch": 16}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_published_launch_is_read_as_a_person_reads_it(name, tmp_path):
    text, asked, wanted = FILES[name]
    found, _ = options_of(text, tmp_path, name, **asked)
    assert {k: found.get(k) for k in wanted} == wanted


@pytest.mark.parametrize(
    "name, text, said",
    [
        # wanzhenchn/llm-benchmarks, scripts/trt_llm/launch_openai_server.sh: a script that counts its arguments is given them
        ("guarded.sh", GUARDED, r"guarded.sh:6: .*\$1 .*; --tp_size .*; give MODEL, --tp and --hw"),
        # kserve/kserve, config/runtimes/kserve-vllmserver.yaml
        ("mount.sh", "python -m vllm.entrypoints.openai.api_server --model=/mnt/models", "/mnt/models names no model; give MODEL and --hw"),
        # aws-samples/awsome-distributed-training, 3.test_cases/pytorch/torchtitan/slurm
        ("titan.sh", "torchrun --nproc_per_node=8 train.py --job.config_file ./llama3_8b.toml", "llama3_8b.toml, which is not here"),
        ("ds.sh", "deepspeed --num_gpus 8 train.py --deepspeed ds.json", "ds.json, which is not here"),
        # gtrias/llama-server-docker, docker-compose.yml: a list of models that requests choose from
        ("docker-compose.yml", "services: {a: {image: 'llama-server:latest', environment: [LLAMA_ARG_MODELS_PRESET=/c.ini]}}", "names no model; give MODEL"),
        # OpenThaiGPT/openthaigpt-pretraining, src/model/scripts/hf_trainer/smultinode_deepspeed.sh: the trainer's own --deepspeed
        ("own.sh", "accelerate launch --num_processes 4 train.py --model_name_or_path a/b --deepspeed ./configs/ds.json --tf32 True", r"are in ./configs/ds.json, which is not here"),
        # pytorch/torchtune, recipes/dev/gsm8k_sft.sbatch: configs of its own have no suffix
        ("tune.sh", "srun tune run --nproc_per_node 8 full_finetune_distributed --config dev/3B_sft", r"its launch is in dev/3B_sft.yaml, which is not here"),
        # NVIDIA-NeMo/Megatron-Bridge, examples/models/stepfun/step37/slurm_pretrain.sh
        ("frozen.sh", RECIPE.replace("model.seq", "model.freeze_language_model=True model.seq"), "freeze_language_model True: the language model is frozen"),
        ("scenario.sh", "export LLMDBENCH_DEPLOY_MODEL_LIST=Qwen/Qwen3-32B", "a scenario of llm-d-benchmark"),
        # EleutherAI/gpt-neox, configs/mamba/mamba-130M.yml
        ("mamba.yml", json.dumps({**NEOX, "attention_config": [[["mamba"], 32]]}), "attention_config mamba"),
        # huggingface/accelerate with a DeepSpeed file of its own
        ("acc.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: z3.json}",
         "z3.json, which is not here; give MODEL, --zero and --hw|z3.json, which is not here; no model is named"),
        # ai-dynamo/dynamo: arguments in a variable
        ("dynamo.sh", "python3 -m dynamo.sglang --model-path Qwen/Qwen3-8B $EXTRA", r"\$EXTRA has the arguments.*give --tp and --hw"),
        # AMD-AGI/Primus, examples/maxtext/configs/MI355X/mixtral_8x7B-fp8-pretrain.yaml
        ("open.yaml", "model_name: mixtral-8x7b\nper_device_batch_size: 11\ndcn_data_parallelism: -1\nici_fsdp_parallelism: 1\nici_expert_parallelism: -1\n",
         "the number of replicas is not stated; give --ep, -n and --hw"),
        # vllm-project/recipes, Llama/Llama4_Hopper.yaml: the file of --config alone
        ("hopper.yaml", "kv-cache-dtype: fp8\nasync-scheduling: true\nmax-num-batched-tokens: 8192\n", "names no model; give MODEL and --hw"),
        # AMD-AGI/Primus, examples/megatron/configs/MI300X/zebra_llama_1B_kda-pretrain.yaml
        ("zebra.yaml", PRIMUS.replace("overrides: {", "overrides: {spec: [hybrid_mamba_mla_layer_specs, kda], "), "spec is another architecture.*give MODEL"),
        # vllm-project/recipes, GLM/GLM5.md
        ("mtp.md", MTP, "#1 vllm GLM-5.1; #2 vllm GLM-5.1 speculate mtp draft-tokens 3"),
        ("handed.sh", "N=1\nC='vllm serve Qwen/Qwen3-8B -tp $(nproc)'\neval \"$C\"", r"handed.sh:3: -tp \$\(nproc\)"),
        # torchtitan's registry, NVIDIA-NeMo/Megatron-Bridge's distillation, and launches of `roofline rl`
        ("unknown.sh", "torchrun --nproc_per_node=4 -m torchtitan.train --module muse --config muse_1b", "muse_1b is a function of muse, whose sizes are not known here; give MODEL"),
        ("distill.yaml", "model: {tensor_model_parallel_size: 2, teacher: {tensor_model_parallel_size: 2}, kd_config: {skip_lm_loss: true}}", "a teacher runs forward"),
        ("verl.sh", "python3 -m verl.trainer.main_ppo --config-name=ppo.yaml actor_rollout_ref.model.path=x/y", "a launch of verl; `roofline rl --from` reads it"),
        ("tgi.yaml", "image: ghcr.io/huggingface/text-generation-inference\nenv: [{name: MODEL_ID, value: /data}]\n", "/data names no model; give MODEL"),
        # NVIDIA/Megatron-LM, examples/gpt3/train_gpt3_175b_distributed.sh
        ("gpt3.sh", "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16",
         "8 devices are no multiple"),
    ],
)  # fmt: skip
def test_what_a_launch_does_not_say_is_asked_once(name, text, said, tmp_path):
    with pytest.raises(rl.RooflineError) as error:
        options_of(text, tmp_path, name)
    assert re.search(said, str(error.value)), error.value


@pytest.mark.sampled(1)
@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(sorted(FILES)), st.randoms(use_true_random=False))
@pytest.mark.parametrize("damage", ["cut", "doubled", "reordered", "overwritten"])
def test_a_damaged_launch_gives_a_reading_or_a_sentence(damage, tmp_path_factory, name, chance: random.Random):
    text = FILES[name][0]
    lines = text.splitlines(keepends=True)
    i = chance.randrange(len(lines))
    j = chance.randrange(len(text))
    text = {
        "cut": text[:j],
        "doubled": "".join([*lines[: i + 1], *lines[i : i + 2], *lines[i + 1 :]]),
        "reordered": "".join(chance.sample(lines, len(lines))),
        "overwritten": text[:j] + chance.choice("{}[]\"'\\:$`(-=\0\n\t ") + text[j + chance.randrange(3) :],
    }[damage]
    path = tmp_path_factory.mktemp("damaged") / name  # alone: a chart's template reads the values.yaml beside it
    path.write_text(text)
    try:
        read.options(str(path), {}, lambda said: None)
    except rl.RooflineError as error:
        assert name in str(error)


@pytest.mark.parametrize("flag", ["--additional-config", "--eplb-config", "--enable-eplb --eplb-config"])
def test_a_flag_cut_off_before_its_value_is_read_as_a_person_would(flag, tmp_path):
    script = tmp_path / "cut.sh"
    script.write_text(f"vllm serve Qwen/Qwen3-8B --max-num-seqs 64 {flag}\n")
    assert read.options(str(script), {}, lambda said: None)["model"] == "Qwen3-8B"


KUBEAI = """kind: Model
spec:
  features: [TextGeneration]
  url: hf://neuralmagic/gemma-2-9b-it-FP8
  engine: VLLM
  args: [--max-num-seqs=256, --gpu-memory-utilization=0.95, --kv-cache-dtype=fp8]
  resourceProfile: nvidia-gpu-l4:1
"""
KSERVE = """kind: LLMInferenceService
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct"}
  parallelism: {tensor: 2}
  template:
    containers:
      - name: main
        env: [{name: VLLM_ADDITIONAL_ARGS, value: --max-num-seqs 64}]
  prefill:
    replicas: 2
    template: {containers: [{name: main}]}
"""
OPTIONS = """MODEL=deepseek-ai/DeepSeek-R1
TP=""
while getopts "m:e:h" opt; do
  case $opt in
    m) MODEL="$OPTARG" ;;
  esac
done
for arg in "$@"; do MODEL=$arg; done
vllm serve "$MODEL" --tensor-parallel-size 8 --pipeline-parallel-size 4 --max-num-seqs 128
"""
RAY = """kind: RayService
spec:
  serveConfigV2: |
    applications:
      - import_path: ray.serve.llm:build_openai_app
        args:
          llm_configs:
            - model_loading_config: {model_id: qwen3-8b}
              engine_kwargs: {tensor_parallel_size: 2, gpu_memory_utilization: 0.92, enable_prefix_caching: true}
              deployment_config: {num_replicas: 3}
"""
WRITTEN = """LIST=$(printf "%s, " "${A[@]}")
cat << EOF > c.yaml
cuda_graph_config:
  batch_sizes: [${LIST%, }]
kv_cache_config: {dtype: fp8}
EOF
trtllm-serve Qwen/Qwen3-8B --tp_size 4 --extra_llm_api_options c.yaml
"""
BF16 = """{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3},
 "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}"""
EVALUATION = (
    "accelerate launch --num_processes 8 lm_evaluate_megatron_qwen.py --num-layers 32 --hidden-size 4096 --bf16\n"
)
FLOAT8 = """[model]
name = "llama3"
flavor = "70B"
[training]
batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
[float8]
enable_float8_linear = true
[experimental]
enable_async_tensor_parallel = true
"""
SLICES = """model_name: llama3.1-405b
dcn_data_parallelism: 3
dcn_fsdp_parallelism: 32
ici_fsdp_parallelism: -1
per_device_batch_size: 2
"""


RECIPE = """model: {path: dsr1, precision: fp4}
resources: {gpus_per_node: 4, prefill_nodes: 2, prefill_workers: 2, decode_nodes: 4, decode_workers: 1, gpus_per_decode: 16}
backend:
  sglang_config:
    prefill: {model-path: /model/, served-model-name: deepseek-ai/DeepSeek-R1, tensor-parallel-size: 4, chunked-prefill-size: 16384, disable-cuda-graph: false}
    decode: {served-model-name: deepseek-ai/DeepSeek-R1, tensor-parallel-size: 16, data-parallel-size: 16, expert-parallel-size: 16, enable-dp-attention: true}
benchmark: {isl: 1024, osl: 512, concurrencies: 4x8}
"""
TRTLLM_RECIPE = """identity: {model: {repo: nvidia/DeepSeek-R1-NVFP4}}
model: {precision: fp4}
resources: {agg_workers: 1, gpus_per_agg: 4}
backend: {trtllm_config: {aggregated: {tensor_parallel_size: 4, moe_expert_parallel_size: 4, enable_attention_dp: true, kv_cache_config: {dtype: fp8}}}}
"""
SKY = """resources: {accelerators: {H100: 4}}
num_nodes: 1
service: {replicas: 2}
envs: {MODEL: Qwen/Qwen3-8B}
run: |
  vllm serve $MODEL --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE
"""
FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 16
lora_target: all
deepspeed: examples/deepspeed/ds_z3_offload_config.json
cutoff_len: 4096
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
"""
LORA = """servingEngineSpec:
  modelSpec:
  - {modelURL: Qwen/Qwen3-8B, enableLoRA: true, lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "30"}, vllmConfig: {maxModelLen: 4096}}
"""


@pytest.mark.parametrize(
    ("name", "text", "given", "read_as"),
    [  # substratusai/kubeai, manifests/models/gemma-2-9b-it-fp8-l4.yaml; kserve/kserve, docs/samples/llmisvc/single-node-gpu/llm-inference-service-pd-qwen2-7b-gpu.yaml
        ("m.yaml", KUBEAI, {}, {"model": "gemma-2-9b-it", "dtype": "fp8", "kv-dtype": "fp8", "batch": "256", "n": 1}),
        ("k.yaml#1", KSERVE, {}, {"model": "Qwen2.5-7B-Instruct", "phase": ["decode"], "tp": 2, "n": 2, "batch": "64"}),
        ("k.yaml#2", KSERVE, {}, {"phase": ["prefill"], "tp": 1, "n": 2}),
        # huggingface/open-r1, slurm/experimental/serve_r1_vllm.slurm
        ("s.sh", OPTIONS, {}, {"model": "DeepSeek-R1", "tp": 8, "pp": 4, "n": 32}),
        # torchtitan before 0.2, and a saved config without its suffix
        ("job", FLOAT8, {}, {"dtype": "fp8", "n": 256, "software": "torchtitan+async"}),
        ("job.toml", FLOAT8, {"software": "megatron"}, {"software": "megatron"}),
        # AI-Hypercomputer/gpu-recipes, src/frameworks/a3ultra/maxtext-configs/llama3-1-405b-768gpus-a3u-fp8.yaml
        ("config", SLICES, {"n": 768}, {"shard": 256, "batch": 1536, "software": "maxtext"}),
        # awslabs/data-on-eks, data-stacks/ray-on-eks/examples/ray-batch-inference/03-rayservice-deepseek-r1-8b.yaml
        ("r.yaml", RAY, {}, {"model": "qwen3-8b", "tp": 2, "dp": 3, "gpu-memory-utilization": "0.92"}),
        # SemiAnalysisAI/InferenceX, benchmarks/single_node/fixed_seq_len/deprecated/minimaxm2.5_fp4_b200_trt.sh
        ("c.sh", WRITTEN, {}, {"kv-dtype": "fp8", "tp": 4}),
        # deepspeedai/DeepSpeedExamples, training/bf16_master_weight/configs/bf16_full.json
        ("ds.json", BF16, {"model": "qwen3-8b"}, {"zero": 3, "dtype": "bf16", "gradient-bytes": 2, "optimizer-bytes": 4}),
        ("v.yaml", "image: vllm/vllm-openai\nenv: [{name: VLLM_ARGS, value: --model Qwen/Qwen3-8B -tp 2}]\n", {}, {"model": "Qwen3-8B", "tp": 2}),
        ("b.sh", "python -m sglang.bench_one_batch --model-path Qwen/Qwen3-8B --tp 2 --batch-size 8 --input-len 256 --output-len 32\n", {}, {"tp": 2, "batch": "8", "prompt": "256", "output": "32"}),
        # SemiAnalysisAI/InferenceX, benchmarks/multi_node/srt-slurm-recipes: prefill and decode workers, and a recipe without them
        ("srt.yaml#1", RECIPE, {}, {"model": "DeepSeek-R1", "phase": ["prefill"], "tp": 4, "n": 8, "dp": 2, "prompt": "1024", "output": "512", "token-budget": "16384"}),
        ("srt.yaml#2", RECIPE, {}, {"phase": ["decode"], "tp": 1, "dp": 16, "ep": 16, "n": 16, "engine": "sglang"}),
        ("agg.yaml", TRTLLM_RECIPE, {}, {"model": "DeepSeek-R1", "phase": ["prefill", "decode"], "dp": 4, "ep": 4, "n": 4, "kv-dtype": "fp8", "engine": "trtllm"}),
        # skypilot-org/skypilot, llm/vllm; hiyouga/LLaMA-Factory, examples/train_lora
        ("sky.yaml", SKY, {}, {"model": "Qwen3-8B", "tp": 4, "dp": 2, "n": 8}),
        ("lf.yaml", FACTORY, {"n": 8}, {"recipe": "lora", "lora-rank": 16, "zero": 3, "offload": "optimizer", "seq": 4096, "batch": 64, "recompute": "full"}),
        # pytorch/torchtitan in 2026: a function of its registry, run by torchrun or its script
        ("registry.sh", "torchrun --nproc_per_node=16 -m torchtitan.train --module llama3 --config llama3_70b --parallelism.tensor_parallel_degree=4", {},
         {"model": "llama-3.1-70b", "tp": 4, "dp": 4, "n": 16, "seq": 8192, "micro-batch": 8, "recompute": "full", "dtype": "bf16"}),
        ("run.sh", "NGPU=8 MODULE=graph_trainer.qwen3 CONFIG=graph_trainer_qwen3_32b ./run_train.sh --training.num_tokens_per_train_step 262144", {},
         {"model": "qwen3-32b", "n": 8, "batch": 64, "micro-batch": 2, "seq": 4096}),
        # LambdaLabsML/torchtitan, configs/llama3_70b-8xb200-128k.toml: states in 16 bits
        ("half.toml", FLOAT8.replace("[training]", "[training]\ndtype = 'bfloat16'"), {}, {"gradient-bytes": 2, "optimizer-bytes": 4}),
        ("bench.sh", "if trtllm-bench --model Qwen/Qwen3-8B throughput --tp 2; then echo; fi", {}, {"model": "Qwen3-8B", "tp": 2}),
        ("p.sh", "vllm serve $HOME/models/Qwen3-8B", {}, {"model": "Qwen3-8B"}),
        ("short.sh", "vllm serve hermes-3-llama-8b", {}, {"model": "hermes-3-llama-8b"}),
        ("l.sh", "llama-server -m Qwen3-8B-Q4_K_M.gguf -md d.gguf --spec-draft-n-max 4\n", {"acceptance": 0.7}, {"draft-tokens": 4}),
        ("t.sh", "#SBATCH --gres=gpu:4\n#SBATCH --nodes=1\ntext-generation-launcher --model-id Qwen/Qwen3-8B\n", {}, {"tp": 4, "n": 4}),
    ],
)  # fmt: skip
def test_what_public_files_say(name, text, given, read_as, tmp_path):
    file, _, which = name.partition("#")
    (tmp_path / file).write_text(text)
    found = read.options(f"{tmp_path / file}{'#' + which if which else ''}", given, lambda _: None)
    assert {key: found.get(key) for key in read_as} == read_as


def test_what_a_recipe_or_a_chart_says_beside_its_flags_is_noted(tmp_path):
    _, said = options_of(LORA, tmp_path, "values.yaml")
    assert "--enable-lora (no adapters" in said and "--kv-offloading-size 30 (caches stay" in said
    (tmp_path / "srt.yaml").write_text(RECIPE)
    notes: list[str] = []
    read.options(f"{tmp_path}/srt.yaml#2", {}, notes.append)
    assert "--precision fp4 (formats" in notes[0] and "--concurrencies 4x8 (the load" in notes[0]


def test_a_command_overrides_the_config_that_it_names(tmp_path):
    (tmp_path / "job.toml").write_text(FLOAT8)
    over = "torchrun -m torchtitan.train --job.config_file job.toml --training.seq_len 4096 --parallelism.pipeline_parallel_degree=2\n"
    found, _ = options_of(over, tmp_path)
    assert (found["seq"], found["pp"], found["n"]) == (4096, 2, 128)


def test_what_is_no_training_and_what_is_assumed(tmp_path):
    with pytest.raises(rl.UsageError, match="no launch of a supported tool"):
        options_of(EVALUATION, tmp_path)
    with pytest.raises(rl.UsageError, match="no launch of a supported tool"):
        options_of("accelerate launch -m lm_eval --model hf --batch_size 16", tmp_path)
    assert "$@, are taken as none" in options_of('vllm serve Qwen/Qwen3-8B "$@"', tmp_path)[1]
    _, said = options_of("text-generation-launcher --model-id Qwen/Qwen3-8B --revision gptq\n", tmp_path)
    assert "--revision gptq (formats" in said and "takes every device that it sees: not stated" in said


POOLS = """kind: StormService
spec:
  roles:
  - {name: prefill, replicas: 1, template: {spec: {containers: [{name: prefill, command: [sh, -c], args: ["vllm serve --model /models/Qwen3-8B"]}]}}}
  - {name: decode, replicas: 2, template: {spec: {containers: [{name: decode, command: [sh, -c], args: ["vllm serve --model /models/Qwen3-8B"]}]}}}
"""
ROLES = """cat > /etc/serve/c.yaml <<'EOF'
kv_cache_config: {free_gpu_memory_fraction: __SHARE__}
EOF
sed -i "s/__SHARE__/${SHARE:-0.9}/" /etc/serve/c.yaml
trtllm-serve serve Qwen/Qwen3-8B --server_role CONTEXT --config /etc/serve/c.yaml
"""
MEGABLOCKS = """B=8
if [ -n "${6}" ]; then
B=$6;
fi
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1536 --num-attention-heads 16 --moe-num-experts=64 --moe-top-k=1 \\
 --moe-expert-model-parallelism --micro-batch-size $B --global-batch-size 512 --seq-length 1024 --optimizer adafactor --fp16
"""
SWIFT = """NPROC_PER_NODE=2 \\
swift sft --model Qwen/Qwen3-8B --train_type lora --per_device_train_batch_size 1 --max_length 4096 --deepspeed zero2_offload --freeze_vit true
"""


@pytest.mark.parametrize(
    ("name", "text", "wanted", "said"),
    [
        # kubernetes-sigs/inference-perf: a flag and its value as one word of a list
        ("pod.yaml", 'command: [vllm, serve, Qwen/Qwen3-8B]\nargs: ["--quantization bitsandbytes", "--max-num-seqs=8"]', {"weight-dtype": "int4", "batch": "8"}, ""),
        ("role.sh", ROLES, {"phase": ["prefill"], "gpu-memory-utilization": 0.9}, ""),  # vllm-project/aibrix
        ("moe.sh", MEGABLOCKS, {"micro-batch": "8", "optimizer": "adafactor", "n": 8}, ""),
        # modelscope/ms-swift, lm-sys/FastChat
        ("swift.sh", SWIFT, {"n": 2, "zero": 2, "recipe": "lora", "offload": "optimizer", "dtype": "bf16", "recompute": "full"}, "priced as deepspeed"),
        ("train.sh", "torchrun --nproc_per_node=4 train.py --model_name_or_path meta-llama/Llama-2-7b-hf --bf16 True --per_device_train_batch_size 2 --fsdp 'full_shard auto_wrap'",
         {"n": 4, "zero": 3, "dtype": "bf16", "micro-batch": 2, "batch": 8}, "Trainer"),
        ("run.py.sh", "python mason.py --image x --gpus 1 -- torchrun --nproc_per_node=1 dpo.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 4 --tau 2",
         {"recipe": "dpo", "n": 1}, "priced without: --tau 2"),
        # open-thoughts: ZeRO 3 with offload of the weights as well
        ("sft.yaml", "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\nper_device_train_batch_size: 1\ndeepspeed: zero3_offload.json\n",
         {"zero": 3, "offload": "optimizer"}, "zero3_offload.json: weights are taken to stay on the device"),
        # docker compose: an entry point and a line of arguments; a LeaderWorkerSet of two pods; variables by envFrom
        ("compose.yaml", "services: {s: {entrypoint: [python3, -m, vllm.entrypoints.openai.api_server], command: --model Qwen/Qwen3-8B --tensor-parallel-size 2 --max-num-seq 9}}",
         {"tp": 2, "batch": "9"}, ""),
        ("lws.yaml", "spec: {replicas: 2, leaderWorkerTemplate: {size: 2, leaderTemplate: {command: [sglang, serve, --model-path, Qwen/Qwen3-8B, --tp, '2', --nnodes, '2']}}}",
         {"tp": 2, "dp": 2, "n": 4}, "2 replicas"),
        ("tgi.yaml", "kind: ConfigMap\nmetadata: {name: c}\ndata: {MODEL_ID: Qwen/Qwen3-8B}\n---\nkind: Deployment\nspec: {containers: [{image: ghcr.io/huggingface/text-generation-inference:2, envFrom: [{configMapRef: {name: c}}]}]}",
         {"model": "Qwen3-8B"}, ""),
        ("task.yaml", "type: service\nenv: [MODEL=Qwen/Qwen3-8B]\ncommands:\n- vllm serve $MODEL --tensor-parallel $DSTACK_GPUS_NUM\nresources: {gpu: 'MI300X:8'}\n", {"tp": 8, "n": 8}, ""),
        ("beaker.yaml", "tasks: [{command: [/bin/sh, -c], arguments: ['vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2']}]", {"tp": 2}, ""),
        ("tgi.sh", "text-generation-launcher --model-id Qwen/Qwen3-8B --quantize bitsandbytes --num-shard 1", {"weight-dtype": "int8"}, ""),
        ("gguf.sh", "llama-bench -m /models/qwen3-8b/q4_k_m.gguf -p 512 -n 512", {"model": "qwen3-8b", "weight-dtype": "q4_k_m"}, ""),
        ("under.sh", "X=<path to data>_text\nA='--nproc_per_node 8'\npython -m torch.distributed.run $A pretrain_gpt.py --num_layers 24 --hidden_size 1024 --num_attention_heads 16 --micro_batch_size 4",
         {"n": 8, "micro-batch": "4"}, ""),
        ("lora.yml", "base_model: Qwen/Qwen3-8B\ndatasets: [x]\nmicro_batch_size: 1\nadapter: lora\nload_in_4bit: true\nunfrozen_parameters: [a]\n", {"recipe": "qlora"}, "unfrozen_parameters a (all layers"),
        ("fp4.yml", "base_model: nvidia/Qwen3-8B-NVFP4\ndatasets: [x]\nmicro_batch_size: 1\nadapter: lora\n", {"recipe": "lora", "dtype": "bf16"}, "a checkpoint in nvfp4"),
        ("dpo.yaml", "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: lora\nstage: dpo\nper_device_train_batch_size: 1\n", {"recipe": "lora"}, "stage dpo: taken at the cost of lora"),
        ("ds.json", '{"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Lion"}}', {"optimizer": "lion"}, ""),
        ("max.sh", "python -m maxtext.train base.yml model_name=qwen3-8b per_device_batch_size=2 opt_type=adafactor", {"seq": 2048, "optimizer": "adafactor"}, ""),
        ("wide.md", "```bash\nvllm serve Qwen/Qwen3-8B -tp 2  ```\n", {"tp": 2}, ""),
        ("both.sh", "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 1 &\npython3 train.py --hf-checkpoint /root/x --rollout-batch-size 8 --rollout-num-gpus 4 --num-layers 36\n",
         {"tp": 1}, "has a launch of slime as well"),
        # kserve: a container with its own command, on what the operator mounts; inftyai/llmaz; gpt-neox; a launch that states other layers
        ("isvc.yaml", "kind: LLMInferenceService\nspec: {model: {uri: 'hf://Qwen/Qwen3-8B'}, template: {containers: [{name: main, command: [vllm, serve, /mnt/models], args: ['--max-num-seqs=9']}]}}",
         {"model": "Qwen3-8B", "batch": "9"}, ""),
        ("neox.yml", '{"train_impl": "dpo", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "train_micro_batch_size_per_gpu": 1}', {"recipe": "dpo"}, ""),
        ("bit.yaml", "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\nquantization_bit: 4\nper_device_train_batch_size: 1\n", {"recipe": "qlora"}, ""),
        ("less.sh", "python -m maxtext.train base.yml model_name=llama3.1-8b base_num_decoder_layers=4 per_device_batch_size=2", {}, "4 layers: the 32 of the model"),
        ("grpc.yaml", "command: [python3, -m, vllm.entrypoints.grpc_server]\nargs: [--model, Qwen/Qwen3-32B, --max-num-seq, '1024']", {"model": "Qwen3-32B", "batch": "1024"}, ""),
        ("mul.yaml", "trainer: {devices: 8, num_nodes: 4, precision: bf16}\nmodel: {micro_batch_size: 2, global_batch_size: 64, tensor_model_parallel_size: 4, num_layers: 44, hidden_size: 6144, ffn_hidden_size: '${multiply:4, ${.hidden_size}}', num_attention_heads: 48, encoder_seq_length: 2048}",
         {"n": 32, "dp": 8, "tp": 4}, ""),
        ("fp4.sh", "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3-8b per_device_batch_size=4 ici_fsdp_parallelism=4 quantization=te_nvfp4", {"n": 4, "dtype": "fp8"}, "quantization te_nvfp4: taken as fp8"),
        # aws-neuron/neuronx-distributed-training
        ("nxd.yaml", "trainer: {devices: 8, num_nodes: 1}\ndistributed_strategy: {tensor_model_parallel_size: 8, zero1: True}\ndata: {micro_batch_size: 1, global_batch_size: 8}\n", {"zero": 1}, ""),
    ],
)  # fmt: skip
def test_classes_of_public_files(name, text, wanted, said, tmp_path):
    given = {"model": "llama-3.1-8b"} if name in ("nxd.yaml", "ds.json", "neox.yml") else {}
    found, notes = options_of(text, tmp_path, name, hw="h100", **given, **({} if "n" in wanted else {"n": 8}))
    assert {k: found.get(k) for k in wanted} == wanted
    assert said in notes


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("pools.yaml", POOLS, "phase prefill dp 1 n 1; #2 vllm Qwen3-8B phase decode dp 2 n 2"),
        ("build.sh", "trtllm-build --checkpoint_dir ./converted --max_batch_size 4", "has the ranks of its checkpoint; give MODEL, --tp and --hw"),
        ("vlm.sh", "torchrun --nproc_per_node 8 examples/multimodal/train.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --data-path d.yaml", "another architecture"),
        ("tuned.yaml", "auto_tuner: {space: {tensor_model_parallel_size: [4]}, control: {run_best: False}}", "no launch of a supported tool"),
        ("convert.yaml", "run: {convert_name: x}\nmodel: {tensor_model_parallel_size: 1}", "no launch of a supported tool"),
        ("ppo_trainer.yaml", "data: {train_batch_size: 8}\nactor_rollout_ref: {model: {path: Qwen/Qwen3-8B}, rollout: {tensor_model_parallel_size: 2}}", "a launch of verl; `roofline rl --from` reads it"),
        ("images.yml", "weights_dtype: bfloat16\nici_fsdp_parallelism: 8\nper_device_batch_size: 1\n", "no launch of a supported tool"),
        ("wan.yaml", "modules: {pre_trainer: {framework: maxdiffusion, model: wan.yaml, overrides: {per_device_batch_size: 1}}}", "no launch of a supported tool"),
        ("flux.toml", "[model]\nname = 'flux'\nflavor = 'flux-dev'\n[parallelism]\n", "flux is another architecture"),
        ("hole.sh", "vllm serve --model <model-path> --tensor-parallel-size 2", "<model-path> is known only where it runs; give MODEL"),
        ("hole.yaml", "command: [vllm, serve, --model, '<model>']", "--model <model> is a placeholder; give MODEL"),
        ("axolotl.sh", "accelerate launch -m axolotl.cli.train -- examples/llama-3/fft-8b.yaml --hub-model-id x", "its launch is in examples/llama-3/fft-8b.yaml, which is not here"),
        ("swift.sh", "swift sft --model Qwen/Qwen3-8B --per_device_train_batch_size 1 --deepspeed $X/ds.json", "its ZeRO stage and format are in"),
        ("pd.yaml", "spec: {services: {A: {subComponentType: prefill, command: [vllm, serve, Qwen/Qwen3-8B]}, B: {subComponentType: decode, command: [vllm, serve, Qwen/Qwen3-8B]}}}", "phase prefill; #2 vllm Qwen3-8B phase decode"),
        ("image.yaml", "containers: [{name: vllm, image: '${VLLM_IMAGE}', args: ['--model=${MODEL_NAME}']}]", "--model ${MODEL_NAME} is known only where it runs; give MODEL"),
        ("merge.yaml", "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: lora\nexport_dir: out\n", "no launch of a supported tool"),
        ("rm.yaml", "defaults: [ppo_trainer]\nreward_model: {rollout: {tensor_model_parallel_size: 2, dtype: bfloat16}}", "no launch of a supported tool"),
        ("teach.sh", "python3 train.py --teachers math=http://a code=http://b", "no launch of a supported tool"),
        ("data.sh", "torchrun --nproc_per_node=8 main_finetune.py --data_config configs/data.yaml --batch_size 4", "no launch of a supported tool"),
        ("s3.yaml", "kind: LLMInferenceService\nspec: {model: {uri: 's3://bucket/qwen'}, template: {containers: [{name: main, command: [vllm, serve, /mnt/models]}]}}", "give MODEL"),
        ("chart.yaml", "command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --tokenizer-mode, auto, --port, '1', '{{ . | quote }}']", "has the arguments, and is known only where it runs"),
    ],
)  # fmt: skip
def test_classes_of_public_files_that_are_refused(name, text, said, tmp_path):
    with pytest.raises(rl.RooflineError) as error:
        options_of(text, tmp_path, name)
    assert said in str(error.value)


def test_a_script_that_picks_by_its_argument_is_followed_with_every_choice(tmp_path):
    text = 'start() { docker run vllm/vllm-openai:v1 Qwen/Qwen3-8B --max-num-seqs 4; }\ncase "${1:-}" in\n start) start ;;\nesac\n'
    found, said = options_of(text, tmp_path)
    assert found["batch"] == "4" and "every branch was followed" in said


def test_a_script_that_checks_for_its_arguments_is_given_them(tmp_path):
    text = 'if [ -z "$1" ]; then\n  echo usage\n  exit 1\nfi\nvllm serve "${2:-Qwen/Qwen3-8B}" --tensor-parallel-size "${3:-4}"\n'
    found, _ = options_of(text, tmp_path)
    assert (found["model"], found["tp"]) == ("Qwen3-8B", 4)


def test_a_worker_s_own_flag_names_its_phase_whatever_its_container_is_called(tmp_path):
    path = tmp_path / "worker.yaml"
    server = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B"
    for name, flags, phase in (
        ("decode", "", ["decode"]),
        ("decode", " --disaggregation-mode prefill", ["prefill"]),
        ("main", "", ["prefill", "decode"]),
    ):
        path.write_text(f"kind: Pod\nspec: {{containers: [{{name: {name}, command: [sh, -c, {server}{flags}]}}]}}\n")
        assert read.options(str(path), {}, lambda said: None)["phase"] == phase


def test_faults_inside_a_launch_are_said_in_a_sentence(tmp_path):
    """YAML in a text of YAML that is none, an empty tag of Ollama, and loops that start thousands of commands."""
    ray = tmp_path / "ray.yaml"
    ray.write_text(
        RAY.replace("            - model_loading_config", "            model_loading_config").replace(
            "args:\n", "args: [\n"
        )
    )
    with pytest.raises(DataError, match=r"ray\.yaml: spec\.serveConfigV2:\d+: not valid YAML"):
        read.read(str(ray))
    script = tmp_path / "bench.sh"
    script.write_text('ollama run ""\n')
    with pytest.raises(UsageError, match=r"bench\.sh: Ollama, which loads the model that a request names"):
        read.read(str(script))
    many = " ".join(map(str, range(1, 16)))
    script.write_text(
        f"for p in {many}; do for n in {many}; do llama-bench -m llama-2-7b.Q4_0.gguf -p $p -n $n; done; done\n"
    )
    with pytest.raises(UsageError, match=f"holds {read.MOST} or more launches that differ"):
        read.read(str(script))


def test_a_config_is_found_above_the_script_that_names_it(tmp_path):
    """As scripts of a folder are run from the top of their repository: OpenGVLab/InternVL's zero_stage1_config.json."""
    (tmp_path / "shell" / "tuned").mkdir(parents=True)
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 1}, "bf16": {"enabled": true}}')
    found, _ = options_of(f"{INTERNVL.rstrip()} --deepspeed zero.json", tmp_path / "shell" / "tuned")
    assert (found["zero"], found["dtype"]) == (1, "bf16")
