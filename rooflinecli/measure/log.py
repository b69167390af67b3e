"""The JSON-lines log: one line per timed case, flushed as it is written, so that an interrupted run resumes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rooflinecli.core.errors import UsageError
from rooflinecli.measure.cases import Record

SCHEMA = "roofline-measure/1"


class Log:
    """Records by key under one machine fingerprint. Later lines win; a line cut short by an interrupt is skipped."""

    def __init__(self, path: Path, fingerprint: str, *, fresh: bool = False):
        self.path, self.fingerprint = path, fingerprint
        self.foreign = 0
        self._muted = False
        self.records: dict[str, Record] = {}
        if fresh and path.exists():
            path.replace(path.with_name(path.name + ".old"))
        for record in _lines(path):
            if record.get("fingerprint") == fingerprint:
                self.records[str(record.get("key"))] = record
            else:
                self.foreign += 1

    def __contains__(self, key: str) -> bool:
        return key in self.records

    def mute(self) -> None:
        """Keep records in memory only: another process writes the file."""
        self._muted = True
        self.records.clear()

    def append(self, record: Record) -> None:
        """Write one record and keep it. Raises UsageError when the file cannot be written."""
        whole = {"schema": SCHEMA, "fingerprint": self.fingerprint, **record}
        self.records[str(record["key"])] = whole
        if self._muted:
            return
        try:
            cut = self.path.exists() and self.path.stat().st_size and self.path.read_bytes()[-1:] != b"\n"
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(("\n" if cut else "") + json.dumps(whole) + "\n")
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written ({error.strerror}); give --log a writable path") from None


def _lines(path: Path) -> Iterator[Record]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("schema") == SCHEMA:
            yield record
