"""Where answers are written: through devices, FIFOs and links, in one step over regular files, and whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

import pytest

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError

SHORT = ("kernel", "matmul", "64", "64", "64", "--hw", "h100")


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_regular_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    out = tmp_path / "answer.txt"
    out.write_text("old")
    out.chmod(0o640)
    before = out.stat().st_ino
    files.write(out, "new")
    assert out.read_text() == "new" and stat.S_IMODE(out.stat().st_mode) == 0o640
    assert out.stat().st_ino != before, "a new file takes its place, so no reader sees half of it"
    assert left_in(tmp_path) == {"answer.txt"}


def test_a_link_goes_on_leading_where_it_led(tmp_path: Path, cli) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("later")
    for name, target in (("link", "real"), ("dangling", "later")):
        assert cli(*SHORT, "--out", str(tmp_path / name)).code == 0
        assert (tmp_path / name).is_symlink() and "matmul" in (tmp_path / target).read_text()


def test_a_fifo_stays_a_fifo_and_carries_the_answer(tmp_path: Path, cli) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    assert cli("sweep", "gpt2", "--hw", "h100", "--batch", "1,2", "--format", "csv", "--out", str(fifo)).code == 0
    reader.join(10)
    assert read and len(read[0].splitlines()) == 3
    assert stat.S_ISFIFO(fifo.stat().st_mode) and left_in(tmp_path) == {"fifo"}


@pytest.mark.parametrize("command", [SHORT, ("sweep", "gpt2", "--hw", "h100", "--batch", "1,2")])
def test_a_device_stays_a_device(command: tuple[str, ...], cli) -> None:
    assert cli(*command, "--out", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_redirected_standard_output_loses_nothing(tmp_path: Path, python) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    code = "from pathlib import Path\nfrom rooflinecli.core import files\nfiles.write(Path('/dev/stdout'), 'after\\n')"
    with log.open("a") as stream:
        import subprocess
        import sys

        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert log.read_text() == "before\nafter\n"


def test_what_fails_on_the_way_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "answer.txt"
    out.write_text("old")
    with pytest.raises(KeyError), files.replacing(out) as partial:
        partial.write_text("half")
        raise KeyError
    assert out.read_text() == "old" and left_in(tmp_path) == {"answer.txt"}


@pytest.mark.parametrize("place", [".", "no/folder/x", "loop", "x" * 300, "zero\0byte"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match=r"cannot be written .*; give a writable path"):
        files.write(Path(place), "text")
    assert left_in(tmp_path) == {"loop"}


def test_every_writer_of_the_package_goes_through_this_module() -> None:
    """Nothing else renames files (flags of a launch are no files) or writes one whole, but the log that grows line by line."""
    root = Path(files.__file__).parents[1]
    allowed = {"core/files.py", "measure/session.py"}
    writers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"""write_text\(|os\.replace\(|open\(["']w|(?<!args)\.rename\(""", path.read_text())
    }
    assert writers - allowed == {"interfaces/cli/sweep.py", "render/formats/request_log.py"}, (
        "which open the file they are handed"
    )
