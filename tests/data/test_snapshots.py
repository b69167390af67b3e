"""Snapshots of packaged files: the same specs, lines and answers as their YAML, and never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflinecli.core import snapshots as files
from rooflinecli.specs import snapshots
from rooflinecli.specs.engine import ServingEngine
from rooflinecli.specs.hardware import Defaults, HardwareSpec
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.name_lookup import shipped
from rooflinecli.specs.snapshots import load, table
from rooflinecli.specs.validation import validate
from rooflinecli.specs.yaml_loader import read

PACKAGE = Path(snapshots.__file__).parent.parent
HARDWARE, MODELS = Path(shipped("hardware")), Path(shipped("models"))
FILES = {
    HARDWARE / "h100-sxm.yaml": (HardwareSpec, "hardware"),
    HARDWARE / "dgx-b200.yaml": (HardwareSpec, "hardware"),
    HARDWARE / "tpu-v5p.yaml": (HardwareSpec, "hardware"),
    HARDWARE / "defaults" / "gpu.yaml": (Defaults, "hardware"),
    MODELS / "clip-vit-l-14.yaml": (ModelSpec, "models"),
    MODELS / "deepseek-v3.yaml": (ModelSpec, "models"),
    PACKAGE / "engines" / "llamacpp-rocm.yaml": (ServingEngine, "engines"),
}


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of snapshots."""
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chip's file over another, as if the package had brought them."""
    monkeypatch.setattr(snapshots, "_PACKAGE", str(tmp_path))
    (tmp_path / "small.yaml").write_text("extends: base\nname: Small\npower: {value: 100 W, source: here}\n")
    shutil.copy(HARDWARE / "l4.yaml", tmp_path / "base.yaml")
    for name in ("small", "base"):
        os.utime(tmp_path / f"{name}.yaml", (1e9, 1e9))
    return tmp_path / "small.yaml"


def _from_yaml(monkeypatch: pytest.MonkeyPatch, path: Path, base: str, kind: type = HardwareSpec):
    """The spec, and whether YAML was read for it."""
    asked: list[Path] = []
    with monkeypatch.context() as m:
        m.setattr(snapshots, "_read", lambda path, base: asked.append(path) or read(path, base=base))
        return load(kind, path, base), bool(asked)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_snapshot_is_the_spec_of_its_file(path, monkeypatch):
    kind, base = FILES[path]
    whole = validate(kind, read(path, base=base))
    load(kind, path, base)
    again, parsed = _from_yaml(monkeypatch, path, base, kind)
    assert not parsed and again == whole and hash(type(again)) == hash(kind)
    for name in kind.DERIVED:
        assert getattr(again, name) == getattr(whole, name)
    assert again.document.path == path and again.document.location("source") == whole.document.location("source")
    assert again.document.lines == whole.document.lines
    for one, other in zip(getattr(again, "towers", ()), getattr(whole, "towers", ()), strict=True):
        assert one.document.lines == other.document.lines and one.order == other.order


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["kernel matmul 64 64 64 --hw h100", "estimate llama70b --hw h100"])
def test_a_second_start_reads_no_yaml_and_validates_nothing(asked, kept):
    program = (
        "import sys, rooflinecli.interfaces.cli.main as m\ntry: m.main()\nexcept SystemExit: pass\n"
        "print([name for name in ('pydantic', 'yaml', 'numpy') if name in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *asked.split(), "--format", "json"]
    first, second = (subprocess.run(command, capture_output=True, text=True, env=dict(os.environ)) for _ in range(2))
    assert first.stdout == second.stdout and len(first.stdout) > 200
    assert "'pydantic', 'yaml'" in first.stderr and second.stderr.splitlines()[-1] == "[]"
    assert any(file.name.startswith("h100-sxm-") for file in kept.iterdir())


def test_a_file_that_changed_is_read_again(chip, monkeypatch):
    load(HardwareSpec, chip, "hardware")
    assert not _from_yaml(monkeypatch, chip, "hardware")[1]
    base = chip.with_name("base.yaml")
    base.write_text(base.read_text().replace("300 GB/s", "301 GB/s"))  # as long as before
    os.utime(base, (1e9 + 1, 1e9 + 1))
    spec, parsed = _from_yaml(monkeypatch, chip, "hardware")
    assert parsed and spec.memory.bandwidth.si == 301e9


def test_a_file_that_changed_just_now_is_not_kept(chip, kept):
    os.utime(chip)
    load(HardwareSpec, chip, "hardware")
    assert not kept.exists()


def test_other_modules_read_again(chip, monkeypatch):
    load(HardwareSpec, chip, "hardware")
    monkeypatch.setattr(snapshots, "_code", lambda: -1)
    assert _from_yaml(monkeypatch, chip, "hardware")[1]


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "text", "other", "folder"])
def test_a_damaged_snapshot_is_none(harm, chip, kept, monkeypatch):
    whole = load(HardwareSpec, chip, "hardware")
    (file,) = kept.iterdir()
    written = file.read_bytes()
    if harm == "folder":
        file.unlink()
        file.mkdir()
    elif harm == "other":  # of the file under this one, by the name of this one's
        monkeypatch.setattr(files, "cache_path", lambda path, kind: str(file))
        load(HardwareSpec, chip.with_name("base.yaml"), "hardware")
    else:
        flipped = written[:-9] + bytes([written[-9] ^ 1]) + written[-8:]
        file.write_bytes({"cut": written[:-5], "flipped": flipped, "empty": b"", "text": b"no snapshot"}[harm])
    spec, parsed = _from_yaml(monkeypatch, chip, "hardware")
    assert parsed and spec == whole


def test_a_folder_that_cannot_be_written_is_no_error(chip, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "taken"))
    assert load(HardwareSpec, chip, "hardware") == load(HardwareSpec, chip, "hardware")


def test_what_extends_a_file_of_another_folder_is_not_kept(chip, kept, monkeypatch):
    """It was found by the search path, where a nearer file of that name may come to stand."""
    chip.write_text(chip.read_text().replace("extends: base", "extends: l4"))
    os.utime(chip, (1e9, 1e9))
    load(HardwareSpec, chip, "hardware")
    assert not kept.exists()


def test_own_files_and_a_start_without_snapshots_keep_nothing(tmp_path, kept, monkeypatch):
    own = shutil.copy(HARDWARE / "l4.yaml", tmp_path)
    os.utime(own, (1e9, 1e9))
    load(HardwareSpec, Path(own), "hardware")
    monkeypatch.setenv("ROOFLINE_CACHE", "0")
    load(HardwareSpec, HARDWARE / "l4.yaml", "hardware")
    assert not kept.exists()


def test_a_table_is_kept_as_it_is_read():
    path = PACKAGE / "published_runs" / "precedent.yaml"
    assert table(path, lambda path: read(path).data) == read(path).data
    assert table(path, lambda path: pytest.fail("read again")) == read(path).data


def test_snapshots_stand_in_the_users_cache_folder(monkeypatch):
    path = HARDWARE / "l4.yaml"
    monkeypatch.delenv("ROOFLINE_CACHE")
    monkeypatch.setenv("HOME", "/home/me")
    for given, folder in (("/cache", "/cache"), ("not/absolute", "/home/me/.cache"), ("", "/home/me/.cache")):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert os.path.dirname(files.cache_path(path, "HardwareSpec")) == f"{folder}/rooflinecli"
