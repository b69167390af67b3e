"""The engine: what a model costs under a layout, phase by phase.

    answer(EstimateContext(request), layout, "decode").time_s

A context is a request with its defaults filled in and its numbers lifted. Homes: memory an engine reserves, residency; the bound of an
interval at which limits are checked, interval_bound; the chosen layout, choose; load on a replica, serving_load; micro-batch, microbatch.
"""
