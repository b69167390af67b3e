"""`roofline measure openai` against a server of our own that streams at a known pace, and its runs into a calibration."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import run_cli

pytest.importorskip("httpx")
FIRST, STEP = 0.12, 0.012


class Server(BaseHTTPRequestHandler):
    """Completions streamed a token at a time: FIRST seconds before the first, STEP before each further one."""

    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        self._json({"data": [{"id": "meta-llama/Llama-3.1-8B-Instruct"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(asked["prompt"])
        if self.server.refuses:
            self._json({"error": "no such\nmodel"}, 404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        count = asked["max_tokens"]
        time.sleep(FIRST)
        lumps = [" x" * count] if self.server.lumps else [" x"] * count
        for i, text in enumerate(lumps):
            if i:
                time.sleep(STEP)
            self._event({"choices": [{"text": text}]})
        self._event(
            {"choices": [], "usage": {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": count}}
        )
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, body):
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self.wfile.flush()

    def _json(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def server():
    found = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    found.seen, found.refuses, found.lumps = [], False, False
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()


def address(server):
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.mark.slow
def test_a_closed_loop_finds_the_pace_of_the_server(server, tmp_path):
    out = tmp_path / "run.jsonl"
    ran = run_cli(
        "measure",
        "vllm",
        address(server),
        "--concurrency",
        "1,4",
        "--prompt",
        "32",
        "--output",
        "16",
        "--out",
        str(out),
    )
    assert ran.code == 0, ran.err
    one, four = map(json.loads, out.read_text().splitlines())
    assert FIRST <= one["first_token_s"] < 2 * FIRST
    assert STEP <= one["inter_token_s"] < 2 * STEP
    assert (one["prompt_tokens"], one["output_tokens"], one["requests"], four["requests"]) == (32, 16, 4, 16)
    assert four["output_tokens_per_s"] > 2 * one["output_tokens_per_s"]
    assert len({p[:20] for p in server.seen if not p.startswith("1 ")}) > 15  # no prefix cache may answer
    ran = run_cli("calibrate", str(out), "--hw", "h100", "-n", "1", "--format", "json")
    assert ran.code == 0, ran.err
    assert {row["phase"] for row in ran.json["tables"][0]["rows"]} == {"decode", "ttft"}


def test_a_server_that_refuses_or_is_absent_is_one_sentence(server):
    server.refuses = True
    ran = run_cli("measure", "openai", address(server), "--concurrency", "1")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "404: " in ran.err
    ran = run_cli("measure", "openai", "http://127.0.0.1:9", "--model", "m", "--concurrency", "1")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert run_cli("measure", "openai", address(server), "--concurrency", "x").code == 2


def test_answers_in_one_piece_have_no_time_per_token(server):
    server.lumps = True
    ran = run_cli("measure", "openai", address(server), "--concurrency", "1", "--output", "16")
    assert ran.code == 2
    assert "chunks" in ran.err
