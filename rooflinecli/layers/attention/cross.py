"""Cross-attention (Vaswani et al. 2017, section 3.2.3): queries of the decoder, keys and values of what a tower read.

Keys and values are computed once for the prompt and stay as they are: the cache does not grow with what is written.
"""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.units import count
from rooflinecli.formulas import memory
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import MEMORY, Block, Row, Sizes, matmul
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.ledger.ops import Op
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES: dict[str, str] = {}
OPTIONAL = {"memory": "width of what is attended to; omitted: d_model"}


@dataclass(frozen=True, eq=False, repr=False)
class Cross(Softmax):
    """Every query against every token that the tower read."""

    causal: bool = False

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return super().flops(_alone(mode), _over(sizes))

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return super().prefill(name, _alone(mode), _over(sizes))

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return super().decode(name, mode, _over(sizes))

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        return 0.0

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        return memory.kv_cache_bytes(batch, sizes[MEMORY], self._widths_cached(sizes), formats.kv)

    def attention_score_bytes(self, formats: Formats, sizes: Sizes, dropout: bool) -> Number:
        return super().attention_score_bytes(formats, _over(sizes), dropout)

    def text(self, sizes: Sizes) -> str:
        b, s, m, heads, width = (count(sizes[a]) for a in ("B", "S", MEMORY, self.heads, self.qk))
        return f"{b} x {s} queries, {m} keys of the encoder, {heads} heads of {width}"


def _over(sizes: Sizes) -> Sizes:
    """The sizes with the tower's tokens as keys."""
    return {**sizes, "T": sizes[MEMORY]}


def _alone(mode: CountingMode) -> CountingMode:
    """Nothing of the decoder's own cache or ring concerns it."""
    return mode if mode.cached is None and mode.uneven is None else replace(mode, cached=None, uneven=None)


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Queries of the stream, keys and values of the tower's tokens (once for a prompt), core and output."""
    wide = spec.sizes.get("memory", model.d_model)
    q_axes, tokens, saved = ("B", "S", "N", "H"), ("B", MEMORY, "Dm"), ("B", MEMORY, "Kv", "H")
    keys = matmul("cross.kv", f"m[B {MEMORY} Dm] . Wkv[Dm Kv H] -> kv[B {MEMORY} Kv H]", saves=(tokens, saved))
    biased: tuple[tuple[str, ...], ...] = ()
    if spec.qkv_bias:
        biased = (("Kv", "H"),) if spec.key_bias else (("K", "H"),)
    rows = [
        matmul("cross.q", "x[B S D] . Wq[D N H] -> q[B S N H]", bias=spec.qkv_bias, saves=(("B", "Z", "D"), q_axes)),
        replace(keys, params=(*keys.params, *biased), is_saved=True),
    ]
    if spec.qk_norm == "head":
        rows.append(Row("cross.qk_norm", "elementwise", params=(("H",), ("H",)), reads=(q_axes,), writes=(q_axes,)))
    rows += [
        Row("cross.core", "attention", mixer=Cross()),
        matmul("cross.out", "o[B S N H] . Wo[N H D] -> y[B S D]", bias=spec.out_bias, saves=(q_axes,)),
    ]
    axes = {"N": spec.n_heads, "K": spec.n_kv_heads or spec.n_heads, "H": spec.head_dim or 0, "Dm": wide, MEMORY: 1}
    return Block(tuple(rows), axes, (("Kv", lambda s: 2 * s["K"]),), split=("N",), shared=("K",))
