"""Recorded load. `formats` has every format, `trace_row` what they all give."""
