"""A short closed loop against a server with OpenAI's protocol: a fixed number of requests in flight, each followed by the next.

A request asks for a fixed number of tokens of a fixed prompt, streamed. First token: seconds until the first piece of text;
per token: the time from there to the last piece, over the tokens after the first, as counted by the server.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.core.record import Json

if TYPE_CHECKING:
    import httpx

    from rooflinecli.measure.question import OpenAIServer

SCHEMA = "roofline/serving-run/1"
_WORDS = "time people way water words called first made part long down day number sound work place year live back give".split()
_KEY = "OPENAI_API_KEY"
FEWEST = 4  # requests of a run per one in flight, so that most of them run at full concurrency


@dataclass(frozen=True)
class ServerResponse:
    """One request: seconds to the first and to the last piece, and tokens by the server's own count."""

    first: float
    last: float
    prompt: int
    output: int


def run_load(server: OpenAIServer, concurrency: int, prompt: int) -> Json:
    """Run the loop after one warm-up request, with prompts of about `prompt` tokens; returns an object `roofline/serving-run/1`, SI.

    Raises UsageError for a server that cannot be reached, fails, or does not stream.
    """
    try:
        import httpx
    except ImportError:
        raise UsageError(f"asking a server needs httpx; install it with: {install('server')}") from None
    headers = {"Authorization": f"Bearer {os.environ[_KEY]}"} if os.environ.get(_KEY) else {}
    base = server.url.rstrip("/").removesuffix("/v1")
    limits = httpx.Limits(max_connections=concurrency + 1)
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=server.timeout, limits=limits) as client:
            model = server.model or _only_model(client)
            _ask(client, server, prompt, model, -1)
            total = server.requests or FEWEST * concurrency
            start = time.perf_counter()
            with ThreadPoolExecutor(concurrency) as pool:
                answers = list(pool.map(lambda i: _ask(client, server, prompt, model, i), range(total)))
            wall = time.perf_counter() - start
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise UsageError(
            f"{server.url}: {reason}; give the address of a running server, such as http://localhost:8000"
        ) from None
    steps = [(a.last - a.first) / (a.output - 1) for a in answers if a.output > 1]
    return {
        "schema": SCHEMA, "url": server.url, "model": model, "engine": server.engine, "concurrency": concurrency, "requests": len(answers),
        "prompt_tokens": fmean(a.prompt for a in answers), "output_tokens": fmean(a.output for a in answers),
        "first_token_s": fmean(a.first for a in answers), "inter_token_s": fmean(steps) if steps else None,
        "output_tokens_per_s": sum(a.output for a in answers) / wall, "wall_s": wall,
    }  # fmt: skip


def _only_model(client: httpx.Client) -> str:
    """The only model of the server. Raises UsageError where there are several."""
    answer = client.get("/v1/models")
    names = [str(m["id"]) for m in answer.json().get("data", [])] if answer.status_code == 200 else []
    if len(names) != 1:
        raise UsageError(f"the server has {', '.join(names) or 'no list of models'}; give --model", "model")
    return names[0]


def _ask(client: httpx.Client, server: OpenAIServer, prompt: int, model: str, i: int) -> ServerResponse:
    """One request; its first words are unique, so that no prefix cache hits."""
    words = random.Random(i)
    text = " ".join(words.choice(_WORDS) for _ in range(max(prompt - 1, 1)))
    body: Json = {"model": model, "prompt": f"{i + 2} {text}", "max_tokens": server.output, "temperature": 0.0}
    body |= {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    start = time.perf_counter()
    first = last = 0.0
    pieces, usage = 0, Json()
    with client.stream("POST", "/v1/completions", json=body) as answer:
        if answer.status_code != 200:
            reply = answer.read().decode("utf-8", "replace")
            raise UsageError(f"{server.url}: the server answered {answer.status_code}: {' '.join(reply.split())[:200]}")
        for piece in _pieces(answer):
            usage = piece.get("usage") or usage
            if any(choice.get("text") for choice in piece.get("choices", [])):
                pieces, last = pieces + 1, time.perf_counter() - start
                first = first or last
    if not pieces:
        raise UsageError(f"{server.url}: an answer without text; is {model} a model that writes?")
    counted = int(usage.get("completion_tokens") or pieces)
    if pieces < counted / 4:
        raise UsageError(
            f"{server.url}: {counted} tokens arrived in {pieces} chunks, so TPOT cannot be measured; let the server stream every token"
        )
    return ServerResponse(first, last, int(usage.get("prompt_tokens") or prompt), counted)


def _pieces(answer: httpx.Response) -> Iterator[Json]:
    """The objects of a stream of server-sent events."""
    for line in answer.iter_lines():
        body = line.removeprefix("data:").strip()
        if line.startswith("data:") and body != "[DONE]":
            try:
                piece = json.loads(body)
            except ValueError:
                continue
            if isinstance(piece, dict):
                yield piece
