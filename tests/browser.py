"""A real browser for tests of pages, which may ask for nothing and must not complain."""

import shutil
from contextlib import contextmanager

import pytest

PATIENCE = 120_000  # milliseconds: on a busy machine all takes long; on an idle one nobody waits


@contextmanager
def launched():
    """A browser, as long as it is needed; without one, tests are skipped."""
    where = shutil.which("chromium") or shutil.which("chromium-browser")
    if where is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    tool = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with tool.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=where, args=["--no-sandbox"], timeout=PATIENCE
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture
def browse(chromium):
    """Opens files; afterwards nothing may have been fetched, and no error be in the console."""
    asked, errors, contexts = [], [], []

    def open_(file, *, script="", width=1280, **options):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.add_init_script(script)
        tab.on("request", lambda request: asked.append(request))
        tab.on("console", lambda said: errors.append(said.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(file.as_uri())
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
    fetched = [request.url for request in asked if not request.is_navigation_request()]
    assert {url.split(":")[0] for url in fetched} <= {"data"}


def eventually(tab, holds, tries=PATIENCE // 25):
    """Wait until a function of no arguments returns something true, and return that.

    Waiting for what should happen, instead of for a time, holds on idle and on busy machines.
    """
    for _ in range(tries):
        if result := holds():
            return result
        tab.wait_for_timeout(25)
    raise AssertionError("never happened")


def thread_seconds(tab):
    """CPU time of the page's main thread so far: the same on an idle and on a busy machine."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable")
    told = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return told["ThreadTime"]


def assert_accessible(tab):
    """By the rules of axe."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe here").Axe()
    found = axe.run(tab)
    assert found.violations_count == 0, found.generate_report()
