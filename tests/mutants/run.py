"""`make mutants N=60 SEED=1`: breaks the package in N places and prints what no test notices.

Each mutant is one small change in a copy of the repository. It meets only tests that reach the function it is in, those of
the quickest files first, and dies with the first that fails (or hangs). Exits with 1 when more than a tenth survive.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue

import coverage
from reach import WHOLE_FILE
from sample import ROOT, Mutant, sample

CACHE = ROOT / ".mutants"
PYTEST = (sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile=mutants")
CARRIED = ("rooflinecli", "tests", "hardware", "models", "docs", "benchmarks", "examples")
TOLERATED = 0.1  # share of mutants that may survive
COURSES = (
    1.0,
    5.0,
    30.0,
    300.0,
)  # recorded seconds after which a course of tests ends; past the last a mutant survives


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
        command = [*PYTEST, "-q", "-n", str(os.cpu_count()), "-p", "reach", *changed]
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
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


def reaching(mutant: Mutant, seconds: dict[str, float], data: coverage.CoverageData) -> list[list[str]]:
    """Tests that run the mutated function in courses, the quickest files first, as far as COURSES go.

    pytest imports all files of a course before it runs the first test, so the first courses are short.
    """
    first, last = mutant.lines
    by_line = data.contexts_by_lineno(mutant.path)
    contexts = {name for line, names in by_line.items() if first <= line <= last for name in names}
    files = {name.removesuffix(WHOLE_FILE) for name in contexts if name.endswith(WHOLE_FILE)}
    tests = [test for test in seconds if test in contexts or _file(test) in files]
    cost = dict.fromkeys(map(_file, tests), 0.0)
    for test in tests:
        cost[_file(test)] += seconds[test]
    courses, spent = [list[str]() for _ in COURSES], 0.0
    for file in sorted(cost, key=lambda file: cost[file]):
        course = bisect(COURSES, spent)
        if course < len(COURSES):
            courses[course] += [test for test in tests if _file(test) == file]
        spent += cost[file]
    return [course for course in courses if course]


def _file(test: str) -> str:
    return test.partition("::")[0]


def survives(mutant: Mutant, courses: list[list[str]], seconds: dict[str, float], copy: Path) -> bool:
    """Whether all of these tests pass in a copy of the repository that is broken so."""
    target = copy / mutant.path
    whole = target.read_text(encoding="utf-8")
    target.write_text(mutant.text, encoding="utf-8")
    try:
        return all(_passes(course, 60 + 3 * sum(seconds[test] for test in course), copy) for course in courses)
    finally:
        target.write_text(whole, encoding="utf-8")


def _passes(tests: list[str], allowed: float, copy: Path) -> bool:
    """Whether these tests pass; one that hangs fails."""
    chosen = copy / "chosen.txt"
    chosen.write_text("\n".join(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*PYTEST, "-q", "-x", "-n", "0", f"@{chosen}"]
    try:
        ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=allowed)
    except subprocess.TimeoutExpired:
        return False
    if ran.returncode > 2:  # 1: a test failed, 2: the package no longer loads
        raise RuntimeError(ran.stdout[-2000:] + ran.stderr[-2000:])
    return ran.returncode == 0


def copies(count: int, folder: Path) -> SimpleQueue[Path]:
    """Whole copies of the repository to break; bytecode is checked by content, since a change may keep size and second."""
    free: SimpleQueue[Path] = SimpleQueue()
    for i in range(count):
        copy = folder / str(i)
        for name in CARRIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in [*ROOT.glob("*.*"), ROOT / "Makefile", ROOT / "LICENSE"]:
            if file.is_file():
                shutil.copy(file, copy)
        compiling = [
            sys.executable,
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "checked-hash",
            "rooflinecli",
            "tests",
        ]
        subprocess.run(compiling, cwd=copy, check=True)
        free.put(copy)
    return free


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("-n", type=int, default=60, help="mutants")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = asked.parse_args()
    seconds, data = collected()
    mutants, began = sample(args.n, args.seed), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        free = copies(args.jobs, Path(folder))

        def fate(mutant: Mutant) -> tuple[Mutant, bool]:
            courses, copy = reaching(mutant, seconds, data), free.get()
            try:
                alive = survives(mutant, courses, seconds, copy)
            finally:
                free.put(copy)
            met = sum(map(len, courses))
            print(
                f"{'survives' if alive else 'dies    '} {mutant.path}:{mutant.line} {mutant.function} (meets {met})",
                flush=True,
            )
            return mutant, alive

        with ThreadPoolExecutor(args.jobs) as pool:
            alive = [mutant for mutant, lives in pool.map(fate, mutants) if lives]
    print("\n\n".join(["", *(mutant.diff for mutant in alive)]))
    print(f"\nseed {args.seed}: {len(alive)} of {len(mutants)} mutants survive, {time.perf_counter() - began:.0f} s")
    return int(len(alive) > TOLERATED * len(mutants))


if __name__ == "__main__":
    sys.exit(main())
