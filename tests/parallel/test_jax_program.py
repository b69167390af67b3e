"""`estimate --emit jax` on eight CPU devices: collectives of its HLO against the estimate's bytes, and the losses of one device."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from conftest import run_cli

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

TINY = """name: Tiny
source: "made up"
d_model: 64
vocab_size: 128
tied_embeddings: false
norm: rmsnorm
max_context: 128
attention: {kind: gqa, n_heads: 8, n_kv_heads: 4, head_dim: 8}
feedforward: {kind: gated, d_ff: 128, activation: silu}
layers: 3
"""
LOAD = ("--batch", "8", "--seq", "32", "--recompute", "none", "--phase", "train")
EIGHT = ("-n", "8", "--tp", "2", "--dp", "4", "--micro-batch", "2")
TOKENS = 2 * 32 * 64 * 2  # bytes of a micro-batch's activations between two layers
# options, activations that embedding and head send over tensor ranks, which the estimate leaves out
LAYOUTS = [
    (("--zero", "1"), 5 * TOKENS / 2),
    (("--zero", "3"), 5 * TOKENS / 2),
    (("--zero", "0", "--no-sequence-parallel"), 2 * TOKENS),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("jax") / "tiny.yaml"
    path.write_text(TINY)
    return path


def ran(model, layout, *arguments):
    program = model.with_name("program.py")
    emitted = run_cli("estimate", str(model), "--hw", "h100", *layout, *LOAD, "--emit", "jax")
    assert emitted.code == 0, emitted.err
    program.write_text(emitted.out)
    env = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run([sys.executable, program, *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(("options", "ends"), LAYOUTS)
def test_its_collectives_send_the_bytes_of_the_estimate(model, options, ends):
    sent: dict[int, float] = {}
    for size, number in re.findall(
        r"over (\d) devices: \d+, (\d+) bytes", ran(model, (*EIGHT, *options), "--collectives")
    ):
        sent[int(size)] = sent.get(int(size), 0.0) + float(number)
    estimate = run_cli("estimate", str(model), "--hw", "h100", *EIGHT, *options, *LOAD, "--format", "json").json
    expected = estimate["phases"]["train"]["communication_bytes"]
    assert sent[2] == pytest.approx(expected["tp"] + ends, rel=0.04)  # norms and the loss add a little
    assert sent[4] == pytest.approx(expected["dp"], rel=0.03)


@pytest.mark.parametrize(("options", "ends"), LAYOUTS)
def test_it_trains_as_one_device_does(model, options, ends):
    losses = [
        [float(loss) for loss in re.findall(r"loss ([\d.]+)", ran(model, layout))]
        for layout in (("-n", "1", "--micro-batch", "8"), (*EIGHT, *options))
    ]
    assert losses[1] == pytest.approx(losses[0], abs=2e-3) and len(losses[0]) == 3


@pytest.mark.parametrize(
    ("model_name", "options", "says"),
    [
        ("mixtral-8x7b", (), "gqa and gated"),
        ("llama-3-8b", ("--pp", "2"), "--pp 1"),
        ("llama-3-8b", ("--recompute", "selective"), "--recompute none or full"),
    ],
)
def test_what_it_does_not_write_is_refused(model_name, options, says):
    ran = run_cli("estimate", model_name, "--hw", "h100", "-n", "64", "--phase", "train", *options, "--emit", "jax")
    assert ran.code == 2 and says in ran.err
