"""`estimate`: one model, one chip, one plan per phase -> the contract's object."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from rooflinecli import memory, num
from rooflinecli.answers.parameters import parameters
from rooflinecli.engine import choose as planning
from rooflinecli.engine import inference
from rooflinecli.engine.scene import Scene
from rooflinecli.engine.training import train
from rooflinecli.errors import UsageError, unknown
from rooflinecli.formulas import money, roofline, training
from rooflinecli.ledger import Ledger
from rooflinecli.lift import PLAIN, Plain
from rooflinecli.num import Number
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import MOST, PHASES, Request
from rooflinecli.units import si

SCHEMA = "roofline/estimate/1"
PHASE = {"prefill": inference.prefill, "decode": inference.decode, "train": train}


def estimate(request: Request, lift: Plain = PLAIN) -> dict[str, Any]:
    """Everything `roofline estimate` prints, SI, the unit in the key. Numbers are Traced when `lift` is.

    Raises UsageError for a request that cannot be laid out. An infeasible one is answered, with `feasible` false.
    """
    scene = Scene(request)
    phases_asked = _phases(scene)
    if phases_asked != request.phases:
        request = scene.request = replace(request, phases=phases_asked)
    planning.check(scene)
    choices = choose_plans(scene)
    lifted = scene if lift is PLAIN else Scene(request, lift)
    phases = {}
    for phase in request.phases:
        choice = choices[phase]
        answer = PHASE[phase](lifted, lifted.plan(choice.plan))
        answer["bound"], answer["bound_by"] = _bound(answer["resources_s"])
        answer["plan"] = _plan(choice)
        phases[phase] = answer
    violations = _violations(scene, phases, choices)
    main = next(iter(choices.values()))
    return {
        "schema": SCHEMA,
        "model": _model(scene),
        "hardware": _hardware(scene),
        "plan": _plan(main),
        "workload": _workload(scene) | _in_flight(phases),
        "phases": phases,
        "cost": cost(lifted, phases, choices),
        "feasible": not violations,
        "violations": violations,
    }


def _phases(scene: Scene) -> tuple[str, ...]:
    """The phases asked for; an encoder has no decode, and asking for that alone is an error."""
    wanted = scene.request.phases
    for phase in wanted:
        if phase not in PHASE:
            raise unknown("phase", phase, PHASES)
    if not scene.generates and wanted == ("decode",):
        raise UsageError(f"{scene.spec.name} is an encoder and decodes nothing; use --phase prefill or train")
    return tuple(p for p in wanted if scene.generates or p != "decode")


def choose_plans(scene: Scene) -> dict[str, planning.Choice]:
    """A plan per phase; prefill and decode share one, chosen for decode."""
    phases = scene.request.phases
    result: dict[str, planning.Choice] = {}
    serving = None
    for phase in phases:
        if phase == "train":
            result[phase] = planning.choose(scene, phase, lambda p: train(scene, p)["time_s"])
        else:
            if serving is None:
                serving = planning.choose(scene, phase, lambda p: inference.decode(scene, p)["time_s"])
            result[phase] = serving
    return result


def _bound(resources: dict[str, Number]) -> tuple[str, float]:
    """Which resource sets the floor, and how many times longer it takes than the next."""
    ranked = sorted(((float(num.value(t)), name) for name, t in resources.items()), reverse=True)
    (first, name), (second, _) = ranked[:2]
    return name, first / second if second else float("inf")


@lru_cache(maxsize=64)
def _whole(book: Ledger) -> memory.DeviceParameters:
    """All parameters of a model on one device."""
    return memory.device_parameters(book, Plan(), PLAIN)


def _model(scene: Scene) -> dict[str, Any]:
    p = parameters(scene.spec)
    whole = _whole(scene.book)
    return {
        "name": scene.spec.name,
        "id": scene.spec.id,
        "layers": scene.book.n_layers,
        "parameters": {
            "total": p.total,
            "active": p.active,
            "embedding": p.embedding,
            "active_without_embedding": p.active_without_embedding,
        },
        "weights_bytes": memory.weights(whole, scene.formats, 1.0),
    }


def _hardware(scene: Scene) -> dict[str, Any]:
    spec = scene.request.hardware
    return {
        "name": spec.name,
        "id": spec.id,
        "peak_flops_per_s": scene.chip.peak(scene.formats.compute),
        "bandwidth_bytes_per_s": scene.chip.bandwidth,
        "capacity_bytes": scene.chip.capacity,
        "ridge_flops_per_byte": roofline.ridge_point(scene.chip.peak(scene.formats.compute), scene.chip.bandwidth),
    }


def _plan(choice: planning.Choice) -> dict[str, Any]:
    plan = choice.plan
    sizes = {k: int(getattr(plan, k)) for k in ("devices", "tp", "pp", "dp", "cp", "ep")}
    return {
        **sizes,
        "zero": plan.zero,
        "micro_batch": int(plan.micro_batch),
        "virtual_stages": int(plan.virtual_stages),
        "sequence_parallel": plan.sequence_parallel,
        "recompute": plan.recompute,
        **_unusual(plan),
        "chosen": choice.chosen,
        "reason": choice.reason,
    }


def _unusual(plan: Plan) -> dict[str, Any]:
    """The parts of a plan that are seldom given, where they were."""
    names = (
        "recompute_layers",
        "recompute_modules",
        "schedule",
        "ring",
        "shard",
        "stages",
        "imbalance",
        "dropout",
        "offload",
        "software",
        "recipe",
    )
    return {name: getattr(plan, name) for name in names if getattr(plan, name) != getattr(Plan, name)}


def _workload(scene: Scene) -> dict[str, Any]:
    r = scene.request
    work: dict[str, Any] = {
        "dtype": scene.dtype,
        "kv_dtype": r.kv_dtype or ("bf16" if scene.formats.kv == 2 else scene.dtype),
        "attention_flops": r.attention_flops,
        "efficiency": r.efficiency,
    }
    if "prefill" in r.phases or "decode" in r.phases:
        work |= {"batch": scene.batch, "prompt": scene.prompt, "output": scene.output}
        work |= {"qps": r.qps} if r.qps is not None else {}
        work |= {"concurrency": "max" if r.concurrency is MOST else r.concurrency} if r.concurrency is not None else {}
    if "train" in r.phases:
        work |= {
            "train_batch": scene.train_batch,
            "seq": scene.seq,
            "gradient_bytes": scene.gradient_bytes,
            "optimizer_bytes": scene.optimizer_bytes,
        }
        if r.tokens is not None:
            work["tokens"] = r.tokens
    return work


def _in_flight(phases: dict[str, Any]) -> dict[str, Any]:
    """The batch that the load came to, where decode says."""
    return {"batch": phases["decode"]["batch"]} if "decode" in phases else {}


def cost(scene: Scene, phases: dict[str, Any], choices: dict[str, planning.Choice]) -> dict[str, Any]:
    """Dollars per million tokens of each phase, and of a whole run when its tokens are given."""
    price = scene.price
    keys = {
        "prefill": "usd_per_million_input_tokens",
        "decode": "usd_per_million_output_tokens",
        "train": "usd_per_million_training_tokens",
    }
    bill: dict[str, Any] = dict.fromkeys(keys.values()) | {"training_usd": None, "usd_per_device_hour": price}
    if price is None:
        return bill
    for phase, key in keys.items():
        if phase in phases:
            hourly = money.fleet_price(scene.plan(choices[phase].plan).devices, price)
            bill[key] = money.usd_per_million_tokens(hourly, phases[phase]["tokens_per_s"], scene.utilisation)
    if "train" in phases and scene.request.tokens is not None:
        tokens = scene.flag("T", scene.request.tokens, "tokens", "--tokens")
        steps = training.training_steps(tokens, scene.train_batch, scene.seq)
        seconds = steps * phases["train"]["time_s"]
        phases["train"] |= {"steps": steps, "run_s": seconds}
        hourly = money.fleet_price(scene.plan(choices["train"].plan).devices, price)
        bill["training_usd"] = money.run_cost(seconds, hourly)
    elif "train" in phases:
        phases["train"] |= {"steps": None, "run_s": None}
    return bill


def _violations(scene: Scene, phases: dict[str, Any], choices: dict[str, planning.Choice]) -> list[dict[str, Any]]:
    """What does not fit, by how much, and the nearest plan that would."""
    found = []
    for phase, answer in phases.items():
        held = answer["memory"]
        needed, available = (float(num.value(held[k])) for k in ("total_bytes", "capacity_bytes"))
        if needed <= available:
            continue
        option = planning.nearest(scene, phase)
        remedy = (
            f"nearest that works: {_flags(option.plan, phase)}"
            if option
            else "no layout holds it; lower --batch or the lengths"
        )
        found.append(
            {
                "constraint": f"{phase}.memory",
                "needed": needed,
                "available": available,
                "nearest": _plan(option) if option else None,
                "message": f"{phase} needs {si(needed, 'B')} per device, {si(needed - available, 'B')} more than the {si(available, 'B')} of "
                f"{scene.request.hardware.name}; {remedy}",
            }
        )
    return found


def _flags(plan: Plan, phase: str) -> str:
    text = f"-n {int(plan.devices)} --tp {int(plan.tp)}"
    if plan.pp > 1:
        text += f" --pp {int(plan.pp)}"
    if phase == "train":
        text += f" --zero {plan.zero} --recompute {plan.recompute}"
    return text
