"""Training goodput: how often devices fail, how often to save, and what is left."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.calculator import CalculatorAnswer
from rooflinecli.render.blocks import Page, Prose, page
from rooflinecli.render.numbers import percent, text


def view(answer: CalculatorAnswer) -> Page:
    """A sentence for each."""
    r = answer.values
    lines = [
        f"{plural(r['devices'], 'device')}: a failure every {text(r['mtbf_s'], 'mtbf_s')}",
        f"save every {text(r['interval_s'], 'checkpoint_s')} ({text(r['checkpoint_s'], 'checkpoint_s')} each; best: {text(r['daly_interval_s'], 'checkpoint_s')})",
        f"training goodput {percent(r['goodput'])}: saving takes {percent(r['checkpoint_overhead'])}, a restart {text(r['restart_s'], 'restart_s')} and the lost work",
    ]
    if "run_s" in r:
        lines.append(f"the run takes {text(r['run_s'], 'run_s')} with {plural(round(r['failures']), 'failure')}")
    return page([Prose(line, indent=2) for line in lines])
