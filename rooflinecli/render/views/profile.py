"""A profile's answer as text: where the time goes, what fusion and overlap buy, kernels against their floors."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import duration
from rooflinecli.render.answer import bare
from rooflinecli.render.formats import csv, json, terminal
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats.terminal_style import PIPE

# columns of the table go in this order where there is no room for all
_DROP = ("row", "bound", "expected", "floor", "calls", "time/floor")
_COLUMNS = (
    "name",
    "kind",
    "launches",
    "time_s",
    "share",
    "floor_s",
    "expected_s",
    "over_floor",
    "compute_utilization",
    "bandwidth_utilization",
    "bound",
    "row",
)


def render(answer: dict[str, Any], fmt: str, top: int, width: int = PIPE) -> str:
    answer = bare(answer)
    if fmt == "json":
        return json.dumps(answer)
    if fmt == "csv":
        return _csv(answer["kernels"])
    return _report(answer, top, width, markdown=fmt == "markdown")


def _csv(kernels: dict[str, dict[str, Any]]) -> str:
    named = ({"name": name, **row} for name, row in kernels.items())
    return csv.rows([_COLUMNS, *([row.get(column, "") for column in _COLUMNS] for row in named)])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _report(answer: dict[str, Any], top: int, width: int, markdown: bool) -> str:
    kinds = [
        ["kind", "time", "share", "launches"],
        *(
            [kind, duration(row["time_s"]), _percent(row["share"]), str(row["launches"])]
            for kind, row in answer["kinds"].items()
        ),
    ]
    kernels = [
        ["kernel", "kind", "calls", "time", "share"],
        *(_kernel(name, row) for name, row in list(answer["kernels"].items())[:top]),
    ]
    if any("floor_s" in row for row in answer["kernels"].values()):
        kernels[0] += ["floor", "expected", "time/floor", "bound", "row"]
    many = max(len(row) for row in kernels)
    kernels = [row + [""] * (many - len(row)) for row in kernels]
    left = len(answer["kernels"]) - top
    more = [f"… {left} more kernels; --top {len(answer['kernels'])} shows them"] if left > 0 else []
    if markdown:
        said = [*_headline(answer), "", marked.table(kinds), "", marked.table(kernels), *more, *_findings(answer)]
        return "\n".join(said)
    listed = terminal.table(kernels, width, left=("kernel", "kind", "bound", "row"), drop=_DROP, shrink={"kernel": 24})
    said = [line for text in _findings(answer) for line in terminal.prose(text, width, " " * 15)]
    head = [line for text in _headline(answer) for line in terminal.prose(text, width)]
    return "\n".join([*head, "", *terminal.table(kinds, width), "", *listed, *more, *said])


def _kernel(name: str, row: dict[str, Any]) -> list[str]:
    cells = [name, row["kind"], str(row["launches"]), duration(row["time_s"]), _percent(row["share"])]
    if "floor_s" in row:
        expected = duration(row["expected_s"]) if row.get("expected_s") is not None else ""
        ratio = f"{row['over_floor']:.2f}x" if row.get("over_floor") is not None else ""
        cells += [
            duration(row["floor_s"]),
            expected,
            ratio,
            row["bound"].upper() if row["impossible"] else row["bound"],
        ]
    elif row.get("row"):
        cells += [""] * 4
    return [*cells, row["row"]] if row.get("row") else cells


def _headline(answer: dict[str, Any]) -> list[str]:
    where = f" on {answer['device']}" if answer["device"] else ""
    many = f", the busiest of {answer['devices']} devices" if answer["devices"] > 1 else ""
    lines = [f"{duration(answer['time_s'])} in {answer['launches']} launches{where}{many}"]
    if "wall_s" in answer:
        lines[0] += f"; {duration(answer['wall_s'])} wall, idle {_percent(answer['idle_share'])}"
    return lines


def _findings(answer: dict[str, Any]) -> list[str]:
    bound, fusion, comm = answer["memory_bound"], answer["fusion"], answer.get("communication")
    lines = ["", f"memory-bound   {duration(bound['time_s'])}, {_percent(bound['share'])} of the time"]
    gain = (
        f"{fusion['speedup_bound']:.3f}x if all of it went (Amdahl)"
        if "speedup_bound" in fusion
        else "everything is fusable"
    )
    lines.append(
        f"fusion         {duration(fusion['removable_s'])} removable: {gain}; {fusion['chains']} chains of neighbors "
        f"save {duration(fusion['chains_saved_s'])}, {fusion['chains_speedup']:.3f}x"
    )
    if comm and "hideable_share" in comm:
        lines.append(
            f"communication  {duration(comm['time_s'])}, of which {_percent(comm['hideable_share'])} could hide behind "
            "computation (the trace has no time line)"
        )
    elif comm:
        lines.append(
            f"communication  {duration(comm['time_s'])}, hidden {_percent(comm.get('hidden_share', 0.0))}, "
            f"exposed {duration(comm['exposed_s'])}"
        )
    if answer["impossible"]:
        lines.append(
            f"impossible     faster than the roofline allows: {', '.join(answer['impossible'])}; "
            "check the shape, the sharding or the unit of the time"
        )
    return lines
