"""HTML as strings: tags whose text is escaped, and figures that say where in the embedded JSON they come from."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from rooflinecli.core.record import Json
from rooflinecli.render.numbers import text as quantity_text

VOID = ("meta", "link", "br", "hr", "line", "circle", "rect", "path", "polyline", "polygon")


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

    def at(self, path: str) -> object:
        """The value at a dotted path."""
        found: Any = self.data
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found.get(key)
        return found

    def __call__(self, path: str, text: str | None = None) -> EscapedHtml:
        """The value at `path` for people; `text` when its key does not say how."""
        value = self.at(path)
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
