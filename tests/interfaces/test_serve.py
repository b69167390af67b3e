"""`roofline serve`: the same digits as the command line, hostile questions refused in a sentence, fifty clients at once."""

from __future__ import annotations

import concurrent.futures
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from html import unescape

import pytest
from conftest import ROOT

from tests.calibrate.logs import VLLM

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from starlette.testclient import TestClient

from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.main import VERBS
from rooflinecli.interfaces.web import form
from rooflinecli.interfaces.web.app import HEADERS, app
from rooflinecli.render.answer import to_json
from rooflinecli.render.numbers import text

ASKED = "model=llama-3-8b&hw=h100&n=2&tp=2&phase=prefill,decode&batch=16"
WORDS = ("llama-3-8b", "--hw", "h100", "-n", "2", "--tp", "2", "--phase", "prefill,decode", "--batch", "16")


@pytest.fixture(scope="module")
def client():
    return TestClient(app(), base_url="http://127.0.0.1")


def test_the_json_is_the_command_lines_byte_for_byte(client, cli):
    assert client.get(f"/api/estimate?{ASKED}").text == cli("estimate", *WORDS, "--format", "json").out


def test_the_page_shows_the_command_lines_digits(client, cli):
    printed = cli("estimate", *WORDS, "--format", "json").json["phases"]
    html = client.get(f"/?{ASKED}").text
    shown = dict(
        re.findall(r'<data value="([^"]+)" data-path="([^"]+)"', html)[i][::-1]
        for i in range(html.count("<data value="))
    )
    for phase in ("prefill", "decode"):
        for key in ("time_s", "floor_s"):
            assert float(shown[f"estimate.phases.{phase}.{key}"]) == printed[phase][key]
    assert f"<code>decode.time_s</code> = {printed['decode']['time_s']!r}" in html


def test_a_link_reproduces_the_question_and_the_answer(client):
    page, part = client.get(f"/?{ASKED}").text, client.get(f"/part?{ASKED}").text
    assert part in page
    assert 'name="batch" title=' in page and re.search(r'id="o-batch"[^>]*|value="16"', page)
    assert (
        re.search(r'<input value="16"[^>]*id="o-batch"', page) and '<option value="prefill,decode" selected="">' in page
    )


@pytest.mark.slow
def test_any_number_unfolds_into_what_explain_says(client, cli):
    html = client.get(f"/part?{ASKED}").text
    paths = re.findall(r'data-quantity="([^"]+)"', html)
    assert len(paths) > 60 and "decode.memory.kv_cache_bytes" in paths and "cost.usd_per_million_output_tokens" in paths
    for path in paths[:: len(paths) // 8]:
        got = client.get(f"/unfold?{ASKED}&quantity={path}")
        assert got.status_code == 200 and path in got.text
    explained = cli("estimate", *WORDS, "--explain", "decode.time_s", "--depth", "1").out
    assert (
        explained.split("[")[0].split("=")[1].split()[0] in client.get(f"/unfold?{ASKED}&quantity=decode.time_s").text
    )


HOSTILE = [
    "model=<script>alert(1)</script>&hw=h100", "model=../../etc/passwd&hw=h100", "model=/etc/passwd&hw=h100", "model=x.yaml&hw=h100",
    "model=llama-3-8b&hw=%00", "model=llama-3-8b&hw=h100&tp=1e400", "model=llama-3-8b&hw=h100&batch=-1", "model=llama-3-8b&hw=h100&n=999999999999999",
    "model=llama-3-8b&hw=h100&colour=red", "model=llama-3-8b&model=llama-3-70b&hw=h100", "model=llama-3-8b&hw=h100&dtype=" + "x" * 300,
    "model=llama-3-8b&hw=h100&prompt=" + urllib.parse.quote("\"><img src=x onerror=alert(1)>"), "hw=h100", "x" * 5000,
    "model=llama-3-8b&hw=h100&phase=<b>", "model=llama-3-8b&hw=h100&tp=%F0%9F%A6%99", "model=llama-3-8b&hw=h100&stages=" + "1," * 90,
]  # fmt: skip


@pytest.mark.sampled(16)
@pytest.mark.parametrize("query", HOSTILE)
@pytest.mark.parametrize("path", ["/", "/part", "/api/estimate", "/unfold"])
def test_hostile_questions_get_a_sentence(client, path, query):
    got = client.get(f"{path}?{query}")
    assert got.status_code == 400 and "Traceback" not in got.text and "root:" not in got.text
    if path == "/api/estimate":
        assert got.headers["content-type"] == "application/json" and got.json()["error"]
    else:
        assert not re.search(r"<script(?! src)|<img|<b>", got.text)
    assert {k: got.headers[k] for k in HEADERS} == HEADERS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", [v for v in form.VERBS if v not in ("plan", "search", "rl", "fleet")])
def test_every_verb_has_a_page_of_its_fields_and_answers_as_the_command_line(client, path):
    verb = form.VERBS[path]
    question = verbs.question(verb)
    written = {"check": {"plan"}, "fleet": {"file"}, "calibrate": {"files"}, "profile": {"trace"}}.get(verb, set())
    page = client.get("/" if verb == "estimate" else f"/{path}").text
    fields = set(re.findall(r'id="o-([^"]+)"', page))
    reading = {"from", "mfu", "measured"} if verb == "estimate" else {"from", *OF_A_TERMINAL.get(verb, ())}
    assert (
        fields == {f.name for f in question.fields().values() if f.kind != "file" or f.name in written} - reading
        and 'role="alert"' not in page
    )
    if verb not in ("simulate", "check", "calibrate", "profile", "quiz"):  # the time it took, its file, its seed
        given = form.example(question)
        asked = urllib.parse.urlencode({k: "\n".join(v) if isinstance(v, list) else v for k, v in given.items()})
        found = json.loads(client.get(f"/api/{path}?{asked}").text)
        answer = question.read(given).answer()
        assert found == json.loads(to_json(answer[question.rows] if verb == "hardware" else answer))


OF_A_TERMINAL = {
    "hardware": {"schema"},
    "models": {"schema", "config"},
    "prices": {"catalog", "provider"},
    "sweep": {"shard", "sensitivity"},
}


def test_every_verb_of_the_command_line_has_a_page_or_a_reason():
    pages = {verb.partition(" ")[0] for verb in form.VERBS.values()}
    assert set(VERBS) - pages == set(form.PAGELESS) - {"explain"} | {"web", "mcp"}
    assert set(VERBS) & pages >= {"sweep", "formula", "hardware", "models", "quiz", "validate", "calibrate", "profile"}


def test_a_verb_without_a_page_says_why(client):
    got = client.get("/aot")
    assert got.status_code == 404 and "roofline aot has no page: it compiles a function of a file" in got.text


def test_a_swept_page_has_the_points_of_the_command_line(client, cli):
    given = "model=llama-3-8b&hw=h100&phase=decode&batch=1..4x2&tp=1&pp=1&where=decode.tokens_per_s+%3E+200+tok%2Fs"
    words = ("--hw", "h100", "--phase", "decode", "--batch", "1..4x2", "--tp", "1", "--pp", "1", "--where", "decode.tokens_per_s > 200 tok/s")  # fmt: skip
    printed = cli("sweep", "llama-3-8b", *words, "--format", "json").json
    assert client.get(f"/api/sweep?{given}").json() == printed and len(printed["points"]) == 2
    page = client.get(f"/sweep?{given}").text
    assert "<svg" in page and "2 points over batch" in page
    assert "more than the 20,000" in client.get("/sweep?model=llama-3-8b&hw=h100&batch=1..30000").text


def test_a_formula_and_a_quiz_take_a_line_for_each_value(client):
    given = urllib.parse.urlencode({"name": "ridge_point", "arguments": "peak=989TFLOP/s\r\nbandwidth=3.35TB/s"})
    assert client.get(f"/api/formula?{given}").json()["value"] == pytest.approx(989 / 3.35)
    page = client.get("/quiz?count=2").text
    seed = re.search(r'<input value="(\d+)"[^>]*id="o-seed"', page)[1]
    asked = client.get(f"/api/quiz?count=2&seed={seed}").json()["exercises"]
    assert asked[0]["question"] in unescape(page)
    graded = client.get(f"/api/quiz?count=2&seed={seed}&answers=-%0A1+s").json()
    assert "verdict" not in graded["exercises"][0] and graded["answered"] == 1


@pytest.mark.slow
def test_a_log_is_posted(client):
    example = form.example(verbs.question("calibrate"))
    got = client.post("/calibrate/part", content=urllib.parse.urlencode(example))
    assert (
        got.status_code == 200
        and "Moved: train" in got.text
        and "sent.txt:2: median of 2 steps" in got.text
        and "/sent" not in got.text
    )


def test_a_log_that_is_posted_opens_no_other_file(client, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama", "secret": 1}')
    for name in (str(tmp_path), str(config), "no-such-organization/no-such-model"):
        log = json.dumps(VLLM | {"model_id": name})
        refused = client.post("/calibrate/part", content=urllib.parse.urlencode({"hw": "h100", "files": log}))
        assert refused.status_code == 400 and "which is no known model" in refused.text
    assert client.post("/estimate/part", content="model=llama-3-8b").status_code == 405
    assert client.post("/profile/part", content="trace=" + "x" * 17_000_000).status_code == 413


def test_what_reads_files_of_this_machine_is_refused(client):
    for query in ("trace=/etc/passwd", "trace=pyproject.toml", "prompt=pyproject.toml", "qps=trace:/etc/passwd"):
        got = client.get(f"/simulate?model=llama-3-8b&hw=h100&{query}")
        assert got.status_code == 400 and "root:" not in got.text and "setuptools" not in got.text
    refused = client.get("/api/simulate?model=llama-3-8b&hw=h100&prompt=pyproject.toml").json()["error"]
    assert "answers for names of the registry, not for files" in refused


def test_a_plan_is_written_into_its_page_and_names_no_file(client, cli, tmp_path):
    plan = form.example(verbs.question("check"))["plan"]
    (tmp_path / "plan.yaml").write_text(plan)
    got = json.loads(client.get("/api/check?" + urllib.parse.urlencode({"plan": plan})).text)
    printed = cli("check", str(tmp_path / "plan.yaml"), "--format", "json").json
    values = [
        [(r["quantity"], r["value"], r["verdict"]) for c in one["checks"] for r in c["requirements"]]
        for one in (got, printed)
    ]
    assert values[0] == values[1] and len(values[0]) == 3
    for words in ("/etc/passwd", "pyproject.toml", "[../x.yaml]"):
        hostile = urllib.parse.urlencode({"plan": plan.replace("llama-3.3-70b", words)})
        assert "not for files" in client.get(f"/check?{hostile}").text
    assert "/tmp" not in client.get("/check?" + urllib.parse.urlencode({"plan": "checks: {a: {model: nothing}}"})).text


def test_a_field_of_rl_shows_the_length_in_use(client):
    given = "model=qwen3-8b&hw=h100&n=16&tp=1&pp=1&dp=16&zero=3&recompute=full&micro-batch=1&rollout-tp=1"  # nothing is searched
    html = client.get(f"/rl/part?{given}").text
    used = json.loads(unescape(re.search(r'id="in-use" data-values="([^"]*)"', html)[1]))
    assert used["output"] == "2018.46" and used["max-output"] == 28121


def test_a_pinned_answer_shows_what_differs(client, cli):
    pinned = urllib.parse.quote(ASKED)
    html = client.get(f"/part?{ASKED.replace('batch=16', 'batch=64')}&pinned={pinned}").text
    before = cli("estimate", *WORDS, "--format", "json").json["phases"]["decode"]["time_s"]
    after = cli("estimate", *WORDS[:-1], "64", "--format", "json").json["phases"]["decode"]["time_s"]
    row = re.search(r">phases\.decode\.time_s</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", html)
    assert row.groups() == (text(before, "time_s"), text(after, "time_s"), f"{after / before - 1:+.1%}")
    assert "The same answer" in client.get(f"/part?{ASKED}&pinned={pinned}").text
    assert client.get(f"/part?{ASKED}&pinned=model%3D%3Cb%3E").status_code == 400


def test_fields_that_are_empty_show_the_value_in_use(client):
    html = client.get("/?model=llama-3-8b&hw=h100&phase=decode").text
    used = json.loads(unescape(re.search(r'<template id="in-use" data-values="([^"]*)"', html)[1]))
    assert (used["n"], used["batch"], used["prompt"], used["dtype"]) == (1, "32", "2048", "bf16")
    assert 'placeholder="5"' in client.get("/search?model=llama-3-8b&hw=h100&n=1&phase=decode").text  # --top


def test_only_its_own_name_is_answered_to(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/etc/passwd").status_code == 404 and client.post("/part").status_code == 404


def test_the_page_loads_nothing_from_elsewhere(client):
    texts = [client.get(path).text for path in ("/", "/app.js", "/style.css")]
    assert not [
        u for text in texts for u in re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]{2,}", text) if "www.w3.org" not in u
    ]


@pytest.mark.slow
def test_an_answer_costs_less_than_a_tenth_of_a_second():
    options = {"model": "llama-3-70b", "hw": "h100", "phase": "prefill,decode", "batch": "64", "tp": "8", "n": "8"}
    form.part(options)
    began = time.process_time()
    for batch in range(1, 6):
        form.part({**options, "batch": str(batch)})
    assert (time.process_time() - began) / 5 < 0.1


@pytest.fixture(scope="module")
def served():
    """The command itself, on a free port; gone when the tests are."""
    import os

    child = subprocess.Popen(
        [sys.executable, "-m", "rooflinecli.interfaces.cli.main", "serve", "--port", "0"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    line = child.stdout.readline()
    yield re.search(r"http://\S+/", line)[0]
    child.terminate()
    child.wait(10)


@pytest.mark.slow
def test_fifty_clients_at_once_get_their_own_answers(served, cli):
    def ask(batch):
        with urllib.request.urlopen(
            f"{served}api/estimate?model=llama-3-8b&hw=h100&n=1&phase=decode&batch={batch}", timeout=60
        ) as got:
            return json.loads(got.read())["phases"]["decode"]

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        found = list(pool.map(ask, range(1, 51)))
    assert [answer["batch"] for answer in found] == list(range(1, 51))
    assert found[49]["time_s"] == cli("estimate", "llama-3-8b", "--hw", "h100", "-n", "1", "--phase", "decode", "--batch", "50", "--format", "json").json["phases"]["decode"]["time_s"]  # fmt: skip
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{served}part?model=nothing", timeout=60)


def test_a_port_that_is_taken_is_said(cli):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = cli("serve", "--port", str(taken.getsockname()[1]))
    assert ran.code == 2 and "another --port" in ran.err
