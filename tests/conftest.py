"""Shared: the command line run in this process, and one runner for subprocesses."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# CI repeats itself, so that a landing does not depend on luck; every run by hand looks at fresh cases.
settings.register_profile("ci", derandomize=True)
settings.register_profile("quick", max_examples=10, deadline=None)  # a deadline fails on a busy machine
settings.load_profile("ci" if os.environ.get("CI") else "quick")
# A mutant is dead at the first failure; a smaller example of it is of no use.
settings.register_profile("mutants", derandomize=True, phases=[Phase.explicit, Phase.generate])

os.environ["ROOFLINE_TRACEBACK"] = "1"  # a mistake of ours fails a test with its traceback, here and in subprocesses
# Programs of tests run once, on small arrays: most of their time would go into compiling them well.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

ROOT = Path(__file__).resolve().parent.parent
# YAML files of the package as an earlier run read them: a snapshot counts while the file and what reads it are as they were
os.environ["ROOFLINE_CACHE"] = str(ROOT / ".pytest_cache" / "roofline")
QUICK_SETS = 8  # parameter sets that a test has in the quick suite, evenly spread, unless it says otherwise
# folders whose parameter sets are cheap and each a case of its own, such as a line of a log or a row worked out by hand
EVERY_SET = {"calibrate", "engine", "formulas", "launch", "parallel", "price", "profile", "simulate"}


def examples(n: int) -> int:
    """Random cases of a fuzz test: all in CI, a tenth by hand, where every run draws others."""
    return n if os.environ.get("CI") else n // 10


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """The quick suite does not make what it would leave out at once: the parameter sets of slow tests are a quarter of all."""
    slow = collector.config.option.markexpr == "not slow" and name.startswith("test")
    return [] if slow and any(mark.name == "slow" for mark in getattr(obj, "pytestmark", ())) else None


class Sampling:
    """Of the parameter sets of a test, the quick suite runs `QUICK_SETS`, or n where it is `sampled(n)`; the others are slow."""

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Collector) -> Iterator[None]:
        made = yield
        if not isinstance(made, list) or len(made) < 2:
            return made
        quick = [item for item in made if item.get_closest_marker("slow") is None]
        most = len(made) if collector.path.parent.name in EVERY_SET else QUICK_SETS
        n = next((mark.args[0] for mark in made[0].iter_markers("sampled")), most)
        quick = [quick[i * len(quick) // n] for i in range(n)] if n < len(quick) else quick
        if collector.config.option.markexpr == "not slow":
            return quick
        for item in made:
            if item not in quick:
                item.add_marker(pytest.mark.slow)
        return made


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Sampling())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Workers take half of the tests each and then each other's rest: a file's fixtures and caches are made once, not in every worker."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


def pytest_collection_finish() -> None:
    """What collection made lives until the end; the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


@cache
def _main() -> Callable[[], None]:
    """The command line, with each verb's command built once; a process of its own never needs one twice."""
    from rooflinecli.interfaces.cli.main import LazyGroup, main

    built = cache(partial(LazyGroup.get_command, LazyGroup(name="roofline"), None))
    LazyGroup.get_command = lambda self, ctx, cmd_name: built(cmd_name)
    return main


def run_cli(*args: str) -> Ran:
    """`roofline ARGS` in this process: exit code, standard output and standard error."""
    main = _main()
    out, err, code, argv = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["roofline", *args]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = argv
    return Ran(code, out.getvalue(), err.getvalue())


@pytest.fixture
def cli():
    return run_cli


@pytest.fixture
def python():
    """A fresh interpreter: `python(code)` -> completed process."""

    def run(code: str, **kwargs) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **kwargs)

    return run
