"""`profile --against`: kernels next to the operations of an estimate, in traces that JAX takes here and in ones made by hand."""

from __future__ import annotations

import json
import sqlite3

import pytest
from conftest import ROOT, run_cli

from rooflinecli.engine import build_request
from rooflinecli.importers.profiles.kernel import Kernel
from rooflinecli.questions.profile.compare_estimate import against


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """GPT-2 with two narrow layers and a small vocabulary."""
    text = (ROOT / "models" / "gpt2.yaml").read_text()
    text = text.replace("layers: 12", "layers: 2").replace("vocab_size: 50257", "vocab_size: 2048")
    text = (
        text.replace("d_model: 768", "d_model: 128")
        .replace("n_heads: 12", "n_heads: 2")
        .replace("d_ff: 3072", "d_ff: 512")
    )
    file = tmp_path_factory.mktemp("model") / "small.yaml"
    file.write_text("".join(line for line in text.splitlines(True) if not line.startswith("parameters_published")))
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "asked"), [("forward", "prefill --prompt 64"), ("train", "train --batch 1 --seq 64")]
)
def test_a_trace_taken_here_is_explained(small, tmp_path, phase, asked):
    """XLA on a CPU: no shapes and no names, yet at least 85 % of the time has an operation, and the steps are counted."""
    jax = pytest.importorskip("jax")
    from rooflinecli.measure.model import transformer
    from rooflinecli.specs.model import load_model

    spec = load_model(str(small))
    program = transformer.program(phase, spec, transformer.initial(spec, jax.numpy.float32), 1, 64, jax.numpy.float32)
    run = jax.jit(program.fn)
    jax.block_until_ready(run(*program.args))
    with jax.profiler.trace(str(tmp_path)):
        for _ in range(3):
            jax.block_until_ready(run(*program.args))
    ran = run_cli(
        "profile",
        str(tmp_path),
        "--against",
        f"{small} --hw xeon-8480 -n 1 --dtype fp32 --phase {asked}",
        "--format",
        "json",
    )
    assert ran.code == 0, ran.err
    found = ran.json
    assert found["steps"] == 3
    assert found["unexplained"]["share"] < 0.15
    measured = sum(row["measured_s"] for row in found["rows"]) + found["unexplained"]["time_s"]
    assert measured == pytest.approx(found["kernels_s"])


OPTIONS = {"model": "llama-3.1-8b", "hw": "h100", "n": 1, "phase": ["prefill"], "prompt": 1024}


def layer(i: int) -> list[Kernel]:
    """A layer of Llama 3.1 8B over 1,024 tokens, with the shapes that torch.profiler records."""
    shapes = [(1024, 4096, 6144), (1024, 4096, 4096), (1024, 4096, 28672), (1024, 14336, 4096)]
    start = 1e-3 * i
    found = [Kernel("norm_kernel", 5e-6, start_s=start, kind="elementwise")]
    for j, (m, k, n) in enumerate(shapes):
        found.append(Kernel(f"nvjet_{n}", 1e-4, start_s=start + 1.2e-4 * (j + 1), kind="gemm", m=m, k=k, n=n))
    return [*found, Kernel("flash_fwd_kernel", 4e-5, start_s=start + 7e-4, kind="attention")]


def rows(found):
    return {tuple(row["operations"]): row for row in found["rows"]}


def test_kernels_with_shapes_are_told_apart():
    found = against([k for i in range(64) for k in layer(i)], build_request.request(OPTIONS))
    table = rows(found)
    assert found["steps"] == 2
    assert table[("attention.qkv",)]["launches"] == 32
    assert table[("attention.qkv",)]["measured_s"] == pytest.approx(32e-4)
    assert table[("attention.core",)]["measured_s"] == pytest.approx(32 * 4e-5)
    assert table[("lm_head",)]["measured_s"] == 0
    assert found["unexplained"]["time_s"] == 0
    assert found["gaps_s"] == pytest.approx(found["wall_s"] - (5e-6 + 4e-4 + 4e-5) * 32, rel=1e-6)


def test_what_no_operation_explains_is_named():
    lost = Kernel("Memcpy HtoD (Pinned -> Device)", 2e-3, start_s=0.2, kind="copy")
    comm = Kernel("ncclDevKernel_AllReduce", 1e-3, start_s=0.3, kind="collective")
    found = against([*(k for i in range(32) for k in layer(i)), lost, comm], build_request.request(OPTIONS))
    assert found["unexplained"]["kernels"][0] == "Memcpy HtoD (Pinned -> Device)"
    # one device has nothing to exchange, but the estimate lists communication of zero seconds only where there is a row for it
    assert found["unexplained"]["time_s"] + sum(r["measured_s"] for r in found["rows"]) == pytest.approx(
        found["kernels_s"]
    )
    assert found["exposed_communication_s"] == pytest.approx(1e-3)


def test_layout_copies_are_charged_to_what_they_feed():
    copy = Kernel("transpose_copy", 3e-4, start_s=1e-4, kind="copy")  # before the first product of the first layer
    found = rows(against([copy, *(k for i in range(32) for k in layer(i))], build_request.request(OPTIONS)))
    assert found[("attention.qkv",)]["copies_s"] == pytest.approx(3e-4)
    assert found[("attention.qkv",)]["measured_s"] == pytest.approx(32e-4 + 3e-4)


def test_an_nsys_database_is_read(tmp_path):
    file = tmp_path / "report.sqlite"
    link = sqlite3.connect(file)
    link.execute("create table StringIds (id integer, value text)")
    link.execute(
        "create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, streamId integer, demangledName integer)"
    )
    link.execute(
        "create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer, deviceId integer, streamId integer)"
    )
    link.executemany("insert into StringIds values (?, ?)", [(1, "nvjet_qkv_proj"), (2, "flash_fwd_kernel")])
    link.executemany(
        "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, 7, ?)", [(0, 100_000, 1), (150_000, 190_000, 2)]
    )
    link.execute("insert into CUPTI_ACTIVITY_KIND_MEMCPY values (200000, 210000, 0, 8)")
    link.commit()
    link.close()
    ran = run_cli("profile", str(file), "--format", "json")
    assert ran.json["time_s"] == pytest.approx(150e-6)
    assert {k: row["time_s"] for k, row in ran.json["kinds"].items()} == pytest.approx(
        {"gemm": 1e-4, "attention": 4e-5, "copy": 1e-5}
    )
    ran = run_cli(
        "profile", str(file), "--against", "llama-3.1-8b --hw h100 -n 1 --phase prefill --prompt 1k", "--format", "json"
    )
    assert ran.code == 0, ran.err
    assert ("attention.qkv",) in rows(ran.json)


def test_what_is_no_nsys_database_is_refused(tmp_path):
    file = tmp_path / "other.sqlite"
    link = sqlite3.connect(file)
    link.execute("create table t (x integer)")
    link.commit()
    link.close()
    ran = run_cli("profile", str(file))
    assert ran.code == 3
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in ran.err
    file.write_bytes(b"SQLite format 3\0" + b"\1" * 100)
    assert run_cli("profile", str(file)).code == 3


def test_against_one_phase_only(tmp_path):
    file = tmp_path / "t.json"
    events = [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 10, "pid": 0, "tid": 7}]
    file.write_text(json.dumps({"traceEvents": events}))
    ran = run_cli("profile", str(file), "--against", "llama-3.1-8b --hw h100 -n 1")
    assert ran.code == 2
    assert "--phase" in ran.err
    ran = run_cli("profile", str(file), "--against", "llama-3.1-8b --hw h100 -n 1 --phase prefill")
    assert "no operation explains" in ran.out
