"""The page in a real headless Chromium: no complaint, no request, nothing cut off on a phone, dark, light, and on paper."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.report.browser import Browser, chromium
from tests.report.conftest import QUESTIONS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "no Chromium here, and none could be installed (needs root and apt-get, or $CHROMIUM)"
        )
    opened = Browser(path)
    yield opened
    opened.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_it_loads_in_silence_and_fits(browser, page_of, name, width, dark):
    path = page_of(name)
    browser.visit(path, width, dark=dark)
    assert browser.complaints() == []
    assert browser.requests() == [path.resolve().as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width, "something unfolds beyond the edge"
    shown = browser.run(
        "[...document.querySelectorAll('svg.chart')].filter(s => s.getBoundingClientRect().width > 0).map(s => s.classList[1])"
    )
    assert set(shown) == {"narrow" if width < 600 else "wide"}
    size = browser.run(
        "Math.min(...[...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height).filter(h => h > 0))"
    )
    assert size >= 10, "chart text too small to read"


def luminance(colour: str) -> float:
    parts = [float(p) / 255 for p in re.findall(r"[\d.]+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out(browser, page_of, dark):
    """WCAG AA, 4.5 to 1, for every element with text of its own, charts included, against what is behind it."""
    browser.visit(page_of("llama"), 1280, dark=dark)
    found = browser.run("""(() => {
      const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$|transparent/.test(c)) return c }
                            return 'rgb(255,255,255)' };
      return [...document.querySelectorAll('body *')].filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim())
          && e.getBoundingClientRect().width > 0 && !['SCRIPT', 'title', 'desc'].includes(e.tagName))
        .map(e => [e.tagName + '.' + (e.className.baseVal ?? e.className), e.closest('svg') ? getComputedStyle(e).fill : getComputedStyle(e).color, behind(e)]) })()""")
    assert len(found) > 100
    for name, colour, behind in found:
        dim, bright = sorted((luminance(colour), luminance(behind)))
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (name, colour, behind)
    page = luminance(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert page < 0.05 if dark else page > 0.9


def test_the_dom_shows_what_the_json_holds(browser, page_of):
    browser.visit(page_of("llama"), 1280)
    embedded = browser.run("document.getElementById('roofline-data').textContent")
    data = json.loads(embedded)
    assert data["schema"] == "roofline/report/1"
    shown = browser.run("[...document.querySelectorAll('data')].map(d => [d.dataset.path, d.value])")
    for path, value in shown:
        found = data
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        assert json.loads(value) == found  # an interval is both of its ends


def test_derivations_unfold_by_a_click(browser, page_of):
    browser.visit(page_of("llama"), 1280)
    closed = browser.run("document.documentElement.scrollHeight")
    browser.run("document.querySelector('#derivations summary').click()")
    assert browser.run("document.querySelector('#derivations details').open")
    assert browser.run("document.documentElement.scrollHeight") > closed


def test_a_link_to_a_folded_number_opens_it(browser, page_of):
    browser.visit(page_of("llama"), 1280)
    browser.run("location.hash = document.querySelector('#derivations a').getAttribute('href')")
    assert browser.run(
        "(() => { for (let e = document.querySelector(location.hash).parentElement; e; e = e.parentElement)"
        " if (e.tagName == 'DETAILS' && !e.open) return false; return true })()"
    )


def test_the_keyboard_reaches_everything_that_opens(browser, page_of):
    browser.visit(page_of("llama"), 360)
    assert browser.run("[...document.querySelectorAll('summary, .scroll')].every(e => e.tabIndex == 0)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_prints_on_white(browser, page_of, dark):
    browser.visit(page_of("llama"), 1280, dark=dark, media="print")
    assert luminance(browser.run("getComputedStyle(document.body).backgroundColor")) > 0.99
    assert luminance(browser.run("getComputedStyle(document.body).color")) < 0.05
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12


def test_a_complaint_would_be_heard(browser, tmp_path):
    """The checks above can fail: a page that errs, asks for more and overflows."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><meta name=viewport content=width=device-width><p style='width:3000px'>x</p><img src='https://example.invalid/a.png'><script>nothing()</script>"
    )
    browser.visit(path, 360)
    assert any("nothing is not defined" in c for c in browser.complaints())
    assert len(browser.requests()) == 2
    assert browser.run("document.documentElement.scrollWidth") > 360
