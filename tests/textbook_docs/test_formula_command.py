"""`roofline formula NAME argument=value ...`: units, products, explanations, and what it refuses."""

from __future__ import annotations

import pytest


def value(cli, *argv: str) -> float:
    ran = cli("formula", *argv, "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json["value"]


@pytest.mark.parametrize(
    ("written", "si"),
    [
        ("1", 1.0),
        ("70B", 70e9),
        ("70e9", 70e9),
        ("15T", 15e12),
        ("80GiB", 80 * 2**30),
        ("80 GB", 80e9),
        ("3.35TB/s", 3.35e12),
        ("400Gbps", 50e9),
        ("2x8192x28672", 2 * 8192 * 28672),
        ("2*1MiB", 2 * 2**20),
        ("40%", 0.4),
        ("19ms", 0.019),
        ("1e-6", 1e-6),
        ("1_000", 1000.0),
        ("990TFLOP/s", 990e12),
        ("64k", 64000.0),
        ("-2", -2.0),
        ("4200USD/h", 4200.0),
    ],
)
def test_numbers_are_read_as_people_write_them(cli, written, si):
    assert value(cli, "per_shard", f"amount={written}", "shards=1") == pytest.approx(si, rel=1e-15)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nonsense"], "unknown formula"),
        (["matmul_flop"], "matmul_flops"),
        (["matmul_flops", "m=1"], "also needs k, n"),
        (["matmul_flops", "m=1", "k=1", "q=1"], "unknown argument 'q'"),
        (["matmul_flops", "1", "2", "3"], "argument=value"),
        (["matmul_flops", "m=1", "m=2", "k=1", "n=1"], "twice"),
        (["ridge_point", "peak=3 TB/s", "bandwidth=1"], "measures B/s"),
        (["ridge_point", "peak=1FLOP/s", "bandwidth=0B/s"], "no value"),
        (["per_shard", "amount=much", "shards=1"], "not a number"),
        (["per_shard", "amount=1 parsec", "shards=1"], "known unit"),
        (["per_shard", "amount=2GBx3GB", "shards=1"], "more than one unit"),
        (["per_shard", "amount=1e999", "shards=1"], "finite"),
        (["per_shard", "amount=", "shards=1"], "not a number"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence(cli, argv, says):
    ran = cli("formula", *argv)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1 and not ran.out


def test_an_explanation_has_the_value_the_arithmetic_and_the_source(cli):
    text = cli("formula", "matmul_flops", "m=4096", "k=4096", "n=4096", "--explain").out
    assert "137438953472" in text and "2 · m · k · n" in text and "Scaling Book" in text


def test_the_table_prints_value_and_unit_on_one_line(cli):
    assert (
        cli("formula", "kv_cache_bytes", "batch=1", "tokens=8192", "values_per_token=1024x160", "bytes_per_value=2").out
        == "b_kv = 2.68 GB (2684354560.0)\n"
    )


def test_arguments_come_in_any_order(cli):
    assert value(cli, "nf4_bytes", "constants=256", "block=64") == pytest.approx(0.515869140625)


@pytest.mark.parametrize("fmt", ["table", "json", "csv", "markdown"])
def test_every_format_shows_a_page_and_a_value(cli, fmt):
    assert cli("formula", "ridge_point", "--format", fmt).code == 0
    assert "295.5" in cli("formula", "ridge_point", "peak=990TFLOP/s", "bandwidth=3.35TB/s", "--format", fmt).out
