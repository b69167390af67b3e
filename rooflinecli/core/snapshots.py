"""What files said when they were last read, so that a start needs no parser.

A snapshot stands in the user's cache folder: plain data in Python's marshal format behind a checksum. It counts only while the file and
all that it extends have the size and the time of change that they had; whatever else is wrong with it, or with the folder, it is none.
ROOFLINE_CACHE names another folder; 0 means none.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.files import replacing

SETTLED = 2e9  # nanoseconds since a change; the coarsest clock of a file system in use ticks every two seconds


def kept(path: Path, kind: str, code: int) -> Any:
    """What was kept of a file by the same `code`, which identifies what read it; None where nothing was or it no longer counts."""
    place = cache_path(path, kind)
    if place is None:
        return None
    try:
        with open(place, "rb") as file:
            written = file.read()
        if int.from_bytes(written[:4], "little") != zlib.crc32(written[4:]):
            return None
        known, subject, stamps, data = marshal.loads(memoryview(written)[4:])
        whole = known == code and subject == (str(path), kind) and all(stamp(one[0]) == one for one in stamps)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return data if whole else None


def keep(path: Path, kind: str, code: int, files: list[str], data: Any) -> None:
    """Keep what `files` say, unless one changed so lately that it may change again within a tick of the file system's clock."""
    place = cache_path(path, kind)
    if place is None:
        return
    stamps = [stamp(file) for file in files]
    if time.time_ns() - max(changed for _, changed, _ in stamps) < SETTLED:
        return
    # no place to write, or what marshal does not know, such as a date
    with contextlib.suppress(OSError, ValueError, UsageError):
        written = marshal.dumps((code, (str(path), kind), stamps, data))
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        with replacing(Path(place)) as file:
            file.write_bytes(zlib.crc32(written).to_bytes(4, "little") + written)


def stamp(path: str) -> tuple[str, int, int]:
    """A file, when it changed, and its size."""
    state = os.stat(path)
    return path, state.st_mtime_ns, state.st_size


def cache_path(path: Path, kind: str) -> str | None:
    """The file of a snapshot; None where there are to be none."""
    folder = os.environ.get("ROOFLINE_CACHE", "")
    if folder == "0":
        return None
    if not folder:
        root = os.environ.get("XDG_CACHE_HOME", "")
        root = root if os.path.isabs(root) else os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(root, "rooflinecli")
    name = f"{path.stem}-{zlib.crc32(f'{path} {kind}'.encode()):08x}.{sys.implementation.cache_tag}"
    return os.path.join(folder, name)
