"""A real Chromium without a window, spoken to over its DevTools pipe: nothing to install but the browser itself.

`python tests/report/browser.py` says which browser the tests use, and installs Debian's when there is none.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """The browser's path: $CHROMIUM, or what is on the path, or Debian's package, installed once where we may."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found or os.geteuid() != 0 or not shutil.which("apt-get"):
        return found
    with (Path(tempfile.gettempdir()) / "roofline-chromium.lock").open("w") as lock:
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # several test workers arrive at once: one installs, the others wait and find it
        if not any(map(shutil.which, NAMES)):
            _install()
    return next(filter(None, map(shutil.which, NAMES)), None)


def _install() -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        subprocess.run(command, env=env, capture_output=True, check=False, timeout=900)


class Browser:
    """One browser process with one tab. Requests go out on its descriptor 3, answers and events come back on 4."""

    def __init__(self, path: str):
        self.profile = tempfile.TemporaryDirectory(prefix="roofline-chromium-", ignore_cleanup_errors=True)
        (their_in, self._out), (self._in, their_out) = os.pipe(), os.pipe()
        self.process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=lambda: _descriptors(their_in, their_out),
            start_new_session=True,
        )
        os.close(their_in), os.close(their_out)
        self._count, self._buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command; events that arrive before its answer are kept."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params} | (
            {"sessionId": self.session} if self.session else {}
        )
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, event: str) -> None:
        """Until `event` was seen since the last visit began."""
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 16)
            if not chunk:
                raise RuntimeError("the browser is gone")
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(raw)

    def visit(self, path: Path, width: int, height: int = 900, *, dark: bool = False, media: str = "screen") -> None:
        """Open a file at this width with the network off, in a color scheme."""
        self.events.clear()
        self.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Console errors and warnings, exceptions, log entries since the visit."""
        kinds = {"Runtime.exceptionThrown", "Log.entryAdded"}
        return [
            json.dumps(e["params"])[:2000]
            for e in self.events
            if e.get("method") in kinds
            or (e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert"))
        ]

    def requests(self) -> list[str]:
        """Every address asked for since the visit."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def close(self) -> None:
        """End the browser and wait for it."""
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait(timeout=20)
        os.close(self._in), os.close(self._out)
        self.profile.cleanup()


def _descriptors(their_in: int, their_out: int) -> None:
    """In the child: the pipes where Chromium looks for them, however they were numbered."""
    spare_in, spare_out = os.dup(their_in), os.dup(their_out)
    os.dup2(spare_in, 3), os.dup2(spare_out, 4)


if __name__ == "__main__":
    print(chromium() or "no Chromium, and none could be installed")
    sys.exit(0 if chromium() else 1)
