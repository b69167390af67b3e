"""A report as one self-contained HTML page: no script, no request, every number taken from the JSON embedded in it."""
