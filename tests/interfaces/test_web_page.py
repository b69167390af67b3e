"""The page in a real headless Chromium: it answers as fields move, the address bar follows, and keyboard, phone and dark work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest
from conftest import ROOT

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from rooflinecli.interfaces.web import form
from tests.report.browser import Browser, chromium

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium here, and none could be installed")
    opened = Browser(path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def site():
    child = subprocess.Popen(
        [sys.executable, "-m", "rooflinecli.interfaces.cli.main", "serve", "--port", "0"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    yield re.search(r"http://\S+/", child.stdout.readline())[0]
    child.terminate()
    child.wait(10)


def visit(browser, url, width=1280, dark=False):
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call(
        "Emulation.setEmulatedMedia",
        media="screen",
        features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
    )
    browser.call("Page.navigate", url=url)
    browser.wait("Page.loadEventFired")


def until(browser, script, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if browser.run(script):
            return
        time.sleep(0.05)
    raise AssertionError(f"never true: {script}")


def value(browser, path):
    return browser.run(f"document.querySelector('data[data-path=\"{path}\"]')?.value")


ASKED = "?model=llama-3-8b&hw=h100&n=2&tp=2&phase=prefill,decode&batch=16"
DECODE = "estimate.phases.decode.time_s"


def test_moving_a_field_moves_the_answer_and_the_address_bar(browser, site, cli):
    visit(browser, site + ASKED)
    before = value(browser, DECODE)
    browser.run(
        "(() => { const s = document.querySelector('input[type=range][data-for=\"o-batch\"]'); s.value = 6; s.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    until(browser, "document.getElementById('answer').dataset.said?.includes('batch=64')")
    printed = cli(
        "estimate",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "2",
        "--tp",
        "2",
        "--phase",
        "prefill,decode",
        "--batch",
        "64",
        "--format",
        "json",
    ).json
    assert float(value(browser, DECODE)) == printed["phases"]["decode"]["time_s"] != float(before)
    link = browser.run("location.href")
    assert "batch=64" in link and browser.complaints() == []
    visit(browser, link)
    assert float(value(browser, DECODE)) == printed["phases"]["decode"]["time_s"]
    assert all(url.startswith((site, "data:")) for url in browser.requests())


def test_any_number_unfolds_by_keyboard(browser, site):
    visit(browser, site + ASKED)
    browser.run("document.querySelector('details[data-quantity=\"decode.time_s\"] > summary').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Enter",
            code="Enter",
            text="\r" if kind == "keyDown" else "",
            windowsVirtualKeyCode=13,
        )
    until(
        browser,
        "document.querySelector('details[data-quantity=\"decode.time_s\"] .math')?.textContent.includes('t_matmul')",
    )


def test_every_field_has_a_label_and_takes_the_keyboard(browser, site):
    visit(browser, site + ASKED)
    bare = browser.run(
        "[...document.querySelectorAll('#ask input:not([type=hidden]), #ask select')].filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)"
    )
    assert (
        bare == [] and browser.run("[...document.querySelectorAll('#ask *')].filter(e => e.tabIndex > 0).length") == 0
    )
    assert browser.run("document.querySelector('#status').getAttribute('aria-live')") == "polite"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone(browser, site, dark):
    visit(browser, site + ASKED, 360, dark)
    assert browser.run("document.documentElement.scrollWidth") <= 360 and browser.complaints() == []
    paper, ink = browser.run(
        "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"
    )
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
    assert (light[0] < light[1]) == dark


@pytest.mark.parametrize(
    "question",
    [
        "model=bert-base&hw=h100", "model=t5-base&hw=h100", "model=whisper-large-v3&hw=h100&phase=prefill,decode", "model=flux.1-dev&hw=h100",
        "model=qwen2.5-vl-7b&hw=h100&images=2", "model=clip-vit-l-14&hw=l4", "model=llama-3.1-405b&hw=rtx-4090&n=4&phase=train,decode",
    ],
)  # fmt: skip
def test_every_kind_of_model_fits_the_narrowest_phone(browser, site, question):
    visit(browser, f"{site}?{question}", 320)
    assert browser.run("document.documentElement.scrollWidth") <= 320 and browser.complaints() == []
    shown = browser.run("document.querySelector('main, body').innerText")
    assert ("Prefill TTFT" in shown) == ("flux" not in question and "train" not in question)
    asked = browser.run("document.querySelector('#o-phase').value")
    assert asked == (question.partition("phase=")[2])  # the field says what was asked: nothing, where all was answered
    assert "NaN" not in shown and "undefined" not in shown and len(shown) > 200


def test_a_wrong_question_is_said_where_the_answer_stood(browser, site):
    visit(browser, site + "?model=%3Cimg%20src=x%20onerror=alert(1)%3E&hw=h100")
    assert "unknown model" in browser.run("document.querySelector('[role=alert]').textContent")
    assert browser.run("document.images.length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 800, 1000, 1400])
@pytest.mark.parametrize("path", [ASKED, "compare", "simulate", "collective", "fit"])
def test_the_answer_is_in_view_and_the_form_is_a_side_bar_or_folded(browser, site, path, width, dark):
    visit(browser, site + path, width, dark)
    assert browser.run("document.documentElement.scrollWidth") <= width and browser.complaints() == []
    top, left = browser.run(
        "(() => { const b = document.querySelector('main section').getBoundingClientRect(); return [b.top, b.left]; })()"
    )
    form = browser.run("document.querySelector('#ask').getBoundingClientRect().width")
    assert top < 420 and browser.run("document.querySelector('#fold').open") == (width >= 1000)
    if width >= 1000:
        assert 200 < form < left
        browser.run("scrollTo(0, 1e6)")
        assert browser.run("document.querySelector('#fold').getBoundingClientRect().top") >= -1


@pytest.mark.parametrize("path", sorted({*form.VERBS} - {"estimate", "compare", "simulate", "collective", "fit"}))
def test_every_page_answers_in_silence_and_fits(browser, site, path):
    for width, dark in ((320, True), (800, False), (1400, False)):
        visit(browser, site + path, width, dark)
        assert browser.run("document.documentElement.scrollWidth") <= width and browser.complaints() == []
        assert browser.run("document.querySelector('main').getBoundingClientRect().top") < 420
        assert not browser.run("document.querySelector('[role=alert]')")
    assert browser.run(
        "[...document.querySelectorAll('#ask :is(input, select, textarea, button, summary)')]"
        ".every(e => e.type == 'hidden' || (e.tabIndex == 0 && (e.labels?.length || e.ariaLabel || e.textContent)))"
    )


def test_a_trace_is_read_from_a_file_and_posted(browser, site, tmp_path):
    file = tmp_path / "kernels.csv"
    file.write_text("Name,Time (ms)\nflash_fwd_kernel,2\n")
    visit(browser, site + "profile", 1400)
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    browser.call("DOM.setFileInputFiles", files=[str(file)], nodeId=node)
    until(browser, "document.querySelector('main h2').textContent.includes('2.00 ms in 1 launch')")
    assert "kernels" not in browser.run("location.href") and browser.complaints() == []
    assert all(url.startswith((site, "data:")) for url in browser.requests())


def press(browser, key, code, text=""):
    for kind in ("keyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            **({"text": text} if text and kind == "keyDown" else {}),
        )


def test_the_keyboard_alone_asks_pins_and_compares(browser, site):
    visit(browser, site + "?model=llama-3-8b&hw=h100&phase=decode&batch=16", 320)
    browser.run("document.querySelector('#fold > summary').focus()")
    press(browser, "Enter", 13, "\r")
    until(browser, "document.querySelector('#fold').open")
    browser.run("document.getElementById('pinning').focus()")
    press(browser, "Enter", 13, "\r")
    until(browser, "document.getElementById('pinned')?.textContent.includes('The same answer')")
    browser.run("document.querySelector('[data-for=\"o-batch\"]').focus()")
    press(browser, "ArrowRight", 39)
    until(browser, "document.getElementById('pinned')?.textContent.includes('phases.decode.time_s')")
    assert browser.run("document.getElementById('o-batch').value") == "32" and "pinned=" in browser.run("location.href")
    assert browser.complaints() == []


def test_an_empty_field_shows_the_value_in_use(browser, site):
    visit(browser, site + "?model=llama-3-8b&hw=h100&phase=decode", 1400)
    assert browser.run(
        "[document.getElementById('o-n').placeholder, document.querySelector('[data-for=\"o-batch\"]').value]"
    ) == ["1", "5"]
    visit(browser, site + "rl?model=qwen3-0.6b&hw=h100&n=1", 1400)
    assert browser.run(
        "[document.getElementById('o-prompts').placeholder, document.getElementById('o-samples').placeholder]"
    ) == ["512", "16"]
