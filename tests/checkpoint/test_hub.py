"""Names of the Hugging Face Hub, against a server on this machine that speaks its routes; each case a process of its own,
since huggingface_hub reads its settings once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub")
ROOT = Path(__file__).resolve().parents[2]
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """/{org}/{name}/resolve/{revision}/config.json, with the headers that the client reads."""

    asked: list[tuple[str, str, str]] = []

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        Hub.asked.append((self.command, self.path, self.headers.get("authorization", "")))
        parts = self.path.strip("/").split("/")
        repo, revision, file = "/".join(parts[:2]), parts[3] if len(parts) > 4 else "", parts[-1]
        code, reason = 200, ""
        if repo == "someone/secret" and self.headers.get("authorization") != "Bearer hf_right":
            code, reason = 403, "GatedRepo"
        elif repo not in ("someone/tiny", "someone/secret", "someone/bare", "someone/odd"):
            code, reason = 404, "RepoNotFound"
        elif revision not in ("main", COMMIT, "v1"):
            code, reason = 404, "RevisionNotFound"
        elif repo == "someone/bare" or file != "config.json":
            code, reason = 404, "EntryNotFound"
        text = (
            json.dumps(CONFIG | ({"model_type": "hyena"} if repo == "someone/odd" else {})).encode()
            if code == 200
            else b""
        )
        self.send_response(code)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha1(text).hexdigest()}"')
        self.send_header("Content-Length", str(len(text)))
        if reason:
            self.send_header("X-Error-Code", reason)
            self.send_header("X-Error-Message", reason)
        self.end_headers()
        if body:
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def hub(tmp_path) -> Iterator[dict[str, str]]:
    """The environment of a process that asks our server and keeps its copies in a folder of the test."""
    Hub.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    yield kept | {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": str(ROOT)}  # fmt: skip
    server.shutdown()
    server.server_close()


def roofline(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", "from rooflinecli.interfaces.cli.main import run; run()", *args]
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, cwd="/")


@pytest.mark.slow
def test_a_hub_name_is_a_model_and_its_copy_answers_offline(hub):
    first = roofline(hub, "models", "someone/tiny", "--format", "json")
    assert first.returncode == 0, first.stderr
    page = json.loads(first.stdout)
    assert page["name"] == "tiny" and page["parameters"]["total"] == 82752
    assert page["source"] == f"config.json of someone/tiny on the Hugging Face Hub, revision {COMMIT[:12]}"
    Hub.asked.clear()
    again = roofline(hub | {"HF_HUB_OFFLINE": "1"}, "models", "someone/tiny", "--format", "json")
    assert json.loads(again.stdout) == page and Hub.asked == []
    gone = roofline(hub | {"HF_ENDPOINT": "http://127.0.0.1:9"}, "models", "someone/tiny", "--format", "json")
    assert json.loads(gone.stdout) == page


@pytest.mark.slow
def test_only_the_config_is_fetched_and_the_token_goes_along(hub):
    ran = roofline(hub | {"HF_TOKEN": "hf_right"}, "models", "someone/secret")
    assert ran.returncode == 0, ran.stderr
    assert {path.rpartition("/")[2] for _, path, _ in Hub.asked} == {"config.json"}
    assert {token for _, _, token in Hub.asked} == {"Bearer hf_right"}


@pytest.mark.slow
def test_a_revision_may_follow(hub):
    assert roofline(hub, "models", "someone/tiny@v1").returncode == 0
    assert any("/resolve/v1/" in path for _, path, _ in Hub.asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "code", "says"),
    [
        ("someone/secret", {}, 2, "terms are accepted on the Hub; accept them, set HF_TOKEN"),
        ("someone/missing", {}, 2, "neither a model that comes along"),
        ("someone/bare", {}, 2, "has no config.json"),
        ("someone/tiny@v9", {}, 2, "no revision v9"),
        ("someone/tiny", {"HF_HUB_OFFLINE": "1"}, 2, "no copy of its config.json is here"),
        ("someone/tiny", {"HF_ENDPOINT": "http://127.0.0.1:9"}, 2, "no copy of its config.json is here"),
        ("someone/odd", {}, 3, "unknown type 'hyena'"),
    ],
)
def test_what_cannot_be_had_is_said_in_a_sentence(hub, name, change, code, says):
    ran = roofline(hub | change, "models", name)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert says in ran.stderr and ran.stderr.count("\n") == 1 and ran.stderr.startswith("roofline: ")


def test_a_registered_model_asks_nobody(hub):
    assert roofline(hub, "models", "meta-llama/Llama-3.1-8B").returncode == 0
    assert Hub.asked == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "owner"),
    [("acme/bert", "google-bert"), ("nobody/llama-3-8b", "meta-llama"), ("x/gpt2", "openai-community")],
)
def test_a_registered_name_of_another_organization_is_looked_up_on_the_hub(hub, name, owner):
    """The registry answers for those that publish the model (`orgs` of its file), the Hub for every other."""
    ran = roofline(hub, "models", name)
    assert (
        ran.returncode == 2
        and f"does not publish {name.rpartition('/')[2].replace('bert', 'bert-base')} ({owner}" in ran.stderr
    )
    assert Hub.asked[0][1] == f"/{name}/resolve/main/config.json"


def test_without_the_library_the_extra_is_named(hub, tmp_path):
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('not here')")
    ran = roofline(hub | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}, "models", "someone/tiny")
    assert ran.returncode == 2 and "pip install '" in ran.stderr and "[hub]'" in ran.stderr


def test_behind_a_proxy_the_library_finds_out(monkeypatch):
    """A name that no resolver here knows may be reachable through the proxy, so nothing is tried; without one, the Hub is called."""
    from rooflinecli.importers.hf import hub

    def refuse(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://proxy:3128"})
    assert hub._reachable("https://huggingface.co")
    monkeypatch.setattr("urllib.request.getproxies", dict)
    assert not hub._reachable("https://huggingface.co")
