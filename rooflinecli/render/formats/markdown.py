"""Blocks and tables as Markdown: for a pull request or a job summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rooflinecli.core.text import one_line
from rooflinecli.render.blocks import Block, Command, Drawing, Headline, Page, Pairs, Table


def draw(page: Page) -> str:
    """The blocks of an answer as Markdown."""
    return "\n\n".join("\n\n".join(map(_block, group)) for group in (*page.groups, *page.details))


def _block(block: Block) -> str:
    if isinstance(block, Headline):
        return f"### {cell(block.text)}"
    if isinstance(block, Pairs):
        title = f"**{cell(block.title)}**\n\n" if block.title else ""
        return title + table([("quantity", "value"), *block.rows], right=[1])
    if isinstance(block, Table):
        title = f"**{cell(block.title)}**\n\n" if block.title else ""
        numbers = [i for i, column in enumerate(block.columns) if i and not column.text]
        return title + table([[column.head for column in block.columns], *block.rows], right=numbers)
    if isinstance(block, Drawing):
        return block.words or "```\n" + "\n".join(block.lines) + "\n```"
    return f"```sh\n{block.words}\n```" if isinstance(block, Command) else cell(block.text)


def table(rows: Sequence[Sequence[object]], right: Iterable[int] = ()) -> str:
    """A Markdown table; the first row is its head. Columns in `right` are aligned to the right."""
    head, *body = [[cell(item) for item in row] for row in rows]
    numbers = set(right)
    rule = ["---:" if i in numbers else "---" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *body])


def cell(item: object) -> str:
    """One line of text that ends no cell and opens no HTML."""
    return one_line(str(item)).replace("<", "&lt;").replace("|", "\\|")
