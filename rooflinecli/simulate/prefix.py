"""Prompts computed before, block by block: least recently used first out, those in use never."""

from __future__ import annotations

from collections import OrderedDict

from rooflinecli.simulate.job import Job

Key = int | str


class Store:
    """Blocks of prompts on one replica. A block's key stands for everything up to its end, so a prefix is a run of keys.

    `saved` is how many tokens sequences under way would take beyond what they take together.
    """

    def __init__(self) -> None:
        self.blocks: OrderedDict[Key, list[int]] = OrderedDict()  # key -> [sequences that use it, tokens]
        self.idle = 0  # tokens of blocks that nobody uses
        self.saved = 0

    def known(self, job: Job) -> int:
        """Tokens at the head of a prompt that are here."""
        found = 0
        for key in job.hashes:
            if key not in self.blocks:
                break
            found += job.span
        return min(found, job.prompt)

    def pinned_part(self, job: Job) -> int:
        """Of those, the tokens that sequences under way hold anyway."""
        found = 0
        for key in job.hashes:
            block = self.blocks.get(key)
            if block is None or not block[0]:
                break
            found += block[1]
        return min(found, job.prompt)

    def enter(self, job: Job) -> int:
        """A prompt begins: its whole blocks are held from now on. Returns the tokens that were here already."""
        known = self.known(job)
        whole = job.hashes[: job.prompt // job.span] if job.span else ()
        for key in reversed(whole):  # heads last, so that they are dropped last
            block = self.blocks.get(key)
            if block is None:
                self.blocks[key] = [1, job.span]
                continue
            if block[0]:
                self.saved += block[1]
            else:
                self.idle -= block[1]
            block[0] += 1
            self.blocks.move_to_end(key)
        job.shared = len(whole)
        return known

    def leave(self, job: Job) -> None:
        """The sequence is over; its prompt stays until the room is needed."""
        for key in reversed(job.hashes[: job.shared]):
            block = self.blocks[key]
            block[0] -= 1
            if block[0]:
                self.saved -= block[1]
            else:
                self.idle += block[1]
            self.blocks.move_to_end(key)
        job.shared = 0

    def shrink(self, room: int) -> None:
        """Drop what nobody uses, oldest first, until it fits into `room` tokens."""
        if self.idle <= room:
            return
        for key in list(self.blocks):
            references, tokens = self.blocks[key]
            if not references:
                del self.blocks[key]
                self.idle -= tokens
                if self.idle <= room:
                    return
