"""Command lines that ended in an internal error, or were read as something else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rooflinecli.core.errors import RooflineError
from rooflinecli.specs.name_lookup import find, split_count

COMMAND = [sys.executable, "-m", "rooflinecli"]


def _shell(line: str, folder=None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line, "sh", *COMMAND], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "launch",
    ["vllm serve", "llama-server -m", "llama-server -hf", "vllm serve --model", "sglang serve", "trtllm-serve"],
)
def test_a_launch_without_a_model_is_a_usage_error(launch):
    ended = _shell(f'"$@" estimate --hw h100 --from "{launch}"')
    assert ended.returncode in (2, 3), ended.stderr
    assert "internal error" not in ended.stderr
    assert "'True'" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(closed):
    ended = _shell(f'"$@" estimate llama-3-8b --hw h100 --phase decode {closed}')
    assert ended.returncode == 0, ended.stderr
    assert "internal error" not in ended.stderr


@pytest.mark.slow
def test_deleted_working_directory(tmp_path):
    (tmp_path / "gone").mkdir()
    ended = _shell('cd gone && rmdir ../gone && "$@" estimate llama-3-8b --hw h100 --phase decode', tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "written",
    ["rtx4090", "RTX 4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090", "rtx-4090", "4090", "GeForce_RTX_4090"],
)
def test_spellings_of_a_consumer_card(written):
    assert split_count("hardware", written)[0] is None
    assert find("hardware", written).stem == "rtx-4090"


@pytest.mark.parametrize("written", ["2xRTX 4090", "RTX 4090 x2", "RTX 4090:2", "4090x2"])
def test_a_count_beside_a_consumer_card(written):
    count, chip = split_count("hardware", written)
    assert count == 2
    assert find("hardware", chip).stem == "rtx-4090"


@pytest.mark.parametrize("written", ["!!h100!!", "h100?", "$h100", "h100%"])
def test_punctuation_is_no_part_of_a_name(written):
    with pytest.raises(RooflineError, match="unknown chip"):
        find("hardware", written)


@pytest.mark.slow
def test_short_help_is_the_help():
    assert _shell('"$@" measure -h').stdout == _shell('"$@" measure --help').stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity"])
def test_a_config_of_no_number(tmp_path, written):
    fields = '"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100'
    (tmp_path / "config.json").write_text(f'{{{fields}, "hidden_size": {written}, "intermediate_size": 64}}')
    ended = _shell('"$@" estimate ./config.json --hw h100', tmp_path)
    assert ended.returncode in (2, 3), ended.stderr
    assert "config.json:1" in ended.stderr


@pytest.mark.slow
def test_emit_asks_for_the_phases_of_its_tool():
    ended = _shell('"$@" estimate llama-3.3-70b --hw h100 -n 8 --tp 8 --emit vllm')
    assert ended.returncode == 0, ended.stderr
    assert "vllm serve" in ended.stdout
