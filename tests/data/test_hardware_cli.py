"""`roofline hardware` from outside: formats, filters, exit codes, one sentence per mistake."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.questions.hardware.answer import sheet

ROOT = Path(__file__).resolve().parents[2]


def roofline(*args: str, columns: int = 100) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "rooflinecli.interfaces.cli.main", "hardware", *args],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env={**os.environ, "COLUMNS": str(columns)},
        check=False,
    )


@pytest.mark.slow
def test_the_list_fits_80_columns_and_names_every_file() -> None:
    done = roofline(columns=80)
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in done.stdout
    listed = {line.split()[0] for line in lines if line.strip()}
    assert {path.stem for path in (ROOT / "hardware").glob("*.yaml")} <= listed


@pytest.mark.slow
def test_filters_narrow_the_list() -> None:
    chips = json.loads(roofline("--vendor", "NVIDIA", "--min-memory", "100 GiB", "--dtype", "fp4", "-f", "json").stdout)
    names = {chip["name"] for chip in chips}
    assert {"b200-sxm", "gb300-nvl72"} <= names and not names & {"h200-sxm", "mi355x", "rtx-5090"}
    assert all(chip["memory"]["capacity_bytes"] >= 100 * 2**30 and "fp4" in chip["peak_flops_per_s"] for chip in chips)
    assert "no chip passes" in roofline("--min-memory", "9 TiB").stdout


@pytest.mark.slow
def test_a_comparison_gives_ridge_points() -> None:
    chips = json.loads(roofline("h100", "mi300x", "tpu-v5p", "-f", "json").stdout)
    assert [chip["name"] for chip in chips] == ["h100-sxm", "mi300x", "tpu-v5p"]
    assert chips[0]["ridge_flop_per_byte"]["bf16"] == pytest.approx(989.4 / 3.35)
    assert chips[2]["ridge_flop_per_byte"]["bf16"] == pytest.approx(459 / 2.765)
    text = roofline("h100", "mi300x", "tpu-v5p", "--details", columns=80).stdout
    row = next(line for line in text.splitlines() if line.startswith("bf16 FLOP/B"))
    assert row.split()[2:] == ["295", "247", "166"]
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_names_with_commas_are_compared() -> None:
    assert roofline("h100,h200").stdout == roofline("h100", "h200").stdout


@pytest.mark.slow
def test_a_pod_and_a_server_say_what_they_add_up_to() -> None:
    """TPU v5e: 16 x 16 chips of 197 TFLOP/s in hosts of 8; cut in the middle of one axis, 2 x 16 links of 45 GB/s. DGX H100: 4 x 450 GB/s."""
    (pod,) = json.loads(roofline("tpu-v5e-256", "-f", "json").stdout)["systems"]
    assert (pod["devices"], pod["hosts"]) == (256, 32) and pod["peak_flops_per_s"] == pytest.approx(256 * 197e12)
    assert pod["bisection_bytes_per_s"] == pytest.approx(32 * 45e9) and pod["capacity_bytes"] == 256 * 16 * 2**30
    (server,) = json.loads(roofline("dgx-h100", "-f", "json").stdout)["systems"]
    assert (server["devices"], server["hosts"]) == (8, 1) and server["bisection_bytes_per_s"] == 4 * 450e9
    assert "1.44 TB/s" in roofline("tpu-v5e-256").stdout and "7.92 PFLOP/s" in roofline("dgx-h100").stdout


def test_a_count_and_a_chip_say_what_they_add_up_to() -> None:
    """Google's v5p-4096 counts TensorCores, two a chip: 8 x 16 x 16 chips of 459 TFLOP/s in hosts of 4; cut in the middle of an axis that
    closes, 2 x 128 links of 90 GB/s. An axis of 8 of a v5e does not close: 8 links of 45 GB/s. Nine H100 take two servers."""
    (pod,) = sheet("v5p-4096").chip.systems
    assert (pod.devices, pod.hosts) == (2048, 512) and pod.peak_flops_per_s == pytest.approx(2048 * 459e12)
    assert pod.bisection_bytes_per_s == pytest.approx(256 * 90e9) and pod.capacity_bytes == 2048 * 95 * 2**30
    assert sheet("v5e-64").chip.systems[0].bisection_bytes_per_s == pytest.approx(8 * 45e9)
    (two,) = sheet("9xH100").chip.systems
    assert (two.level, two.hosts) == ("InfiniBand NDR", 2)
    with pytest.raises(UsageError, match="v5p-100: no slice of TPU v5p has 50 chips; the nearest have 32 and 64"):
        sheet("v5p-100")


@pytest.mark.slow
def test_more_chips_than_columns_are_stacked_not_cut() -> None:
    names = ["h100", "mi300x", "tpu-v5p", "b200", "gaudi3", "trn2", "xeon-8480", "rtx-4090"]
    text = roofline(*names, columns=80).stdout
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert text.count("bf16 FLOP/s") >= 2 and "trainium2" in text and "667 T" in text


@pytest.mark.slow
def test_one_chip_shows_file_line_source_and_price() -> None:
    text = roofline("h100").stdout
    line = next(
        at
        for at, row in enumerate((ROOT / "hardware/h100-sxm.yaml").read_text(encoding="utf-8").splitlines(), 1)
        if row.strip().startswith("bf16: {value: 989.4")
    )
    details = roofline("h100", "--details").stdout
    assert f"datasheet-h100, h100-sxm.yaml:{line}" in details and "datasheet-h100: NVIDIA H100" in details
    assert "3.00 USD/h" in text and "2026-08" in text and "hardware/h100-sxm.yaml" in text
    assert max(map(len, roofline("h100", columns=80).stdout.splitlines())) <= 80


@pytest.mark.slow
def test_an_unconfirmed_figure_carries_its_mark() -> None:
    assert "71 TFLOP/s?" in roofline("rtx-3090").stdout
    assert "peak.bf16" in json.loads(roofline("rtx-3090", "-f", "json").stdout)["unverified"]
    assert "71.0 T?" in roofline("rtx-3090", "h100").stdout
    assert "989.4 TFLOP/s?" not in roofline("h100").stdout


@pytest.mark.slow
def test_csv_is_si_with_units_in_the_heading() -> None:
    rows = list(csv.DictReader(io.StringIO(roofline("h100", "tpu-v5e", "-f", "csv").stdout)))
    assert float(rows[0]["memory.bandwidth_bytes_per_s"]) == 3.35e12 and rows[1]["peak_flops_per_s.fp8"] == ""
    one = {row["quantity"]: row for row in csv.DictReader(io.StringIO(roofline("h100", "-f", "csv").stdout))}
    assert (
        float(one["memory.capacity"]["value"]) == 80 * 2**30
        and "hardware/h100-sxm.yaml:" in one["memory.capacity"]["at"]
    )


@pytest.mark.slow
def test_markdown_tables_have_even_rows() -> None:
    for args in (["h100", "b200"], ["h100"], []):
        lines = roofline(*args, "-f", "markdown").stdout.splitlines()
        blocks = [[line.count("|") for line in group] for group in _tables(lines)]
        assert blocks and all(len(set(block)) == 1 for block in blocks)


def _tables(lines: list[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("|"):
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    return [group for group in groups if group]


@pytest.mark.slow
def test_out_writes_the_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "chips.json"
    done = roofline("-f", "json", "--out", str(target))
    assert done.stdout == "" and len(json.loads(target.read_text(encoding="utf-8"))) >= 44


@pytest.mark.slow
def test_schema_is_printed() -> None:
    assert roofline("--schema").stdout == (ROOT / "docs/schema/hardware.json").read_text(encoding="utf-8")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["h1000"], 2, "did you mean h100"),
        (["--vendor", "acme"], 2, "nvidia"),
        (["--dtype", "fp9"], 2, "did you mean fp8"),
        (["--min-memory", "80"], 2, "'80 GiB'"),
        (["h100", "--vendor", "nvidia"], 2, "leave out the names"),
        (["h100", "h100-sxm"], 2, "named twice"),
        (["h100", "--schema"], 2, "leave out the names"),
        (["nowhere.yaml"], 3, "no such file"),
    ],
)
def test_mistakes_get_one_sentence(args: list[str], code: int, words: str) -> None:
    done = roofline(*args)
    assert done.returncode == code and not done.stdout
    assert words in done.stderr and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


@pytest.mark.slow
def test_start_up_stays_light() -> None:
    code = (
        "import sys; from rooflinecli.interfaces.cli.main import app; app(['hardware'], standalone_mode=False); "
        "print([m for m in ('numpy', 'jax', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
