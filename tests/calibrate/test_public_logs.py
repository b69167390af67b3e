"""Lines of logs in public repositories, read by hand before our reader saw them, and the same files cut, doubled and reordered."""

from __future__ import annotations

import json
import random
import re

import pytest
from calibrate.logs import LOGS
from calibrate.test_rl_and_power import POWER, RL

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import read_source
from rooflinecli.importers.logs.serving_run import IMAGES
from rooflinecli.importers.source import Source


def _block(head: str, end: str, *fields: tuple[str, object]) -> str:
    """The block that vLLM's and SGLang's serving benchmarks print."""
    title = "============ Serving Benchmark Result ============\n"
    return head + title + "".join(f"{name + ':':<41}{value}\n" for name, value in fields) + end


def _mllog(*events: tuple[str, float, object, dict]) -> str:
    """Events of MLPerf training: key, seconds, value and metadata."""
    rows = (
        {"time_ms": round(time * 1000) + 1, "key": key, "value": value, "metadata": more}
        for key, time, value, more in events
    )
    return "".join(f":::MLLOG {json.dumps(row)}\n" for row in rows)


CLOSED = "=" * 50 + "\n"
_AIPERF = {
    "time_to_first_token": (195.84, "ms"),
    "inter_token_latency": (35.2, "ms"),
    "output_token_throughput": (52.69, "tokens/sec"),
}
_AIPERF |= {"output_sequence_length": (64.0, "tokens"), "input_sequence_length": (256.0, "tokens")}
# repository:path -> lines of it, and what they say: (line, quantity, value, unit, some options or probe)
PUBLIC: dict[str, tuple[str, list[tuple]]] = {
    "bigscience-workshop/bigscience:experiments/gpt2-hf-ds/hf_ds_gpt2_perf_n16_bs4-mbs8.out": (  # 1000 samples in two steps of 512, the second a part
        "{'train_runtime': 273.0148, 'train_samples_per_second': 3.663, 'train_steps_per_second': 0.007, 'epoch': 1.0}\n"
        "{'train_runtime': 273.0144, 'train_samples_per_second': 3.663, 'train_steps_per_second': 0.007, 'epoch': 1.0}\n",
        [(1, "train", 136.5074, "s", {"batch": None})],
    ),
    "bigscience-workshop/bigscience:experiments/gpt2-16gb-nodes.md": (
        "```\niteration 50/ 1000 | consumed samples: 200 | elapsed time per iteration (ms): 661.3 | learning rate:\n```\n8 nodes\n"
        "```\niteration 650/ 1000 | elapsed time per iteration (ms): 1210.1 | learning rate: 1.450E-05 | lm loss:\n```\n",
        [(2, "train", 0.6613, "s", {}), (6, "train", 1.2101, "s", {})],
    ),
    "bigscience-workshop/bigscience:experiments/gpt2-meg-ds-3d-old/meg_ds_3d_gpt2_perf_n16.out": (
        "using world size: 64 and model-parallel size: 4\n  batch_size ...................... 4\n  fp16 ............................ True\n"
        "  pipe_parallel_size .............. 16\n  seq_length ...................... 1024\n"
        " iteration        1/    1000 | elapsed time per iteration (ms): 150471.3 | learning rate: 1.875E-05 | lm loss: 1.279022E+01 |\n"
        " iteration        2/    1000 | elapsed time per iteration (ms): 145207.0 | learning rate: 3.750E-05 | lm loss: 1.280042E+01 |\n",
        [(7, "train", 145.207, "s", {"n": 64, "tp": 4, "pp": 16, "micro-batch": 4, "seq": 1024, "dtype": "fp16"})],
    ),
    "AMD-AGI/Primus:docs/04-technical-guides/hybrid-models/gdn-guide.md": (
        " iteration  4700/ 4768 | elapsed time per iteration (ms): 1460.8/1450.4 |\n   TFLOP/s/GPU: 633.7 | tokens per GPU (tokens/s/GPU): 180743.2 |\n",
        [(1, "train", 1.4608, "s", {})],
    ),
    "argonne-lcf/Megatron-DeepSpeed, a log of 2024-04-21": (  # its samples per second are those of micro-steps
        "[2024-04-21 02:45:40,722] [INFO] [timer.py:260:stop] epoch=0/micro_step=3/global_step=3, RunningAvgSamplesPerSec=74.68, CurrSamplesPerSec=74.68, "
        "MemAllocated=4.75GB\n[2024-04-21 02:45:40][INFO][training:1251] -  iteration=       3/  317892 | consumed_samples=         768 | "
        "elapsed_time_per_iteration_ms=16071.8 | learning_rate=0.000000 | global_batch_size=  256 | lm loss=11.2 | actual_seqlen= 4096 | TFLOPs=160.07 |\n",
        [(2, "train", 16.0718, "s", {"batch": 256, "seq": 4096})],
    ),
    "aws-samples/awsome-distributed-training:3.test_cases/megatron/megatron-lm/slurm/gpt3/README.md": (
        "   1:  iteration       25/73242187 | consumed samples:           50 | elapsed time per iteration (ms): 87.0 | global batch size:     2 |\n\n"
        "   iteration        2/  508626 | consumed samples:          576 | elapsed time per iteration (ms): 243438.3 | global batch size:   288 |\n",
        [(1, "train", 0.087, "s", {"batch": 2}), (3, "train", 243.4383, "s", {"batch": 288})],
    ),
    "aws-samples/awsome-distributed-training:micro-benchmarks/nccl-tests/README.md": (
        "To find your log file:\n\n```text\n0: #                                                              out-of-place                       in-place\n"
        "0: #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        "0:     16777216       4194304     float     sum      -1   1191.8   14.08   26.39      0   1190.4   14.09   26.42      0\n"
        "0:   2147483648     536870912     float     sum      -1    51406   41.78   78.33      0    51406   41.77   78.33      0\n"
        "0: # Out of bounds values : 0 OK\n0: # Avg bus bandwidth    : 17.46\n```\nMore text follows here.\nAnd more.\nAnd more.\nAnd more.\nAnd more.\n",
        [(6, "collective", 1191.8e-6, "s", {"op": "all-reduce", "n": None}), (7, "collective", 51.406e-3, "s", {"bytes": 2147483648.0})],
    ),
    "the same with the prefix of mpirun in an indented listing that leaves lines out": (
        "   ```log\n   [1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        "   [1,0]<stdout>:           0             0     float     sum      -1    15.51    0.00    0.00      0    15.52    0.00    0.00      0\n   ...\n"
        "   [1,0]<stdout>:  1073741824     268435456     float     sum      -1   6426.3  167.09  313.29      0   6426.1  167.09  313.29      0\n"
        "   [1,0]<stdout>:  2147483648     536870912     float     sum      -1   9197.5  233.49  437.79      0   9195.2  233.54  437.89      0\n   ```\n",
        [(5, "collective", 6.4263e-3, "s", {"op": "all-reduce"}), (6, "collective", 9.1975e-3, "s", {"bytes": 2147483648.0})],
    ),
    "NeMo through DLLogger, and its progress line as a page has broken it": (
        'DLLL {"type": "LOG", "step": "PARAMETER", "data": {"cfg/micro_batch_size": 1, "cfg/global_batch_size": 2048, "cfg/tensor_model_parallel_size": 4, "cfg/encoder_seq_length": 2048}}\n'
        'DLLL {"type": "LOG", "step": 48, "data": {"global_step": 48.0, "train_step_timing in s": 32.76, "epoch": 0}}\n'
        "Expected output:\n\n```\nTraining epoch 1, iteration 10/999 | lr: 4.498e-06 | global_batch_size: 512 |\n"
        "global_step: 29 | reduced_train_loss: 11.03 | train_step_timing in s: 46.84 |\nconsumed_samples: 15360\n```\n",
        [(2, "train", 32.76, "s", {"batch": 2048, "tp": 4, "seq": 2048}), (7, "train", 46.84, "s", {"batch": 512, "tp": None})],
    ),
    "ms-swift counts a sequence once for each of two ranks that share it": (
        "sequence_parallel_size=2,\n{'train_runtime': '49.68', 'train_samples_per_second': '4.831', 'train_steps_per_second': '0.604', 'epoch': '0.006376', 'global_step/max_steps': '30/30'}\n",
        [(2, "train", 1.656, "s", {"batch": 4.0})],
    ),
    "triton-inference-server/tutorials:Popular_Models_Guide/Llama2/trtllm_guide.md, a client that does not stream": (
        "```\n                         LLM Metrics\n┃              Statistic ┃      avg ┃      min ┃\n"
        "│   Request latency (ms) │ 1,630.23 │ 1,616.37 │\n│ Output sequence length │   300.00 │   300.00 │\n│  Input sequence length │   200.00 │   200.00 │\n"
        "└────────────────────────┴──────────┴──────────┘\nOutput token throughput (per sec): 184.02\nRequest throughput (per sec): 0.61\n```\n",
        [(4, "throughput", 184.02, "tokens/s", {"prompt": 200, "output": 300})],
    ),
    "AntonioLopardo/OLMo:checkpoints/OLMo-1B-untied/wandb/wandb/run-20251212_221943-r6n1qstk/files/output.log": (  # ends with another metric
        "2025-12-12 22:22:41.380\tclean-soul-smiles-fin-03:0\tolmo.train:979\tINFO\t[step=3/10000,epoch=0]\n    throughput/total_tokens=12,582,912\n"
        "    throughput/device/tokens_per_second=76,914\n    throughput/device/batches_per_second=0.0183\n",
        [(3, "train", 76914.0, "tokens/s/device", {"tokens": 4194304.0})],
    ),
    "genai-perf before its name was in the title, and python -m before a client": (
        "genai-perf \\\n  -m ensemble \\\n  --concurrency 1 \\\n\n                 LLM Metrics\n┃                Statistic ┃       avg ┃       min ┃\n"
        "│ Time to first token (ms) │    675.08 │    459.99 │\n│ Inter token latency (ms) │     22.86 │     19.98 │\n│   Output sequence length │  1,282.70 │  1,200.00 │\n│    Input sequence length │  1,024.00 │  1,024.00 │\n"
        "└──────────────────────────┴───────────┘\npython3 -m sglang.bench_serving --backend sglang --num-prompts 37\n"
        + _block("", CLOSED, ("Successful requests", 37), ("Benchmark duration (s)", 412.6), ("Total input tokens", 370), ("Total generated tokens", 18944), ("Output token throughput (tok/s)", 45.91)),
        [
            (8, "itl", 0.02286, "s", {"prompt": 1024, "output": 1283, "concurrency": 1, "model": None}),
            (7, "ttft", 0.67508, "s", {}),
            (13, "throughput", 45.91, "tokens/s", {"engine": "sglang", "model": None, "prompt": 10}),
        ],
    ),
    "llama-server's answer names its model and format": (
        '{"model": "unsloth/Qwen3.5-122B-A10B-GGUF:UD-Q4_K_XL", "timings": {"cache_n": 0, "prompt_n": 64, "prompt_ms": 6418.963, "predicted_n": 256, "predicted_ms": 16338.663}}\n',
        [
            (1, "prefill", 6.418963, "s", {"said-model": "unsloth/Qwen3.5-122B-A10B-GGUF:UD-Q4_K_XL", "weight-dtype": "q4_k_m"}),
            (1, "itl", 0.0638229, "s", {"prompt": 64, "output": 256}),
        ],
    ),
    "MVAPICH user guide: osu_allreduce on two A100 (mpirun_rsh)": (
        "# OSU MPI-CUDA Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n16                      1.60\n"
        "[a100-01.cluster:mpi_rank_0][dreg_register] [Performance Impact Warning]: Entries are being evicted\n32                     13.30\n",
        [(3, "collective", 1.6e-6, "s", {"op": "all-reduce"}), (5, "collective", 13.3e-6, "s", {"bytes": 32.0})],
    ),
    "ib_write_bw between pods (perftest, mlx5_0)": (
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        "Conflicting CPU frequency values detected: 1000.259000 != 2105.420000. CPU Frequency is not max.\n"
        " 65536      5000             11025.44            11024.71             0.176395\n",
        [(3, "collective", 65536 / (11024.71 * 2**20), "s", {"op": "permute"})],
    ),
    "kyuz0/amd-r9700-ai-toolboxes:benchmark/results/llama-2-7b.Q4_0__vulkan_amdvlk__fa1__single.log": (  # which of the three ran is not said
        "ggml_vulkan: 0 = AMD Radeon AI PRO R9700 (AMD open-source driver) | uma: 0\nggml_vulkan: 1 = AMD Radeon AI PRO R9700 (AMD open-source driver) | uma: 0\n"
        "ggml_vulkan: 2 = AMD Ryzen 9 9900X3D 12-Core Processor (AMD open-source driver) | uma: 1\n"
        "| model | size | params | backend | ngl | fa | test | t/s |\n| --- | ---: | ---: | --- | --: | -: | ---: | ---: |\n"
        "| llama 7B Q4_0 | 3.56 GiB | 6.74 B | Vulkan | 99 | 1 | tg128 | 119.97 ± 0.54 |\n\nbuild: 2aa45ef9e (7423)\n",
        [(6, "itl", 1 / 119.97, "s", {"engine": "llamacpp-vulkan", "weight-dtype": "q4_0", "n": None})],
    ),
    "kyuz0/amd-r9700-ai-toolboxes:benchmark/results/Devstral-2-123B-Instruct-2512-Q3_K_S-00001-of-00002__rocm6_4_4__fa1__dual.log": (
        "ggml_cuda_init: found 2 ROCm devices:\n  Device 0: AMD Radeon AI PRO R9700, gfx1201 (0x1201), VMM: no, Wave Size: 32\n"
        "  Device 1: AMD Radeon AI PRO R9700, gfx1201 (0x1201), VMM: no, Wave Size: 32\n"
        "| model | size | params | backend | ngl | fa | test | t/s |\n| --- | ---: | ---: | --- | --: | -: | ---: | ---: |\n"
        "| llama ?B Q3_K - Small | 50.63 GiB | 125.03 B | ROCm | 99 | 1 | pp512 | 238.15 ± 0.10 |\n",
        [(6, "prefill", 512 / 238.15, "s", {"engine": "llamacpp-rocm", "weight-dtype": "q3_k_s", "n": 2, "pp": 2, "said-model": "llama 125B Q3_K - Small"})],
    ),
    "lhl/strix-halo-testing:llama-cpp-fix-wmma/gpt-oss-20b.default-hip.jsonl": (  # its experts are in four bits, whatever it is called
        '{"build_number": 6865, "gpu_info": "Radeon 8060S Graphics", "backends": "ROCm", "model_type": "gpt-oss 20B F16", "model_size": 13779465344, '
        '"model_n_params": 20914757184, "n_gpu_layers": 99, "flash_attn": true, "n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 49.924186}\n',
        [(1, "itl", 1 / 49.924186, "s", {"weight-dtype": None, "engine": "llamacpp-rocm"})],
    ),
    "vllm-project/recipes:NVIDIA/Nemotron-3-Nano-30B-A3B.md": (  # a model whose name holds a variable, and prose that names the command
        "vllm bench serve \\\n  --model nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-$DTYPE \\\n  --max-concurrency 1024\n\nSample output by the `vllm bench serve` command:\n"
        "============ Serving Benchmark Result ============\nSuccessful requests:                     2048\nMaximum request concurrency:             1024\n"
        "Total input tokens:                      2097155\nTotal generated tokens:                  2097152\nMean TTFT (ms):                          4490.58\n"
        "Mean TPOT (ms):                          59.45\nMedian TPOT (ms):                        61.04\n==================================================\n",
        [(6, "itl", 0.05945, "s", {"concurrency": 1024, "prompt": 1024, "model": None}), (6, "ttft", 4.49058, "s", {})],
    ),
    "vllm-project/recipes:DeepSeek/DeepSeek-V3.md": (  # one request is a closed loop of one, at whatever rate it was sent
        "vllm bench serve \\\n  --model nvidia/DeepSeek-R1-FP4 \\\n  --request-rate 10000\n============ Serving Benchmark Result ============\n"
        "Successful requests:                     1\nBenchmark duration (s):                  16.39\nTotal input tokens:                      7902\n"
        "Total generated tokens:                  1000\nMean TTFT (ms):                          560.00\nMean TPOT (ms):                          15.85\n"
        "Median TPOT (ms):                        15.85\n==================================================\n",
        [(4, "itl", 0.01585, "s", {"concurrency": 1, "prompt": 7902, "model": "nvidia/DeepSeek-R1-FP4"}), (4, "ttft", 0.56, "s", {})],
    ),
    "AI-Hypercomputer/tpu-recipes:training/archive/trillium/Llama3.0-70B-PyTorch/GCE/README.md": (
        "[worker :0] ***** train metrics *****\n[worker :0]   epoch                    =        0.3125\n[worker :0]   train_loss               =         9.278\n"
        "[worker :0]   train_runtime            =    0:46:45.60\n[worker :0]   train_samples            =         32816\n"
        "[worker :0]   train_samples_per_second =          3.65\n[worker :0]   train_steps_per_second   =         0.007\n",
        [(4, "train", 3.65, "samples/s", {"batch": None})],
    ),
    "rnpcs/philschmid-bart-large-cnn-samsum:train_results.json": (  # of transformers before 4.6, whose samples per second are steps
        '{\n    "epoch": 3.0,\n    "train_runtime": 363.7124,\n    "train_samples": 14732,\n    "train_samples_per_second": 1.905\n}',
        [(3, "train", 363.7124 / 693, "s", {"batch": 64})],
    ),
    "suzushi-tw/luojiu-7b-base:train_results.json": (
        '{\n    "epoch": 3.0,\n    "train_runtime": 371992.1593,\n    "train_samples_per_second": 0.749,\n    "train_steps_per_second": 0.023\n}',
        [(3, "train", 0.749, "samples/s", {"batch": None})],
    ),
    "vllm-project/recipes:Ernie/Ernie4.5.md": (  # 16 requests within 1.6 s, each of 18 s, are all in flight at once
        _block(
            "vllm bench serve \\\n  --model baidu/ERNIE-4.5-21B-A3B-PT \\\n  --request-rate 10 \\\n  --num-prompts 16\n", CLOSED,
            ("Successful requests", 16), ("Request rate configured (RPS)", "10.00"), ("Benchmark duration (s)", 18.65),
            ("Total input tokens", 127952), ("Total generated tokens", 16000), ("Output token throughput (tok/s)", 857.78),
            ("Mean TTFT (ms)", 876.28), ("Mean TPOT (ms)", 16.84), ("Median TPOT (ms)", 16.86),
        ),
        [(5, "throughput", 857.78, "tokens/s", {"concurrency": 16, "qps": None, "model": "baidu/ERNIE-4.5-21B-A3B-PT"})],
    ),
    "vLLM on a DGX Spark, answers of 4k tokens at 0.2 requests per second": (  # arrivals end after 250 s, a request takes 760 s
        _block(
            "vllm bench serve --backend openai-chat --model nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-BF16 --num-prompts 50 --request-rate 0.2\n",
            CLOSED, ("Successful requests", 50), ("Request rate configured (RPS)", "0.20"), ("Benchmark duration (s)", "1044.40"),
            ("Total input tokens", 55836), ("Total generated tokens", 209303), ("Output token throughput (tok/s)", 200.41),
            ("Mean TTFT (ms)", 651.77), ("Mean TPOT (ms)", 181.0), ("Median TPOT (ms)", 190.0),
        ),
        [(2, "throughput", 200.41, "tokens/s", {"concurrency": 50, "qps": None})],
    ),
    "a course on vLLM, 10 requests per second": (  # of which 7.9 are served
        _block(
            "python benchmarks/benchmark_serving.py \\\n  --model Qwen/Qwen2.5-7B-Instruct \\\n  --request-rate 10\n```\n\n| `--request-rate 10` | rate |\n",
            CLOSED, ("Successful requests", 200), ("Benchmark duration (s)", 25.32), ("Total input tokens", 102400),
            ("Total generated tokens", 25600), ("Output token throughput (tok/s)", 1011.07), ("Mean TTFT (ms)", 45.23),
            ("Mean TPOT (ms)", 12.45), ("Median TPOT (ms)", 11.89),
        ),
        [(7, "itl", 0.01245, "s", {"qps": 10, "doubt": "served 7.9 of 10 requests per second, so its queue grew: no steady load"})],
    ),
    "a book on vLLM, medians alone, closed by the listing's end": (
        _block(
            'vllm bench serve \\\n    --model meta-llama/Llama-3.1-8B-Instruct --request-rate inf --max-concurrency "$C"\n```\n', "```\n\nNote.\n",
            ("Successful requests", 1152), ("Maximum request concurrency", 96), ("Benchmark duration (s)", 191.24),
            ("Total input tokens", 4718592), ("Total generated tokens", 589824), ("Output token throughput (tok/s)", 3084.14),
            ("Median TTFT (ms)", 212.44), ("Median TPOT (ms)", 30.91), ("Median ITL (ms)", 30.88),
        ),
        [(4, "itl", 0.03091, "s", {"concurrency": 96, "prompt": 4096, "model": "meta-llama/Llama-3.1-8B-Instruct"}), (4, "ttft", 0.21244, "s", {})],
    ),
    "sgl-project/sglang, pull request 9812": (  # answers of one token
        _block(
            "", CLOSED, ("Backend", "sglang-oai-chat"), ("Traffic request rate", "inf"), ("Max request concurrency", "not set"),
            ("Successful requests", 768), ("Benchmark duration (s)", 80.33), ("Total input tokens", 784909), ("Total generated tokens", 768),
            ("Output token throughput (tok/s)", 9.56), ("Mean TTFT (ms)", 53069.87), ("Mean ITL (ms)", "0.00"), ("Median ITL (ms)", "0.00"),
        ),
        [(1, "throughput", 9.56, "tokens/s", {"engine": "sglang", "unread": "answers of one token measure prompts, not decoding"})],
    ),
    "an AIPerf export without its configuration": (  # the load is not known, so it is no burst
        json.dumps({name: {"unit": unit, "avg": value} for name, (value, unit) in _AIPERF.items()}),
        [(1, "itl", 0.0352, "s", {"concurrency": None, "qps": None, "output": 64}), (1, "ttft", 0.19584, "s", {})],
    ),
    "nccl-tests between two DGX Spark": (  # the program is named after its table
        "#  Rank  0 Group  0 Pid 548419 on spark-fb97 device  0 [000f:01:00] NVIDIA GB10\n#  Rank  1 Group  0 Pid 546336 on spark-4440 device  0 [000f:01:00] NVIDIA GB10\n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
        "  1073741824     134217728     float    none      -1  27211.0   39.46   19.73       0  25806.7   41.61   20.80       0\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 21.4033\n#\n# Collective test concluded: all_gather_perf\n",
        [(4, "collective", 0.027211, "s", {"op": "all-gather", "n": 2, "bytes": 1073741824.0})],
    ),
    "huggingface/nanotron, a log of 8 GPUs": (
        "".join(
            f"[INFO|DP=0|PP=0|TP=0|nid001]: iteration: {i} / 100 | consumed_tokens: {i}.05M | elapsed_time_per_iteration_ms: {t} | tokens_per_sec: 399K | "
            "tokens_per_sec_per_gpu: 49.8K | global_batch_size: 512 | lm_loss: 11\n"
            for i, t in enumerate(("12.6K", "2.63K", "2.61K", "987", "2.62K"), start=1)
        ),
        [(3, "train", 2.61, "s", {"batch": 512})],
    ),
    "wandb's summary of a run of NeMo": (
        "wandb:     train_step_timing in s ▄▂▅█▄▂▃▆▅▁▁▆\nwandb: Run summary:\nwandb:           consumed_samples 64000000.0\nwandb:      train_step_timing in s 0.12377\n",
        [(4, "train", 0.12377, "s", {})],
    ),
    "a log history of the Trainer, ten steps of the first epoch": (
        '[\n  {\n    "train_runtime": 642.2711,\n    "train_samples_per_second": 0.249,\n    "train_steps_per_second": 0.016,\n    "epoch": 0.0048250904704463205,\n    "step": 10\n  }\n]\n',
        [(3, "train", 64.22711, "s", {"batch": 16})],
    ),
    "pytorch/torchtitan on 8 ranks": (
        "[rank0]:[titan] 2025-11-25 19:44:58,838 - root - INFO - Trainer is initialized with local batch size 8, global batch size 64, gradient accumulation steps 1, "
        "sequence length 2048, total steps 10 (warmup 2)\n[rank0]:[titan] 2025-11-25 19:45:01,496 - root - INFO - step:  2  loss:  7.7082  grad_norm:  1.5585  "
        "memory:  1.34GiB(0.96%)  tps: 301,092  tflops: 21.55  mfu: 2.18%\n",
        [(2, "train", 301092.0, "tokens/s/device", {"batch": 64, "seq": 2048})],
    ),
    "geerlingguy/ai-benchmarks, issue 20": (
        "ggml_vulkan: 0 = AMD Radeon RX 580 Series (RADV POLARIS10) (radv) | uma: 0 | fp16: 0 | warp size: 64\n"
        "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "| llama 3B Q4_K - Medium | 1.87 GiB | 3.21 B | Vulkan | 99 | tg128 | 36.23 ± 17.62 |\n"
        "| llama 3B Q4_K - Medium | 1.87 GiB | 3.21 B | Vulkan | 99 | pp4096+tg128 | 182.59 ± 2.66 |\n",
        [
            (4, "itl", 1 / 36.23, "s", {"engine": "llamacpp-vulkan", "unread": "", "notes": ("its runs scatter by 49%",)}),
            (5, "itl", 1 / 182.59, "s", {"unread": "one rate of prompt and answer together"}),
        ],
    ),
    "microsoft/superbenchmark:tests/data/nccl_broadcast.log and nccl_reducescatter.log": (  # long times have no fraction, small sizes no bandwidth
        "# nThread 1 nGpus 8 minBytes 1 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 0\n"
        "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "  8589934592    2147483648   float       0    36896  232.81  232.81    N/A    36599  234.70  234.70    N/A\n# Avg bus bandwidth    : 64.8653\n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "          64             2   float     sum    34.82    0.00    0.00    N/A    34.71    0.00    0.00    N/A\n"
        "  8589934592     268435456   float     sum    32464  264.60  231.52    N/A    32502  264.29  231.25    N/A\n# Avg bus bandwidth    : 60.168\n",
        [
            (3, "collective", 0.036896, "s", {"op": "broadcast", "n": 8, "unread": "nccl-tests / rccl-tests: no estimate has a broadcast by itself"}),
            (6, "collective", 34.82e-6, "s", {"op": "reduce-scatter", "unread": ""}),
            (7, "collective", 0.032464, "s", {"op": "reduce-scatter", "doubt": ""}),
        ],
    ),
    "open-mpi/ompi, pull request 12318 and issue 12717": (  # another collective, and buffers in host memory
        "# OSU MPI-CUDA Reduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
        "1                      53.34             24.80            158.96        1000\n\n"
        "# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)        Validation\n8                       1.51              Pass\n",
        [
            (4, "collective", 53.34e-6, "s", {"unread": "OSU's reduce latency test is none of a transfer or a collective by itself", "cpu": None}),
            (9, "collective", 1.51e-6, "s", {"op": "all-reduce", "cpu": True}),
        ],
    ),
    "ROCm/ATOM:recipes/DSpark.md": (  # a cap in a variable: the rate and the latency say how many were in flight
        "  --max-concurrency=$CONC \\\n  --request-rate=inf --ignore-eos\n============ Serving Benchmark Result ============\n"
        "Successful requests:                     1280\nBenchmark duration (s):                  394.18\nTotal input tokens:                      9454961\n"
        "Total generated tokens:                  1181330\nOutput token throughput (tok/s):         2996.97\nMean TTFT (ms):                          4426.86\n"
        "Median TTFT (ms):                        3455.09\nMean TPOT (ms):                          35.52\nMedian TPOT (ms):                        31.09\n" + CLOSED,
        [(3, "itl", 0.03552, "s", {"concurrency": 121, "notes": ("about 121 of its 1280 requests in flight by its rate and latency (Little's law): a cap that it does not name",)}), (3, "ttft", 4.42686, "s", {})],
    ),
    "vllm-project/recipes:GLM/GLM-V.md": (  # tokens of its pictures are not counted
        "vllm bench serve \\\n  --model zai-org/GLM-4.5V-FP8 \\\n  --dataset-name hf \\\n  --dataset-path lmarena-ai/VisionArena-Chat \\\n  --num-prompts 1000\n"
        "============ Serving Benchmark Result ============\nSuccessful requests:                     1000\nMaximum request concurrency:             1\n"
        "Benchmark duration (s):                  1560.34\nTotal input tokens:                      90524\nTotal generated tokens:                  127049\n"
        "Output token throughput (tok/s):         81.42\nMean TTFT (ms):                          487.21\nMean TPOT (ms):                          8.51\n"
        "Median TPOT (ms):                        8.47\n" + CLOSED,
        [(6, "itl", 0.00851, "s", {"unread": ""}), (6, "ttft", 0.48721, "s", {"unread": IMAGES})],
    ),
    "er0080/vllm-benchmarking:packages/protocol/tests/fixtures/bench_serve_v0.25.1.json": (  # the first of eight requests compiled
        '{"model_id": "facebook/opt-125m", "backend": "vllm", "completed": 8, "duration": 1.544, "max_concurrency": 2, "mean_tpot_ms": 11.265828258331112, '
        '"mean_ttft_ms": 215.53594200008774, "median_ttft_ms": 55.68139649994919, "output_throughput": 82.893, "total_input_tokens": 256, "total_output_tokens": 128}\n',
        [(1, "itl", 0.01126583, "s", {}), (1, "ttft", 0.21553594, "s", {"notes": ("mean_ttft_ms is 3.9 times its median: a few requests waited, or came first",)})],
    ),
    "philschmid/llmperf-bench:results/2.0.1/meta-llama_Meta-Llama-3-8B-Instruct_tp_1_results.json": (  # its latency per token has the first in it
        '{"1": {"model": "meta-llama/Meta-Llama-3-8B-Instruct", "num_concurrent_requests": 1, "results_inter_token_latency_s_mean": 0.03031770423789113, '
        '"results_ttft_s_mean": 0.15813857590983388, "results_ttft_s_quantiles_p50": 0.15685620099975495, "results_end_to_end_latency_s_mean": 5.288626820169702, '
        '"results_number_input_tokens_mean": 603.01, "results_number_output_tokens_mean": 174.59, "results_number_errors": 0}}\n',
        [(1, "itl", (5.288626820169702 - 0.15813857590983388) / 174, "s", {"concurrency": 1, "prompt": 603}), (1, "ttft", 0.15813858, "s", {})],
    ),
    "pytorch/torchtitan, pull request 364": (  # a line every ten steps: the first two hold the start
        "[rank0]:2024-06-13 12:53:16,156 - root - INFO - step:  1  loss: 12.2550  memory: 33.35GiB(35.09%)  wps: 542  mfu: 3.17%\n"
        "[rank0]:2024-06-13 12:53:42,562 - root - INFO - step: 10  loss: 10.7798  memory: 41.18GiB(43.33%)  wps: 2,792  mfu: 16.35%\n"
        "[rank0]:2024-06-13 12:54:04,065 - root - INFO - step: 20  loss:  9.1087  memory: 41.18GiB(43.33%)  wps: 3,812  mfu: 22.32%\n"
        "[rank0]:2024-06-13 12:54:25,626 - root - INFO - step: 30  loss:  7.9951  memory: 41.18GiB(43.33%)  wps: 3,802  mfu: 22.27%\n",
        [(3, "train", 3812.0, "tokens/s/device", {"notes": ("median of 2 steps", "a run of 4 steps, too short to be steady")})],
    ),
    "AI-Hypercomputer/maxtext, issue 8": (
        "completed step: 15109, seconds: 2.166, TFLOP/s: 36.739, loss: 2.191\ncompleted step: 15110, seconds: 2.165, TFLOP/s: 36.755, loss: 2.191\n",
        [(2, "train", 2.165, "s", {})],
    ),
    "AI-Hypercomputer/tpu-recipes:training/archive/trillium/Llama3.0-8B-PyTorch/XPK/README.md": (  # two digits, but only ten steps fit
        "INFO 2024-10-28T00:56:14.082965307Z [resource.labels.containerName: jax-tpu] epoch = 0.1786\n"
        "INFO 2024-10-28T00:56:14.082976607Z [resource.labels.containerName: jax-tpu] train_runtime = 0:08:58.11\n"
        "INFO 2024-10-28T00:56:14.082981507Z [resource.labels.containerName: jax-tpu] train_samples_per_second = 9.515\n"
        "INFO 2024-10-28T00:56:14.082999197Z [resource.labels.containerName: jax-tpu] train_steps_per_second = 0.019\n",
        [(2, "train", 53.811, "s", {"batch": 512})],
    ),
    "lhl/strix-halo-testing:llm-bench/llama-2-7b.Q4_0/results.jsonl": (  # a script keeps the tool's row in its own
        '{"mode": "pp", "value": 1, "tokens_per_sec": 50.041847, "bench_raw": {"build_number": 6077, "gpu_info": "AMD Radeon Graphics", "backends": "ROCm", '
        '"model_type": "llama 7B Q4_0", "n_gpu_layers": 99, "n_prompt": 1, "n_gen": 0, "n_depth": 0, "avg_ts": 50.041847}}\n',
        [(1, "prefill", 1 / 50.041847, "s", {"said-model": "llama 7B Q4_0", "engine": "llamacpp-rocm"})],
    ),
    "NVIDIA/dgxc-benchmarking:agenticInference/inference_short/glm5/disagg/trtllm_dynamo/README.md": (  # the load before the block, remarks in it
        "Maximum request concurrency: 64\n============ Serving Benchmark Result ============\nSuccessful requests:                     1024\n"
        "Benchmark duration (s):                  282.64\nTotal input tokens:                      7561248\nTotal generated tokens:                  943250\n"
        "Output token throughput (tok/s):         3337.24      ← key metric\nMean TTFT (ms):                          1067.53\n"
        "Mean TPOT (ms):                          17.53\nMedian TPOT (ms):                        17.39        ← key metric\n" + CLOSED,
        [(2, "itl", 0.01753, "s", {"concurrency": 64, "prompt": 7384, "output": 921}), (2, "ttft", 1.06753, "s", {})],
    ),
    "Ascend/MindSpeed-LLM, pretraining of LLaMA-33B": (
        " iteration  11/50000 | consumed samples: 5632 | elapsed time per iteration (ms):  52728.1 | learning rate:    1.499E-05 | actual seqlen:  2048 | number of skipped\n",
        [(1, "train", 52.7281, "s", {"seq": 2048})],
    ),
    "mlcommons/training_results_v3.0: gpt3 on 192 nodes": (
        ':::MLLOG {"key": "submission_benchmark", "value": "gpt3", "metadata": {}}\n:::MLLOG {"key": "global_batch_size", "value": 3072, "metadata": {}}\n'
        ':::MLLOG {"key": "tracked_stats", "value": {"train_step_timing": 6.557609558105469, "reduced_train_loss": 2.77}, "metadata": {}}\n'
        ':::MLLOG {"key": "tracked_stats", "value": {"train_step_timing": 6.310445547103882, "reduced_train_loss": 2.77}, "metadata": {}}\n'
        ':::MLLOG {"key": "tracked_stats", "value": {"throughput": 887370.7394176107}, "metadata": {"step": 1358954496}}\n',
        [(4, "train", 6.310445547, "s", {"model": "gpt3-175b", "batch": 3072})],
    ),
    "ROCm documentation of OSU on MI300A": (  # remarks behind a row
        "# OSU MPI-ROCM Latency Test v7.5\n# Size       Avg Latency(us)\n256                     0.36\n512                     8.43   ← UCX protocol switch (eager → rendezvous)\n",
        [(3, "collective", 0.36e-6, "s", {}), (4, "collective", 8.43e-6, "s", {"bytes": 512.0})],
    ),
    "NVIDIA/TensorRT-LLM:docs/source/performance/perf-overview.md": (  # no more than the overview, which says the rest
        "```shell\n===========================================================\n= PERFORMANCE OVERVIEW\n===========================================================\n"
        "Request Throughput (req/sec):                     43.2089\nTotal Output Throughput (tokens/sec):             5530.7382\n"
        "Per GPU Output Throughput (tokens/sec/gpu):       5530.7382\nTotal Token Throughput (tokens/sec):              94022.5497\n"
        "Total Latency (ms):                               115716.9214\nAverage request latency (ms):                     75903.4456\n"
        "Average time-to-first-token [TTFT] (ms):          52667.0339\nAverage time-per-output-token [TPOT] (ms):        182.9639\n```\n",
        [(3, "itl", 0.1829639, "s", {"n": 1, "tp": None, "prompt": 2048, "output": 128, "concurrency": 3280}), (3, "ttft", 52.6670339, "s", {})],
    ),
    "NVIDIA/cloudai:doc/workloads/ai_dynamo.rst": (  # a listing that is indented
        "::\n\n   Metric,avg,min,max,p25,p50,p75,p99,std\n   Inter Token Latency (ms),2.81,2.66,2.88,2.79,2.83,2.84,2.87,0.04\n"
        "   Time to First Token (ms),49.87,17.15,99.91,49.35,49.87,50.52,92.31,9.20\n   Output Sequence Length (tokens),498.06,410.00,501.00,500.00,500.00,500.00,501.00,12.62\n",
        [(4, "itl", 0.00281, "s", {"output": 498}), (5, "ttft", 0.04987, "s", {})],
    ),
    "ggml-org/llama.cpp:tools/llama-bench/README.md": (
        '```csv\nbuild_commit,build_number,gpu_info,backends,model_type,n_prompt,n_gen,n_depth,avg_ts,stddev_ts\n'
        '"8cf427ff","5163","NVIDIA GeForce RTX 4080","CUDA","qwen2 7B Q4_K - Medium","0","128","0","119.915244","0.430617"\n```\n',
        [(3, "itl", 1 / 119.915244, "s", {"said-model": "qwen2 7B Q4_K - Medium"})],
    ),
    "a run of Composer on two nodes": (
        "[epoch=1][batch=5/5]:\n         Train throughput/batches_per_sec: 0.0027\n         Train throughput/samples_per_sec: 2.7330\n",
        [(2, "train", 1 / 0.0027, "s", {"notes": ("a single step; warm-up may be in it", "0.0027 has 2 digits, which leave it uncertain by 1.9%")})],
    ),
    "FlagOpen/FlagScale:flagscale/backends/llama.cpp/README.md": (  # the backend of the program, not of the run
        "### CPU\n\n| model | size | params | backend | threads | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "| qwen3 0.6B F16 | 1.40 GiB | 751.63 M | Metal,BLAS | 4 | tg128 | 54.98 ± 2.62 |\n\n### GPU(Metal)\n\n"
        "| model | size | params | backend | threads | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "| qwen3 0.6B F16 | 1.40 GiB | 751.63 M | Metal,BLAS | 4 | tg128 | 66.79 ± 0.41 |\n",
        [(5, "itl", 1 / 54.98, "s", {"cpu": True}), (11, "itl", 1 / 66.79, "s", {"cpu": None})],
    ),
    "ggml-org/llama.cpp, pull request 2626": (
        "| model | backend | n_gpu_layers | n_prompt | n_gen | t/s |\n| ----- | ------- | ------------ | -------- | ----- | --- |\n"
        "| LLaMA 7B mostly Q4_0 | CUDA | 99 | 512 | 0 | 2153.50 ± 24.75 |\n| LLaMA 7B mostly Q4_0 | CUDA | 99 | 512 | 128 | 449.72 ± 1.27 |\n",
        [(3, "prefill", 512 / 2153.5, "s", {"prompt": 512.0}), (4, "itl", 1 / 449.72, "s", {"unread": "one rate of prompt and answer together"})],
    ),
    "ai-dynamo/aiperf:docs/tutorials/goodput.md": (  # the table on the screen; the load is that of the command, or not known
        "aiperf profile \\\n    -m Qwen/Qwen3-0.6B --concurrency 4 \\\n    --streaming\n```\n                    NVIDIA AIPerf | LLM Metrics\n"
        "┏━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓\n┃                               Metric ┃      avg ┃      min ┃\n"
        "│             Time to First Token (ms) │    50.04 │    30.65 │\n│                 Request Latency (ms) │ 3,651.23 │ 2,273.54 │\n"
        "│             Inter Token Latency (ms) │     3.40 │     3.36 │\n│     Output Token Throughput Per User │   294.11 │   289.70 │\n"
        "│                    (tokens/sec/user) │          │          │\n│      Output Sequence Length (tokens) │ 1,058.45 │   660.00 │\n"
        "│       Input Sequence Length (tokens) │   550.00 │   550.00 │\n└─────────────────┴──────────┴──────────┘\n",
        [(10, "itl", 0.0034, "s", {"concurrency": 4, "prompt": 550, "output": 1058, "model": "Qwen/Qwen3-0.6B"}), (8, "ttft", 0.05004, "s", {})],
    ),
    "triton-inference-server/perf_analyzer:genai-perf/docs/multi_modal.md": (
        "                           NVIDIA GenAI-Perf | Multi-Modal Metrics\n┃                         Statistic ┃    avg ┃      max ┃\n"
        "│          Time To First Token (ms) │ 205.38 │ 1,020.58 │\n│          Inter Token Latency (ms) │  16.41 │    18.32 │\n"
        "│   Output Sequence Length (tokens) │  10.98 │    11.00 │\n│    Input Sequence Length (tokens) │  10.06 │    11.00 │\n└──┴──┴──┘\n",
        [(4, "itl", 0.01641, "s", {"unread": "", "concurrency": None, "notes": ("the load is not in the file",)}), (3, "ttft", 0.20538, "s", {"unread": IMAGES})],
    ),
    "SemiAnalysisAI/InferenceX:experimental/token_position_decode_slo/minimax-m2.5": (  # the client's result, its times made seconds
        '{"model_id": "MiniMaxAI/MiniMax-M2.5", "request_rate": "inf", "max_concurrency": 16, "duration": 149.21, "completed": 160, "total_input_tokens": 2949120, '
        '"total_output_tokens": 20480, "output_throughput": 137.25, "median_ttft": 8.3671834, "p99_ttft": 20.287, "median_tpot": 0.0186484, "p99_tpot": 0.117}',
        [(1, "itl", 0.0186484, "s", {"concurrency": 16, "prompt": 18432, "output": 128}), (1, "ttft", 8.3671834, "s", {})],
    ),
    "AI-Hypercomputer/JetStream, issue 83": (
        "Successful requests: 1780\nBenchmark duration: 294.101467 s\nTotal input tokens: 214914\nTotal generated tokens: 415416\n"
        "Request throughput: 6.05 requests/s\nInput token throughput: 730.75 tokens/s\nOutput token throughput: 1412.49 tokens/s\n"
        "Mean TTFT: 114960.78 ms\nMedian TTFT: 115488.55 ms\nMean TPOT: 4429.77 ms\nMedian TPOT: 611.68 ms\n",
        [(1, "throughput", 1412.49, "tokens/s", {"concurrency": "max", "prompt": 121, "output": 233})],
    ),
    "ROCm/rocm-blogs:blogs/artificial-intelligence/vllm-optimize/README.md": (  # what vLLM prints of batches
        "python3 benchmarks/benchmark_latency.py --input-len 512 --output-len 256 --batch-size 4 --model meta-llama/Meta-Llama-3-8B-Instruct\n```\n"
        "Avg latency: 4.3067230121872855 seconds\n",
        [(3, "static", 4.3067230121872855, "s/batch", {"prompt": 512, "output": 256, "batch": 4, "engine": "vllm"})],
    ),
    "NVIDIA/TensorRT-LLM issues 1410 and 264, gptSessionBenchmark": (
        "[BENCHMARK] model_name llama_13b world_size 2 num_heads 40 precision float16 batch_size 1 input_length 710 output_length 190 "
        "gpu_peak_mem(gb) 0.0 tokens_per_sec 43.09 latency(ms) 4409.816 compute_cap sm80 quantization QuantMode.0\n"
        "[BENCHMARK] batch_size 1 input_length 60 output_length 20 latency(ms) 39.47 tokensPerSec 506.69 gpu_peak_mem(gb) 23.06\n"
        "[BENCHMARK] batch_size 32 input_length 128 latency(ms) 4.81\n",  # an encoder
        [
            (1, "static", 4.409816, "s/batch", {"batch": 1, "prompt": 710, "output": 190, "n": 2, "engine": "trtllm"}),
            (2, "static", 0.03947, "s/batch", {"batch": 1, "prompt": 60, "output": 20, "engine": "trtllm"}),
        ],
    ),
    "vllm-project/vllm-ascend:docs/source/developer_guide/performance_and_debug/performance_benchmark.md": (
        "Throughput: 2.73 requests/s, 699.93 total tokens/s, 349.97 output tokens/s\nTotal num prompt tokens:  1280\n"
        "Throughput: 2.73 requests/s, 699.93 tokens/s\n",
        [
            (1, "throughput", 349.97, "tokens/s", {"prompt": 128, "output": 128, "concurrency": "max"}),
            (3, "throughput", 699.93, "total tokens/s", {"concurrency": "max", "engine": "vllm"}),
        ],
    ),
    "AntonioLopardo/OLMo, a run of a model with 1B parameters": (
        "".join(
            f"2025-12-12 22:24:2{i}.461\thost:0\tolmo.train:979\tINFO\t[step={i}/10000,epoch=0]\n    train/CrossEntropyLoss=10.16\n"
            f"    throughput/total_tokens={i * 4194304:,}\n    throughput/device/tokens_per_second=76,50{i}\n    System/Peak GPU Memory (MB)=109,411\n"
            for i in range(1, 6)
        ),
        [(19, "train", 76504.0, "tokens/s/device", {"tokens": 4194304.0})],
    ),
    "Lightning-AI/litgpt:tutorials/0_to_litgpt.md": (  # two iterations a step
        " 'train': TrainArgs(save_interval=800,\n                    global_batch_size=8,\n                    micro_batch_size=4,\n"
        "                    max_seq_length=512,\n"
        + "".join(
            f"Epoch 1 | iter {i} step {i // 2} | loss train: 1.646, val: n/a | iter time: {ms} ms{' (step)' * (i % 2 == 0)}\n"
            for i, ms in enumerate((820.31, 548.72, 300.07, 595.27, 260.75, 568.22, 511.7, 514.14, 423.59, 603.03), start=1)
        ),
        [(12, "train", 0.5117 + 0.51414, "s", {"batch": 8, "micro-batch": 4, "seq": 512})],
    ),
    "Lightning-AI/litgpt, issues 689 and 519": (  # an older line; every other step of four iterations
        "iter 76 step 38: loss 10.8, iter time: 197.87ms\niter 77 step 39: loss 10.8, iter time: 214.40ms (optimizer.step)\n"
        "iter 78 step 39: loss 10.8, iter time: 198.00ms\niter 79 step 40: loss 10.8, iter time: 215.31ms (optimizer.step)\n```\n\n"
        "```\n[rank: 0] iter 39 step 10: iter time: 3372.20ms (optimizer.step)\n[rank: 0] iter 47 step 12: iter time: 3371.59ms (optimizer.step)\n"
        "[rank: 0] iter 55 step 14: iter time: 3371.60ms (optimizer.step)\n",
        [(4, "train", 0.198 + 0.21531, "s", {}), (9, "train", 4 * 3.37159, "s", {})],
    ),
    "karpathy/llama2.c, issue 461": (  # with an evaluation in a step
        "500 | loss 6.0091 | lr 5.000000e-05 | 870067.53ms | mfu 0.19%\n510 | loss 5.2391 | lr 4.999939e-05 | 8175.64ms | mfu 0.19%\n"
        "520 | loss 5.6863 | lr 4.999756e-05 | 7966.06ms | mfu 0.20%\n530 | loss 5.7223 | lr 4.999452e-05 | 8039.18ms | mfu 0.20%\n",
        [(3, "train", 7.96606, "s", {"notes": ("median of 2 steps", "a run of 4 steps, too short to be steady")})],
    ),
    "karpathy/nanoGPT, with what it prints first": (
        "tokens per iteration will be: 491,520\niter 0: loss 10.9886, time 51830.12ms, mfu -100.00%\niter 10: loss 10.1, time 250.36ms, mfu -100.00%\n"
        "iter 20: loss 9.5, time 251.02ms, mfu 40.36%\niter 30: loss nan, time 251.02ms, mfu 40.36%\n",
        [(4, "train", 0.25102, "s", {"tokens": 491520.0})],
    ),
    "dhairyag/ShakespeareGPT-Forge:log.md": (
        "step 0 | loss: 10.9677 | dt: 25213.31ms | tok/sec: 5198.52 | norm: 6.74 | lr: 0.000010\n"
        "step 10 | loss: 8.6117 | dt: 19315.15ms | tok/sec: 6785.97 | norm: 2.93 | lr: 0.000110\n",
        [(2, "train", 19.31515, "s", {"notes": ("a single step; warm-up may be in it", "a run of 2 steps, too short to be steady")})],
    ),
    "karpathy/llm.c, a check of three steps": (
        "step    1/3 | loss 11.032358 (+nanz)| norm 22.1414 (+nanz)| lr 8.57e-07 | 2511.08 ms | 40.0% bf16 MFU | 208790 tok/s\n"
        "step    2/3 | loss 10.958507 (+nanz)| norm 22.0968 (+nanz)| lr 1.71e-06 | 2502.21 ms | 40.1% bf16 MFU | 209530 tok/s\n",
        [(2, "train", 2.50221, "s", {})],
    ),
    "pytorch/torchtune, its line on a disk": (
        "Step 1 | loss:1.83 lr:2e-05 tokens_per_second_per_gpu:1300.5 peak_memory_active:20.1\nStep 2 | loss:1.7 lr:2e-05 tokens_per_second_per_gpu:2300.5 peak_memory_active:20.1\n",
        [(2, "train", 2300.5, "tokens/s/device", {})],
    ),
    "facebookresearch/lingua, apps/main/train.py": (
        "step: 10  acc: 0  loss:  8.1234  grad: 1.2e+00  flops: 3.01e+14  wps: 1.25e+04  iter: 0.5123  data: 0.0001  lr: 3.00e-04\n",
        [(1, "train", 12500.0, "tokens/s/device", {})],
    ),
    "Gabe298/vLLM-llama-benchy-testing-result: a server, whose rate of a prompt counts the context before it": (
        "| model | test | t/s | peak t/s | ttfr (ms) | est_ppt (ms) | e2e_ttft (ms) |\n|:---|---:|---:|---:|---:|---:|---:|\n"
        "| Qwen3.8-27B-INT4A16-AWQ | pp2048 @ d1000 | 2306.62 ± 17.18 | | 1392.07 ± 10.13 | 1321.78 ± 10.13 | 1392.07 ± 10.13 |\n"
        "| Qwen3.8-27B-INT4A16-AWQ | tg480 @ d1000 | 63.29 ± 1.82 | 84.00 ± 4.32 | | | |\n"
        "| Qwen3.8-27B-INT4A16-AWQ | pp2048 @ d6144 | 2048.00 ± 1.00 | | 1092.07 ± 1.13 | 1000.00 ± 1.13 | 1092.07 ± 1.13 |\n",
        [
            (3, "prefill", 3048 / 2306.62, "s", {"prompt": 3048.0, "engine": None, "prefix-hit": None}),
            (4, "itl", 1 / 63.29, "s", {"prompt": 3048.0, "output": 480.0}),
            (5, "prefill", 1.0, "s", {"prompt": 8192.0, "prefix-hit": 0.75}),
        ],
    ),
    "1337hero/rx7900xtx-llama-bench-vulcan: one card, then two": (
        "".join(
            "".join(f"ggml_vulkan: {i} = AMD Radeon RX 7900 XTX (RADV NAVI31) (radv) | uma: 0\n" for i in range(cards))
            + "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
            f"| llama 7B Q4_0 | 3.56 GiB | 6.74 B | Vulkan | 100 | tg128 | {rate} ± 0.09 |\n\n"
            for cards, rate in ((1, 86.29), (2, 85.3))
        ),
        [(4, "itl", 1 / 86.29, "s", {"n": 1, "pp": None}), (10, "itl", 1 / 85.3, "s", {"n": 2, "pp": 2})],
    ),
    "kubernetes-sigs/inference-perf:demos/kubecon-na-2025/vllm+eagle/results/summary_lifecycle_metrics.json": (  # all stages: no load of its own
        '{"load_summary": {"count": 22042}, "successes": {"count": 22042, "latency": {"request_latency": {"mean": 3.8427295}, "time_to_first_token": {"mean": 2.2543885}}, '
        '"throughput": {"output_tokens_per_sec": 2427.5}, "prompt_len": {"mean": 201.5}, "output_len": {"mean": 62.94}}, "failures": {"count": 0}}',
        [(1, "itl", 1.588341 / 62, "s", {"qps": None, "concurrency": None, "notes": ("the load is not in the file",)}), (1, "ttft", 2.2543885, "s", {})],
    ),
    "saforem2/ezpz:docs/examples/hf-trainer/comparison.md": (  # lines of steps have the time so far; the second run logs no head
        "  Total train batch size (w. parallel, distributed & accumulation) = 24\n  Total optimization steps = 100\n"
        "{'loss': 2.6031, 'epoch': 2.24, 'num_input_tokens_seen': 19660800, 'train_runtime': 252.007, 'train_tokens_per_second': 78016.894}\n"
        "{'train_runtime': 299.1983, 'train_samples_per_second': 8.021, 'train_steps_per_second': 0.334, 'train_tokens_per_second': 2737.984, 'epoch': 2.24}\n"
        "100%|##########| 100/100 [06:47<00:00,  3.45s/it]\n"
        "{'train_runtime': 408.6051, 'train_samples_per_second': 1.958, 'train_steps_per_second': 0.245, 'train_tokens_per_second': 2004.87, 'epoch': 1.0}\n",
        [(4, "train", 2.991983, "s", {"batch": 24}), (6, "train", 4.086051, "s", {"batch": 8})],
    ),
    "huggingface/accelerate:docs/source/usage_guides/megatron_lm.md": (  # a bar and no summary
        "INFO - __main__ -   Total train batch size (w. parallel, distributed & accumulation) = 48\nINFO - __main__ -   Total optimization steps = 245\n"
        "100%|█████| 245/245 [05:27<00:00,  1.28s/it]\n",
        [(3, "train", 327 / 245, "s", {"batch": 48, "software": "pytorch", "notes": ("the whole run, its start and evaluations included",)})],
    ),
    "bigscience-workshop/bigscience:train/tr11-176B-ml/README.md": (  # a line that the page breaks, and nothing of the listing before
        "```\niteration     3707/  128728 | elapsed time per iteration (s): 15.23 | learning rate: 1.944E-05 | global batch size:    16 | lm loss: 5.3\n```\nThen:\n```\n"
        "[default7]: iteration   85376/ 115311 | consumed samples:   158692272 | elapsed time per iteration (s)\n"
        ": 104.70 | learning rate: 1.150E-05 | global batch size: 2048 | lm loss: 1.979558E+00 |\n```\n",
        [(2, "train", 15.23, "s", {"batch": 16}), (6, "train", 104.7, "s", {"batch": 2048})],
    ),
    "sgl-project/sglang, issue 12389": (  # no first token, so that its time per token has the prompt in it
        json.dumps({
            "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 16, "random_range_ratio": 1.0, "duration": 91.82,
            "completed": 300, "total_input_tokens": 75000000, "total_output_tokens": 300000, "output_throughput": 3267.09, "mean_e2e_latency_ms": 4760.2,
            "mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "mean_tpot_ms": 4.76496, "median_tpot_ms": 4.83, "mean_itl_ms": 0.0, "accept_length": None,
        }),
        [(1, "throughput", 3267.09, "tokens/s", {"notes": ("no first token: the client did not stream, so its time per token is not read",)})],
    ),
    "thebiss/llama-cpp-mkl-docker:Performance - (llama.cpp rel b5936 with SYCL).txt": (  # warnings of a library between the head of a table and its rows
        "| model | size | params | backend | threads | test | t/s |\n| --- | ---: | ---: | --- | ---: | ---: | ---: |\n"
        "get_memory_info: [warning] ext_intel_free_memory is not supported\n| granite 3B Q6_K | 6.24 GiB | 8.17 B | BLAS | 8 | pp512 | 10.48 ± 0.63 |\n",
        [(4, "prefill", 512 / 10.48, "s", {"weight-dtype": "q6_k"})],
    ),
    "KellerJordan/modded-nanogpt:records": (  # means so far, below the code that prints them
        'print(f"step:{step}/{n} val_loss:{v:.4f} train_time:{t:.0f}ms step_avg:{t / step:.2f}ms")\n'
        "step:0/3375 val_loss:10.82584 train_time:0.000s step_avg:nanms\nstep:125/3375 val_loss:4.85424 train_time:56.129s step_avg:449.03ms\n"
        "step:126/3375 train_time:56.6s step_avg:449.11ms\nstep:127/3375 train_time:57.1s step_avg:449.2ms\n"
        "step:250/3375 val_loss:4.19903 train_time:115.487s step_avg:461.95ms\n",
        [(6, "train", 0.46195, "s", {"notes": ("the mean of the run's steps so far, as its last line states it",)})],
    ),
    "PaddlePaddle/PaddleFleetX:examples/transformer/models/GPT/docs/hybrid_parallel.md": (  # the rate of all devices before that of one
        "".join(
            f"[INFO] - [train] epoch: 0, batch: {i}, loss: 10.9, avg_batch_cost: {cost} sec, speed: 1.41 step/s, ips_total: {rate} tokens/s, ips: {rate // 8} tokens/s, learning rate: 2e-08\n"
            for i, (cost, rate) in enumerate([("5.51734", 11878), ("0.71029", 92267), ("0.71223", 92016)])
        ),
        [(2, "train", 0.71029, "s", {"tokens": pytest.approx(65536, rel=1e-4)})],
    ),
    "djangodevreng/dgx-spark-benchmarks: a server with speculative decoding": (
        _block(
            "vllm bench serve --model meta-models/Muse-Glimmer-30B --request-rate 0.1\n", CLOSED, ("Successful requests", 100), ("Request rate configured (RPS)", "0.10"),
            ("Benchmark duration (s)", "1396.50"), ("Total input tokens", 424759), ("Total generated tokens", 49146), ("Output token throughput (tok/s)", 35.19),
            ("Mean TTFT (ms)", 6700.88), ("Median TTFT (ms)", 6130.61), ("Mean TPOT (ms)", 665.9), ("Median TPOT (ms)", 690.28), ("Acceptance length", "1.30"),
        ),
        [(2, "itl", 0.6659, "s", {"drafted": 1.3, "qps": 0.1}), (2, "ttft", 6.70088, "s", {"drafted": None})],
    ),
    "Wentao274/model-inference-benchmark:benchmark-upload-template.md": (  # a block without its title and totals
        "### R1\nBackend:                                 sglang-oai-chat\nTraffic request rate:                    inf\nMax request concurrency:                 10\n"
        "Successful requests:                     100\nBenchmark duration (s):                  64.08\nOutput token throughput (tok/s):         168.32\n"
        "Mean TTFT (ms):                          405.60\nMedian TTFT (ms):                        387.35\nMean TPOT (ms):                          52.29\n"
        "Median TPOT (ms):                        52.98\nMean ITL (ms):                           52.55\n\n### R2\npass\n",
        [(5, "itl", 0.05229, "s", {"concurrency": 10, "prompt": None, "engine": "sglang"}), (5, "ttft", 0.4056, "s", {})],
    ),
    "anyei/llamacpp-v100:benches/nemotron/nemotron-dgx-spark.md": (  # several sequences at once; their prompts are no prefill of one
        "main: n_kv_max = 303104, n_batch = 2048\n\n|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |\n|-------|--------|------|--------|----------|----------|----------|----------|\n"
        "|   512 |     32 |    1 |    544 |    1.094 |   468.05 |    1.621 |    19.74 |\n|   512 |     32 |    4 |   2176 |    2.647 |   773.76 |    4.043 |    31.66 |\n",
        [
            (5, "prefill", 1.094, "s", {"prompt": 512, "unread": ""}), (5, "itl", 1.621 / 32, "s", {"batch": 1, "prompt": 512, "output": 32}),
            (6, "prefill", 2.647, "s", {"unread": "prompts of several requests at once"}), (6, "itl", 4.043 / 32, "s", {"batch": 4}),
        ],
    ),
    "thebiss/llama-cpp-mkl-docker:notes/performance test - vulkan igpu vs cpu avx512.md": (  # a backend's own table amid the rows
        "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "|ID| Device Type| Name|Version|units|group|group|size| Driver version|\n|--|---|---|---|---|---|---|---|---|\n"
        "| granite 3B Q4_K - Medium | 4.60 GiB | 8.17 B | SYCL | 99 | tg10 | 2.92 ± 0.06 |\n",
        [(5, "itl", 1 / 2.92, "s", {"weight-dtype": "q4_k_m"})],
    ),
    "hogeheer499-commits/strix-halo-guide:data/raw, llama-server.log": (  # the second and third overlap; the first took 100 of its 124 tokens from the cache
        "ggml_cuda_init: found 1 ROCm devices:\n  Device 0: Radeon 8060S Graphics, gfx1151 (0x1151)\nprint_info: file type   = Q4_K - Medium\nprint_info: model params          = 34.66 B\n"
        "print_info: general.name          = Qwen3.6-35B-A3B\nload_tensors: offloaded 41/41 layers to GPU\nslot launch_slot_: id  1 | task 0 | processing task, is_child = 0\n"
        "slot update_slots: id  1 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 124\nslot print_timing: id  1 | task 0 | \n"
        "prompt eval time =     197.42 ms /    24 tokens (    8.23 ms per token,   121.57 tokens per second)\n"
        "       eval time =    3090.51 ms /   128 tokens (   24.14 ms per token,    41.42 tokens per second)\nslot      release: id  1 | task 0 | stop processing: n_tokens = 151\n"
        "slot launch_slot_: id  0 | task 2 | processing task, is_child = 0\nslot launch_slot_: id  1 | task 3 | processing task, is_child = 0\nslot print_timing: id  0 | task 2 | \n"
        "prompt eval time =     185.62 ms /    24 tokens (    7.73 ms per token,   129.30 tokens per second)\n",
        [
            (10, "prefill", 0.19742, "s", {"prompt": 124, "prefix-hit": 100 / 124, "engine": "llamacpp-rocm", "n": 1, "weight-dtype": "q4_k_m"}),
            (11, "itl", 3.09051 / 128, "s", {"prompt": 124, "output": 128, "batch": 1, "said-model": "Qwen3.6-35B-A3B 34.66 B Q4_K - Medium"}),
            (16, "prefill", 0.18562, "s", {"unread": "other requests ran at the same time, so its batch changed"}),
        ],
    ),
    "miminashi/llm-server-ops:report/attachment, llama-server.log": (  # most of the model is in the host's memory; then another model
        "ggml_cuda_init: found 4 CUDA devices:\nprint_info: file type   = Q4_K - Medium\nllama_model_loader: tensor overrides to CPU are used with mmap enabled\n"
        "prompt eval time =   23725.93 ms /  1077 tokens (   22.03 ms per token)\nllm_load_print_meta: model ftype      = F16\n"
        "prompt eval time =    925.78 ms /    24 tokens (   38.57 ms per token)\n",
        [
            (4, "prefill", 23.72593, "s", {"unread": "-ot tensor overrides to CPU: what it keeps on the host is not that of any option"}),
            (6, "prefill", 0.92578, "s", {"weight-dtype": "fp16", "cpu": True, "unread": ""}),
        ],
    ),
    "nelstevens/llm-benchmark:macmini, ollama run --verbose": (
        "model_name =    deepseek-r1:7b\ntotal duration:       4m50.258495375s\nload duration:        8.072292ms\nprompt eval count:    16 token(s)\nprompt eval duration: 101.0805ms\n"
        "prompt eval rate:     158.29 tokens/s\neval count:           10277 token(s)\neval duration:        4m34.148992667s\neval rate:            37.49 tokens/s\n",
        [(4, "prefill", 0.1010805, "s", {"prompt": 16}), (7, "itl", 274.148992667 / 10277, "s", {"prompt": 16, "output": 10277})],
    ),
    "sshJerry/llama-server-scripts:bench_long-gen_8192tok.json": (  # an answer of llama-server with drafted tokens
        '{\n  "timings": {\n    "cache_n": 10,\n    "prompt_n": 47,\n    "prompt_ms": 113.327,\n    "predicted_n": 7135,\n    "predicted_ms": 57109.575,\n    "draft_n": 4283,\n    "draft_n_accepted": 3867\n  }\n}\n',
        [(3, "prefill", 0.113327, "s", {"prompt": 57, "drafted": None}), (6, "itl", 57.109575 / 7135, "s", {"prompt": 57, "drafted": 7135 / 3268})],
    ),
    "XiongjieDai/GPU-Benchmarks-on-LLM-Inference: a notebook": (
        '{\n "cells": [\n  {\n   "outputs": [\n    {\n     "text": [\n      "| model | size | params | backend | ngl | test | t/s |\\n",\n'
        '      "| llama 8B Q4_K - Medium         |   4.58 GiB |     8.03 B | CUDA       |  99 | tg 512     |    107.53 \\u00b1 0.01 |\\n"\n     ]\n    }\n   ]\n  }\n ],\n "nbformat": 4\n}\n',
        [(8, "itl", 1 / 107.53, "s", {"weight-dtype": "q4_k_m", "output": 512})],
    ),
    "suzushi-tw/luojiu-7b-base:trainer_state.json": (  # its entry has the step, which the rate of two digits does not tell
        '{\n  "log_history": [\n    {"epoch": 3.0, "step": 8712, "train_loss": 1.39, "train_runtime": 371992.1593, "train_samples_per_second": 0.749, "train_steps_per_second": 0.023}\n  ]\n}\n',
        [(3, "train", 371992.1593 / 8712, "s", {"batch": 32})],
    ),
    "rv2023/adapterforge:results/ray-1gpu.log": (  # four digits in a dictionary, more in a report of the same run
        "100%|##########| 60/60 [00:28<00:00,  2.11it/s]\n{'train_runtime': '29.47', 'train_samples_per_second': '16.29', 'train_steps_per_second': '2.036', 'epoch': '0.2206'}\n"
        "Reporting training result 2: TrainingReport(metrics={'train_runtime': 29.472, 'train_samples_per_second': 16.287, 'train_steps_per_second': 2.036, 'epoch': 0.22})\n",
        [(2, "train", 0.4912, "s", {"batch": 8})],
    ),
    "bigscience-workshop/bigscience:experiments/gpt2-meg-ds-zero, DeepSpeed's settings": (
        "  batch_size ...................... 48\n[2021-05-25 22:30:04,196] [INFO] [config.py:752:print]   train_batch_size ............. 768\n"
        "[2021-05-25 22:30:04,196] [INFO] [config.py:752:print]   zero_optimization_stage ...... 3\n iteration        2/    1000 | elapsed time per iteration (ms): 125912.4 | learning rate: 3.750E-05 |\n",
        [(4, "train", 125.9124, "s", {"batch": 768, "zero": 3, "micro-batch": 48})],
    ),
    "snlpatel001213/trt-llm-perf: gptManagerBenchmark's CSV": (
        "num_samples,num_error_samples,total_latency(ms),token_throughput(token/sec),avg_time_to_first_token(ms),avg_inter_token_latency(ms)\n1024,0,1540530.0,664.705,1496.85,46.6718\n",
        [(2, "itl", 0.0466718, "s", {"engine": "trtllm", "notes": ("the load is not in the file",)}), (2, "ttft", 1.49685, "s", {})],
    ),
    "sgl-project/sglang, issue 2219": (  # bench_latency warms up with a batch that it prints too
        "python3 -m sglang.bench_latency --model ../Qwen2-7B-Instruct --batch-size 1 --input-len 200 --output-len 100\nWarmup ...\n"
        "Prefill. latency: 4.32211 s, throughput:    947.69 token/s\nDecode.  median latency: 0.01973 s, median throughput:    202.71 token/s\nBenchmark ...\n"
        "Prefill. latency: 0.03508 s, throughput:   5700.84 token/s\nDecode.  latency: 0.01952 s, throughput:     51.23 token/s\nDecode.  median latency: 0.01924 s, median throughput:     51.97 token/s\n",
        [(8, "prefill", 0.03508, "s", {"batch": 1, "prompt": 200, "unread": ""}), (8, "itl", 0.01924, "s", {"batch": 1, "prompt": 200, "output": 100, "engine": "sglang"})],
    ),
    "sgl-project/sglang, a result of bench_one_batch": (
        '{"run_name": "default", "batch_size": 8, "input_len": 1024, "output_len": 64, "prefill_latency": 7.1627, "median_decode_latency": 0.0231039, "total_latency": 30.8}\n',
        [(1, "prefill", 7.1627, "s", {"unread": "prompts of several requests at once"}), (1, "itl", 0.0231039, "s", {"batch": 8, "prompt": 1024, "output": 64})],
    ),
    "a LoRA of TRL by transformers 5": (  # figures in quotes, and no rate of steps
        "{'train_runtime': '36.27', 'train_samples_per_second': '0.414', 'train_loss': '2.46', 'epoch': '3'}\n", [(1, "train", 0.414, "samples/s", {})]
    ),
    "a log of Megatron over several lines": (
        " iteration 1000/5000 | consumed samples: 8000 | elapsed time per iteration (ms): 283.9 |\n learning rate: 4.6E-05 | global batch size: 8 | lm loss: 5.54 |\n",
        [(1, "train", 0.2839, "s", {"batch": 8})],
    ),
    "InternLM/InternEvo:doc/en/usage.md": (
        "INFO train.py:323 in record_current_batch_training_metrics -- tflops=189.8,step=1,loss=11.61,tgs (tokens/gpu/second)=4274.45,lr=6e-07,micro_num=4\n",
        [(1, "train", 4274.45, "tokens/s/device", {})],
    ),
    "argonne-lcf/LLM-Inference-Bench:Plots/Fig_18/SN40L_latency_throughput.csv": (  # the rate counts prompts too, and tells the unit of the latency
        "Hardware,Num of Hardware,Framework,Model,Input Output Length,Batch Size,Latency,Throughput\n"
        "SambaNova SN40L,8,sambaflow,mistralai/Mistral-7B-v0.1,128,1,0.20874103065883887,1226.4\n\nSambaNova SN40L,8,sambaflow,mistralai/Mistral-7B-v0.1,128,16,0.5878638268557322,6967.6\n",
        [(2, "static", 0.208741, "s/batch", {"model": "mistralai/Mistral-7B-v0.1", "n": 8, "prompt": 128, "output": 128, "batch": 1, "device": ["SambaNova SN40L"]}), (4, "static", 0.587864, "s/batch", {"batch": 16})],
    ),
    "argonne-lcf/LLM-Inference-Bench:Plots/Fig_21/all_results_TTFT.csv": (
        "Hardware,Num of Hardware,Framework,Model,Input Length,Output Length,Batch Size,Latency\n\nNvidia A100 GPU,1,vLLM,meta-llama/Llama-2-7b-hf,1024,1,16,2.27\n",
        [(3, "itl", 2.27, "s", {"unread": "the unit of its latency is not stated", "engine": "vllm", "device": ["Nvidia A100"]})],
    ),
    "LottoLottoLotto/4x3090-llm-benchmarks:catalog/models/qwen3-5-27b.md": (
        "| run | model | quant | engine | layout | ctx | conc | primary metric |\n|---|---|---|---|---|---:|---:|---:|\n| a | Qwen3.5-27B | awq-int4 | vllm 0.23.0 | TP=4 | 8192 | 1 | **26.11** output tok/s |\n",
        [(3, "throughput", 26.11, "tokens/s", {"model": "Qwen3.5-27B", "weight-dtype": "int4", "tp": 4, "concurrency": 1, "notes": (
            "of its table the columns run, ctx are not read", "the tokens per second of its table are taken as those of the output")})],
    ),
    "SvangenStudios/dgx-spark-agent-serving-benchmarks:results/RESULTS.md": (
        "| Content | Decode | Draft acceptance |\n|---|---|---|\n| Code | **62.5–68.1 tok/s** | **71.0%** |\n| English prose | 35.3 tok/s | 28.4% |\n\n"
        "| Depth | Prompt tokens | Hits | TTFT | Prefill |\n|---|---|---|---|---|\n| 32K | 33,089 | 3/3 | 0.30 min | 1,810 tok/s |\n",
        [
            (4, "itl", 1 / 35.3, "s", {"unread": "speculative decoding; its tokens of a step are not stated", "notes": (
                "the load is not in the file", "of its table the columns Content are not read", "lines 3 of its table are not read: no single figure")}),
            (8, "ttft", 18.0, "s", {"prompt": 33089, "unread": ""}),
        ],
    ),
    "vllm-project/production-stack:tutorials/25-v100-legacy-gpu-deployment.md": (
        "| Model | TP | Approx. throughput | Notes |\n| --- | --- | --- | --- |\n| `Qwen2.5-7B-Instruct` | 2 | ~155 tok/s/GPU | NVLink pair. |\n",
        [(3, "throughput", 310.0, "tokens/s", {"tp": 2, "unread": "its table says neither of serving nor of training what it is"})],
    ),
    "awslabs/awsome-distributed-training:3.test_cases/pytorch/vllm/dsv3-uccl-nixl/README.md": (
        "| Config | GPUs | Burst tok/s | P50 TPOT @1RPS | tok/s/GPU |\n| --- | :--: | --: | --: | --: |\n| 1P+1D | 16 | 4,082 | 20.93ms | 255.10 |\n",
        [(3, "throughput", 4081.6, "tokens/s", {"n": 16, "unread": "separate pools of prefill and decode are not one estimate"})],
    ),
    "stas00/ml-engineering:inference/README.md, speeds of human readers": (
        "| Reader   | WPM |   TPS |  TPOT |\n| :-----   | --: |  ---: |  ----: |\n| Visual   | 700 | 18.75 | 0.057 |\n",
        [(3, "throughput", 18.75, "tokens/s", {"unread": "the unit of its itl is not stated"})],
    ),
    "romeramarc/Tfg-mn5-llm-serving:results/throughput/throughput_results.csv": (  # 5,200 of its requests in flight by Little's law: a burst
        "completed_requests,total_time_s,request_throughput_rps,output_throughput_tps,mean_ttft_ms,p99_ttft_ms,mean_tpot_ms,mean_itl_ms,return_code\n10000,199.52,50.12,12830.75,99099.76,192330.54,18.73,18.76,0\n",
        [(2, "throughput", 12830.75, "tokens/s", {"output": 256, "concurrency": "max"})],
    ),
    "huggingface/optimum-neuron:benchmark/vllm/single-instance/llama4-Maverick-trn2/vllm-results.csv": (  # strategies of GuideLLM
        "model_id,Date,Input type,Requests per Second,Request Latency (s),Time-to-first-token (ms),Inter Token Latency (ms),Output Token Throughput (t/s)\n"
        "m,2025-10-09,synchronous,0.17,5.75,1713.82,16.94,41.4\nm,2025-10-09,asynchronous@0.40 req/sec,0.36,14.18,1807.9,51.83,86.65\nm,2025-10-09,throughput,0.40,16.8,3308.63,56.55,93.59\n",
        [(2, "itl", 0.01694, "s", {"concurrency": 1}), (2, "ttft", 1.71382, "s", {}), (3, "itl", 0.05183, "s", {"qps": 0.4}), (3, "ttft", 1.8079, "s", {}), (4, "throughput", 93.59, "tokens/s", {"concurrency": "max"})],
    ),
    "jasl/vllm-ds4-sm120-harness:performance/agent/nomtp_bench.json": (  # objects of a script, each with its load
        '[{"concurrency": 1, "ok": true, "metrics": {"successful_requests": 80, "benchmark_duration_s": 698.71, "total_input_tokens": 5535, "total_generated_tokens": 14774, '
        '"output_token_throughput_tok_s": 21.14, "mean_ttft_ms": 632.67, "p99_ttft_ms": 4094.92, "mean_tpot_ms": 65.52, "mean_itl_ms": 44.1}}]\n',
        [(1, "itl", 0.06552, "s", {"concurrency": 1, "prompt": 69, "output": 185}), (1, "ttft", 0.63267, "s", {})],
    ),
    "SemiAnalysisAI/InferenceX:experimental/single_node_decodeonly/README.md": (  # turned over, and changes are no runs
        "| Metric (32k ISL, TP1) | Without connector | With connector | Delta |\n| --- | --- | --- | --- |\n| TTFT (ms) | 5,220 | 341.57 | **15x faster** |\n| TPOT (ms) | 84.35 | 16.02 | **5.3x faster** |\n",
        [(1, "itl", 0.08435, "s", {}), (1, "ttft", 5.22, "s", {}), (1, "itl", 0.01602, "s", {}), (1, "ttft", 0.34157, "s", {})],
    ),
    "a table of metrics, as reports of two configurations have them": (
        "Results\n\n| Metric | c=1 | c=8 |\n|---|---|---|\n| Concurrency | 1 | 8 |\n| Mean TTFT (ms) | 31.2 | 90 |\n| P99 TTFT (ms) | 40 | 400 |\n| Mean TPOT (ms) | 9.5 | 12.5 |\n",
        [(3, "itl", 0.0095, "s", {"concurrency": 1}), (3, "ttft", 0.0312, "s", {}), (3, "itl", 0.0125, "s", {"concurrency": 8}), (3, "ttft", 0.09, "s", {})],
    ),
    "a table whose rows are repeated in bold": (
        "| Concurrency | TTFT p50 | ITL mean | Throughput |\n| ---: | ---: | ---: | ---: |\n| 2 | 87.1 ms | 26.2 ms | 70.1 tok/s |\n| **2** | **87.1 ms** | **26.2 ms** | **70.1 tok/s** |\n",
        [(3, "itl", 0.0262, "s", {"concurrency": 2, "notes": ("printed 2 times, read once",)}), (3, "ttft", 0.0871, "s", {})],
    ),
    "ngkore/docs:ai-ml/grok2-deployment-via-sglang.md": (
        "[2025-09-11 10:24:10] server_args=ServerArgs(model_path='/models/grok-2', tp_size=8, dp_size=1, pp_size=1)\n"
        "[2025-09-12 07:27:13 TP0] Prefill batch. #new-seq: 1, #new-token: 15, #cached-token: 2, token usage: 0.00, #running-req: 0, #queue-req: 0,\n"
        + "".join(
            f"[2025-09-12 07:27:14 TP0] Decode batch. #running-req: 1, #token: {tokens}, token usage: 0.00, cuda graph: True, gen throughput (token/s): {rate}, #queue-req: 0,\n"
            for tokens, rate in ((44, 0.07), (84, 98.94), (124, 98.71), (164, 98.44))
        ),
        [(5, "itl", 1 / 98.71, "s", {"model": "/models/grok-2", "tp": 8, "batch": 1, "prompt": 124, "notes": ("median of 3 reports of 1 requests",)})],
    ),
    "dennislee22/vLLM-benchmarking:README.md, its server alone": (  # the first report of ten requests had a prompt in it
        "INFO 09-02 13:00:00 [kv_cache_utils.py:1] GPU KV cache size: 412,000 tokens\n"
        + "".join(
            f"(APIServer pid=158) INFO 09-02 13:08:10 [loggers.py:123] Engine 000: Avg prompt throughput: {prompts} tokens/s, Avg generation throughput: {rate} tokens/s, Running: {running} reqs, "
            f"Waiting: 0 reqs, GPU KV cache usage: {share}%, Prefix cache hit rate: 53.7%\n"
            for prompts, rate, running, share in ((1024.0, 130.1, 10, 3.0), (0.0, 238.7, 10, 3.5), (0.0, 240.2, 10, 4.1), (0.0, 241.0, 10, 4.7), (0.0, 99.0, 4, 2.0))
        ),
        [(4, "itl", 10 / 240.2, "s", {"batch": 10, "prompt": 1689, "output": 1, "engine": "vllm"})],
    ),
    "vllm-project/vllm, issue 15018": (
        "INFO 03-18 09:04:46 [metrics.py:481] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.4 tokens/s, Running: 2 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.6%, CPU KV cache usage: 0.0%.\n" * 4,
        [(2, "itl", 5.0, "s", {"batch": 2, "notes": ("median of 3 reports of 2 requests", "0.4 has 1 digits, which leave it uncertain by 12.5%")})],
    ),
    "mlcommons/training_results_v3.1:Intel-HabanaLabs/results/HLS-Gaudi2-N48-PT/gpt3": (  # counts tokens, and brackets its evaluations
        _mllog(("submission_benchmark", 0, "gpt3", {}), ("global_batch_size", 0, 2048, {}), ("max_sequence_length", 0, 2048, {}), ("run_start", 0, None, {}), ("block_start", 3.5, None, {"epoch_count": 50331648}),
            *((key, time, None, {"epoch_num": 50331648 * i}) for i, start in enumerate((428, 808, 1188), 1) for key, time in (("eval_start", start), ("eval_accuracy", start + 45), ("eval_stop", start + 45)))),
        [(9, "train", 335 / 12, "s", {"batch": 2048, "seq": 2048, "model": "gpt3-175b", "notes": ("median of 2 steps", "a run of 3 steps, too short to be steady", "from counts of its samples and their times")})],
    ),
    "mlcommons/training_results_v4.0:Google/results/cloud-tpu-v5p-2048-maxtext/gpt3": (  # evaluates before a block stops
        _mllog(("submission_benchmark", 0, "gpt3", {}), ("global_batch_size", 0, 2048, {}), ("max_sequence_length", 0, 2048, {}), ("run_start", 0, None, {}),
            *((key, 155.4 + 141.7 * i, None, {"epoch_num": 50331648 * (i + 1)} if key == "eval_accuracy" else {}) for i in range(5) for key in ("block_stop", "eval_accuracy", "block_start"))),
        [(12, "train", 141.7 / 12, "s", {"notes": ("median of 3 steps", "from counts of its samples and their times, evaluation included")})],
    ),
    "mlcommons/training_results_v4.0:JuniperNetworks/results/h100_n4_ngc24.1_pytorch_deepspeed/llama2_70b_lora": (
        _mllog(("submission_benchmark", 0, "llama2_70b_lora", {}), ("global_batch_size", 0, 32, {}), ("run_start", 0, "", {}), ("train_loss", 114, 3.7, {"samples_count": 320}), ("train_loss", 215, 2.3, {"samples_count": 640}),
            ("train_loss", 314, 1.5, {"samples_count": 960}), ("block_stop", 400, "", {"samples_count": 1088}), ("eval_accuracy", 400, 0.95, {"samples_count": 1088}), ("block_start", 400, "", {"samples_count": 34}),
            ("train_loss", 459, 1.3, {"samples_count": 1280}), ("train_loss", 558, 1.3, {"samples_count": 1600})),
        [(6, "train", 9.9, "s", {"batch": 32, "recipe": "lora"})],
    ),
    "bigscience-workshop/bigscience:experiments/bandwidth/all_reduce_bench-a100-n4.txt": (  # ranks print between each other's lines
        "ignore me 17\n6:\n duration: 3.9563 sec\n algo throughput: 16176643777.3540 bps, 16.1766 Gbps\n busbw: 15.6711  Gbps\nignore me 17\n28:\n duration: 4.0857 sec\nignore me 17\n"
        " algo throughput: 15664581341.3504 bps, 15.6646 Gbps\n busbw: 15.1751  Gbps\n duration: 4.1 sec\n algo throughput: 15441789907.3424 bps, 15.4418 Gbps\n busbw: 14.9592  Gbps\n",
        [(4, "collective", 3.9563, "s", {"op": "all-reduce", "bytes": 4.0e9, "n": None}), (10, "collective", 4.0857, "s", {"bytes": 4.0e9})],
    ),
    "stas00/ml-engineering:network/README.md, all_reduce_bench on 8x H200": (
        "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n|   32KiB |   1.44GBps |   0.82GBps |\n|   16GiB | 482.26GBps | 275.58GBps |\n",
        [(3, "collective", 32768 / 0.82e9, "s", {"bytes": 32768.0, "n": None}), (4, "collective", 2**34 / 275.58e9, "s", {"op": "all-reduce"})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", PUBLIC)
def test_a_public_log_says_what_a_person_reads_in_it(where):
    text, expected = PUBLIC[where]
    found = read_source(Source("log", text))
    assert [(row.where, row.quantity, row.unit) for row in found[: len(expected)]] == [
        (f"log:{line}", what, unit) for line, what, _, unit, _ in expected
    ]
    for row, (_, _, value, _, said) in zip(found, expected, strict=False):
        stated = {**row.options, **row.probe, "doubt": row.doubt, "unread": row.unread, "notes": row.notes}
        assert row.value == pytest.approx(value)
        assert {name: stated.get(name) for name in said} == said


@pytest.mark.parametrize(
    ("benchmark", "why"),
    [
        ("maskrcnn", "log:1: MLPerf's maskrcnn is no language model"),
        ("bert", "log:3: bert: a whole run, which states neither the time of a step"),
    ],
)
def test_a_whole_run_of_mlperf_is_not_called_cut_short(benchmark, why):
    text = f':::MLLOG {{"key": "submission_benchmark", "value": "{benchmark}"}}\n:::MLLOG {{"key": "run_stop", "value": null}}\n'
    with pytest.raises(DataError, match=why):
        read_source(Source("log", text))


def test_a_state_without_times_and_power_alone_are_refused_for_what_they_are():
    with pytest.raises(DataError, match=r"log:1: trainer_state.json of a run that has not ended states no times"):
        read_source(Source("log", '{"log_history": [{"loss": 1.2, "step": 5}], "global_step": 5}'))
    events = (("power_measurement_start", "null"), ("conversion_eff", 0.94), ("power_reading", 9067.0))
    lines = [
        f':::MLLOG {{"time_ms": 1, "key": "{key}", "value": {value}, "metadata": {{}}}}\n' for key, value in events
    ]
    with pytest.raises(DataError, match=r"log:3: MLPerf power: 9067 W of the whole system"):
        read_source(Source("log", "".join(lines)))


@pytest.mark.parametrize(
    ("said", "alone"),
    [
        ("tp_size=8, dp_size=8, enable_dp_attention=True", False),
        ("tp_size=8, disaggregation_mode='decode'", False),
        ("tp_size=8, enable_dp_attention=False, disaggregation_mode='null'", True),
    ],
)
def test_reports_of_one_rank_of_several_are_no_batch_of_the_model(said, alone):
    report = "[2025-09-12 07:27:14 DP0 TP0] Decode batch. #running-req: 4, #token: 400, token usage: 0.00, gen throughput (token/s): 98.94, #queue-req: 0,\n"
    (row,) = read_source(Source("log", f"server_args=ServerArgs(model_path='m', {said})\n{report * 4}"))
    assert (row.unread == "") == alone


def test_replicas_of_a_server_report_each_for_itself():
    """Two replicas by turns, with other numbers of requests, are each steady."""
    line = "[2025-09-12 07:27:14 DP{} TP0] Decode batch. #running-req: {}, #token: 400, token usage: 0.00, gen throughput (token/s): {}, #queue-req: 0,\n"
    rows = read_source(Source("log", (line.format(0, 4, 200.5) + line.format(1, 6, 240.5)) * 4))
    assert [(row.options["batch"], row.value) for row in rows] == [
        (4, pytest.approx(4 / 200.5)),
        (6, pytest.approx(6 / 240.5)),
    ]


def test_what_has_no_steady_report_or_no_known_column_is_refused_for_that():
    report = "Avg prompt throughput: 102.2 tokens/s, Avg generation throughput: 2.2 tokens/s, Running: 1 reqs, GPU KV cache usage: 0.8%"
    with pytest.raises(DataError, match=r"log:1: vLLM server log: nowhere 3 reports of as many requests"):
        read_source(Source("log", report))
    table = "| Quantization | Vanilla TP tokens/sec | Async TP tokens/sec |\n|---|---|---|\n| None (bfloat16) | 597.3 | 652.4 |\n"
    with pytest.raises(DataError, match=r"its table at line 1 has columns that are not known \(Vanilla TP tokens/sec"):
        read_source(Source("log", table))


def test_rows_that_are_left_out_are_noted():
    head = "# nThread 1 nGpus 8\n#  all_reduce_perf\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    whole = (
        "   134217728      33554432     float     sum      -1    759.58  176.70  309.2  0   756.21  177.49  310.6 0\n"
    )
    (row,) = read_source(
        Source(
            "log",
            head
            + whole
            + "   268435456      67108864     float     sum      -1    1305.6\n# Avg bus bandwidth    : 125.4\n",
        )
    )
    assert row.notes == ("lines 5 of its table are no whole rows and not read",)
    step = " iteration {}/ 90 | elapsed time per iteration (ms): {} | global batch size: {} | loss\n"
    steps = [(1, 900, 16), (2, 500, 16), *((i, 1000 + i, 32) for i in range(3, 9))]
    (row,) = read_source(Source("log", "".join(step.format(i, f"{ms}.5", batch) for i, ms, batch in steps)))
    assert row.notes == ("median of 4 steps", "2 steps of other batches are left out")


def test_a_stage_that_served_fewer_than_arrived_is_no_steady_load():
    stage = {
        "load_summary": {"count": 1000, "send_duration": 10.0, "requested_rate": 100.0, "achieved_rate": 100.0},
        "successes": {
            "count": 1000, "latency": {"request_latency": {"mean": 2.0}, "time_to_first_token": {"mean": 0.5}},
            "throughput": {"output_tokens_per_sec": 2000.0, "requests_per_sec": 20.0}, "prompt_len": {"mean": 200}, "output_len": {"mean": 100},
        }, "failures": {"count": 0},
    }  # fmt: skip
    doubts = {row.doubt for row in read_source(Source("log", json.dumps(stage)))}
    assert doubts == {"served 20 of 100 requests per second, so its queue grew: no steady load"}


def test_a_table_next_to_the_output_of_a_benchmark_is_noted():
    text = "| Precision | Step time |\n|---|---|\n| BF16 | 9.05 s |\n\n iteration 2/ 50 | elapsed time per iteration (ms): 5390.0 | loss\n"
    (row,) = read_source(Source("log", text))
    assert row.value == pytest.approx(5.39)
    assert "the table at log:3 not read next to it" in row.notes


def test_a_number_of_requests_with_few_reports_hides_no_other():
    """Two steady reports of one request are too few, the three of eight and the four of sixteen are not."""
    line = "INFO 09-02 13:08:10 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {} tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%\n"
    text = "".join(
        line.format(rate * running, running)
        for running, times, rate in ((1, 3, 50.0), (8, 4, 40.0), (16, 5, 25.0))
        for _ in range(times)
    )
    found = read_source(Source("log", text))
    assert [(row.options["batch"], row.value, row.notes[0]) for row in found] == [
        (8, pytest.approx(1 / 40), "median of 3 reports of 8 requests"), (16, pytest.approx(1 / 25), "median of 4 reports of 16 requests")
    ]  # fmt: skip


def test_metrics_of_a_server_are_no_stage_of_its_client():
    text = '{"load_summary": {}, "successes": {"count": 5105, "request_latency": {"mean": 1.15}, "time_per_output_token": {"mean": 0.0176}}}'
    with pytest.raises(DataError, match=r"log:1: the server.s own metrics.*give stage_N_lifecycle_metrics"):
        read_source(Source("log", text))


def _changed(text: str, rng: random.Random) -> str:
    """The text cut, doubled, in another order, with lines lost, or with a character or a number replaced."""
    lines = text.split("\n")
    i, at = rng.randrange(len(lines)), rng.randrange(len(text) + 1)
    figures = list(re.finditer(r"\d+\.?\d*", text))
    figure = rng.choice(figures) if figures else re.match("", text)
    return rng.choice(
        (
            lambda: text[:at],
            lambda: "\n".join(lines[:i]),
            lambda: text + text,
            lambda: "\n".join(rng.sample(lines, len(lines))),
            lambda: "\n".join(lines[:i] + lines[i + rng.randint(1, 4) :]),
            lambda: text[:at] + rng.choice("0-,:{}[\"'x \t|.e#") + text[at + 1 :],
            lambda: (
                text[: figure.start()]
                + rng.choice(("0", "-1", "nan", "1e400", "1e308", "1e-320", "", "9" * 40))
                + text[figure.end() :]
            ),
        )
    )()


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_file_is_read_or_refused_with_its_line(seed):
    rng = random.Random(seed)
    texts = [entry[0] for entry in (*LOGS.values(), *RL.values(), *POWER.values(), *PUBLIC.values())]
    for _ in range(60):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            text = _changed(text, rng)
        try:
            for row in read_source(Source("log", text)):
                assert row.value > 0 and re.fullmatch(r"log:\d+", row.where)
        except DataError as error:
            assert re.match(r"log:\d+: ", str(error)), error
