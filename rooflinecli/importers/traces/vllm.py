"""Output of `vllm bench serve --save-result --save-detailed` (vllm/benchmarks/serve.py): input_lens, output_lens, errors, start_times.

Older versions have no start_times: give --qps or --concurrency. An entry with an error, or without output, is a request that failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.traces.trace_row import Read, Row, document, keys, read_rows, seconds, tokens

Request = tuple[object, object, object]  # prompt and output tokens, start time


def matches(head: str) -> bool:
    """Whether the keys are those of this format."""
    return "input_lens" in keys(head)


def rows(path: Path) -> Read:
    """One request of each place in the lists."""
    report = document(path)
    prompts, outputs, starts = (report.get(name) or [] for name in ("input_lens", "output_lens", "start_times"))
    if not len(prompts) == len(outputs) or (starts and len(starts) != len(prompts)):
        raise DataError(
            f"{path}: input_lens, output_lens and start_times are not equally long; give the file as vLLM wrote it"
        )
    errors = report.get("errors") or []
    return read_rows(_each(path, prompts, outputs, starts, errors), _row)


def _each(
    path: Path, prompts: list[object], outputs: list[object], starts: list[object], errors: list[object]
) -> Iterator[tuple[str, Request | None]]:
    for i, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        failed = not output or (i < len(errors) and errors[i])
        yield f"{path}: request {i + 1}", None if failed else (prompt, output, starts[i] if starts else None)


def _row(where: str, request: Request | None) -> Row | None:
    if request is None:
        return None
    prompt, output, start = request
    return Row(
        None if start is None else seconds(where, "start_times", start),
        tokens(where, "input_lens", prompt),
        tokens(where, "output_lens", output),
    )
