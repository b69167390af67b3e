"""`roofline sweep` and `roofline search` from the command line: formats, files, shards, plots, exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from rooflinecli.interfaces.cli.main import main

ARGS = [
    "llama-3-8b",
    "--hw",
    "h100,a100",
    "--batch",
    "1..16x4",
    "--prompt",
    "1k,4k",
    "--tp",
    "1,2,3",
    "--phase",
    "decode",
]


def roofline(*args: str | Path, code: int = 0) -> SimpleNamespace:
    """The command line in this process: its output and exit code, without the start of an interpreter each time."""
    out, err, argv, status = io.StringIO(), io.StringIO(), sys.argv, 0
    sys.argv = ["roofline", *map(str, args)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as exit:
        status = int(exit.code or 0)
    finally:
        sys.argv = argv
    assert status == code, err.getvalue()
    return SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_every_format_holds_the_same_points(tmp_path: Path) -> None:
    table = rows(roofline("sweep", *ARGS, "--format", "csv").stdout)
    assert len(table) == 2 * 3 * 2 * 3
    lines = [json.loads(line) for line in roofline("sweep", *ARGS, "--format", "jsonl").stdout.splitlines()]
    whole = json.loads(roofline("sweep", *ARGS, "--format", "json").stdout)
    assert whole["schema"] == "roofline/sweep/2" and whole["points"] == lines
    for a, b in zip(table, lines, strict=True):
        assert list(a) == list(b)
        assert a["decode.time_s"] == ("" if b["decode.time_s"] is None else repr(b["decode.time_s"]))
        assert a["batch"] == str(b["batch"])
        assert a["feasible"] == str(b["feasible"]).lower()
    assert roofline("sweep", *ARGS, "--format", "markdown").stdout.count("\n") == len(table) + 2
    assert roofline("sweep", *ARGS, "--wide").stdout.count("\n") == len(table) + 2, "headings take two lines"


@pytest.mark.slow
def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "points.parquet"
    roofline("sweep", *ARGS, "--format", "parquet", "--out", out)
    found = parquet.read_table(out).to_pylist()
    for a, b in zip(rows(roofline("sweep", *ARGS, "--format", "csv").stdout), found, strict=True):
        assert (float(a["decode.time_s"]) if a["decode.time_s"] else None) == b["decode.time_s"]
        assert a["hw"] == b["hw"] and a["violation"] == b["violation"]
    roofline("sweep", *ARGS, "--format", "parquet", code=2)


@pytest.mark.slow
def test_pandas_polars_and_duckdb_read_the_parquet(tmp_path: Path) -> None:
    out = tmp_path / "points.parquet"
    roofline("sweep", *ARGS, "--format", "parquet", "--out", out)
    wanted = [row["hw"] for row in pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()]
    assert pytest.importorskip("pandas").read_parquet(out)["hw"].tolist() == wanted
    assert pytest.importorskip("polars").read_parquet(out)["hw"].to_list() == wanted
    assert [hw for (hw,) in pytest.importorskip("duckdb").read_parquet(str(out)).project("hw").fetchall()] == wanted


@pytest.mark.slow
def test_shards_concatenate_to_the_whole(tmp_path: Path) -> None:
    whole = roofline("sweep", *ARGS, "--format", "jsonl").stdout
    parts = []
    for i in range(1, 6):
        out = tmp_path / f"{i}.jsonl"
        roofline("sweep", *ARGS, "--format", "jsonl", "--shard", f"{i}/5", "--out", out)
        parts.append(out.read_text())
    assert "".join(parts) == whole


@pytest.mark.slow
def test_infeasible_points_stay_unless_asked_away() -> None:
    found = rows(roofline("sweep", *ARGS, "--format", "csv").stdout)
    assert {r["violation"] for r in found if r["tp"] == "3"} == {"tp divides the 32 heads"}
    assert all(r["decode.time_s"] == "" for r in found if r["tp"] == "3")
    kept = rows(roofline("sweep", *ARGS, "--format", "csv", "--feasible-only").stdout)
    assert kept == [r for r in found if r["feasible"] == "true"]
    quick = rows(roofline("sweep", *ARGS, "--format", "csv", "--where", "decode.time_s <= 10 ms").stdout)
    assert quick == [r for r in found if r["decode.time_s"] and float(r["decode.time_s"]) <= 0.01] and quick
    roofline("sweep", "llama-3-405b", "--hw", "h100", "--batch", "1,2", "--tp", "8", "--pp", "1", "--dp", "1", code=1)


def test_a_dtype_one_chip_lacks_leaves_its_points_infeasible() -> None:
    found = rows(
        roofline(
            "sweep", "llama-3-8b", "--hw", "h100,a100", "--dtype", "fp8", "--phase", "decode", "--format", "csv"
        ).stdout
    )
    assert [r["feasible"] for r in found] == ["true", "false"] and "no fp8" in found[1]["violation"]
    assert "no fp8" in roofline("sweep", "llama-3-8b", "--hw", "a100", "--dtype", "fp8", code=2).stderr


@pytest.mark.slow
def test_a_sweep_that_chooses_layouts_shows_them_or_says_how() -> None:
    asked = (
        "sweep",
        "llama-3.3-70b",
        "--hw",
        "h100",
        "-n",
        "16",
        "--phase",
        "train",
        "--batch",
        "256,512",
        "--format",
        "csv",
    )
    whole = roofline(*asked)
    assert "layout.devices,layout.tp,layout.pp" in whole.stdout and "layout of each point" not in whole.stderr
    assert "--columns 'layout.*' shows it" in roofline(*asked, "--columns", "train.time_s").stderr
    assert not roofline(*asked, "--columns", "train.time_s,layout.pp").stderr
    assert not roofline(*asked, "--columns", "train.time_s", "--tp", "8", "--pp", "2", "--dp", "1").stderr


def test_ends_of_intervals_and_parts_of_groups_have_names_and_units() -> None:
    """Not '1' above bare seconds, nor a count of matmuls."""
    asked = ("llama-3-8b", "--hw", "h100", "--batch", "1", "--phase", "decode", "--columns")
    names = "decode.interval_s.0,decode.interval_s.1,decode.tokens_per_s_interval.1,decode.breakdown_s.matmul"
    table = roofline("sweep", *asked, names).stdout.splitlines()
    *_, heads, values = (re.split(r" {2,}", line.strip()) for line in table)
    named = dict(zip(heads, values, strict=False))  # no violation
    assert {"ITL, low end", "ITL, high end", "throughput, high end", "matmul"} <= named.keys()
    assert all(
        value.endswith(" tok/s" if "throughput" in name else " ms")
        for name, value in named.items()
        if name[:3] in ("ITL", "thr", "mat")
    )


def test_the_cost_of_a_run_is_written_as_money() -> None:
    asked = ("--phase", "train", "-n", "64", "--tokens", "1T", "--columns", "cost.training_usd")
    table = roofline("sweep", "llama-3-8b", "--hw", "h100", "--tp", "1", "--pp", "1", *asked).stdout
    assert re.search(r"\$[\d]{2,3},\d{3}\b", table) and "e+" not in table


def test_an_unknown_quantity_is_unknown_whatever_its_limit_is_written_in() -> None:
    for text, says in (
        ("decode.time <= 40 ms", "did you mean decode.time_s"),
        ("decode.foo <= 40 ms", "unknown quantity"),
    ):
        said = roofline("sweep", "llama-3-8b", "--hw", "h100", "--where", text, code=2).stderr
        assert says in said and "wrong unit" not in said
    asked = ("sweep", "llama-3-8b", "--hw", "h100", "--where", "layout.tp <= 40 ms")
    assert "wrong unit; layout.tp is a count" in roofline(*asked, code=2).stderr


@pytest.mark.slow
def test_columns_by_name_group_and_pattern() -> None:
    head = (
        roofline("sweep", *ARGS, "--format", "csv", "--columns", "decode.time_s,decode.memory,cost.*,plan.devices")
        .stdout.splitlines()[0]
        .split(",")
    )
    assert head[4:] == [
        "decode.time_s",
        "decode.memory.weights_bytes",
        *head[6:-3],
        "layout.devices",
        "feasible",
        "violation",
    ]
    assert "did you mean" in roofline("sweep", *ARGS, "--columns", "decode.times_s", code=2).stderr
    layouts = (
        "sweep",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--tp",
        "1,3",
        "--where",
        "train.mfu > 0.1",
        "--zero",
        "2",
    )
    found = roofline(*layouts, "--format", "csv", "--columns", "layout.zero,layout.recompute").stdout.splitlines()
    assert found[0] == "tp,layout.zero,layout.recompute,feasible,violation" and found[1].startswith("1,2,none,true")


@pytest.mark.slow
def test_plots(tmp_path: Path) -> None:
    for kind in ("latency", "roofline", "memory"):
        text = roofline("sweep", *ARGS, "--plot", "-", "--plot-kind", kind).stdout
        assert "tp=1" in text or "tp=2" in text
    pytest.importorskip("matplotlib")
    for name in ("a.png", "b.svg"):
        roofline("sweep", *ARGS, "--plot", tmp_path / name, "--out", tmp_path / "t")
        assert (tmp_path / name).stat().st_size > 1000
    roofline("sweep", *ARGS, "--plot", tmp_path / "x.pdf", code=2)


@pytest.mark.parametrize(
    "args",
    [
        ["--batch", "4..1"],
        ["--batch", "1..8x1"],
        ["--set", "memory.speed=1"],
        ["--shard", "3/2"],
        ["--set", "efficiency.matmul.compute=0.5,1.01"],
        ["--set", "efficiency.matmul.fp8.memory=2"],
        ["--where", "x"],
        ["--where", "decode.time_s <= nan"],
        ["--where", "decode.time_s <= inf"],
        ["--phase", "decode", "--where", "train.mfu > 0.3"],
        ["--where", "decode.tim_s > 3"],
        ["--dtype", "fp9"],
        ["--zero", "7"],
        ["--out", "/nowhere/at/all"],
    ],
)
def test_mistakes_are_one_sentence(args: list[str]) -> None:
    done = roofline("sweep", "llama-3-8b", "--hw", "h100", *args, code=2)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("roofline: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["llama-3-8b", "--hw", "h100", "-n", "32", "--batch", "1M-tokens"],
        ["llama-3-8b", "--hw", "h100", "-n", "8,16", "--batch", "64", "--objective", "cost,time"],
        ["llama-3-8b", "--hw", "h100", "--phase", "decode", "--itl", "20 ms"],
        ["gpt2", "--hw", "h100", "-n", "8", "--batch", "64", "--sensitivity"],
    ],
)
def test_search_formats(args: list[str]) -> None:
    result = json.loads(roofline("search", *args, "--format", "json").stdout)
    assert result["feasible"] and result["results"]
    assert len(rows(roofline("search", *args, "--format", "csv").stdout)) == len(result["results"])
    assert "rejected" in roofline("search", *args).stdout
    assert roofline("search", *args, "--format", "markdown").stdout.count("|") > 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [["-n", "32", "--batch", "64", "--seq", "2k"], ["--phase", "decode", "--prompt", "1k", "--itl", "20 ms"]]
)
def test_the_winning_command_gives_the_winning_numbers(args: list[str]) -> None:
    best = json.loads(roofline("search", "llama-3-8b", "--hw", "h100", *args, "--format", "json").stdout)["results"][0]
    phases = json.loads(roofline(*shlex.split(best["estimate"])[1:], "--format", "json").stdout)["phases"]
    assert (phases["train"] if "train" in phases else phases["decode"])["time_s"] == pytest.approx(
        best.get("time_s") or best["serve"]["itl_s"], rel=1e-14
    )


@pytest.mark.slow
def test_fewest_devices_that_finish_a_run_in_time() -> None:
    args = [
        "llama-3-8b",
        "--hw",
        "h100",
        "--batch",
        "1M-tokens",
        "--tokens",
        "100B",
        "--where",
        "train.run_s <= 10 days",
    ]
    result = json.loads(roofline("search", *args, "-n", "8..64x2", "--objective", "devices", "--format", "json").stdout)
    devices = result["results"][0]["layout"]["devices"]
    assert devices > 8
    roofline("search", *args, "-n", str(devices // 2), code=1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name",
    [
        "energy",
        "cost",
        "memory",
        "latency",
        "mfu",
        "train.memory.activations_bytes",
        "cost.usd_per_million_training_tokens",
    ],
)
def test_objectives(name: str) -> None:
    result = json.loads(
        roofline(
            "search", "llama-3-8b", "--hw", "h100", "-n", "16", "--batch", "64", "--objective", name, "--format", "json"
        ).stdout
    )
    scores = [next(iter(row["score_at_bound"].values())) for row in result["results"]]
    assert scores == sorted(scores, reverse=name == "mfu") and len(scores) == 5


@pytest.mark.slow
def test_search_exit_codes() -> None:
    assert "nearest is tp8" in " ".join(
        roofline("search", "llama-3-405b", "--hw", "h100", "-n", "8", "--batch", "8", code=1).stdout.split()
    )
    assert "requires -n" in roofline("search", "llama-3-8b", "--hw", "h100", code=2).stderr
    assert (
        "no quantity"
        in roofline(
            "search", "llama-3-8b", "--hw", "h100", "-n", "8", "--batch", "8", "--where", "train.joy > 1", code=2
        ).stderr
    )
    assert roofline(
        "search", "llama-3-8b", "--hw", "h100", "-n", "8", "--batch", "8", "--where", "train.bound == compute"
    ).stdout
    assert (
        "objective"
        in roofline(
            "search", "llama-3-8b", "--hw", "h100", "-n", "8", "--batch", "8", "--objective", "beauty", code=2
        ).stderr
    )


def test_html_is_a_page_with_the_picture_and_every_point(tmp_path):
    target = tmp_path / "sweep.html"
    asked = ("sweep", "llama-3-8b", "--hw", "h100", "--batch", "1..8x2", "--phase", "decode")
    roofline(*asked, "--format", "html", "--out", str(target))
    text = target.read_text()
    inside = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)[1])
    assert [point["batch"] for point in inside["points"]] == [1, 2, 4, 8]
    assert text.count("<svg") == 2 and "decode ITL" in text and "http" not in text.replace("http-equiv", "")
