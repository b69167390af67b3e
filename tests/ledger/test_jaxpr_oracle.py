"""The ledger against an independent oracle: a transformer written here in JAX, its dot_generals counted by walking the jaxpr.

XLA's own cost analysis is held to a tolerance, since it counts what it likes: elementwise work as FLOPs, scan bodies once,
matmuls it removed not at all, and no `flops` key when the answer is zero. There is no scan here and nothing to remove.
"""

from __future__ import annotations

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import model_from
from rooflinecli.specs.request import Request
from rooflinecli.specs.yaml_loader import parse

GATED = {"d": 64, "n": 4, "k": 2, "h": 24, "f": 96, "v": 256, "layers": 3, "gated": True}
PLAIN = {"d": 48, "n": 3, "k": 3, "h": 16, "f": 192, "v": 128, "layers": 2, "gated": False}


def spec(s: dict):
    kind = "gated" if s["gated"] else "dense"
    text = f"""
name: toy
source: test
d_model: {s["d"]}
vocab_size: {s["v"]}
max_context: 4096
attention: {{kind: gqa, n_heads: {s["n"]}, n_kv_heads: {s["k"]}, head_dim: {s["h"]}}}
feedforward: {{kind: {kind}, d_ff: {s["f"]}}}
layers: {s["layers"]}
"""
    return model_from(parse(text, Path("toy.yaml")))


def init(s: dict) -> dict:
    """Parameters of the JAX model, all ones: only shapes matter."""
    layer = {
        "norm1": (s["d"],),
        "norm2": (s["d"],),
        "q": (s["d"], s["n"], s["h"]),
        "k": (s["d"], s["k"], s["h"]),
        "v": (s["d"], s["k"], s["h"]),
        "o": (s["n"], s["h"], s["d"]),
        "up": (s["d"], s["f"]),
        "down": (s["f"], s["d"]),
    }
    if s["gated"]:
        layer["gate"] = (s["d"], s["f"])
    shapes = {"embed": (s["v"], s["d"]), "norm": (s["d"],), "head": (s["d"], s["v"]), "layers": [layer] * s["layers"]}
    return jax.tree.map(lambda shape: jnp.ones(shape), shapes, is_leaf=lambda x: isinstance(x, tuple))


def norm(x, scale):
    return x * scale / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def forward(params: dict, tokens, s: dict):
    x = params["embed"][tokens]
    for layer in params["layers"]:
        y = norm(x, layer["norm1"])
        q, k, v = (jnp.einsum("bsd,dnh->bsnh", y, layer[name]) for name in "qkv")
        k, v = (jnp.repeat(t, s["n"] // s["k"], 2) for t in (k, v))
        scores = jnp.einsum("bsnh,btnh->bnst", q, k)
        x = x + jnp.einsum("bsnh,nhd->bsd", jnp.einsum("bnst,btnh->bsnh", jax.nn.softmax(scores), v), layer["o"])
        y = norm(x, layer["norm2"])
        h = jnp.einsum("bsd,df->bsf", y, layer["up"])
        h = jax.nn.silu(jnp.einsum("bsd,df->bsf", y, layer["gate"])) * h if s["gated"] else jax.nn.gelu(h)
        x = x + jnp.einsum("bsf,fd->bsd", h, layer["down"])
    return jnp.einsum("bsd,dv->bsv", norm(x, params["norm"]), params["head"])


def dot_flops(jaxpr) -> int:
    """FLOPs of every dot_general, in sub-jaxprs too."""
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            (contract, _), _ = eqn.params["dimension_numbers"]
            lhs, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
            total += 2 * math.prod(out) * math.prod(lhs[i] for i in contract)
        for value in eqn.params.values():
            for inner in value if isinstance(value, (list, tuple)) else [value]:
                if hasattr(inner, "jaxpr"):
                    total += dot_flops(inner.jaxpr)
                elif hasattr(inner, "eqns"):
                    total += dot_flops(inner)
    return total


def ledger_flops(s: dict, batch: int, seq: int) -> float:
    """Training FLOPs of the estimate under the full-attention convention: three forward."""
    request = Request(
        spec(s),
        load_hardware("h100"),
        devices=1,
        phases=("train",),
        batch=batch,
        seq=seq,
        attention_flops="full",
        tp=1,
        pp=1,
        dp=1,
        zero=0,
    )
    return estimate(request).phases["train"].flops


@pytest.mark.sampled(1)
@pytest.mark.parametrize("s", [GATED, PLAIN], ids=["gated-gqa", "plain-mha"])
@pytest.mark.parametrize(("batch", "seq"), [(1, 32), (3, 40)])
def test_forward_and_gradient_flops_are_exact(s, batch, seq):
    params, tokens = init(s), jnp.zeros((batch, seq), jnp.int32)
    one = dot_flops(jax.make_jaxpr(lambda p: forward(p, tokens, s))(params).jaxpr)
    three = dot_flops(jax.make_jaxpr(jax.grad(lambda p: forward(p, tokens, s).sum()))(params).jaxpr)
    assert ledger_flops(s, batch, seq) == 3 * one == three


@pytest.mark.parametrize("s", [GATED, PLAIN], ids=["gated-gqa", "plain-mha"])
def test_parameters_are_exact(s):
    assert parameters(spec(s)).total == sum(x.size for x in jax.tree.leaves(init(s)))


def test_a_forgotten_row_would_be_caught():
    """The oracle sees one matmul's worth of difference."""
    tokens = jnp.zeros((1, 32), jnp.int32)
    one = dot_flops(jax.make_jaxpr(lambda p: forward(p, tokens, GATED))(init(GATED)).jaxpr)
    assert ledger_flops({**GATED, "gated": False}, 1, 32) != 3 * one


@pytest.mark.slow
def test_xla_cost_analysis_is_close():
    """XLA adds elementwise FLOPs (norms, softmax, activation), about 4 % at this size; never less than the matmuls."""
    tokens = jnp.zeros((2, 64), jnp.int32)
    compiled = jax.jit(lambda p: forward(p, tokens, GATED)).lower(init(GATED)).compile()
    cost = compiled.cost_analysis()
    flops = (cost[0] if isinstance(cost, list) else cost)["flops"]
    ledger = ledger_flops(GATED, 2, 64) / 3
    assert ledger <= flops <= 1.15 * ledger
