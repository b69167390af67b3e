"""What may be changed about a plan to make it pass: per kind of change, the options to try, nearest first."""

from __future__ import annotations

from rooflinecli.engine.phase_answer import LayoutAnswer
from rooflinecli.importers.source import Options
from rooflinecli.questions.estimate.answer_types import EstimateAnswer

FARTHEST = 16
OPEN: Options = {"tp": None, "pp": None, "dp": None, "cp": None}
_WIDE = ("bf16", "fp16", "fp32")
_NARROW = ("fp8", "int8")


def moves(options: Options, result: EstimateAnswer) -> dict[str, list[Options]]:
    """kind of change -> options over the ones given (None takes one back), from the least to the most disruptive kind."""
    work, training = result.workload, "train" in result.phases
    serving = not training or len(result.phases) > 1
    plan = result.phases["train" if training else next(iter(result.phases))].layout_of_phase
    found = {"layout": _training_layouts(plan) if training else _layouts(plan)}
    if serving and work.kv_dtype in _WIDE:
        found["kv-dtype"] = [{"kv-dtype": dtype} for dtype in _NARROW]
    if serving and not training and not {"qps", "concurrency"} & set(options):
        found["batch"] = [{"batch": batch} for batch in _around(int(work.batch))]
    found["devices"] = _devices(plan.devices)
    if not training and options.get("weight-dtype") is None and work.dtype in _WIDE:
        found["weight-dtype"] = [{"weight-dtype": "fp8"}, {"weight-dtype": "int8"}, {"weight-dtype": "int4"}]
    if work.dtype in _WIDE:
        found["dtype"] = [{"dtype": dtype} for dtype in _NARROW[: 1 if training else 2]]
    if training and not serving:
        found["batch"] = [{"batch": int(work.train_batch) * k} for k in (2, 4, 8)]
    return found


def pairs(kinds: dict[str, list[Options]]) -> list[Options]:
    """Two kinds of change together; the layout is free wherever the devices change."""
    few = {kind: options for kind, options in kinds.items() if kind != "layout"}
    few["devices"] = [o for o in few["devices"] if "tp" in o]
    names = list(few)
    return [
        {**one, **other}
        for i, first in enumerate(names)
        for second in names[i + 1 :]
        for one in few[first]
        for other in few[second]
    ]


def _layouts(plan: LayoutAnswer) -> list[Options]:
    """Other tensor-parallel sizes on the same devices, the nearest first."""
    n, tp = plan.devices, plan.tp
    sizes = [2**i for i in range(n.bit_length()) if n % 2**i == 0 and 2**i != tp]
    return [{**OPEN, "n": n, "tp": size} for size in sorted(sizes, key=lambda s: abs(s.bit_length() - tp.bit_length()))]


def _training_layouts(plan: LayoutAnswer) -> list[Options]:
    """What training can trade on the same devices: recomputation, ZeRO, interleaving, the whole layout, the microbatch."""
    n = plan.devices
    free: Options = {**OPEN, "n": n, "zero": None, "recompute": None}
    traded: list[Options] = [{"recompute": None}, {"zero": 2, "recompute": None}, {"zero": None, "recompute": None}]
    interleaved: list[Options] = (
        [{**change, "virtual-stages": size} for change in ({}, *traded) for size in (2, 4, 8)] if plan.pp > 1 else []
    )
    return [*traded, *interleaved, free, *({**free, "micro-batch": size} for size in (2, 4))]


def _around(batch: int) -> list[int]:
    """Smaller batches by halves down to one sequence, then larger ones."""
    smaller = [batch >> i for i in range(1, batch.bit_length()) if batch >> i >= 1]
    return [*smaller, batch * 2, batch * 4, batch * 8]


def _devices(count: int) -> list[Options]:
    """Twice, half, four times ... the devices: first with the layout kept, then with it free."""
    found: list[Options] = []
    factor = 2
    while factor <= FARTHEST:
        for n in (count * factor, count // factor if count % factor == 0 else 0):
            found += [{"n": n, "dp": None}, {**OPEN, "n": n}] if n else []
        factor *= 2
    return found
