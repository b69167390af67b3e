"""What each tool writes, in a few lines of our own in its real format: name -> (text, readings expected of it).

A reading is (line, quantity, value, unit, some of its options or probe).
"""

from __future__ import annotations

import json

VLLM = {
    "date": "20261001-120000", "endpoint_type": "openai", "backend": "openai", "label": None,
    "model_id": "meta-llama/Llama-3.1-8B-Instruct", "tokenizer_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": 100,
    "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 16, "duration": 50.0, "completed": 100, "failed": 0,
    "total_input_tokens": 102400, "total_output_tokens": 12800, "request_throughput": 2.0, "output_throughput": 256.0,
    "total_token_throughput": 2304.0, "mean_ttft_ms": 120.0, "median_ttft_ms": 100.0, "std_ttft_ms": 9.0, "p99_ttft_ms": 300.0,
    "mean_tpot_ms": 9.5, "median_tpot_ms": 9.4, "std_tpot_ms": 0.1, "p99_tpot_ms": 11.0, "mean_itl_ms": 9.4,
}  # fmt: skip
SGLANG = {
    "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": None, "sharegpt_output_len": None,
    "random_input_len": 1024, "random_output_len": 256, "random_range_ratio": 0.0, "duration": 60.0, "completed": 200,
    "total_input_tokens": 102400, "total_output_tokens": 25600, "total_output_tokens_retokenized": 25590,
    "mean_e2e_latency_ms": 1400.0, "median_e2e_latency_ms": 1390.0, "median_ttft_ms": 100.0, "median_itl_ms": 9.8,
    "output_throughput": 426.0,
}  # fmt: skip
AIPERF = {
    "schema_version": "1.0",
    "time_to_first_token": {"unit": "ms", "avg": 30.5, "p50": 30.0},
    "inter_token_latency": {"unit": "ms", "avg": 8.25, "p50": 8.2},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 100.7},
    "output_sequence_length": {"unit": "tokens", "avg": 199.98},
    "input_sequence_length": {"unit": "tokens", "avg": 100.0},
    "input_config": {
        "endpoint": {"model_names": ["Qwen/Qwen3-0.6B"], "streaming": True},
        "loadgen": {"concurrency": 2, "request_count": 64},
    },
}


def _statistic(mean: float) -> dict:
    return {"successful": {"mean": mean, "median": mean, "std_dev": 0.0, "count": 20}, "errored": {"mean": 0.0}}


GUIDELLM = {
    "metadata": {"version": 1, "guidellm_version": "0.3.0"},
    "args": {"target": "http://localhost:8000", "model": "meta-llama/Llama-3.1-8B-Instruct"},
    "benchmarks": [
        {
            "id_": "11111111-aaaa",
            "args": {"strategy": {"type_": "concurrent", "streams": 8}},
            "metrics": {
                "prompt_token_count": _statistic(512.0), "output_token_count": _statistic(128.0),
                "time_to_first_token_ms": _statistic(55.0), "inter_token_latency_ms": _statistic(8.0),
                "output_tokens_per_second": _statistic(900.0),
            },
        }
    ],
}  # fmt: skip
INFERENCEX = [
    {
        "hw": "h200", "conc": 8, "image": "vllm/vllm-openai:v0.11.2", "model": "openai/gpt-oss-120b", "infmax_model_prefix": "gptoss",
        "framework": "vllm", "precision": "fp4", "spec_decoding": "none", "disagg": False, "isl": 1000, "osl": 1000, "is_multinode": False,
        "tp": 8, "ep": 1, "dp_attention": "false", "tput_per_gpu": 480.0, "output_tput_per_gpu": 240.0, "input_tput_per_gpu": 240.0,
        "mean_ttft": 0.08, "median_ttft": 0.03, "mean_tpot": 0.004, "median_tpot": 0.0039, "mean_e2el": 3.7,
    },
    {"hw": "h200", "conc": 4, "model": "openai/gpt-oss-120b", "infmax_model_prefix": "gptoss", "disagg": True, "tput_per_gpu": 1.0},
]  # fmt: skip
LLAMA = {
    "build_commit": "abc", "build_number": 6865, "gpu_info": "GPU", "model_filename": "m.gguf", "model_type": "llama 8B Q4_K - Medium",
    "model_size": 4912898304, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 100000000, "avg_ts": 5120.0, "stddev_ts": 1.0,
}  # fmt: skip
SERVE = """Namespace(subparser='bench', model='openai/gpt-oss-120b', max_concurrency=1, request_rate=inf, seed=0)
INFO starting
============ Serving Benchmark Result ============
Successful requests:                     10
Maximum request concurrency:             1
Benchmark duration (s):                  217.02
Total input tokens:                      200000
Total generated tokens:                  50000
Request throughput (req/s):              0.05
Output token throughput (tok/s):         230.39
---------------Time to First Token----------------
Mean TTFT (ms):                          693.49
Median TTFT (ms):                        703.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          4.20
Median TPOT (ms):                        4.20
==================================================
"""
TRTLLM = """[07/11/2026-07:01:04] [TRT-LLM] [I]

===========================================================
= ENGINE DETAILS
===========================================================
Model:\t\t\tmeta-llama/Llama-3.1-70B-Instruct
TensorRT-LLM Version:\t0.16.0
Dtype:\t\t\tbfloat16
KV Cache Dtype:\t\tFP8
Quantization:\t\tFP8

===========================================================
= WORLD + RUNTIME INFORMATION
===========================================================
TP Size:\t\t8
PP Size:\t\t1
Issue Rate (req/sec):\t3.3E+13

===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Number of requests:\t\t15000
Average Input Length (tokens):\t512.0000
Average Output Length (tokens):\t128.0000
Token Throughput (tokens/sec):\t6400.0
Total Latency (ms):\t\t300000.0
===========================================================
"""
MLPERF = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 4.00
Completed tokens per second: 512.00
Result is : VALID

================================================
Additional Stats
================================================
Mean First Token latency (ns)               : 600000000
Mean Time to Output Token (ns)               : 58000000

================================================
Test Parameters Used
================================================
target_qps : 4
"""
NCCL = """# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid 1 on node device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 2 on node device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    59.48  141.03  141.03       0    59.20  141.7   141.7       0
  8589934592    2147483648     float     sum      -1    175763   48.87   48.87       0   174968   49.1    49.1       N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 95.2
#
"""
MEGATRON = """using world size: 64, data-parallel-size: 2, tensor-model-parallel size: 4, pipeline-model-parallel size: 8
  bf16 ............................................ True
  micro_batch_size ................................ 2
  seq_length ...................................... 2048
  recompute_granularity ........................... full
""" + "".join(
    f" iteration {i:8d}/    1000 | consumed samples: {1024 * i} | elapsed time per iteration (ms): {t} | learning rate: 1.0E-05 | "
    "global batch size:  1024 | lm loss: 1.2E+01 | number of nan iterations:   0 |\n"
    for i, t in enumerate((99000.0, 13000.0, 12100.0, 12000.0, 12010.0, 11990.0), start=1)
)
TITAN = "".join(
    f"{rank}: 2026-03-04 00:44:{step} - root - INFO - \x1b[36mstep: {step}  \x1b[32mloss:  3.4370  \x1b[33mmemory: 68.57GiB(86.69%)  "
    f"\x1b[34mtps: 6,{step}5  \x1b[35mmfu: 39.73%\x1b[39m\n"
    for step in (78, 79, 80)
    for rank in (0, 1)
)
MAXTEXT = "\n".join(
    f"completed step: {i}, seconds: {t}, TFLOP/s/device: {764.67 / t:.3f}, Tokens/s/device: {49152 / t:.3f}, total_weights: 196608, loss: 12.0"
    for i, t in enumerate((44.923, 0.319, 5.658, 5.668, 5.67))
)
DEEPSPEED = "".join(
    f"[2026-04-18 03:36:0{i},683] [INFO] [timer.py:199:stop] epoch=0/micro_step={i}0/global_step={i}0, RunningAvgSamplesPerSec=265.3, "
    f"CurrSamplesPerSec={rate}, MemAllocated=4.34GB, MaxMemAllocated=12.81GB\n"
    for i, rate in enumerate((265.0, 213.0, 218.0, 219.0, 217.0), start=1)
)
COMPOSER = "".join(
    f"[batch={i}/20]:\n\t Train time/batch: {i}\n\t Train throughput/batches_per_sec: {rate}\n\t Train throughput/device/mfu: 0.41\n"
    for i, rate in enumerate((0.1, 0.2, 0.25, 0.25, 0.25), start=1)
)
MLLOG = "".join(
    ":::MLLOG " + json.dumps({"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": key, "value": value, "metadata": {}}) + "\n"
    for key, value in (
        ("submission_benchmark", "llama2_70b_lora"), ("submission_platform", "1xXE7745x4H200-NVL-141GB"), ("global_batch_size", 8),
        ("max_sequence_length", 8192), ("tracked_stats", {"throughput": 1.161}), ("tracked_stats", {"throughput": 1.160}),
    )
)  # fmt: skip
AIPERF_CSV = """Metric,avg,min,max,sum,p1,p50,p99,std
Input Sequence Length (tokens),1000.00,1.00,2.00,3.00,4.00,5.00,6.00,7.00
Inter Token Latency (ms),11.85,7.49,13.31,1137.34,7.61,12.25,13.27,1.25
Output Sequence Length (tokens),250.00,1.00,2.00,3.00,4.00,5.00,6.00,7.00
Time to First Token (ms),230.14,75.04,693.93,22093.17,81.45,177.79,687.62,152.24

Metric,Value
Request Count,96.00
"""
CUTLASS = """Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,A,B,C,batch_count,Bytes,Flops,Runtime,GB/s,GFLOPs
1,CUTLASS,gemm,cutlass3x_sm90_a,passed,success,universal,4096,4096,4096,bf16:row,bf16:column,f32:column,1,100,137438953472,0.20,1,687194
1,CUTLASS,gemm,cutlass3x_sm90_b,passed,success,universal,4096,4096,4096,bf16:row,bf16:column,f32:column,1,100,137438953472,0.19,1,723362
"""
PERFTEST = """ RDMA_Write BW Test
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]    MsgRate[Mpps]
 8388608    5000             0.00               192.50               0.002868
---------------------------------------------------------------------------------------
"""
OSU = """# OSU MPI-CUDA Bandwidth Test v7.5
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)
1048576             23000.50
4194304             24000.00
"""

RUN = {
    "schema": "roofline/serving-run/1", "url": "http://localhost:8000", "model": "m", "engine": "vllm", "concurrency": 4, "requests": 16,
    "prompt_tokens": 511.6, "output_tokens": 64.0, "first_token_s": 0.05, "inter_token_s": 0.01, "output_tokens_per_s": 380.0, "wall_s": 2.7,
}  # fmt: skip
CASE = {
    "schema": "roofline-measure/1", "fingerprint": "f", "key": "matmul/matmul/xla/bf16/m=4096,n=4096,k=4096", "suite": "matmul", "op": "matmul",
    "kind": "matmul", "dtype": "bf16", "sizes": {"m": 4096, "n": 4096, "k": 4096}, "time_s": 2.0e-4,
}  # fmt: skip
SHIFT = {
    **CASE,
    "key": "c",
    "suite": "collectives",
    "op": "all-gather",
    "kind": "collective",
    "sizes": {"bytes": 2**24, "n": 8},
    "time_s": 1.0e-4,
}

LOGS: dict[str, tuple[str, list[tuple]]] = {
    "vllm-serve": (
        json.dumps(VLLM) + "\n" + json.dumps({**VLLM, "max_concurrency": None, "request_rate": 2.5}),
        [
            (
                1,
                "itl",
                0.0095,
                "s",
                {"model": "meta-llama/Llama-3.1-8B-Instruct", "prompt": 1024, "output": 128, "concurrency": 16},
            ),
            (1, "ttft", 0.12, "s", {"engine": "vllm"}),
            (2, "itl", 0.0095, "s", {"qps": 2.5}),
            (2, "ttft", 0.12, "s", {}),
        ],
    ),
    "vllm-latency": (
        json.dumps({"avg_latency": 0.9, "latencies": [0.9, 0.9], "percentiles": {"50": 0.9}}, indent=4),
        [(1, "static", 0.9, "s/batch", {"engine": "vllm"})],
    ),
    "vllm-throughput": (
        json.dumps(
            {
                "elapsed_time": 10.0,
                "num_requests": 100,
                "total_num_tokens": 51200,
                "requests_per_second": 10.0,
                "tokens_per_second": 5120.0,
            }
        ),
        [(1, "throughput", 5120.0, "total tokens/s", {"concurrency": 100})],
    ),
    "sglang": (
        json.dumps(SGLANG)
        + "\n"
        + json.dumps({**SGLANG, "request_rate": float("inf"), "median_ttft_ms": 25e3, "mean_e2e_latency_ms": 40e3}),
        [
            (1, "itl", 1.3 / 127, "s", {"engine": "sglang", "prompt": 512, "output": 128, "qps": 4.0}),
            (1, "ttft", 0.1, "s", {}),
            (2, "throughput", 426.0, "tokens/s", {"concurrency": 200}),
        ],
    ),
    "serve-text": (
        SERVE,
        [
            (3, "itl", 0.0042, "s", {"model": "openai/gpt-oss-120b", "concurrency": 1}),
            (3, "ttft", 0.69349, "s", {"prompt": 20000}),
        ],
    ),
    "aiperf": (
        json.dumps(AIPERF, indent=2),
        [
            (1, "itl", 0.00825, "s", {"model": "Qwen/Qwen3-0.6B", "concurrency": 2, "output": 200}),
            (1, "ttft", 0.0305, "s", {}),
        ],
    ),
    "aiperf-csv": (
        AIPERF_CSV,
        [(3, "itl", 0.01185, "s", {"prompt": 1000, "output": 250}), (5, "ttft", 0.23014, "s", {})],
    ),
    "guidellm": (
        json.dumps(GUIDELLM, indent=1),
        [
            (12, "itl", 0.008, "s", {"concurrency": 8, "prompt": 512}),
            (12, "ttft", 0.055, "s", {"model": "meta-llama/Llama-3.1-8B-Instruct"}),
        ],
    ),
    "inferencex": (
        json.dumps(INFERENCEX),
        [
            (1, "itl", 0.004, "s", {"hw": "h200", "tp": 8.0, "concurrency": 8, "prompt": 900, "weight-dtype": "mxfp4"}),
            (1, "ttft", 0.08, "s", {}),
        ],
    ),
    "trtllm": (
        TRTLLM,
        [
            (
                20,
                "throughput",
                6400.0,
                "tokens/s",
                {"tp": 8.0, "n": 8.0, "dtype": "fp8", "kv-dtype": "fp8", "concurrency": "max"},
            )
        ],
    ),
    "llama-bench-jsonl": (
        "ggml_cuda_init: found 1 ROCm devices:\n"
        + json.dumps(LLAMA)
        + "\n"
        + json.dumps({**LLAMA, "n_prompt": 0, "n_gen": 128, "avg_ts": 100.0}),
        [
            (2, "prefill", 0.1, "s", {"prompt": 512.0, "batch": 1}),
            (3, "itl", 0.01, "s", {"weight-dtype": "q4_k_m", "engine": "llamacpp", "output": 128.0}),
        ],
    ),
    "llama-bench-md": (
        "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "| llama 8B Q8_0 | 8 GiB | 8.03 B | CUDA | 99 | pp512 | 5120.00 ± 6.99 |\n"
        "| llama 8B Q8_0 | 8 GiB | 8.03 B | CUDA | 99 | tg128 @ d4096 | 100.00 ± 0.12 |\n\nbuild: 0253fb21f (9187)\n",
        [(3, "prefill", 0.1, "s", {"weight-dtype": "q8_0"}), (4, "itl", 0.01, "s", {"prompt": 4096.0})],
    ),
    "llama-bench-csv": (
        ",".join(LLAMA) + "\n" + ",".join(f'"{v}"' for v in LLAMA.values()) + "\n",
        [(2, "prefill", 0.1, "s", {"prompt": 512.0})],
    ),
    "mlperf": (MLPERF, [(8, "itl", 0.058, "s", {"output": 128, "qps": 4.0}), (8, "ttft", 0.6, "s", {})]),
    "nccl": (
        NCCL,
        [
            (9, "collective", 59.48e-6, "s", {"op": "all-reduce", "bytes": 8388608, "n": 2}),
            (10, "collective", 0.175763, "s", {}),
        ],
    ),
    "osu": (
        OSU,
        [
            (4, "collective", 1048576 / 23000.5e6, "s", {"op": "permute", "n": 2}),
            (5, "collective", 4194304 / 24e9, "s", {}),
        ],
    ),
    "perftest": (PERFTEST, [(4, "collective", 8388608 / (192.5e9 / 8), "s", {"op": "permute"})]),
    "megatron": (
        MEGATRON,
        [
            (
                9,
                "train",
                12.0,
                "s",
                {"n": 64, "tp": 4, "pp": 8, "dp": 2, "batch": 1024, "seq": 2048, "dtype": "bf16", "recompute": "full"},
            )
        ],
    ),
    "nemo": (
        "Training epoch 0, iteration 9/49 | lr: 1e-5 | global_batch_size: 128 | global_step: 9 | train_step_timing in s: 46.84 | consumed_samples: 1\n",
        [(1, "train", 46.84, "s", {})],
    ),
    "nemo-json": ('{\n  "global_step": 15.0,\n  "train_step_timing in s": 20.02\n}\n', [(3, "train", 20.02, "s", {})]),
    "torchtitan": (TITAN, [(3, "train", 6795.0, "tokens/s/device", {"software": "torchtitan"})]),
    "maxtext": (MAXTEXT, [(4, "train", 5.668, "s", {"tokens_per_device": 49152})]),
    "deepspeed": (DEEPSPEED, [(3, "train", 218.0, "samples/s", {"software": "deepspeed"})]),
    "deepspeed-old": ("worker-0: 0/50, SamplesPerSec=1292.6\n", [(1, "train", 1292.6, "samples/s", {})]),
    "llm-foundry": (COMPOSER, [(11, "train", 4.0, "s", {"software": "llm-foundry"})]),
    "hf-trainer": (
        "TrainOutput(global_step=250, training_loss=1.5, metrics={'train_runtime': 200.0, 'train_samples_per_second': 5.0, "
        "'train_steps_per_second': 1.25, 'train_loss': 1.5, 'epoch': 1.0})\n",
        [(1, "train", 0.8, "s", {"batch": 4})],
    ),
    "hf-trainer-json": (
        json.dumps(
            {"epoch": 1.0, "train_runtime": 200.0, "train_samples_per_second": 5.0, "train_steps_per_second": 1.25},
            indent=4,
        ),
        [(3, "train", 0.8, "s", {"batch": 4})],
    ),
    "mllog": (
        MLLOG,
        [(6, "train", 1.160, "samples/s", {"model": "llama-2-70b", "batch": 8.0, "seq": 8192.0, "recipe": "lora"})],
    ),
    "mamf": (
        "Command line: ./mamf-finder.py --m 4096 --dtype bfloat16\n"
        "     1 |  650.0(mean)  655.0(median)  700.0(max) @ 4096x4096x4096 (MxNxK) | best:  650.0(mean) TFLOPS\n",
        [(2, "matmul", 2 * 4096**3 / 650e12, "s", {"m": 4096, "dtype": "bf16"})],
    ),
    "cutlass": (CUTLASS, [(3, "matmul", 0.19e-3, "s", {"m": 4096, "dtype": "bf16"})]),
    "own-server": (
        json.dumps(RUN),
        [
            (1, "itl", 0.01, "s", {"prompt": 512, "output": 64, "concurrency": 4, "engine": "vllm"}),
            (1, "ttft", 0.05, "s", {"model": "m"}),
        ],
    ),
    "own-measure": (
        "\n".join(json.dumps(case) for case in ({"schema": "roofline-measure/1", "key": "environment"}, CASE, SHIFT)),
        [
            (2, "matmul", 2.0e-4, "s", {"m": 4096, "dtype": "bf16"}),
            (3, "collective", 1.0e-4, "s", {"op": "all-gather", "n": 8}),
        ],
    ),
}
