"""What public files say around a server: its environment, devices, chip, load, mounts, and what stands beside it."""

from __future__ import annotations

import pytest
from launch.launched import options_of

import rooflinecli as rl
from rooflinecli.core.errors import RooflineError
from rooflinecli.importers.launch import read

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

DOCKERFILE = """FROM vllm/vllm-openai:v0.8.5
ARG SIZE=8B
ENV MODEL=Qwen/Qwen3-${SIZE} HF_HOME=/data
# the server
ENTRYPOINT ["python3", "-m", "vllm.entrypoints.openai.api_server"]
CMD ["--model", "Qwen/Qwen3-8B", \\
     "--max-num-seqs", "32"]
"""
UNIT = """[Unit]
Description=vLLM
[Service]
Environment="CUDA_VISIBLE_DEVICES=0,1" MODEL=Qwen/Qwen3-8B
ExecStart=/opt/vllm/bin/vllm serve ${MODEL} \\
    --tensor-parallel-size 2 --max-model-len 16384
Restart=always
"""
QUADLET = "[Container]\nImage=docker.io/vllm/vllm-openai:latest\nExec=--model Qwen/Qwen3-8B --max-num-seqs 4\nAddDevice=nvidia.com/gpu=all\n"
VALUES = """replicaCount: 2
image: {repository: vllm/vllm-openai, tag: v0.10.1}
server:
  extraArgs: [--model=Qwen/Qwen3-8B, --tensor-parallel-size=2]
nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
"""
ELSEWHERE = "main: {image: {repository: vllm/vllm-openai}}\nserver: {args: [--model=Qwen/Qwen3-8B, --max-num-seqs=4]}\nother: {args: [--port, '80']}\n"
LLAMA = "containers: [{name: s, image: 'ghcr.io/ggml-org/llama.cpp:server-b10362', args: [-m, /models/Qwen3-8B-Q4_K_M.gguf, -np, '4']}]\n"
ENDPOINT = (
    "spec: {instanceType: ml.p5.48xlarge, worker: {image: 'vllm/vllm-openai:v1', args: [--model, Qwen/Qwen3-8B]}}\n"
)
ANYSCALE = """llm_engine: VLLMEngine
accelerator_type: A100-80G
engine_kwargs: {max_num_seqs: 64}
model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-8B}
tensor_parallelism: {degree: 4}
"""
SCENARIO = """scenario:
- common: {model: {name: Qwen/Qwen3-8B, gpuMemoryUtilization: 0.95}}
  standalone: {enabled: false}
  modelservice: {prefill: {enabled: false}, decode: {replicas: 2, parallelism: {tensor: 2}, vllm: {customCommand: "vllm serve $MODEL_PATH -tp $TP_SIZE\\n"}}}
"""
SCALED = """spec:
  serveConfigV2: |
    applications:
    - args: {llm_configs: [{model_loading_config: {model_source: Qwen/Qwen3-8B}, deployment_config: {autoscaling_config: {min_replicas: 1, max_replicas: 4}}}]}
"""
KVBM = """services:
  Worker:
    envs: [{name: DYN_KVBM_CPU_CACHE_GB, value: "100"}]
    extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.vllm], args: [--model, Qwen/Qwen3-8B]}}
"""
OPEA = """tgi:
  image: {repository: ghcr.io/huggingface/text-generation-inference, tag: 3.0.0-rocm}
  LLM_MODEL_ID: Qwen/Qwen3-8B
  MAX_BATCH_SIZE: "4"
  CUDA_MEMORY_FRACTION: 0.9
  extraCmdArgs: ["--num-shard", "2"]
"""
LABEL = "metadata: {labels: {fleet.llm-d.ai/hardware: gpu-nvidia-h100}}\nspec: {containers: [{command: [vllm, serve, Qwen/Qwen3-8B]}]}\n"
BACKEND = "image: {vllm: {repository: vllm/vllm-openai}}\nbackend: {id: a, vllmArgs: [--model=Qwen/Qwen3-8B, --max-num-seqs=8]}\n"
LLMKUBE = """kind: Model
spec: {source: 'https://huggingface.co/Qwen/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf', format: gguf, hardware: {gpu: {count: 2}}}
"""
TRITON = "kind: InferenceService\nspec: {predictor: {model: {modelFormat: {name: huggingface}, runtime: kserve-tritonserver, storageUri: 's3://x/qwen3-8b'}}}\n"
TGI_ENV = "image: ghcr.io/huggingface/text-generation-inference:2\nenvironment: {MODEL_ID: '${LLM_MODEL_ID:-Qwen/Qwen3-8B}', MAX_BATCH_SIZE: 4}\n"
RUNTIME = "containers: [{image: 'quay.io/x/vllm-cpu-openai-ubi9:0.3', args: [--model, Qwen/Qwen3-8B]}]\n"
SPARK = "services: {l: {image: 'ghcr.io/x/llama-cpp-spark:latest', command: [--host, 0.0.0.0, -m, /m/Qwen3-8B-Q4_K_M.gguf]}}\n"
FLAT = "scenario: [{common: {model: {name: Qwen/Qwen3-8B, maxNumSeq: 5}}, prefill: {replicas: 0}, decode: {replicas: 1, parallelism: {tensor: 2}}}]\n"
SERVED = "python -m vllm.entrypoints.openai.api_server --model=/models/qwen --served-model-name=qwen3-8b"
RETRIED = (
    "run_server() { vllm serve Qwen/Qwen3-8B --max-num-seqs 4; }\nwhile true; do if run_server; then break; fi; done\n"
)
CLIENT = "vllm serve Qwen/Qwen3-8B &\npython bench_client.py --url http://localhost:8000 --concurrency 32\n"


RAYLLM = """kind: ConfigMap
metadata: {name: m}
data:
  m.yaml: |
    deployment_config: {autoscaling_config: {min_replicas: 1, max_replicas: 8}}
    engine_config: {model_id: Qwen/Qwen3-8B, type: VLLMEngine, engine_kwargs: {max_num_seqs: 64}}
    scaling_config: {num_workers: 4}
"""
OLLAMA = """services:
  ollama:
    image: ollama/ollama
    environment: [OLLAMA_NUM_PARALLEL=4, OLLAMA_CONTEXT_LENGTH=8192, OLLAMA_KV_CACHE_TYPE=q8_0]
    entrypoint: [/bin/sh, -c, "ollama serve & sleep 5; ollama pull deepseek-r1:7b; wait"]
"""
LLMKUBE_SERVICE = """kind: Model
metadata: {name: q}
spec: {source: Qwen/Qwen3-8B, format: safetensors}
---
kind: InferenceService
metadata: {name: s}
spec: {modelRef: q, runtime: vllm, vllmConfig: {tensorParallelSize: 2, kvCacheDtype: fp8_e4m3}, resources: {gpu: 2}}
"""

TRUSS = """resources: {accelerator: "H100:2"}
trt_llm:
  build: {base_model: decoder, checkpoint_repository: {repo: meta-llama/Llama-3.3-70B-Instruct}, max_seq_len: 131072, quantization_type: fp8_kv, tensor_parallel_count: 2}
"""
COOKBOOK = """families:
- models:
  - model_path: Qwen/Qwen3-235B-A22B
    hardware:
      H200: {configurations: [{engine: {tp: 8, ep: null, extra_args: []}}]}
      MI300X: {configurations: [{engine: {tp: 4, ep: 4, extra_args: [--trust-remote-code]}}]}
"""
AUTOTUNED = """model: {name: Qwen/Qwen3-235B-A22B}
frameworks:
  sglang: {base_server_flags: {tp_size: 8, model_path: Qwen/Qwen3-235B-A22B}, search_space: {max_running_requests: [32]}}
  tensorrt_llm: {base_server_flags: {backend: pytorch, tp_size: 8}}
"""
KSERVE_FORMAT = """kind: ClusterServingRuntime
metadata: {name: own}
spec: {containers: [{image: vllm/vllm-openai, args: ["--model=/mnt/models", "--max-num-seqs=7"]}]}
---
kind: InferenceService
metadata: {name: q}
spec: {predictor: {model: {modelFormat: {name: vLLM}, storageUri: "hf://Qwen/Qwen3-8B"}}}
"""
CONDITIONS = """containers:
- image: vllm/vllm-openai
  args:
  - --model=Qwen/Qwen3-8B
  {{- if .Values.narrow }}
  - --quantization=fp8
  {{- else if eq .Values.kind "wide" }}
  - --max-num-seqs=8
  {{- else }}
  - --max-num-seqs=16
  {{- end }}
  {{- if and .Values.a .Values.b }}
  - --tensor-parallel-size=2
  {{- end }}
"""


def test_branches_of_a_chart_are_those_of_its_values(tmp_path):
    (tmp_path / "values.yaml").write_text("{narrow: false, kind: wide}")
    found, notes = options_of(CONDITIONS, tmp_path, "deployment.yaml")
    assert (found["batch"], found["tp"], found.get("dtype")) == ("8", 2, None)
    assert "leave open are taken to hold: and .Values.a .Values.b" in notes and "narrow" not in notes


def test_compose_takes_variables_of_its_files(tmp_path):
    (tmp_path / ".env").write_text("SEQS=4\n")
    (tmp_path / "own.env").write_text("# sizes\nMODEL='Qwen/Qwen3-8B'\n")
    text = "services: {a: {image: vllm/vllm-openai, env_file: [own.env], environment: {N: '${SEQS:-9}'}, command: 'vllm serve $MODEL --max-num-seqs $N'}}"
    found, _ = options_of(text, tmp_path, "docker-compose.yaml")
    assert (found["model"], found["batch"]) == ("Qwen3-8B", "4")


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
        ("Dockerfile", DOCKERFILE, {"model": "Qwen3-8B", "batch": "32"}, ""),
        ("vllm.Dockerfile", "FROM vllm/vllm-openai\nENV MODEL Qwen/Qwen3-8B\nCMD --model $MODEL --max-model-len 8192\n", {"model": "Qwen3-8B"}, "Dockerfile:3: --max-model-len 8192 caps"),
        ("vllm.service", UNIT, {"model": "Qwen3-8B", "tp": 2, "n": 2}, "vllm.service:5: --max-model-len 16384 caps"),
        ("vllm.container", QUADLET, {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("programs.conf", '[program:x]\ncommand=vllm serve %(ENV_MODEL)s\nenvironment=MODEL="Qwen/Qwen3-8B",A="1"\n', {"model": "Qwen3-8B"}, ""),
        ("values.yaml", VALUES, {"model": "Qwen3-8B", "tp": 2, "dp": 2, "hw": "h100-sxm"}, "2 replicas"),
        ("values.yaml", ELSEWHERE, {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("llama.yaml", LLAMA, {"model": "Qwen3-8B", "weight-dtype": "q4_k_m", "batch": 4}, ""),
        ("endpoint.yaml", ENDPOINT, {"model": "Qwen3-8B", "hw": "h100-sxm"}, ""),
        ("anyscale.yaml", ANYSCALE, {"model": "Qwen3-8B", "tp": 4, "batch": "64", "hw": "a100-sxm-80"}, ""),
        ("scenario.yaml", SCENARIO, {"model": "Qwen3-8B", "tp": 2, "dp": 2, "gpu-memory-utilization": "0.95"}, "2 replicas"),
        ("kubeai.yaml", "kind: Model\nspec: {engine: VLLM, url: 'hf://Qwen/Qwen3-8B', resourceProfile: 'cpu:6'}", {"model": "Qwen3-8B"}, "asks for the accelerator cpu"),
        ("scaled.yaml", SCALED, {"model": "Qwen3-8B", "dp": 1}, "up to 4 replicas"),
        ("kvbm.yaml", KVBM, {"model": "Qwen3-8B"}, "DYN_KVBM_CPU_CACHE_GB 100 (caches stay on the device"),
        ("opea.yaml", OPEA, {"model": "Qwen3-8B", "batch": "4", "tp": 2, "gpu-memory-utilization": "0.9"}, ""),
        ("backend.yaml", BACKEND, {"model": "Qwen3-8B", "batch": "8"}, ""),
        ("llmkube.yaml", LLMKUBE, {"model": "Qwen3-8B", "weight-dtype": "q4_k_m", "pp": 2}, ""),
        ("ollama.sh", "ollama serve &\nollama run qwen3:8b\n", {"model": "qwen3-8b", "weight-dtype": "q4_k_m", "engine": "llamacpp"}, "states no format"),
        ("ollama.yaml", OLLAMA, {"model": "qwen2.5-7b", "kv-dtype": "q8_0", "batch": 4}, "--ctx-size for each slot 8192"),
        ("Modelfile", "FROM llama3.1:8b-instruct-q8_0\nPARAMETER num_ctx 8192\n", {"model": "llama3.1-8b-instruct", "weight-dtype": "q8_0"}, "slot 8192"),
        ("Dockerfile", "FROM nvidia/cuda\nENV M=Qwen/Qwen3-8B\nRUN echo '#!/bin/bash\\nvllm serve $M -tp 2' > /start.sh\nCMD [\"bash\", \"/start.sh\"]\n", {"model": "Qwen3-8B", "tp": 2}, ""),
        ("rayllm.yaml", RAYLLM, {"model": "Qwen3-8B", "tp": 4, "batch": "64"}, "up to 8 replicas"),
        ("service.yaml", LLMKUBE_SERVICE, {"model": "Qwen3-8B", "tp": 2, "engine": "vllm", "kv-dtype": "fp8"}, ""),
        ("create.sh", "docker create --gpus all vllm/vllm-openai:v0.6.3 --model Qwen/Qwen3-8B-AWQ", {"model": "Qwen3-8B", "weight-dtype": "int4"}, ""),
        ("kubeai.yaml", "kind: Model\nspec: {engine: VLLM, url: 'hf://Qwen/Qwen3-8B', resourceProfile: 'google-tpu-v5e-1x1:1'}", {"hw": "tpu-v5e"}, ""),
        ("tgi.yaml", TGI_ENV, {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("runtime.yaml", RUNTIME, {"model": "Qwen3-8B"}, ""),
        ("spark.yaml", SPARK, {"model": "Qwen3-8B", "engine": "llamacpp"}, ""),
        ("flat.yaml", FLAT, {"model": "Qwen3-8B", "tp": 2, "batch": "5"}, ""),
        ("tuned.sh", "vllm serve /mnt/data/models/Qwen/Qwen3-8B-AGI-v2", {"model": "Qwen3-8B"}, "Qwen3-8B-AGI-v2 is taken to have the sizes of Qwen3-8B"),
        ("label.yaml", LABEL, {"hw": "h100-sxm"}, ""),
        ("served.sh", SERVED, {"model": "qwen3-8b"}, "--model /models/qwen names no model: taken to be qwen3-8b, which it is served as"),
        ("dynamic.sh", "llama-server -m Qwen3-8B-UD-Q4_K_XL-00001-of-00002.gguf", {"model": "Qwen3-8B", "weight-dtype": "ud-q4_k_xl"}, "a dynamic mixture of Unsloth's"),
        ("large.sh", "llama-server -m Qwen3-8B-Q6_K_L.gguf", {"model": "Qwen3-8B", "weight-dtype": "q6_k_l"}, ""),
        ("ternary.sh", "llama-server -m Qwen3-8B-TQ1_0.gguf", {"model": "Qwen3-8B", "weight-dtype": "tq1_0"}, ""),
        ("oss.sh", "ollama run gpt-oss:20b", {"model": "gpt-oss-20b", "weight-dtype": None, "engine": "llamacpp"}, ""),
        ("r1.sh", "ollama run deepseek-r1:1.5b", {"model": "deepseek-r1-distill-qwen-1.5b", "weight-dtype": "q4_k_m"}, ""),
        ("split.sh", "llama-server -m Qwen3-8B-Q4_K_M.gguf --tensor-split 6,3", {"pp": 2}, "--tensor-split 6,3: equal shares are priced"),
        ("retried.sh", RETRIED, {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("client.sh", CLIENT, {"concurrency": None}, "--concurrency 32 of another command, on line 2, may be the load, which is not read"),
        ("short.sh", "vllm serve Qwen/Qwen3-8B --max-num-seq 4 --max-num-batched-token 8192 \\\n", {"batch": "4", "token-budget": "8192"}, ""),
        ("custom.yaml", "services: {a: {image: 'avarok/vllm-dgx-spark:v11', command: [serve, --model, Qwen/Qwen3-8B]}}", {"model": "Qwen3-8B"}, ""),
        ("round.sh", "vllm serve /volume/models/Mind-Qwen3-8B-AWQ-AutoAWQ", {"model": "Qwen3-8B", "weight-dtype": "int4"}, "taken to have the sizes of Qwen3-8B"),
        ("cached.sh", "vllm serve /models/Qwen/Qwen3-8B/snapshots/7872f01b1d", {"model": "Qwen3-8B"}, ""),
        ("spark.yaml", "defaults: {tensor_parallel: 2, max_num_seqs: 32}\ncommand: |\n  vllm serve Qwen/Qwen3-8B -tp {tensor_parallel} --max-num-seqs {max_num_seqs} "
         "--speculative-config '{{\"method\": \"mtp\", \"num_speculative_tokens\": 2}}'\n", {"tp": 2, "batch": "32"}, "--speculate mtp --draft-tokens 2"),
        ("drafts.sh", "vllm serve Qwen/Qwen3-8B --speculative-config $DRAFTS", {"model": "Qwen3-8B"}, "--speculative-config $DRAFTS"),
        ("config.yaml", TRUSS, {"model": "Llama-3.3-70B-Instruct", "tp": 2, "dtype": "fp8", "kv-dtype": "fp8", "hw": "h100-sxm", "engine": "trtllm"}, "--max-seq-len 131072 caps"),
        ("cook.yaml#2", COOKBOOK, {"model": "Qwen3-235B-A22B", "tp": 4, "ep": 4, "hw": "mi300x", "engine": "sglang"}, ""),
        ("plan.yaml#2", AUTOTUNED, {"model": "Qwen3-235B-A22B", "tp": 8, "engine": "trtllm"}, ""),
        ("nok8s.yaml", "scenario: [{model: {huggingfaceId: Qwen/Qwen3-8B}, standalone: {enabled: false}, nok8s: {enabled: true, vllm: {tensorParallel: 2}}}]", {"model": "Qwen3-8B", "tp": 2}, ""),
        ("image.yaml", "services: {a: {image: 'vllm/vllm-openai:v0.11', command: [Qwen/Qwen3-8B, --max-num-seqs, '4']}}", {"model": "Qwen3-8B", "batch": "4"}, ""),
        ("kserve.yaml", KSERVE_FORMAT, {"model": "Qwen3-8B", "batch": "7"}, ""),
        ("lines.yaml", "spec:\n  containers:\n  - command: [bash, -c, --]\n    args:\n    - vllm serve Qwen/Qwen3-8B --max-model-len 8192\n", {}, "lines.yaml:5: --max-model-len"),
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
        ("wrap.sh", 'exec vllm serve "$@"', "names no model; give MODEL"),
        ("triton.sh", "mpirun -n 4 tritonserver --model-repository=/models/llama70b", "give the config.pbtxt or the model.json"),
        ("config.pbtxt", 'backend: "tensorrtllm"\nmax_batch_size: 64\nparameters: { key: "gpt_model_path" value: { string_value: "/engines/1-gpu" } }\n',
         "--gpt-model-path /engines/1-gpu names no model; an engine of TensorRT has the ranks that it was built for; give MODEL, --tp"),
        ("chart.yaml", "containers:\n- name: text-generation-inference\n  image: {{ .Values.image }}\n  args: [--model-id, '{{ .name }}', --num-shard, '1']", "is known only where it runs; give MODEL"),
        ("triton.yaml", TRITON, "Triton has its models in a repository"),
        ("ollama.sh", "ollama serve &\n", "Ollama, which loads the model that a request names; give MODEL"),
        ("size.sh", "ollama serve &\nollama run qwen3\n", "qwen3 is what Ollama's library gives by this name; give MODEL and --hw"),
        ("words.sh", "# image: tritonserver\necho \"Ollama and triton_server are elsewhere\"\n", "no launch of a supported tool"),
        ("gguf.sh", "llama-server -m /models/model.gguf", "give MODEL, --weight-dtype and --hw"),
        ("tgi.sh", 'exec text-generation-launcher "$@"', "names no model; give MODEL and --hw"),
        ("map.yaml", "kind: ConfigMap\nmetadata: {name: m}\ndata:\n  notes.txt: |\n    an engine: of: words\n    [\n", "no launch of a supported tool"),
        ("check.sh", "docker stats llama-server --no-stream", "no launch"),
        ("none.yaml", "services: {x: {image: 'ghcr.io/ggml-org/llama.cpp:server'}}", "no launch"),
    ],
)  # fmt: skip
def test_what_is_left_open_is_asked(name, text, said, tmp_path):
    with pytest.raises(rl.RooflineError) as error:
        options_of(text, tmp_path, name)
    assert said in str(error.value)


def test_a_worker_decodes_beside_one_that_only_prefills(tmp_path):
    worker = "python3 -m dynamo.vllm --model Qwen/Qwen3-8B"
    path = tmp_path / "disagg.sh"
    path.write_text(f"{worker} &\n{worker} --is-prefill-worker\n")
    said: list[str] = []
    phases = [read.options(f"{path}#{which}", {}, said.append)["phase"] for which in (1, 2)]
    assert phases == [["decode"], ["prefill"]] and "another worker of the file only prefills" in said[0]


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        ("[python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --tp, '2']", "sglang"),
        ("[vllm, serve, Qwen/Qwen3-8B, --tensor-parallel-size, '2']", "vllm"),
        ("[--model, Qwen/Qwen3-8B, --tensor-parallel-size, '2']", "vllm"),
    ],
)
def test_a_command_of_its_own_replaces_the_server_of_the_image(tmp_path, words, engine):
    for key in ("command", "args") if words[1] != "-" else ("args",):
        text = f"kind: Pod\nspec: {{containers: [{{name: main, image: vllm/vllm-openai, {key}: {words}}}]}}\n"
        found, _ = options_of(text, tmp_path, "pod.yaml")
        assert (found["engine"], found["model"], found["tp"]) == (engine, "Qwen3-8B", 2)


CHART = """kind: Deployment
spec:
  replicas: {{ .Values.replicas }}
  template:
    spec:
      containers:
        - image: vllm/vllm-openai:v0.10
          args:
            - --model={{ .Values.model }}
            {{- range .Values.args }}
            - {{ . | quote }}
            {{- end }}
          resources: {limits: {nvidia.com/gpu: "{{ .Values.gpus }}"}}
"""
CHART_VALUES = """model: Qwen/Qwen3-8B
replicas: 2
args: [--tensor-parallel-size=4, --max-num-seqs=32]
gpus: 4
"""


def test_lists_of_arguments_of_a_chart_are_its_values(tmp_path):
    (tmp_path / "values.yaml").write_text(CHART_VALUES)
    found, _ = options_of(CHART, tmp_path, "deployment.yaml")
    assert [found[key] for key in ("model", "tp", "n", "batch")] == ["Qwen3-8B", 4, 8, "32"]


def test_arguments_of_a_chart_that_are_not_here_are_asked_for(tmp_path):
    (tmp_path / "values.yaml").write_text("model: Qwen/Qwen3-8B\n")
    text = "kind: Pod\nspec:\n  containers:\n    - command: [vllm, serve, Qwen/Qwen3-8B]\n      args:\n        {{- toYaml .Values.extraArgs | nindent 8 }}\n"
    with pytest.raises(RooflineError, match="has the arguments, and is known only where it runs"):
        options_of(text, tmp_path, "deployment.yaml")


def test_the_script_that_is_an_entry_point_gets_the_arguments_of_its_container(tmp_path):
    (tmp_path / "enter.sh").write_text('#!/bin/sh\nset -e\nexec vllm serve "$@"\n')
    text = "services: {v: {image: vllm/vllm-openai-rocm, volumes: ['./enter.sh:/opt/enter.sh:ro'], entrypoint: [/opt/enter.sh], command: [/cache/hub/models--Qwen--Qwen3-8B/snapshots/1f2e, --tensor-parallel-size, '2']}}\n"
    found, _ = options_of(text, tmp_path, "compose.yaml")
    assert (found["model"], found["tp"]) == ("Qwen3-8B", 2)


def test_the_role_of_a_pod_is_that_of_its_labels(tmp_path):
    pod = "kind: Deployment\nmetadata: {{labels: {{llm-d.ai/role: {0}}}}}\nspec: {{replicas: 4, template: {{spec: {{containers: [{{command: [vllm, serve, Qwen/Qwen3-8B]}}]}}}}}}\n"
    path = tmp_path / "pd.yaml"
    path.write_text("---\n".join(pod.format(role) for role in ("prefill", "decode")))
    phases = [read.options(f"{path}#{which}", {}, lambda _: None)["phase"] for which in (1, 2)]
    assert phases == [["prefill"], ["decode"]]
