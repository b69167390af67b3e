"""CUDA graph batch sizes that trtllm-bench captures.

The pages of v0.20, v1.0 and v1.2 (github.com/NVIDIA/TensorRT-LLM, docs/source/performance/perf-overview.md as of v0.20 and at 00f37686aa,
docs/source/developer-guide/perf-overview.md at 03e27c7d5f) run it on the PyTorch backend with the list below and padding on; v0.21 and v1.1 lie between them. Graphs above the largest batch are not
captured, but one at that batch is (tensorrt_llm/_torch/pyexecutor/model_engine.py, _filter_cuda_graph_batch_sizes), and that batch is worked out from
the bench's estimate of a model and its cache (tensorrt_llm/bench/build/tuning.py at 04cba88208): parameters as the checkpoint's elements, heads of
the whole tensor group, two bytes for an unknown format.
"""

from __future__ import annotations

from math import ceil

from rooflinecli import memory
from rooflinecli.core.lift import PLAIN
from rooflinecli.layers.build import ledger
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.validate.stats import Row

CAPTURED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192)
BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "nvfp4": 0.5}  # of an element, in the bench
PACKED = 1 / 2 + 1 / 16  # elements of a checkpoint for each nvfp4 weight: two in a byte, a scale for sixteen
SHARE, MOST, LEAST = 0.95, 4096, 64  # of memory that becomes cache; of sequences


def graph_batches(row: Row) -> tuple[int, ...]:
    """Graph batch sizes of a published row; none where the largest is unknown: MLA, formats unknown to the bench, other engines."""
    if row["engine"] != "trtllm" or row["dtype"] not in BYTES:
        return ()
    attention = load_model(row["model"]).layers[0].attention
    if attention is None or attention.kind == "mla":
        return ()
    largest = max_batch(row)
    return (*(size for size in CAPTURED if size < largest), largest)


def max_batch(row: Row) -> int:
    """The largest batch that the bench sets for a row of a model with softmax attention over cached heads."""
    model, ranks = load_model(row["model"]), row["tp"] * row.get("dp", 1)
    a = model.layers[0].attention
    assert a is not None
    width = a.head_dim or model.d_model // a.n_heads
    one = 2 * model.n_layers * max(ranks, a.n_kv_heads or a.n_heads) * width * (1 if row.get("kv") == "fp8" else 2)
    parameters = memory.device_parameters(ledger(model), Layout(), PLAIN)
    inner = (parameters.inner + parameters.experts) * (PACKED if row["dtype"] == "nvfp4" else 1.0)
    taken = (inner + parameters.outer) * BYTES[row["dtype"]]
    free = load_hardware(row["hw"]).memory.capacity.si * ranks * row["pp"] - taken
    return rounded(free * SHARE / (one * (row["prompt"] + row["output"])), row["pp"])


def rounded(requests: float, stages: int) -> int:
    """The batch that the bench sets for the requests that fit by its estimate: capped, divided over stages, rounded up."""
    each = min(requests, MOST) / stages
    step = 32 if each < 256 else 128 if each < 1024 else 256
    return max(LEAST, step * ceil(each / step))
