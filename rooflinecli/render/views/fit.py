"""What fits, as a table: a file type on a line."""

from __future__ import annotations

from rooflinecli.core.units import count
from rooflinecli.questions.fit.question import FitAnswer, FitRow
from rooflinecli.render.blocks import Column, Headline, Note, Page, Table, page
from rooflinecli.render.numbers import NONE, text

_COLUMNS = (Column("file type", text=True), Column("size"), Column("bits", drop=1), Column("context"), Column("tok/s"), Column("80% interval", drop=2), Column("prompt tok/s", drop=3))  # fmt: skip


def view(answer: FitAnswer) -> Page:
    """The machine and the model, a line for each file type, and which is the largest that holds the prompt."""
    chip, model = answer.hardware, answer.model
    head = f"{model.name} ({count(model.parameters)} parameters) on {chip.name}, {text(chip.capacity_bytes, 'bytes')}"
    notes = [Note(f"note: {note}") for note in answer.notes]
    return page(
        [Headline(f"{head}. {_largest(answer)}")],
        [Table(_COLUMNS, list(map(_line, answer.files)))],
        [Note(_about(answer)), *notes],
    )


def _largest(answer: FitAnswer) -> str:
    asked = f"{answer.workload.prompt:g} + {answer.workload.output:g} tokens"
    if answer.largest:
        return f"Largest that holds {asked}: {answer.largest}."
    if any(map(_on_host, answer.files)):
        return f"None holds {asked} on the device alone; the rates are those with the rest on the host."
    return f"None holds {asked}; take a smaller model or --kv-dtype q8_0."


def _about(answer: FitAnswer) -> str:
    reserve = text(answer.hardware.reserve_bytes, "bytes")
    engines = ", ".join(dict.fromkeys(f.engine for f in answer.files)) or answer.workload.engine
    return f"context: longest of one sequence next to the weights and {reserve} for buffers and desktop; rates of one stream by {engines}."


def _line(f: FitRow) -> tuple[str, ...]:
    size, bits, on_host = text(f.bytes, "bytes"), f"{f.bits_per_weight:.2f}", _on_host(f)
    if f.decode_interval_per_s is None or not (f.fits or on_host):
        return (f.file, size, bits, "does not fit", NONE, NONE, NONE)
    low, high = f.decode_interval_per_s
    context = on_host or f"{f.max_context:,}"
    return f.file, size, bits, context, _rate(f.decode_tokens_per_s), f"{_rate(low)}–{_rate(high)}", _rate(f.prefill_tokens_per_s)  # fmt: skip


def _on_host(f: FitRow) -> str:
    """What of it is in host memory."""
    if f.experts_on_host is not None:
        return f"experts of {f.experts_on_host} layers on host"
    return f"{f.layers_on_host} layers on host" if f.layers_on_host is not None else ""


def _rate(value: float | None) -> str:
    """Tokens per second, whose unit is in the head of the column."""
    return text(value, "tokens_per_s").removesuffix(" tok/s")
