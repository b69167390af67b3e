"""What may be asked over a wire: the command line's questions by name, options as it writes them, answers as its JSON."""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import RooflineWarning, UsageError
from rooflinecli.core.record import plain
from rooflinecli.engine import build_request
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model

Options = dict[str, Any]
_ONE = threading.Lock()  # remarks are gathered from Python's warnings, which belong to the whole process


def asked(question: Callable[[Options], Options], options: Options) -> Options:
    """`answer`, what the command line would remark beside it, and the sources its figures come from.

    Raises the errors of rooflinecli.core.errors.
    """
    with _ONE, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", RooflineWarning)
        answer = question(dict(options))
    said = dict.fromkeys(str(w.message) for w in heard if issubclass(w.category, RooflineWarning))
    return {"answer": answer, "remarks": list(said), "sources": sources(options)}


def without_warnings(question: Callable[[Options], Any], options: Options) -> Any:
    """An answer alone, one at a time."""
    with _ONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", RooflineWarning)
        return question(dict(options))


def sources(options: Options) -> Options:
    """Where the figures of a model and of chips come from, to be cited; nothing of what cannot be loaded."""
    found: Options = {}
    if options.get("model"):
        found["model"] = load_model(str(options["model"])).source
    for chip in filter(None, str(options.get("hw") or "").split(",")):
        spec = load_hardware(build_request.named({"model": "-", "hw": chip})["hw"])
        found.setdefault("hardware", {})[chip] = {key: str(text) for key, text in spec.sources.items()}
    return found


def estimate(options: Options) -> Options:
    """What training, prefill and decode cost: time_s is expected, floor_s the speed of light, interval_s covers 80 %."""
    from rooflinecli.questions.estimate.answer import estimate as answer

    launch = options.pop("from", None)
    if launch is not None:
        from rooflinecli.importers.launch.read import options as launched

        options = launched(str(launch), options, build_request.warn)
    return dict(plain(answer(build_request.request(options))))


def explain(options: Options) -> Options:
    """How one quantity of an estimate follows, down to the figures of the files."""
    from rooflinecli.questions.estimate.explain import derivation
    from rooflinecli.render.views.explain import explain as text

    quantity, depth = str(options.pop("quantity", "") or ""), options.pop("depth", 3)
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= 12:
        raise UsageError("depth: expected a whole number from 0 to 12", "depth")
    found = derivation(build_request.request(options), quantity)
    return {"quantity": quantity, "value": float(found.value), "unit": found.unit, "text": text(found, depth)}


def search(options: Options) -> Options:
    """The best legal layout, exactly: training splits, or serving layouts and batches."""
    from rooflinecli.questions.search.answer import answered

    objective, where = options.pop("objective", None), options.pop("where", None) or []
    limits, slo = {name: options.pop(name, None) for name in ("ttft", "itl", "qps")}, options.pop("slo", None)
    top = options.pop("top", 5)
    options["phase"] = list(build_request.phases(options.get("phase") or "train"))
    return dict(
        plain(answered({k: _written(v) for k, v in options.items()}, objective, list(where), limits, int(top), slo=slo))
    )


def compare(options: Options) -> Options:
    """One plan across chips, ranked."""
    from rooflinecli.questions.compare.answer import compare as answered

    chips = [chip.strip() for chip in str(options.pop("hw", "")).split(",") if chip.strip()]
    at, rank = options.pop("at", "same-devices"), options.pop("rank", None)
    return dict(plain(answered(options, chips, at, rank)))


def check(options: Options) -> Options:
    """Hold capacity plans to their promises; `plan` is the path of a plan file, or its YAML."""
    from rooflinecli.calibrate.gap_explanations import rows_of_plan
    from rooflinecli.questions.check import answer as ask_plans

    settings = ask_plans.CheckSettings(hold=options.get("hold"))
    return _as_file(
        str(options.get("plan") or ""), lambda path: dict(plain(ask_plans.check([path], settings, rows_of_plan)))
    )


def fleet(options: Options) -> Options:
    """Several models with their own traffic on one fleet: which on which chips, how many replicas, what is left over, what may grow;
    `file` is the path of a fleet's file, or its YAML."""
    from rooflinecli.questions.fleet.answer import fleet as answer

    hold, objective, split = options.get("hold"), options.get("objective"), options.get("split", False)
    return _as_file(
        str(options.get("file") or ""), lambda path: dict(plain(answer(path, hold, objective, bool(split))))
    )


def _as_file(written: str, question: Callable[[Path], Options]) -> Options:
    """The answer to a question of a file, by its path or by what stands in it."""
    from rooflinecli.core import files

    if "\n" not in written and files.is_existing_file(Path(written)):
        return question(Path(written))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        files.write(path, written)
        return question(path)


def simulate(options: Options) -> Options:
    """An engine's scheduler over step prices for one load: percentiles, SLO attainment, queues, with intervals."""
    from rooflinecli.questions.simulate.question import Simulate

    return Simulate.read(options).answer().to_dict()


def calibrate(options: Options) -> Options:
    """Fit the engine's constants to measurements of the user's own, with proof on rows held out; `files` are paths on this machine."""
    from rooflinecli.calibrate.answer import HOLD_OUT
    from rooflinecli.calibrate.answer import calibrate as answer
    from rooflinecli.calibrate.report import data

    files, share = options.pop("files", None), options.pop("hold-out", HOLD_OUT)
    paths = [files] if isinstance(files, str) else files
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise UsageError("files: expected the path of a log or of a benchmark's results, or a list of paths", "files")
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 0.9:
        raise UsageError("hold-out: expected a share from 0 to 0.9", "hold-out")
    if not options.get("hw"):
        raise UsageError("no --hw given; give the chip that was measured on", "hw")
    given = build_request.named({**options, "model": options.get("model") or "-"})
    return dict(
        plain(data(answer([Path(path) for path in paths], {k: v for k, v in given.items() if v != "-"}, float(share))))
    )


def _written(value: Any) -> Any:
    """A number as the command line would write it; searches read ranges from text."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
