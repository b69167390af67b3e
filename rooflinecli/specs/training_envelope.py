"""The envelope of published training runs: how far their layouts go, and the wider interval of a layout beyond it.

published_runs/precedent.yaml is made from the rows by `python -m lab.training_envelope`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.snapshots import published

TECHNIQUES = (
    "tp", "pp", "virtual stages", "cp", "ep", "ep across fast domains", "larger micro-batches", "ZeRO-2", "ZeRO-3"
)  # fmt: skip
OF_THE_QUESTION = ("chip", "stack", "family", "mixer", "format")  # kinds that all layouts of a question share


@dataclass(frozen=True)
class TrainingEnvelope:
    """The envelope of published runs on a kind of chip.

    together: pairs of TECHNIQUES that fewer than two runs combine (a pair of one and the same: that fewer have at all). tensor: ranks of a
    tensor group per fast domain. stages: virtual stages. context: tokens of a sequence on a context rank, the fewest. experts: of a
    layer on one device. sharding: fast domains over which weights are sharded. hidden and memory: what nine of ten runs keep to, of the
    step and of the capacity, and where all is new. fitted: whether constants were fitted to runs of the chip. measured: by stack, format
    and model family of the runs on the chip, the half width that a step of such a run needs; others: that of a configuration without
    runs, by what other runs of the stack need (None on a kind of chip without runs). mixers: kinds of sequence mixer that constants were
    fitted to.
    """

    together: tuple[tuple[str, str], ...]
    tensor: float
    stages: float
    context: float
    experts: float
    sharding: float
    hidden: tuple[float, float]
    memory: tuple[float, float]
    fitted: bool
    measured: Mapping[str, float]
    others: float | None
    mixers: frozenset[str]


@lru_cache(maxsize=64)
def envelope(kind: str, chip: str, software: str, mixture: bool) -> TrainingEnvelope:
    """The envelope of a chip of a kind (`gpu`, `tpu`; others are held to GPUs), a framework, dense models or mixtures."""
    data = published("precedent")
    of = data["kinds"][kind if kind in data["kinds"] else "gpu"]
    model = "mixture" if mixture else "dense"
    done = {tuple(pair.split(" + ")) for pair in of["together"]}
    return TrainingEnvelope(
        together=tuple(pair for pair in pairs() if pair not in done),
        tensor=of["tensor"],
        stages=of["stages"],
        context=of["context"],
        experts=of["experts"],
        sharding=data["frameworks"].get(software, of["sharding"]),
        hidden=tuple(of["hidden"][model]),
        memory=tuple(of["memory"][model]),
        fitted=chip in data["chips"],
        measured=data["measured"].get(chip, {}),
        others=data["stacks"].get(software, data["stacks"]["others"])[model] if kind in data["kinds"] else None,
        mixers=frozenset(data["mixers"]),
    )


def most_devices(kind: str) -> float:
    """Devices of the largest published run on a kind of chip."""
    kinds = published("precedent")["kinds"]
    return float(kinds[kind if kind in kinds else "gpu"]["devices"])


def pairs() -> list[tuple[str, str]]:
    """Every technique with itself and with each that comes after it."""
    return [(name, name) for name in TECHNIQUES] + list(combinations(TECHNIQUES, 2))


def widening(mixture: bool) -> dict[str, float]:
    """Relative error of a layout that has nothing like it among the published ones, of a dense model or a mixture, by what is new about it."""
    model = "mixture" if mixture else "dense"
    return {kind: errors[model] for kind, errors in published("precedent")["widening"].items()}
