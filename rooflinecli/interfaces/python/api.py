"""The public Python API, also at the top of the package: the command line's answers as objects.

    import rooflinecli as rl
    e = rl.estimate("llama70b", hw="h100", tp=8)
    e.decode.time_s, e.decode.interval_s, e["phases"]["decode"]["time_s"]
    print(e.explain("decode.time_s"))
    rl.sweep("llama70b", hw="h100", tp=8, batch="1..512x2")     # a pandas or polars frame

Options are those of the command line with underscores, `devices` and `hardware` among them. Every error is an `rl.RooflineError`:
`rl.UsageError`, `rl.DataError`, `rl.Infeasible`; what a person may not have meant is a warning, `rl.Remark`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from rooflinecli.core.errors import DataError, ImpossibleValue, Infeasible, RooflineError, RooflineWarning, UsageError
from rooflinecli.core.record import plain
from rooflinecli.engine import build_request
from rooflinecli.engine.phase_answer import DecodeAnswer, LayoutAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.interfaces.python.dataframes import Calibration, Simulation
from rooflinecli.layers.parameter_counts import Parameters
from rooflinecli.layers.parameter_counts import parameters as _parameters
from rooflinecli.questions.estimate.answer import estimate as _estimate
from rooflinecli.questions.estimate.answer_types import (
    Cost,
    EstimateAnswer,
    HardwareAnswer,
    ModelAnswer,
    Violation,
    Workload,
)
from rooflinecli.questions.estimate.explain import derivation
from rooflinecli.specs import parse_values
from rooflinecli.specs.model import load_model

P = TypeVar("P", bound=PhaseAnswer)
__all__ = [
    "Answer",
    "Calibration",
    "DataError",
    "ImpossibleValue",
    "Infeasible",
    "RooflineError",
    "RooflineWarning",
    "Simulation",
    "UsageError",
    "calibrate",
    "compare",
    "emit",
    "estimate",
    "explain",
    "fleet",
    "parameters",
    "plan",
    "search",
    "simulate",
    "sweep",
]  # fmt: skip


class Answer(dict[str, Any]):
    """What an estimate answers: the object of the JSON contract, which is also typed.

    Times are in seconds of one pass (a prompt, a token, a step), sizes in bytes per device, rates per second over all devices.
    """

    def __init__(self, result: EstimateAnswer, options: dict[str, Any]):
        super().__init__(plain(result))
        self.result, self.options = result, options

    @property
    def model(self) -> ModelAnswer:
        """Name, layers, parameters, bytes of its weights."""
        return self.result.model

    @property
    def hardware(self) -> HardwareAnswer:
        """One device: peak, bandwidth, capacity, ridge."""
        return self.result.hardware

    @property
    def plan(self) -> LayoutAnswer:
        """The layout of the first phase, and whether it was chosen; each phase carries its own."""
        return self.result.plan

    @property
    def workload(self) -> Workload:
        """What was asked, defaults filled in."""
        return self.result.workload

    @property
    def cost(self) -> Cost:
        """Dollars."""
        return self.result.cost

    @property
    def feasible(self) -> bool:
        """Whether every phase fits."""
        return self.result.feasible

    @property
    def violations(self) -> list[Violation]:
        """What does not fit, by how much, and the nearest plan that does."""
        return self.result.violations

    @property
    def prefill(self) -> PrefillAnswer:
        """The prompt; time_s is the time to first token. Raises UsageError where it was not asked for."""
        return self._phase("prefill", PrefillAnswer)

    @property
    def decode(self) -> DecodeAnswer:
        """One token; time_s is the inter-token latency. Raises UsageError where it was not asked for."""
        return self._phase("decode", DecodeAnswer)

    @property
    def train(self) -> TrainAnswer:
        """One optimizer step. Raises UsageError where it was not asked for."""
        return self._phase("train", TrainAnswer)

    def _phase(self, name: str, kind: type[P]) -> P:
        found = self.result.phases.get(name)
        if not isinstance(found, kind):
            raise UsageError(f"this estimate answers {', '.join(self.result.phases)}; ask for phase={name!r}", "phase")
        return found

    def explain(self, quantity: str, depth: int = 3) -> str:
        """The derivation of a quantity such as decode.time_s, as text. Raises UsageError for one that does not exist."""
        return _explained(self.options, quantity, depth)

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract as a plain dictionary."""
        return dict(plain(self.result))

    def to_frame(self) -> Any:
        """A row for each phase, a column for each number: a pandas frame, or a polars one where only that is installed."""
        from rooflinecli.core.record import leaves
        from rooflinecli.interfaces.python.dataframes import frame

        return frame([{"phase": name} | dict(leaves(phase)) for name, phase in self.result.phases.items()])

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        from rooflinecli.render.formats.notebook import page

        return page(self.result)

    def __repr__(self) -> str:
        times = ", ".join(f"{name} {float(phase.time_s):.4g} s" for name, phase in self.result.phases.items())
        return f"<{self.model.name} on {self.plan.devices} x {self.hardware.name}: {times}>"


def estimate(model: str | None = None, hw: str | None = None, *, source: str | None = None, **options: Any) -> Answer:
    """What `roofline estimate MODEL --hw HW` answers; `source` is its --from.

    Raises UsageError for options that are wrong, DataError for a broken file, Infeasible when no device count holds it.
    """
    asked: dict[str, Any] = {"model": model, "hw": hw, **options}
    if source is not None:
        from rooflinecli.importers.launch.read import options as launched

        asked = launched(source, asked, build_request.warn)
    return Answer(_estimate(build_request.request(asked)), asked)


def explain(model: str, hw: str | None = None, quantity: str = "", depth: int = 3, **options: Any) -> str:
    """The derivation of one quantity, as text."""
    return _explained({"model": model, "hw": hw, **options}, quantity, depth)


def _explained(options: dict[str, Any], quantity: str, depth: int) -> str:
    from rooflinecli.render.views.explain import explain as text

    levels = int(parse_values.number("depth", depth))
    return text(derivation(build_request.request(options), str(quantity)), levels)


def emit(tool: str, answer: Answer) -> str:
    """The command or config of an answer's plan for vllm, sglang, trtllm, megatron, ...; what --emit prints."""
    from rooflinecli.questions.estimate.emit import launch as text

    if not isinstance(answer, Answer):
        raise UsageError(
            f"emit takes a tool and an answer of estimate, not {type(answer).__name__}; write rl.emit('vllm', rl.estimate(...))"
        )
    return text(tool, answer.options, answer.result)


def sweep(
    model: str, hw: str, *, columns: list[str] | None = None, where: list[str] | None = None, **options: Any
) -> Any:
    """What `roofline sweep` prints, as a frame: a row for each point. Ranges are strings (1..512x2) or lists of values."""
    from rooflinecli.interfaces.python.dataframes import sweep as rows

    return rows({"model": model, "hw": hw, **options}, columns, where or [])


def search(
    model: str, hw: str, *, objective: str | None = None, where: list[str] | None = None, top: int = 5, **options: Any
) -> Any:
    """What `roofline search` prints, as a frame: a row for each layout, the best first. `ttft`, `itl` and `qps` bound serving."""
    from rooflinecli.interfaces.python.dataframes import search as rows

    return rows({"model": model, "hw": hw, **options}, objective, where or [], top)


def plan(
    model: str, hw: list[str] | str, *, deadline: str | None = None, budget: str | None = None, hold: str = "pessimistic",
    where: list[str] | None = None, qps: str | float | None = None, slo: str | None = None, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """What `roofline plan --format json` prints: the fewest devices of every chip for a deadline, a budget or a rate; `rows` is the best first."""
    from rooflinecli.questions.plan.answer import plan as answered

    asked = {
        "model": model,
        "hw": hw if isinstance(hw, str) else ",".join(hw),
        **{k.replace("_", "-"): v for k, v in options.items()},
    }
    if isinstance(asked.get("phase"), str):
        asked["phase"] = [asked["phase"]]
    return answered(asked, deadline, budget, hold, where or [], None if qps is None else str(qps), slo)


def fleet(file: str, *, hold: str | None = None, objective: str | None = None, split: bool = False) -> dict[str, Any]:
    """What `roofline fleet FILE --format json` prints; `rows` is which model runs on which devices, with what layout.

    Raises DataError for a file that is wrong, UsageError for an objective that needs a price nobody knows.
    """
    from pathlib import Path

    from rooflinecli.questions.fleet.answer import fleet as answered

    return answered(Path(file), hold, objective, split)


def compare(model: str, hw: list[str], *, at: str = "same-devices", rank: str | None = None, **options: Any) -> Any:
    """What `roofline compare` prints, as a frame: a row for each chip, the best first."""
    from rooflinecli.interfaces.python.dataframes import compare as rows

    return rows({"model": model, **options}, hw, at, rank)


def simulate(model: str, hw: str, **options: Any) -> Simulation:
    """What `roofline simulate MODEL --hw HW --format json` prints: every number under `simulate`, its interval under `interval`.

    Options are those of an estimate and of the load (qps, concurrency, trace, prompt, output, requests, slo, replicas, ...).
    """
    from rooflinecli.questions.simulate.answer import answered
    from rooflinecli.questions.simulate.question import Simulate

    answer, ran = answered(Simulate.read({"model": model, "hw": hw, **options}))
    return Simulation(answer.to_dict(), ran.every)


def calibrate(files: list[str] | str, hw: str, *, hold_out: float = 0.3, **options: Any) -> Calibration:
    """What `roofline calibrate FILE... --hw HW --format json` prints; `hardware` is the file it would write, None where nothing moved.

    Raises DataError for a file that is no measurement, UsageError for what neither it nor the options say.
    """
    from pathlib import Path

    from rooflinecli.calibrate.answer import calibrate as answer
    from rooflinecli.calibrate.report import data
    from rooflinecli.calibrate.write_hardware import hardware_yaml

    paths = [Path(path) for path in ([files] if isinstance(files, str) else files)]
    named = {
        name: value for name, value in build_request.named({"model": "-", "hw": hw, **options}).items() if value != "-"
    }
    found = answer(paths, named, hold_out)
    return Calibration(plain(data(found)), hardware_yaml(found) if found.moved else None)


def parameters(model: str) -> Parameters:
    """Exact parameter counts of a model by name, YAML path or Hugging Face config."""
    return _parameters(load_model(model))
