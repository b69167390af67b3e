"""An engine asked for on a chip of a maker or kind that nothing here knows it on says so; nothing is said where it is known."""

from __future__ import annotations

import pytest
import yaml

from rooflinecli.specs.engine import engines, load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.name_lookup import files

ASKED = ("llama-3.1-8b", "-n", "1", "--batch", "1", "--phase", "decode", "--format", "json")


@pytest.mark.parametrize(
    ("chip", "engine", "said"),
    [
        ("m4-max", "exllamav2", True),
        ("ryzen-9-9950x", "llamacpp-rocm", True),  # made by AMD, and no GPU
        ("mi300x", "trtllm", True),
        ("rtx-4090", "mlx", True),
        ("h100", "llamacpp-rocm", True),
        ("mi300x", "fastertransformer", True),  # as the file that it extends
        ("rtx-4090", "exllamav2", False),
        ("dgx-spark", "trtllm", False),
        ("m4-max", "mlx", False),
        ("rx-7900-xtx", "llamacpp-rocm", False),
        ("ryzen-9-9950x", "ollama", False),
        ("mi300x", "vllm", False),
    ],
)
def test_a_chip_that_an_engine_is_not_known_on_is_told(cli, chip, engine, said):
    found = cli("estimate", *ASKED, "--hw", chip, "--engine", engine).json
    notes = [note for note in found.get("notes") or [] if "nothing shows that it runs on" in note]
    assert bool(notes) == said
    assert all(load_engine(engine).name in note and load_hardware(chip).name in note for note in notes)


def test_a_format_that_brings_its_engine_tells_too(cli):
    """EXL2 files are ExLlamaV2's, whoever asks for them."""
    found = cli("estimate", *ASKED, "--hw", "m4-max", "--weight-dtype", "exl2-4.65").json
    assert any("ExLlamaV2" in note and "Apple M4 Max" in note for note in found["notes"])


def test_files_of_a_tool_that_is_not_known_there_are_told_in_a_fit(cli):
    """Each format its own tool: EXL2 on a Mac is reported, GGUF and MLX are not."""
    asked = ("fit", "llama-3.1-8b", "--hw", "m4-max", "--file", "Q4_K_M,exl2-4.65,mlx-4")
    notes = cli(*asked, "--format", "json").json["notes"]
    assert len(notes) == 1 and "ExLlamaV2" in notes[0]
    for form in ("table", "markdown"):
        assert "no run of ExLlamaV2 is known here" in " ".join(cli(*asked, "--format", form).out.split())
    assert (
        cli("fit", "llama-3.1-8b", "--hw", "m4-max", "--file", "Q4_K_M,mlx-4", "--format", "json").json["notes"] == []
    )


@pytest.mark.slow
def test_what_engines_are_known_on_are_chips_that_there_are():
    chips = [yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader) for path in files("hardware").values()]
    there = {f"{chip['vendor']} {chip['kind']}" for chip in chips if "vendor" in chip}
    named = {name: set(engine.known_on) for name, engine in engines().items()}
    assert any(named.values())
    assert not {name: found - there for name, found in named.items() if found - there}


def test_a_model_too_large_for_the_board_is_not_said_to_run_nowhere(cli):
    """What the table answers with experts on the host is no reason to take a smaller model; where no host holds it, it is."""
    apart = cli("fit", "gpt-oss-120b", "--hw", "rtx-5090", "--file", "MXFP4_MOE", "--prompt", "512")
    assert "None holds 512 + 256 tokens on the device alone; the fastest with the rest in host memory is" in " ".join(
        apart.out.split()
    )
    assert "experts of" in apart.out and "smaller model" not in apart.out
    nowhere = cli("fit", "deepseek-v3", "--hw", "m1", "--file", "Q4_K_M", "--prompt", "512")
    assert nowhere.code == 1 and "take a smaller model" in " ".join(nowhere.out.split())
