"""Sequence mixers: the part of a layer that moves values between tokens, be it attention, a scan or a convolution.

A kind is one file of layers/attention, whose rows are its contractions; its mixer, one object on the row that is no
contraction, has everything else: the kernels of prefill and of a decode step, their FLOPs and gradients, what is saved and cached,
what context parallelism sends, and a text. The levels above know no kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import memory
from rooflinecli.ledger.ledger import Sizes
from rooflinecli.ledger.ops import Op
from rooflinecli.quantization.formats import Formats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CountingMode:
    """How a pass is counted, besides its sizes.

    decode: one token per sequence. full_attention: masked query-key pairs count too. flash: scores stay on the chip. uneven: work of
    the busiest rank of a context-parallel ring over the mean, for mixers whose work grows along the sequence.
    imbalance: tokens of the busiest expert device over the mean. software: framework whose kernels run in training, library: in serving.
    cached: tokens of each sequence that a prefill finds in the prefix cache. documents: tokens of a document, of which many are packed
    into a sequence and attend only to themselves.
    """

    formats: Formats
    decode: bool = False
    full_attention: bool = False
    flash: bool = True
    dropout: bool = False
    uneven: Number | None = None
    imbalance: Number | None = None
    software: str = ""
    library: str = ""
    cached: Number | None = None
    documents: Number | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContextParallelTraffic:
    """What context parallelism exchanges for one layer, in values: queries (outputs are as wide) and keys with values, per token; and
    the states of all sequences that a rank passes on. None: the mixer has none."""

    queries: Number
    keys: Number | None = None
    state: Number | None = None


class Mixer(ABC):
    """One layer's sequence mixer. `sizes` are the axes on one device: those of its block, and B, S, T of the work."""

    @abstractmethod
    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        """Model FLOPs: over S queries, or for one token per sequence in decode."""

    @abstractmethod
    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Kernels of a pass over S tokens, each with its gradient."""

    @abstractmethod
    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Kernels of one token per sequence after a context of T."""

    @abstractmethod
    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        """What the ranks of a context-parallel group exchange."""

    @abstractmethod
    def text(self, sizes: Sizes) -> str:
        """Its sizes, for a person."""

    def ops(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Kernels of prefill or decode, by `mode`."""
        return (self.decode if mode.decode else self.prefill)(name, mode, sizes)

    def cached_tokens(self, tokens: Number) -> Number:
        """Tokens of a context whose values stay in the cache."""
        return tokens

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        """Values that each visible token caches; 0 where the state has a fixed size."""
        return 0.0

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        """Bytes of the cache of `batch` sequences of `tokens` tokens; a mixer with a state overrides it."""
        kept = tokens if formats.ignores_sliding_window else self.cached_tokens(tokens)
        return memory.kv_cache_bytes(batch, kept, self.cached_values_per_token(sizes), formats.kv)

    def attention_score_bytes(self, formats: Formats, sizes: Sizes, dropout: bool) -> Number:
        """Bytes saved for the backward pass without fused attention, besides what the rows save."""
        return 0.0


class CompositeMixer(Mixer):
    """Two parallel mixers of one layer, each its own row: what the layer caches and sends is the sum of both."""

    def __init__(self, parts: tuple[Mixer, ...]):
        self.parts = parts

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return sum(part.flops(mode, sizes) for part in self.parts)

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return [op for part in self.parts for op in part.prefill(name, mode, sizes)]

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return [op for part in self.parts for op in part.decode(name, mode, sizes)]

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        sent = [part.exchange(sizes) for part in self.parts]
        keys, states = (
            [v for v in values if v is not None] for values in zip(*((e.keys, e.state) for e in sent), strict=True)
        )
        return ContextParallelTraffic(
            sum(e.queries for e in sent), sum(keys) if keys else None, sum(states) if states else None
        )

    def text(self, sizes: Sizes) -> str:
        return "; ".join(part.text(sizes) for part in self.parts)

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        return sum(part.cached_values_per_token(sizes) for part in self.parts)

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        return sum(part.cache_bytes(formats, sizes, batch, tokens) for part in self.parts)

    def attention_score_bytes(self, formats: Formats, sizes: Sizes, dropout: bool) -> Number:
        return sum(part.attention_score_bytes(formats, sizes, dropout) for part in self.parts)
