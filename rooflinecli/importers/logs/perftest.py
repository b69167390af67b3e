"""perftest (ib_write_bw, ib_send_bw, ib_read_bw): bandwidth by message size; the header states Gb/s or MB/s (in fact MiB/s)."""

from __future__ import annotations

import re

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "perftest"
_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[(\w+)/sec\]\s+BW average\[(\w+)/sec\]")
_SCALE = {"Gb": 1e9 / 8, "MB": 2.0**20, "MiB": 2.0**20}


def claims(source: Source) -> bool:
    return bool(_HEAD.search(source.plain))


def read(source: Source) -> list[MeasuredRow]:
    found: list[MeasuredRow] = []
    scale = None
    for line, text in enumerate(source.lines, start=1):
        if match := _HEAD.search(text):
            if match[2] not in _SCALE:
                raise DataError(f"{source.at(line)}: BW average in {match[2]}/sec; expected {' or '.join(_SCALE)}")
            scale = _SCALE[match[2]]
            continue
        cells = text.split()
        if scale and len(cells) >= 4 and all(positive(c) is not None or c.startswith("0.") for c in cells[:5]):
            size, average = positive(cells[0]), positive(cells[3])  # the peak is 0.00 in endless runs
            if size and average:
                probe = {"op": "permute", "bytes": size, "n": 2, "streamed": True}
                found.append(MeasuredRow(source.at(line), TOOL, "collective", size / (average * scale), probe=probe))
        elif scale and text.lstrip().startswith(("---", "```")):
            scale = None  # other lines are warnings
    return found
