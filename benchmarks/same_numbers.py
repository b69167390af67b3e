"""Comparison of two checkouts: the same questions, every number of the JSON answers equal to the last digit.

python benchmarks/same_numbers.py --old ../rooflinecli-old asks both for random estimates, searches and simulations and for
every command the documentation shows. Each checkout answers in one long-lived process. Answers with a later schema are asked
for in the keys of the first; other renames are in same_numbers_keys.yaml. Exit code 1 when a number or an exit code differs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKER = "--answer-as-worker"
SKIPPED = re.compile(r"--plot|--cluster|--install-completion|[|<>$*]|^roofline (serve|web|mcp|measure|validate)\b")
LARGE_CHIPS = ("h100", "h200", "a100", "b200", "mi300x", "tpu-v5p", "tpu-v5e", "gb200", "h100-pcie", "l40s")

# Options as the old checkout spells them: probability of each, and its values or a range. A range is drawn from on a
# logarithmic scale, because the special cases are at small sizes.
FORMATS = """
--dtype 0.5 bf16 fp16 fp8 int8
--kv-dtype 0.15 bf16 fp8 int8
--weight-dtype 0.15 int8 int4 fp8 awq gptq-4-g32 q4_k_m nf4-double mxfp4
--hold 0.1 expected floor pessimistic
"""
SERVING = """
-n 0.5 1 2 4 8 16
--tp 0.3 1 2 4 8
--pp 0.1 1 2 4
--batch 0.4 1..256
--prompt 0.7 16..32768
--output 0.7 1..2048
--engine 0.5 vllm sglang trtllm python-server cuda-graph trtllm-cpp lmdeploy
--concurrency 0.25 1..128
--prefix-hit 0.1 0.2 0.5 0.9
--price 0.1 1.5 2.99
--token-budget 0.1 512 2048 8192
--memory 0.05 40GB 70GB
--efficiency 0.05 ideal
--exchange 0.05 auto deepep gather nccl
"""
TRAINING = """
-n 0.8 8 16 64 128 256 1024
--tp 0.4 1 2 4 8
--pp 0.3 1 2 4 8
--cp 0.1 1 2
--ep 0.1 1 8
--batch 0.5 64 256 1024 2048
--seq 0.5 1024 2048 4096 8192
--micro-batch 0.3 1 2 4
--virtual-stages 0.1 1 2
--recompute 0.4 none selective full
--schedule 0.15 1f1b gpipe zero-bubble zb-v dualpipe
--zero 0.4 0 1 2 3
--optimizer 0.15 adamw adamw-8bit muon adafactor lion
--recipe 0.1 lora qlora dpo full
--software 0.2 nemo-2024 megatron-2022 deepspeed torchtitan+async
--offload 0.05 optimizer activations
--ring 0.05 zigzag ulysses
--tokens 0.2 1T 15T
"""
SEARCH_TRAINING = """
-n 1 8 16 32
--batch 1 64 256
--seq 0.5 1024 2048 4096 8192
--zero 0.4 0 1 2 3
--recompute 0.4 none selective full
"""
SEARCH_SERVING = """
-n 1 2 4 8
--batch 1 16 1,8,64 1..64
--prompt 0.5 128..8192
--output 0.5 16..1024
--engine 0.3 vllm sglang trtllm python-server
--ttft 0.3 500ms 2s 5s
--itl 0.3 20ms 40ms 100ms
"""
SIMULATE = """
--tp 0.5 1 2 4 8
--prompt 0.8 64 512 2k uniform:100,900 lognormal:500,0.8 exponential:300
--output 0.9 8 64 uniform:10,90 exponential:50
--engine 0.6 vllm sglang trtllm python-server
--arrivals 0.3 constant gamma:2
--replicas 0.2 1 2 3
--router 0.2 round-robin least-loaded prefix
--lengths 0.2 0.8:1 0.5:1
--slo 0.3 ttft=2s,itl=50ms@99 ttft=500ms@50 e2e=30s@95
--seed 0.3 1 2
--scheduler 0.1 token_budget=2048 look_ahead=0
"""
QUESTIONS = {  # verb -> (words that every question has, options)
    "estimate": [
        ("--phase train", TRAINING),
        *((words, SERVING) for words in ("--phase prefill", "--phase decode", "")),
    ],
    "search": [("", SEARCH_TRAINING), ("--phase decode", SEARCH_SERVING)],
    "simulate": [
        ("--requests 50 --no-interval", f"{load}\n{SIMULATE}") for load in ("--qps 1 0.5 2 8", "--concurrency 1 1 4 16")
    ],
}


def drawn(rng: random.Random, verb: str, models: list[str], chips: list[str]) -> list[str]:
    """A random question; seven in ten ask for a chip of a data center, where most models fit."""
    fixed, table = rng.choice(QUESTIONS[verb])
    words = [verb, rng.choice(models), "--hw", rng.choice(LARGE_CHIPS if rng.random() < 0.7 else chips), *fixed.split()]
    for flag, probability, *values in (line.split() for line in (table + FORMATS).splitlines() if line):
        if rng.random() < float(probability):
            value = rng.choice(values)
            if len(values) == 1 and (ends := re.fullmatch(r"(\d+)\.\.(\d+)", value)):
                value = str(round(int(ends[1]) * (int(ends[2]) / int(ends[1])) ** rng.random()))
            words += [flag, value]
    return words


def pages(root: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in (root / "README.md", *sorted((root / "docs").rglob("*.md")))]


def documented(root: Path) -> list[list[str]]:
    """Commands in the code blocks of a checkout's pages."""
    text = "\n".join(pages(root)).replace("\\\n", " ")
    commands = {
        line.split("  #")[0].strip() for line in re.findall(r"^(?: {4}|\$ )?(roofline [a-z].*)", text, re.MULTILINE)
    }
    return [shlex.split(line)[1:] for line in sorted(commands) if not SKIPPED.search(line)]


def write_files(checkouts: list[Path], folder: Path) -> None:
    """Write what documented commands read: the examples, and YAML files whose text a page shows, the old checkout's first."""
    shutil.copytree(checkouts[0] / "examples", folder / "examples")
    for page in (page for root in checkouts for page in pages(root)):
        for name, text in re.findall(r"```yaml\n# (\w[\w/-]*\.yaml)[^\n]*\n(.*?)```", page, re.DOTALL):
            if not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, encoding="utf-8")


def renamed_words(words: list[str], names: dict[str, str]) -> list[str]:
    """A command line in other names: of an option, an option with its value, or a command with its first argument."""
    line = f" {shlex.join(words)} "
    for before, after in names.items():
        line = re.sub(rf" {re.escape(before)}(?=[ =])", f" {after}", line)
    return shlex.split(line)


def renamed_path(path: str, rules: dict[str, str | None]) -> str | None:
    """The path of an old number in the new answer; None where a rule says that the new answer leaves it out."""
    for before, after in rules.items():
        pattern = re.escape(before).replace(r"\*\*", "(.*)").replace(r"\*", r"([^.]+)")
        match = re.fullmatch(rf"{pattern}(?P<below>(?:\..*)?)", path)
        if match and after is None:
            return None
        if match and after:
            parts = re.split(r"\*\*?", after)
            path = "".join(f"{part}{wild}" for part, wild in zip(parts, (*match.groups()[:-1], ""), strict=True))
            path += match["below"]
    return path


def numbers(answer: Any, path: str = "") -> Iterator[tuple[str, float | bool | None]]:
    """(path, value) of every number, truth value and null of a JSON answer."""
    if isinstance(answer, dict | list):
        for key, value in answer.items() if isinstance(answer, dict) else enumerate(answer):
            yield from numbers(value, f"{path}.{key}" if path else str(key))
    elif path and not isinstance(answer, str):
        yield path, answer


def differences(old: Any, new: Any, rules: dict[str, str | None]) -> list[tuple[str, Any, Any]]:
    """(path, old, new) of every number that differs or that one of the two answers lacks."""
    before = {renamed: value for path, value in numbers(old) if (renamed := renamed_path(path, rules))}
    after = {path: value for path, value in numbers(new) if path in before or renamed_path(f"+{path}", rules)}
    pairs = [(path, before.get(path, "(none)"), after.get(path, "(none)")) for path in sorted(before | after)]
    return [pair for pair in pairs if repr(pair[1]) != repr(pair[2])]


class Checkout:
    """A checkout that answers command lines in a process of its own."""

    def __init__(self, root: Path, folder: Path, limit_s: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1", "COLUMNS": "200"}
        command = [sys.executable, str(Path(__file__).resolve()), WORKER, str(root), str(limit_s)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, text=True)

    def ask(self, words: list[str]) -> tuple[int | str, Any]:
        """Exit code (or what went wrong), and the JSON answer (None where the command printed none)."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps(words), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of a checkout ended at: roofline {shlex.join(words)}")
        code, text = json.loads(line)
        try:
            return code, json.loads(text)
        except ValueError:
            return code, None


def work(root: str, limit_s: int) -> None:
    """Answer the command lines of standard input with the code of one checkout."""
    script = tomllib.loads(Path(root, "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["roofline"]
    module = import_module(script.split(":")[0])
    assert Path(module.__file__ or "").is_relative_to(root), f"{module.__file__} is not of {root}"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def run(words: list[str]) -> tuple[int | str, str]:
        out = io.StringIO()
        sys.argv = ["roofline", *words]
        signal.alarm(limit_s)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                module.main()
            return 0, out.getvalue()
        except SystemExit as end:
            return "timed out" if end.code == 130 else int(end.code or 0), out.getvalue()
        except KeyboardInterrupt:
            return "timed out", ""
        finally:
            signal.alarm(0)

    signal.signal(signal.SIGALRM, stop)
    version = {}  # verb -> options for the keys of its first schema
    for line in sys.stdin:
        words = json.loads(line)
        code, text = run([*words, "--format", "json", *version.get(words[0], ())])
        if words[0] not in version and re.search(r'"schema": "[\w/-]+/[2-9]"', text):
            version[words[0]] = ("--schema", "1")
            code, text = run([*words, "--format", "json", "--schema", "1"])
        if code == 2:  # perhaps a verb without --format
            code, text = run(words)
        print(json.dumps([code, text]), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True, help="the checkout to compare with")
    for verb, count in (("estimates", 300), ("searches", 60), ("simulations", 60)):
        parser.add_argument(f"--{verb}", type=int, default=count, metavar="N", help=f"random {verb} ({count})")
    parser.add_argument("--documented", action=argparse.BooleanOptionalAction, default=True, help="documented commands")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", type=Path, default=Path(__file__).with_name("same_numbers_keys.yaml"), help="renames")
    parser.add_argument("--limit", type=int, default=120, metavar="SECONDS", help="time a command may take (120)")
    parser.add_argument("--progress", action="store_true", help="print each command before it runs")
    given = parser.parse_args()
    checkouts = [given.old.resolve(), ROOT]
    renames = yaml.safe_load(given.keys.read_text(encoding="utf-8"))

    def rules_of(section: str, verb: str) -> dict[str, Any]:
        return {**renames[section].get("all", {}), **renames[section].get(verb, {})}

    rng = random.Random(given.seed)
    models, chips = (
        sorted({path.stem for path in checkouts[0].glob(folder)} & {path.stem for path in ROOT.glob(folder)})
        for folder in ("models/*.yaml", "hardware/*.yaml")
    )
    tally: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        write_files(checkouts, Path(folder))
        old, new = (Checkout(root, Path(folder), given.limit) for root in checkouts)

        def ask(before: list[str], after: list[str], is_new: bool = False) -> bool:
            """Compare one answer and print what differs; true when there was an answer to compare."""
            line = f"roofline {shlex.join(after)}"
            if given.progress:
                print(f"{time.monotonic() - started:.0f} s: {line}", flush=True)
            (code, answer), (new_code, new_answer) = old.ask(before), new.ask(after)
            if "timed out" in (code, new_code):
                print(f"timed out: {line}", flush=True)
                tally["timed out"] += 1
                return False
            if is_new and code == 2:
                tally["unknown to the old checkout"] += 1
                return False
            changes = [("exit code", code, new_code)] if code != new_code else []
            changes += differences(answer, new_answer, rules_of("keys", before[0]))
            tally["different" if changes else "same" if answer is not None else "same exit code, no JSON"] += 1
            report = [f"  {path}: {was!r} -> {now!r}" for path, was, now in changes]
            if changes:
                print(
                    line,
                    *report[:20],
                    *([f"  and {len(report) - 20} more"] if report[20:] else []),
                    sep="\n",
                    flush=True,
                )
            return answer is not None

        for verb, count in {
            "estimate": given.estimates,
            "search": given.searches,
            "simulate": given.simulations,
        }.items():
            answered = 0
            for _ in range(3 * count):  # some questions are refused
                words = drawn(rng, verb, models, chips)
                answered += ask(words, renamed_words(words, rules_of("words", verb)))
                if answered == count:
                    break
        if given.documented:
            known, shown = (documented(root) for root in checkouts)
            for words in known:  # the old spelling goes on working
                ask(words, words)
            for words in (words for words in shown if words not in known):
                former = {after: before for before, after in rules_of("words", words[0]).items()}
                ask(renamed_words(words, former), words, is_new=True)
    print(", ".join(f"{name}: {count}" for name, count in tally.most_common()), f"({time.monotonic() - started:.0f} s)")
    return 1 if tally["different"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        work(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
