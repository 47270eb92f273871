"""The site builds without a warning, and works as static files that ask nobody for anything."""

import ast
import json
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

import sitta
from tests import ROOT
from tests.browser import eventually

pytest.importorskip("furo", reason="the site is built with furo: pip install -e '.[docs]'")
NOTEBOOKS = sorted((ROOT / "docs").rglob("[!_]*.ipynb"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, from its own build; no warning is let pass."""
    out = tmp_path_factory.mktemp("docs") / "site"
    words = [sys.executable, str(ROOT / "scripts" / "build_docs.py"), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@contextmanager
def served(folder):
    """The address of a folder, as any static host serves it."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_reader_finds_the_way_and_no_other_server_is_asked(site, chromium):
    with served(site) as home:
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        tab, asked, errors = context.new_page(), [], []
        tab.set_default_timeout(120_000)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("response", lambda answer: answer.status < 400 or errors.append(answer.url))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(home)
        tab.wait_for_url("**/docs/index.html")
        assert sitta.__version__ in tab.title()
        assert_fits_a_phone(tab)
        walk(tab)
        look_up(tab)
        context.close()
    assert errors == []
    assert len(asked) > 20
    assert [url for url in asked if not url.startswith((home, "data:"))] == []


def assert_fits_a_phone(tab):
    """Nothing is cut off, and the heading is not broken in a word."""
    size = tab.viewport_size
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    box, line = tab.locator("article h1").evaluate(
        "h => [h.clientHeight, parseFloat(getComputedStyle(h).fontSize)]"
    )
    assert box < 2 * line
    tab.set_viewport_size(size)


def walk(tab):
    """Tutorial, gallery, API and versions, by the links that a reader sees."""
    sidebar = tab.locator(".sidebar-tree")
    sidebar.get_by_role("link", name="Tutorial", exact=True).click()
    assert tab.locator("article h1").inner_text().startswith("Tutorial")
    assert_readable(tab)
    sidebar.get_by_role("link", name="Gallery", exact=True).click()
    pictures = tab.locator("article img")
    eventually(tab, lambda: pictures.count() >= 5)
    shown = "images => images.every(i => i.complete && i.naturalWidth > 200)"
    eventually(tab, lambda: pictures.evaluate_all(shown))
    assert all(pictures.evaluate_all("images => images.map(i => i.alt.length > 20)"))
    sidebar.get_by_role("link", name="Public names", exact=True).click()
    tab.locator("article").get_by_role("link", name="Methods", exact=True).click()
    tab.locator("#sitta\\.InTEnt").wait_for()  # fails if it never shows
    before = background(tab)
    tab.locator(".content-icon-container .theme-toggle").first.click()  # from light, as asked
    assert {before, background(tab)} == {"rgb(255, 255, 255)", "rgb(19, 20, 22)"}
    sidebar.get_by_role("link", name="All versions").click()
    tab.get_by_role("link", name=f"Sitta {sitta.__version__}").click()
    tab.wait_for_url(f"**/{sitta.__version__}/docs/index.html")
    tab.locator("article h1").wait_for()


def assert_readable(tab):
    """The text by the rules of axe; its frame is the theme's."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe here").Axe()
    found = axe.run(tab, context="article")
    assert found.violations_count == 0, found.generate_report()


def background(tab):
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")


def look_up(tab):
    """The search runs in the page."""
    tab.locator("input[name=q]").first.fill("expected dice")
    tab.locator("input[name=q]").first.press("Enter")
    found = tab.locator("#search-results li a")
    eventually(tab, lambda: found.count() > 3)


def test_every_page_names_only_its_own_files(site):
    """No image, script, style or font comes from another host."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    fetched = re.compile(r'<(?:img|script|iframe|source|link)\b[^>]*(?:src|href)="(?:https?:)?//')
    assert [page for page in pages if fetched.search(page.read_text("utf-8"))] == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", styles)


def test_every_public_name_is_on_the_pages_of_the_api(site):
    folder = site / sitta.__version__ / "docs" / "reference" / "python"
    text = "".join(page.read_text("utf-8") for page in folder.glob("*.html"))
    for name in set(sitta.__all__) - {"__version__", "data", "models", "Prediction"}:
        home = getattr(sitta, name).__module__
        assert f'id="sitta.{name}"' in text or f'id="{home}.{name}"' in text, name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_output_and_explain_themselves(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert cells[0]["source"][0].startswith("# ")
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]
    for cell in code:
        source = re.sub(r"(?m)^!.*$", "", "".join(cell["source"]))
        last = (ast.parse(source).body or [None])[-1]
        drawn = isinstance(last, ast.Expr) and re.match(
            r"chart|scanners|draw|.*plot", ast.unparse(last)
        )
        assert not drawn or cell["metadata"].get("alt"), "a figure needs a text for the blind"
