"""What the host keeps, against shares and bytes in round figures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import host_offload
from rooflinecli.engine.context import EstimateContext
from rooflinecli.memory import DeviceParameters
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

PLAN = Layout()


def ctx(model="mixtral-8x7b", hw="rtx-4090", **more) -> EstimateContext:
    """32 layers, all with experts; prompt and answer of 1024 tokens together."""
    base = {"engine": "llamacpp", "batch": 1.0, "prompt": 1000.0, "output": 24.0, "devices": 1.0}
    return EstimateContext(Request(load_model(model), load_hardware(hw), **{**base, **more}))


@pytest.mark.parametrize(
    ("asked", "shares"),
    [
        ({"gpu_layers": 24.0}, (0.25, 0.25, 1.0)),
        ({"gpu_layers": 32.0}, (0.0, 0.0, 0.0)),
        ({"experts_on": "host"}, (0.0, 1.0, 0.0)),
        ({"experts_on": "host:8"}, (0.0, 0.25, 0.0)),
        ({"experts_on": "host:99"}, (0.0, 1.0, 0.0)),
        ({"experts_on": "device"}, (0.0, 0.0, 0.0)),
        ({"gpu_layers": 16.0, "experts_on": "host:8"}, (0.5, 0.625, 1.0)),
    ],
    ids=str,
)
def test_shares_of_layers_experts_and_head(asked, shares):
    found = ctx(**asked).host
    assert (found.layers, found.experts, found.head) == shares


def test_nothing_asked_keeps_nothing():
    assert ctx().host is None
    params = DeviceParameters(8.0, 6.0, 4.0, True)
    assert host_offload.on_device(params, None) is params


@pytest.mark.parametrize("chip", ["ryzen-9-9950x"])
def test_a_chip_that_is_its_own_host_has_none_beside_it(chip):
    with pytest.raises(UsageError, match="leave out") as layers:
        ctx(hw=chip, gpu_layers=8.0)
    with pytest.raises(UsageError, match="leave out") as experts:
        ctx(hw=chip, experts_on="host")
    assert (layers.value.option, experts.value.option) == ("offload-layers", "experts-on")


def test_device_and_host_share_parameters_out():
    params = DeviceParameters(800.0, 60.0, 4000.0, True)
    kept = SimpleNamespace(layers=0.25, experts=0.5, head=1.0)
    on = host_offload.on_device(params, kept)
    assert (on.inner, on.outer, on.experts) == (600.0, 0.0, 2000.0)
    formats = ctx(weight_dtype="bf16").formats
    assert host_offload.host_bytes(params, 40.0, formats, kept) == (200 + 60 + 2000) * 2 + 40 * 0.25


KV = 32 * 8 * 128 * 2 * 2 * 1024.0  # bytes of the cache: layers, heads, their width, keys and values, bf16, tokens
D, V, F, E = 4096, 32000, 14336, 8
EXPERTS = 32 * E * 3 * D * F * 2.0
LAYERS = 32 * (2 * D * D + 2 * D * 1024 + 2 * D + D * E) * 2.0  # attention, two norms, the router
OUTER = (2 * V * D + D) * 2.0


def full(capacity: float, **more) -> dict:
    """What `as_fits` asks of a device of that many bytes, of which 1000 stay free."""
    one = ctx(weight_dtype="bf16", kv_dtype="bf16", **more)
    chip = SimpleNamespace(capacity=capacity)
    held = SimpleNamespace(
        parameters=one.parameters,
        formats=one.formats,
        ledger=one.ledger,
        prompt=one.prompt,
        output=one.output,
        lift=one.lift,
        chip=chip,
        spec=one.spec,
        engine=one.engine,
        request=one.request,
    )
    return host_offload.offload_to_fit(held, PLAN, 1000.0)


TABLE = V * D * 2.0  # llama.cpp keeps the embedding on the host
WHOLE = LAYERS + EXPERTS + OUTER - TABLE + KV + 1000


def test_the_embedding_is_looked_up_on_the_host():
    one = ctx(weight_dtype="bf16")
    assert host_offload.host_embedding_bytes(one) == TABLE
    assert host_offload.host_embedding_bytes(ctx("gemma-2-9b")) == 0  # tied: it is the head
    assert host_offload.host_embedding_bytes(ctx(engine="vllm")) == 0


def test_experts_go_to_the_host_first_then_layers():
    assert full(WHOLE) == {}
    assert full(WHOLE - 1) == {"experts_on": "host:1"}
    assert full(WHOLE - EXPERTS / 32) == {"experts_on": "host:1"}
    assert full(WHOLE - EXPERTS / 32 - 1) == {"experts_on": "host:2"}
    assert full(WHOLE - EXPERTS) == {"experts_on": "host:32"}
    layer = (LAYERS + EXPERTS + KV) / 32
    less = WHOLE - EXPERTS - 1  # not even without any expert
    assert full(less) == {"gpu_layers": float((less - 1000) // layer)}
    assert full(1000.0) == {"gpu_layers": 0.0}
