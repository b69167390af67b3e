"""What cannot be asked of a model that writes no tokens one by one: options whose figure would be read by nothing."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.options import OPTIONS

_LOAD = "has no rule of how passes wait under a load; --batch says how many inputs a pass takes"
WITHOUT = {
    "qps": _LOAD,
    "concurrency": _LOAD,
    "output": "writes no tokens; leave it out",
    "kv_dtype": "keeps no cache; leave it out",
    "prefix_hit": "keeps no cache; leave it out",
    "kv_tier": "keeps no cache; leave it out",
    "sessions": "keeps no cache; leave it out",
    "adapters": "writes no tokens; leave it out",
    "speculate": "writes no tokens; leave it out",
}
_OWN = "the prompt is read by an encoder whose output is no prefix of another's; leave it out"
PAIRS = ("prefix_hit", "kv_tier", "sessions")  # what is known of the cache of a decoder's own prompt


def what(ctx: EstimateContext) -> str:
    """The kind of a model that writes no tokens, as a sentence about it begins."""
    return f"{ctx.spec.name} {'is an encoder' if ctx.spec.denoising is None else 'makes images'}"


def check(ctx: EstimateContext) -> None:
    """Raises UsageError for the first option of WITHOUT that is given though the model writes no tokens."""
    if ctx.is_autoregressive:
        _pair(ctx)
        return
    for field, why in WITHOUT.items():
        value = getattr(ctx.request, field)
        if value is None or (field == "output" and num.plain(value) and num.value(value) == 0):
            continue
        name = field.replace("_", "-")
        raise UsageError(f"{OPTIONS[name].flag}: {what(ctx)} and {why}", name)


def _pair(ctx: EstimateContext) -> None:
    """Raises UsageError for options of a cached prompt where an encoder reads the prompt."""
    if not ctx.spec.paired:
        return
    for field in PAIRS:
        if getattr(ctx.request, field) is not None:
            name = field.replace("_", "-")
            raise UsageError(f"{OPTIONS[name].flag}: {ctx.spec.name} is an encoder with a decoder, and {_OWN}", name)


def phases(ctx: EstimateContext) -> tuple[str, ...]:
    """The phases asked for that the model has. Raises UsageError where decode was all of it."""
    wanted = ctx.request.phases
    if wanted == ("decode",):
        decodes(ctx, "use --phase prefill or train")
    return tuple(phase for phase in wanted if ctx.is_autoregressive or phase != "decode")


def decodes(ctx: EstimateContext, instead: str) -> None:
    """Raises UsageError, which ends in what to do `instead`, where something needs a model that writes tokens."""
    if not ctx.is_autoregressive:
        raise UsageError(f"{what(ctx)} and decodes nothing; {instead}", "phase")
