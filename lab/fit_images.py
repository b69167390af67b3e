"""Constants of `diffusers` fitted to the measured seconds of models that make images or video, each model of the same weight, and the
errors of seconds and joules with each model left out of the fit. The power is that of language models. `python -m lab.fit_images`.

The seconds of a run are the parts of its estimate, each over what its constant is now: kernels or the host, whichever takes longer, and then
the autoencoder. Constants are held near what they are now by a prior.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from lab.show import show
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.specs.layout import Layout
from rooflinecli.validate import energy as measured
from rooflinecli.validate.energy import ImageRow
from rooflinecli.validate.stats import Array, Points, Row, Table, error_table

# multiples of the constants of now, and how far each may be from them (standard deviation of the logarithm)
CONSTANTS = {
    "elementwise, H100": 0.3, "elementwise, B200": 0.3, "qk_norm": 0.7, "attention, H100": 0.3, "attention, B200": 0.3,
    "pixel_flops": 0.5, "host_per_matmul": 0.5, "host_per_exchange": 0.5,
}  # fmt: skip
NOTE = "left out: the constants fitted to the runs of the other models; the power is the one under the constants that ship."


@dataclass
class Parts:
    """Seconds of a run by the constant that they are in proportion to, in the order of CONSTANTS; those of the host; and the rest."""

    row: ImageRow
    kernels: Array
    host: Array
    rest: float

    def seconds(self, logs: Array) -> float:
        """Seconds under multiples of the constants."""
        factors = np.exp(logs)
        return max(float(self.kernels[:5] @ factors[:5]) + self.rest, float(self.host @ factors[6:])) + float(
            self.kernels[5] * factors[5]
        )


def parts(row: ImageRow) -> Parts:
    """The parts of the estimate of a run."""
    ctx = EstimateContext(build_request.request({"model": row.model, "hw": row.hw, "phase": "prefill"}))
    took = defaultdict[str, float](float, {name: float(value) for name, value in row.answer.breakdown_s.items()})
    b200, normed = row.hw.startswith("b200"), _norm_share(ctx, row.hw)
    elementwise, attention = took["elementwise"], took["attention"]
    kernels = np.zeros(6)
    kernels[int(b200)] = elementwise * (1 - normed)
    kernels[2], kernels[3 + int(b200)], kernels[5] = elementwise * normed, attention, took["autoencoder"]
    layout, steps = row.layout, float(ctx.steps)
    rows = [(r, float(group.repeat)) for group in ctx.ledger.layers for r in group.rows]
    matmuls = sum(n for r, n in rows if r.kind == "matmul") * steps
    cores = sum(n for r, n in rows if r.kind == "attention" and not r.name.startswith("cross.")) * steps
    rings = 0.0 if layout.ring == "ulysses" else cores * (float(layout.cp) - 1)
    host = np.array([matmuls * ctx.engine.host_per_matmul, rings * ctx.engine.host_per_exchange])
    rest = sum(took.values()) - elementwise - attention - took["autoencoder"] - took["launch_wait"]
    return Parts(row, kernels, host, rest)


def _norm_share(ctx: EstimateContext, hw: str) -> float:
    """Share of norms of queries and keys in the seconds of elementwise kernels."""
    forward, bytes_of = ForwardPass(ctx.formats, decode=False, flash=True), defaultdict[str, float](float)
    sizes = pass_axis_sizes(1.0, ctx.prompt, ctx.prompt, 1.0, Layout())
    for group in ctx.ledger.layers:
        for op in forward.ops(group.rows, layer_sizes(group, sizes, Layout(), ctx.ledger.document, ctx.lift)):
            if op.kind == "elementwise":
                rate = float(ctx.chip.constants("serving", op.kind, op.dtype, op.variant).memory)
                bytes_of[op.variant] += float(op.bytes) * float(group.repeat) / rate
    return bytes_of["qk_norm"] / sum(bytes_of.values())


def fit(found: Sequence[Parts]) -> Array:
    """Logarithms of the multiples: a robust fit of the logarithm of the ratio, each model of the same weight."""
    runs, widths = Counter(p.row.model for p in found), np.array(list(CONSTANTS.values()))
    weights = np.array([6 / runs[p.row.model] ** 0.5 for p in found])
    seconds = np.log([p.row.seconds for p in found])

    def off(logs: Array) -> Array:
        return np.concatenate([weights * (np.log([p.seconds(logs) for p in found]) - seconds), logs / widths / 2])

    solution: Array = least_squares(off, np.zeros(len(widths)), loss="soft_l1", f_scale=0.5).x
    return solution


def tables() -> list[Table]:
    """Seconds and joules under constants of each fit: to all runs, and with each model left out."""
    found = [parts(row) for row in measured.image_rows()]
    models = list(dict.fromkeys(p.row.model for p in found))
    fits = {"": fit(found)} | {model: fit([p for p in found if p.row.model != model]) for model in models}
    made = []
    for quantity in ("seconds for a batch", "joules per image"):
        lines = defaultdict(list)
        for p in found:
            values = np.array(measured.image_values(quantity, p.row))
            for line, logs in (("fitted", fits[""]), (f"{p.row.model}, left out", fits[p.row.model])):
                lines[line].append((values[0], *values[1:] * (p.seconds(logs) / float(p.row.answer.time_s))))
        groups = [Points.of(line, rows) for line, rows in sorted(lines.items())]
        left = [g for g in groups if g.group != "fitted"]
        made.append(error_table(f"images and video: {quantity}", groups, [], {"all, each model left out": left}))
    rows: list[Row] = [
        {"fit": f"without {model}" if model else "all"}
        | dict(zip(CONSTANTS, np.exp(logs).round(3).tolist(), strict=True))
        for model, logs in fits.items()
    ]
    return [*made, Table("multiples of the constants that ship", rows, [NOTE])]


if __name__ == "__main__":
    show(tables())
