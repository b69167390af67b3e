"""Writing files: whole or not at all. Every file that an answer goes to is written through here."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rooflinecli.core.errors import UsageError

_STREAMS = ("/dev/", "/proc/")  # a name such as /dev/stdout leads to a file that somebody else is writing


def missing_reason(path: Path | str) -> str:
    """Why a path is no file to read, as the middle of a sentence."""
    if os.path.isdir(path):
        return "a folder, where a file is expected"
    return "a pipe or a device, where a file is expected" if os.path.exists(path) else "no such file"


def write(path: Path, text: str, flag: str = "--out") -> None:
    """Put `text` at `path`. Raises UsageError that names `flag` when it cannot be written."""
    with replacing(path, flag) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def replacing(path: Path, flag: str = "--out") -> Iterator[Path]:
    """A file to fill, whose content stands at `path` once the block ends well; if it ends badly, nothing changes.

    A regular file is replaced in one step and keeps its permissions, a symlink keeps leading to it; a device, a FIFO or
    a socket stays what it is and receives the content. Raises UsageError that names `flag` when it cannot be written.
    """
    import tempfile

    try:
        try:
            mode: int | None = os.stat(path).st_mode
        except FileNotFoundError:
            mode = None
        except ValueError as error:  # a path with a zero byte
            raise OSError(str(error)) from None
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "it is a folder")
        streamed = (mode is not None and not stat.S_ISREG(mode)) or str(path).startswith(_STREAMS)
        target = Path(tempfile.gettempdir(), "spool") if streamed else Path(os.path.realpath(path))
        partial = target.with_name(f".roofline-{os.urandom(6).hex()}{path.suffix}")
        try:
            partial.touch(exist_ok=False)
            yield partial
            if streamed:  # at the end of what `path` opens, so that a redirected /dev/stdout loses nothing
                with partial.open("rb") as source, os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as sink:
                    shutil.copyfileobj(source, sink)
            else:
                if mode is not None:
                    partial.chmod(stat.S_IMODE(mode))
                os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{flag} {path}: cannot be written ({reason}); give a writable path") from None


def check_target(path: Path, flag: str, forms: str) -> None:
    """Raises UsageError, before a long run, for a file that is none of `forms` (FILE.csv or ...), and for one that cannot be written."""
    if not path.suffix or f"FILE{path.suffix}" not in forms:
        raise UsageError(f"{flag} {path}: write to {forms}", flag[2:])
    if path.is_dir():
        raise UsageError(f"{flag} {path}: cannot be written (it is a folder); give a file in it", flag[2:])
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {path}: there is no folder {path.parent}; make it first", flag[2:])


def is_existing_file(path: Path, mark: str = "") -> bool:
    """Whether a file lies there, or one does at what stands before the last `mark`; False for what cannot be a path."""
    try:
        return path.is_file() or bool(mark and mark in str(path) and Path(str(path).rpartition(mark)[0]).is_file())
    except (OSError, ValueError):
        return False
