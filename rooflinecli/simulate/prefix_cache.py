"""Prefix cache of a replica: blocks in use stay, idle ones are evicted least recently used first, into the KV offload tiers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from rooflinecli.simulate.request import SimRequest

Key = int | str


class KvTier:
    """Blocks evicted from the device: room for `room` tokens, each reloaded in `seconds`; one transfer at a time."""

    def __init__(self, name: str, room: int, seconds: float):
        self.name, self.room, self.seconds = name, room, seconds
        self.blocks: OrderedDict[Key, int] = OrderedDict()  # key -> tokens
        self.stored = self.loaded = 0
        self.free = 0.0  # instant from which the link is free

    def take(self, key: Key, tokens: int) -> list[tuple[Key, int]]:
        """Store a block; return the blocks evicted for it."""
        self.blocks[key] = tokens
        self.stored += tokens
        evicted = []
        while self.stored > self.room:
            old, size = self.blocks.popitem(last=False)
            self.stored -= size
            evicted.append((old, size))
        return evicted

    def give(self, key: Key) -> int:
        """Remove a block; return its tokens."""
        tokens = self.blocks.pop(key)
        self.stored -= tokens
        return tokens


class PrefixCache:
    """Prompt blocks on one replica. A block's key covers everything up to its end, so a prefix is a run of keys.

    `saved`: tokens that running sequences share, so that the pool holds them once.
    """

    def __init__(self, tiers: Sequence[KvTier] = ()) -> None:
        self.blocks: OrderedDict[Key, list[int]] = OrderedDict()  # key -> [sequences that use it, tokens]
        self.idle = 0  # tokens of blocks that no sequence uses
        self.saved = 0
        self.tiers = tuple(tiers)

    def reset_copy(self) -> PrefixCache:
        """An empty cache with the same tiers, which go on counting what they reloaded."""
        tiers = [KvTier(tier.name, tier.room, tier.seconds) for tier in self.tiers]
        for tier, old in zip(tiers, self.tiers, strict=True):
            tier.loaded = old.loaded
        return PrefixCache(tiers)

    def known(self, job: SimRequest) -> int:
        """Tokens at the head of a prompt that are on the device."""
        tokens = 0
        for key in job.hashes:
            if key not in self.blocks:
                break
            tokens += job.span
        return min(tokens, job.prompt)

    def pinned_tokens(self, job: SimRequest) -> int:
        """Of those, the tokens that running sequences use."""
        tokens = 0
        for key in job.hashes:
            block = self.blocks.get(key)
            if block is None or not block[0]:
                break
            tokens += block[1]
        return min(tokens, job.prompt)

    def fetch(self, job: SimRequest, instant: float, room: int) -> float:
        """Reload the head of a prompt from the tiers, as far as they have it; return the instant at which it is on the device."""
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
        """A prompt starts to use its whole blocks. Returns the tokens that were cached."""
        known = self.known(job)
        whole = job.hashes[: job.prompt // job.span] if job.span else ()
        for key in reversed(whole):  # heads last, so that they are dropped last
            block = self.blocks.get(key)
            if block is None:
                for tier in self.tiers:  # a block that is computed again is not needed from a tier
                    if key in tier.blocks:
                        tier.give(key)
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
        """The sequence no longer uses its blocks; they stay until the room is needed."""
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
        """Evict idle blocks, oldest first, until the rest fit into `room` tokens: each tier takes the ones evicted above it."""
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
            evicted = [(key, tokens)]
            for tier in self.tiers:
                evicted = [gone for block in evicted for gone in tier.take(*block)]
