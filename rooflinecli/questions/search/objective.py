"""What is best: a quantity of `estimate`, or one of four everyday names, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.specs.quantities import BLENDED, COST, canonical, higher_is_better

TRAIN = {
    "throughput": "train.tokens_per_s",
    "latency": "train.time_s",
    "time": "train.time_s",
    "cost": f"cost.{COST['train']}",
    "energy": "train.joules_per_token",
    "memory": "train.memory.total_bytes",
    "devices": "layout.devices",
}
SERVE = {
    "throughput": "serve.tokens_per_s_per_device",
    "latency": "serve.itl_s",
    "cost": f"serve.{BLENDED}",
    "energy": "serve.joules_per_token",
    "devices": "serve.devices",
    "ttft": "serve.ttft_s",
    "itl": "serve.itl_s",
}


@dataclass(frozen=True)
class Objective:
    """A quantity and +1 when less is better, -1 when more is."""

    name: str
    quantity: str
    sign: float

    def key(self, value: Number) -> Number:
        """A number to minimize."""
        return value if self.sign > 0 else -value


def objective(name: str, phases: tuple[str, ...]) -> Objective:
    """`throughput`, `tokens_per_s`, `train.memory.total_bytes`, ... Raises UsageError for a name that cannot be one."""
    name = name.strip().removeprefix("phases.")
    alone = "train" in phases
    known = TRAIN if alone else SERVE
    quantity = known.get(name, name if "." in name else f"{'train' if alone else 'serve'}.{name}")
    if not name:
        raise UsageError(
            f"--objective: empty; name one of {', '.join(known)} or a quantity such as {next(iter(known.values()))}"
        )
    quantity = canonical(quantity)
    return Objective(name, quantity, -1.0 if higher_is_better(quantity) else 1.0)
