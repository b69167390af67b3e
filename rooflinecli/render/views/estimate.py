"""An estimate for a person: one screen of 80 columns."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import count, duration, si
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import bar, bold, dim, red
from rooflinecli.specs.quantities import DERIVED

SCREEN = 80  # the answer is laid out for this; a narrower terminal folds it
_NAMES = {"prefill": "TTFT", "decode": "ITL", "train": "step"}


def estimate(result: dict[str, Any], width: int = SCREEN) -> str:
    """The whole answer. Every figure is in the JSON too, in full precision."""
    width = min(width, SCREEN)
    parts = [part(result, width) for part in (_head, _plans, _times, _spent, _memory, _cost, _gap, _foot)]
    if result["violations"]:
        said = (_wrap(f"does not fit: {v['message']}", 14, width) for v in result["violations"])
        parts.append("\n".join(text.replace("does not fit:", red("does not fit:"), 1) for text in said))
    return "\n\n".join(part for part in parts if part)


def _head(result: dict[str, Any], width: int) -> str:
    model, chip, work = result["model"], result["hardware"], result["workload"]
    p = model["parameters"]
    active = "" if p["active"] == p["total"] else f" ({count(p['active'])} active per token)"
    title = _wrap(f"{model['name']} on {chip['name']}, {work['dtype']}", 2, width)
    for name in (model["name"], chip["name"]):
        title = title.replace(name, bold(name), 1)
    held = f"{count(p['total'])} parameters{active}, {si(model['weights_bytes'], 'B')} of weights"
    roofs = (
        f"chip {si(chip['peak_flops_per_s'], 'FLOP/s')}, {si(chip['bandwidth_bytes_per_s'], 'B/s')}, "
        f"ridge {chip['ridge_flops_per_byte']:.0f} FLOP/B"
    )
    one = f"{held}; {roofs}"
    figures = one if len(one) <= width else f"{_wrap(held, 2, width)}\n{_wrap(roofs, 2, width)}"
    return f"{title}\n{figures}"


def layout(plan: dict[str, Any]) -> str:
    """'16 devices: tp 4, pp 4, full recompute'."""
    sizes = [f"{k} {plan[k]}" for k in ("tp", "pp", "dp", "cp", "ep") if plan[k] > 1]
    if plan["zero"] and plan["dp"] > 1:
        sizes.append(f"ZeRO-{plan['zero']}")
    if plan.get("micro_batch", 1) > 1:
        sizes.append(f"micro-batch {plan['micro_batch']}")
    if plan["recompute"] != "none":
        sizes.append(_recompute(plan))
    many = f"{plan['devices']} device{'s' if plan['devices'] != 1 else ''}"
    return many + (f" ({', '.join(sizes)})" if sizes else "")


def _recompute(plan: dict[str, Any]) -> str:
    """'full recompute', of which layers or modules where not all."""
    modules = "+".join(plan.get("recompute_modules", ()))
    layers = f" of {plan['recompute_layers']:.0f} layers" if "recompute_layers" in plan else ""
    return f"{plan['recompute']} recompute{' of ' + modules if modules else ''}{layers}"


def _plans(result: dict[str, Any], width: int) -> str:
    lines, seen = [], []
    for name, phase in result["phases"].items():
        plan = phase["layout"]
        what = "training" if name == "train" else "serving"
        if (what, plan) not in seen:
            seen.append((what, plan))
            lines.append(_wrap(f"{what + ':':<10}{layout(plan)}: {plan['reason']}", 10, width))
    return "\n".join(lines)


def _times(result: dict[str, Any], width: int) -> str:
    grid = [["", "floor", "expected", "80 % interval", "bound by", "rate"]]
    for name, phase in result["phases"].items():
        bound = (
            phase["bottleneck"]
            if phase["bound_ratio"] > 1e3
            else f"{_short(phase['bottleneck'])} {phase['bound_ratio']:.1f}x"
        )
        rate = si(phase["tokens_per_s"], "").strip()
        times = [duration(phase["floor_s"]), duration(phase["time_s"]), _span(*phase["interval_s"])]
        grid.append([_named(name, result["workload"]), *times, bound, f"{rate} tok/s"])
    drop = ("rate", "bound by", "floor", "80 % interval")
    return "\n".join(terminal.table(grid, width, left=(0, "bound by"), drop=drop))


def _named(phase: str, work: dict[str, Any]) -> str:
    """'prefill TTFT': what the time of a phase is that of; a diffusion model's is an image's, or a batch of them."""
    if "diffusion_steps" not in work or phase != "prefill":
        return f"{phase} {_NAMES[phase]}"
    return "an image" if work["batch"] == 1 else f"{work['batch']:g} images"


def _short(bound: str) -> str:
    return {"communication": "comm."}.get(bound, bound)


def _span(low: float, high: float) -> str:
    """'26.8 – 45.8 ms': the unit once when both ends share it."""
    a, b = duration(low), duration(high)
    if a.split(" ")[1] == b.split(" ")[1]:
        a = a.split(" ")[0]
    return f"{a} – {b}"


def _spent(result: dict[str, Any], width: int) -> str:
    """Where the expected time goes, and the utilisation it implies."""
    lines = []
    for name, phase in result["phases"].items():
        total = phase["time_s"]
        shares = sorted(((t / total, g) for g, t in phase["breakdown_s"].items() if t > 0.005 * total), reverse=True)
        spent = ", ".join(f"{g} {share:.0%}" for share, g in shares)
        use = f"MFU {phase['mfu']:.1%}" + (
            f", HFU {phase['hfu']:.1%}" if phase.get("hfu", phase["mfu"]) > phase["mfu"] * 1.001 else ""
        )
        if name == "decode":
            use = f"MBU {phase['mbu']:.0%}, {phase['tokens_per_s_per_user']:.1f} tok/s per user"
        low, high = (si(end, "").strip() for end in phase["tokens_per_s_interval"])
        use = f"{low} – {high} tok/s, {use}"
        if "speculation" in phase:
            use += f", {_speculated(phase['speculation'])}"
        if "sessions" in phase:
            use += f", {_kept(phase['sessions'])}"
        made = [
            f"{si(phase[row.name], '' if row.unit == 'count' else row.unit).strip()} {row.label}"
            for row in DERIVED
            if row.name in phase
        ]
        lines.append(_wrap(f"{name:<9}{', '.join([use, *made])}; {spent}", 9, width))
    return "\n".join(lines)


def _speculated(found: dict[str, Any]) -> str:
    """'2.41 tokens a step under speculation, 1.62x, which pays up to 180 sequences'."""
    most = found.get("break_even_batch")
    until = "" if most is None else f", which pays up to {most:g} sequences" if most else ", which never pays"
    return f"{found['mean_accepted_length']:.2f} tokens a step under speculation, {found['speedup']:.2f}x{until}"


def _kept(found: dict[str, Any]) -> str:
    """'12% of 480 idle sessions on the device, 70% in host (0.21 s back), 18% lost, 0.15 s reload in the mean'."""
    parts = [f"{_share(found['on_device_fraction'])} of {found['idle_sessions']:,.0f} idle sessions on the device"]
    for name, tier in found["tiers"].items():
        back = f"{duration(tier['reload_s'])} back" if tier["reload_s"] else "nothing to bring back"
        parts.append(f"{_share(tier['in_tier_fraction'])} of them in {name} ({back})")
    if found["evicted_fraction"] > 1e-9:
        parts.append(f"{_share(found['evicted_fraction'])} lost")
    if found["reload_s"]:
        parts.append(f"{duration(found['reload_s'])} reload in the mean")
    return ", ".join(parts)


def _share(value: float) -> str:
    return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


_PIECES = (
    ("weights_bytes", "weights"),
    ("gradients_bytes", "gradients"),
    ("optimizer_bytes", "optimizer"),
    ("activations_bytes", "activations"),
    ("kv_cache_bytes", "KV cache"),
)


def _memory(result: dict[str, Any], width: int) -> str:
    lines = [dim("memory per device")]
    for name, phase in result["phases"].items():
        held = phase["memory"]
        share = held["total_bytes"] / held["capacity_bytes"]
        meter = bar(share) + " " if width >= 50 else ""
        text = f"{name:<9}{meter}{share:>5.0%} of {si(held['capacity_bytes'], 'B')}"
        away = [f"on the host {si(held['host_bytes'], 'B')}"] if held.get("host_bytes") else []
        pieces = ", ".join([*(f"{label} {si(held[key], 'B')}" for key, label in _PIECES if held[key]), *away])
        text = _wrap(text, 2, width) if len(text) > width else text
        lines.append((red(text) if share > 1 else text) + "\n" + _inset(pieces, 9, width))
        if held.get("slack_bytes"):
            lines.append(_inset(_slack(held), 9, width))
    return "\n".join(lines)


def _slack(held: dict[str, Any]) -> str:
    """What published runs had beside the bytes that are counted; the verdict does not count it."""
    more = held["slack_bytes"] / held["total_bytes"]
    return f"not counted: allocator slack, {si(held['slack_bytes'], 'B')} ({more:.0%}) in the median of published runs"


def _cost(result: dict[str, Any], width: int) -> str:
    cost = result["cost"]
    if cost["usd_per_device_hour"] is None:
        return _wrap("no price for this chip; --price USD gives the cost per million tokens", 2, width)
    names = (
        ("usd_per_million_input_tokens", "input"),
        ("usd_per_million_output_tokens", "output"),
        ("usd_per_million_training_tokens", "trained"),
    )
    parts = [f"${money(cost[key])} per M {what}" for key, what in names if cost[key] is not None]
    text = f"cost at ${cost['usd_per_device_hour']:.2f} per device-hour: {', '.join(parts)} tokens"
    if cost["training_usd"] is not None:
        train = result["phases"]["train"]
        text += f"; the run: {count(train['steps'])} steps, {duration(train['run_s'])}, ${cost['training_usd']:,.0f}"
    return _wrap(text, 2, width)


def money(usd: float) -> str:
    """Cents where they matter: 0.226, 1.83, 12,400."""
    return f"{usd:,.0f}" if usd >= 1000 else f"{usd:.2f}" if usd >= 1 else f"{usd:.3g}"


def _load(result: dict[str, Any]) -> str:
    """How many sequences at once, and what keeps them coming."""
    work = result["workload"]
    if "qps" in work:
        flight = f", {work['batch']:.3g} in flight per replica" if "decode" in result["phases"] else ""
        return f"{work['qps']:g} requests per second{flight}"
    if "concurrency" in work:
        most = work["concurrency"] == "max"
        if most and "decode" not in result["phases"]:
            return "as many requests as memory holds"
        return f"{work['batch']:g} requests in flight per replica{' (all that memory holds)' if most else ''}"
    return f"{work['batch']:g} sequences per replica"


def _pictures(work: dict[str, Any]) -> str:
    """'2 images of 1024x768, 1001 tokens each'."""
    many = work["images"]
    return f"{many:g} image{'s' if many != 1 else ''} of {work['image_size']}, {work['image_tokens']:g} tokens each"


def _gap(result: dict[str, Any], width: int) -> str:
    """What alone would bring a training step to the time that was measured."""
    rows = result.get("gap_explanations")
    if not rows:
        return ""
    train = result["phases"]["train"]
    head = f"what alone would bring the step from {duration(train['time_s'])} to {duration(train['measured_time_s'])}"
    lines = list(map(dim, terminal.prose(head, width)))
    for row in rows:
        left = (
            ""
            if abs(row["gap"]) < 0.02
            else f": {duration(row['time_s'])}, {abs(row['gap']):.0%} {'above' if row['gap'] > 0 else 'below'}"
        )
        lines.append(_wrap(f"- {row['assumption']}{left}", 2, width))
    return "\n".join(lines)


def _foot(result: dict[str, Any], width: int) -> str:
    work, parts = result["workload"], []
    if "diffusion_steps" in work:
        twice = ", each run twice by guidance" if work["guidance"] else ", without guidance"
        parts.append(
            f"{work['diffusion_steps']:g} steps over {work['image_tokens']:g} tokens of {work['image_size']} pixels{twice}"
        )
    elif "batch" in work:
        seen = f" ({_pictures(work)})" if "images" in work else ""
        parts.append(f"serving {_load(result)}, prompt {work['prompt']:g}{seen}, output {work['output']:g}")
    if "seq" in work:
        packed = f", documents of {work['doc_lengths']} packed" if "doc_lengths" in work else ""
        parts.append(f"training {work['train_batch']:g} sequences of {work['seq']:g}{packed}")
    notes = [f"note: {text}" for text in result.get("notes", ())]
    notes += [
        f"measured {name}: {duration(phase['measured_time_s'])}, {phase['measured_time_s'] / phase['time_s'] - 1:+.0%} against expected"
        for name, phase in result["phases"].items()
        if "measured_time_s" in phase
    ]
    count_flops = f"MFU counts {work['attention_flops']} attention"
    hint = f"--explain {next(iter(reversed(result['phases'])))}.time_s shows where a number comes from"
    notes = [line for note in notes for line in terminal.prose(note, width, "  ")]
    return "\n".join([*notes, *map(dim, terminal.prose("; ".join([*parts, count_flops, hint]), width))])


def _wrap(text: str, indent: int, width: int) -> str:
    return "\n".join(terminal.prose(text, width, " " * indent))


def _inset(text: str, indent: int, width: int) -> str:
    indent = min(indent, width // 4)
    return "\n".join(" " * indent + line for line in terminal.prose(text, width - indent))
