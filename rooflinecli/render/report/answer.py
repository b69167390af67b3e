"""Times of the phases as cards; bars of where they go and of what memory holds."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.record import Json
from rooflinecli.core.units import duration, si
from rooflinecli.render.report.html import EmbeddedFigures, EscapedHtml, join, pairs, tag
from rooflinecli.render.views.estimate import PIECES

TITLES = {
    "prefill": ("Prefill", "TTFT"),
    "decode": ("Decode", "ITL"),
    "train": ("Training", "step"),
}
GROUPS = (
    "matmul",
    "attention",
    "elementwise",
    "communication",
    "overhead",
    "engine",
    "optimizer",
    "bubble",
    "stragglers",
)
TINY = 0.0005


def times(figures: EmbeddedFigures) -> EscapedHtml:
    """A card per phase."""
    return tag("div", [_card(figures, phase) for phase in figures.data["estimate"]["phases"]], class_="cards")


def _titled(figures: EmbeddedFigures, phase: str) -> tuple[str, str]:
    """A phase, and what its time is that of; a sampler's pass ends in images, not in a first token."""
    work = figures.data["estimate"]["workload"]
    if phase == "prefill" and "diffusion_steps" in work:
        return "Image" if work["batch"] == 1 else "Images", f"{work['diffusion_steps']:g} steps of the sampler"
    return TITLES[phase]


def _card(figures: EmbeddedFigures, phase: str) -> EscapedHtml:
    path, answer = f"estimate.phases.{phase}", figures.data["estimate"]["phases"][phase]
    name, what = _titled(figures, phase)
    uses = [
        (key.upper(), figures(f"{path}.{key}"))
        for key in ("mfu", "hfu", "mbu")
        if answer.get(key) and not (key == "hfu" and answer["hfu"] <= answer["mfu"] * 1.001)
    ]
    facts: list[tuple[object, object]] = [
        ("floor", figures(f"{path}.floor_s")),
        ("80% interval", figures(f"{path}.interval_s")),
        ("limited by", answer["bottleneck"]),
        ("throughput", figures(f"{path}.tokens_per_s")),
        ("80% interval", figures(f"{path}.tokens_per_s_interval")),
        *uses,
    ]
    if phase == "decode":
        facts.append(("per user", figures(f"{path}.tokens_per_s_per_user")))
    if "measured_time_s" in answer:
        facts.append(("measured", figures(f"{path}.measured_time_s")))
    return tag(
        "section",
        tag("h3", name, " ", tag("small", what)),
        tag("p", figures(f"{path}.time_s"), class_=f"big {phase}"),
        _strip(phase, answer),
        pairs(facts),
        class_="card",
    )


def _strip(phase: str, answer: Json) -> EscapedHtml:
    """Floor, expected and interval on one line from zero."""
    low, high = answer["interval_s"]
    end = max(high, answer["time_s"]) * 1.04
    at = {
        name: f"{100 * value / end:.2f}%"
        for name, value in (("low", low), ("high", high), ("floor", answer["floor_s"]), ("time", answer["time_s"]))
    }
    words = (
        f"floor {duration(answer['floor_s'])}, expected {duration(answer['time_s'])}, "
        f"interval {duration(low)} to {duration(high)}"
    )
    return tag(
        "div",
        tag("i", class_=f"range {phase}", style=f"left:{at['low']};width:{100 * (high - low) / end:.2f}%"),
        tag("i", class_="floor", style=f"left:{at['floor']}"),
        tag("i", class_=f"dot {phase}", style=f"left:{at['time']}"),
        class_="strip",
        role="img",
        aria_label=words,
    )


def spent(figures: EmbeddedFigures) -> EscapedHtml:
    """Where the expected time of each phase goes."""
    bars = []
    for phase, answer in figures.data["estimate"]["phases"].items():
        total = answer["time_s"]
        parts = [
            (group, seconds, f"estimate.phases.{phase}.breakdown_s.{group}")
            for group, seconds in answer["breakdown_s"].items()
            if seconds > TINY * total
        ]
        parts.sort(key=lambda part: -part[1])
        bars.append(_bar(figures, _titled(figures, phase)[0], parts, total, _share_of(total)))
    return join(bars)


def _share_of(total: float) -> Callable[[float], str]:
    return lambda value: f"{value / total:.1%}"


def memory(figures: EmbeddedFigures) -> EscapedHtml:
    """What a device holds in each phase, against what it has."""
    bars = []
    for phase, answer in figures.data["estimate"]["phases"].items():
        held, path = answer["memory"], f"estimate.phases.{phase}.memory"
        parts = [(name, held[key], f"{path}.{key}") for key, name in PIECES if held.get(key)]
        full = held["total_bytes"] / held["capacity_bytes"]
        title = join(
            _titled(figures, phase)[0],
            ": ",
            figures(f"{path}.total_bytes"),
            " of ",
            figures(f"{path}.capacity_bytes"),
            f", {full:.0%}",
            tag("strong", " does not fit", class_="bad") if full > 1 else None,
        )
        bars.append(
            _bar(
                figures,
                title,
                parts,
                max(held["capacity_bytes"], held["total_bytes"]),
                lambda value: si(value, "B"),
                mark=held["capacity_bytes"] if full > 1 else None,
            )
        )
    return join(bars)


def _bar(
    figures: EmbeddedFigures,
    title: object,
    parts: list[tuple[str, float, str]],
    whole: float,
    text: Callable[[float], str],
    mark: float | None = None,
) -> EscapedHtml:
    """A bar of parts with its legend, which carries the figures."""
    colours = {name: _colour(name, i) for i, (name, _, _) in enumerate(parts)}
    pieces = [tag("i", class_=colours[name], style=f"width:{100 * value / whole:.3f}%") for name, value, _ in parts]
    if mark is not None:
        pieces.append(tag("b", style=f"left:{100 * mark / whole:.3f}%"))
    words = ", ".join(f"{name} {text(value)}" for name, value, _ in parts)
    keys = [
        tag(
            "li",
            tag("i", class_=colours[name], aria_hidden="true"),
            f"{name.replace('_', ' ')} ",
            figures(path, text(value)),
        )
        for name, value, path in parts
    ]
    keys += (
        [tag("li", tag("strong", "|", class_="bad", aria_hidden="true"), "what the device has")]
        if mark is not None
        else []
    )
    return tag(
        "figure",
        tag("figcaption", title),
        tag("div", pieces, class_="bar", role="img", aria_label=words),
        tag("ul", keys, class_="legend"),
    )


def _colour(name: str, index: int) -> str:
    """The same name has the same color in every bar."""
    names = [label for _, label in PIECES]
    order = names.index(name) if name in names else GROUPS.index(name) if name in GROUPS else len(GROUPS)
    return f"c{order + 1}"
