"""KV cache and state of sequences."""

from __future__ import annotations

from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import schedule
from rooflinecli.ledger.ledger import Ledger
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import Layout


def kv_cache(
    ledger: Ledger, layout: Layout, formats: Formats, batch: Number, tokens: Number, lift: PlainLift
) -> Number:
    """Bytes per device of the cache of `batch` sequences of `tokens` tokens, as the mixer of each layer keeps it."""
    document, work = ledger.document, pass_axis_sizes(1.0, 1.0, 1.0, 1.0, layout)
    total: Number = 0.0
    for group in ledger.layers:
        if group.mixer is not None:
            sizes = layer_sizes(group, work, layout, document, lift)
            total = total + group.mixer.cache_bytes(formats, sizes, batch, tokens) * float(group.repeat)
    return total * (schedule.layers_per_stage(float(ledger.n_layers), layout.pp) / ledger.n_layers)
