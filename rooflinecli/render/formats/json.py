"""The contract's object as JSON: SI, the unit in the key, stable order."""

from __future__ import annotations

import json
import math


def dumps(result: object) -> str:
    """JSON text; whole floats of counts stay numbers, and no NaN or infinity leaves the program."""
    return json.dumps(_clean(result), indent=2, allow_nan=False)


def _clean(value: object) -> object:
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
