"""Entries of hardware, model and engine files: the last value that each takes, and what it is where a file leaves it out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rooflinecli.specs import engine, hardware, model, scheduler
from rooflinecli.specs.figure import Spec
from rooflinecli.specs.validation import validated

ATTENTION = {"n_heads": 8, "n_kv_heads": 2, "head_dim": 64}
KINDS: dict[str, tuple[type[Spec], dict[str, Any]]] = {  # class, and the least that it needs
    "calibration": (hardware.Calibration, {"factors": {}, "error": 0.1, "date": "2026-01-01", "rows": 1, "before": 0, "after": 0}),
    "level": (hardware.Level, {"name": "x", "kind": "fabric", "bandwidth": {"value": "1 GB/s", "source": "x"}}),
    "draw": (hardware.PowerDraw, {"static": 0.2, "error": 0.1, "source": "x"}),
    "units": (hardware.Units, {"kind": "SM", "count": {"value": 1, "source": "x"}, "clock": {"value": "1 GHz", "source": "x"}}),
    "slices": (hardware.Slices, {"chips": [1], "source": "x"}),
    "component": (model.ComponentSpec, {"kind": "linear"}),
    "images": (model.ImageSpec, {"kind": "fixed-square", "patch": 14}),
    "denoising": (model.DenoisingSpec, {"steps": 28, "guidance": True}),
    "attention": (model.AttentionSpec, ATTENTION),
    "feedforward": (model.FeedForwardSpec, {"d_ff": 64}),
    "layer": (model.LayerSpec, {"feedforward": {"d_ff": 64}}),
    "positions": (model.PositionSpec, {}),
    "patches": (model.PatchSpec, {"image": 224, "patch": 14}),
    "widths": (model.Widths, {"layers": 1, "embedding": 1, "head": 1, "outer": 1}),
    "quantization": (model.Quantization, {"dtype": "int4"}),
    "checkpoint": (model.Checkpoint, {"file": "x", "format": "gguf", "tensors": 0, "elements": 0, "bytes": 0}),
    "model": (model.ModelSpec, {"name": "x", "source": "x", "d_model": 64, "layers": 2, "attention": ATTENTION, "feedforward": {"d_ff": 64}}),
    "engine": (engine.ServingEngine, {"name": "x", "per_step": "1 ms", "per_sequence": "1 us", "source": "x"}),
    "scheduler": (scheduler.Scheduler, {}),
}  # fmt: skip
# entry, values that are refused, values that are taken
BOUNDS = """
calibration.error            0             | 0.001
calibration.rows             0             | 1
calibration.before           -0.1          | 0
calibration.after            -0.1          | 0
level.size                   0             | 1
level.oversubscription       0.9           | 1
level.collisions             0.9           | 1
draw.static                  -0.1 1.1      | 0 1
draw.memory                  -0.1          | 0 1.5
draw.compute                 -0.1          | 0 1.5
draw.moe                     -0.1 1.1      | 0 1
draw.error                   -0.1          | 0
draw.error_moe               -0.1          | 0
component.less               -1            | 0
component.merge              0             | 1
component.spread             0             | 1
images.extra                 -1            | 0
images.wrap                  -1            | 0
images.tiles                 0             | 1
images.frame_patch           0             | 1
denoising.steps              0             | 1
denoising.context            -1            | 0
denoising.memory             -1            | 0
feedforward.n_shared         -1            | 0
feedforward.scalars          -1            | 0
layer.norms                  -1            | 0
layer.repeat                 0             | 1
widths.layers                0             | 0.1
widths.experts               -0.1          | 0
widths.embedding             0             | 0.1
widths.head                  0             | 0.1
widths.outer                 0             | 0.1
quantization.group_size      0             | 1
quantization.scale_bits      -1            | 0
quantization.zero_bits       -1            | 0
quantization.bits            0 32.1        | 0.1 32
quantization.head_bits       0 16.1        | 0.1 16
quantization.input_bits      -1            | 0
quantization.output_bits     -1            | 0
quantization.tensor_bits     -1            | 0
quantization.nested_bits     -1            | 0
checkpoint.files             0             | 1
checkpoint.tensors           -1            | 0
checkpoint.elements          -1            | 0
checkpoint.bytes             -1            | 0
model.d_model                0             | 1
model.vocab_size             -1            | 0
model.mtp_layers             -1            | 0
model.streams                0             | 1
engine.per_step              -0.1          | 0
engine.routing_inside        -0.1          | 0
engine.per_sequence_moe      -0.1          | 0
engine.pixel_flops           -0.1          | 0
engine.split_efficiency      0 1.1         | 0.1 1
engine.ranks                 0.9           | 1
engine.prompt_bucket         -1            | 0
engine.routing_skew          0.44          | 0.45
engine.ttft_error            -0.1          | 0
engine.ttft_error_with_flags -0.1          | 0
engine.kv_fraction           0 1.1         | 0.1 1
engine.max_sequences         0             | 1
scheduler.token_budget       0             | 1
scheduler.look_ahead         -1 2          | 0 1
scheduler.hold_steps         -1            | 0
scheduler.hold_share         -0.1 1.1      | 0 1
scheduler.poll_steps         0             | 1
scheduler.stream_steps       0             | 1
scheduler.front              -0.1          | 0
scheduler.graph_tokens       -1            | 0
scheduler.graph_batches      0 4/2 2/2 1,2 | 1/2/4
scheduler.prompt_factor      0             | 0.1
scheduler.prompt_factor_moe  0             | 0.1
scheduler.first_token_error  -0.1          | 0
scheduler.reserve_share      -0.1 1.1      | 0 1
scheduler.memory_share       -0.1 1.1      | 0 1
scheduler.cache_share        -0.1 1.1      | 0 1
scheduler.block              0             | 1
scheduler.preemption         drop          | recompute swap
"""


def read(kind: str, **more: Any) -> Any:
    made, least = KINDS[kind]
    return validated(made, {**least, **more})


ROWS = [line.replace("|", " | ").split() for line in BOUNDS.strip().splitlines()]


@pytest.mark.sampled(len(ROWS))
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_an_entry_is_held_to_its_bounds(row):
    kind, _, name = row[0].partition(".")
    refused, taken = row[1 : row.index("|")], row[row.index("|") + 1 :]
    numeric = name not in ("graph_batches", "preemption")
    for value in taken:
        found = getattr(read(kind, **{name: float(value) if numeric else value}), name)
        assert found == float(value) if numeric else found
    for value in refused:
        with pytest.raises(ValidationError):
            read(kind, **{name: float(value) if numeric else value})


DEFAULTS: dict[str, dict[str, Any]] = {
    "level": {"size": None, "latency": None, "oversubscription": 1, "collisions": None, "rails": False, "in_network_reduction": False, "axes": None,
              "wrap": "always", "shape": None, "slice": None, "twisted": False, "efficiency": {}},
    "draw": {"memory": 0, "compute": 0, "moe": None, "error_moe": None},
    "units": {"flops_per_clock": {}, "shape": None},
    "slices": {"cubes": None, "cores_in_name": 1},
    "calibration": {"sources": [], "range": {}, "near": [], "note": ""},
    # an MLP's projection has a bias, and runs once for each token
    "component": {"name": "", "input": None, "width": None, "rows": None, "bias": True, "norm": "layernorm", "merge": 1, "spread": 1, "less": 0,
                  "positions": None, "once": False},
    "images": {"size": None, "height": None, "merge": 1, "extra": 0, "tokens": None, "wrap": 0, "frames": 1, "frame_patch": 1, "least": None, "most": None,
               "tiles": 1, "grids": [], "overview": False},
    "denoising": {"context": 0, "memory": 0},
    # as Llama has them: rotary, causal, without biases, norms of heads, windows, sinks or gates
    "attention": {"kind": "gqa", "window": None, "chunk": None, "causal": True, "qkv_bias": False, "key_bias": True, "out_bias": False, "qk_norm": "none",
                  "sinks": False, "rotary": True, "conv_bias": False, "gated_norm": True, "out_gate": False, "out_norm": False, "shared": False, "fused": False,
                  "same_values": False, "state_dtype": None, "sizes": {}},
    "feedforward": {"kind": "gated", "activation": "silu", "bias": False, "shared_bias": None, "fused": False, "gated": True, "n_shared": 0,
                    "shared_d_ff": None, "shared_gate": False, "router_bias": False, "inner_norm": False, "scalars": 0, "latent_dim": None, "score_bias": False},
    "layer": {"repeat": 1, "attention": None, "cross": None, "pieces": [], "parallel": False, "norms": 2},
    "positions": {"kind": "rotary", "length": None},
    "patches": {"channels": 3, "class_token": True, "bias": True},
    "widths": {"experts": 0},
    # a scale of 16 bits, no zero point
    "quantization": {"group_size": None, "scale_bits": 16, "zero_bits": 0, "applies_to": "linear", "method": "", "bits": None, "head_bits": None, "block": None,
                     "input_bits": 0, "output_bits": 0, "tensor_bits": 0, "nested_group": None, "nested_bits": 0, "weight_only": False, "only": [], "kept": [],
                     "experts": None, "others": [], "widths": None},
    "checkpoint": {"files": 1, "dtypes": {}},
    "model": {"aliases": [], "family": "", "orgs": [], "vocab_size": 0, "tied_embeddings": False, "lm_head": True, "lm_head_bias": False,
              "embedding_dim": None, "embedding_down": True, "norm": "rmsnorm", "final_norm": True, "streams": 1, "independent_streams": False,
              "embedding_norm": False, "patches": None, "n_classes": None, "before": [], "after": [], "shared_embedding": False, "reads": "its own",
              "images": None, "denoising": None, "prefix": 1, "projection_dim": None, "pre_norm": False, "max_context": None, "mtp_layers": 0,
              "quantization": None, "towers": [], "notes": [], "assumed": ""},
    # an engine that costs nothing but its steps: no padding, no reserve, all memory for the cache
    "engine": {"aliases": [], "per_layer": 0, "per_moe_layer": 0, "routing_inside": 0, "routing_inside_formats": (), "prompt_per_layer": 0,
               "prompt_per_moe_layer": 0, "per_sequence_moe": None, "splits_layers": False, "looks_up_on_host": False, "pixel_flops": 0, "host_per_matmul": 0,
               "host_per_exchange": 0, "per_split": 0, "split_efficiency": 1, "pads_heads": False, "ranks": 1, "copies_heads": "", "whole_head": False,
               "prompt_bucket": 0, "routing_skew": 1.5, "whole_cache": False, "kv_dtype_fp8": False, "cache_dtype": "", "narrower": {}, "prompts_first": False,
               "ttft_error": 1, "ttft_error_with_flags": None, "kv_fraction": 1, "reserve": "0 B", "reserve_experts": "0 B", "max_sequences": 2048,
               "backends": {}, "compute": {}, "library": "vllm", "all_reduces": "", "efficiency": {}, "known_on": [], "on": {}, "note": ""},
    # vLLM's: steps of 8,192 tokens (V1 on H100), blocks of 16, looks at every step, preempts by recomputation
    "scheduler": {"policy": "vllm", "token_budget": 8192, "mixed": False, "look_ahead": 0, "hold_steps": 0, "hold_share": 0, "poll_steps": 1,
                  "stream_steps": 1, "front": 0, "per_stream": 0, "per_token": 0, "graph_tokens": 0, "graph_batches": (), "one_pass": False, "launch": 0, "prompt_factor": 1,
                  "prompt_factor_moe": None, "first_token_error": 0.5, "reserve_share": 0, "memory_share": 0, "cache_share": 0, "block": 16,
                  "preemption": "recompute"},
}  # fmt: skip


@pytest.mark.sampled(len(DEFAULTS))
@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_a_file_leaves_out(kind):
    found, written = read(kind), KINDS[kind][1]
    assert {name: getattr(found, name) for name in DEFAULTS[kind]} == DEFAULTS[kind]
    settled = {*DEFAULTS[kind], *written, "source", "layers", "positions", "scheduler", "parameters_published"}
    optional = {name for name in type(found).__dataclass_fields__ if getattr(found, name) is None}
    assert set(type(found).__dataclass_fields__) <= settled | optional


REQUIRED = {
    "calibration": "factors error date rows before after", "level": "name kind bandwidth", "draw": "static error source", "units": "kind count clock",
    "slices": "chips source", "component": "kind", "images": "kind patch", "denoising": "steps guidance", "attention": "n_heads head_dim",
    "feedforward": "d_ff", "layer": "feedforward", "patches": "image patch", "widths": "layers embedding head outer", "quantization": "dtype",
    "checkpoint": "file format tensors elements bytes", "model": "name source d_model layers", "engine": "name per_step per_sequence source",
}  # fmt: skip


@pytest.mark.sampled(len(REQUIRED))
@pytest.mark.parametrize("kind", REQUIRED)
def test_what_a_file_has_to_say(kind):
    made, least = KINDS[kind]
    for name in REQUIRED[kind].split():
        with pytest.raises(ValidationError):
            validated(made, {key: value for key, value in least.items() if key != name})
