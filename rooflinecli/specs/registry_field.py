"""A field of a model's file whose values are the files of a folder, for validation and for the JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import AfterValidator, WithJsonSchema

from rooflinecli.specs.registry import canonical


def one_of(folder: str, kinds: Callable[[str], tuple[str, ...]]) -> tuple[Any, ...]:
    """What annotates such a field; `kinds` lists a folder, and is asked again for each value."""

    def known(kind: str) -> str:
        kind = canonical(folder, kind)
        if kind not in kinds(folder):
            raise ValueError(f"unknown kind '{kind}'; expected one of {', '.join(kinds(folder))}")
        return kind

    return AfterValidator(known), WithJsonSchema({"type": "string", "enum": list(kinds(folder))})
