"""The progress bar: silent when quick or piped, gone when done."""

from __future__ import annotations

import io
import sys

import pytest

from rooflinecli.interfaces.cli.output import Progress, counting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "after", "shown"), [(Terminal(), 0.0, True), (Terminal(), 60.0, False), (io.StringIO(), 0.0, False)]
)
def test_when_it_shows(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, after: float, shown: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    bar = Progress(1000, after=after)
    bar.add(500)
    text = stream.getvalue()
    assert ("50%" in text and "500/1000" in text and "points" in text) == shown
    bar.close()
    assert ("\x1b[2K" in stream.getvalue().removeprefix(text)) == shown


def test_items_of_a_map_are_counted_with_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    bar = Progress(1000, after=0.0)
    bar.start -= 100.0
    bar.add(500)
    assert "5/s" in stream.getvalue()
    bar.close()
    workers = counting(lambda function, items: map(function, items), "models")
    assert list(workers(abs, [-1, 2, -3])) == [1, 2, 3]
