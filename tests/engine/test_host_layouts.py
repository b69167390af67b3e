"""Ranks of devices as ranks of their hosts, what stays on a device and what leaves it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request, host_offload
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

H100 = EstimateContext(
    build_request.request({"model": "llama-3-8b", "hw": "h100", "phase": "train"})
)  # eight to a host


@pytest.mark.parametrize(
    ("given", "tp", "ep", "shared"),
    [
        ({"tp": 4.0, "dp": 4.0}, 1, 1, 2),  # two hosts for four replicas
        ({"tp": 8.0, "dp": 4.0}, 1, 1, 1), ({"tp": 16.0, "dp": 2.0}, 2, 1, 1), ({"tp": 12.0, "dp": 2.0}, 2, 1, 1),
        ({"tp": 4.0, "dp": 8.0, "ep": 8.0, "expert_tp": 4.0}, 1, 2, 2), ({"tp": 2.0, "dp": 16.0, "ep": 2.0, "expert_tp": 2.0}, 1, 1, 4),
        ({"tp": 16.0, "dp": 4.0, "ep": 16.0}, 2, 2, 1),
    ],
)  # fmt: skip
def test_ranks_of_a_layout_as_hosts(given: dict[str, float], tp: float, ep: float, shared: float) -> None:
    layout, replicas = host_offload.on_hosts(H100, Layout(**given))
    assert (layout.tp, layout.ep, layout.expert_tp, replicas) == (tp, ep, None, shared) and layout.dp == given["dp"]
    alone = Layout()
    assert host_offload.on_hosts(H100, alone) == (alone, 1.0)


@pytest.mark.parametrize(
    ("written", "share"), [(None, 0), ("device", 0), ("host", 1), ("host:8", 0.25), ("host:99", 1), ("host:0", 0)]
)
def test_experts_that_the_host_keeps(written: str | None, share: float) -> None:
    assert host_offload._experts(written, load_model("mixtral-8x7b")) == share  # of 32 layers


def test_experts_that_nobody_keeps() -> None:
    for written in ("disk", "host:x", "host:-1"):
        with pytest.raises(UsageError, match=r"expected device, host or host:LAYERS"):
            host_offload._experts(written, load_model("mixtral-8x7b"))
    with pytest.raises(UsageError, match="has no experts"):
        host_offload._experts("host", load_model("llama-3-8b"))


def test_parameters_that_stay_on_the_device() -> None:
    params = H100.parameters(Layout())
    assert host_offload.on_device(params, None) is params
    kept = host_offload.on_device(params, SimpleNamespace(layers=0.25, head=1.0, experts=0.5))  # type: ignore[arg-type]
    assert kept == replace(params, inner=0.75 * params.inner, outer=0.0, experts=0.5 * params.experts)


def asked(model: str, **more: Any) -> EstimateContext:
    return EstimateContext(
        build_request.request(
            {
                "model": model,
                "hw": "rtx-4090",
                "engine": "llamacpp",
                "phase": "decode",
                "prompt": 1000,
                "output": 24,
                **more,
            }
        )
    )


def test_what_does_not_fit_leaves_layer_by_layer() -> None:
    """24 GB, less a reserve of 1e9 bytes; weights, cache and layers of the model by its own sizes."""
    small = asked("llama-3-8b", dtype="bf16")
    assert host_offload.offload_to_fit(small, Layout(), 1e9) == {}
    room = float(small.chip.capacity) - 1e9
    spec, cache = small.spec, 1024 * 2 * 32 * 8 * 128 * 2
    embedding = spec.vocab_size * spec.d_model * 2.0
    assert host_offload.host_embedding_bytes(small) == embedding
    layers, head = (
        2.0 * float(small.parameters(Layout()).inner),
        2.0 * float(small.parameters(Layout()).outer) - embedding,
    )
    assert head == pytest.approx(embedding, rel=1e-4)  # and the last norm
    assert host_offload.offload_to_fit(small, Layout(), room + 1e9 - (layers + head + cache)) == {}
    tight = host_offload.offload_to_fit(small, Layout(), room + 1e9 - (layers + head + cache) + 1e6)
    assert tight == {"gpu_layers": 32.0}  # the head alone leaves
    half = host_offload.offload_to_fit(small, Layout(), room + 1e9 - (layers + cache) / 2)
    assert half == {"gpu_layers": 16.0}


def test_experts_leave_first() -> None:
    mixtral = asked("mixtral-8x7b", dtype="bf16")
    params, room = mixtral.parameters(Layout()), float(mixtral.chip.capacity)
    experts, cache = 2.0 * float(params.experts), 1024 * 2 * 32 * 8 * 128 * 2
    embedding = mixtral.spec.vocab_size * mixtral.spec.d_model * 2.0
    rest = 2.0 * float(params.inner) + 2.0 * float(params.outer) - embedding + cache
    found = host_offload.offload_to_fit(mixtral, Layout(), room - rest - experts * 10.5 / 32)
    assert found == {"experts_on": "host:22"}  # 21.5 of 32 layers' are missing
    assert set(host_offload.offload_to_fit(mixtral, Layout(), room - rest + 1e9)) == {"gpu_layers"}
