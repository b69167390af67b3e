"""Which tests reach which lines, and how long each takes: a pytest plugin (`-p reach`) on coverage.py's contexts.

A test is a context. What a fixture of wider scope runs belongs to all tests of its file. Caches of the package are
emptied before each test, so that a line is credited to every test that needs it, not to the first alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

WHOLE_FILE = "::*"
OUT = Path(os.environ.get("ROOFLINE_REACH", ".mutants"))
# Caches worth emptying: those of the floors under test; a file read once is the same file.
CACHED = tuple(f"rooflinecli.{floor}" for floor in ("price", "parallel", "phases", "memory", "engine"))


class Reach:
    """Contexts while the tests run; what they reached and their seconds when they are done."""

    def __init__(self, worker: bool):
        self.worker, self.seconds, self.unfit = worker, dict[str, float](), set[str]()
        self.coverage = coverage.Coverage(data_file=str(OUT / "coverage"), data_suffix=True, source=["rooflinecli"])
        self.coverage.set_option("run:relative_files", True)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _empty_caches()
        self.coverage.switch_context(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
        self.coverage.switch_context(test.partition("::")[0] + WHOLE_FILE)
        try:
            return (yield)
        finally:
            self.coverage.switch_context(test)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:  # skipped, or too slow for its own limit while every line is recorded
            self.unfit.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        if not self.worker:
            fit = {test: seconds for test, seconds in self.seconds.items() if test not in self.unfit}
            (OUT / "seconds.json").write_text(json.dumps(fit), encoding="utf-8")


def _empty_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(CACHED):
            for held in vars(module).values():
                if hasattr(held, "cache_clear") and held.__module__ == name:
                    held.cache_clear()


def pytest_configure(config: pytest.Config) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(Reach(hasattr(config, "workerinput")), "reach-recorder")
