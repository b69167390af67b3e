"""The page to play with: fields over the sections of a report, which are drawn again whenever a field changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from rooflinecli.core.errors import RooflineError
from rooflinecli.core.record import plain
from rooflinecli.engine import build_request
from rooflinecli.importers.source import Options
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.estimate.explain import derivation, quantities
from rooflinecli.questions.report.answer import outline
from rooflinecli.render.answer import to_json
from rooflinecli.render.report import answer, charts
from rooflinecli.render.report.derivation_tree import DerivationTree
from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, tag
from rooflinecli.specs.layout import AXES
from rooflinecli.specs.name_lookup import files
from rooflinecli.specs.options import KINDS, OPTIONS, PANELS, Option
from rooflinecli.specs.request import Request

FIELDS = {
    "What": ("model", "hw", "phase", "dtype", "kv-dtype", "weight-dtype"),
    "Load": ("batch", "prompt", "output", "seq", "concurrency", "qps"),
    "Layout": ("n", "tp", "pp", "dp", "cp", "ep", "zero", "micro-batch", "recompute"),
    "Engine": ("engine", "efficiency", "price"),
}
_SHOWN = {name for names in FIELDS.values() for name in names}
_FURTHER = {panel: [o for o in OPTIONS.values() if o.panel == panel and o.name not in _SHOWN] for panel in PANELS[:-1]}
SLID = {"batch": (0, 12), "prompt": (4, 17), "output": (0, 14), "seq": (8, 17), "n": (0, 14)}  # powers of two
_WORDS = {
    "phase": ("", "prefill,decode", "prefill", "decode", "train"),
    "engine": ("", "python-server", "cuda-graph", "vllm", "sglang", "trtllm"),
}


def part(options: Options) -> EscapedHtml:
    """The answer to a question, without the page around it. Raises the errors of the estimate."""
    request = build_request.request(options)
    result = estimate(request)
    figures = EmbeddedFigures(json.loads(to_json(outline(_settled(request, result), result))))
    problems = [tag("p", tag("strong", "Does not fit: "), v.message, class_="bad box") for v in result.violations]
    title = tag("h2", result.model.name, " on ", str(result.layout.devices), " × ", result.hardware.name, id="title")
    drawn = [charts.throughput(figures, phase) for phase in figures.data["curves"]]
    sections = (
        ("answer", "Answer", answer.times(figures)),
        ("memory", "Memory per device", answer.memory(figures)),
        ("curve", "Latency against throughput", drawn),
        ("roofline", "Roofline", charts.roofline(figures)),
        ("time", "Where the time goes", answer.spent(figures)),
        ("plan", "Plan and workload", answer.plan(figures)),
        ("cost", "Cost", answer.cost(figures)),
        ("numbers", "Every number unfolds", _numbers(quantities(plain(result)))),
    )
    return join(title, problems, [_section(*one) for one in sections if one[2]])


def _settled(request: Request, result: EstimateAnswer) -> Request:
    """The request with its plan said, so that the drawing next to the answer need not choose it again."""
    if len({phase == "train" for phase in result.phases}) > 1:
        return request
    numbers = ("devices", *AXES, *(("micro_batch", "virtual_stages") if "train" in result.phases else ()))
    words = ("zero", "sequence_parallel", "recompute") if "train" in result.phases else ()
    said: Options = {name: float(getattr(result.layout, name)) for name in numbers}
    said |= {name: getattr(result.layout, name) for name in words}
    return replace(request, **{name: value for name, value in said.items() if getattr(request, name) is None})


def _section(ident: str, name: str, content: object) -> EscapedHtml:
    return tag("section", tag("h2", name, id=f"{ident}-title"), content, id=ident, aria_labelledby=f"{ident}-title")


def _numbers(found: Options) -> EscapedHtml:
    """Every quantity, folded: its derivation is asked for when it is opened."""
    return tag(
        "div",
        [
            tag("details", tag("summary", tag("code", path), f" = {value!r}"), data_quantity=path)
            for path, value in found.items()
        ],
        class_="derivations",
    )


def unfolded(options: Options, quantity: str) -> EscapedHtml:
    """One derivation, as nested details. Raises UsageError for a quantity that does not exist."""
    return tag(
        "div", DerivationTree().root(quantity, derivation(build_request.request(options), quantity)), class_="inside"
    )


def problem(error: RooflineError) -> EscapedHtml:
    """An error where the answer would stand."""
    return tag("p", str(error), class_="bad box", role="alert")


def page(options: Options, content: EscapedHtml) -> str:
    """The whole page, its fields filled with the options and its answer already in place."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("link", rel="stylesheet", href="style.css"),
        tag("title", "roofline"),
        tag("script", src="app.js", defer=""),
    )
    form = tag(
        "form",
        [tag("fieldset", tag("legend", name), [_field(OPTIONS[o], options.get(o)) for o in names]) for name, names in FIELDS.items()],
        [
            tag("details", tag("summary", f"More: {panel.lower()}"), tag("fieldset", [_field(o, options.get(o.name)) for o in further]))
            for panel, further in _FURTHER.items()
        ],
        tag("p", tag("button", "Answer", type="submit"), " ", tag("a", "JSON", href="api/estimate", id="json"), class_="act"),
        method="get", action="./", id="ask", aria_label="The question",
    )  # fmt: skip
    body = tag(
        "body",
        tag("header", tag("h1", "roofline"), tag("p", "Floor, expected and interval of a transformer on a chip. The address bar holds the question.")),
        form,
        tag("p", "", id="status", role="status", aria_live="polite"),
        tag("main", content, id="answer", tabindex="-1"),
        _names("models"), _names("hardware"),
    )  # fmt: skip
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _field(option: Option, value: object) -> EscapedHtml:
    """A labeled field; sizes that people try out have a slider of powers of two next to them."""
    ident = f"o-{option.name}"
    words = _WORDS.get(option.name) or (
        ("", *option.choices)
        if option.kind in ("choice", "stage")
        else ("", "yes", "no")
        if option.kind == "switch"
        else ()
    )
    about = {"id": ident, "name": option.name, "title": option.help}
    if words:
        field = tag("select", list(_choices(words, value)), **about)
    else:
        listed = {"model": "models", "hw": "hardware"}.get(option.name)
        numeric = bool(KINDS[option.kind].unit)
        field = tag("input", value="" if value is None else value, list=listed, maxlength=200, autocomplete="off",
                    spellcheck="false", inputmode="text", size=8 if numeric else 18, **about)  # fmt: skip
    slider: EscapedHtml | None = None
    if option.name in SLID:
        low, high = SLID[option.name]
        slider = tag(
            "input", type="range", min=low, max=high, step=1, data_for=ident, aria_label=f"{option.long}, powers of two"
        )
    return tag("div", tag("label", option.long, for_=ident), field, slider, class_="field")


def _choices(words: tuple[str, ...], value: object) -> Iterator[EscapedHtml]:
    known = words if value is None or str(value) in words else (*words, str(value))
    for word in known:
        chosen = {"selected": ""} if str(value or "") == word else {}
        yield tag("option", word or "as usual", value=word, **chosen)


def _names(kind: str) -> EscapedHtml:
    return tag("datalist", [tag("option", value=name) for name in sorted(files(kind))], id=kind)
