"""Names as people write them; an alias of one file only; a registry that hostile files cannot bring down."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.render.answer import csv_rows as rows
from rooflinecli.render.answer import table
from rooflinecli.specs.name_lookup import find, split_count


@pytest.mark.parametrize(
    ("written", "stem"),
    [
        ("H100 80GB", "h100-sxm"),
        ("A100-40G", "a100-sxm-40"),
        ("A100 80 GB", "a100-sxm-80"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80"),
        ("Tesla V100-SXM2-16GB", "v100-sxm-16"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("h100_sxm", "h100-sxm"),
        ("TPU v5e", "tpu-v5e"),
        ("RTX 3060", "rtx-3060-12"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "rtx-3060-mobile"),
        ("5060 Ti 16GB", "rtx-5060-ti-16"),
        ("a6000", "rtx-a6000"),
        ("7900xtx", "rx-7900-xtx"),
        ("Ryzen AI Max+ 395", "ryzen-ai-max-395"),
    ],
)
def test_a_chip_as_people_write_it(written: str, stem: str) -> None:
    assert find("hardware", written).stem == stem


def test_a_chip_of_two_memories_is_asked_about() -> None:
    with pytest.raises(UsageError, match="could mean rtx-4060-ti-16 or rtx-4060-ti-8"):
        find("hardware", "rtx-4060-ti")
    with pytest.raises(UsageError, match="unknown chip '4090 48gb'"):
        find("hardware", "4090 48gb")


@pytest.mark.parametrize(
    ("written", "stem"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("huggyllama/llama-7b", "llama-1-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("Llama 3 70B", "llama-3-70b"),
        ("LLAMA_3.1_8B", "llama-3.1-8b"),
    ],
)
def test_a_model_as_people_write_it(written: str, stem: str) -> None:
    assert find("models", written).stem == stem


def test_a_quantized_checkpoint_is_not_its_base() -> None:
    """Its weights are another size, so the name is refused rather than read as the base model's."""
    with pytest.raises(UsageError, match="did you mean"):
        find("models", "meta-llama/Llama-3.1-8B-Instruct-FP8")


def test_a_hub_name_nobody_knows_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"download its config\.json from the Hub and give the path"):
        find("models", "acme/foo-1b")
    with pytest.raises(DataError, match="no such file"):
        find("models", "acme/foo/config.json")


@pytest.mark.parametrize(
    ("written", "count", "chip"),
    [
        ("8xH100", 8, "H100"),
        ("16 x A100-40G", 16, "A100-40G"),
        ("h100:8", 8, "h100"),
        ("H100", None, "H100"),
        ("2x4090", 2, "4090"),
        ("4090x2", 2, "4090"),
        ("7900xtx", None, "7900xtx"),
    ],
)
def test_a_count_before_a_chip(written: str, count: int | None, chip: str) -> None:
    assert split_count("hardware", written) == (count, chip)


def test_8xh100_is_eight_devices(cli) -> None:
    short = cli("estimate", "llama-3-8b", "--hw", "8xH100", "--phase", "decode", "--format", "json").json
    assert (
        short == cli("estimate", "llama-3-8b", "--hw", "h100", "-n", "8", "--phase", "decode", "--format", "json").json
    )
    ran = cli("estimate", "llama-3-8b", "--hw", "8xH100", "-n", "4")
    assert ran.code == 2 and "8 devices" in ran.err
    ran = cli("kernel", "matmul", "1", "1", "1", "--hw", "8xH100")
    assert ran.code == 2 and "the count as -n 8" in ran.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a hardware/ of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hardware").mkdir()
    return tmp_path / "hardware"


def test_an_alias_of_two_files_is_refused_by_file_and_line(folder: Path, cli) -> None:
    (folder / "mine.yaml").write_text("extends: h100-sxm\nname: Mine\naliases: [mine2, h100]\n")
    ran = cli("estimate", "gpt2", "--hw", "h100")
    assert ran.code == 3 and "hardware/mine.yaml:3: the alias 'h100' belongs to hardware/h100-sxm.yaml too" in ran.err
    assert find("hardware", "mine2").stem == "mine" and find("hardware", "h100-80gb").stem == "h100-sxm"


def test_the_name_of_a_nearer_file_wins_by_design(folder: Path) -> None:
    (folder / "h100.yaml").write_text("extends: h100-sxm\nname: Mine\naliases:\n  - below\n  - another\n")
    assert find("hardware", "h100").parent == folder and find("hardware", "another").stem == "h100"


@pytest.mark.slow
def test_a_broken_file_spares_the_others(folder: Path, cli) -> None:
    (folder / "broken.yaml").write_text("name: X\nvendor: [\n")
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (folder / "a.yaml").symlink_to("b.yaml")
    (folder / "b.yaml").symlink_to("a.yaml")
    (folder / "nowhere.yaml").symlink_to("gone.yaml")
    (folder / "folder.yaml").mkdir()
    ran = cli("hardware")
    assert ran.code == 3 and "h100-sxm" in ran.out and "and 1 more" in ran.err and ran.err.count("\n") == 1
    assert "broken.yaml:3" in ran.err
    assert cli("estimate", "gpt2", "--hw", "h100").code == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 50_000 + "]" * 50_000,
        "{a: " * 50_000 + "}" * 50_000,
        "a:\n" + "- " * 50_000 + "x",
        "? " * 50_000,
        "a: " + "[" * 900 + "]" * 900,
        "\n".join(" " * i + "a:" for i in range(1500)),
    ],
    ids=("lists", "mappings", "dashes", "keys", "less deep", "indents"),
)
def test_a_file_nested_too_deeply_is_refused(folder: Path, text: str, python) -> None:
    """In a process of its own: PyYAML's composer would end it."""
    (folder / "deep.yaml").write_text(text)
    code = "import sys\nsys.argv = ['roofline', 'hardware', 'deep']\nfrom rooflinecli.interfaces.cli.main import main\nmain()"
    import os

    root = str(Path(__file__).resolve().parents[2])
    ran = python(code, env={**os.environ, "PYTHONPATH": root})
    assert ran.returncode == 3 and "nested too deeply" in ran.stderr and "hardware/deep.yaml:" in ran.stderr


@pytest.mark.parametrize("field", ["name", "vendor"])
def test_control_characters_in_a_data_file_are_refused_by_line(folder: Path, cli, field: str) -> None:
    (folder / "evil.yaml").write_text(
        f'extends: h100-sxm\nname: Evil\n{field if field != "name" else "notes"}: ["\\e[31m"]\n'
    )
    ran = cli("hardware", "evil")
    assert ran.code == 3 and "hardware/evil.yaml:3" in ran.err and "\x1b" not in ran.err + ran.out


def test_a_name_of_two_lines_is_one(folder: Path, cli) -> None:
    (folder / "two.yaml").write_text('extends: h100-sxm\nname: "A\\n  B"\n')
    assert cli("hardware", "two").out.startswith("A B: 989 TFLOP/s")


def test_an_error_that_quotes_an_escape_sequence_does_not_send_it(cli) -> None:
    ran = cli("estimate", "gpt2\x1b[31m\n\x07", "--hw", "h100")
    assert ran.code == 2 and "\x1b" not in ran.err and "\x07" not in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx"])
def test_no_spreadsheet_takes_text_for_a_formula(text: str) -> None:
    (cell, *others) = next(csv.reader(io.StringIO(rows([[text, "-1.5", -2.5, "plain"]]))))
    assert cell == "'" + text and others == ["-1.5", "-2.5", "plain"]


def test_a_cell_of_markdown_opens_no_html_and_ends_no_cell() -> None:
    line = table([["head"], ["<script>a|b\n</script>"]]).splitlines()[-1]
    assert line == "| &lt;script>a\\|b &lt;/script> |"


def test_hostile_names_reach_no_document(folder: Path, cli) -> None:
    (folder / "evil.yaml").write_text("extends: h100-sxm\nname: '<img src=x onerror=alert(1)>|=1+1'\n")
    for command in (("estimate", "gpt2", "--hw", "evil"), ("hardware", "evil"), ("ops", "gpt2", "--hw", "evil")):
        assert "<img" not in cli(*command, "--format", "markdown").out
