"""``sitta review`` in a real browser: decisions go to the folder of the run, and come back."""

import json
import threading

import pytest
import uvicorn

from sitta.prediction.decisions import read
from sitta.report import page
from sitta.serve.guard import Guard
from sitta.serve.reviewing import Run, create_review
from tests.browser import assert_accessible, eventually
from tests.report.sample import BY_DOUBT, a_run, several


@pytest.fixture
def out(tmp_path):
    """A folder as ``sitta predict`` leaves it, without its model."""
    records = several()
    (tmp_path / ".sitta").mkdir()
    for number, record in enumerate(records):
        mask = tmp_path / record["output"]
        mask.parent.mkdir(parents=True, exist_ok=True)
        mask.write_bytes(b"%d" % number)
        kept = {"name": record["name"], "outputs": [record["output"]]}
        (tmp_path / ".sitta" / f"{number}.json").write_text(json.dumps(kept))
    page.write(tmp_path / "report.html", a_run(), records)
    return tmp_path


@pytest.fixture
def served(out):
    app = create_review(Run(out), Guard(), lambda line: None)
    options = {"log_level": "error", "ws": "none", "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(app, port=0, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_decisions_go_to_the_folder_and_come_back(chromium, out, served):
    errors = []
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.on("console", lambda said: errors.append(said.text))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(served)
    tab.keyboard.press("j")
    tab.keyboard.press("1")
    tab.keyboard.press("r")
    tab.keyboard.type("=apex")
    tab.keyboard.press("Enter")
    tab.keyboard.press("3")
    eventually(tab, lambda: [one.decision for one in read(out / "decisions.csv")][1:] == ["reject"])
    said = {one.file: one for one in read(out / "decisions.csv")}
    assert said[BY_DOUBT[0]].decision == "accept"
    assert said[BY_DOUBT[1]].remark == "=apex"
    tab.reload()
    eventually(tab, lambda: tab.inner_text("#reviewed") == "2 of 4 reviewed")
    assert_accessible(tab)
    context.close()
    assert errors == []
