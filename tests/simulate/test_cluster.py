"""The same answers, however the work is spread: over processes, over a Dask cluster, with a worker killed on the way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from conftest import run_cli

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.parallel_map import _opened, _Wrapped, worker_map
from rooflinecli.questions.search import training
from rooflinecli.questions.search.search_request import question
from rooflinecli.questions.simulate.answer import cell_values
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.sweep import run as sweep_run

STUDY = Simulate.cells(
    {
        "model": "llama-3-8b", "hw": "h100", "engine": "vllm", "num_requests": "400", "prompt": "lognormal:800,0.7",
        "output": "uniform:20,200", "qps": "2,4,6,8,10,12,14,16", "replicas": "1,2",
    }
)  # fmt: skip


@contextmanager
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, scheduler_port=0
    ) as made:
        yield made


def first_fails(number):
    if number == 3:
        raise Infeasible("three does not fit")
    if number == 4:
        raise UsageError("four is wrong", "qps")
    return number


def iter_into(found, items):
    """Keep what came before an error."""
    for item in items:
        found.append(item)
    return ()


def dies_once(path):
    """Takes its process with it the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "alive"
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_study_over_a_cluster_with_a_killed_worker_is_that_of_one_process():
    """16 simulations; a worker is killed after the first answer. Bit for bit the answers of one process, in their order."""
    alone = [cell_values(cell) for cell in STUDY]
    with cluster() as made:
        found = []
        for row in worker_map(cluster=made.scheduler_address)(cell_values, STUDY):
            if not found:
                victim = next(iter(made.workers.values()))
                os.kill(victim.pid, signal.SIGKILL)
            found.append(row)
    assert found == alone


@pytest.mark.slow
def test_sweep_and_search_take_the_same_cluster(tmp_path):
    sweep = ("sweep", "llama-3-8b", "--hw", "h100,h200", "--tp", "1,2", "--batch", "1..64", "--format", "csv")
    search = ("search", "llama-3-8b", "--hw", "h100", "-n", "16", "--batch", "64", "--format", "json")
    with cluster() as made:
        for args in (sweep, search):
            assert run_cli(*args, "--cluster", made.scheduler_address).out == run_cli(*args).out


@pytest.mark.slow
def test_a_process_that_dies_costs_its_item_only_time(tmp_path):
    items = [str(tmp_path / str(i)) for i in range(3)]
    for path in items[1:]:
        open(path, "w").close()
    assert list(worker_map(2)(dies_once, items)) == ["alive"] * 3


@pytest.mark.slow
def test_errors_come_home():
    found = []
    with pytest.raises(Infeasible, match="three"):
        found.extend(iter_into(found, worker_map(2)(first_fails, [1, 2, 3])))
    assert found == [1, 2]
    with pytest.raises(UsageError, match="four") as caught:
        _opened(_Wrapped(first_fails)(4))
    assert caught.value.option == "qps"


@pytest.mark.slow
def test_parts_of_a_search_make_the_whole():
    """A training search in parts, merged in their order, is the search at once: counts, rejections, ranking, misses."""
    asked = question(
        {"model": "llama-3-8b", "hw": "h100", "n": "8,16", "batch": "64", "phase": "train"},
        "throughput",
        ["train.mfu >= 0.5"],
    )
    whole, parts = training.search(asked), training.search(asked, workers=map)
    assert whole == parts and whole.layouts > 1000


@pytest.mark.slow
def test_no_scheduler_is_one_sentence():
    pytest.importorskip("distributed")
    ran = run_cli("simulate", "llama-3-8b", "--hw", "h100", "--qps", "1,2", "--cluster", "tcp://127.0.0.1:9")
    assert ran.code == 2 and "no Dask scheduler answers" in ran.err and "Traceback" not in ran.err


@pytest.mark.slow
def test_a_scheduler_without_workers_is_refused_within_seconds():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, dashboard_address=None, scheduler_port=0) as made:
        start = time.monotonic()
        ran = run_cli("sweep", "llama-3-8b", "--hw", "h100", "--batch", "1..9", "--cluster", made.scheduler_address)
    assert ran.code == 2 and "has no workers" in ran.err and time.monotonic() - start < 30


SWEEP = (
    "sweep",
    "llama-3-8b",
    "--hw",
    "h100,a100",
    "--tp",
    "1,2,4",
    "--pp",
    "1",
    "--dp",
    "1",
    "--batch",
    "1..16",
    "--format",
    "csv",
)


def test_a_study_goes_on_from_the_answers_that_were_kept(tmp_path, monkeypatch):
    """The second run works out only the part that is missing, and prints the same bytes."""
    kept = tmp_path / "kept"
    alone = run_cli(*SWEEP).out
    assert run_cli(*SWEEP, "--resume", str(kept)).out == alone
    parts = sorted(kept.glob("*.pickle"))
    assert len(parts) == 2
    parts[1].unlink()
    worked_out = []
    answer = sweep_run._answer
    monkeypatch.setattr(sweep_run, "_answer", lambda *a: worked_out.append(a) or answer(*a))
    assert run_cli(*SWEEP, "--resume", str(kept)).out == alone and len(worked_out) == 1
    refused = run_cli(*("8" if word == "1,2,4" else word for word in SWEEP[:-2]), "--resume", str(kept))
    assert refused.code == 2 and "answers of another question" in refused.err
    (tmp_path / "file").write_text("")
    assert run_cli(*SWEEP, "--resume", str(tmp_path)).code == 2


def test_a_chip_edited_in_between_is_another_question(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chip = tmp_path / "mine.yaml"
    chip.write_text("extends: h100\nname: mine\n")
    args = ("sweep", "llama-3-8b", "--hw", str(chip), "--batch", "1..4", "--resume", "kept")
    assert run_cli(*args).code == run_cli(*args).code == 0
    chip.write_text("extends: h100\nname: mine too\n")
    assert run_cli(*args).code == 2


@pytest.mark.slow
def test_a_client_killed_in_the_middle_loses_nothing_that_was_done(tmp_path):
    args = ["simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--qps", "2,4,6,8,10,12,14,16", "--num-requests", "3000", "-f", "json"]  # fmt: skip
    kept = tmp_path / "kept"
    client = subprocess.Popen(
        [sys.executable, "-m", "rooflinecli", *args, "--jobs", "2", "--resume", str(kept)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    while client.poll() is None and len(list(kept.glob("*.pickle"))) < 2:
        time.sleep(0.02)
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    done = {path: path.stat().st_mtime_ns for path in kept.glob("*.pickle")}
    assert 2 <= len(done) < 8
    assert run_cli(*args, "--resume", str(kept)).out == run_cli(*args).out
    assert {path: path.stat().st_mtime_ns for path in done} == done and len(list(kept.glob("*.pickle"))) == 8


def test_a_dry_run_says_what_a_study_takes(tmp_path):
    ran = run_cli("sweep", "llama-3-8b", "--hw", "h100", "--prompt", "1..1000", "--output", "1..1000", "--batch", "1..1000", "--phase", "decode", "--dry-run", "--jobs", "4")  # fmt: skip
    assert ran.code == 0 and re.fullmatch(r"16,000 parts: about [\d.]+ (s|min|h) on 4 processes of this machine, .*B of answers; nothing was run\n", ran.out), ran.out  # fmt: skip
