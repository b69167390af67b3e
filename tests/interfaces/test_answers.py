"""What every verb prints is a record of typed fields."""

from __future__ import annotations

import typing

import pytest
from conftest import ROOT, run_cli

from rooflinecli.core.record import Record
from rooflinecli.interfaces.cli.main import VERBS
from rooflinecli.render import answer as rendered

CHIP = ("llama-3-8b", "--hw", "h100")
TRACE = "name,time_ms\ngemm,1.0\nsoftmax,0.5\nnccl_all_reduce,0.3\n"
CHECKS = '{"checks": {"a": {"model": "llama-3-8b", "hw": "h100", "n": 1, "phase": "decode", "require": {"decode.time_s": "< 1 s"}}}}'
ASKED = {
    "estimate": (*CHIP, "--phase", "decode"),
    "kernel": ("matmul", "4096", "4096", "4096", "--hw", "h100"),
    "collective": ("all-reduce", "1 GB", "--hw", "h100", "-n", "8"),
    "shard": ("X[I_x, J] W[J_y, K]", "--mesh", "x=4,y=2", "--sizes", "I=1k,J=4k,K=16k", "--hw", "tpu-v5e"),
    "goodput": ("-n", "1024", "--checkpoint", "30 s"),
    "hardware": ("h100",),
    "prices": ("h100",),
    "quiz": ("--seed", "1", "--count", "1"),
    "models": ("llama-3-8b",),
    "search": (*CHIP, "-n", "2", "--phase", "decode"),
    "plan": (*CHIP, "--qps", "2"),
    "fleet": (str(ROOT / "examples" / "fleet.yaml"),),
    "simulate": (*CHIP, "-n", "1", "--qps", "1", "--num-requests", "20"),
    "rl": (*CHIP, "-n", "8", "--prompts", "8", "--samples", "4", "--output", "1k"),
    "compare": ("llama-3-8b", "--hw", "h100,h200", "-n", "1", "--phase", "decode"),
    "fit": ("llama-3-8b", "--hw", "rtx4090"),
    "check": ("checks.json",),
    "scaling": ("chinchilla", "--flops", "1e24"),
    "speculate": ("--acceptance-rate", "0.8", "--draft-cost", "0.1"),
    "serving": ("cost", "--usd-per-hour", "2", "--tokens-per-s", "1000"),
    "occupancy": ("sm", "--threads", "256", "--registers", "64", "--hw", "h100"),
    "profile": ("trace.csv",),
    "partitioning": ("llama70b", "--hw", "tpu-v5e", "-n", "16", "--batch", "64"),
    "validate": ("inference",),
    "formula": ("compute_time",),
}
OTHERWISE = {
    "sweep": "rows that are written while they are computed",
    "report": "a page that embeds its record",
    "ops": "rows of tests/report/test_ops.py",
    "aot": "a compiled function, which needs jax: tests/aot",
    "measure": "timings, which need jax: tests/measure",
    "calibrate": "tables that need a benchmark's file: tests/calibrate",
    "web": "a server",
    "mcp": "a server",
}


def test_every_verb_is_asked():
    assert ASKED.keys() | OTHERWISE.keys() == VERBS.keys() and not ASKED.keys() & OTHERWISE.keys()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("verb", ASKED)
def test_what_a_verb_prints_is_a_record(verb, monkeypatch, tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "checks.json").write_text(CHECKS)
    monkeypatch.chdir(tmp_path)
    printed = []
    to_json = rendered.to_json
    monkeypatch.setattr(rendered, "to_json", lambda answer, *more: (printed.append(answer), to_json(answer, *more))[1])
    ran = run_cli(verb, *ASKED[verb], "--format", "json")
    assert ran.code == 0, ran.err
    assert len(printed) == 1 and all(
        isinstance(one, Record) for one in (printed[0] if isinstance(printed[0], list) else printed)
    )
    check(printed[0], verb)


def check(value: object, path: str) -> None:
    """Every field of a record, and of the records inside, is of the type that its class declares."""
    if isinstance(value, Record):
        hints = typing.get_type_hints(type(value))
        for name in value.__dataclass_fields__:
            item = getattr(value, name)
            assert fits(item, hints[name]), f"{path}.{name}: {item!r} is no {hints[name]}"
            check(item, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            check(item, f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            check(item, f"{path}.{key}")


def fits(value: object, hint: typing.Any) -> bool:
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if hint in (typing.Any, object) or isinstance(hint, typing.TypeVar):
        return True
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        return any(fits(value, one) for one in of)
    if origin is typing.Literal:
        return value in of
    if origin in (list, tuple):
        return isinstance(value, origin) and (
            not of or all(any(fits(item, one) for one in of if one is not ...) for item in value)
        )
    if origin is dict or getattr(origin, "__name__", "") == "Mapping":
        return isinstance(value, dict) and all(fits(item, of[1]) for item in value.values())
    if hint is float:
        return isinstance(value, (float, int)) and not isinstance(value, bool)
    return isinstance(value, hint)
