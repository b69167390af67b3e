"""`make mutants N=60 SEED=1`: breaks the package in N places and prints what no test notices.

Each mutant is one small change in a copy of the repository. It meets only tests that reach the statement it is in, those of
the quickest files first, and dies with the first that fails (or hangs). Exits with 1 when more than a tenth survive.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import SimpleQueue, get_context
from pathlib import Path

import coverage
import hypothesis  # noqa: F401  loaded once, for all children; so is what follows
import numpy  # noqa: F401
import pydantic  # noqa: F401
import pytest
import typer  # noqa: F401
from reach import WHOLE_FILE
from sample import ROOT, Mutant, sample

CACHE = ROOT / ".mutants"
OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile=mutants")
CARRIED = ("rooflinecli", "tests", "lab", "hardware", "models", "docs", "benchmarks", "examples")
_copy = Path()
TOLERATED = 0.1  # share of mutants that may survive
COURSES = (2.0, 15.0, 60.0, 300.0)  # recorded seconds at which a course of tests ends; past the last a mutant survives


def collected() -> tuple[dict[str, float], coverage.CoverageData]:
    """Seconds of every quick test and what each reaches; kept until the package or a test changes, and then mended."""
    stamp, seconds = CACHE / "stamp.json", CACHE / "seconds.json"
    digests = _digests()
    known = json.loads(stamp.read_text(encoding="utf-8")) if stamp.exists() else {}
    if known.get("package") != digests["package"]:
        shutil.rmtree(CACHE, ignore_errors=True)
        known = {}
    changed = [name for name, digest in digests.items() if known.get(name) != digest and name != "package"]
    if changed:
        print(f"collecting what {len(changed)} files of tests reach (once) ...", flush=True)
        before = json.loads(seconds.read_text(encoding="utf-8")) if known else {}
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "ROOFLINE_REACH": str(CACHE)}
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-n", str(os.cpu_count()), "-p", "reach", *changed]
        ran = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        if ran.returncode > 1 or ran.returncode < 0:  # a test that fails is left out, nothing more
            raise SystemExit(
                f"the tests ended with {ran.returncode} while their reach was recorded; run them by themselves"
            )
        recorded = coverage.Coverage(data_file=str(CACHE / "coverage"))
        recorded.load()
        recorded.combine([str(CACHE)])
        kept = {test: spent for test, spent in before.items() if _file(test) in digests and _file(test) not in changed}
        now = json.loads(seconds.read_text(encoding="utf-8"))
        seconds.write_text(json.dumps(kept | now), encoding="utf-8")
        stamp.write_text(json.dumps(digests), encoding="utf-8")
    data = coverage.CoverageData(str(CACHE / "coverage"))
    data.read()
    return json.loads(seconds.read_text(encoding="utf-8")), data


def _digests() -> dict[str, str]:
    """A digest of every file of tests, and one of all they stand on."""
    tests = {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(ROOT.glob("tests/**/test_*.py"))}
    package = b"".join(path.read_bytes() for path in sorted(ROOT.glob("rooflinecli/**/*.py")))
    return {name: sha256(text).hexdigest() for name, text in (tests | {"package": package}).items()}


def meeting(
    mutant: Mutant, seconds: dict[str, float], data: coverage.CoverageData
) -> tuple[list[list[str]], list[float]]:
    """Courses of tests that run the mutated statement, the quickest files first, and the seconds that each may take.

    pytest imports all files of a course before it runs the first test, so the first courses are short.
    """
    first, last = mutant.lines
    by_line = data.contexts_by_lineno(mutant.path)
    contexts = {name for line, names in by_line.items() if first <= line <= last for name in names}
    files = {name.removesuffix(WHOLE_FILE) for name in contexts if name.endswith(WHOLE_FILE)}
    reach = {test for test in seconds if test in contexts or _file(test) in files}
    near = set(map(_file, reach))
    # a table or a declaration is read when its module is imported, by no test: all tests meet it, those that run its file first
    tests = [test for test in seconds if test in reach or mutant.function == "module"]
    cost = dict.fromkeys(map(_file, tests), 0.0)
    for test in tests:
        cost[_file(test)] += seconds[test]
    courses, spent = [list[str]() for _ in COURSES], 0.0
    for file in sorted(cost, key=lambda file: (file not in near, cost[file])):
        course = bisect(COURSES, spent)
        if course < len(COURSES):
            courses[course] += [test for test in tests if _file(test) == file]
        spent += cost[file]
    courses = [course for course in courses if course]
    return courses, [60 + 3 * sum(seconds[test] for test in course) for course in courses]


def _file(test: str) -> str:
    return test.partition("::")[0]


def survives(mutant: Mutant, courses: list[list[str]], allowed: list[float]) -> bool:
    """Whether all of these tests pass in this worker's copy of the repository, broken so."""
    target = _copy / mutant.path
    whole = target.read_text(encoding="utf-8")
    target.write_text(mutant.text, encoding="utf-8")
    try:
        return all(map(_passes, courses, allowed))
    finally:
        target.write_text(whole, encoding="utf-8")


def _passes(tests: list[str], allowed: float) -> bool:
    """Whether these tests pass, in a child that has pytest loaded and the package not; one that hangs is ended."""
    child = os.fork()
    if not child:
        signal.alarm(int(allowed))
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.chdir(_copy)
        os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode, sys.path[0] = "1", True, str(_copy)
        os._exit(pytest.main([*OPTIONS, "-x", "-n", "0", *tests]))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code in (3, 5):  # 0: all passed, 1: a test failed, 2 or 4: the package no longer loads, below 0: ended
        raise RuntimeError(f"pytest exits with {code} on {tests[0]} ...")
    return code == 0


def _settle(copies: SimpleQueue[str]) -> None:
    """A worker takes a copy for its own."""
    global _copy
    _copy = Path(copies.get())


def copied(folder: Path) -> str:
    """A whole copy of the repository to break; its bytecode is checked by content, since a change may keep size and second."""
    for name in CARRIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in [*ROOT.glob("*.*"), ROOT / "Makefile", ROOT / "LICENSE"]:
        if file.is_file():
            shutil.copy(file, folder)
    compiling = [sys.executable, *"-m compileall -q --invalidation-mode checked-hash rooflinecli tests".split()]
    subprocess.run(compiling, cwd=folder, check=True)
    return str(folder)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("-n", type=int, default=60, help="mutants")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = asked.parse_args()
    seconds, data = collected()
    mutants, began, alive = sample(args.n, args.seed), time.perf_counter(), list[Mutant]()
    forking = get_context("fork")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = forking.SimpleQueue()
        for i in range(args.jobs):
            copies.put(copied(Path(folder, str(i))))
        with ProcessPoolExecutor(args.jobs, forking, _settle, (copies,)) as pool:
            fates = [pool.submit(survives, m, *meeting(m, seconds, data)) for m in mutants]
            for mutant, fate in zip(mutants, fates, strict=True):
                print(
                    "survives" if fate.result() else "dies    ",
                    f"{mutant.path}:{mutant.line} {mutant.function}",
                    flush=True,
                )
                alive += [mutant] if fate.result() else []
    print("\n\n".join(["", *(mutant.diff for mutant in alive)]))
    print(f"\nseed {args.seed}: {len(alive)} of {len(mutants)} mutants survive, {time.perf_counter() - began:.0f} s")
    return int(len(alive) > TOLERATED * len(mutants))


if __name__ == "__main__":
    sys.exit(main())
