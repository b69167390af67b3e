"""Where hardware files are found, how they overlay, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_cli

from rooflinecli.core.errors import DataError
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.name_lookup import files, find

GOOD = """\
name: {name}
vendor: acme
kind: gpu
sources: {{sheet: "Acme datasheet"}}
peak:
  bf16: {{value: 100 TFLOP/s, basis: dense, source: sheet}}
memory:
  capacity: {{value: 10 GiB, source: sheet}}
  bandwidth: {{value: 1 TB/s, source: sheet}}
"""


def put(folder: Path, stem: str, text: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.yaml"
    path.write_text(text if text is not None else GOOD.format(name=stem), encoding="utf-8")
    return path


def test_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROOFLINE_PATH, then the working directory, then what is packaged; a nearer file hides a farther one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_PATH", "")
    packaged = find("hardware", "h100-sxm")
    assert packaged.is_file() and tmp_path not in packaged.parents
    here = put(tmp_path / "hardware", "h100-sxm", GOOD.format(name="from the working directory"))
    assert find("hardware", "h100-sxm") == here
    extra = put(tmp_path / "elsewhere" / "hardware", "h100-sxm", GOOD.format(name="from ROOFLINE_PATH"))
    flat = put(tmp_path / "flat", "only-here", None)
    monkeypatch.setenv("ROOFLINE_PATH", f"{tmp_path / 'elsewhere'}:{tmp_path / 'flat'}")
    assert find("hardware", "h100-sxm") == extra
    assert find("hardware", "only-here") == flat
    assert load_hardware("h100-sxm").name == "from ROOFLINE_PATH"
    assert set(files("hardware")) > {"only-here", "a100-sxm-80"}


def test_a_measured_profile_is_found_beside_the_chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "hardware" / "measured", "my-h100", "extends: h100-sxm\nname: mine\n")
    assert load_hardware("my-h100").peak["bf16"].si == load_hardware("h100").peak["bf16"].si


def test_extends_merges_mappings_and_replaces_lists(tmp_path: Path) -> None:
    text = """\
extends: h100-sxm
name: H100, half the memory
memory:
  capacity: {value: 40 GiB, source: "our slice"}
network:
  - name: Ethernet
    kind: fabric
    bandwidth: {value: 100 Gb/s, source: "our rack"}
"""
    path = put(tmp_path, "half", text)
    spec, base = load_hardware(str(path)), load_hardware("h100-sxm")
    assert spec.memory.capacity.si == 40 * 2**30
    assert spec.memory.bandwidth.si == base.memory.bandwidth.si
    assert [level.name for level in spec.network] == ["Ethernet"]
    assert spec.efficiency == base.efficiency
    assert not spec.aliases, "an overlay must not answer to the base's aliases"
    assert spec.document.location("memory", "capacity") == f"{path}:4"
    assert spec.document.location("memory", "bandwidth").startswith("hardware/h100-sxm.yaml:")


def test_extends_of_an_unknown_file_says_what_exists(tmp_path: Path) -> None:
    path = put(tmp_path, "orphan", "name: x\nextends: h1000\n")
    with pytest.raises(DataError, match=r"orphan.yaml:2: extends: unknown chip 'h1000'; did you mean h100"):
        load_hardware(str(path))


def test_extends_of_itself_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    put(tmp_path, "ping", "extends: pong\nname: x\n")
    path = put(tmp_path, "pong", "extends: ping\nname: x\n")
    with pytest.raises(DataError, match="extends itself"):
        load_hardware(str(path))


BASE = GOOD.format(name="x")
WRONG = {
    "syntax": (BASE.replace("vendor: acme", "vendor: [acme"), r":\d+: not valid YAML"),
    "missing unit": (BASE.replace("1 TB/s", "1"), r":9: memory\.bandwidth.*unit"),
    "wrong unit": (BASE.replace("1 TB/s", "1 TB"), r":9: memory\.bandwidth.*measures B; expected B/s"),
    "unknown unit": (BASE.replace("10 GiB", "10 GiBi"), r":8: memory\.capacity.*unknown unit"),
    "no source": (BASE.replace(", source: sheet}\nmemory", "}\nmemory"), r":6: peak\.bf16\.source: required"),
    "empty source": (
        BASE.replace("dense, source: sheet", "dense, source: ''"),
        r":6: peak\.bf16: a figure without a source",
    ),
    "negative": (BASE.replace("10 GiB", "-10 GiB"), r":8: memory\.capacity.*negative"),
    "zero": (BASE.replace("1 TB/s", "0 TB/s"), r"memory\.bandwidth must be above zero"),
    "unknown field": (BASE + "colour: red\n", r":10: colour: no such field"),
    "unknown dtype": (BASE.replace("bf16:", "bf17:"), r"unknown dtype 'bf17'"),
    "unknown kind": (BASE.replace("kind: gpu", "kind: toaster"), r":3: kind: .*'gpu'"),
    "twice": (BASE + "vendor: other\n", r":10: 'vendor' is given twice"),
    "exponent as text": (BASE.replace("100 TFLOP/s", "100e12"), r":6: .*100e12"),
    "no memory": (BASE[: BASE.index("memory:")], r"memory: required"),
    "above the peak": (
        BASE + "efficiency: {kernel: {matmul: {any: {compute: 1.2, source: x}}}}\n",
        r":10: efficiency\.kernel\.matmul\.any\.compute: .*1",
    ),
    "regime": (BASE + "efficiency: {cooking: {}}\n", r"efficiency\.cooking: unknown regime"),
    "a list": ("- name: x\n", r":1: expected a mapping"),
    "empty": ("", r":1: expected a mapping"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_says_where_and_what(what: str, tmp_path: Path) -> None:
    text, message = WRONG[what]
    path = put(tmp_path, "wrong", text)
    with pytest.raises(DataError, match=message) as caught:
        load_hardware(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 3


def test_the_base_of_these_is_right(tmp_path: Path) -> None:
    assert load_hardware(str(put(tmp_path, "right"))).peak["bf16"].si == 100e12


def test_a_bandwidth_above_the_flops_is_noted_with_its_line(tmp_path):
    file = tmp_path / "slip.yaml"
    file.write_text("extends: h100\nmemory:\n  bandwidth: {value: 3350 TB/s, source: datasheet}\n", encoding="utf-8")
    ran = run_cli("estimate", "llama-3.1-8b", "--hw", str(file), "--phase", "decode")
    assert "slip.yaml:3" in ran.err and "check the units" in ran.err
