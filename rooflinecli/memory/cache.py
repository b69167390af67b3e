"""What sequences leave in memory for their next token."""

from __future__ import annotations

from rooflinecli.formulas import schedule
from rooflinecli.ledger import Ledger
from rooflinecli.lift import Plain
from rooflinecli.num import Number
from rooflinecli.phases.sizes import layer_sizes, work_sizes
from rooflinecli.specs.dtypes import Formats
from rooflinecli.specs.plan import Plan


def kv_cache(book: Ledger, plan: Plan, formats: Formats, batch: Number, tokens: Number, lift: Plain) -> Number:
    """What `batch` sequences of `tokens` tokens leave in memory on one device, layer by layer as each mixer keeps it."""
    document, work = book.document, work_sizes(1.0, 1.0, 1.0, 1.0, plan)
    total: Number = 0.0
    for group in book.layers:
        if group.mixer is not None:
            sizes = layer_sizes(group, work, plan, document, lift)
            total = total + group.mixer.cache_bytes(formats, sizes, batch, tokens) * float(group.repeat)
    return total * (schedule.layers_per_stage(float(book.n_layers), plan.pp) / book.n_layers)
