"""The same random estimates asked of two checkouts, their numbers side by side: what `against.py --numbers COUNT` prints.

A question uses models, chips and options that both checkouts know. Numbers are compared by class: counts (parameters,
FLOPs, bytes moved), memory, floors, and what is expected. Counts, memory and floors follow from definitions, so one that
differs needs a reason: CAUSES has those since 0.1.0, and what none of them explains is listed and fails. What is expected
follows fits.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SEED = 13
SAME = 1e-12  # relative: sums in another order
TRAIN: dict[str, tuple[Any, ...]] = {
    "batch": (64, 256, 1024),
    "seq": (2048, 4096, 8192),
    "zero": (0, 1, 2, 3),
    "micro-batch": (1, 2),
    "recompute": ("none", "selective", "full"),
    "tp": (1, 2, 4, 8),
    "pp": (1, 2, 4),
    "sequence-parallel": (True, False),
}
SERVE: dict[str, tuple[Any, ...]] = {
    "batch": (1, 8, 64),
    "prompt": (128, 1024, 4096),
    "output": (16, 256, 1024),
    "tp": (1, 2, 4, 8),
    "pp": (1, 2),
}
CHIPS = (
    "a100-sxm-80",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "mi300x",
    "tpu-v4",
    "tpu-v5e",
    "tpu-v5p",
)  # joined by networks
ANY: dict[str, tuple[Any, ...]] = {"dtype": ("bf16", "fp8"), "attention-flops": ("causal", "full")}
CLASSES = (
    (
        "counts",
        (
            "parameters.",
            ".flops",
            "flops_per_s",
            ".microbatches",
            "communication_bytes",
            "bytes_per_device",
            "weights_bytes",
        ),
    ),
    ("memory", (".memory.", "capacity_bytes")),
    ("floors", (".floor_s", ".resources_s")),
)

Test = Callable[[dict[str, Any]], Any]


def _plan(phase: str, size: str) -> Callable[[dict[str, Any]], Any]:
    return lambda a: a.get(f"phases.{phase}.plan.{size}", 0)


_pp, _zero, _again = _plan("train", "pp"), _plan("train", "zero"), _plan("train", "recompute")
_stages, _tp = _plan("decode", "pp"), _plan("decode", "tp")
_HELD = r"train\.memory\.(total_bytes|headroom|{})"
# Why a count, memory or floor is no longer that of 0.1.0: the sentence, where it shows, and of which answers.
CAUSES: tuple[tuple[str, str, Test], ...] = (
    ("CLIP's second tower is counted and priced (defect 7)", r".", lambda a: a["facts.towers"]),
    ("a pass of an encoder holds --batch inputs", r"prefill\.", lambda a: not a["facts.writes"]),
    (
        "FLOPs of serving are those of all replicas, and of the prompts that all stages have under way",
        r"(prefill|decode)\.flops$",
        lambda a: any(_plan(phase, axis)(a) > 1 for phase in ("prefill", "decode") for axis in ("dp", "pp")),
    ),
    (
        "a decoder of a context below 512 no longer gets a prompt below zero",
        r".",
        lambda a: a["facts.writes"] and a["facts.context"] < 512,
    ),
    (
        "quantised checkpoints weigh what their tensors come to, and gpt-oss is read and computed in the formats it is served in",
        r"weights_bytes|bytes_per_device|peak_flops|capacity|total_bytes|headroom|resources_s\.(compute|memory)|floor_s",
        lambda a: a["facts.quantised"],
    ),
    (
        "key/value heads that tp does not divide are padded up to whole ones",
        r".",
        lambda a: (
            a["facts.kv_heads"] % max(_tp(a), _plan("train", "tp")(a), 1)
            and a["facts.kv_heads"] > max(_tp(a), _plan("train", "tp")(a))
        ),
    ),
    (
        "parallel blocks are summed once a layer (defect 5)",
        r"communication|(prefill|decode)\.floor_s",
        lambda a: a["facts.parallel"],
    ),
    (
        "the least bytes of experts are those of the fewest that could have work",
        r"(prefill|decode)\.(bytes_per_device|resources_s\.memory|floor_s)",
        lambda a: a["facts.experts"],
    ),
    (
        "a replica's stages stand beside each other, so that what they send stays on the inner network",
        r"(prefill|decode)\.(resources_s\.communication|floor_s)",
        lambda a: _stages(a) > 1,
    ),
    (
        "in a pipeline ZeRO-3 keeps weights whole between microbatches",
        _HELD.format("weights_bytes") + r"|train\.(communication_bytes\.dp|resources_s\.communication|floor_s)",
        lambda a: _pp(a) > 1 and _zero(a) >= 3,
    ),
    (
        "matmuls in 8 bits train on weights kept in 16, or twice in 8",
        _HELD.format("weights_bytes"),
        lambda a: a["workload.dtype"] == "fp8",
    ),
    (
        "ZeRO-3 gathers those weights in 16 bits",
        r"train\.(communication_bytes\.dp|resources_s\.communication|floor_s)",
        lambda a: a["workload.dtype"] == "fp8" and _zero(a) >= 3,
    ),
    (
        "inputs saved for matmuls in 8 bits are as narrow",
        _HELD.format("activations_bytes"),
        lambda a: a["workload.dtype"] == "fp8",
    ),
    (
        "XLA keeps what norms and activation functions gave, and the logits again",
        _HELD.format("activations_bytes"),
        lambda a: a["facts.tpu"],
    ),
    (
        "the loss is done with its logits before the first layer runs again",
        _HELD.format("activations_bytes"),
        lambda a: _again(a) == "full",
    ),
    (
        "stages are cut so that the one with the head has fewer layers",
        r"train\.(floor_s|resources_s|communication_bytes)",
        lambda a: _pp(a) > 1,
    ),
    (
        "a training step's floor is at least what its slowest resource takes, the wires of data parallelism included",
        r"train\.floor_s",
        lambda a: a["phases.train.floor_s"] >= a["phases.train.resources_s.communication"] * (1 - SAME),
    ),
)


def questions(models: list[str], chips: list[str], seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Options of `estimate`, without end; sizes are powers of two, so many can be laid out."""
    rng = random.Random(seed)
    while True:
        training = rng.random() < 0.5
        asked: dict[str, Any] = {"model": rng.choice(models), "hw": rng.choice(chips)}
        asked |= {
            "phase": "train" if training else "prefill,decode",
            "n": rng.choice((8, 16, 64) if training else (1, 8, 16)),
        }
        for name, values in {**(TRAIN if training else SERVE), **ANY}.items():
            if rng.random() < 0.5:
                asked[name] = rng.choice(values)
        yield asked


def both_know(roots: list[Path], kind: str) -> list[str]:
    """Names of models or chips that every checkout ships."""
    return sorted(set.intersection(*({path.stem for path in (root / kind).glob("*.yaml")} for root in roots)))


def answer(options: dict[str, Any]) -> dict[str, Any]:
    """Every number of an estimate by its dotted path, or the sentence that refuses it under `refused`."""
    from rooflinecli.core.errors import RooflineError
    from rooflinecli.questions.estimate.answer import estimate

    try:
        from rooflinecli.core.record import plain
        from rooflinecli.engine import build_request
    except ImportError:  # 0.1.0
        from rooflinecli.answers import ask as build_request  # type: ignore[no-redef, import-not-found]

        plain = dict
    try:
        found = plain(estimate(build_request.request(options)))
    except RooflineError as error:
        return {"refused": str(error)}
    return {**dict(_leaves(found, "")), **_facts(options)}


def _facts(options: dict[str, Any]) -> dict[str, Any]:
    """What CAUSES ask of a model and a chip, under `facts.`; nothing of a checkout that has not got it."""
    try:
        from rooflinecli.engine.context import EstimateContext
    except ImportError:
        return {}
    from rooflinecli.engine import build_request

    ctx = EstimateContext(build_request.request(options))
    attention = [layer.attention for layer in ctx.spec.layers if layer.attention is not None]
    return {
        "facts.experts": bool(ctx.ledger.experts),
        "facts.parallel": any(layer.parallel for layer in ctx.spec.layers),
        "facts.towers": bool(ctx.ledger.towers),
        "facts.writes": ctx.is_autoregressive,
        "facts.quantised": ctx.spec.quantization is not None,
        "facts.context": ctx.spec.max_context or math.inf,
        "facts.kv_heads": min((a.n_kv_heads for a in attention if a.n_kv_heads), default=0),
        "facts.tpu": ctx.chip.spec.kind == "tpu",
    }


def _leaves(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, f"{prefix}.{key}")
    else:
        yield prefix.removeprefix("."), value


def kind(path: str) -> str:
    """The class of a number by its path."""
    dotted = f".{path}"
    for name, parts in CLASSES:
        if any(part in dotted for part in parts):
            return "memory" if name == "counts" and ".memory." in dotted else name
    return "expected"


def differs(a: Any, b: Any) -> bool:
    """Whether two numbers are not the same, the order of sums aside."""
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return bool(a != b)
    return not math.isclose(a, b, rel_tol=SAME)


def cause(path: str, now: dict[str, Any]) -> str:
    """Why a count, memory or floor may differ from 0.1.0's; nothing where no reason is known."""
    return next((why for why, where, holds in CAUSES if re.search(where, path) and holds(now)), "")


def compare(pairs: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]) -> tuple[list[str], bool]:
    """Lines of a report on (question, before, now), and whether every count, memory and floor is the same or explained."""
    seen: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    why: Counter[str] = Counter()
    unknown: list[str] = []
    laid = Counter(_outcome(before, now) for _, before, now in pairs)
    for question, before, now in pairs:
        for path in _shared(before, now):
            name = kind(path)
            seen[name] += 1
            if not differs(before[path], now[path]):
                continue
            changed[name] += 1
            if name == "expected":
                continue
            found = cause(path, now)
            why[found] += 1
            if not found:
                unknown.append(f"  {path}: {before[path]:.9g} before, {now[path]:.9g} now, of {json.dumps(question)}")
    lines = [f"{count:6} of {len(pairs)} estimates: {what}" for what, count in laid.most_common()]
    lines += [f"{seen[name]:6} {name}, {changed[name]} differ" for name in (*(name for name, _ in CLASSES), "expected")]
    lines += [f"{count:6} {what or 'for no known reason:'}" for what, count in why.most_common()]
    return [*lines, *unknown], not unknown


def _shared(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Paths of the numbers that both have under the same layout."""
    if _outcome(before, now) != "the same layout":
        return []
    return sorted(
        path
        for path in before.keys() & now.keys()
        if all(isinstance(side[path], (int, float)) for side in (before, now))
    )


def _outcome(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Only the same layout has numbers that can be the same."""
    if "refused" in before or "refused" in now:
        refused = [side for side, found in (("before", before), ("now", now)) if "refused" in found]
        return f"refused {' and '.join(refused)}"
    plans = [
        {k: v for k, v in found.items() if ".plan." in f".{k}" and not k.endswith(("reason", "chosen"))}
        for found in (before, now)
    ]
    shared = plans[0].keys() & plans[1].keys()
    return "the same layout" if all(plans[0][k] == plans[1][k] for k in shared) else "another layout is chosen"
