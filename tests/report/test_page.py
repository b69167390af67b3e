"""The page without a browser: its JSON is the estimate's, every figure shown is in it, nothing is loaded, nothing escapes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from conftest import run_cli

from rooflinecli.core import units
from tests.report.conftest import QUESTIONS, embedded

NAMES = sorted(QUESTIONS)


class Reader(HTMLParser):
    """Figures with their text, tags with their attributes, and whether everything that opened was closed."""

    VOID = ("meta", "link", "br", "hr")

    def __init__(self, html: str):
        super().__init__()
        self.figures, self.tags, self.open = [], [], []
        self._text = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "data":
            self._text = (dict(attrs), [])

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "data":
            self.figures.append((self._text[0]["data-path"], self._text[0]["value"], "".join(self._text[1])))
            self._text = None

    def handle_data(self, data):
        if self._text is not None:
            self._text[1].append(data)


def at(data, path):
    for key in path.split("."):
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_the_embedded_estimate_is_the_commands(cli, page_of, name):
    estimate = cli("estimate", *QUESTIONS[name], "--format", "json").json
    assert embedded(page_of(name).read_text())["estimate"] == estimate


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_shown_is_in_the_json(page_of, name):
    html = page_of(name).read_text()
    data, reader = embedded(html), Reader(html)
    assert reader.open == []
    assert len(reader.figures) > 40
    for path, value, text in reader.figures:
        assert repr(at(data, path)) == value, path
        whole = TOTALS[path.rpartition(".breakdown_s")[0]] if ".breakdown_s." in path else 1.0
        found = at(data, path)
        pairs = zip(ends(text), found, strict=True) if isinstance(found, list) else [(text, found)]
        for written, number in pairs:  # per cents have two digits at least
            assert read(written, whole) == pytest.approx(
                number, rel=0.006, abs=6e-3 * whole if "%" in text else None
            ), path


def ends(text: str) -> list[str]:
    """Both ends of an interval, whose unit may stand once: '162–317 ms'."""
    low, high = text.split("–")
    unit = high.partition(" ")[2]
    return [low if " " in low or not unit else f"{low} {unit}", high]


def read(text: str, whole: float) -> float:
    """A number for people, read back by its unit; a percentage is of `whole`."""
    bare = text.replace(",", "").strip()
    if bare.startswith("$"):
        return float(bare[1:])
    if bare.endswith("%"):
        return float(bare[:-1]) / 100 * whole
    bare = bare.removesuffix(" tok/s")
    if re.fullmatch(r"[\d.]+[kMBT]", bare):
        return units.parse(bare, "tokens")
    for unit in ("s", "B", "B/s", "FLOP/s", "W"):
        try:
            return units.parse(bare, unit)
        except ValueError:
            continue
    number, _, unit = bare.partition(" ")
    return float(number) * units._SI.get(unit, 1.0)


TOTALS: dict[str, float] = {}


@pytest.fixture(autouse=True)
def totals(page_of, request):
    """Shares of a breakdown are of their phase's time."""
    name = getattr(request.node, "callspec", None)
    if name is not None and name.params.get("name") in QUESTIONS:
        for phase, answer in embedded(page_of(name.params["name"]).read_text())["estimate"]["phases"].items():
            TOTALS[f"estimate.phases.{phase}"] = answer["time_s"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_marks_stand_where_their_numbers_say(page_of, name):
    """A mark on the drawn roofline, read back through the tick labels' positions, gives the JSON's intensity."""
    html = page_of(name).read_text()
    data = embedded(html)
    wide = re.search(r'<svg class="chart wide".*?</svg>', html[html.index('<section id="roofline"') :], re.DOTALL)[0]
    ticks = {
        float(label.replace("k", "e3")): float(x)
        for x, label in re.findall(r'<text x="([\d.]+)" y="390" class="tick" text-anchor="middle">([\d.k]+)<', wide)
    }
    (low, a), (high, b) = min(ticks.items()), max(ticks.items())
    marks = re.findall(r'<circle cx="([\d.]+)"[^>]*data-path="(operations[\w.]+)"', wide)
    assert marks
    for x, path in marks:
        from math import log

        on_axis = low * (high / low) ** ((float(x) - a) / (b - a))
        assert log(on_axis / at(data, path)["intensity_flops_per_byte"]) == pytest.approx(0, abs=0.02)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_loaded_and_nothing_runs(page_of, name):
    reader = Reader(page_of(name).read_text())
    for tag, attrs in reader.tags:
        assert tag not in ("iframe", "object", "embed", "img", "video", "audio", "base", "form")
        if tag == "script":
            assert attrs == {"type": "application/json", "id": "roofline-data"}
        for key, value in attrs.items():
            assert not key.startswith("on")
            if key in ("src", "href"):
                assert value.startswith(("#", "data:"))
    assert "url(" not in page_of(name).read_text().split("</style>")[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_named_for_those_who_do_not_see_it(page_of, name):
    reader = Reader(page_of(name).read_text())
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs in reader.tags:
        if tag == "th":
            assert attrs["scope"] in ("col", "row")
        if attrs.get("role") == "img":
            assert attrs.get("aria-label") or set(attrs["aria-labelledby"].split()) <= set(ids)
        if tag == "a":
            assert attrs["href"][1:] in ids
        if "aria-labelledby" in attrs:
            assert set(attrs["aria-labelledby"].split()) <= set(ids)
    tables = [tag for tag, _ in reader.tags if tag in ("table", "caption")]
    assert tables.count("table") == tables.count("caption") > 0
    assert next(attrs for tag, attrs in reader.tags if tag == "html") == {"lang": "en"}
    heads = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert heads[0] == 1 and heads.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(heads))


def test_derivations_start_from_the_json_s_numbers(page_of):
    html = page_of("llama").read_text()
    estimate = embedded(html)["estimate"]
    roots = re.findall(r'<details id="d\d+" data-path="([\w.]+)" data-value="([^"]+)">', html)
    assert {"decode.time_s", "prefill.time_s", "train.time_s", "decode.memory.total_bytes"} <= {
        path for path, _ in roots
    }
    for path, value in roots:
        found = at(estimate if path.startswith("cost") else estimate["phases"], path)
        assert repr(float(found)) == value


def test_sources_name_files_of_the_project(page_of):
    sources = embedded(page_of("llama").read_text())["sources"]
    assert {"P_bf16", "W", "M_cap"} <= {s["symbol"] for s in sources}
    for source in sources:
        assert re.fullmatch(r"[\w./-]+\.(yaml|json):\d+", source["at"]), source
        assert not source["at"].startswith("/"), source


def test_what_does_not_fit_is_said_at_the_top(page_of):
    html = page_of("toolarge").read_text()
    assert html.index("Does not fit") < html.index('class="cards"')


def test_a_hostile_name_stays_text(cli, tmp_path):
    """Names come from files that anyone may write."""
    evil = tmp_path / "evil.yaml"
    evil.write_text(
        "extends: h100-sxm\nname: '</script><script>alert(1)</script><img src=x onerror=alert(2)>'\naliases: []\n"
    )
    ran = cli("report", "gpt2", "--hw", str(evil), "--phase", "decode", "--out", "-")
    assert ran.code == 0, ran.err
    reader = Reader(ran.out)
    assert [attrs for tag, attrs in reader.tags if tag == "script"] == [
        {"type": "application/json", "id": "roofline-data"}
    ]
    assert not [tag for tag, _ in reader.tags if tag == "img"]
    assert "<script>alert" in embedded(ran.out)["estimate"]["hardware"]["name"]


def test_the_same_question_makes_the_same_page(cli, page_of):
    assert cli("report", *QUESTIONS["tpu"], "--out", "-").out == page_of("tpu").read_text()


def test_the_footer_s_command_answers_the_same(cli, page_of):
    import html as text
    import shlex

    command = shlex.split(
        text.unescape(re.search(r"The same numbers: <code>(.*?)</code>", page_of("training").read_text())[1])
    )
    assert json.loads(cli(*command[1:]).out) == embedded(page_of("training").read_text())["estimate"]


@pytest.mark.slow
def test_an_unwritable_place_is_one_sentence(cli, tmp_path):
    ran = cli("report", "gpt2", "--hw", "h100", "--out", str(tmp_path / "no" / "where.html"))
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_a_page_of_what_does_not_fit_says_so_where_the_command_ran(tmp_path):
    ran = run_cli(
        "report",
        "llama-3-70b",
        "--hw",
        "h100",
        "--tp",
        "1",
        "-n",
        "1",
        "--phase",
        "prefill",
        "-o",
        str(tmp_path / "page.html"),
    )
    assert ran.code == 1 and (tmp_path / "page.html").exists()
    assert re.search(r"^roofline: prefill needs 14\d GB per device, .* nearest that works: -n 2 ", ran.err, re.M), (
        ran.err
    )
