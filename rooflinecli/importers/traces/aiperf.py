"""Requests measured by AIPerf: profile_export.jsonl (docs/tutorials/working-with-profile-exports of ai-dynamo/aiperf).

metadata.request_start_ns is when it was sent, metrics.input_sequence_length and output_sequence_length its tokens. A record with
an error, or without lengths, is a request that failed.
"""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.record import Json
from rooflinecli.importers.traces.trace_row import Read, Row, bad, keys, lines, read_rows, seconds, tokens


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    return {"metadata", "metrics"} <= keys(head)


def rows(path: Path) -> Read:
    """One record a line."""
    return read_rows(lines(path), _row)


def _row(where: str, record: Json) -> Row | None:
    about, metrics = record.get("metadata"), record.get("metrics")
    if not isinstance(about, dict):
        raise bad(where, "metadata is no object")
    if record.get("error") or not isinstance(metrics, dict) or "output_sequence_length" not in metrics:
        return None
    sent = about.get("request_start_ns")
    return Row(
        seconds(where, "request_start_ns", sent / 1e9 if isinstance(sent, (int, float)) else sent),
        tokens(where, "input_sequence_length", _value(metrics.get("input_sequence_length"))),
        tokens(where, "output_sequence_length", _value(metrics.get("output_sequence_length"))),
        str(about.get("x_correlation_id") or ""),
    )


def _value(metric: object) -> object:
    return metric.get("value") if isinstance(metric, dict) else metric
