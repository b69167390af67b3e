"""What public files say around a server: its environment, devices, chip, load, mounts, and what stands beside it."""

from __future__ import annotations

import pytest
from launch.launched import options_of

import rooflinecli as rl

COMPOSE = """services:
  main:
    image: vllm/vllm-openai:latest
    command: --model /model --max-num-seqs 8
    volumes: ["/data/Qwen3-8B:/model:ro"]
    deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["0"], capabilities: [gpu]}]}}}
  other: {image: custom, command: --model-path x --tp 4 --mem-fraction-static 0.9}
  third: {image: none, environment: {MAX_MODEL_LEN: 4096}}
"""
POD = """spec:
  maxReplicas: 4
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
  containers: [{command: [vllm, serve, Qwen/Qwen3-8B, --tensor-parallel-size=2], resources: {limits: {nvidia.com/gpu: 4}}}]
"""
BENCH = """vllm serve Qwen/Qwen3-8B --max-model-len 4096 &
vllm bench serve --model Qwen/Qwen3-8B --random-input-len 1024 --random-output-len 128 --max-concurrency 16 --request-rate inf
"""
SWEEP = """vllm serve Qwen/Qwen3-8B &
for c in 1 8; do python benchmarks/benchmark_serving.py --random-input-len 512 --max-concurrency $c; done
"""
KSERVE = """kind: ServingRuntime
metadata: {name: r}
spec: {containers: [{name: kserve-container, command: [python, -m, vllm.entrypoints.openai.api_server], args: [--model=/mnt/models, --max-num-seqs=8]}]}
---
kind: InferenceService
spec: {predictor: {minReplicas: 2, model: {modelFormat: {name: vLLM}, runtime: r, storageUri: "oci://quay.io/x/catalog:qwen3-8b", args: [--dtype=half]}}}
"""
SUBSTITUTED = """start() { CUDA_VISIBLE_DEVICES=0,1 vllm serve "$1" --tensor-parallel-size 2 & echo $!; }
PID=$(start Qwen/Qwen3-8B)
"""
PATCH = """kind: ReplicaSet
metadata:
  annotations:
    patch: |
      spec:
        containers:
        - command: [vllm, serve, --model=Qwen/Qwen3-8B, --max-num-seqs=4]
"""
OPTIONS = """model=""
eval set -- "$(getopt -o h -- "$@")"
while true; do case "$1" in --model) model="$2"; shift 2 ;; --) shift; break ;; esac; done
vllm serve "${model:-Qwen/Qwen3-8B}"
"""
WRITTEN = "cat <<EOF >> d.yaml\ncommand: [vllm, serve, Qwen/Qwen3-8B]\nargs: [--max-num-seqs=4]\nEOF\nkubectl apply -f d.yaml\n"
SKY = "resources: {accelerators: 'H100:8'}\nservice: {replica_policy: {min_replicas: 1, max_replicas: 3}}\nrun: |\n  vllm serve Qwen/Qwen3-8B -tp 8\n"
RECIPES = "base: {model: {path: hf:Qwen/Qwen3-8B}, resources: {gpu_type: h100, agg_workers: 1, agg_nodes: 1, gpus_per_node: 2}, backend: {sglang_config: {aggregated: {tp-size: 2}}}}\n"


@pytest.mark.parametrize(
    ("name", "text", "wanted", "said"),
    [
        ("compose.yaml", COMPOSE, {"model": "Qwen3-8B", "batch": "8", "n": 1}, "command --model-path x --tp 4 --mem-fraction-static 0.9, MAX_MODEL_LEN 4096"),
        ("pod.yaml", POD, {"tp": 2, "hw": "l4"}, "4 devices are given to it, and it uses 2"),
        ("pod.yaml", POD, {"dp": 1}, "up to 4 replicas"),
        ("sky.yaml", SKY, {"hw": "h100-sxm", "tp": 8}, "up to 3 replicas"),
        ("job.sh", "#SBATCH --gres=gpu:a100:4\nvllm serve Qwen/Qwen3-8B -tp 4\n", {"hw": "a100-sxm-80"}, ""),
        ("job.sh", "#SBATCH --gres=gpu:none:4\nvllm serve Qwen/Qwen3-8B -tp 4\n", {"hw": None}, "asks for the accelerator none"),
        ("bench.sh", BENCH, {"prompt": "1024", "output": "128", "concurrency": "16", "batch": None}, "the load is that of its benchmark"),
        ("sweep.sh", SWEEP, {"prompt": "512", "concurrency": None}, "its benchmark runs --concurrency 1, 8"),
        ("isvc.yaml", KSERVE, {"model": "qwen3-8b", "batch": "8", "dtype": "fp16", "dp": 2}, "2 replicas"),
        ("llmisvc.yaml", "kind: LLMInferenceService\nspec: {model: {uri: 'pvc://s/q', name: Qwen/Qwen3-8B}, template: {containers: [{name: main}]}}", {"model": "Qwen3-8B"}, ""),
        ("pid.sh", SUBSTITUTED, {"model": "Qwen3-8B", "tp": 2}, ""),
        ("patch.yaml", PATCH, {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("options.sh", OPTIONS, {"model": "Qwen3-8B"}, ""),
        ("written.sh", WRITTEN, {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("recipe.yaml", RECIPES, {"tp": 2, "hw": "h100-sxm", "phase": ["prefill", "decode"]}, ""),
        ("tgi.sh", "docker run --gpus '\"device=0,1\"' -e MODEL_ID=Qwen/Qwen3-8B -e QUANTIZE=eetq -e MAX_BATCH_SIZE=4 ghcr.io/huggingface/text-generation-inference:3",
         {"model": "Qwen3-8B", "weight-dtype": "int8", "batch": "4", "tp": 2}, "the 2 that it is given"),
        ("gguf.sh", "CUDA_VISIBLE_DEVICES=0,1 llama-server -m Qwen3-8B-Q4_K_M.gguf", {"pp": 2, "n": 2}, ""),
        ("mount.sh", "docker run -v /m/Qwen3-8B-Q6_K.gguf:/x.gguf lmsysorg/sglang python3 -m sglang.launch_server --model-path /x.gguf --quantization gguf", {"model": "Qwen3-8B", "weight-dtype": "q6_k"}, ""),
        ("lmdeploy.sh", "lmdeploy serve api_server Qwen/Qwen3-8B --tp 2 --quant-policy 8 --session-len 8192 --max-batch-size 64 --cache-max-entry-count 0.8",
         {"tp": 2, "kv-dtype": "int8", "batch": "64", "gpu-memory-utilization": "0.8", "engine": "lmdeploy"}, "--session-len 8192 caps"),
        ("env.sh", "export VLLM_PP_LAYER_PARTITION=20,16 VLLM_LOGGING_LEVEL=DEBUG\nvllm serve Qwen/Qwen3-8B -pp 2", {"pp": 2}, "VLLM_PP_LAYER_PARTITION 20,16 (stages"),
        ("eager.sh", "vllm serve models/Qwen3-8B --enforce-eager --runner pooling --device cpu", {"model": "Qwen3-8B"}, "--enforce-eager (steps are priced with CUDA graphs), --runner pooling (it answers after"),
        ("eager.sh", "vllm serve Qwen/Qwen3-8B --device cpu --enable-chunked-prefill False --ec-transfer-config '{}'", {}, "--device cpu (--hw names the chip), --enable-chunked-prefill False (prompts"),
    ],
)  # fmt: skip
def test_what_stands_around_a_server_is_read_or_noted(name, text, wanted, said, tmp_path):
    given = {} if wanted.get("hw") or name == "job.sh" else {"hw": "h100"}
    found, notes = options_of(text, tmp_path, name, **given)
    assert {k: found.get(k) for k in wanted} == wanted
    assert said in notes


def test_a_size_given_for_ranks_of_attention_is_said_to_be_of_each(tmp_path):
    text = "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dp 2 --enable-dp-attention"
    found, notes = options_of(text, tmp_path, hw="h200", tp=16)
    assert found["tp"] == 16 and "--tp 16 is that of each of 2 ranks of attention, 32 devices" in notes


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("model.sh", "llama-server -m /models/gemma.gguf", "does not name its format; give --weight-dtype"),
        ("name.sh", "vllm serve model_name -tp 4", "the model model_name is a placeholder"),
        ("empty.sh", 'M="${M:-}"\nif [ -z "$M" ]; then exit 1; fi\nvllm serve --model "$M" -tp 2', "give MODEL"),
        ("all.sh", 'exec python3 -m vllm.entrypoints.openai.api_server "$@"', "names no model"),
        ("tgis.yaml", "image: quay.io/x/text-generation-inference:fast\ncommand: [text-generation-launcher]\nargs: [--model-name=/mnt/models/]", "/mnt/models/ names no model"),
        ("count.sh", "if [ $# = 2 ]; then\n vllm serve $1 -tp 2\nelse\n exit\nfi\n", "$1 is known only where it runs; give MODEL"),
        ("spec.yaml", "image: ghcr.io/huggingface/text-generation-inference:3\ncommand: ${MODEL_SPECIFIER}", "is known only where it runs"),
        ("none.yaml", "services: {x: {image: 'ghcr.io/ggml-org/llama.cpp:server'}}", "no launch"),
    ],
)  # fmt: skip
def test_what_is_left_open_is_asked(name, text, said, tmp_path):
    with pytest.raises(rl.RooflineError) as error:
        options_of(text, tmp_path, name)
    assert said in str(error.value)
