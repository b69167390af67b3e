"""XLA's own partitioner on 8 host devices: it inserts the collective that `roofline shard` names, of the bytes it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rooflinecli.questions.shard import answer as notation
from rooflinecli.questions.shard.answer import shard
from rooflinecli.specs.hardware import load_hardware

pytest.importorskip("jax")

MESH = "x=4,y=2"
CASES = [  # matmul, sizes, case
    ("X[I_x, J] W[J, K_y] -> Y[I_x, K_y]", "I=64,J=64,K=1024", 1),
    ("X[I, J_x] W[J, K] -> Y[I, K]", "I=64,J=64,K=1024", 2),
    ("X[I_x, J_y] W[J, K] -> Y[I_x, K]", "I=1024,J=64,K=1024", 2),
    ("X[I_x, J] W[J_y, K] -> Y[I_x, K]", "I=1024,J=64,K=64", 2),
    ("X[I_x, J] W[J_y, K] -> Y[I_x, K]", "I=64,J=64,K=1024", 2),  # slicing X and adding up is cheaper here
    ("X[I, J_x] W[J_x, K] -> Y[I, K]", "I=64,J=64,K=1024", 3),
    ("X[I, J_xy] W[J_xy, K] -> Y[I, K]", "I=64,J=64,K=1024", 3),
    ("X[I_x, J] W[J, K_x] -> Y[I, K_x]", "I=64,J=64,K=1024", 4),
    ("X[I_x, J] W[J, K_x] -> Y[I_x, K]", "I=1024,J=64,K=64", 4),
]
PROGRAM = """
import json, re, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
found = []
for (i, j, k), specs in json.load(sys.stdin):
    x, w, y = (NamedSharding(mesh, P(*(tuple(axes) or None for axes in spec))) for spec in specs)
    f = jax.jit(lambda a, b: a @ b, in_shardings=(x, w), out_shardings=y)
    text = f.lower(jax.ShapeDtypeStruct((i, j), jnp.float32), jax.ShapeDtypeStruct((j, k), jnp.float32)).compile().as_text()
    ops = re.findall(r"= f32\\[([\\d,]+)\\]\\S* (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\\(", text)
    found.append([[op, 4 * int(np.prod([int(n) for n in shape.split(",")]))] for shape, op in ops])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def compiled() -> list[list[list]]:
    """(op, bytes of its result) of every collective XLA inserts, per case."""
    work = []
    for text, sizes, _ in CASES:
        arrays, dims = notation.arrays(text, notation.mesh(MESH)), notation.assignments(sizes, "--sizes")
        work.append([[dims[d] for d in "IJK"], [[a.over[d] for d in a.dims] for a in arrays]])
    work = [[[int(n) for n in shape], specs] for shape, specs in work]
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("at", range(len(CASES)), ids=[c[0] for c in CASES])
def test_xla_inserts_the_collective_named(compiled, at):
    text, sizes, case = CASES[at]
    axes = notation.mesh(MESH)
    answer = shard(notation.arrays(text, axes), axes, notation.assignments(sizes, "--sizes"), load_hardware("tpu-v5e"))
    assert answer["case"] == case
    # The engine counts bf16 (TPUs have no fp32 matmul rate), the host program fp32.
    instead = answer["instead"]
    taken = instead["collectives"] if instead and instead["cheaper"] else answer["collectives"]
    assert [[c["op"], 2 * c["bytes"]] for c in taken] == compiled[at]
