"""Answers of one page: collectives, sharded matmuls, partitionings, goodput, formulas, quantities by name, what fits, exercises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation_text import explain
from rooflinecli.core.num import Number
from rooflinecli.core.record import Quantities, Record, entries
from rooflinecli.core.text import plural
from rooflinecli.core.units import count, si
from rooflinecli.questions.collective.question import CollectiveAnswer
from rooflinecli.questions.formula.question import FormulaAnswer, FormulaList
from rooflinecli.questions.shard.question import PartitioningAnswer, ShardAnswer
from rooflinecli.render.blocks import (
    Block,
    Column,
    Command,
    Drawing,
    Headline,
    Note,
    Page,
    Pairs,
    Prose,
    Table,
    labelled,
    page,
    records,
)
from rooflinecli.render.numbers import NONE, around, percent, room, text, times
from rooflinecli.specs.snapshots import packaged

if TYPE_CHECKING:  # they read YAML, which a small question need not
    from rooflinecli.questions.estimate.answer_types import EstimateAnswer
    from rooflinecli.questions.fit.question import FitAnswer, FitRow
    from rooflinecli.questions.quiz.question import AskedExercise, QuizAnswer

_COLLECTIVE = (
    Column("level", "name", text=True),
    Column("kind", "kind", text=True, drop=1),
    Column("algorithm", "algorithm", text=True, drop=5),
    Column("sends", "volume_bytes", drop=4),
    Column("bandwidth", "bandwidth_bytes_per_s", drop=3),
    Column("latency", "latency_s", drop=2),
    Column("floor", "floor_s", drop=6),
    Column("expected", "expected_s"),
)


def collective(r: CollectiveAnswer) -> Page:
    """The time in a line, what it sends, and a table of the levels where there is more than one."""
    sender = {"scatter": "the root sends", "gather": "the root receives"}.get(r.op, "each device sends")
    return page(
        [
            Headline(
                f"{r.op} of {text(r.bytes, 'bytes')} over {plural(r.devices, 'device')} of {r.hardware.name}: "
                f"{around(r.time_s, r.interval_s, 'time_s')} by {r.algorithm}; {r.bottleneck} bound"
                if num.value(r.volume_bytes)
                else f"{r.op} on {plural(r.devices, 'device')} of {r.hardware.name}: nothing is sent; {text(r.time_s, 'time_s')}"
            ),
            Prose(
                f"floor {text(r.floor_s, 'floor_s')}; bus bandwidth {text(r.bus_bandwidth_bytes_per_s, 'bytes_per_s')}; "
                f"{sender} {text(r.volume_bytes, 'volume_bytes')}; latency {text(r.latency_s, 'time_s')}"
            ),
        ],
        [records(_COLLECTIVE, r.levels)] if len(r.levels) > 1 else [],
    )


_SHARD = (
    Column("split", "sharding", text=True),
    Column("matmul", "matmul", text=True),
    Column("time", "time_s"),
    Column("sent", "communication_bytes", drop=2),
    Column("memory", "held_bytes", drop=1),
)


def shard(answer: ShardAnswer) -> Page:
    """Sentences, then the ranking of shardings over the whole mesh."""
    r, other = answer.sharding, answer.instead
    lines = [
        f"{c.op} of {c.array} over {c.axes} ({plural(c.devices, 'device')}): {_b(c.bytes)}, {_b(c.sent_bytes)} sent, "
        f"{_s(c.expected_s)} (floor {_s(c.floor_s)})"
        for c in r.collectives
    ]
    if other is not None:
        last, fewer = other.collectives[-1], ", fewer bytes" if other.cheaper else ""
        sent = f"{_b(other.communication_bytes)} sent, {_s(other.communication_s)}{fewer}"
        lines.append(f"or use {other.slice} and {last.op} {last.array}: {sent}")
    times = f"matmul {_s(r.compute_s)}, communication {_s(r.communication_s)}; one after the other {_s(r.expected_s)}, floor {_s(r.floor_s)}"
    return page(
        [
            Headline(
                f"{answer.matmul} on {answer.hardware.name}, {answer.dtype}: {_s(r.expected_s)}, of it {_s(r.communication_s)} communication"
            ),
            Prose(f"case {r.case}: {r.case_name}"),
        ],
        [
            *(Prose(line, indent=2) for line in lines),
            Prose(f"result {r.result}", indent=2),
            Prose(times),
            Prose(f"{_b(r.held_bytes)} of operands per device"),
        ],
        [
            Prose("split over the whole mesh instead, least communication first"),
            records(_SHARD, answer.ranking, indent=2),
        ]
        if answer.ranking
        else [],
    )


def _s(seconds: Number) -> str:
    return text(seconds, "time_s")


def _b(size: Number) -> str:
    return text(size, "bytes")


def partitioning(r: PartitioningAnswer) -> Page:
    """Time of each partitioning; the bytes it sends and reads, and how long either takes."""
    return page(
        [
            Headline(
                f"{r.model} on {r.devices} x {r.hardware}, one layer, {r.tokens:.0f} tokens: feed-forward fastest by {r.feedforward[0].layout} "
                f"({_s(r.feedforward[0].time_s)}), attention {r.attention[0].attention} ({_s(r.attention[0].time_s)})"
            )
        ],
        [Prose("feed-forward, fastest first"), _ranking(r.feedforward, "layout", "weights_read_bytes")],
        [Prose(f"attention over {r.context:.0f} cached tokens"), _ranking(r.attention, "attention", "cache_bytes")],
    )


def _ranking(rows: Sequence[Record], name: str, read: str) -> Table:
    columns = (
        Column("layout", name, text=True),
        Column("time", "time_s"),
        Column("sends", "sent_bytes", drop=2),
        Column("communication", "communication_s"),
        Column("reads", read, drop=1),
        Column("memory", "memory_s"),
    )
    return records(columns, rows, indent=2)


def goodput(r: Quantities) -> Page:
    """Goodput in a line, then what it follows from."""
    headline = (
        f"{plural(r.devices, 'device')}: training goodput {around(r.goodput, r.goodput_interval, 'headroom_fraction')}, checkpoints every "
        f"{text(r.interval_s, 'checkpoint_s')}"
    )
    best = "the best interval" if r.interval_s == r.daly_interval_s else f"best: every {text(r.daly_interval_s, 'checkpoint_s')}"  # fmt: skip
    rows = [
        ("failures", f"one every {around(r.mtbf_s, r.mtbf_interval_s, 'mtbf_s')}"),
        ("checkpoints", f"{text(r.checkpoint_s, 'checkpoint_s')} each, {percent(r.checkpoint_overhead)} of the time; {best}"),
        ("restarts", f"{text(r.restart_s, 'restart_s')} and the lost work, {percent(1 - r.goodput - r.checkpoint_overhead)} of the time"),
    ]  # fmt: skip
    if r.get("run_s") is not None:
        rows.append(("run", f"{around(r.run_s, r.run_interval_s, 'run_s')} with {plural(round(r.failures), 'failure')}"))  # fmt: skip
    if (log := r.get("logged")) is not None:
        waited = "" if log["restart_s"] is None else f", back after {text(log['restart_s'], 'restart_s')}"
        done = f"{plural(log['jobs'], 'job')} in {count(log['device_hours'])} device-hours"
        rows.append(("log", f"{done}: {log['failures']} failed{waited}, {log['planned']} were planned ends"))
    return page([Headline(headline)], [Pairs(rows)])


def formula(r: FormulaAnswer | FormulaList) -> Page:
    """A list by module; the arithmetic and source of one formula; or its value on one line."""
    if isinstance(r, FormulaList):
        return page(
            *(
                [Pairs([(f.formula, f"[{f.unit}]  {f.summary}") for f in formulas], title=module)]
                for module, formulas in groupby(r.formulas, lambda f: f.module)
            )
        )
    if r.value is not None:
        return page([Headline(explain(r.value, 1).splitlines()[0])])
    from rooflinecli.formulas import all_formulas

    entry = all_formulas()[r.formula]
    arguments = " ".join(f"{name}=..." for name in r.parameters or ())
    return page(
        [Headline(entry.signature)],
        [Prose(entry.doc)],
        [Drawing([f"  {r.symbol} [{r.unit}]", *(f"    {line}" for line in (r.arithmetic or "").splitlines())])],
        [Prose(f"source: {r.source}", indent=2), Command(f"roofline formula {r.formula} {arguments}".rstrip())],
    )


_UNITS = re.compile(r"(?<=.)_(bytes_per_s|flops_per_s|usd_per_hour|bytes|usd|(?<!per_)s)$")


def quantities(answer: Record, without: tuple[str, ...] = ()) -> Page:
    """What leads in a sentence, quantities but for some as pairs, each mapping as a table, then the notes."""
    scalars: list[tuple[str, str]] = []
    tables: list[list[Block]] = []
    notes: list[Block] = []
    for key, value in answer.entries():
        if key == "notes":
            notes = [Note(note) for note in value]
        elif isinstance(value, Mapping):
            tables.append([_table(key, value)])
        elif key not in ("schema", *without) and value is not None:
            scalars.append((label(key), text(value, key)))
    lead = packaged(__file__)["lead"].get(str(answer.get("schema")).split("/")[1], "")
    said = {key: text(value, key) for key, value in answer.entries() if not isinstance(value, (Mapping, list))}
    head = [Headline(lead.format(**said))] if set(re.findall(r"{(\w+)}", lead)) <= said.keys() and lead else []
    return page(head, [Pairs(scalars)], *tables, notes)


def kernel(answer: Quantities) -> Page:
    """The expected time with its interval and bottleneck, then every quantity."""
    other = "memory" if answer.bound == "compute" else "compute"
    ratio = f", {times(float(answer.bound_by))} {other}" if float(answer.bound_by) < 1e6 else ""
    headline = Headline(
        f"{answer.op} on {answer.hardware}, {answer.dtype}: expected {text(answer.time_s, 'time_s')}, 80% interval "
        f"{text(answer.interval_s, 'interval_s')}; {answer.bound} bound{ratio}"
    )
    groups = quantities(answer, ("op", "hardware", "dtype", "interval_s", "bound", "bound_by")).groups
    return page([headline], *groups, about="one screen")


def _table(title: str, rows: Mapping[str, object]) -> Table:
    """A row for each entry, or one row of numbers."""
    cells = {name: dict(entries(row) or ()) for name, row in rows.items()}
    if not all(cells.values()):
        cells = {"": dict(rows)}
    heads = list(dict.fromkeys(key for row in cells.values() for key in row))
    columns = [Column("", text=True), *(Column(label(head)) for head in heads)]
    body = [[label(name), *(text(row.get(head), head) for head in heads)] for name, row in cells.items()]
    return Table(columns, body, title=label(title), indent=2)


def label(key: str) -> str:
    """A quantity's name: its key without the unit, which stands with the value."""
    if named := packaged(__file__)["called"].get(key):
        return str(named)
    if key.endswith("_interval"):
        return f"{label(key.removesuffix('_interval'))}, 80% interval"
    return " ".join(packaged(__file__)["words"].get(word, word) for word in _UNITS.sub("", key).split("_"))


_AROUND = 6  # file types of the first screen
_GAIN, _FEW_BITS = 0.05, 4.0  # of a rate, that is worth another file; bits per weight below which text suffers
_SAME = 0.01  # of a size
_FILES = (
    Column("file type", "file", text=True),
    Column("size", lambda f: text(f.bytes, "bytes")),
    Column("bits", lambda f: f"{f.bits_per_weight:.2f}", drop=1),
    Column("context", lambda f: (_on_host(f) or f"{f.max_context:,}") if _runs(f) else "does not fit"),
    Column("tok/s", lambda f: _tokens(f, f.decode_tokens_per_s)),
    Column(
        "80% interval",
        lambda f: "–".join(_tokens(f, end) for end in f.decode_interval_per_s) if _runs(f) else NONE,
        drop=2,
    ),
    Column("prompt tok/s", lambda f: _tokens(f, f.prefill_tokens_per_s), drop=3),
)


def fit(answer: FitAnswer, estimate: EstimateAnswer | None = None) -> Page:
    """The machine and the model, the file types around the largest that holds the prompt, what limits it, and what is faster."""
    chip, model, files = answer.hardware, answer.model, answer.files
    head = f"{model.name} ({count(model.parameters)} parameters) on {chip.name}, {room(chip.capacity_bytes)}"
    best = next((f for f in files if f.file == answer.largest), files[0])
    shown = [f for i, f in enumerate(files) if f is best or not any(_alike(f, one) for one in (*files[:i], best))]
    longest = max(shown, key=lambda f: f.max_context)  # the first of equals, which is the largest file
    at = shown.index(best if answer.largest else longest)
    first = max(0, min(at - 1, len(shown) - _AROUND))
    further: list[tuple[str, str]] = []
    if estimate is not None:
        from rooflinecli.render.views.estimate import limits

        further = [(name, line) for name, line in limits(estimate) if "--weight-dtype" not in line]  # files are below
        gains = ((f, _rate_over(f, best) - 1) for f in files if f.fits and f.bytes < best.bytes)
        for one, gain in [found for found in gains if found[1] > _GAIN][:1]:
            rate = text(one.decode_tokens_per_s, "tokens_per_s")
            checked = "; check accuracy" if one.bits_per_weight < _FEW_BITS else ""
            further.append(("try", f"--quantization {one.file}: {rate} ({gain:+.0%}){checked}"))
    by: dict[str, list[str]] = {}
    for f in files:
        by.setdefault(f.engine, []).append(f.file)
    engines = ", ".join(f"{name} ({', '.join(of)})" if len(by) > 1 else name for name, of in by.items())
    about = f"context: tokens that fit beside {text(chip.reserve_bytes, 'bytes')} for buffers and the desktop; rates: one stream of {engines}"
    return page(
        [Headline(f"{head}. {_largest(answer)}")],
        [records(_FILES, shown[first : first + _AROUND])],
        [Pairs(further)] if further else [],
        labelled("best", answer.command) if answer.command else [],
        [Note(about), *(Note(f"note: {note}") for note in answer.notes)],
        details=[[records(_FILES, files)]] if len(files) > min(_AROUND, len(shown)) else [],
        about=f"all {len(files)} file types",
    )


def _alike(one: FitRow, other: FitRow) -> bool:
    """Whether two files differ in name alone: experts that keep their own format under every file type."""
    same = one.engine == other.engine and one.fits == other.fits and abs(one.bytes / other.bytes - 1) < _SAME
    return same and abs(_rate_over(one, other) - 1) < 2 * _SAME


def _rate_over(one: FitRow, other: FitRow) -> float:
    return (one.decode_tokens_per_s or 1.0) / (other.decode_tokens_per_s or 1.0)


def _largest(answer: FitAnswer) -> str:
    asked = f"{answer.workload.prompt:.10g} + {answer.workload.output:.10g} tokens"
    best = answer.best
    rate = "" if best is None else text(best.decode_tokens_per_s, "tokens_per_s")
    if best is not None and answer.largest:
        return f"Largest that holds {asked}: {best.file}, {rate}."
    if best is not None:
        return (
            f"None holds {asked} on the device alone; the fastest with the rest in host memory is {best.file}, {rate}."
        )
    longest, needed = max(f.max_context for f in answer.files), answer.workload.prompt + answer.workload.output
    if longest == answer.model.max_context:
        return (
            f"None holds {asked}: {answer.model.name} has a context of {longest:,} tokens; lower --prompt and --output."
        )
    if longest * 2 >= needed:  # a cache of half the bytes holds twice the tokens
        return f"None holds {asked}; take a smaller model or --kv-dtype q8_0."
    if longest:
        return f"None holds {asked}, the longest context is {longest:,}; take a smaller model or lower --prompt and --output."
    least = si(min(f.bytes for f in answer.files), "B")
    return f"None holds {asked}, the smallest file is {least}; take a smaller model or a device that holds more."


def _runs(f: FitRow) -> bool:
    return f.decode_interval_per_s is not None and bool(f.fits or _on_host(f))


def _on_host(f: FitRow) -> str:
    """What of it is in host memory."""
    if f.experts_on_host is not None:
        return f"experts of {f.experts_on_host} layers on host"
    return f"{f.layers_on_host} layers on host" if f.layers_on_host is not None else ""


def _tokens(f: FitRow, value: float | None) -> str:
    """Tokens per second, whose unit is in the head of the column."""
    return text(value, "tokens_per_s").removesuffix(" tok/s") if _runs(f) else NONE


def quiz(answer: QuizAnswer) -> Page:
    """Each exercise with what is said of its answer; how to answer where none was given."""
    groups = [[Prose(f"{i}. {one.question}", 3), *remarks(one)] for i, one in enumerate(answer.exercises, 1)]
    if answer.answered:
        return page([Headline(f"{answer.right} of {answer.answered} right")], *groups)
    again = f"roofline quiz --seed {answer.seed} --count {len(answer.exercises)} --answer '...'"
    return page([Headline(plural(len(answer.exercises), "exercise"))], *groups, [Note("answer with"), Command(again)])


def remarks(one: AskedExercise) -> list[Block]:
    """The verdict on an answer, the slip, and the derivation where it was not right."""
    if one.verdict is None:
        return []
    slip = f": {one.remark}" if one.remark else ""
    said: list[Block] = [Prose(f"   {one.given} is {one.verdict}{slip}. The answer is {one.answer_text}.", 3)]
    lines = [f"   {line}" for line in str(one.derivation).splitlines()]
    return said if one.verdict == "right" else [*said, Drawing(lines)]
