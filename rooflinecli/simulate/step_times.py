"""What a step costs, as tables: the engine is asked for whole arrays of sizes once, and every step is then a look-up.

A step with P prompt tokens and D decoding sequences of mean context T takes

    decode(D, T) + (linear(P) + attention of the chunks) x factor

where decode(D, T) is the engine's decode step and linear(n) its pass over a prompt of n tokens without attention. A step of
prompts alone is then the engine's prompt pass, a step of decodes alone its decode step, exactly. Weights and starts are
counted for both: priced as one pass, measured runs took 8 % longer between two tokens; as two, they agree. A step that an
engine replays as one graph is one pass, linear(P + D) - linear(D). The scheduler's factor says how much longer prompts take
where sequences decode. Without a graph the host launches every kernel, ahead of the device: such a step takes no less than
launching it does, and what an engine adds to the start of a prompt's pass is inside that. The attention of a chunk is that of the
prompt up to its end less that up to its start.

A pipeline works on as many microbatches as it has stages: a decode step passes the batch over its stages, and a prompt holds
them for its share of the pass, while the rest of it (`fill`) delays its own first token only.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.engine import pipelined_decode
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step, uncaptured_launch_s
from rooflinecli.specs.layout import Layout

BLOCK = 4096  # tokens by which the tables of prompts grow
ROWS = 64  # batches by which those of decodes grow
KNOTS = 28  # contexts of a decode row are powers of two, straight lines between them


class StepTimeTable:
    """Step prices of one replica in seconds, times `scale`; tables grow as sizes are met.

    `scene` holds plain numbers, `plan` is the replica's. linear[n] and scores[n] are the parts of a prompt pass of n tokens.
    """

    def __init__(self, ctx: EstimateContext, plan: Layout, scale: float = 1.0):
        self.ctx, self.layout, self.scale = ctx, plan, scale
        self.stages = float(plan.pp)
        self.starts = float(uncaptured_launch_s(ctx)) * scale
        self.linear: list[float] = [0.0]
        self.scores: list[float] = [0.0]
        self.level: list[list[float]] = [[]]
        self.slope: list[list[float]] = [[]]

    def scaled(self, scale: float) -> StepTimeTable:
        """Prices of the same replica, every step `scale` times as long as here; the engine is not asked again."""
        other = StepTimeTable(self.ctx, self.layout, self.scale * scale)
        other.linear, other.scores = ([scale * v for v in table] for table in (self.linear, self.scores))
        other.level, other.slope = ([[scale * v for v in row] for row in table] for table in (self.level, self.slope))
        return other

    def _prompts(self, tokens: Any) -> tuple[Any, Any]:
        """(seconds, those of attention) of passes over prompts, arrays in, arrays out."""
        step = forward_step(self.ctx, self.layout, 1.0, tokens, tokens, False)
        return step.seconds * self.scale, step.costs.groups.get("attention", 0.0) * self.scale

    def grow_prompts(self, tokens: int) -> None:
        """Tables of prompt passes up to at least `tokens`."""
        import numpy as np

        held = len(self.linear)
        stop = max(-(-(tokens + 1) // BLOCK) * BLOCK, min(2 * held, held + 16 * BLOCK))
        sizes = np.arange(held, stop, dtype=np.float64)
        seconds, attention = (np.broadcast_to(v, sizes.shape) for v in self._prompts(sizes))
        self.linear.extend((seconds - attention).tolist())
        self.scores.extend(attention.tolist())

    def grow_decodes(self, batch: int) -> None:
        """Rows of decode steps up to at least `batch` sequences: row[i] serves contexts whose bit length is i."""
        import numpy as np

        held = len(self.level)
        sizes = np.arange(held, -(-(batch + 1) // ROWS) * ROWS, dtype=np.float64)[:, None]
        contexts = 2.0 ** np.arange(KNOTS)[None, :]
        step = forward_step(
            self.ctx, self.layout, pipelined_decode.sequences_per_stage(self.layout, sizes), 1.0, contexts, True
        )
        step = pipelined_decode.pipeline_wait(self.ctx, self.layout, step, sizes, contexts)
        seconds = np.broadcast_to(step.seconds * self.scale, (len(sizes), KNOTS))
        slope = np.diff(seconds, axis=1) / np.diff(contexts, axis=1)
        slope = np.concatenate([slope[:, :1], slope, slope[:, -1:]], axis=1)  # below 1 and beyond the last as beside it
        level = np.concatenate([seconds[:, :1], seconds], axis=1) - slope * np.concatenate(
            [contexts[:, :1], contexts], axis=1
        )
        self.level.extend(level.tolist())
        self.slope.extend(slope.tolist())

    def row(self, batch: int) -> tuple[list[float], list[float]]:
        """Level and slope by bit length of the mean context: a decode step of `batch` takes level + slope x context."""
        if batch >= len(self.level):
            self.grow_decodes(batch)
        return self.level[batch], self.slope[batch]

    def decode(self, batch: int, context: float) -> float:
        """Seconds of a step of `batch` decodes whose mean context is `context` tokens; none take none."""
        if not batch:
            return 0.0
        level, slope = self.row(batch)
        i = min(int(context).bit_length(), KNOTS)
        return level[i] + slope[i] * context

    def attention(self, start: int, end: int) -> float:
        """Seconds of attention of a chunk from `start` to `end` tokens of its prompt."""
        if end >= len(self.scores):
            self.grow_prompts(end)
        return self.scores[end] - self.scores[start]

    @property
    def moe(self) -> bool:
        """Whether layers have experts."""
        return any(group.moe for group in self.ctx.ledger.layers)

    def mixed(
        self,
        tokens: int,
        attention: float,
        batch: int,
        context: float,
        factor: float = 1.0,
        graph: int = 0,
        launch: float = 0.0,
    ) -> tuple[float, float]:
        """(seconds the replica is busy, seconds that the prompts' first tokens come later still) of a step with prompts.

        `tokens` of prompts whose chunks' attention takes `attention` seconds, and `batch` decodes of mean context `context`.
        Prompts take `factor` times their price. Up to `graph` tokens they share one pass; beyond, the step takes no less than
        `launch` seconds per operation of its layers.
        """
        whole = tokens + batch
        if whole >= len(self.linear):
            self.grow_prompts(whole)
        if whole <= graph:
            alone, least = self.linear[whole] - self.linear[batch], 0.0
        else:
            least = launch * self.ctx.ledger.operations * self.scale
            alone = self.linear[tokens] - (self.starts if least else 0.0)
        added = (alone + attention) * factor
        busy = added / self.stages
        return max(self.decode(batch, context) + busy, least / self.stages), added - busy
