"""Registries are listed once per state of their folders: what is added, taken away or led elsewhere is seen."""

import os

import pytest

from rooflinecli.specs import name_lookup

LONG_AGO = 1_700_000_000


@pytest.fixture
def chips(tmp_path, monkeypatch):
    folder = tmp_path / "hardware"
    folder.mkdir()
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    return folder


def _settle(folder, age=0):
    os.utime(folder, (LONG_AGO + age, LONG_AGO + age))


def test_a_file_added_to_a_folder_long_unchanged_is_found(chips):
    (chips / "one.yaml").write_text("name: one\n")
    _settle(chips)
    assert name_lookup.files("hardware")["one"] == chips / "one.yaml" and "two" not in name_lookup.files("hardware")
    (chips / "two.yaml").write_text("name: two\n")
    _settle(chips, 1)
    assert {"one", "two"} <= name_lookup.files("hardware").keys()
    (chips / "one.yaml").unlink()
    assert "one" not in name_lookup.files("hardware")


def test_a_folder_that_has_just_changed_is_listed_again_even_under_the_same_time(chips):
    (chips / "one.yaml").write_text("name: one\n")
    at = os.stat(chips).st_mtime_ns
    assert "one" in name_lookup.files("hardware")
    (chips / "two.yaml").write_text("name: two\n")
    os.utime(chips, ns=(at, at))
    assert "two" in name_lookup.files("hardware")


def test_where_a_link_leads_is_looked_up_each_time(chips, tmp_path):
    target = tmp_path / "target.yaml"
    (chips / "linked.yaml").symlink_to(target)
    _settle(chips)
    assert "linked" not in name_lookup.files("hardware")
    target.write_text("name: linked\n")
    assert "linked" in name_lookup.files("hardware")


def test_a_folder_long_unchanged_is_listed_once(chips, monkeypatch):
    (chips / "one.yaml").write_text("name: one\n")
    _settle(chips, 2)
    name_lookup.files("hardware")
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(name_lookup.os, "scandir", lambda folder: listed.append(folder) or scandir(folder))
    assert name_lookup.find("hardware", "one") == chips / "one.yaml"
    assert str(chips) not in listed
