"""Recorded load. One file reads one format: `matches(path, head)` and `rows(path)`; `row` holds what they all give."""
