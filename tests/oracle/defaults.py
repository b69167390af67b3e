"""What transformers' own configuration classes assume where a config omits a field, for the fields that rows of importers/hf name.

    pip install 'rooflinecli[oracle]' && python tests/oracle/defaults.py

Writes golden_defaults.json: model type -> field -> value. A field that the class does not have is left out: the row's value stands in for
one that files on the Hub carry, or for what the class computes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden_defaults.json")


def rows() -> dict[str, dict[str, Any]]:
    """Model type -> the defaults of its row."""
    from rooflinecli.importers.hf import rows

    return {
        name: rows.row(where, name)["defaults"]
        for where in ("families", "vision_encoders")
        for name in rows.texts(where)
    }


def assumed(kind: str, fields: dict[str, Any]) -> dict[str, Any] | None:
    """The values of these fields in a configuration of nothing but its type; None where transformers has no such type."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        return None
    config = CONFIG_MAPPING[kind]().to_dict()
    return {name: config[name] for name in fields if name in config}


def refresh() -> None:
    import transformers

    found = {kind: assumed(kind, fields) for kind, fields in sorted(rows().items())}
    lines = ",\n".join(f"  {json.dumps(kind)}: {json.dumps(values)}" for kind, values in found.items() if values)
    GOLDEN.write_text(
        f'{{"transformers": "{transformers.__version__}",\n "defaults": {{\n{lines}\n }}}}\n', encoding="utf-8"
    )
    print(f"{len(found)} types -> {GOLDEN}", file=sys.stderr)


if __name__ == "__main__":
    refresh()
