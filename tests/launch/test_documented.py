"""What a tool is told, its documentation knows: no written launch carries a flag or key beyond those looked up."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from rooflinecli.importers.launch import emit
from rooflinecli.importers.launch.launch import LaunchArguments

DOCUMENTED = yaml.safe_load((Path(__file__).parent / "documented.yaml").read_text())


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


@pytest.mark.parametrize("tool", sorted(DOCUMENTED))
def test_only_documented_flags_are_written(tool):
    module = emit.tool(tool)
    written: set[str] = set()
    for options in plans(module.TRAINS):
        text = module.write(options, options["model"])
        if module.SUFFIX == ".sh":
            written |= set(re.findall(r"(?:^|\s)(--?[a-z][\w-]*)", text.replace("-m sglang", "sglang")))
        else:
            tree = tomllib.loads(text) if module.SUFFIX == ".toml" else yaml.safe_load(text)
            written |= set(LaunchArguments.of_tree(tree).given)
    about = DOCUMENTED[tool]
    assert written == set(about.get("flags") or about["keys"])
