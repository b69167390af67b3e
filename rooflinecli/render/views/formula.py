"""Formulas: the list, the page of one, and its value."""

from __future__ import annotations

from itertools import groupby

from rooflinecli.core.derivation_text import explain
from rooflinecli.formulas.catalogue import every
from rooflinecli.questions.formula.question import FormulaAnswer, FormulaList
from rooflinecli.render.blocks import Command, Drawing, Headline, Page, Pairs, Prose, page


def view(r: FormulaAnswer | FormulaList) -> Page:
    """A list by module; the arithmetic and source of one formula; or its value on one line."""
    if isinstance(r, FormulaList):
        return page(
            *(
                [Pairs([(f.formula, f"[{f.unit}]  {f.summary}") for f in formulas], title=module)]
                for module, formulas in groupby(r.formulas, lambda f: f.module)
            )
        )
    if r.value is not None:
        return page([Headline(explain(r.value, 1).splitlines()[0])])
    entry = every()[r.formula]
    arguments = " ".join(f"{name}=..." for name in r.parameters or ())
    return page(
        [Headline(entry.signature)],
        [Prose(entry.doc)],
        [Drawing([f"  {r.symbol} [{r.unit}]", *(f"    {line}" for line in (r.arithmetic or "").splitlines())])],
        [Prose(f"source: {r.source}", indent=2), Command(f"roofline formula {r.formula} {arguments}".rstrip())],
    )
