"""Take the pictures of the page and of the report in docs/images.

    python scripts/screenshots.py

The images are phantoms, the first of a stated seed; nothing is picked by eye. Needs Debian's
chromium and the development tools.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from sitta.data import phantom
from sitta.inference.demo import MODEL

SEED = 6  # of the scenes, as in scripts/hero.py
SITES = ("rowan", "fir", "cedar", "birch")
OUT = Path(__file__).parents[1] / "docs" / "images"
SIZE = {"width": 1440, "height": 900}
SITTA = [sys.executable, "-m", "sitta"]


def draw(folder: Path) -> list[Path]:
    """One phantom of each site, named after it."""
    files = []
    for site in SITES:
        phantom.write(folder, site, 1, (128, 128), seed=SEED)
        (drawn,) = (folder / "phantom" / site / "images").iterdir()
        files.append(drawn.rename(folder / f"phantom-{site}.png"))
    shutil.rmtree(folder / "phantom")
    return files


@contextmanager
def served() -> Iterator[str]:
    """The address of the page."""
    words = [*SITTA, "serve", MODEL, "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:  # noqa: S603
        assert run.stdout is not None  # noqa: S101
        found = (re.search(r"http://\S+", line) for line in run.stdout)
        yield next(hit[0] for hit in found if hit)
        run.terminate()


def page(tab: Any, files: list[Path]) -> None:
    """The page with all images, the first of the list, and a member."""
    with served() as address:
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]", state="attached")
        tab.set_input_files("#files", files)
        tab.locator(".item.done").nth(len(files) - 1).wait_for()
        tab.locator(".item").first.click()
        tab.locator("#lambda").fill("2")
        tab.wait_for_timeout(1000)  # the last frame is drawn
        tab.screenshot(path=OUT / "page.png")


def report(tab: Any, files: list[Path], folder: Path) -> None:
    """The top of the report."""
    words = [*SITTA, "predict", MODEL, *map(str, files), "-o", str(folder)]
    subprocess.run(words, check=True)  # noqa: S603
    tab.goto((folder / "report.html").as_uri())
    tab.wait_for_timeout(1000)
    tab.screenshot(path=OUT / "report.png")


def main() -> None:
    """Both pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as tool:
        chromium = shutil.which("chromium")
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        files = draw(Path(name))
        page(browser.new_page(viewport=SIZE), files)
        report(browser.new_page(viewport=SIZE), files, Path(name) / "out")
        browser.close()


if __name__ == "__main__":
    main()
