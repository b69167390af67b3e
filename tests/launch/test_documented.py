"""What is written for a tool, its parser knows: no written launch carries a flag or key beyond those of its own argument parser."""

from __future__ import annotations

import itertools
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from oracle import launch_flags

from rooflinecli.importers.launch import emit
from rooflinecli.importers.launch.launch import LaunchArguments

STORE = Path(__file__).parents[1] / "oracle" / "launch_flags.yaml"
# of torchrun, and keys of tables that a release before or after the stored ones has
OUTSIDE = {"nproc-per-node", "nnodes", "model.converters", "base_config"}
SHORT = {"m": "model"}


@cache
def store() -> dict:
    return yaml.load(STORE.read_text(), yaml.CSafeLoader)


def plans(trains: bool):
    """Plans that reach every flag: wide and narrow sizes, each format, each way to shard."""
    for size, dtype, model in itertools.product(
        (1, 2), ("bf16", "fp16", "fp8", "fp32"), ("llama-3-8b", "mixtral-8x7b")
    ):
        base = {
            "model": model,
            "hw": "h100",
            "tp": size,
            "pp": size,
            "dp": size,
            "cp": size,
            "ep": size,
            "n": size**4,
            "batch": 8,
            "dtype": dtype,
        }
        if not trains:
            for kv in (
                {},
                {"kv-dtype": "fp8", "ep": size**2},
                {"kv-dtype": "q8_0", "token-budget": 8192, "dp": 1, "n": size**3},
            ):
                yield base | kv | {"phase": ["prefill", "decode"], "prompt": 10, "output": 10}
            continue
        for zero, recompute in itertools.product((0, 1, 2, 3), ("none", "selective", "full", "op")):
            yield base | {
                "phase": ["train"],
                "zero": zero,
                "recompute": recompute,
                "micro-batch": 1,
                "virtual-stages": size,
                "seq": 512,
                "sequence-parallel": True,
                "expert-tp": size,
            }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tool", [name for name in emit.tools() if name not in ("nemo", "deepspeed")])
def test_only_flags_of_the_parser_are_written(tool):
    module = emit.tool(tool)
    known = {flag for version in store()[tool.replace(".", "_")].values() for flag in version.split()}
    written: set[str] = set()
    for options in plans(module.TRAINS):
        text = module.write(options, options["model"])
        if module.SUFFIX == ".sh":
            found = re.findall(r"(?:^|\s)--?([a-z][\w-]*)", text.replace("-m sglang", "sglang"))
            written |= {SHORT.get(name, name).replace("_", "-") for name in found}
        else:
            tree = tomllib.loads(text) if module.SUFFIX == ".toml" else yaml.safe_load(text)
            written |= set(LaunchArguments.of_tree(tree).given)
    aliases = {flag.lstrip("-").replace("_", "-"): name for flag, name in module.FLAGS.short.items()}
    former = {name: flag for flag, name in aliases.items() if flag in known}  # a parser lists each flag under one name
    assert {
        name for name in written - OUTSIDE if name not in known and former.get(aliases.get(name, name)) is None
    } == set()


@pytest.mark.slow
def test_the_table_of_flags_is_current():
    page = launch_flags.PAGE.read_text()
    begin = page.index(launch_flags.BEGIN) + len(launch_flags.BEGIN)
    assert page[begin : page.index(launch_flags.END)] == launch_flags.table()


@pytest.mark.parametrize(
    "tool, flag, wanted",
    [
        ("vllm", "enable-expert-parallel", "read"), ("vllm", "cpu-offload-gb", "noted"), ("vllm", "ssl-keyfile", "ignored"),
        ("sglang", "ep-size", "read"), ("tgi", "max-concurrent-requests", "ignored"), ("tgi", "max-batch-total-tokens", "read"),
        ("trtllm", "moe-expert-parallel-size", "read"), ("maxtext", "mu_dtype", "read"), ("deepspeed", "sparse_attention", "listed"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_flag(tool, flag, wanted):
    assert launch_flags.outcome(tool, flag)[0] == wanted
