"""The log survives interrupts, other machines and unwritable places."""

import json

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.measure.session import Log


def test_records_come_back_and_the_last_wins(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, "me")
    log.append({"key": "a", "time_s": 1.0})
    log.append({"key": "a", "time_s": 0.5})
    again = Log(path, "me")
    assert "a" in again and again.records["a"]["time_s"] == 0.5
    assert len(path.read_text().splitlines()) == 2


def test_a_line_cut_by_an_interrupt_costs_only_itself(tmp_path):
    path = tmp_path / "log.jsonl"
    Log(path, "me").append({"key": "a"})
    with path.open("a") as stream:
        stream.write('{"schema": "roofline-measure/1", "key": "b", "fing')
    resumed = Log(path, "me")
    resumed.append({"key": "c"})
    final = Log(path, "me")
    assert set(final.records) == {"a", "c"}


def test_another_machine_is_ignored_and_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    Log(path, "them").append({"key": "a"})
    mine = Log(path, "me")
    assert "a" not in mine and mine.foreign == 1


def test_restart_keeps_the_old_log(tmp_path):
    path = tmp_path / "log.jsonl"
    Log(path, "me").append({"key": "a"})
    assert "a" not in Log(path, "me", fresh=True)
    assert json.loads((tmp_path / "log.jsonl.old").read_text())["key"] == "a"


def test_a_muted_log_writes_nothing(tmp_path):
    log = Log(tmp_path / "log.jsonl", "me")
    log.mute()
    log.append({"key": "a"})
    assert "a" in log and not (tmp_path / "log.jsonl").exists()


def test_unwritable_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="--log"):
        Log(tmp_path / "missing" / "log.jsonl", "me").append({"key": "a"})
