"""Functions compiled ahead of time: counts against sums by hand, XLA's known miscounts named, floors under every expected time."""

from __future__ import annotations

import pytest

SCRIPT = """
import jax, jax.numpy as jnp
from functools import partial
from jax.experimental import pallas as pl

def matmul(a, b):
    return a @ b

@jax.jit
def scanned(x, w):
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=10)[0]

def loss(w1, w2, x):
    return ((x @ w1) @ w2).sum()

gradient = jax.grad(loss)
both = jax.value_and_grad(loss)

def identity(x):
    return x

def spin(x, n):
    return jax.lax.fori_loop(0, n, lambda i, c: c @ c, x)

def counted(x):
    return jax.lax.fori_loop(0, 7, lambda i, c: c @ c, x)

def either(flag, x):
    return jax.lax.cond(flag, lambda v: v @ v, lambda v: v, x)

def lookup(table, ids):
    return table[ids]

def block(p, x):
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]

def remat(w, x):
    return jax.checkpoint(lambda a: jnp.tanh(a @ w) @ w)(x).sum()

remat_gradient = jax.grad(remat)

def nested(x, w):
    inner = lambda c, _: (jax.lax.scan(lambda d, _: (d @ w, None), c, None, length=3)[0], None)
    return jax.lax.scan(inner, x, None, length=5)[0]

def attention(q, k):
    return jnp.einsum("bqhd,bkhd->bhqk", q, k)

def convolve(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")

@partial(jax.jit, donate_argnums=0)
def append(cache, row, i):
    return jax.lax.dynamic_update_slice(cache, row, (i, 0))

def kernel(x, y):
    def body(a, b, o):
        o[...] = a[...] @ b[...]
    rows, all_ = pl.BlockSpec((32, 64), lambda i: (i, 0)), pl.BlockSpec((64, 64), lambda i: (0, 0))
    return pl.pallas_call(body, grid=(4,), in_specs=[rows, all_], out_specs=rows, out_shape=jax.ShapeDtypeStruct((128, 64), jnp.float32),
                          interpret=True)(x, y)

class Model:
    @staticmethod
    def apply(a, b):
        return a @ b
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("aot") / "functions.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def aot(cli, script):
    def run(name: str, *shapes: str, hw: str = "h100", extra: tuple[str, ...] = ()):
        ran = cli("aot", f"{script}:{name}", *shapes, "--hw", hw, "--format", "json", *extra)
        assert ran.code == 0, ran.err
        return ran.json

    return run


def kinds(answer):
    return {d["kind"]: d["flops"] for d in answer["differences"]}


def test_a_matmul_by_hand(aot):
    answer = aot("matmul", "f32[64,128]", "f32[128,32]")
    assert answer["counts"]["matmul_flops"] == 2 * 64 * 128 * 32 == answer["xla"]["flops"]
    moved = 4 * (64 * 128 + 128 * 32 + 64 * 32)
    assert answer["counts"]["bytes"] == moved
    assert answer["floor_s"] == pytest.approx(moved / 3.35e12)
    assert answer["counts"]["intensity_flops_per_byte"] == pytest.approx(2 * 64 * 128 * 32 / moved)
    assert answer["differences"] == []


def test_a_large_matmul_is_bound_by_compute(aot):
    answer = aot("matmul", "bf16[4096,4096]", "bf16[4096,4096]")
    assert answer["bound"] == "compute"
    assert answer["floor_s"] == pytest.approx(2 * 4096**3 / 989.4e12)
    assert 1.0 <= answer["time_s"] / answer["floor_s"] < 2


def test_a_scan_is_multiplied_where_xla_counts_it_once(aot):
    answer = aot("scanned", "f32[8,16]", "f32[16,16]")
    one = 2 * 8 * 16 * 16
    assert answer["counts"]["matmul_flops"] == 10 * one
    assert answer["counts"]["once_matmul_flops"] == one
    assert kinds(answer)["loops"] == 9 * one
    assert answer["xla"]["flops"] < 2 * one, "XLA multiplies now: the message is out of date"


def test_nested_scans_multiply(aot):
    assert aot("nested", "f32[4,8]", "f32[8,8]")["counts"]["matmul_flops"] == 15 * 2 * 4 * 8 * 8


def test_a_loop_with_constant_bounds_is_a_scan(aot):
    assert aot("counted", "f32[16,16]")["counts"]["matmul_flops"] == 7 * 2 * 16**3


def test_the_matmul_that_a_gradient_drops(aot):
    """d(sum(x W1 W2))/dW1 needs no forward matmul at all: both are written down, XLA removes both, two others remain."""
    answer = aot("gradient", "f32[8,16]", "f32[16,8]", "f32[4,8]")
    forward, needed = 2 * 4 * 8 * 16 + 2 * 4 * 16 * 8, 2 * 4 * 8 * 16 + 2 * 16 * 4 * 8
    assert answer["counts"]["matmul_flops"] == needed == answer["xla"]["flops"]
    assert answer["counts"]["written_matmul_flops"] == forward + needed
    assert kinds(answer)["unused"] == forward


def test_value_and_gradient_keeps_the_forward_pass(aot):
    answer = aot("both", "f32[8,16]", "f32[16,8]", "f32[4,8]")
    assert "unused" not in kinds(answer)
    assert answer["counts"]["matmul_flops"] == 4 * 2 * 4 * 8 * 16


def test_recomputation_is_counted(aot):
    """Checkpointed: forward needs nothing but what backward repeats; 1 recomputed, 2 + 1 backward matmuls for w twice used."""
    answer = aot("remat_gradient", "f32[16,16]", "f32[4,16]")
    assert answer["counts"]["matmul_flops"] / (2 * 4 * 16 * 16) == 4


def test_no_flops_key_is_said(aot):
    answer = aot("identity", "f32[4]")
    assert answer["xla"]["flops"] is None
    assert "absent" in kinds(answer)
    assert answer["counts"]["matmul_flops"] == 0
    assert answer["bound"] == "memory"


def test_a_loop_of_unknown_length(aot):
    once, given = aot("spin", "f32[64,64]", "i32[]"), aot("spin", "f32[64,64]", "i32[]", extra=("--trips", "5"))
    assert "unknown" in once["counts"]["loops"][0]
    assert given["counts"]["matmul_flops"] == 5 * once["counts"]["matmul_flops"] == 5 * 2 * 64**3
    assert once["resources_s"]["compute"] == 0, "it may not run at all, so the floor does not count it"
    assert given["resources_s"]["compute"] > 0


def test_a_branch_counts_its_costliest_but_floors_its_cheapest(aot):
    answer = aot("either", "pred[]", "f32[64,64]")
    assert answer["counts"]["matmul_flops"] == 2 * 64**3
    assert answer["resources_s"]["compute"] == 0


def test_a_lookup_reads_rows_not_the_table(aot):
    answer = aot("lookup", "bf16[100000,4096]", "i32[32]")
    assert answer["counts"]["argument_bytes_read"] <= 2 * 32 * 4096 + 4 * 32
    assert answer["xla"]["bytes_accessed"] > 100 * answer["counts"]["bytes"]


def test_pytrees_and_fused_passes(aot):
    answer = aot("block", "{up: bf16[256,1024], down: bf16[1024,256]}", "bf16[512,256]")
    assert answer["counts"]["matmul_flops"] == 2 * 2 * 512 * 256 * 1024
    passes = [row for row in answer["phases"]["call"]["operations"] if row["class"] == "elementwise"]
    assert sorted(row["bytes"] for row in passes) == [3 * 2 * 512 * 256, 2 * 2 * 512 * 1024], (
        "the sum, and gelu read and written"
    )


@pytest.mark.slow
def test_batched_and_convolved(aot):
    assert aot("attention", "bf16[2,32,4,16]", "bf16[2,64,4,16]")["counts"]["matmul_flops"] == 2 * 2 * 4 * 32 * 64 * 16
    conv = aot("convolve", "f32[1,3,8,8]", "f32[5,3,3,3]")
    assert conv["counts"]["matmul_flops"] == 2 * (1 * 5 * 8 * 8) * (3 * 3 * 3)


def test_a_donated_cache_is_neither_read_nor_rewritten(aot):
    answer = aot("append", "f32[1024,64]", "f32[1,64]", "i32[]")
    assert answer["xla"]["alias_bytes"] == 4 * 1024 * 64
    assert answer["counts"]["bytes"] <= 4 * 64 + 4


@pytest.mark.slow
def test_the_grid_of_a_kernel_multiplies(aot):
    answer = aot("kernel", "f32[128,64]", "f32[64,64]")
    assert answer["counts"]["matmul_flops"] == 2 * 128 * 64 * 64
    assert {row["class"] for row in answer["phases"]["call"]["operations"]} == {"matmul"}


@pytest.mark.parametrize(("hw", "dtype"), [("h100", "tf32"), ("tpu-v5e", "bf16"), ("epyc-9654", "fp32")])
def test_fp32_runs_in_what_the_chip_uses(aot, hw, dtype):
    assert list(aot("matmul", "f32[64,128]", "f32[128,32]", hw=hw)["roofs"]["peak_flops_per_s"]) == [dtype]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["matmul", "gradient", "scanned", "identity", "block", "lookup"])
def test_the_floor_is_a_floor(aot, name):
    shapes = {
        "matmul": ["f32[64,128]", "f32[128,32]"],
        "gradient": ["f32[8,16]", "f32[16,8]", "f32[4,8]"],
        "scanned": ["f32[8,16]", "f32[16,16]"],
        "identity": ["f32[4]"],
        "block": ["{up: f32[8,16], down: f32[16,8]}", "f32[4,8]"],
        "lookup": ["f32[10,4]", "i32[3]"],
    }[name]
    answer = aot(name, *shapes)
    assert 0 < answer["floor_s"] <= answer["interval_s"][0] <= answer["time_s"] <= answer["interval_s"][1]
    assert all(row["floor_s"] <= row["time_s"] for row in answer["phases"]["call"]["operations"])


def test_what_does_not_fit_exits_1(cli, script):
    ran = cli("aot", f"{script}:matmul", "bf16[300000,300000]", "bf16[300000,300000]", "--hw", "h100")
    assert ran.code == 1
    assert "does not fit" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{f}:matmull", "f32[2]"], "did you mean matmul"),
        (["{f}:matmul", "f32[2"], "cannot read"),
        (["{f}:matmul", "f33[2]"], "unknown dtype"),
        (["nowhere.py:f", "f32[2]"], "no such file"),
        (["{f}", "f32[2]"], "script.py:function"),
        (["{f}:matmul", "f32[2,3]", "f32[4,5]"], "contracting"),
        (["{f}:matmul"], "missing"),
        (["{f}:matmul", "f32[2]", "--args", "f32[2]", "--args", "f32[2]"], "order"),
    ],
)
def test_mistakes_exit_with_one_sentence(cli, script, words, said):
    ran = cli("aot", *(w.replace("{f}", str(script)) for w in words), "--hw", "h100")
    assert ran.code == (3 if said == "no such file" else 2)
    assert said in ran.err and ran.err.count("\n") == 1


def test_a_broken_script_is_no_traceback(cli, tmp_path):
    (tmp_path / "bad.py").write_text("import nothing_like_this\n")
    ran = cli("aot", f"{tmp_path / 'bad.py'}:f", "f32[2]", "--hw", "h100")
    assert ran.code == 2
    assert "ModuleNotFoundError" in ran.err and "Traceback" not in ran.err


def test_the_ways_to_write_arguments(aot, cli, script):
    spread = cli("aot", f"{script}:matmul", "--args", "f32[4,8]", "f32[8,2]", "--hw", "h100", "--format", "json").json
    assert (
        spread["counts"]
        == aot("matmul", "float32[4,8] f32[8x2]")["counts"]
        == aot("Model.apply", "f32[4,8], f32[8,2]")["counts"]
    )


@pytest.mark.slow
def test_table_markdown_csv_and_picture(cli, script):
    words = ("aot", f"{script}:scanned", "f32[8,16] f32[16,16]", "--hw", "h100")
    table = cli(*words, "--plot", "-").out
    assert "XLA counts a loop's body once" in table and "FLOP per byte" in table
    assert cli(*words, "--format", "csv").out.startswith("phase,name,")
    assert cli(*words, "--format", "markdown").out.count("| matmul |") == 1


def test_without_jax_the_pip_line(cli, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "jax" else real(name, *rest))
    ran = cli("aot", "x.py:f", "f32[2]", "--hw", "h100")
    assert ran.code == 2
    assert "[measure]'" in ran.err


def test_ragged_matmuls_of_experts_are_counted(tmp_path, cli):
    """Each of 12 rows meets the [8, 16] weight of its group, whichever that is."""
    path = tmp_path / "experts.py"
    path.write_text("import jax\ndef routed(x, w, rows):\n    return jax.lax.ragged_dot(x, w, rows)\n")
    ran = cli("aot", f"{path}:routed", "f32[12,8] f32[4,8,16] i32[4]", "--hw", "h100", "--format", "json")
    assert ran.json["counts"]["matmul_flops"] == 2 * 12 * 8 * 16


@pytest.mark.parametrize("written", ["f32[a]", "foo", "", "f(x)", "f32[2];1", "f32[2])(f32[2]"])
def test_arguments_that_are_none_are_refused(written):
    from rooflinecli.core.errors import UsageError
    from rooflinecli.measure.aot import arguments

    with pytest.raises(UsageError, match="cannot read"):
        arguments([written])


def test_nested_arguments_and_numbers():
    from rooflinecli.measure.aot import arguments

    pair, number, flag = arguments(["(f32[8], {a: i32[], b: (1, -2)}) 0.5 true"])
    assert (pair[0].shape, pair[1]["a"].shape, pair[1]["b"], number, flag) == ((8,), (), (1, -2), 0.5, True)
