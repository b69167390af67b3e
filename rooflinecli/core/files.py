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
    try:
        mode = _mode(path)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise _refused(path, flag, error) from None
    try:
        through = (mode is not None and not stat.S_ISREG(mode)) or str(path).startswith(_STREAMS)
        target = _spool() if through else Path(os.path.realpath(path))
        partial = target.with_name(f".roofline-{os.urandom(6).hex()}{path.suffix}")
        try:
            partial.touch(exist_ok=False)
            yield partial
            if through:
                _pour(partial, path)
            else:
                if mode is not None:
                    partial.chmod(stat.S_IMODE(mode))
                os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _refused(path, flag, error) from None


def _refused(path: Path, flag: str, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or error
    return UsageError(f"{flag} {path}: cannot be written ({reason}); give a writable path")


def _mode(path: Path) -> int | None:
    """What stands at the end of `path`, None where nothing does. Raises OSError for a folder or a circle of links."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "it is a folder")
    return mode


def _spool() -> Path:
    """Where content waits that is on its way through a device: a name beside it in the folder for temporary files."""
    import tempfile

    return Path(tempfile.gettempdir()) / "spool"


def _pour(partial: Path, path: Path) -> None:
    """The content into whatever `path` opens, at its end, so that a redirected /dev/stdout loses nothing."""
    with partial.open("rb") as source, os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as sink:
        shutil.copyfileobj(source, sink)


def is_existing_file(path: Path, mark: str = "") -> bool:
    """Whether a file lies there, or one does at what stands before the last `mark`; False for what cannot be a path."""
    try:
        return path.is_file() or bool(mark and mark in str(path) and Path(str(path).rpartition(mark)[0]).is_file())
    except (OSError, ValueError):
        return False
