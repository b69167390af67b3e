"""The page to play with: the address bar as options, fields over the sections of a report, which are drawn again whenever a field changes."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

from rooflinecli.core.derivation_text import quantities
from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.core.record import leaves, plain
from rooflinecli.core.text import one_line
from rooflinecli.engine import build_request
from rooflinecli.importers.source import Options
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.answers import OTHERS
from rooflinecli.interfaces.cli.answers import VERBS as printed
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.estimate.changes_to_try import changes
from rooflinecli.questions.estimate.explain import derivation
from rooflinecli.questions.estimate.question import Estimate
from rooflinecli.questions.question import Question
from rooflinecli.questions.report.answer import outline
from rooflinecli.render.answer import bare, to_json
from rooflinecli.render.numbers import text as number_text
from rooflinecli.render.report.html import DerivationTree, EmbeddedFigures, EscapedHtml, join, table, tag
from rooflinecli.render.report.page import document, draw, section, sections, shown
from rooflinecli.render.views.pictures import pictures
from rooflinecli.specs.layout import AXES
from rooflinecli.specs.name_lookup import files, only_registered
from rooflinecli.specs.options import KINDS, MISSING, OPTIONS, PANELS, Option, find
from rooflinecli.specs.request import Request
from rooflinecli.specs.snapshots import packaged

_TABLE = packaged(__file__)
PAGELESS: dict[str, str] = _TABLE["without_page"]  # verb -> why it has none
_NAMES = [
    *(verb for verb in (*verbs.NAMES, *verbs.COMMANDS) if verb not in PAGELESS),
    *(question.verb for group in _TABLE["groups"] for question in verbs.several(group)),
]
VERBS = {verb.replace(" ", "-"): verb for verb in _NAMES}  # that have a page, by its address
LONGEST = 200
_ENDINGS = (".yaml", ".yml", ".json")


def example(question: type[Question[Any]]) -> Options:
    """The options with which the page of a question opens."""
    return dict(_TABLE["examples"].get(question.verb, {}))


def fields(question: type[Question[Any]]) -> list[Option]:
    """Fields that a page has: none that is a file, or that reads one, but for one that is written into the page."""
    if question is Estimate:
        return list(OPTIONS.values())
    written, without = _TABLE["written"].get(question.verb), ("from", *_TABLE["without_field"].get(question.verb, ()))
    return [f for f in question.fields().values() if f.name == written or (f.kind != "file" and f.name not in without)]


def is_posted(question: type[Question[Any]]) -> bool:
    """Whether the file of a page is too long for an address."""
    return question.verb in _TABLE["posted"]


def options(pairs: Iterable[tuple[str, str]], question: type[Question[Any]] = Estimate) -> Options:
    """Options of a query; those left empty are as if not given, and without any the page opens on an example.

    Raises UsageError for a name that does not exist, one given twice, a value that is too long or names a file.
    """
    found: Options = {}
    for name, value in pairs:
        known = one_line(name)[:60]
        option = (
            find(known, "the page's fields show those there are") if question is Estimate else question.named(known)
        )
        text, written = value.strip(), option.name == _TABLE["written"].get(question.verb)
        if not text:
            continue
        lines = text.splitlines() if is_listed(option) else [text]
        if not written and not all(len(line) <= LONGEST and line.isprintable() for line in lines):
            raise UsageError(
                f"{option.flag}: longer than {LONGEST} characters, or not plain text; shorten it", option.name
            )
        bare = "" if option.name in _TABLE["never_files"] or (written and is_posted(question)) else text
        words = re.split(r"[,=:;\s'\"\[\]{}]+", re.sub(r"(?m)(^|\s)#.*$", "", bare) if written else bare)
        if option not in fields(question) or (
            not KINDS[option.kind].unit and any(_is_path(word, option) for word in words)
        ):
            raise UsageError(
                f"{option.flag} {one_line(text)[:LONGEST]}: a page answers for names of the registry, not for files",
                option.name,
            )
        if option.name in found:
            raise UsageError(f"{option.flag} is given twice; keep one", option.name)
        found[option.name] = value.replace("\r\n", "\n") if written else lines if len(lines) > 1 else text
    found = found or example(question)
    if any(field.name == "seed" and field.default is None for field in fields(question)):
        found.setdefault("seed", str(random.randrange(10**6)))  # what was drawn is asked again
    return found


def is_listed(option: Option) -> bool:
    """Whether a field takes several values, a line each."""
    return option.several and option.name in _TABLE["never_files"]


def _is_path(word: str, option: Option) -> bool:
    """Whether a word could name a file. A name of the registry is looked up there, whatever files lie around."""
    is_file = option.kind != "name" and os.path.isfile(word)
    return is_file or bool({"/", "\\"} & set(word)) or word.lower().endswith(_ENDINGS)


def part(options: Options, question: type[Question[Any]] = Estimate) -> EscapedHtml:
    """The answer to a question, without the page around it. Raises the errors of the question."""
    if question is not Estimate:
        answer_of = answered(options, question)
        of_verb = printed.get(question.verb.partition(" ")[0])
        usual = _TABLE["views"].get(question.verb, question.verb) if of_verb is None else of_verb.view
        module, _, name = OTHERS.get(type(answer_of).__name__, (usual, ""))[0].partition(".")
        view = getattr(import_module(f"rooflinecli.render.views.{module}"), name or "view")
        first = {} if of_verb is None else of_verb.first(answer_of)
        return join(draw(view(answer_of, **first)), shown(pictures(answer_of)), _in_use(answer_of))
    request = build_request.request(options)
    result = estimate(request)
    folded = [  # their derivations are asked for when they are opened
        tag("details", tag("summary", tag("code", path), f" = {value!r}"), data_quantity=path)
        for path, value in quantities(plain(result)).items()
    ]
    numbers = section("numbers", "Every number unfolds", tag("div", folded, class_="derivations"))
    result.changes_to_try = changes(options, result)
    outlined = outline(_settled(request, result), result)
    figures = EmbeddedFigures(json.loads(to_json(outlined)))
    return join(sections(figures, outlined), numbers, _in_use(result))


def answered(options: Options, question: type[Question[Any]]) -> Any:
    """The answer to a question, whose file may be written into the page and opens no other. Raises the errors of the question."""
    with only_registered(), verbs.with_file(_TABLE["written"].get(question.verb, ""), options) as written:
        return verbs.answered(question.read(written))


def printed_json(answer: Any, question: type[Question[Any]]) -> Any:
    """What `--format json` prints of an answer: of a list of a registry its rows alone."""
    rows = getattr(question, "rows", "")
    return plain(answer[rows] if rows and rows in answer else answer)


def _in_use(found: Any) -> EscapedHtml:
    """Values of the fields that were left empty, for the page to show in them."""
    parts = [plain(getattr(found, name, None)) or {} for name in ("workload", "load", "layout")]
    said = {key.replace("_", "-"): value for one in parts for key, value in one.items() if value is not None}
    said |= {name: said[key] for key, name in _TABLE["named"].items() if key in said}
    words = {
        k: f"{v:g}" if isinstance(v, float) else v for k, v in said.items() if not isinstance(v, (dict, list, bool))
    }
    return tag("template", id="in-use", data_values=json.dumps(words))


def differences(question: type[Question[Any]], pinned: Options, now: Options) -> EscapedHtml:
    """What differs between two answers, the main quantities first. Raises the errors of the question."""
    before, after = (dict(leaves(bare(plain(answered(asked, question))))) for asked in (pinned, now))
    rows = []
    for path, value in after.items():
        was, key = before.get(path), [part for part in path.split(".") if not part.isdigit()][-1]
        same = was is None or value is None or was == value
        if same or key in ("reason", "schema") or "interval" in path or ".layout." in path:
            continue
        figures = not isinstance(value, (str, bool)) and not isinstance(was, (str, bool)) and was
        change = f"{value / was - 1:+.1%}" if figures else ""
        rank = next((i for i, name in enumerate(_TABLE["main"]) if path.endswith(name)), len(_TABLE["main"]))
        rows.append((rank, [path, number_text(was, key), number_text(value, key), change]))
    ordered = [row for _, row in sorted(rows, key=lambda row: row[0])]
    head = ["quantity", "pinned", "now", "change"]
    asked = " ".join(f"{k}={v}" for k, v in pinned.items())
    content = table("Differences", head, ordered[:SHOWN], hidden=True) if ordered else tag("p", "The same answer.")
    more = tag("details", tag("summary", f"{len(ordered) - SHOWN} more"), table("Further differences", head, ordered[SHOWN:], hidden=True))  # fmt: skip
    return section("pinned", f"Against the pinned {asked}", [content, more if ordered[SHOWN:] else None])


SHOWN = 8  # differences before the fold


def _settled(request: Request, result: EstimateAnswer) -> Request:
    """The request with its plan said, so that the drawing next to the answer need not choose it again."""
    if len({phase == "train" for phase in result.phases}) > 1:
        return request
    numbers = ("devices", *AXES, *(("micro_batch", "virtual_stages") if "train" in result.phases else ()))
    words = ("zero", "sequence_parallel", "recompute") if "train" in result.phases else ()
    said: Options = {name: float(getattr(result.layout, name)) for name in numbers}
    said |= {name: getattr(result.layout, name) for name in words}
    return replace(request, **{name: value for name, value in said.items() if getattr(request, name) is None})


def unfolded(options: Options, quantity: str) -> EscapedHtml:
    """One derivation, as nested details. Raises UsageError for a quantity that does not exist."""
    return tag(
        "div", DerivationTree().root(quantity, derivation(build_request.request(options), quantity)), class_="inside"
    )


def problem(error: RooflineError) -> EscapedHtml:
    """An error where the answer would stand."""
    return tag("p", str(error), class_="bad box", role="alert")


def page(options: Options, content: str, question: type[Question[Any]] = Estimate, pinned: str = "") -> str:
    """The whole page, its fields filled with the options and its answer already in place."""
    verb = question.verb.replace(" ", "-")
    groups, further = _grouped(question, options)
    at = "" if question is Estimate else f"{verb}/"
    form = tag(
        "form",
        [tag("fieldset", tag("legend", name), [_field(f, options.get(f.name)) for f in fields]) for name, fields in groups.items() if fields],
        [
            tag("details", tag("summary", f"More: {panel.lower()}"), tag("fieldset", [_field(f, options.get(f.name)) for f in fields]))
            for panel, fields in further.items() if fields
        ],
        tag("input", type="hidden", name="pinned", value=pinned, id="pin"),
        tag(
            "p", tag("button", "Answer", type="submit"), " ", tag("button", "Unpin" if pinned else "Pin this answer", type="button", id="pinning"),
            " ", None if is_posted(question) else tag("a", "JSON", href=f"api/{verb}", id="json"), class_="act",
        ),
        method="post" if is_posted(question) else "get", action=f"./{'' if question is Estimate else verb}", id="ask", aria_label="The question", data_part=f"{at}part", data_json=f"api/{verb}",
        data_at_once="yes" if question.verb in _TABLE["at_once"] or " " in question.verb else "no",
    )  # fmt: skip
    asked = " ".join(str(options[name]) for name in ("model", "hw") if options.get(name))
    links = [
        tag("a", name, href="./" if name == "estimate" else path, aria_current="page" if path == verb else None)
        for path, name in VERBS.items()
    ]
    alone = len([name for name in _NAMES if " " not in name])
    here = tag("a", question.verb, aria_current="page") if " " in question.verb else "calculators"
    nav = [links[:alone], tag("details", tag("summary", here), links[alone:])]
    return document(
        f"roofline {question.verb}",
        tag("header", tag("h1", "roofline ", tag("span", question.verb)), tag("nav", nav, aria_label="Verbs"),
            tag("p", " ".join((question.__doc__ or "").partition("\n\n")[0].replace("`", "").split()),
                " What is sent is not kept." if is_posted(question) else " The address bar holds the question.")),
        tag("details", tag("summary", "The question", tag("span", f": {asked}" if asked else "")), form, id="fold"),
        tag("div", tag("p", "", id="status", role="status", aria_live="polite"), tag("main", EscapedHtml(content), id="answer", tabindex="-1"), id="result"),
        *(tag("datalist", [tag("option", value=name) for name in sorted(files(kind))], id=kind) for kind in ("models", "hardware")),
        served=(tag("link", rel="stylesheet", href="style.css"), tag("script", src="app.js", defer="")),
    )  # fmt: skip


Fields = dict[str, list[Option]]


def _grouped(question: type[Question[Any]], options: Options) -> tuple[Fields, Fields]:
    """Fields by group: those that people try first or that were given, and the others to unfold by panel."""
    every = fields(question)
    if question is Estimate:
        first: Fields = {name: [OPTIONS[o] for o in names] for name, names in _TABLE["fields"].items()}
    else:
        shown_first = example(question)
        first = {
            "What": [
                f
                for f in every
                if f.required or f.positional or not f.panel or f.name in shown_first or f.name in options
            ]
        }
    shown = {f.name for group in first.values() for f in group}
    return first, {panel: [f for f in every if f.panel == panel and f.name not in shown] for panel in PANELS[:-1]}


def _field(option: Option, value: object) -> EscapedHtml:
    """A labeled field; sizes that people try out have a slider of powers of two next to them."""
    ident = f"o-{option.name}"
    switched = ("", "yes", "no") if option.kind == "switch" else ()
    chosen = ("", *option.choices) if option.kind in ("choice", "stage") else switched
    words = tuple(_TABLE["words"].get(option.name, chosen))
    default = (
        "" if option.default in (None, MISSING, False, ()) else "yes" if option.default is True else f"{option.default}"
    )
    about = {"id": ident, "name": option.name, "title": option.help}
    if option.name in _TABLE["written"].values():
        most = None if option.name in _TABLE["uploaded"] else 3000
        field = tag("textarea", value or "", rows=14, cols=40, spellcheck="false", maxlength=most, **about)
    elif is_listed(option):
        lines = "\n".join(value) if isinstance(value, list) else value or ""
        field = tag("textarea", lines, rows=3, cols=40, spellcheck="false", placeholder="one a line", **about)
    elif words:
        field = tag("select", list(_choices(words, value, default)), **about)
    else:
        listed = {"model": "models", "hw": "hardware"}.get(option.name)
        numeric = bool(KINDS[option.kind].unit)
        field = tag("input", value="" if value is None else value, list=listed, maxlength=200, autocomplete="off",
                    spellcheck="false", inputmode="text", placeholder=default or None, size=8 if numeric else 18, **about)  # fmt: skip
    slider: EscapedHtml | None = None
    if option.name in _TABLE["uploaded"]:
        slider = tag("input", type="file", data_into=ident, aria_label=f"{option.long}, a file of text to read it from")
    if option.name in _TABLE["slid"]:
        low, high = _TABLE["slid"][option.name]
        slider = tag(
            "input", type="range", min=low, max=high, step=1, data_for=ident, aria_label=f"{option.long}, powers of two"
        )
    return tag("div", tag("label", option.long, for_=ident), field, slider, class_="field")


def _choices(words: tuple[str, ...], value: object, default: str) -> Iterator[EscapedHtml]:
    known = words if value is None or str(value) in words else (*words, str(value))
    for word in known:
        chosen = {"selected": ""} if str(value or "") == word else {}
        yield tag("option", word or (f"{default} (default)" if default else "default"), value=word, **chosen)
