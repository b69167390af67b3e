"""The mixer of everything that keeps a state instead of a cache: a short causal convolution, then a recurrence.

A prompt goes through in chunks, as batched matmuls where the kind has such a form; a decode step reads the state, updates it
and writes it back. The state does not grow with the context. The state sits in memory in a format of its own (fp32 in
transformers, whatever the weights are in); --ssm-state-dtype says otherwise. Backward takes both gradients of each product, after
the states inside a chunk are computed again (Dao and Gu 2024, section 6): three times the FLOPs and the traffic.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.units import count
from rooflinecli.formulas import counts, recurrence
from rooflinecli.ledger.ledger import Axes, Sizes, product
from rooflinecli.ledger.mixer import ContextParallelTraffic, CountingMode, Mixer
from rooflinecli.ledger.ops import Gradient, Op
from rooflinecli.quantization.formats import Formats, size_of

BACKWARD = 3.0


@dataclass(frozen=True, eq=False, repr=False)
class Recurrent(Mixer):
    """Heads with a state of key x value each, by axis name; the channels that pass a convolution of `taps` taps.

    scan_flops, step_flops: of the recurrence over `tokens` of a prompt, and token by token where that is another form; moved_values: what it
    reads and writes per token, where it is not what the convolution gave. columns: what the convolution keeps beyond or short of its taps. shifts: further values per sequence (RWKV's last token).
    """

    scan_flops: Callable[[Sizes], Number]
    step_flops: Callable[[Sizes], Number] | None = None
    moved_values: Callable[[Sizes], Number] | None = None
    heads: str = "N"
    key: str = "state"
    value: str = "H"
    channels: tuple[Axes, ...] = ()
    columns: int = 0
    shifts: tuple[Axes, ...] = ()
    state_dtype: str = "fp32"
    stateless: bool = False

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        """FLOPs of the recurrence over the tokens of a prompt, in its chunked form where it has one."""
        return self.scan_flops({**sizes, "tokens": tokens})

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        """FLOPs of the recurrence, token by token."""
        return (self.step_flops or self.scan_flops)({**sizes, "tokens": tokens})

    def moved(self, sizes: Sizes) -> Number:
        """Values that the recurrence reads and writes per token: what the convolution gave, the output, and a gate of its width."""
        if self.moved_values is not None:
            return self.moved_values(sizes)
        return self._channels(sizes) + 2 * sizes[self.heads] * sizes[self.value]

    def _channels(self, sizes: Sizes) -> Number:
        return sum(product(axes, sizes) for axes in self.channels)

    def state_elements(self, sizes: Sizes) -> Number:
        """Elements of the recurrent state of one sequence."""
        return (
            0.0 if self.stateless else recurrence.state_elements(sizes[self.heads], sizes[self.key], sizes[self.value])
        )

    def _state_element_bytes(self, formats: Formats) -> float:
        return formats.state or size_of(self.state_dtype)

    def _conv_flops(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.short_conv_flops(tokens, self._channels(sizes), sizes["taps"])

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        tokens = sizes["B"] if mode.decode else sizes["B"] * sizes["S"]
        mixed = self.step(tokens, sizes) if mode.decode else self.scan(tokens, sizes)
        return mixed + self._conv_flops(tokens, sizes) if self.channels else mixed

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        tokens = sizes["B"] * sizes["S"]
        x, state = mode.formats.activation, self.state_elements(sizes)
        chunk = sizes.get("chunk", 64.0)
        moved = recurrence.chunked_scan_bytes(
            tokens, self.moved(sizes), x, state, chunk, self._state_element_bytes(mode.formats)
        )
        scan = Op(
            name=name, kind="chunked_scan", dtype=mode.formats.attention_compute, flops=self.scan(tokens, sizes), bytes=moved, k=chunk,
            n=sizes[self.value], gradient=Gradient(BACKWARD, moved * BACKWARD),
        )  # fmt: skip
        return [*self._conv(mode, tokens, sizes), scan]

    def _conv(self, mode: CountingMode, tokens: Number, sizes: Sizes) -> list[Op]:
        """The convolution over a prompt: bandwidth, and FLOPs that no matrix unit takes."""
        if not self.channels:
            return []
        values = tokens * self._channels(sizes)
        moved = counts.bytes_of(2 * values, mode.formats.activation)
        flops = self._conv_flops(tokens, sizes)
        op = Op(
            name="attention.conv", kind="elementwise", dtype=mode.formats.compute, flops=flops, bytes=moved, quantized=values
        )  # fmt: skip
        return [op]

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        b, x = sizes["B"], mode.formats.activation
        held = self.cache_bytes(mode.formats, sizes, b, 1.0)
        return [
            Op(
                name=name,
                kind="state_update",
                dtype=mode.formats.attention_compute,
                flops=self.flops(mode, sizes),
                bytes=recurrence.recurrent_step_bytes(held, b, self.moved(sizes), x),
                k=sizes[self.key],
                n=sizes[self.value],
                items=b * sizes[self.heads],
            )
        ]

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        """A rank hands its state on, after which each scans its own part; or whole sequences of heads are traded: what the
        convolution reads on the way in, outputs on the way back."""
        wide = sizes[self.heads] * sizes[self.value]
        queries = (self._channels(sizes) + wide) / 2 if self.channels else wide
        return ContextParallelTraffic(queries=queries, state=sizes["B"] * self.state_elements(sizes))

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        """The recurrent state, the convolution's, and what else is kept of the last token."""
        state = self.state_elements(sizes)
        kept = self._channels(sizes) * (sizes["taps"] + self.columns) if self.channels else 0.0
        kept += sum(product(axes, sizes) for axes in self.shifts)
        return recurrence.state_bytes(batch, kept, formats.activation, state, self._state_element_bytes(formats))

    def text(self, sizes: Sizes) -> str:
        b, s, heads, key, value = (count(sizes[a]) for a in ("B", "S", self.heads, self.key, self.value))
        return f"{b} x {s} tokens, {heads} states of {key} x {value}"
