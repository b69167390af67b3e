"""A sequence mixer is one object: nothing outside its file knows its kind. Checked with one made up here, whose state has a fixed size."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import yaml

from rooflinecli import memory
from rooflinecli.core.errors import DataError
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.inference import decode, prefill
from rooflinecli.engine.training import train
from rooflinecli.layers import kinds
from rooflinecli.layers.build import ledger
from rooflinecli.layers.softmax import Latent
from rooflinecli.ledger.ledger import Sizes
from rooflinecli.ledger.mixer import ContextParallelTraffic, CountingMode, Mixer
from rooflinecli.ledger.ops import Gradient, Op
from rooflinecli.parallel import context
from rooflinecli.phases import backward, recompute
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.chip import Chip
from rooflinecli.quantization.formats import formats
from rooflinecli.specs import registry
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

MODEL = """
name: Linear 1B
source: made up
d_model: 1024
vocab_size: 32000
attention: {kind: toy, n_heads: 16, head_dim: 64, sizes: {state: 128}}
feedforward: {kind: gated, d_ff: 4096}
layers: 8
"""
KERNEL = {"kind": "prefill_attention"}  # tests price it as something the chip has constants of


class Linear(Mixer):
    """Gated linear attention: a state of 64 x 128 values per head, chunks of 64 tokens in prefill."""

    def flops(self, mode: CountingMode, sizes: Sizes):
        return 4 * sizes["B"] * sizes["S"] * sizes["N"] * sizes["H"] * sizes["state"]

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return [self._op(name, mode, sizes)]

    decode = prefill

    def _op(self, name: str, mode: CountingMode, sizes: Sizes) -> Op:
        moved = 2.0 * sizes["B"] * sizes["N"] * sizes["H"] * sizes["state"]
        dtype, flops = mode.formats.attention_compute, self.flops(mode, sizes)
        return Op(name=name, dtype=dtype, flops=flops, bytes=moved, gradient=Gradient(3.0, moved * 3), **KERNEL)

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        wide = sizes["N"] * sizes["H"]
        return ContextParallelTraffic(queries=wide, state=sizes["B"] * wide * sizes["state"])

    def cache_bytes(self, formats, sizes, batch, tokens):
        return batch * sizes["N"] * sizes["H"] * sizes["state"] * 4

    def text(self, sizes: Sizes) -> str:
        return "a state"


KIND = """
sizes: {state: width of the state per head}
axes: {N: n_heads, H: head_dim, state: "sizes['state']"}
split: N
rows:
- {name: attention.qkv, matmul: "x[B S D] . Wqkv[D N H] -> q[B S N H]", saves: B Z D}
- {name: attention.core, mixer: {is: toy.Linear}, saves: B N H state}
- {name: attention.out, matmul: "o[B S N H] . Wo[N H D] -> y[B S D]", saves: B S N H}
"""


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """The kind as a file of layers/attention declares it, and a model that uses it."""
    known, kind = registry.kinds, kinds.kind
    listed = lambda folder: (*known(folder), "toy") if folder == "layers/attention" else known(folder)  # noqa: E731
    monkeypatch.setattr("rooflinecli.specs.figure.kinds", listed)
    monkeypatch.setattr(
        kinds, "kind", lambda folder, name: yaml.safe_load(KIND) if name == "toy" else kind(folder, name)
    )
    monkeypatch.setitem(sys.modules, "rooflinecli.layers.toy", sys.modules[__name__])
    path = tmp_path / "linear.yaml"
    path.write_text(MODEL)
    return path


def _scene(path, **asked) -> EstimateContext:
    return EstimateContext(Request(load_model(str(path)), load_hardware("h100"), **asked))


def test_a_new_mixer_is_priced_in_every_phase(toy):
    ctx, plan = _scene(toy, devices=1.0, prompt=512.0, output=64.0, batch=4.0, seq=512.0), Layout()
    for phase in (prefill, decode, train):
        answer = phase(ctx, plan)
        assert answer.time_s > answer.floor_s > 0
    assert decode(ctx, plan).memory.kv_cache_bytes == 8 * 4 * 16 * 64 * 128 * 4


def test_a_fixed_state_does_not_grow_with_the_context(toy):
    ctx = _scene(toy)
    short, long = (memory.kv_cache(ctx.ledger, Layout(), ctx.formats, 2.0, t, ctx.lift) for t in (10.0, 1e6))
    assert short == long == 8 * 2 * 16 * 64 * 128 * 4


def test_its_heads_split_over_tensor_parallel_devices(toy):
    ctx = _scene(toy)
    whole, half = (memory.kv_cache(ctx.ledger, Layout(tp=n), ctx.formats, 2.0, 10.0, ctx.lift) for n in (1.0, 2.0))
    assert half == whole / 2


def test_its_gradient_is_its_own_and_op_recomputation_keeps_it(toy):
    ctx = _scene(toy)
    group = ctx.ledger.layers[0]
    sizes = {**group.sizes(dict(group.axes) | {"B": 1.0, "S": 64.0, "T": 64.0, "Z": 64.0, "O": 64.0})}
    forward = ForwardPass(ctx.formats).ops(group.rows, sizes)
    core = next(op for op in forward if op.name == "attention.core")
    gradient = next(op for op in backward.input_gradients(forward) if op.name == "attention.core.gradient")
    assert (gradient.flops, gradient.bytes) == (3 * core.flops, 3 * core.bytes)
    assert core.name not in [op.name for op in recompute.recomputed_ops(Layout(recompute="op"), forward)]
    assert recompute.recomputed_ops(Layout(recompute="selective", flash=False), forward) == []


def test_a_kernel_that_hides_its_gradient_is_refused():
    with pytest.raises(TypeError, match="scan says nothing of its gradient"):
        backward.input_gradients([Op(name="x", kind="scan", dtype="bf16", flops=1.0, bytes=1.0)])


@pytest.mark.parametrize(
    ("ring", "expected"), [("zigzag", ("all-gather", 4 * 300 * 2)), ("ulysses", ("all-to-all", 9 * 20 * 2))]
)
def test_a_state_is_gathered_over_context_parallel_ranks_or_heads_are_traded(ring, expected):
    (sent,) = context.collectives(
        Layout(cp=4.0, ring=ring), 9.0, ContextParallelTraffic(queries=10.0, state=300.0), 2.0, 1.0, False
    )
    assert (sent.op, sent.size) == expected


def test_a_class_without_constants_is_an_error_that_names_it(toy, monkeypatch):
    monkeypatch.setitem(KERNEL, "kind", "scan")
    ctx = _scene(toy)
    with pytest.raises(DataError, match=r"no efficiency for operations of class scan.*hardware/defaults/gpu\.yaml"):
        forward_step(ctx, Layout(), 1.0, 64.0, 64.0, decode=False)
    assert forward_step(_scene(toy, efficiency="ideal"), Layout(), 1.0, 64.0, 64.0, decode=False).seconds > 0


@pytest.mark.parametrize(
    ("sizes", "why"), [("{}", "needs sizes.state"), ("{state: 1, depth: 2}", "does not read sizes.depth")]
)
def test_sizes_are_those_that_the_kind_declares(toy, sizes, why):
    toy.write_text(MODEL.replace("{state: 128}", sizes))
    with pytest.raises(DataError, match=rf"linear\.yaml:\d+: kind toy {why}; its sizes are: state \(width"):
        ledger(load_model(str(toy)))


def test_an_unknown_kind_lists_those_that_exist(tmp_path):
    path = tmp_path / "linear.yaml"
    path.write_text(MODEL.replace("toy", "sparse"))
    with pytest.raises(
        DataError,
        match="unknown kind 'sparse'; expected one of asymmetric-gqa, attention-ssm, compressed, cross, differential, gated-delta",
    ):
        load_model(str(path))


def test_operations_are_immutable():
    op = Op(name="x", kind="matmul", dtype="bf16", flops=1.0, bytes=1.0)
    with pytest.raises(AttributeError):
        op.flops = 2.0


@pytest.mark.slow
def test_operations_are_built_by_keyword():
    """Seventeen fields in a row say nothing; wherever the package builds one, those after its name, kind, format, FLOPs and bytes are named."""
    package = Path(__file__).resolve().parents[2] / "rooflinecli"
    built = [
        (path.name, call)
        for path in package.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Op"
    ]
    assert len(built) > 10
    assert [(name, call.lineno) for name, call in built if len(call.args) > 5] == []


def test_a_latent_decode_step_reads_the_latent_once_for_all_heads():
    """DeepSeek-V3: 128 heads on latents of 512 + 64, of which scores read all and values 512; 64 heads to a work item."""
    f = formats("bf16", None, None, {"bf16": 1}, "any")
    sizes = {"B": 2.0, "S": 1.0, "T": 1000.0, "N": 128, "L": 576, "R": 512, "P": 64}
    (op,) = Latent(kv_heads="N", v="Hv", cached=(("R",), ("P",))).ops("core", CountingMode(f, decode=True), sizes)
    assert (op.kind, op.items, op.n) == ("latent_attention", 4, 544)
    assert op.flops == 2 * 2 * 128 * 1000 * (576 + 512)
    assert op.bytes == 2 * 2 * (1000 * 576 + 128 * (576 + 512))


def test_blocks_name_what_tensor_parallelism_splits():
    spec = load_model("llama-3-8b")
    layer = ledger(spec).layers[0]
    assert (layer.split, layer.shared) == (("N", "F"), ("K",))


def test_chips_of_every_kind_price_every_class():
    for chip in ("h100", "tpu-v5e", "epyc-9654", "gaudi3"):
        for regime in ("kernel", "serving", "training"):
            for kind in (
                "scores",
                "chunked_scan",
                "state_update",
                "latent_attention",
                "grouped_matmul",
                "gather",
                "decode_attention",
                "collective",
            ):
                assert Chip(load_hardware(chip)).constants(regime, kind).known
        assert Chip(load_hardware(chip)).constants("training", "host_optimizer").known
