"""Options that exclude each other or that a model cannot take, whatever the layout: refused before a layout is chosen.

Sizes that no layout can have are `legality.check`'s: called at once where layouts are arrays, else when no candidate is legal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.expressions import Scope
from rooflinecli.engine.context import EstimateContext
from rooflinecli.layers.softmax import Softmax
from rooflinecli.phases import recompute
from rooflinecli.specs.hardware import load_defaults
from rooflinecli.specs.layout import OFFLOADS
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.snapshots import table

_NAMES = {  # of the rules, besides the fields of the request
    "int": int,
    "set": set,
    "plain": num.plain,
    "value": num.value,
    "load_model": load_model,
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
    if r.software is not None:
        names = frameworks(ctx)
        plain, *options = r.software.split("+")  # options are joined to a framework: torchtitan+async+rowwise
        if not {plain, *(f"{plain}+{option}" for option in options)} <= set(names):
            raise unknown("framework", r.software, names, option="software")
    if r.offload is not None and _offloads(r.offload):
        _ = ctx.chip.host_link
        _refuse(ctx, "offload")
    check_autoregressive(ctx)
    _refuse(ctx, "serving")
    if r.kv_tier is not None:
        from rooflinecli.engine import kv_tiers

        _ = kv_tiers.tiers(r.kv_tier)


def _refuse(ctx: EstimateContext, rules: str) -> None:
    """Raises UsageError for the first rule of option_conflicts.yaml that the request breaks."""
    r = ctx.request
    known = {"ctx": ctx, "model": ctx.spec.name, "kind": _kind(ctx), "given": lambda name: getattr(r, name) is not None}
    for row in table(Path(__file__).with_suffix(".yaml"))[rules]:
        for field in row.get("each", (None,)):
            option = row["option"] if field is None else field.replace("_", "-")
            names = Scope({**_NAMES, **known, "each": field, "flag": OPTIONS[option].flag}, {}, r)
            if names.value(row["if"]):
                raise UsageError(row["say"].format_map(names), option)


def _offloads(written: str) -> bool:
    """Whether anything is offloaded. Raises UsageError for an unknown kind, and for layers other than a number of activations' layers."""
    kind, colon, layers = written.partition(":")
    whole = not colon or (kind.endswith("activations") and layers.isdigit() and int(layers) > 0)
    if kind not in OFFLOADS or not whole:
        raise UsageError(f"--offload {written}: expected {', '.join(OFFLOADS)}, or activations:LAYERS", "offload")
    return kind != "none"


def frameworks(ctx: EstimateContext) -> list[str]:
    """Training frameworks for which the efficiency tables of a chip or of its kind have constants."""
    return _frameworks([ctx.chip.spec.efficiency, load_defaults(ctx.chip.spec.kind).efficiency])


def every_framework() -> list[str]:
    """Training frameworks that any kind of chip has constants for."""
    return _frameworks([load_defaults(kind).efficiency for kind in ("gpu", "tpu")])


def _frameworks(tables: Sequence[Mapping[str, Mapping[str, Mapping[str, object]]]]) -> list[str]:
    names = {
        name
        for table in tables
        for kind in ("framework", "tp_collective", "fsdp_collective", "dp_collective", "step", "matmul")
        for name in table.get("training", {}).get(kind, {})
        if kind != "matmul" or "@" in name
    }
    return sorted({name.rpartition("@")[2] for name in names} | {"any"})  # a matmul's are fp8@torchtitan+rowwise


def check_autoregressive(ctx: EstimateContext) -> None:
    """Raises UsageError for the first option whose number nothing reads, because the model does not decode or read its prompt."""
    _refuse(ctx, "decoding")


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
