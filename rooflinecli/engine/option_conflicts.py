"""Options that exclude each other or that a model cannot take, whatever the layout: refused before a layout is chosen; and options that
change nothing where they were given, which an answer notes.

Sizes that no layout can have are `legality.check`'s: called at once where layouts are arrays, else when no candidate is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import inf

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.expressions import Scope
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.layers.softmax import Softmax
from rooflinecli.phases import recompute
from rooflinecli.specs.hardware import HardwareSpec, load_defaults
from rooflinecli.specs.layout import LEFT_OPEN, OFFLOADS
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import OPTIONS, Option, find
from rooflinecli.specs.request import Request, kinds_of_work
from rooflinecli.specs.snapshots import packaged

RANKING = frozenset({"bound"})  # options that count wherever rows are ranked, however few layouts there are
_NAMES = {  # of the rules, besides the fields of the request
    "int": int,
    "set": set,
    "plain": num.plain,
    "sum": sum,
    "value": num.value,
    "load_model": load_model,
    "parameters": parameters,
    "one_layout": lambda ctx: all(
        getattr(ctx.request, size) is not None for kind in kinds_of_work(ctx.request.phases) for size in LEFT_OPEN[kind]
    ),
    "first_level": lambda ctx: num.value(ctx.chip.levels[0].size) if ctx.chip.levels else inf,
    "shared_experts": lambda ctx: any(
        ff.kind == "moe" and (ff.n_shared or ff.shared_d_ff) for ff in (layer.feedforward for layer in ctx.spec.layers)
    ),
    "keeps_state": lambda ctx: any(
        group.mixer is not None and not isinstance(group.mixer, Softmax) for group in ctx.ledger.layers
    ),
}


def check(ctx: EstimateContext) -> None:
    """Raises UsageError with the option and the remedy."""
    r = ctx.request
    for module in r.recompute_modules.split(",") if r.recompute_modules else ():
        if module not in recompute.modules():
            raise unknown("--recompute-modules", module, recompute.modules(), option="recompute-modules")
    _refuse(ctx, "recomputation")
    if r.software is not None and (note := framework_note(r.software, ctx.chip.spec)):
        build_request.warn(note)
    if r.offload is not None and _offloads(r.offload):
        _ = ctx.chip.host_link
        _refuse(ctx, "offload")
    _refuse(ctx, "decoding")
    _refuse(ctx, "serving")
    if r.kv_tier is not None:
        from rooflinecli.engine import kv_tiers

        _ = kv_tiers.tiers(r.kv_tier)


def _refuse(ctx: EstimateContext, rules: str) -> None:
    """Raises UsageError for the first rule of option_conflicts.yaml that the request breaks."""
    for option, sentence in _met(ctx, rules, lambda option: True, lambda name: getattr(ctx.request, name) is not None):
        raise UsageError(sentence, option.name)


def _met(
    ctx: EstimateContext, rules: str, concerns: Callable[[Option], bool], given: Callable[[str], bool], **more: object
) -> Iterator[tuple[Option, str]]:
    """The option and the sentence of every rule of a group that the request meets, of the options that it `concerns`."""
    known = {**_NAMES, "ctx": ctx, "model": ctx.spec.name, "kind": _kind(ctx), "given": given, **more}
    names = Scope(known, {}, ctx.request)
    for row in packaged(__file__)[rules]:
        for field in row.get("each", (None,)):
            option = OPTIONS[row["option"]] if field is None else _by_field()[field]
            if not concerns(option):
                continue
            off = option.kind == "switch" and getattr(ctx.request, option.field, None) is False
            names |= {"each": field, "option": option, "flag": option.words(False)[0] if off else option.flag}
            if names.value(row["if"]):
                yield option, row["say"].format_map(names)


@cache
def _by_field() -> dict[str, Option]:
    return {option.field: option for option in OPTIONS.values()}


def idle(ctx: EstimateContext, written: Collection[str], layouts: Mapping[str, object] | None = None) -> dict[str, str]:
    """The options `written` that change nothing in an answer about the request, each with a sentence that says why.

    `layouts` are those of the phases, where they are known; else an axis whose size is not given may have any. An option of work that
    is not asked about is `build_request.check_conflicts`'s.
    """
    r, found = ctx.request, dict[str, str]()
    asked = {"", *kinds_of_work(r.phases)}
    fields = {find(name).field for name in written}

    def concerns(option: Option) -> bool:
        unset = (None, getattr(Request, option.field, None))
        return option.field in fields and option.phase in asked and getattr(r, option.field) not in unset

    def widest(axis: str) -> float:
        sizes = [float(getattr(layout, axis)) for layout in (layouts or {}).values()]
        return max(sizes, default=float(num.value(getattr(r, axis) or inf)))

    for option, sentence in _met(ctx, "idle", concerns, fields.__contains__, widest=widest):
        found.setdefault(option.name, sentence)
    return found


def warn_of_idle(answers: Iterable[dict[str, str]]) -> None:
    """Warn of the options that change nothing in any of several answers, as `idle` has them."""
    shared: dict[str, str] | None = None
    for idle in answers:
        shared = {name: sentence for name, sentence in idle.items() if shared is None or name in shared}
        if not shared:
            return
    for sentence in (shared or {}).values():
        build_request.warn(sentence)


def _offloads(written: str) -> bool:
    """Whether anything is offloaded. Raises UsageError for an unknown kind, and for layers other than a number of activations' layers."""
    kind, colon, layers = written.partition(":")
    whole = not colon or (kind.endswith("activations") and layers.isdigit() and int(layers) > 0)
    if kind not in OFFLOADS or not whole:
        raise UsageError(f"--offload {written}: expected {', '.join(OFFLOADS)}, or activations:LAYERS", "offload")
    return kind != "none"


def framework_note(software: str, chip: HardwareSpec) -> str:
    """What is said of a framework that runs on chips of this kind (launched.yaml) and has no constants there; empty for one that has. Raises
    UsageError for one that is known on chips of other kinds alone, or on none."""
    names = _frameworks([chip.efficiency, load_defaults(chip.kind).efficiency])
    plain, *options = software.split("+")  # options are joined to a framework: torchtitan+async+rowwise
    if {plain, *(f"{plain}+{option}" for option in options)} <= set(names):
        return ""
    table = packaged(__file__, "launched")
    if plain not in names and chip.kind in table["runs_on"].get(plain, "").split():
        return f"{plain} has no constants on {chip.name}; priced as any framework of that chip"
    known, kinds = [name for name in names if "+" not in name], table["kinds"].items()
    elsewhere = [words for kind, words in kinds if plain in _frameworks([load_defaults(kind).efficiency])]
    if plain not in names and elsewhere:
        why = f"no run of it on {chip.name} is known, only on {' and '.join(elsewhere)}; give {' or '.join(known)}"
        raise UsageError(f"--framework {software}: {why}, or leave it out", "software")
    raise unknown("framework", software, known, "`any` is for one that is not among them", option="software")


def every_framework() -> list[str]:
    """Training frameworks that any kind of chip has constants for, which a shell completes."""
    return _frameworks([load_defaults(kind).efficiency for kind in packaged(__file__, "launched")["kinds"]])


def _frameworks(tables: Sequence[Mapping[str, Mapping[str, Mapping[str, object]]]]) -> list[str]:
    names = {
        name
        for table in tables
        for kind in ("framework", "tp_collective", "fsdp_collective", "dp_collective", "step", "matmul")
        for name in table.get("training", {}).get(kind, {})
        if kind != "matmul" or "@" in name
    }
    return sorted({name.rpartition("@")[2] for name in names} | {"any"})  # a matmul's are fp8@torchtitan+rowwise


def _kind(ctx: EstimateContext) -> str:
    return f"{ctx.spec.name} {f'makes {ctx.spec.makes}' if ctx.spec.makes else 'is an encoder'}"


def supported_phases(ctx: EstimateContext) -> tuple[str, ...]:
    """The phases asked for that the model has. Raises UsageError where decode alone was asked for."""
    phases = ctx.request.phases
    if phases == ("decode",):
        require_decode(ctx, "use --phase prefill or train")
    return tuple(phase for phase in phases if ctx.is_autoregressive or phase != "decode")


def require_decode(ctx: EstimateContext, remedy: str) -> None:
    """Raises UsageError, which ends in the remedy, for a model that does not decode."""
    if not ctx.is_autoregressive:
        raise UsageError(f"{_kind(ctx)} and decodes nothing; {remedy}", "phase")
