"""The page as a file: whole, safe whatever the names are, and with nothing from outside."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sitta._util import files
from sitta.report import page
from tests.report.sample import a_picture, a_record, a_row, a_run

HOSTILE = [
    "</script><script>window.hacked=1</script>.png",
    "<img src=x onerror='window.hacked=1'>.png",
    "\"quoted\" & 'single' `tick` ${1} \\u003c.png",
    "<!--<script>.png",
    "ελληνικά 画像 🫁 \u2028\u202e.png",
    "javascript:window.hacked=1",
    "not-unicode-\udcff.png",
    "{{ 7 * 7 }}.png",
]


def data(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


def written(tmp_path, records, **run):
    path = tmp_path / "report.html"
    page.write(path, a_run(**run), records)
    return path.read_text(encoding="utf-8")


def test_summary(tmp_path):
    noted = a_record("b.png", rows=[a_row(notes=["members-disagree"])])
    quiet = a_record("c.png", rows=[a_row(notes=["no-statistics"])])
    text = written(tmp_path, [a_record(), noted, quiet])
    for words in (
        "Scans of Tuesday",
        "phantom-alder",
        "sha256:0123",
        "InTEnt",
        "2025-03-04 09:12",
        "1 min 32 s",
        "For research; not a medical device",
        "broken.png",
        "The file is not a readable PNG.",
        "<noscript>",
    ):
        assert words in text
    assert re.search(r"<b>1</b>\s+needs a look", text)
    assert [card["look"] for card in data(text)["records"]] == [False, True, False]
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_records_come_by_doubt_and_short(tmp_path):
    rows = [a_row(at=i, agreement=i / 10, notes=["members-disagree"][: i == 2]) for i in range(10)]
    unknown = a_record("u.png", float("nan"), rows=[a_row(distance=np.inf, change=None)])
    text = written(tmp_path, [a_record("a.png", 0.1), a_record("v.nii", 0.9, rows=rows), unknown])
    cards = data(text)["records"]
    assert [card["name"] for card in cards] == ["v.nii", "a.png", "u.png"]
    assert cards[0]["agreements"] == [i / 10 for i in range(10)]
    assert cards[0]["noted"] == {"2": ["members-disagree"]}
    assert cards[2]["doubt"] is cards[2]["row"]["distance"] is cards[2]["row"]["change"] is None
    assert len(json.dumps(cards[0])) - len(json.dumps(cards[1])) < 200  # only the shown slice whole


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_leave_their_place(tmp_path, name):
    failures = [{"name": name, "error": name}]
    said = {"title": name, "model": name, "machine": name, "settings": {name: name}}
    text = written(tmp_path, [a_record(name)], failures=failures, **said)
    plain = written(tmp_path, [a_record("x")], failures=[{"name": "x", "error": "x"}])
    assert data(text)["records"][0]["name"] == name
    tags = re.compile(r"<[a-z!/][^\s>]*")
    assert len(tags.findall(text)) == len(tags.findall(plain))
    assert "49.png" not in text


def test_the_policy_allows_this_style_and_script_only(tmp_path):
    text = written(tmp_path, [a_record()])
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"(?:src|href)=\"(?!#)", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "innerHTML" not in text
    assert "url(" not in text


def test_the_scale_has_the_colours_of_the_map():
    import matplotlib
    from matplotlib.colors import to_hex

    css = (Path(page.__file__).parent / "report.css").read_text(encoding="utf-8")
    stops = re.findall("#[0-9a-f]{6}", re.search(r"linear-gradient\(([^)]*)\)", css)[1])
    magma = matplotlib.colormaps["magma"]
    assert stops == [to_hex(magma(v)) for v in np.linspace(0, 1, len(stops))]


def test_a_failed_write_leaves_the_old_report(tmp_path, monkeypatch):
    written(tmp_path, [a_record()])
    before = (tmp_path / "report.html").read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        written(tmp_path, [])
    assert (tmp_path / "report.html").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_nothing_to_show(tmp_path):
    counts = {"done": 0, "skipped": 0, "failed": 0}
    text = written(tmp_path, [], counts=counts, failures=[], started="yesterday", seconds=7300)
    assert "yesterday" in text
    assert "2 h 1 min" in text
    assert "no mask" not in text


def test_a_code_without_a_sentence_stands_for_itself(tmp_path):
    page.write(tmp_path / "r.html", a_run(), [a_record(rows=[a_row(notes=["new-code"])])])
    assert data((tmp_path / "r.html").read_text())["notes"] == {
        "new-code": ["check", "new-code", ""]
    }


def test_500_records_make_a_small_file(tmp_path):
    drawn = a_picture(shape=(256, 256))
    written(tmp_path, [a_record(f"{i}.png", i / 500, drawn=drawn) for i in range(500)])
    assert (tmp_path / "report.html").stat().st_size < 15_000_000


def test_the_report_does_not_import_torch():
    code = (
        "import sys, sitta.report.page, sitta.report.card_image; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
