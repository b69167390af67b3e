"""Blocks of an answer as HTML."""

from __future__ import annotations

from rooflinecli.core.record import Record
from rooflinecli.render.blocks import Block, Command, Drawing, Headline, Note, Page, Pairs, Table
from rooflinecli.render.report.html import EscapedHtml, join, pairs, table, tag


def whole(answer: Record, page: Page) -> str:
    """A self-contained page of an answer: its pictures, its blocks, and its JSON inside."""
    from rooflinecli.render.answer import to_json
    from rooflinecli.render.report.page import document, embedded

    name = str(getattr(answer, "schema", "")).split("/")[1:2]
    title = " ".join(["roofline", *name])
    body = tag("main", draw(page), shown(answer))
    return document(title, tag("header", tag("h1", title)), body, embedded(to_json(answer)))


def shown(answer: Record) -> EscapedHtml:
    """The pictures of an answer."""
    from rooflinecli.render.report.charts import picture
    from rooflinecli.render.views.pictures import pictures

    return join(
        [tag("section", tag("h2", p.title), picture(p, f"picture-{i}")) for i, p in enumerate(pictures(answer))]
    )


def draw(page: Page) -> EscapedHtml:
    """The blocks of an answer, its details folded."""
    groups, details = (
        [tag("section", [*map(_block, group)]) for group in part] for part in (page.groups, page.details)
    )
    more = tag("details", tag("summary", f"More: {page.about}"), details) if details else None
    return tag("div", groups, more, class_="blocks")


def _block(block: Block) -> EscapedHtml:
    if isinstance(block, Headline):
        return tag("h2", block.text)
    if isinstance(block, Pairs):
        return join(tag("h3", block.title) if block.title else None, pairs(block.rows))
    if isinstance(block, Table):
        right = {i for i, column in enumerate(block.columns) if i and not column.text}
        rows = [[tag("span", cell, class_="figure" if i in right else None) for i, cell in enumerate(row)] for row in block.rows]  # fmt: skip
        head = [column.head.replace("\n", " ") for column in block.columns]
        return table(block.title or "Answer", head, rows, hidden=not block.title)
    if isinstance(block, Drawing):
        return tag(
            "pre", "\n".join(block.lines), role="img", aria_label=block.words or None, class_="scroll", tabindex=0
        )
    if isinstance(block, Command):
        return tag("pre", tag("code", block.words), class_="scroll", tabindex=0)
    return tag("p", block.text, class_="note" if isinstance(block, Note) else None)
