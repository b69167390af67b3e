"""HTML as strings: tags whose text is escaped, figures that say where in the embedded JSON they come from, derivations that unfold."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from rooflinecli.core.derivation import Traced
from rooflinecli.core.derivation_text import quantity, step
from rooflinecli.core.record import Json
from rooflinecli.render.numbers import text as quantity_text

VOID = ("meta", "link", "br", "hr", "line", "circle", "rect", "path", "polyline", "polygon")
MOST = 6000  # numbers of derivations on one page; deeper ones are named, and `--explain` shows them


class EscapedHtml(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> EscapedHtml:
    """`<name ...>children</name>`. A trailing _ and inner _ of an attribute become nothing and a dash; None leaves it out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return EscapedHtml(f"<{name}{written}>" if name in VOID[:4] else f"<{name}{written}/>")
    return EscapedHtml(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: object) -> EscapedHtml:
    """Children one after the other; lists are taken apart, plain text escaped, None left out."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, EscapedHtml):
            parts.append(child)
        elif isinstance(child, (list, tuple)):
            parts.append(join(*child))
        elif child is not None:
            parts.append(escape(str(child)))
    return EscapedHtml("".join(parts))


class EmbeddedFigures:
    """Numbers of the report by their path in its JSON, as `<data value=... data-path=...>text</data>`."""

    def __init__(self, data: Json):
        self.data = data

    def __call__(self, path: str, text: str | None = None) -> EscapedHtml:
        """The value at `path` for people; `text` when its key does not say how."""
        value: Any = self.data
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value.get(key)
        if value is None:
            return EscapedHtml("–")
        keys = [key for key in path.split(".") if not key.isdigit()]
        return tag("data", quantity_text(value, keys[-1]) if text is None else text, value=repr(value), data_path=path)


def table(
    caption: str, head: Sequence[object], rows: Sequence[Sequence[object]], *, hidden: bool = False
) -> EscapedHtml:
    """A table with a caption and scoped headers; the first cell of a row heads it. It scrolls sideways where it is too wide."""
    top = tag("tr", [tag("th", cell, scope="col") for cell in head])
    body = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in rows]
    return tag(
        "div",
        tag(
            "table", tag("caption", caption, class_="quiet" if hidden else None), tag("thead", top), tag("tbody", body)
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def pairs(entries: Sequence[tuple[object, object]]) -> EscapedHtml:
    """A list of name and value."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in entries])


class DerivationTree:
    """Derivations of one page as nested <details>: each named number unfolds into the arithmetic that ran and the numbers under it.

    A number that was shown is not shown again but pointed at.
    """

    def __init__(self) -> None:
        self.shown: dict[int, str] = {}
        self.kept: list[Traced] = []  # ids stay unique while the numbers live

    def root(self, path: str, number: Traced) -> EscapedHtml:
        """The derivation of the quantity at `path` of the estimate."""
        return self._number(number, tag("code", path), data_path=path, data_value=repr(number.value))

    def _number(self, number: Traced, name: EscapedHtml, **data: str) -> EscapedHtml:
        if number.op == "leaf":
            return tag("p", name, f" = {quantity(number)} ", tag("span", number.source, class_="source"), class_="leaf")
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
