"""Recorded load: its rows, what their readers share (cells, lines and tables, each with file:line), and its formats, which formats.yaml describes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import at, open_text, parse
from rooflinecli.specs import snapshots

HEAD = 1 << 16  # characters by which a format is recognized
LONGEST = 1 << 24
CHARACTERS = 4  # per token of text without a count: English under current tokenizers
ANSWER = 128  # output tokens of a request without a count, GuideLLM's default
SPAN = 16  # tokens of a block of a prompt whose text is known, or whose prefix has a name


@dataclass(slots=True)
class Row:
    """A recorded request. time: seconds, None where the format has none (then a rate must be given). think: seconds after
    the turn before it in its session ended, for turns without an instant. hashes: keys of prompt blocks of `span` tokens.
    label: the class of requests that it belongs to, as the file names it."""

    time: float | None
    prompt: int
    output: int
    session: str = ""
    hashes: tuple[int | str, ...] = ()
    span: int = 0
    think: float | None = None
    label: str = ""
    images: int = 0


Read = Iterator[Row | DataError | None]  # None: a request that failed when it was recorded


def beginning(path: Path) -> str:
    """The part of a file by which its format is recognized."""
    with open_text(path) as stream:
        return stream.read(HEAD)


def bad(where: str, why: str) -> DataError:
    """The error of a malformed row."""
    return DataError(f"{where}: {why}; mend the row, or --skip-invalid leaves such rows out")


def tokens(where: str, name: str, written: object, least: int = 1) -> int:
    """A count of tokens. Raises DataError."""
    if written is None or written == "":
        raise bad(where, f"{name} is missing")
    try:
        found = float(str(written))
        whole = int(found)
    except (ValueError, OverflowError):
        raise bad(where, f"{name} is {str(written)[:40]!r}, expected a whole number of tokens") from None
    if whole != found or not least <= whole <= LONGEST:
        raise bad(where, f"{name} is {str(written)[:40]}, expected a whole number from {least} to {LONGEST:,}")
    return whole


def timestamp(where: str, name: str, text: str) -> float:
    """Seconds since 1970 of `2023-11-16 18:15:46.6805900`, `2024-05-10 00:00:00.009930+00:00` or `2024-05-10T00:00:00Z`. Raises DataError."""
    whole, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    try:
        when = datetime.fromisoformat(whole + zone)
    except ValueError:
        raise bad(where, f"{name} is {text[:40]!r}, expected for example 2023-11-16 18:15:46.68") from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return when.timestamp() + (float(f"0.{digits}") if dot and digits else 0.0)


def seconds(where: str, name: str, written: object, per: float = 1.0) -> float:
    """An instant in seconds, of units of which a second has `per`. Raises DataError."""
    try:
        found = float(str(written)) / per
    except ValueError:
        found = float("nan")
    if not -1e18 < found < 1e18:
        raise bad(where, f"{name} is {str(written)[:40]!r}, expected seconds")
    return found


def pause(where: str, name: str, written: object, per: float = 1.0) -> float:
    """Seconds between an answer and the turn after it: none is negative. Raises DataError."""
    found = seconds(where, name, written, per)
    if found < 0:
        raise bad(
            where, f"{name} is {str(written)[:40]}, expected no less than 0: a turn starts after the previous one"
        )
    return found


def estimated(text: str) -> int:
    """Estimated tokens of a text without a count."""
    return max(len(text) // CHARACTERS, 1)


def _content(content: object) -> str:
    if isinstance(content, list):
        return "".join(_content(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def prefix_block_keys(name: str, count: int) -> tuple[str, ...]:
    """Keys of the first `count` tokens of a prompt that begins as others of that name do, in blocks of SPAN tokens."""
    return tuple(f"{name}/{i}" for i in range(count // SPAN))


def keys(head: str) -> set[str]:
    """Top-level names of the first object in a file's beginning; all names in it where the object does not end there."""
    text = head.lstrip().lstrip("[").lstrip()
    if not text.startswith("{"):
        return set()
    try:
        return set(json.JSONDecoder().raw_decode(text)[0])
    except (ValueError, RecursionError):
        return set(re.findall(r'"(\w+)"\s*:', text))


def heading(head: str) -> set[str]:
    """Columns of a CSV file's first line, in lower case."""
    return {name.strip().lower() for name in head.partition("\n")[0].split(",")}


def lines(path: Path) -> Iterator[tuple[str, Json | DataError]]:
    """(file:line, object) of a JSONL file; an error for a line that is none."""
    with open_text(path) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield where, bad(where, f"not JSON ({error})")
                continue
            yield where, found if isinstance(found, dict) else bad(where, "expected an object")


def document(path: Path) -> Any:
    """Parse a JSON file. Raises DataError."""
    with open_text(path) as stream:
        return parse(stream.read(), str(path))


def table(path: Path) -> Iterator[tuple[str, dict[str, str] | DataError]]:
    """(file:line, column -> text) of a CSV file with a heading; columns by their names in lower case. Cells beyond them are an error."""
    import csv

    with open_text(path) as stream:
        reader = csv.reader(stream)
        names = [name.strip().lower() for name in next(reader, [])]
        for row in reader:
            if not row:
                continue
            where = f"{path}:{reader.line_num}"
            if any(cell.strip() for cell in row[len(names) :]):
                yield where, bad(where, f"{len(row)} cells under {len(names)} columns")
            else:
                yield where, dict(zip(names, row, strict=False))


def read_rows(objects: Iterator[tuple[str, Any]], make: Callable[[str, Any], Row | None]) -> Read:
    """Yield a row, or an error, for each object or line."""
    for where, each in objects:
        if isinstance(each, DataError):
            yield each
            continue
        try:
            yield make(where, each)
        except DataError as error:
            yield error


_ASKS = ("human", "user", "system")
_NAMES = snapshots.packaged(__file__, "names")
_PROMPT, _OUTPUT, _TEXT, _ELSEWHERE = (_NAMES[name] for name in ("prompt", "output", "text", "elsewhere"))


def is_benchmark_input(head: str) -> bool:
    """Whether the keys are those of this format."""
    names = keys(head)
    line = names & {*_TEXT, *_PROMPT, "texts", "turns", "messages", "body"} and not head.lstrip().startswith("[")
    rows = line and not names & {*_ELSEWHERE} and not {"input_length", "output_length"} <= names
    return bool(_is_document(head) or rows)


def benchmark_input_rows(path: Path) -> Read:
    """One request a line, or the turns of a session."""
    return read_rows(_payloads(path) if _is_document(beginning(path)) else _turns(lines(path)), _row)


def _is_document(head: str) -> bool:
    return "data" in keys(head) and '"payloads"' in head


def _payloads(path: Path) -> Iterator[tuple[str, object]]:
    """The sessions of AIPerf's inputs.json."""
    data = document(path).get("data")
    for number, session in enumerate(data if isinstance(data, list) else [], 1):
        where = f"{path}: session {number}"
        payloads = session.get("payloads") if isinstance(session, dict) else None
        if not isinstance(payloads, list) or not all(isinstance(p, dict) for p in payloads):
            yield where, bad(where, "expected payloads: [{messages}, ...]")
            continue
        name = str(session.get("session_id", number))
        for turn, payload in enumerate(payloads):
            yield where, {**payload, "session_id": name, "turn": turn}


def _turns(objects: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Lines as they are; sessions of turns one by one, each with the tokens of its context."""
    for where, each in objects:
        if isinstance(each, DataError) or not isinstance(each.get("turns"), list):
            yield where, each
            continue
        session, context = str(each.get("session_id", where)), 0
        for turn, spoken in enumerate(each["turns"]):
            request = spoken if isinstance(spoken, dict) else {"text": spoken}
            yield where, {**request, "session_id": session, "turn": turn, "context_tokens": context}
            context += estimated(_text(request) or "") + _answer("", request, ANSWER)


def _row(where: str, line: Json) -> Row:
    body = line.get("body")
    request = {**line, **body} if isinstance(body, dict) else line
    text = _text(request)
    prompt = next((tokens(where, name, request[name]) for name in _PROMPT if request.get(name) is not None), None)
    if prompt is None and text is None:
        raise bad(where, f"neither {' nor '.join(_TEXT[:2])} nor messages nor {_PROMPT[0]}")
    asked = prompt if prompt is not None else request.get("context_tokens", 0) + estimated(str(text))
    session, turn = str(request.get("session_id", "")), request.get("turn", 0)
    time, delay = request.get("timestamp"), request.get("delay")
    hashes = prefix_block_keys(session, asked) if session else ()
    return Row(
        None if time is None else seconds(where, "timestamp", time) / 1e3, asked, _answer(where, request, ANSWER), session, hashes,
        SPAN if hashes else 0,
        pause(where, "delay", delay) / 1e3 if delay is not None and (turn or time is None) else 0.0 if turn else None,
    )  # fmt: skip


def _text(request: Json) -> str | None:
    """The text of a request; that of a chat as OpenAI's clients write it, {role, content} or {from, value} each. None where it is none."""
    whole = next((request[name] for name in _TEXT if isinstance(request.get(name), str)), None)
    several = request.get("texts")
    if whole is None and isinstance(several, list):
        whole = "".join(text for text in several if isinstance(text, str))
    chat = request.get("messages")
    if whole is None and isinstance(chat, list) and all(isinstance(m, dict) for m in chat):
        whole = "".join(_content(m.get("content", m.get("value"))) for m in chat)
    return whole


def _answer(where: str, request: Json, unknown: int) -> int:
    return next((tokens(where, name, request[name]) for name in _OUTPUT if request.get(name) is not None), unknown)


def sharegpt_rows(path: Path) -> Read:
    """Turns in the order of the file; a conversation that is none is one malformed row, placed by its number."""
    found = document(path) if beginning(path).lstrip().startswith("[") else [each for _, each in lines(path)]
    for number, item in enumerate(found, 1):
        where = f"{path}: conversation {number}"
        if isinstance(item, DataError):
            yield item
            continue
        turns = item.get("conversations", item.get("conversation")) if isinstance(item, dict) else None
        if not isinstance(turns, list) or not all(
            isinstance(turn, dict) and isinstance(_spoken(turn), str) for turn in turns
        ):
            yield bad(where, "expected conversations: [{from, value}, ...]")
            continue
        session, context, think = str(item.get("id", number)), 0, None
        asks = [str(turn.get("from", turn.get("role", ""))) in _ASKS for turn in turns]
        for place, turn in enumerate(turns):
            context += estimated(_spoken(turn))
            if asks[place] and asks[place + 1 : place + 2] == [False]:
                answer = estimated(_spoken(turns[place + 1]))
                yield Row(None, context, answer, session, prefix_block_keys(session, context), SPAN, think)
                think = 0.0


def _spoken(turn: Json) -> Any:
    return turn.get("value", turn.get("content"))


class TraceFormat(NamedTuple):
    """Whether a file's beginning is of a format, and its rows."""

    matches: Callable[[str], bool]
    rows: Callable[[Path], Read]


def _format(row: Json) -> TraceFormat:
    if "code" in row:
        return _CODE[row["code"]]
    columns, names, without = set(row.get("columns", ())), set(row.get("keys", ())), row.get("without")
    records = _RECORDS.get(row.get("records", ""), table if columns else lines)
    if columns:
        return TraceFormat(lambda head: columns <= heading(head), lambda path: read_rows(records(path), _maker(row)))
    return TraceFormat(
        lambda head: names <= (found := keys(head)) and without not in found,
        lambda path: read_rows(records(path), _maker(row)),
    )


def _maker(row: Json) -> Callable[[str, Json], Row | None]:
    """What makes a request of each record of a file; None for one that failed."""
    heads: dict[str, str] = {}  # of the first of a session, by every later one
    per, lowered = float(row.get("per", 1.0)), "columns" in row

    def make(where: str, record: Json) -> Row | None:
        def stated(name: str) -> tuple[str, Any]:
            """The figure's name in the file, and the figure."""
            paths: list[str] = row.get(name) or [name]
            found = ((path, at(record, path.lower() if lowered else path)) for path in paths)
            path, value = next(((p, v) for p, v in found if v is not None and v != ""), (paths[0], None))
            return path.removesuffix(".value").rpartition(".")[2], value

        if any(at(record, path) for path in row.get("failed", ())):
            return None
        named, answer = stated("output")
        if (answer is None and "absent" in row) or (
            not (count := tokens(where, named, answer, int("zero" not in row)))
        ):
            return None
        time, think = stated("time"), stated("think")[1] if "think" in row else None
        session = str(stated("session")[1] or "")
        if "parent" in row:
            own = str(record.get(row["id"]))
            heads[own] = session = heads.get(str(record.get(row["parent"], -1)), own)
        hashes = record.get(row.get("hashes", "")) or ()
        if not isinstance(hashes, (list, tuple)) or not all(isinstance(h, (int, str)) for h in hashes):
            raise bad(where, f"{row['hashes']} is not a list of numbers")
        instant: float | None = None
        if "date" in row:
            instant = timestamp(where, time[0], str(time[1] or ""))
        elif time[1] is not None or "untimed" not in row:
            instant = seconds(where, *time, per)
        return Row(
            instant, tokens(where, *stated("prompt")), count, session, tuple(hashes), row["span"] if hashes else 0,
            None if think is None else pause(where, row["think"][0], think, per),
            str(stated("label")[1] or "").strip() if "label" in row else "",
            tokens(where, row["images"][0], stated("images")[1] or "0", 0) if "images" in row else 0,
        )  # fmt: skip

    return make


def _guidellm_requests(path: Path) -> Iterator[tuple[str, object]]:
    """Benchmarks of a sweep follow one another as they did; requests that are incomplete or errored failed."""
    benchmarks = document(path).get("benchmarks")
    if not isinstance(benchmarks, list):
        raise DataError(f"{path}: benchmarks is not a list; give the file that GuideLLM wrote")
    for number, benchmark in enumerate(benchmarks, 1):
        where = f"{path}: benchmark {number}"
        states = benchmark.get("requests") if isinstance(benchmark, dict) else None
        if not isinstance(states, dict):
            yield where, bad(where, "it lists no requests by status")
            continue
        for state, requests in states.items():
            for place, request in enumerate(requests if isinstance(requests, list) else [], 1):
                at_request = f"{where}, {state} request {place}"
                if state == "successful" and not isinstance(request, dict):
                    request = bad(at_request, "expected an object")
                yield at_request, request if state == "successful" else {"status": state}


def _vllm_requests(path: Path) -> Iterator[tuple[str, object]]:
    report = document(path)
    found = {name: report.get(name) or [] for name in ("input_lens", "output_lens", "start_times", "errors")}
    count = len(found["input_lens"])
    if count != len(found["output_lens"]) or len(found["start_times"]) not in (0, count):
        why = f"{path}: input_lens, output_lens and start_times are not equally long; give the file as vLLM wrote it"
        raise DataError(why)
    for i in range(count):
        yield f"{path}: request {i + 1}", {name: of[i] for name, of in found.items() if i < len(of)}


_RECORDS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    "guidellm_requests": _guidellm_requests,
    "vllm_requests": _vllm_requests,
}


def _simple_csv(where: str, cells: dict[str, str]) -> Row:
    """A CSV with the heading time,prompt,output and, where wanted, class, session, prefix and think.

    time: seconds, or a date and a time of day; a row without one needs a think time, or a rate given with the trace. class: the kind of
    request, such as a tenant, that percentiles and limits may ask for. prefix: a name; requests that share it share `prefix_tokens` (or
    their whole prompt) at its head. think: seconds after the turn before in the session ended, instead of a time. What --requests-out
    writes is read back.
    """
    given = {name: next((cells[a].strip() for a in also if a in cells), "") for name, also in _NAMES["csv"].items()}
    prompt, time = tokens(where, "prompt", given["prompt"]), given["time"]
    think, prefix = cells.get("think", "").strip(), cells.get("prefix", "").strip()
    shared = tokens(where, "prefix_tokens", cells["prefix_tokens"], 0) if cells.get("prefix_tokens") else prompt
    if shared > prompt:
        raise bad(where, f"prefix_tokens is {shared}, more than the prompt of {prompt}")
    dated = "-" in time.lstrip("-") and ":" in time
    return Row(
        (timestamp if dated else seconds)(where, "time", time) if time else None, prompt, tokens(where, "output", given["output"]),
        given["session"], prefix_block_keys(prefix, shared) if prefix else (), SPAN if prefix else 0,
        pause(where, "think", think) if think else None, given["class"],
    )  # fmt: skip


_CODE = {
    "benchmark_inputs": TraceFormat(is_benchmark_input, benchmark_input_rows),
    "sharegpt": TraceFormat(lambda head: bool({"conversations", "conversation"} & keys(head)), sharegpt_rows),
    "simple_csv": TraceFormat(
        lambda head: all(heading(head) & {*_NAMES["csv"][name]} for name in ("prompt", "output")),
        lambda path: read_rows(table(path), _simple_csv),
    ),
}
FORMATS = {name: _format(row) for name, row in snapshots.table(Path(__file__).with_name("formats.yaml")).items()}
