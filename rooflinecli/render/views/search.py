"""A search's answer as table, Markdown, CSV or JSON."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import duration, si
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.csv import rows as csv_rows
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE, WIDE, dim
from rooflinecli.render.numbers import text as quantity_text
from rooflinecli.render.views import tornado
from rooflinecli.render.views.search_support import MARK, beyond, within_uncertainty

LEGEND = "mb: micro-batch, vs: virtual stages, sp: sequence parallel, zero 3 over N: shard groups of N replicas (HSDP)"
# columns of the table go in this order where there is no room for all
_DROP = ("memory", "tokens/s", "MFU", "$/M out", "instances", "in all", "requests/s", "devices", "first token")


def text(result: dict[str, Any], format: str, width: int = PIPE) -> str:
    """The result in one of the formats of `--format`."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        return csv_rows(_flat(result))
    grid, body = _grid(result), []
    if format == "markdown":
        body = [marked.table(grid)] if len(grid) > 1 else []
        return "\n".join([*map(marked.cell, _head(result)), "", *body, *map(marked.cell, _tail(result, WIDE))]).rstrip()
    if len(grid) > 1:
        words = (1, 2) if "chips" in result else (1,)
        body = terminal.table(grid, width, left=words, drop=_DROP, shrink={grid[0][words[-1]]: 20})
    head = [line for said in _head(result) for line in terminal.prose(said, width)]
    return "\n".join([*head, "", *body, *_tail(result, width)]).rstrip()


def _head(result: dict[str, Any]) -> list[str]:
    goal = " and ".join(result["objective"])
    where = f", where {'; '.join(result['where'])}" if result["where"] else ""
    counted = f"{result['layouts']:,} legal layouts, {result['fit']:,} fit in memory"
    met = f", {result['meet']:,} meet the conditions" if result["where"] else ""
    best = "Pareto front of" if result["pareto"] else "best"
    end = {"pessimistic": ", by the pessimistic end", "floor": ", by the floor"}.get(result.get("hold", ""), "")
    return [f"{result['model']} on {result['hardware']}: {best} {goal}{where}{end}", f"{counted}{met}"]


def layout(plan: dict[str, Any]) -> str:
    """A layout in short (see LEGEND): 2048 = tp8 pp4 dp64, zero 1, mb 2, vs 5, sp, recompute full."""
    axes = " ".join(f"{k}{plan[k]}" for k in ("tp", "pp", "cp", "ep", "dp") if plan.get(k, 1) > 1) or "one device"
    extra = [f"{plan['devices']} = {axes}" if "devices" in plan else axes]
    if "zero" in plan:
        over = f" over {plan['shard']}" if plan.get("shard") else ""
        extra += [f"zero {plan['zero']}{over}", f"mb {plan['micro_batch']}"]
        extra += [f"vs {plan['virtual_stages']}"] if plan["virtual_stages"] > 1 else []
        extra += ["sp"] if plan["sequence_parallel"] else []
        extra += [f"recompute {plan['recompute']}"] if plan["recompute"] != "none" else []
    return ", ".join(extra)


def _grid(result: dict[str, Any]) -> list[list[str]]:
    """The table: rows by their place, with the chip where there are several."""
    grid = _serving(result) if result["phase"] == "serve" else _training(result)
    if "chips" in result:
        for line, cell in zip(grid, ["chip", *(row["chip"] for row in result["results"])], strict=True):
            line.insert(1, cell)
    return grid


def _place(row: dict[str, Any], i: int) -> str:
    return str(row.get("rank", i))


def _training(result: dict[str, Any]) -> list[list[str]]:
    grid = [
        [
            "",
            "layout",
            "step",
            "up to",
            "tokens/s",
            "MFU",
            "memory",
            *(n for n in result["objective"] if n.rpartition(".")[2] not in ("tokens_per_s", "time_s")),
        ]
    ]
    for i, row in enumerate(result["results"], 1):
        scores = [
            quantity_text(v, n.rpartition(".")[2])
            for n, v in row["score"].items()
            if n.rpartition(".")[2] not in ("tokens_per_s", "time_s")
        ]
        grid.append(
            [
                f"{_place(row, i)}{MARK if row['unsupported'] else ''}",
                layout(row["layout"]),
                duration(row["time_s"]),
                duration(row["interval_s"][1]),
                si(row["tokens_per_s"], "").strip(),
                f"{100 * row['mfu']:.1f} %",
                si(row["memory"]["total_bytes"], "B"),
                *scores,
            ]
        )
    return grid


def _serving(result: dict[str, Any]) -> list[list[str]]:
    grid = [
        [
            "",
            "each instance",
            "batch",
            "in all",
            "instances",
            "devices",
            "first token",
            "inter-token",
            "requests/s",
            "$/M out",
        ]
    ]
    for i, row in enumerate(result["results"], 1):
        s = row["serve"]
        usd = s.get("usd_per_million_output_tokens")
        grid.append(
            [
                _place(row, i),
                layout(row["layout"]),
                f"{row['layout']['batch']:g}",
                f"{s['batch_in_all']:g}",
                f"{s['instances']:g}",
                f"{s['devices']:g}",
                duration(s["ttft_s"]),
                duration(s["itl_s"]),
                f"{s['requests_per_s']:.3g}",
                f"{usd:.3g}" if usd is not None else "-",
            ]
        )
    return grid


def _tail(result: dict[str, Any], width: int) -> list[str]:
    training = result["phase"] != "serve" and result["results"]
    lines = [*(map(dim, terminal.prose(LEGEND, width)) if training else ()), ""]
    for i, row in enumerate(result["results"][1:], 2):
        lines += terminal.prose(f"{_place(row, i)} is {row['why']}", width, "  ") if "why" in row else []
    lines += beyond(result["results"], width) + within_uncertainty(result, layout, width)
    for i, row in enumerate(result["results"], 1):
        if i == 1 or row.get("best_of_chip"):
            lines += ["", *_command("winner" if i == 1 else _place(row, i), row, width)]
    for i, row in enumerate(result["results"], 1):
        lines += (
            terminal.prose(f"{_place(row, i)} simulated: {_simulated(row['simulate'])}", width)
            if "simulate" in row
            else []
        )
    lines += _pools(result, width)
    lines += _chips(result, width)
    if result["rejected"]:
        by = "; ".join(f"{r['layouts']:,} by {r['constraint']}" for r in result["rejected"])
        lines += ["", *terminal.prose(f"rejected: {by}", width, "  ")]
    miss = result.get("nearest_miss")
    if miss:
        lines += ["", *_command("nothing is feasible; nearest", miss, width)]
        lines += terminal.prose(f"it lacks {miss['lacks']}", width)
    if result.get("sensitivity"):
        lines += ["", *terminal.prose("per cent of the winner's time for one per cent of a figure:", width)]
    lines += [f"{row['elasticity']:+8.3f}  {row['figure']}" for row in result.get("sensitivity", [])[:12]]
    return [*lines, *(tornado.lines(result["tornado"], width) if result.get("tornado") else [])]


def _pools(result: dict[str, Any], width: int) -> list[str]:
    """Pools apart, the best first; the commands of the best."""
    rows = result.get("pool_rows") or []
    if not rows:
        return []
    grid = [
        [
            "apart",
            "prefill pool",
            "decode pool",
            "devices",
            "first token",
            "inter-token",
            "requests/s",
            "$/h",
            "$/M out",
        ]
    ]
    several = "chips" in result
    for i, row in enumerate(rows, 1):
        grid.append(
            [
                str(i),
                _pool(row["prefill"], several),
                _pool(row["decode"], several),
                f"{row['devices']:g}",
                duration(row["prefill"]["ttft_s"]),
                duration(row["decode"]["itl_s"]),
                f"{row['requests_per_s']:.3g}",
                f"{row['usd_per_hour']:,.2f}" if row["usd_per_hour"] is not None else "-",
                f"{row['usd_per_million_output_tokens']:.3g}" if "usd_per_million_output_tokens" in row else "-",
            ]
        )
    drop = ("requests/s", "$/M out", "first token", "inter-token")
    lines = ["", *terminal.table(grid, width, left=(0, "prefill pool", "decode pool"), drop=drop)]
    for phase in ("prefill", "decode"):
        lines += ["", *_command(f"{phase} pool of 1", rows[0][phase], width)]
    return lines


def _pool(option: dict[str, Any], several: bool) -> str:
    """Instances of a pool: 4 x 2 h100 = tp2, batch 8."""
    axes = " ".join(f"{k}{v}" for k, v in option["layout"].items() if v > 1) or "one"
    on = f" {option['chip']}" if several else ""
    return f"{option['instances']:g} x {option['devices']:g}{on} = {axes}, batch {option['batch']:g}"


def _chips(result: dict[str, Any], width: int) -> list[str]:
    """Chips that gave no row, each with its reason; and those whose price nobody knows."""
    lines: list[str] = []
    for chip in result.get("chips", []):
        miss = chip.get("nearest_miss")
        lacks = f"nearest lacks {miss['lacks']}" if miss else "nothing fits"
        if not chip["feasible"]:
            lines += terminal.prose(f"{chip['chip']}: no, {chip['why'] or lacks}", width, "  ")
    named = [c for c in result.get("unpriced", []) if any(r["chip"] == c for r in result["results"])]
    if named:
        lines += terminal.prose(
            f"no price is known for {', '.join(named)}; --price {','.join(f'{c}=USD' for c in named)} gives one",
            width,
            "  ",
        )
    return ["", *lines] if lines else []


def _simulated(values: dict[str, Any]) -> str:
    """What a simulation says of a row, in a sentence."""
    if not values["feasible"]:
        return str(values["violation"])
    inside = f", {values['slo_attainment']:.1%} of requests inside the limits" if "slo_attainment" in values else ""
    return (
        f"first token {duration(values['ttft_p50_s'])} in the median, {duration(values['ttft_p99_s'])} at p99; "
        f"per further token {duration(values['tpot_p99_s'])} at p99{inside}"
    )


def _command(what: str, row: dict[str, Any], width: int) -> list[str]:
    """A command line on the line that names it where both fit, else below."""
    words = row.get("estimate") or row["command"]
    whole = f"{what}: {words}"
    return [whole] if len(whole) <= width else [f"{what}:", *terminal.command(words, width)]


def _flat(result: dict[str, Any]) -> list[Any]:
    found: list[dict[str, Any]] = []
    for row in result["results"]:
        flat = {k: row[k] for k in ("chip",) if k in row} | {**row["layout"], **row["score"], **row.get("serve", {})}
        flat |= {k: v for k, v in row.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
        found.append({**flat, "command": row["command"]} | ({"estimate": row["estimate"]} if "estimate" in row else {}))
    names = list(dict.fromkeys(k for row in found for k in row))
    return [names, *([row.get(k) for k in names] for row in found)]
