"""Extremes over replicas are those of the busiest one."""

from __future__ import annotations

import json

from conftest import run_cli


def test_the_fullest_cache_and_the_largest_batch_are_those_of_the_busiest_replica(tmp_path):
    """Long and short prompts in turn on two replicas: one gets all long ones, and is as full as if it served them alone."""
    rows = [{"timestamp": 100 * i, "input_length": (8000, 50)[i % 2], "output_length": 200} for i in range(24)]
    both, long = tmp_path / "both.jsonl", tmp_path / "long.jsonl"
    both.write_text("".join(json.dumps(row) + "\n" for row in rows))
    long.write_text("".join(json.dumps(row) + "\n" for row in rows[::2]))
    asked = ("simulate", "llama-3.1-8b", "--hw", "h100", "-n", "1", "--engine", "vllm", "--format", "json")
    found, alone = (
        run_cli(*asked, "--trace", str(trace), *more).json["simulate"]
        for trace, more in ((both, ("--replicas", "2", "--router", "round-robin")), (long, ("--replicas", "1")))
    )
    assert found["kv_cache_usage_max"] == alone["kv_cache_usage_max"] > 2 * alone["kv_cache_usage_mean"] / 3 > 0
    assert found["decode_batch_max"] == alone["decode_batch_max"] > 1
