"""Rules that textbooks and papers teach and no estimate needs, which counts from the ledger what these approximate: rows of textbook.yaml."""

from __future__ import annotations

from pathlib import Path

import yaml

from rooflinecli.core.derivation import formula_of
from rooflinecli.formulas import roofline

_NAMES = dict(vars(roofline))  # what a row may call; the rows themselves come to it
_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_WORKS = _TABLE.pop("works")

for _work, _rows in _TABLE.items():
    for _name, _row in _rows.items():
        _cited = f"{_WORKS[_work]}, {_row['source']}" if _work in _WORKS else _row["source"]
        _NAMES[_name] = globals()[_name] = formula_of(_name, {**_row, "source": _cited}, __name__, _NAMES)
