"""What a sequence mixer is: the part of a layer that moves values between tokens, be it attention, a scan or a convolution.

A kind of mixer is one file of layers/attention. Its rows say what contracts; its mixer, one object on the row that is no
contraction, says everything else: the kernels of a pass and of a decode step, their FLOPs, what they cost backward, what is
kept and cached, what context parallelism sends, and how to write it down. The floors above ask it and know no kind.
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
    the busiest rank of a context-parallel ring over an even share, for mixers whose work grows along the sequence.
    imbalance: tokens of the busiest expert device over an even share. software: whose kernels run in training, library: in serving.
    cached: tokens of each sequence whose keys and values a pass over several tokens finds in the cache. documents: tokens of a document, of
    which many are packed into a sequence and attend to themselves alone.
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
    """What context parallelism brings together for one layer, in values: queries (outputs are as wide) and keys with values,
    per token; and the states of all sequences that a rank hands on. None: the mixer has no such thing."""

    queries: Number
    keys: Number | None = None
    state: Number | None = None


class Mixer(ABC):
    """One layer's sequence mixer. `sizes` are the axes on one device: those of its block, and B, S, T of the work."""

    @abstractmethod
    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        """FLOPs that the mathematics needs: over S queries, or for one token per sequence when decoding."""

    @abstractmethod
    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Kernels of a pass over S tokens, each with its gradient."""

    @abstractmethod
    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Kernels of one token per sequence, behind a context of T."""

    @abstractmethod
    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        """What ranks of a context-parallel group send each other."""

    @abstractmethod
    def text(self, sizes: Sizes) -> str:
        """Its sizes, for a person."""

    def ops(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Kernels of the pass that `mode` describes."""
        return (self.decode if mode.decode else self.prefill)(name, mode, sizes)

    def cached_tokens(self, tokens: Number) -> Number:
        """Of so many tokens of context, those whose values stay in the cache."""
        return tokens

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        """Values that each visible token leaves in the cache; none where the state has a fixed size."""
        return 0.0

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        """What `batch` sequences of `tokens` tokens leave in memory for the next token; a mixer with a state says its own."""
        kept = tokens if formats.ignores_sliding_window else self.cached_tokens(tokens)
        return memory.kv_cache_bytes(batch, kept, self.cached_values_per_token(sizes), formats.kv)

    def attention_score_bytes(self, formats: Formats, sizes: Sizes, dropout: bool) -> Number:
        """Bytes kept for the backward pass when nothing is fused, beside what the rows save."""
        return 0.0


class CompositeMixer(Mixer):
    """Two mixers of one layer, each a row of its own: what the layer keeps and sends is the sum of both."""

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
