"""Answers for interfaces that show warnings and sources beside them: MCP and the web."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from rooflinecli.core.errors import RooflineWarning
from rooflinecli.engine import build_request
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model

_ONE = threading.Lock()  # warnings belong to the whole process


def asked(answer: Callable[[], dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
    """`answer`, what the command line would warn of beside it, and the sources its figures come from.

    Raises the errors of rooflinecli.core.errors.
    """
    with _ONE, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RooflineWarning)
        found = answer()
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, RooflineWarning))
    return {"answer": found, "remarks": list(texts), "sources": sources(options)}


def without_warnings(answer: Callable[[], Any]) -> Any:
    """An answer alone, one at a time."""
    with _ONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", RooflineWarning)
        return answer()


def sources(options: dict[str, Any]) -> dict[str, Any]:
    """Where the figures of a model and of chips come from, to be cited; nothing of what is not given."""
    found: dict[str, Any] = {}
    if options.get("model"):
        found["model"] = load_model(str(options["model"])).source
    chips = options.get("hw") or options.get("hardware") or ""
    for chip in filter(None, (chips if isinstance(chips, str) else ",".join(map(str, chips))).split(",")):
        spec = load_hardware(build_request.named({"model": "-", "hw": chip.strip()})["hw"])
        found.setdefault("hardware", {})[chip] = {key: str(text) for key, text in spec.sources.items()}
    return found
