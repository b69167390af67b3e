"""A report as one self-contained HTML page: no script, no request, every number taken from the JSON embedded in it.

html        tags, escaped; figures, each tied to its place in the JSON
page        the page, section by section      style   its looks: light, dark, phone, print
svg         axes and scales                   charts  the roofline, and latency against throughput
answer      times, memory, cost, plan         unfold  derivations as nested <details>
served      a simulated load              traced  kernels of a trace next to the operations
"""
