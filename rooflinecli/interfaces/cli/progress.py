"""A progress bar on stderr, only once a run has taken a second and only on a terminal."""

from __future__ import annotations

import os
import sys
import time


class Progress:
    """`add` counts what is done; the bar appears after `after` seconds and leaves no trace when closed."""

    def __init__(self, total: int, unit: str = "points", after: float = 1.0):
        self.total, self.unit, self.after = max(total, 1), unit, after
        self.done, self.start, self.drawn = 0, time.monotonic(), 0.0
        self.visible = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self.visible and now - self.start > self.after and now - self.drawn > 0.1:
            self.drawn = now
            self._draw(now - self.start)

    def _draw(self, seconds: float) -> None:
        from rooflinecli.core.units import count, duration
        from rooflinecli.render.formats.terminal_style import bar

        rate = self.done / seconds
        left = duration((self.total - self.done) / rate, 2) if rate else "?"
        print(
            f"\r{bar(self.done / self.total)} {100 * self.done / self.total:3.0f} %  {count(self.done)} of {count(self.total)} {self.unit}, "
            f"{count(rate)}/s, {left} left\x1b[K",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
