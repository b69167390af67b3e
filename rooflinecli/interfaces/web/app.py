"""`roofline web`: a page for every verb and its JSON over HTTP (Starlette). Nothing is stored, nothing leaves the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.importers.source import Options
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.web import form
from rooflinecli.questions.question import Question
from rooflinecli.render.answer import dumps
from rooflinecli.render.report.page import STYLE

PAGE = Path(__file__).with_name("static")
LONGEST = 4096  # characters of a query
MOST_SENT = 16 * 2**20  # bytes of a file that is sent
_TEMPORARY_FOLDER = re.compile(
    r"[^\s\"'(<>]*[/\\](?=plan\.yaml|sent\.txt)"
)  # where text of a form is kept while it is read, which no answer shows
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def app(hosts: tuple[str, ...] = LOOPBACK) -> Starlette:
    """The application. `hosts` are names it answers to, so that no other site's name can be pointed at it."""
    routes = [
        Route("/", _page),
        Route("/part", _part),
        Route("/unfold", _unfold),
        Route("/api/{verb}", _json),
        Route("/app.js", lambda request: _files("text/javascript", PAGE / "app.js")),
        Route("/style.css", lambda request: _files("text/css", STYLE, PAGE / "style.css")),
        Route("/{verb}", _page),
        Route("/{verb}", _posted, methods=["POST"]),
        Route("/{verb}/part", _part),
        Route("/{verb}/part", _posted, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])


def _verb(request: Request) -> type[Question[Any]]:
    """The question of an address. Raises 404 for one that has no page."""
    path = request.path_params.get("verb", "estimate")
    if path not in form.VERBS:
        why = form.PAGELESS.get(path)
        raise HTTPException(404, f"roofline {path} has no page: {why}" if why else None)
    return verbs.question(form.VERBS[path])


async def _posted(request: Request) -> Response:
    """The answer to a question whose file is too long for an address, or its page where there are no scripts."""
    if not form.is_posted(_verb(request)):
        raise HTTPException(405)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_SENT:
            raise HTTPException(413, f"the file is larger than {MOST_SENT // 2**20} MiB; give it to the command line")
    request.state.sent = parse_qsl(body.decode(errors="replace"))
    return await run_in_threadpool(_part if request.url.path.endswith("/part") else _page, request)


def _page(request: Request) -> Response:
    """The page, answered already, so that it reads without scripts and a link shows what it showed its sender."""
    question, pinned = _verb(request), ""
    try:
        options = _options(request)
        content, code, pinned = _content(request, options), 200, dict(_sent(request)).get("pinned", "")
    except RooflineError as error:
        content, code = form.problem(error), 400
        known = {field.name for field in form.fields(question)}  # as typed, to be mended where they stand
        options = {k: v[: form.LONGEST] for k, v in _sent(request) if k in known}
    return HTMLResponse(form.page(options, _TEMPORARY_FOLDER.sub("", content), question, pinned), code, HEADERS)


def _part(request: Request) -> Response:
    _verb(request)
    return _fragment(lambda: _content(request, _options(request)))


def _content(request: Request, options: Options) -> str:
    """The answer, below what differs from the pinned one where one is."""
    question, pinned = _verb(request), dict(_sent(request)).get("pinned", "")
    content = str(_answered(lambda o: form.part(o, question), options))
    if not pinned:
        return content
    then = form.options(parse_qsl(pinned), question)
    return str(_answered(lambda o: form.differences(question, then, o), options)) + content


def _unfold(request: Request) -> Response:
    quantity = request.query_params.get("quantity", "")[:200]
    return _fragment(lambda: _answered(lambda o: form.unfolded(o, quantity), _options(request, "quantity")))


def _json(request: Request) -> Response:
    """What `roofline VERB --format json` prints, byte for byte."""
    question = _verb(request)
    try:
        found = _answered(
            lambda options: form.printed_json(form.answered(options, question), question), _options(request)
        )
    except RooflineError as error:
        return JSONResponse({"error": _TEMPORARY_FOLDER.sub("", str(error))}, 400, HEADERS)
    return Response(_TEMPORARY_FOLDER.sub("", dumps(found)) + "\n", 200, HEADERS, "application/json")


def _fragment(made: Callable[[], str]) -> Response:
    try:
        return HTMLResponse(_TEMPORARY_FOLDER.sub("", made()), 200, HEADERS)
    except RooflineError as error:
        return HTMLResponse(_TEMPORARY_FOLDER.sub("", form.problem(error)), 400, HEADERS)


def _answered(question: Callable[[Options], Any], options: Options) -> Any:
    """An answer, or the sentence that says what is wrong: numbers that no machine has are the asker's to mend."""
    try:
        return verbs.without_warnings(lambda: question(options))
    except (ArithmeticError, ValueError, MemoryError) as error:
        raise UsageError(
            f"these values cannot be calculated with ({error}); give sizes that a machine could have"
        ) from None


def _options(request: Request, *excluded: str) -> Options:
    if len(request.url.query) > LONGEST:
        raise UsageError(f"the question is longer than {LONGEST} characters; shorten it")
    pairs = ((k, v) for k, v in _sent(request) if k not in ("pinned", *excluded))
    return form.options(pairs, _verb(request))


def _sent(request: Request) -> list[tuple[str, str]]:
    """The fields of a query, or of what was posted."""
    found: list[tuple[str, str]] = getattr(request.state, "sent", request.query_params.multi_items())
    return found


def _files(kind: str, *paths: Path) -> Response:
    return Response("".join(path.read_text(encoding="utf-8") for path in paths), 200, HEADERS, kind)
