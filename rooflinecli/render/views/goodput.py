"""Training goodput: failures, checkpoints, and the fraction of time that makes progress."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.goodput.question import GoodputAnswer
from rooflinecli.render.blocks import Page, Prose, page
from rooflinecli.render.numbers import percent, text


def view(r: GoodputAnswer) -> Page:
    """A sentence for each."""
    lines = [
        f"{plural(r.devices, 'device')}: a failure every {text(r.mtbf_s, 'mtbf_s')}",
        f"checkpoint interval {text(r.interval_s, 'checkpoint_s')} ({text(r.checkpoint_s, 'checkpoint_s')} each; best: {text(r.daly_interval_s, 'checkpoint_s')})",
        f"training goodput {percent(r.goodput)}: checkpoint overhead {percent(r.checkpoint_overhead)}, restarts of {text(r.restart_s, 'restart_s')} and the lost work",
    ]
    if r.run_s is not None:
        lines.append(f"the run takes {text(r.run_s, 'run_s')} with {plural(round(r.failures), 'failure')}")
    return page([Prose(line, indent=2) for line in lines])
