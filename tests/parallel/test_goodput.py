"""`roofline goodput`: published fleets inside the interval, what each part of a recovery costs, and a run's own history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError, Infeasible, UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.importers.job_history import history
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.goodput.question import TrainingGoodput

HOUR = 3600.0


def test_llama_3_is_inside() -> None:
    """arXiv 2407.21783, section 3.3.4: 419 unexpected interruptions of 16,384 H100 in 54 days (every 3.1 h), effective time above 90 %."""
    answer = TrainingGoodput(n=16384, params=405e9).answer()
    assert answer.mtbf_interval_s[0] < 3.1 * HOUR < answer.mtbf_interval_s[1]
    assert answer.goodput_interval[0] < 0.90 < answer.goodput_interval[1]
    assert TrainingGoodput(n=16384, params=405e9, mtbf=50_677 * HOUR).answer().goodput > 0.90


def test_byterobust_is_inside() -> None:
    """arXiv 2509.16293: 97 % effective training time on 9,600 GPUs over three months, with copies in peers' memory during the training."""
    answer = TrainingGoodput(n=9600, params=200e9, storage="peer", async_save=True).answer()
    assert answer.goodput_interval[0] < 0.97 < answer.goodput_interval[1]


def test_gemini_is_inside() -> None:
    """Gemini report, arXiv 2312.11805, section 3: goodput from 85 to 97 % when redundant copies in memory replaced periodic checkpoints on
    persistent storage, on several pods of 4,096 TPU v4 (three and a trillion parameters here: neither count is stated)."""
    remote, peer = (TrainingGoodput(n=12288, params=1e12, storage=at).answer() for at in ("remote", "peer"))
    assert remote.goodput_interval[0] < 0.85 < remote.goodput_interval[1]
    assert peer.goodput_interval[0] < 0.97 < peer.goodput_interval[1]
    assert peer.goodput > remote.goodput


def test_four_fleets_in_five_lie_between() -> None:
    """Device-hours per failure: 80 % of fleets 16,000 to 88,000 around 37,300."""
    answer = TrainingGoodput(n=1, checkpoint=30.0).answer()
    low, high = (s / HOUR for s in answer.mtbf_interval_s)
    assert (low, answer.mtbf_s / HOUR, high) == pytest.approx((15_800, 37_300, 88_000), rel=0.01)


def test_a_stated_mtbf_has_no_interval() -> None:
    answer = TrainingGoodput(n=1024, checkpoint=30.0, mtbf=50_000 * HOUR).answer()
    assert answer.goodput_interval == pytest.approx((float(answer.goodput),) * 2)


def goodput(**options: object) -> float:
    return float(TrainingGoodput(n=8192, params=405e9, **options).answer().goodput)  # type: ignore[arg-type]


def test_what_helps_and_what_costs() -> None:
    plain = goodput()
    assert goodput(async_save=True) > plain and goodput(elastic=64) > plain
    assert goodput(detect=600.0) < plain and goodput(restart=60.0) > plain and goodput(planned=0.0) > plain
    assert goodput(interval=HOUR) < plain  # not the best interval
    few, many = goodput(spares=1), goodput(spares=64)
    assert few < many == pytest.approx(plain)
    assert goodput(spares=1, replacement=24 * HOUR) < few < goodput(spares=1, repair=HOUR)


def test_half_an_interval_is_lost_with_each_failure() -> None:
    """To first order 1 - save/tau - (tau/2 + restart) n/M."""
    answer = TrainingGoodput(n=1000, checkpoint=20.0, mtbf=50_000 * HOUR, restart=300.0, interval=1800.0).answer()
    fleet = 50 * HOUR
    assert 1 - answer.goodput == pytest.approx(20 / 1800 + (900 + 300) / fleet, rel=0.03)


def test_local_disks_are_lost_with_their_host() -> None:
    """Three of four failures fall back on shared storage, so the host's disks save little of it."""
    assert goodput(storage="remote") < goodput(storage="local") + 0.01 < goodput(storage="peer") + 0.02


SACCT = """JobID|Start|End|State
1|2026-01-01T00:00:00|2026-01-02T00:00:00|FAILED
1.batch|2026-01-01T00:00:00|2026-01-02T00:00:00|FAILED
2|2026-01-02T00:20:00|2026-01-03T00:20:00|NODE_FAIL
3|2026-01-03T00:30:00|2026-01-04T00:30:00|CANCELLED by 1000
4|2026-01-04T02:00:00|2026-01-05T02:00:00|COMPLETED
5|Unknown|Unknown|PENDING
"""


def test_a_runs_own_failures(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    answer = TrainingGoodput(n=1000, checkpoint=30.0, log=str(path)).answer()
    assert (answer.logged["jobs"], answer.logged["failures"], answer.logged["planned"]) == (4, 2, 1)
    assert answer.logged["device_hours"] == pytest.approx(96_000)
    assert answer.logged["restart_s"] == answer.restart_s == pytest.approx(900)  # median of 20 and 10 minutes
    prior = 1 / 0.67**2
    assert answer.mtbf_s * 1000 / HOUR == pytest.approx((96_000 + prior * 37_300) / (2 + prior))
    fleets = TrainingGoodput(n=1000, checkpoint=30.0).answer().mtbf_interval_s
    assert answer.mtbf_interval_s[1] / answer.mtbf_interval_s[0] < fleets[1] / fleets[0]


def test_json_lines_and_csv_say_the_same(tmp_path: Path) -> None:
    rows = [dict(zip(("start", "end", "state", "devices"), (a, b, s, 512), strict=True)) for a, b, s in ((0, 7200, "FAILED"), (7500, 9000, "COMPLETED"))]  # fmt: skip
    lines, table = tmp_path / "jobs.jsonl", tmp_path / "jobs.csv"
    lines.write_text("\n".join(json.dumps(row) for row in rows))
    table.write_text("start,end,state,devices\n0,7200,FAILED,512\n7500,9000,COMPLETED,512\n")
    one, other = (TrainingGoodput(n=1000, checkpoint=30.0, log=str(p)).answer() for p in (lines, table))
    assert one.to_dict() == other.to_dict()
    assert one.logged["device_hours"] == pytest.approx(512 * 8700 / 3600)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JobID|Start|End\n1|0|1\n", "1: expected columns start, end and state"),
        ("start,end,state\n0,x,FAILED\n", "2: end 'x': expected a date"),
        ("start,end,state\n5,1,FAILED\n", "2: the job ends before it starts"),
        ("start,end,state\n0,1,BROKEN\n", "2: unknown state 'BROKEN'"),
        ("start,end,state,devices\n0,1,FAILED,many\n", "2: devices 'many'"),
        ("start,end,state\n", "no job with a start"),
        ('{"start": 0}\nnonsense\n', "2: not JSON"),
    ],
)
def test_a_bad_history_is_named_by_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        TrainingGoodput(n=8, checkpoint=30.0, log=str(path)).answer()


def test_options_that_contradict() -> None:
    with pytest.raises(UsageError, match="--mtbf and --log"):
        TrainingGoodput(n=8, checkpoint=30.0, mtbf=1e6, log="x").check()
    with pytest.raises(UsageError, match="require --spares"):
        TrainingGoodput(n=8, checkpoint=30.0, repair=1e4).check()
    with pytest.raises(Infeasible, match="no progress"):  # a thousandth of the time and less is none
        TrainingGoodput(n=16384, checkpoint=3 * 86400.0).answer()
    with pytest.raises(Infeasible, match="no progress"):
        TrainingGoodput(n=1e30, checkpoint=30.0).answer()


@pytest.mark.slow
def test_estimate_says_how_long_with_failures() -> None:
    options = {"model": "llama-3-8b", "hw": "h100", "n": "256", "tokens": "1T", "phase": "train", "batch": "512"}
    train = estimate(build_request.request(build_request.named(options))).phases["train"]
    assert isinstance(train, TrainAnswer) and train.elapsed_s and train.run_s and train.elapsed_interval_s
    share = TrainingGoodput(n=256, params=8030261248).answer()
    assert train.goodput == pytest.approx(float(share.goodput))
    assert train.elapsed_s == pytest.approx(train.run_s / train.goodput)
    assert train.elapsed_interval_s[0] < train.elapsed_s < train.elapsed_interval_s[1]
    assert train.elapsed_interval_s[1] / train.elapsed_s > train.interval_s[1] / train.time_s


JOBS = """JobID|Start|End|State|Devices
1|0|3600|COMPLETED|8
1.batch|0|3600|FAILED|8
2|7200|9000|NODE_FAIL|16

3|Unknown||PENDING|
4|9600|13200|CANCELLED by 1001|
5|13500|14000|failed+|4
6|14000|Unknown|RUNNING|
7|13990|20000|COMPLETED|
"""


def test_a_history_of_jobs_by_hand(tmp_path):
    """A job's steps, those that wait and the one that runs are left out; a start before the end of a failed job is no restart. Eight devices
    for an hour, 16 for half of one, 32 for an hour, four for 500 s and 32 for 6,010 s."""
    path = tmp_path / "jobs.txt"
    path.write_text(JOBS)
    hours = 8 + 8 + 32 + (4 * 500 + 32 * 6010) / 3600
    wanted = {"jobs": 5, "failures": 2, "planned": 1, "device_hours": pytest.approx(hours), "restart_s": 600}
    assert history(path, 32) == wanted
    names, *lines = (line.split("|") for line in JOBS.splitlines() if line)
    path.write_text("\n".join(json.dumps(dict(zip(names, line, strict=True))) for line in lines))
    assert history(path, 32) == wanted
    path.write_text(JOBS.replace("NODE_FAIL", "TIMEOUT").replace("failed+", "SUSPENDED"))
    stopped = history(path, 32)
    assert (stopped["failures"], stopped["planned"], stopped["restart_s"]) == (0, 3, None)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("|NODE_FAIL|", "|EXPLODED|", r":4: unknown state 'EXPLODED'; expected one of FAILED, .*COMPLETED"), ("9000|", "7199|", ":4: the job ends before it starts"),
        ("|16", "|many", ":4: devices 'many': expected a number"), ("7200|", "noon|", ":4: start 'noon': expected a date such as"),
        ("JobID|Start|End|State", "Job|Begin|End|State", ":1: expected columns start, end and state, got 'job, begin, end, state, devices'"),
    ],
)  # fmt: skip
def test_a_history_that_cannot_be_read_is_refused_with_its_line(tmp_path, before, after, says):
    path = tmp_path / "jobs.txt"
    path.write_text(JOBS.replace(before, after, 1))
    with pytest.raises(DataError, match=says):
        history(path, 32)
    path.write_text("JobID|Start|End|State\n3|Unknown||PENDING\n")
    with pytest.raises(DataError, match="no job with a start, an end and a state"):
        history(path, 32)
