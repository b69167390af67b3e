"""One JSON object per line and point: streams into anything, and shards concatenate."""

from __future__ import annotations

from typing import TextIO

from rooflinecli.render.views.sweep import Chunk, objects


class Jsonl:
    def __init__(self, stream: TextIO, names: list[str], about: dict[str, object]):
        self.stream, self.names = stream, names

    def add(self, chunk: Chunk) -> None:
        self.stream.write("".join(text + "\n" for text in objects(chunk, self.names)))

    def close(self) -> None:
        pass
