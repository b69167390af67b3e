"""The mixer of everything that keeps a state instead of a cache: a short causal convolution, then a recurrence.

A prompt goes through in chunks, as batched matmuls where the kind has such a form; a decode step reads the state, updates it
and writes it back. The state does not grow with the context. The state sits in memory in a format of its own (fp32 in
transformers, whatever the weights are in); --ssm-state-dtype says otherwise. Backward takes both gradients of each product, after
the states inside a chunk are computed again (Dao and Gu 2024, section 6): three times the FLOPs and the traffic.
"""

from __future__ import annotations

from abc import abstractmethod

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

    columns: what the convolution keeps beyond or short of its taps. shifts: further values per sequence (RWKV's last token).
    """

    heads: str = "N"
    key: str = "state"
    value: str = "H"
    channels: tuple[Axes, ...] = ()
    columns: int = 0
    shifts: tuple[Axes, ...] = ()
    state_dtype: str = "fp32"

    @abstractmethod
    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        """FLOPs of the recurrence over the tokens of a prompt, in its chunked form where it has one."""

    @abstractmethod
    def step(self, tokens: Number, sizes: Sizes) -> Number:
        """FLOPs of the recurrence, token by token."""

    def moved(self, sizes: Sizes) -> Number:
        """Values that the recurrence reads and writes per token: what the convolution gave, the output, and a gate of its width."""
        return self._channels(sizes) + 2 * sizes[self.heads] * sizes[self.value]

    def _channels(self, sizes: Sizes) -> Number:
        return sum(product(axes, sizes) for axes in self.channels)

    def conv_elements(self, sizes: Sizes) -> Number:
        """Elements of the convolution's state of one sequence, and of what else is kept of its last token."""
        kept = self._channels(sizes) * (sizes["taps"] + self.columns) if self.channels else 0.0
        return kept + sum(product(axes, sizes) for axes in self.shifts)

    def state_elements(self, sizes: Sizes) -> Number:
        """Elements of the recurrent state of one sequence."""
        return recurrence.state_elements(sizes[self.heads], sizes[self.key], sizes[self.value])

    def _width(self, formats: Formats) -> float:
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
        moved = recurrence.chunked_scan_bytes(tokens, self.moved(sizes), x, state, chunk, self._width(mode.formats))
        scan = Op(
            name=name,
            kind="chunked_scan",
            dtype=mode.formats.attention_compute,
            flops=self.scan(tokens, sizes),
            bytes=moved,
            k=chunk,
            n=sizes[self.value],
            gradient=Gradient(BACKWARD, moved * BACKWARD),
        )
        return [*self._conv(mode, tokens, sizes), scan]

    def _conv(self, mode: CountingMode, tokens: Number, sizes: Sizes) -> list[Op]:
        """The convolution over a prompt: bandwidth, and FLOPs that no matrix unit takes."""
        if not self.channels:
            return []
        through = tokens * self._channels(sizes)
        moved = counts.bytes_of(2 * through, mode.formats.activation)
        return [
            Op(
                name="attention.conv",
                kind="elementwise",
                dtype=mode.formats.compute,
                flops=self._conv_flops(tokens, sizes),
                bytes=moved,
                quantized=through,
            )
        ]

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
        state = self.state_elements(sizes)
        return recurrence.state_bytes(batch, self.conv_elements(sizes), formats.activation, state, self._width(formats))

    def text(self, sizes: Sizes) -> str:
        b, s, heads, key, value = (count(sizes[a]) for a in ("B", "S", self.heads, self.key, self.value))
        return f"{b} x {s} tokens, {heads} states of {key} x {value}"


@dataclass(frozen=True, eq=False, repr=False)
class Delta(Recurrent):
    """Old values are read from the state and corrected, not only added to."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.delta_chunk_flops(tokens, sizes["N"], sizes["H"], sizes["Hv"], sizes["chunk"])

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.recurrent_flops(tokens, sizes["N"], sizes["H"], sizes["Hv"], 4)


@dataclass(frozen=True, eq=False, repr=False)
class Lightning(Recurrent):
    """q, k and v without a convolution, blocks of matmuls in prefill."""

    def moved(self, sizes: Sizes) -> Number:
        return 4 * sizes["N"] * sizes["H"]

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.linear_chunk_flops(tokens, sizes["N"], sizes["H"], sizes["H"], sizes["chunk"])

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.recurrent_flops(tokens, sizes["N"], sizes["H"], sizes["H"], 3)


@dataclass(frozen=True, eq=False, repr=False)
class Mamba1Scan(Recurrent):
    """A scan whose time step, input and readout depend on the token."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.selective_scan_flops(tokens, sizes["N"], sizes["state"])

    step = scan


@dataclass(frozen=True, eq=False, repr=False)
class Mamba2Scan(Recurrent):
    """A scalar decay per head, so that chunks are matmuls."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.ssd_chunk_flops(
            tokens, sizes[self.heads], sizes["G"], sizes["state"], sizes[self.value], sizes["chunk"]
        )

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.recurrent_flops(tokens, sizes[self.heads], sizes["state"], sizes[self.value], 3)


@dataclass(frozen=True, eq=False, repr=False)
class GatedUnit(Recurrent):
    """A decay per channel and token; no matmul form."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.lru_flops(tokens, sizes["N"] * sizes["H"])

    step = scan


@dataclass(frozen=True, eq=False, repr=False)
class RwkvMixer(Recurrent):
    """Weighted values over weights, both decaying; no matmul form."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.wkv_flops(tokens, sizes["N"])

    step = scan

    def moved(self, sizes: Sizes) -> Number:
        return 4 * sizes["N"]


@dataclass(frozen=True, eq=False, repr=False)
class ShortConv(Recurrent):
    """A convolution between two gates: two products per channel, and no recurrence."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return 2 * tokens * sizes["N"]

    step = scan

    def state_elements(self, sizes: Sizes) -> Number:
        return 0.0
