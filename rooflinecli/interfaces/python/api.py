"""The public Python API, also at the top of the package: the command line's answers as objects.

    import rooflinecli as rl
    e = rl.estimate("llama70b", hw="h100", tp=8)
    e.decode.time_s, e.decode.interval_s, e["phases"]["decode"]["time_s"]
    print(e.explain("decode.time_s"))
    rl.sweep("llama70b", hw="h100", tp=8, batch="1..512x2")     # a pandas or polars frame

Options are those of the command line with underscores, `devices` and `hardware` among them. Every error is an `rl.RooflineError`:
`rl.UsageError`, `rl.DataError`, `rl.Infeasible`; what a person may not have meant is a warning, `rl.RooflineWarning`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar, cast

from rooflinecli.calibrate.question import Calibrate
from rooflinecli.core.errors import DataError as DataError
from rooflinecli.core.errors import ImpossibleValue as ImpossibleValue
from rooflinecli.core.errors import Infeasible as Infeasible
from rooflinecli.core.errors import RooflineError as RooflineError
from rooflinecli.core.errors import RooflineWarning as RooflineWarning
from rooflinecli.core.errors import UsageError as UsageError
from rooflinecli.core.record import Json, Record, leaves, plain
from rooflinecli.engine.phase_answer import DecodeAnswer, LayoutAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.interfaces import verbs
from rooflinecli.layers.parameter_counts import Parameters
from rooflinecli.layers.parameter_counts import parameters as _parameters
from rooflinecli.questions.check.question import Check
from rooflinecli.questions.collective.question import Collective
from rooflinecli.questions.compare.question import Compare
from rooflinecli.questions.estimate.answer_types import (
    Cost,
    EstimateAnswer,
    HardwareAnswer,
    ModelAnswer,
    Violation,
    Workload,
)
from rooflinecli.questions.estimate.question import Estimate, Explain
from rooflinecli.questions.fit.question import Fit
from rooflinecli.questions.fleet.question import FleetPlan
from rooflinecli.questions.goodput.question import TrainingGoodput
from rooflinecli.questions.ops.question import Ops
from rooflinecli.questions.plan.question import Plan
from rooflinecli.questions.question import Question
from rooflinecli.questions.rl.question import Rl
from rooflinecli.questions.search.question import Search
from rooflinecli.questions.serving.question import Speculate
from rooflinecli.questions.shard.question import Partitioning, Shard
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.sweep.question import Sweep
from rooflinecli.specs.model import load_model

A = TypeVar("A", bound=PhaseAnswer)
P = ParamSpec("P")
Q = TypeVar("Q", bound=Question[Any])
R = TypeVar("R")


class Answer(Json):
    """The answer of an estimate: the object of the JSON contract, with typed properties.

    Times are in seconds of one pass (a prompt, a token, a step), sizes in bytes per device, rates per second over all devices.

    Attributes: `model` (name, layers, parameters, bytes of its weights), `hardware` (one device: peak, bandwidth, capacity, ridge),
    `workload` (defaults filled in), `cost` (dollars), `feasible` (whether every phase fits), `violations` (of limits, by how much, and
    the nearest feasible layout).
    """

    model: ModelAnswer
    hardware: HardwareAnswer
    workload: Workload
    cost: Cost
    feasible: bool
    violations: list[Violation]

    def __init__(self, result: EstimateAnswer, options: Json, source: str | None = None):
        super().__init__(plain(result))
        self.result, self.options, self.source = result, options, source
        for name in ("model", "hardware", "workload", "cost", "feasible", "violations"):
            setattr(self, name, getattr(result, name))

    @property
    def plan(self) -> LayoutAnswer:
        """The layout of the first phase, and whether it was chosen; each phase carries its own."""
        return self.result.layout

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

    def _phase(self, name: str, kind: type[A]) -> A:
        found = self.result.phases.get(name)
        if not isinstance(found, kind):
            raise UsageError(f"this estimate answers {', '.join(self.result.phases)}; ask for phase={name!r}", "phase")
        return found

    def explain(self, quantity: str, depth: int = 3) -> str:
        """The derivation of a quantity such as decode.time_s, as text. Raises UsageError for one that does not exist."""
        return Explain.read({**self.options, "quantity": quantity, "depth": depth}).answer().text

    def to_dict(self) -> Json:
        """The JSON contract as a plain dictionary."""
        return dict(plain(self.result))

    def to_frame(self) -> Any:
        """A row for each phase, a column for each number: a pandas frame, or a polars one where only that is installed."""
        return _frame([{"phase": name} | dict(leaves(phase)) for name, phase in self.result.phases.items()])

    def _repr_html_(self) -> str:
        """The first screen of `roofline estimate`, for a notebook."""
        from rooflinecli.render.report.page import draw
        from rooflinecli.render.views.estimate import view

        return draw(view(self.result))

    def __repr__(self) -> str:
        times = ", ".join(f"{name} {float(phase.time_s):.4g} s" for name, phase in self.result.phases.items())
        return f"<{self.model.name} on {self.plan.devices} x {self.hardware.name}: {times}>"


def _frame(rows: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """A frame of rows, or of columns. Raises UsageError where neither library is installed."""
    if find_spec("pandas") is not None:
        import pandas

        return pandas.DataFrame(rows if isinstance(rows, Mapping) else list(rows))
    if find_spec("polars") is not None:
        import polars

        if isinstance(rows, Mapping):
            return polars.DataFrame(rows, strict=False)
        return polars.DataFrame([dict(row) for row in rows], strict=False, infer_schema_length=None)
    raise UsageError("a frame needs pandas or polars; install one of them, or use to_dict()")


class Simulation(Json):
    """The answer of a simulation: the object that `roofline simulate --format json` prints. Its parts, and the numbers of the run by
    their names, are attributes as well: `s.ttft_p99_s`, `s.slo`.

    `times` holds every request's seconds and tokens, as arrays.
    """

    def __init__(self, answer: Mapping[str, Any], times: Any):
        super().__init__(answer)
        self.times = times

    def requests(self) -> Any:
        """A row for each request, as `--requests-out` writes them: a pandas frame, or a polars one where only that is installed."""
        from rooflinecli.render.formats.request_log import table

        return _frame(table(self.times))

    def __missing__(self, name: str) -> Any:
        """A number of the run, such as ttft_p99_s."""
        return self["simulate"][name]

    def __getattr__(self, name: str) -> Any:
        """A part of the answer, or a number of the run."""
        if name in self:
            return self[name]
        if name in self.get("simulate", ()):
            return self["simulate"][name]
        raise AttributeError(
            f"a simulation has no {name}; it has {', '.join(self)} and the numbers of the run in simulate"
        )

    def to_dict(self) -> Json:
        """The JSON contract as a plain dictionary."""
        return dict(self)

    def to_frame(self) -> Any:
        """A row for each number with the ends of its 80% interval, None where it has none: a pandas frame, or a polars one."""
        ends = self["interval"]
        return _frame(
            {
                "quantity": name,
                "value": value,
                "low": (ends.get(name) or [None])[0],
                "high": (ends.get(name) or [None])[-1],
            }
            for name, value in self["simulate"].items()
        )


class Calibration(Json):
    """The answer of a calibration: the object that `roofline calibrate --format json` prints, and the hardware file that it makes."""

    def __init__(self, answer: Mapping[str, Any], hardware: str | None):
        super().__init__(answer)
        self.hardware = hardware

    def to_frame(self, title: str = "error") -> Any:
        """Return the rows of a table by a word of its title: error, determine, contradict, read or next.

        Raises UsageError where no title has it.
        """
        found = next((table["rows"] for table in self["tables"] if title in table["title"]), None)
        if found is None:
            raise UsageError(f"no table is about {title!r}; there are: {'; '.join(t['title'] for t in self['tables'])}")
        return _frame(found)


def _function(kind: Callable[P, Q], wrap: Callable[[Q], R]) -> Callable[P, R]:
    """The Python function of a question: the signature of its constructor; `wrap` answers.

    Names of earlier releases, and those of the command line, are read too.
    """

    def ask(*args: Any, **written: Any) -> R:
        return wrap(question.read(question.placed(args, written)))

    question: Any = kind
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.required else field.default,
        )
        for name, field in question.fields().items()
    ]
    ask.__name__ = ask.__qualname__ = question.verb
    ask.__doc__ = question.__doc__
    ask.__signature__ = inspect.Signature(sorted(parameters, key=lambda p: p.kind))  # type: ignore[attr-defined]
    return cast(Callable[P, R], ask)


def _swept(question: Sweep) -> Any:
    """The whole of a sweep as a frame, its chunks joined."""
    import numpy as np

    from rooflinecli.questions.sweep.run import SweepStudy

    study = SweepStudy(question)
    found: dict[str, list[Any]] = {name: [] for name in study.shown.names}
    for table, _ in study.tables():
        for name, parts in found.items():
            value = table[name]
            spread = isinstance(value, np.ndarray) and value.ndim
            parts.append(value if spread else np.full(len(table["feasible"]), value))
    return _frame({name: np.concatenate(parts) for name, parts in found.items()})


def _rows(answer: Record, name: str) -> Any:
    """A list of an answer as a frame, a column for each number; empty where nothing is feasible."""
    return _frame([dict(leaves(row)) for row in getattr(answer, name)])


def _estimated(question: Estimate) -> Answer:
    options = question.all_options()
    return Answer(question.answer_to(question.request_of(options)), options, question.source)


def _simulated(question: Simulate) -> Simulation:
    from rooflinecli.questions.simulate.answer import answer_and_run

    answer, ran = answer_and_run(question)
    return Simulation(answer.to_dict(), ran.every)


def _calibrated(question: Calibrate) -> Calibration:
    from rooflinecli.calibrate.answer import hardware_yaml, report

    found = question.answer()
    return Calibration(plain(report(found)), hardware_yaml(found) if found.moved else None)


estimate = _function(Estimate, _estimated)
explain = _function(Explain, lambda question: question.answer().text)
sweep = _function(Sweep, _swept)
search = _function(Search, lambda question: _rows(question.answer(), "results"))
compare = _function(Compare, lambda question: _rows(question.answer(), "rows"))
simulate = _function(Simulate, _simulated)
calibrate = _function(Calibrate, _calibrated)
plan = _function(Plan, verbs.answer)
fleet = _function(FleetPlan, verbs.answer)
check = _function(Check, verbs.answer)
rl = _function(Rl, verbs.answer)
collective = _function(Collective, verbs.answer)
shard = _function(Shard, verbs.answer)
partitioning = _function(Partitioning, verbs.answer)
goodput = _function(TrainingGoodput, verbs.answer)
speculate = _function(Speculate, verbs.answer)
ops = _function(Ops, verbs.answer)
fit = _function(Fit, verbs.answer)


def emit(tool: str, answer: Answer) -> str:
    """The command or config of an answer's layout for vllm, sglang, trtllm, megatron, ..., jax; what --emit prints."""
    from rooflinecli.engine.build_request import warn
    from rooflinecli.questions.estimate.emit import launch

    if not isinstance(answer, Answer):
        raise UsageError(
            f"emit takes a tool and an answer of estimate, not {type(answer).__name__}; write rl.emit('vllm', rl.estimate(...))"
        )
    if tool == "jax":
        from rooflinecli.render.formats.jax_program import program

        return program(str(answer.options["model"]), answer.result)
    emitted = launch(tool, answer.options, answer.result, answer.source)
    if emitted.left_out:
        warn(f"the launch leaves out {emitted.left_out}")
    return emitted.text


def parameters(model: str) -> Parameters:
    """Exact parameter counts of a model by name, YAML path or Hugging Face config."""
    return _parameters(load_model(model))
