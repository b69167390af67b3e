"""What sequences leave in memory for their next token."""

from __future__ import annotations

from rooflinecli.core.lift import Plain
from rooflinecli.core.num import Number
from rooflinecli.formulas import schedule
from rooflinecli.ledger.ledger import Ledger
from rooflinecli.phases.axis_sizes import layer_sizes, work_sizes
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import Plan


def kv_cache(book: Ledger, plan: Plan, formats: Formats, batch: Number, tokens: Number, lift: Plain) -> Number:
    """What `batch` sequences of `tokens` tokens leave in memory on one device, layer by layer as each mixer keeps it."""
    document, work = book.document, work_sizes(1.0, 1.0, 1.0, 1.0, plan)
    total: Number = 0.0
    for group in book.layers:
        if group.mixer is not None:
            sizes = layer_sizes(group, work, plan, document, lift)
            total = total + group.mixer.cache_bytes(formats, sizes, batch, tokens) * float(group.repeat)
    return total * (schedule.layers_per_stage(float(book.n_layers), plan.pp) / book.n_layers)
