"""A derivation as nested <details>: each named number unfolds into the arithmetic that ran and the numbers under it."""

from __future__ import annotations

from rooflinecli.core.derivation import Traced
from rooflinecli.core.derivation_text import quantity, step
from rooflinecli.render.report.html import EscapedHtml, join, tag

MOST = 6000  # numbers on one page; deeper ones are named, and `--explain` shows them


class DerivationTree:
    """Derivations of one page: a number that was shown is not shown again but pointed at."""

    def __init__(self) -> None:
        self.shown: dict[int, str] = {}
        self.kept: list[Traced] = []  # ids stay unique while the numbers live

    def root(self, path: str, number: Traced) -> EscapedHtml:
        """The derivation of the quantity at `path` of the estimate."""
        return self._number(number, tag("code", path), data_path=path, data_value=repr(number.value))

    def _number(self, number: Traced, name: EscapedHtml, **data: str) -> EscapedHtml:
        if number.op == "leaf":
            return tag(
                "p",
                name,
                f" = {quantity(number)} ",
                tag("span", number.source, class_="source"),
                class_="leaf",
            )
        head = (name, f" = {quantity(number)}")
        if id(number) in self.shown:
            return tag("p", head, " ", tag("a", "above", href=f"#{self.shown[id(number)]}"), class_="leaf")
        if len(self.shown) >= MOST:
            return tag("p", head, class_="leaf")
        ident = f"d{len(self.shown) + 1}"
        self.shown[id(number)] = ident
        self.kept.append(number)
        return tag("details", tag("summary", head), tag("div", self._inside(number), class_="inside"), id=ident, **data)

    def _inside(self, number: Traced) -> EscapedHtml:
        """The expression, the same with figures, the source of the formula, the numbers it names."""
        text, figures, origin, parts = step(number)
        return join(
            tag("p", f"= {text}", class_="math"),
            tag("p", f"= {figures}", class_="math") if figures != text else None,
            tag("p", origin, class_="source") if origin else None,
            [self._number(part, tag("code", part.symbol or "value")) for part in parts],
        )
