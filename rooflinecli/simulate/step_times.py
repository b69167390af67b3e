"""Step times of a replica as tables: the engine prices whole arrays of sizes once, and every step is then a look-up.

A step with P prompt tokens and D decoding sequences of mean context T takes

    decode(D, T) + (linear(P) + attention of the chunks) x factor

where decode(D, T) is the engine's decode step and linear(n) its pass over a prompt of n tokens without attention. A prefill-only
step is exactly the engine's prefill pass, a decode-only step its decode step. Weights and kernel launches count for both: priced as
one pass, measured ITL was 8 % longer; as two, they agree. A step that the engine replays as one CUDA graph is one pass,
linear(P + D) - linear(D). The scheduler's factor is how much longer prefill takes in a mixed batch. Without a graph the host
launches every kernel, ahead of the device: such a step takes no less than the launches do, which include what an engine adds to the
start of a prefill pass. A compiled runtime reads weights once for prompts and decodes: its mixed step is one pass too, and starts the
kernels of a prefill. The attention of a chunk is that of the prompt up to its end less that up to its start; an engine with graphs of
prompt lengths pads each chunk to one.

A pipeline works on as many micro-batches as it has stages: a decode step passes the batch over its stages, and a prefill occupies
them for its share of the pass, while the rest of it (`fill`) delays its own first token only.
"""

from __future__ import annotations

import numpy as np

from rooflinecli.engine import serving_load
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step, uncaptured_launch_s
from rooflinecli.formulas.serving import padded_prompt
from rooflinecli.specs.layout import Layout

BLOCK = 4096  # tokens by which the tables of prompts grow
ROWS = 64  # batches by which those of decodes grow
KNOTS = 28  # contexts of a decode row are powers of two, straight lines between them


class StepTimeTable:
    """Step times of one replica in seconds, times `scale`; tables grow on demand.

    `ctx` has plain numbers. linear[n] and scores[n] are the parts of a prefill pass of n tokens without and of attention.
    """

    def __init__(self, ctx: EstimateContext, layout: Layout, scale: float = 1.0):
        self.ctx, self.layout, self.scale = ctx, layout, scale
        self.stages = float(layout.pp)
        self.starts = float(uncaptured_launch_s(ctx)) * scale
        self.linear: list[float] = [0.0]
        self.scores: list[float] = [0.0]
        self.level: list[list[float]] = [[]]
        self.slope: list[list[float]] = [[]]

    def scaled(self, scale: float) -> StepTimeTable:
        """The same replica with every step `scale` times as long, without pricing anything again."""
        other = StepTimeTable(self.ctx, self.layout, self.scale * scale)
        other.linear, other.scores = ([scale * v for v in table] for table in (self.linear, self.scores))
        other.level, other.slope = ([[scale * v for v in row] for row in table] for table in (self.level, self.slope))
        return other

    def grow_prompts(self, tokens: int) -> None:
        """Extend the tables of prefill passes up to at least `tokens`."""
        start = len(self.linear)
        stop = max(-(-(tokens + 1) // BLOCK) * BLOCK, min(2 * start, start + 16 * BLOCK))
        sizes = np.arange(start, stop, dtype=np.float64)
        step = forward_step(self.ctx, self.layout, 1.0, sizes, sizes, False)
        seconds = np.broadcast_to(step.seconds * self.scale, sizes.shape)
        attention = np.broadcast_to(step.costs.groups.get("attention", 0.0) * self.scale, sizes.shape)
        self.linear.extend((seconds - attention).tolist())
        self.scores.extend(attention.tolist())

    def grow_decodes(self, batch: int) -> None:
        """Extend the rows of decode steps up to at least `batch` sequences: row[i] is for contexts of bit length i."""
        sizes = np.arange(len(self.level), -(-(batch + 1) // ROWS) * ROWS, dtype=np.float64)[:, None]
        contexts = 2.0 ** np.arange(KNOTS)[None, :]
        per_stage = serving_load.sequences_per_stage(self.layout, sizes)
        step = forward_step(self.ctx, self.layout, per_stage, 1.0, contexts, True)
        step = serving_load.pipeline_wait(self.ctx, self.layout, step, sizes, contexts)
        seconds = np.broadcast_to(step.seconds * self.scale, (len(sizes), KNOTS))
        slope = np.diff(seconds, axis=1) / np.diff(contexts, axis=1)
        slope = np.concatenate([slope[:, :1], slope, slope[:, -1:]], axis=1)  # extrapolated below 1 and beyond the last
        start = np.concatenate([contexts[:, :1], contexts], axis=1)
        level = np.concatenate([seconds[:, :1], seconds], axis=1) - slope * start
        self.level.extend(level.tolist())
        self.slope.extend(slope.tolist())

    def decode(self, batch: int, context: float) -> float:
        """Seconds of a step of `batch` decodes whose mean context is `context` tokens; none take none."""
        if not batch:
            return 0.0
        if batch >= len(self.level):
            self.grow_decodes(batch)
        i = min(int(context).bit_length(), KNOTS)
        return self.level[batch][i] + self.slope[batch][i] * context

    def padded(self, tokens: int) -> int:
        """Tokens that a chunk of a prompt takes: of a longer graph where the engine has graphs of prompt lengths."""
        least = self.ctx.engine.prompt_bucket
        return int(padded_prompt(float(tokens), least)) if least and not self.ctx.chip.ideal else tokens

    def attention(self, start: int, end: int) -> float:
        """Seconds of attention of a chunk from `start` to `end` tokens of its prompt."""
        if end >= len(self.scores):
            self.grow_prompts(end)
        return self.scores[end] - self.scores[start]

    def mixed(
        self,
        tokens: int,
        attention: float,
        batch: int,
        context: float,
        factor: float = 1.0,
        graph: int = 0,
        launch: float = 0.0,
        one_pass: bool = False,
    ) -> tuple[float, float]:
        """(seconds that the replica is busy, further seconds until the prompts' first tokens) of a step with prefill chunks.

        `tokens` in chunks whose attention takes `attention` seconds, and `batch` decodes of mean context `context`. Prefill takes
        `factor` times its own time. Up to `graph` tokens, or where the runtime has `one_pass` for both, they share one; else the
        step takes no less than `launch` seconds per operation of its layers.
        """
        whole = tokens + batch
        if whole >= len(self.linear):
            self.grow_prompts(whole)
        shared = batch > 0 and one_pass
        if shared or whole <= graph:
            alone, least = self.linear[whole] - self.linear[batch] + (self.starts if shared else 0.0), 0.0
        else:
            least = launch * self.ctx.ledger.operations * self.scale
            alone = self.linear[tokens] - (self.starts if least else 0.0)
        added = (alone + attention) * factor
        busy = added / self.stages
        return max(self.decode(batch, context) + busy, least / self.stages), added - busy
