"""A report as one self-contained HTML page: no script, no request, every number taken from the JSON embedded in it.

html    tags, escaped; figures, each tied to its place in the JSON; derivations as nested <details>
page    any answer as a page; the report, section by section
style   its looks: light, dark, phone, print
svg     axes and scales
charts  the roofline, latency against throughput, pictures of points
"""
