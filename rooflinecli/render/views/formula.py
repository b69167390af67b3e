"""Formulas as text: the list, one formula's page, its value at given numbers and how that follows."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.derivation import Formula
from rooflinecli.formulas.catalogue import every
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE


def listing(width: int = PIPE) -> str:
    formulas = every()
    rows = [(f"  {name}", f"[{e.unit}]  {e.doc.splitlines()[0] if e.doc else ''}") for name, e in formulas.items()]
    blocks = terminal.pairs_apart(rows, width)
    lines, module = [], ""
    for entry, block in zip(formulas.values(), blocks, strict=True):
        if entry.module != module:
            module = entry.module
            lines += ["", *terminal.prose(module.rpartition(".")[2], width)]
        lines += block
    return "\n".join(lines).lstrip("\n")


def page(entry: Formula, parameters: list[str], fmt: str = "table") -> str:
    """What a formula is, before any numbers."""
    if fmt != "table":
        return _sheet({**_head(entry), "parameters": parameters, "arithmetic": entry.body}, fmt)
    body = "\n".join(f"    {line}" for line in entry.body.splitlines())
    try_it = f"roofline formula {entry.name} {' '.join(f'{name}=...' for name in parameters)}".rstrip()
    return (
        f"{entry.signature}\n\n{entry.doc}\n\n  {entry.symbol} [{entry.unit}]\n{body}\n\n  source: {entry.source}\n"
        f"  evaluate: {try_it}"
    )


def value(entry: Formula, result: Any, arguments: dict[str, float], fmt: str) -> str:
    """The value for people on one line, or everything for programs."""
    if fmt == "table":
        return derivation(result, 1).splitlines()[0]
    return _sheet({**_head(entry), "value": result, "arguments": arguments}, fmt)


def derivation(result: Any, depth: int) -> str:
    from rooflinecli.core.derivation_text import explain

    return explain(result, depth)


def _head(entry: Formula) -> dict[str, Any]:
    return {
        "schema": "roofline/formula/1",
        "formula": entry.name,
        "symbol": entry.symbol,
        "unit": entry.unit,
        "source": entry.source,
    }


def _sheet(answer: dict[str, Any], fmt: str) -> str:
    from rooflinecli.questions.calculator import CalculatorAnswer
    from rooflinecli.render.answer import render
    from rooflinecli.render.views.record import view

    values = {name: value for name, value in answer.items() if name != "schema"}
    return render(CalculatorAnswer(schema=answer["schema"], values=values), view, fmt, 120)
