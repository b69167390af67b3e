"""published_runs/precedent.yaml: the envelope of published training layouts, and the errors of what lies beyond it.

`python -m lab.training_envelope` rewrites the file; a test compares it with the rows. The errors of WIDENING are set by `roofline
validate search`: what the searches of tuned runs would else prefer is what these runs passed over.
"""

from __future__ import annotations

import yaml

from rooflinecli.specs.published_runs import FOLDER
from rooflinecli.validate.training_envelope import envelope, layouts

FILE = FOLDER / "precedent.yaml"
_HEAD = """# What published training runs (published_runs/training*.yaml) did, by kind of chip (python -m lab.training_envelope):
# pairs of techniques that two runs or more join, the largest groups and smallest shares, what nine of ten runs hide and fill and where all of
# it is new; and the relative error of a layout that has nothing like it among them, set by `roofline validate search`.
"""
# What tuned runs ask for (`roofline validate search`, its table of layouts without precedent), dense models and mixtures: the error at which nine of ten of
# them no longer trail a layout of the kind, since the upper end of an 80% interval is passed by one in ten. Mixtures ask for more than
# dense models: their activations swell with the tokens that routers send one way, and their exchange hides behind kernels that differ
# between hosts.
WIDENING = {
    "combination": (0.22, 0.69, "pairs of techniques that no published run joins"),
    "tensor": (0.22, 0.69, "tensor parallelism beyond the fast domain; no run tells, taken as that of combinations"),
    "stages": (0.25, 0.50, "more virtual stages"),
    "context": (0.21, 0.46, "fewer tokens of a sequence on a context rank"),
    "experts": (0.46, 0.51, "more experts of a layer on a device"),
    "sharding": (0.31, 0.31, "weights sharded over more fast domains than runs of the framework"),
    "hidden": (0.34, 0.67, "more communication hidden"),
    "memory": (0.36, 0.96, "memory fuller than counted for nine of ten published runs"),
    "stack": (0.20, 0.20, "software that is not named: published runs asked without theirs"),
    "family": (
        0.08,
        0.345,
        "a model family whose runs in this format, with this stack, on this chip are not among the rows: 0.12 beside 0.09, mixtures 0.40 beside 0.20",
    ),
    "mixer": (0.35, 0.25, "a sequence mixer that no constant was fitted to"),
    "chip": (
        0.15,
        0.15,
        "a chip without a fit: the error of frameworks without one (0.20) over that of others (0.13), in quadrature",
    ),
}


def text() -> str:
    """The file."""
    widening = {kind: {"dense": dense, "mixture": mixture, "of": of} for kind, (dense, mixture, of) in WIDENING.items()}
    document = {**envelope(layouts()), "widening": widening}
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=140, default_flow_style=None)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
