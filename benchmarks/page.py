"""The page: how long after the drop of an image is its outline on the screen?

    python benchmarks/page.py [--times 11] [--side 128] [--slices 15] [--model phantom-alder]

Starts ``sitta serve`` and chromium, and drops a phantom film, then a phantom volume, by the
browser's own events. The clock of the page runs from the drop to the first frame after both
outlines of a slice are drawn, and so includes the upload, the service, the way back and the
drawing; a second time says when the whole image is done. Each time the page is loaded anew; the
first drop of each kind is told apart. Stored in page.json; page.md is written from it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser, Page, sync_playwright

from sitta.data import phantom

HERE = Path(__file__).parent
GOALS = {"film": 1.5, "volume": 3.0}  # seconds from the drop to the first outline
PATIENCE = 60.0  # seconds
WATCH = """() => {
  const pane = document.querySelector('#pane-now');
  addEventListener('drop', () => { window.began = performance.now(); }, { capture: true });
  const times = {};
  window.times = times;
  const note = (name) => {
    if (times[name]) return;
    times[name] = 1;
    requestAnimationFrame(() => { times[name] = (performance.now() - window.began) / 1000; });
  };
  new MutationObserver(() => {
    const { drawn, making = "" } = pane.dataset;
    if (making) note("image");
    if (drawn || making.endsWith("/outlined")) note("seconds");
    if (drawn) note("whole");
  }).observe(pane, { attributeFilter: ['data-drawn', 'data-making'] });
}"""
OUTLINED = """() => {
  const pane = document.querySelector('#pane-now');
  const { data } = pane.getContext('2d').getImageData(0, 0, pane.width, pane.height);
  const near = (i, colour) => colour.every((value, c) => Math.abs(data[i + c] - value) < 40);
  const count = (colour) => {
    let found = 0;
    for (let i = 0; i < data.length; i += 4) found += near(i, colour);
    return found;
  };
  return Math.min(count([0x35, 0xc4, 0xff]), count([0xff, 0xb0, 0x00]));
}"""


@contextmanager
def served(model: str) -> Iterator[str]:
    """``sitta serve`` as people start it; its address."""
    words = [sys.executable, "-m", "sitta", "serve", model, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = ""
            while "Ctrl-C" not in said:
                line = process.stdout.readline() if process.stdout else ""
                if not line:
                    sys.exit(f"sitta serve did not start: {said}")
                said += line
            yield re.findall(r"http://\S+", said)[0]
        finally:
            process.terminate()


@contextmanager
def launched() -> Iterator[Browser]:
    """The chromium of this machine."""
    where = shutil.which("chromium") or shutil.which("chromium-browser")
    if where is None:
        sys.exit("There is no chromium on the path: apt-get install chromium")
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield browser
        browser.close()


def drop(tab: Page, path: Path) -> None:
    """As a hand does it."""
    session = tab.context.new_cdp_session(tab)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 500, "y": 400, "data": data})
    session.detach()


def once(browser: Browser, address: str, path: Path, kind: str) -> dict[str, float]:
    """Seconds from the drop to the outline, and those of them that the service says it took."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        tab = context.new_page()
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]", state="attached")
        tab.evaluate(WATCH)
        drop(tab, path)
        waited = 0.0
        while "whole" not in tab.evaluate("() => window.times"):
            tab.wait_for_timeout(50)
            waited += 0.05
            if waited > PATIENCE:
                sys.exit(f"No outline: {tab.inner_text('#status')}")
        tab.wait_for_timeout(100)  # the frame after it
        times = tab.evaluate("() => window.times")
        if kind == "film" and tab.evaluate(OUTLINED) < 50:  # a slice may hold nothing
            sys.exit("The picture is there, but not both of its outlines.")
        service = re.findall(r"([\d.]+) s$", tab.inner_text("#facts"))[0]
        return {
            name: round(value, 3) for name, value in (times | {"service": float(service)}).items()
        }
    finally:
        context.close()


def drawn(folder: Path, kind: str, sides: tuple[int, ...]) -> Path:
    """The file of a phantom."""
    phantom.write(folder / kind, "rowan", 1, sides)
    return next((folder / kind / "phantom" / "rowan" / "images").iterdir())


def measure(model: str, side: int, slices: int, times: int) -> dict[str, Any]:
    """All drops, one after the other."""
    found: dict[str, Any] = {"model": model, "side": side, "slices": slices}
    found |= {"cores": os.cpu_count(), "torch": str(torch.__version__), "goals": GOALS}
    with tempfile.TemporaryDirectory() as folder, served(model) as address, launched() as browser:
        found["chromium"] = browser.version
        for kind, sides in (("film", (side, side)), ("volume", (slices, side, side))):
            path = drawn(Path(folder), kind, sides)
            drops = [once(browser, address, path, kind) for _ in range(times)]
            found[kind] = {"first": drops[0], "drops": drops[1:]}
    return found


def page(found: dict[str, Any]) -> list[str]:
    """The figures for people."""
    rows = {
        "image": "drop to image",
        "seconds": "drop to first outline",
        "whole": "drop to all of it",
        "service": "of which the service says",
    }
    side, goals = found["side"], found["goals"]
    lines = [
        "# Page",
        "",
        f"Written by `python benchmarks/page.py`: {found['cores']} cores, torch {found['torch']}, "
        f"chromium {found['chromium']}, `sitta serve {found['model']}`.",
        "",
        f"The film is a phantom of {side}x{side} pixels; the volume has {found['slices']} slices "
        f"of this size. After the first drop, each is dropped {len(found['film']['drops'])} times "
        "on a freshly loaded page. Times are seconds from the drop to the first frame that shows "
        f"it. The goals for the first outline are {goals['film']:g} s (film) and "
        f"{goals['volume']:g} s (volume).",
        "",
        "| | | first | median | least | most |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for kind in GOALS:
        first, drops = found[kind]["first"], found[kind]["drops"]
        for name, text in rows.items():
            all_ = [one[name] for one in drops if name in one]
            if name not in first or not all_:  # a fast film may be done before it is shown
                continue
            told = (first[name], statistics.median(all_), min(all_), max(all_))
            lines.append(f"| {kind} | {text} | " + " | ".join(f"{v:.2f}" for v in told) + " |")
    return lines


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=11, help="drops, with the first")
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--slices", type=int, default=15, help="of the volume")
    parser.add_argument("--model", default="phantom-alder")
    parser.add_argument("--out", type=Path, default=HERE, help="where page.json and page.md go")
    given = parser.parse_args()
    if given.times < 2:
        parser.error("--times must be at least 2: the first drop is told apart")
    found = measure(given.model, given.side, given.slices, given.times)
    (given.out / "page.json").write_text(json.dumps(found, indent=2) + "\n")
    (given.out / "page.md").write_text("\n".join(page(found)) + "\n")
    print("\n".join(page(found)))


if __name__ == "__main__":
    main()
