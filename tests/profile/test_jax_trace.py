"""A trace that jax.profiler takes here, on the CPU, read end to end."""

from __future__ import annotations

import gzip
import json

import pytest

jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A profiler folder with three calls of a small jitted block."""
    import jax.numpy as jnp

    @jax.jit
    def block(x, w, v):
        return jax.nn.softmax(jnp.sin(x @ w) @ v, axis=-1)

    x, w, v = jnp.ones((256, 512)), jnp.ones((512, 1024)) * 0.01, jnp.ones((1024, 512)) * 0.01
    block(x, w, v).block_until_ready()
    where = tmp_path_factory.mktemp("trace")
    with jax.profiler.trace(str(where)):
        for _ in range(3):
            block(x, w, v).block_until_ready()
    return where


def test_the_folder_is_read_end_to_end(cli, folder):
    ran = cli("profile", str(folder), "--format", "json")
    assert ran.code == 0, ran.err
    answer = ran.json
    assert answer["launches"] > 0 and answer["time_s"] > 0
    assert answer["time_s"] <= answer["wall_s"] * answer["launches"]
    assert sum(row["share"] for row in answer["kinds"].values()) == pytest.approx(1)
    assert all(row["launches"] % 3 == 0 for row in answer["kernels"].values()), "each operation ran once a call"


def test_every_hlo_operation_of_the_trace_is_counted_and_nothing_else(cli, folder):
    """Against an independent reading of the same file: names of HLO operations and their total time."""
    file = next(folder.rglob("*.trace.json.gz"))
    events = [
        e
        for e in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        if e.get("ph") == "X" and "hlo_op" in e.get("args", {})
    ]
    answer = cli("profile", str(file), "--format", "json").json
    assert set(answer["kernels"]) == {e["args"]["hlo_op"] for e in events}
    assert 0 < answer["time_s"] <= sum(e["dur"] for e in events) * 1e-6 * (1 + 1e-9)


def test_the_table_names_the_operations(cli, folder):
    out = cli("profile", str(folder)).out
    assert "memory-bound" in out and "fusion" in out


def test_a_cpu_trace_is_told_apart(cli, folder):
    """XLA hands the two matrix products to a library as fusions; they and the softmax are work of a known kind."""
    kinds = cli("profile", str(folder), "--format", "json").json["kinds"]
    assert kinds["gemm"]["launches"] >= 3 and kinds.get("other", {"share": 0.0})["share"] < 0.05


def test_matrix_products_of_xla_have_the_sizes_of_their_hlo_and_so_a_floor(cli, folder):
    """The fusions of `block` are 256 x 512 x 1024 and 256 x 1024 x 512; the profiler keeps the HLO next to the trace."""
    from rooflinecli.importers.profiles.read import read

    products = {(k.m, k.k, k.n) for k in read(folder) if k.m}
    assert products == {(256.0, 512.0, 1024.0), (256.0, 1024.0, 512.0)}
    file = next(folder.rglob("*.trace.json.gz"))
    answer = cli(
        "profile", str(folder), "--peak", "100 GFLOP/s", "--bandwidth", "10 GB/s", "--dtype", "fp32", "--format", "json"
    ).json
    floors = [row["floor_s"] for row in answer["kernels"].values() if row.get("floor_s")]
    assert floors == pytest.approx([3 * 2 * 256 * 512 * 1024 / 100e9] * 2)
    next(folder.rglob("*.xplane.pb")).rename(file.with_name("gone"))
    assert not any(k.m for k in read(file))
    next(folder.rglob("gone")).rename(file.with_name(file.name.replace(".trace.json.gz", ".xplane.pb")))


@pytest.mark.parametrize("broken", [b"", b"\xff" * 20, b"\x0a\x05abc"])
def test_a_broken_file_of_hlo_gives_no_sizes(tmp_path, broken):
    from rooflinecli.importers.profiles.hlo_shapes import gemm_shapes

    (tmp_path / "vm.xplane.pb").write_bytes(broken)
    assert gemm_shapes(tmp_path / "vm.trace.json.gz") == {}
