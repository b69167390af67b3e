"""`roofline models`: list, page, import; and that one YAML file is all it takes to add a model."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HF = Path(__file__).parent / "hf"
GUIDE = ROOT / "docs" / "add-model.md"


@pytest.mark.slow
def test_list(cli):
    ran = cli("models")
    assert ran.code == 0
    assert re.search(r"^llama-3-70b +(llama +)?70\.6B +- +80 +8192 +8192$", ran.out, re.MULTILINE)
    assert re.search(r"^deepseek-v3 +(deepseek +)?671B +37\.6B +61 +7168 +163840$", ran.out, re.MULTILINE)


def test_family(cli):
    names = [m["name"] for m in cli("models", "--family", "GPT2", "--format", "json").json]
    assert names == ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"]
    wrong = cli("models", "--family", "lama")
    assert wrong.code == 2 and "did you mean" in wrong.err and "llama" in wrong.err


@pytest.mark.slow
def test_formats_of_the_list(cli):
    listed = cli("models", "--format", "json").json
    rows = list(csv.DictReader(io.StringIO(cli("models", "--format", "csv").out)))
    assert [r["name"] for r in rows] == [m["name"] for m in listed]
    assert [int(r["parameters.total"]) for r in rows] == [m["parameters"]["total"] for m in listed]
    assert cli("models", "--format", "markdown").out.startswith("| model | family | parameters |")


def test_page(cli):
    assert "active, with input embedding  12,879,925,248" in cli("models", "mixtral").out
    assert "active, without it  12,748,853,248" in cli("models", "mixtral", "--details").out
    page = cli("models", "llama70b", "--format", "json").json
    assert page["kv_cache"]["bytes_per_token"] == 327680
    assert page["parameters"]["total"] == page["parameters"]["published"] == 70553706496
    assert "parameters.total,70553706496" in cli("models", "llama70b", "--format", "csv").out
    assert "# Llama 3 70B" in cli("models", "llama70b", "--format", "markdown").out


def test_near_miss(cli):
    ran = cli("models", "lama-3-70b")
    assert ran.code == 2 and "llama-3-70b" in ran.err and ran.out == ""


def test_import_writes_a_file_that_loads(cli, tmp_path):
    out = tmp_path / "mine.yaml"
    assert cli("models", "import", str(HF / "qwen3-30b-a3b.json"), "--out", str(out)).code == 0
    assert cli("models", str(out), "--format", "json").json["parameters"]["total"] == 30532122624


def test_import_from_a_folder_and_from_standard_input(cli, tmp_path, monkeypatch):
    folder = tmp_path / "my-model"
    folder.mkdir()
    text = (HF / "gpt2.json").read_text()
    (folder / "config.json").write_text(text)
    assert cli("models", "import", str(folder)).out.startswith("name: my-model\n")
    assert cli("models", str(folder), "--format", "json").json["name"] == "my-model"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert "n_heads: 12" in cli("models", "import", "-").out


def test_a_config_is_a_model_everywhere(cli):
    ran = cli(
        "estimate", str(HF / "llama-3-8b.json"), "--hw", "h100-sxm", "-n", "1", "--phase", "decode", "--format", "json"
    )
    assert ran.code == 0
    assert ran.json["model"]["parameters"]["total"] == 8030261248


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("import",), 2, "needs a config"),
        (("import", "nowhere.json"), 3, "nowhere.json"),
        (("gpt2", "extra"), 2, "models import extra"),
        (("import", str(HF / "gpt2.json"), "--format", "json"), 2, "writes YAML"),
        (("gpt2", "--family", "gpt2"), 2, "--family"),
        (("--schema", "gpt2"), 2, "--schema"),
        (("--format", "xml"), 2, "xml"),
    ],
)
def test_wrong_use(cli, arguments, code, says):
    ran = cli("models", *arguments)
    assert (ran.code, ran.out) == (code, "") and says in ran.err and "Traceback" not in ran.err


def example() -> str:
    """The YAML of the guide."""
    return re.search(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]


@pytest.mark.slow
def test_the_guide_adds_a_model_by_one_file(cli, tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny-moe.yaml").write_text(example())
    monkeypatch.chdir(tmp_path)
    counted = cli("models", "tiny-moe", "--format", "json").json["parameters"]
    assert f"{counted['total']:,}" in GUIDE.read_text() and f"{counted['active']:,}" in GUIDE.read_text()
    assert "tiny-moe" in cli("models").out
    assert cli("estimate", "tinymoe", "--hw", "h100-sxm", "-n", "1", "--format", "json").code == 0


def test_nearer_folders_hide_farther_ones(cli, tmp_path, monkeypatch):
    """ROOFLINE_PATH, then the working directory, then what the package ships."""

    def place(folder: Path, layers: int) -> None:
        folder.mkdir(parents=True)
        text = (ROOT / "models" / "gpt2.yaml").read_text()
        (folder / "gpt2.yaml").write_text(text.replace("layers: 12", f"layers: {layers}"))

    def layers() -> int:
        return cli("models", "gpt2", "--format", "json").json["layers"]

    place(tmp_path / "here" / "models", 5)
    place(tmp_path / "path" / "models", 7)
    monkeypatch.chdir(tmp_path)
    assert layers() == 12
    monkeypatch.chdir(tmp_path / "here")
    assert layers() == 5
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path / "path"))
    assert layers() == 7


@pytest.mark.slow
def test_nothing_heavy_is_imported(python):
    """The list counts parameters without numpy, jax, torch or transformers."""
    code = (
        "import sys\nfrom rooflinecli.questions.models.answer import models\nfrom rooflinecli.render.answer import render\n"
        "from rooflinecli.render.views.models import view\nrender(models()[0], view, 'table', 80)\nimport rooflinecli.importers.hf\n"
        "print([m for m in ('numpy', 'jax', 'torch', 'transformers') if m in sys.modules])"
    )
    assert python(code, cwd=ROOT).stdout.strip() == "[]"


@pytest.mark.slow
def test_listing_is_quick(python):
    """At most 70 starts of a bare interpreter (about 35 on a quiet machine): every kind of layer is loaded, 89 files are read."""

    def least(code: str) -> float:
        times = []
        for _ in range(2):
            start = time.perf_counter()
            python(code, cwd=ROOT)
            times.append(time.perf_counter() - start)
        return min(times)

    listing = "import sys; sys.argv = ['roofline', 'models']\nfrom rooflinecli.interfaces.cli.main import main\nmain()"
    assert least(listing) < 70 * least("pass")


def test_every_format_says_the_same(cli):
    page = json.loads(cli("models", "gpt-oss-20b", "--format", "json").out)
    assert f"{page['parameters']['total']:,}" in cli("models", "gpt-oss-20b").out


def test_show_is_the_page(cli):
    """`models show NAME`, as other tools have it, is `models NAME`."""
    assert cli("models", "show", "gpt2").out == cli("models", "gpt2").out
    ran = cli("models", "show")
    assert ran.code == 2
    assert "models show needs a model" in ran.err


def test_a_page_of_a_checkpoint_with_many_exceptions_stays_a_page(cli, tmp_path):
    """Quantized files of the Hub list every module they leave: six hundred lines that a page need not repeat; JSON has them."""
    left = [f"model.layers.{i}.mlp.gate" for i in range(61)] + ["re:.*" + "|".join(map(str, range(200)))]
    moe = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "num_hidden_layers": 61}
    config = json.loads((HF / "deepseek-v3.json").read_text(encoding="utf-8")) | moe
    config["quantization_config"] |= {"modules_to_not_convert": ["lm_head", *left]}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    page = cli("models", str(tmp_path / "config.json"))
    assert page.code == 0, page.err
    assert len(page.out.splitlines()) < 60
    assert "and 59 more]" in page.out and "block [128, 128]" in " ".join(page.out.split())
    assert len(cli("models", str(tmp_path / "config.json"), "--format", "json").json["quantization"]["kept"]) == 63
