"""Prompts computed before, block by block: least recently used first out, those in use never; tiers behind take what goes out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from rooflinecli.simulate.request import SimRequest

Key = int | str


class KvTier:
    """Blocks that the device had no room for: `room` tokens of them, each back in `seconds`; one transfer at a time."""

    def __init__(self, name: str, room: int, seconds: float):
        self.name, self.room, self.seconds = name, room, seconds
        self.blocks: OrderedDict[Key, int] = OrderedDict()  # key -> tokens
        self.held = self.loaded = 0
        self.free = 0.0  # instant from which the link is free

    def take(self, key: Key, tokens: int) -> list[tuple[Key, int]]:
        """A block comes down; what has to make room for it goes on down."""
        self.blocks[key] = tokens
        self.held += tokens
        out = []
        while self.held > self.room:
            gone, size = self.blocks.popitem(last=False)
            self.held -= size
            out.append((gone, size))
        return out

    def give(self, key: Key) -> int:
        """A block leaves for the device; its tokens."""
        tokens = self.blocks.pop(key)
        self.held -= tokens
        return tokens


class PrefixCache:
    """Blocks of prompts on one replica. A block's key stands for everything up to its end, so a prefix is a run of keys.

    `saved` is how many tokens sequences under way would take beyond what they take together.
    """

    def __init__(self, tiers: Sequence[KvTier] = ()) -> None:
        self.blocks: OrderedDict[Key, list[int]] = OrderedDict()  # key -> [sequences that use it, tokens]
        self.idle = 0  # tokens of blocks that nobody uses
        self.saved = 0
        self.tiers = tuple(tiers)

    def reset_copy(self) -> PrefixCache:
        """An empty one of the same tiers, which go on counting what they brought back."""
        tiers = [KvTier(tier.name, tier.room, tier.seconds) for tier in self.tiers]
        for tier, old in zip(tiers, self.tiers, strict=True):
            tier.loaded = old.loaded
        return PrefixCache(tiers)

    def known(self, job: SimRequest) -> int:
        """Tokens at the head of a prompt that are on the device."""
        found = 0
        for key in job.hashes:
            if key not in self.blocks:
                break
            found += job.span
        return min(found, job.prompt)

    def pinned_tokens(self, job: SimRequest) -> int:
        """Of those, the tokens that sequences under way hold anyway."""
        found = 0
        for key in job.hashes:
            block = self.blocks.get(key)
            if block is None or not block[0]:
                break
            found += block[1]
        return min(found, job.prompt)

    def fetch(self, job: SimRequest, instant: float, room: int) -> float:
        """Bring the head of a prompt back from the tiers, as far as it is anywhere; the instant at which all of it is there."""
        wanted: dict[KvTier, list[Key]] = {}
        run: list[Key] = []
        for key in job.hashes[: (job.prompt - 1) // job.span if job.span else 0]:
            if key not in self.blocks:
                tier = next((t for t in self.tiers if key in t.blocks), None)
                if tier is None:
                    break
                wanted.setdefault(tier, []).append(key)
            run.append(key)
            if len(run) * job.span >= room:
                break
        ready = instant
        for tier, keys in wanted.items():
            size = 0
            for key in keys:
                self.blocks[key] = [0, tier.give(key)]
                size += self.blocks[key][1]
            self.idle += size
            tier.loaded += size
            tier.free = max(tier.free, instant) + size * tier.seconds
            ready = max(ready, tier.free)
        for key in reversed(run):  # heads last, so that they are dropped last
            self.blocks.move_to_end(key)
        self.shrink(room)
        return ready

    def enter(self, job: SimRequest) -> int:
        """A prompt begins: its whole blocks are held from now on. Returns the tokens that were here already."""
        known = self.known(job)
        whole = job.hashes[: job.prompt // job.span] if job.span else ()
        for key in reversed(whole):  # heads last, so that they are dropped last
            block = self.blocks.get(key)
            if block is None:
                self._forget(key)
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

    def leave(self, job: SimRequest) -> None:
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
        """Nobody's blocks go, oldest first, until the rest fits into `room` tokens: down a tier, from the last one out."""
        if self.idle <= room:
            return
        out, left = [], self.idle - max(room, 0)
        for key, (references, tokens) in self.blocks.items():
            if not references:
                out.append((key, tokens))
                left -= tokens
                if left <= 0:
                    break
        for key, tokens in out:
            del self.blocks[key]
            self.idle -= tokens
            self._down(key, tokens)

    def _down(self, key: Key, tokens: int) -> None:
        falling = [(key, tokens)]
        for tier in self.tiers:
            falling = [gone for block in falling for gone in tier.take(*block)]
            if not falling:
                return

    def _forget(self, key: Key) -> None:
        """A block that is computed again is no longer wanted from a tier."""
        for tier in self.tiers:
            if key in tier.blocks:
                tier.give(key)
