"""Softmax attention, the mixer of every attention kind that scores each query against each key it sees.

Fused, scores never leave the chip, and the backward pass takes five matmuls where forward took two (q k^T is computed again
inside the kernel; Dao 2023, section 3.1). Without a fused kernel scores and probabilities go through memory, over every
pair of query and key: two batched matmuls with a softmax between them, and four matmuls backward.
"""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import INF, Number
from rooflinecli.core.units import count
from rooflinecli.formulas import attention, counts, memory
from rooflinecli.ledger.ledger import MEMORY, Axes, Sizes, elements
from rooflinecli.ledger.mixer import ContextParallelTraffic, CountingMode, Mixer
from rooflinecli.ledger.ops import Gradient, Op
from rooflinecli.quantization.formats import Formats

TILE = 128.0  # query rows of a work item of fused attention
FUSED = 2.5  # FLOPs of the backward pass over the forward ones
UNFUSED = 2.0
LATENT_HEADS = 64.0  # heads of a work item of decode over a latent: they read it once
ALIGNMENT = 8  # elements; tensor cores want rows of 16 bytes


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(Mixer):
    """Query heads over shared KV heads, by axis name; bounds of the keys; tensors cached per token."""

    heads: str = "N"
    kv_heads: str = "K"
    qk: str = "H"
    v: str = "H"
    cached: tuple[Axes, ...] = (("K", "H"), ("K", "H"))
    window: int | None = None
    chunk: int | None = None
    causal: bool = True

    @property
    def reach(self) -> Number:
        """Keys that a query sees at most."""
        return self.window or self.chunk or INF

    def pairs(self, mode: CountingMode, queries: Number, keys: Number) -> Number:
        """Query-key pairs per head of one sequence's share on this device (queries may be a context-parallel part of keys)."""
        whole, rest = self._all_pairs(mode, keys), keys
        if mode.cached is not None:  # queries come after the cached tokens and see them too
            whole, rest = whole - self._all_pairs(mode, mode.cached), keys - mode.cached
        return whole if queries is keys else whole * (queries / rest)

    def _all_pairs(self, mode: CountingMode, keys: Number) -> Number:
        """Pairs of a whole sequence with itself, or of the documents that are packed into it."""
        if mode.documents is None:
            return self._document_pairs(mode, keys)
        length = num.minimum(mode.documents, keys)
        return attention.packed_pairs(keys, length, self._document_pairs(mode, length))

    def _document_pairs(self, mode: CountingMode, keys: Number) -> Number:
        """Pairs of the tokens of one document."""
        if mode.full_attention or not self.causal:
            return attention.full_pairs(keys, self.reach)
        if self.chunk:
            return attention.chunked_pairs(keys, self.chunk)
        return attention.causal_pairs(keys, self.window or INF)

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        if mode.decode:
            return self._token_flops(sizes)
        pairs = self.pairs(mode, sizes["S"], sizes["T"])
        return attention.attention_core_flops(sizes["B"], sizes[self.heads], pairs, sizes[self.qk], sizes[self.v])

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return [self._fused(name, mode, sizes)] if mode.flash else self._unfused(name, mode, sizes)

    def _fused(self, name: str, mode: CountingMode, sizes: Sizes) -> Op:
        b, s, t = sizes["B"], sizes["S"], sizes["T"]
        shared, width = sizes[self.kv_heads], sizes[self.qk] + sizes[self.v]
        moved = self._traffic(mode.formats, sizes)
        seen = t if mode.documents is None else num.minimum(mode.documents, t)
        return Op(
            name=name, kind="prefill_attention", dtype=mode.formats.attention_compute, flops=late_rank_pairs(self.flops(mode, sizes), mode),
            bytes=moved, k=num.minimum(seen, self.reach + TILE), n=width / 2, quantized=b * s * shared * width,
            ramp=s / self.pairs(mode, s, t), items=b * sizes[self.heads] * s / TILE, length=seen, variant=mode.software,
            gradient=Gradient(FUSED, moved * 2, scores=True),
        )  # fmt: skip

    def _traffic(self, formats: Formats, sizes: Sizes) -> Number:
        """Least bytes of a fused pass."""
        b, s, t, heads, shared, qk, v = (sizes[a] for a in ("B", "S", "T", self.heads, self.kv_heads, self.qk, self.v))
        return attention.flash_attention_bytes(b, s, t, heads, shared, qk, v, formats.activation, formats.activation)

    def _unfused(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Scores and weighted values as one class of matmul, and softmax (with dropout) between them, its scores as `k`."""
        f, dropout = mode.formats, float(mode.dropout)
        b, s, t, heads, qk, v = (sizes[a] for a in ("B", "S", "T", self.heads, self.qk, self.v))
        moved = self._traffic(f, sizes) + attention.unfused_scores_bytes(b, heads, s, t, f.activation) / 2
        scored = b * heads * s * t
        aligned = num.value(qk) % ALIGNMENT == 0 and num.value(v) % ALIGNMENT == 0
        matmuls = Op(
            name=name, kind="scores", dtype=f.attention_compute,
            flops=late_rank_pairs(attention.attention_core_flops(b, heads, s * t, qk, v), mode), bytes=moved, k=qk,
            variant="" if aligned else "unaligned", gradient=Gradient(UNFUSED, moved * 2, scores=True),
        )  # fmt: skip
        softmax = Op(
            name="attention.softmax",
            kind="elementwise",
            dtype=f.compute,
            flops=0.0,
            bytes=attention.score_traffic(scored, f.activation, dropout),
            k=scored,
            gradient=Gradient(1.0, attention.score_gradient_traffic(scored, f.activation, dropout), scores=True),
        )
        return [matmuls, softmax]

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """One query per sequence against its cache."""
        shared = sizes[self.kv_heads]
        token = self._token(name, "decode_attention", mode, sizes, sizes["B"] * shared)
        return [token._replace(sharing=sizes[self.heads] / shared, variant="" if mode.flash else "unfused")]

    def _token(self, name: str, kind: str, mode: CountingMode, sizes: Sizes, items: Number) -> Op:
        f, b, heads = mode.formats, sizes["B"], sizes[self.heads]
        keys, (qk, v) = self.cached_tokens(sizes["T"]), self._token_widths(sizes)
        cached = counts.bytes_of(b * keys * self._widths_cached(sizes), f.kv)
        return Op(
            name=name, kind=kind, dtype=f.attention_compute, flops=self._token_flops(sizes),
            bytes=cached + counts.bytes_of(queries_per_sequence(sizes) * heads * (qk + v), f.activation), k=keys, n=(qk + v) / 2,
            items=items,
        )  # fmt: skip

    def _token_flops(self, sizes: Sizes) -> Number:
        keys, (qk, v) = self.cached_tokens(sizes["T"]), self._token_widths(sizes)
        return attention.attention_core_flops(queries_per_sequence(sizes), sizes[self.heads], keys, qk, v)

    def _token_widths(self, sizes: Sizes) -> tuple[Number, Number]:
        """Widths of a query and of an output in a decode step."""
        return sizes[self.qk], sizes[self.v]

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        kv, q = (sizes[heads] * sizes[self.qk] for heads in (self.kv_heads, self.heads))
        return ContextParallelTraffic(queries=q, keys=2 * kv)

    def cached_tokens(self, tokens: Number) -> Number:
        return num.minimum(tokens, self.reach)

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        """Bidirectional attention caches nothing: there is no next token."""
        return self._widths_cached(sizes) if self.causal else 0.0

    def _widths_cached(self, sizes: Sizes) -> Number:
        return elements(self.cached, sizes)

    def attention_score_bytes(self, formats: Formats, sizes: Sizes, dropout: bool) -> Number:
        pairs = sizes["S"] * sizes["T"]
        return memory.score_activations(sizes["B"], sizes[self.heads], pairs, formats.activation, float(dropout))

    def text(self, sizes: Sizes) -> str:
        b, s, t, heads, shared, width = (count(sizes[a]) for a in ("B", "S", "T", self.heads, self.kv_heads, self.qk))
        bound = (
            f", window {count(self.window)}" if self.window else f", chunk {count(self.chunk)}" if self.chunk else ""
        )
        return f"{b} x {s} queries, {t} keys{bound}, {heads}/{shared} heads of {width}"


def late_rank_pairs(flops: Number, mode: CountingMode) -> Number:
    """FLOPs of the rank with the late tokens, which has the most pairs on a causal ring."""
    return flops if mode.uneven is None else flops * mode.uneven


def queries_per_sequence(sizes: Sizes) -> Number:
    """Queries of a decode step: one per sequence, or as many as speculation verifies at once."""
    b, s = sizes["B"], sizes["S"]
    return b if s.__class__ is float and s == 1.0 else b * s


class AsymmetricGqa(Softmax):
    """Softmax attention that sends keys and values as wide as each is."""

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        keys = sizes[self.kv_heads] * (sizes[self.qk] + sizes[self.v])
        return ContextParallelTraffic(queries=sizes[self.heads] * sizes[self.qk], keys=keys)


@dataclass(frozen=True, eq=False, repr=False)
class Differential(Softmax):
    """Two passes over the same queries and keys; these are cached, and sent, once."""

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        return ContextParallelTraffic(
            queries=sizes[self.heads] * sizes["H"], keys=2 * sizes[self.kv_heads] * sizes["H"]
        )


class SharedKv(Softmax):
    """Softmax attention that leaves nothing in the cache."""

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Latent(Softmax):
    """Attention as of any heads over a prompt; a decode step reads latents that all heads share."""

    def _fused(self, name: str, mode: CountingMode, sizes: Sizes) -> Op:
        """Heads 192 wide against values 128 wide: kernels that have constants of their own in serving."""
        op = super()._fused(name, mode, sizes)
        return op._replace(variant=f"latent@{mode.library}") if mode.library else op

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        items = sizes["B"] * num.ceil(sizes[self.heads] / LATENT_HEADS)
        return [self._token(name, "latent_attention", mode, sizes, items)]

    def _token_widths(self, sizes: Sizes) -> tuple[Number, Number]:
        return sizes["L"], sizes["R"]


@dataclass(frozen=True, eq=False, repr=False)
class Cross(Softmax):
    """Every query against every token that the tower read."""

    causal: bool = False

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return super().flops(_without_decoder_cache(mode), _memory_as_keys(sizes))

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return super().prefill(name, _without_decoder_cache(mode), _memory_as_keys(sizes))

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return super().decode(name, mode, _memory_as_keys(sizes))

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        return 0.0

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        return memory.kv_cache_bytes(batch, sizes[MEMORY], self._widths_cached(sizes), formats.kv)

    def attention_score_bytes(self, formats: Formats, sizes: Sizes, dropout: bool) -> Number:
        return super().attention_score_bytes(formats, _memory_as_keys(sizes), dropout)

    def text(self, sizes: Sizes) -> str:
        b, s, m, heads, width = (count(sizes[a]) for a in ("B", "S", MEMORY, self.heads, self.qk))
        return f"{b} x {s} queries, {m} keys of the encoder, {heads} heads of {width}"


def _memory_as_keys(sizes: Sizes) -> Sizes:
    """The sizes with the tower's tokens as keys."""
    return {**sizes, "T": sizes[MEMORY]}


def _without_decoder_cache(mode: CountingMode) -> CountingMode:
    """Nothing of the decoder's own cache or ring concerns it."""
    return mode if mode.cached is None and mode.uneven is None else replace(mode, cached=None, uneven=None)


@dataclass(frozen=True, eq=False, repr=False)
class ImageAlone(Softmax):
    """The image's tokens among themselves."""

    causal: bool = False

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return super().flops(mode, _image(sizes))

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return super().prefill(name, mode, _image(sizes))


def _image(sizes: Sizes) -> Sizes:
    """The sizes with the image's tokens as queries and keys."""
    return {**sizes, "S": sizes["I"], "T": sizes["T"] - sizes["text"]}
