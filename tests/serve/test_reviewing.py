"""``sitta review``: the report of a run is served, and decisions are written beside it."""

import asyncio
import csv
import hashlib

import httpx
import pytest

from sitta.data import phantom
from sitta.errors import InvalidSetting
from sitta.inference import Request, predict
from sitta.prediction.decisions import Decision, read, write
from sitta.serve.guard import Guard
from sitta.serve.reviewing import Run, create_review

HERE = "http://127.0.0.1:8643"


@pytest.fixture(scope="module")
def out(tmp_path_factory, graph):
    home = tmp_path_factory.mktemp("run")
    phantom.write(home, "rowan", 2, (40, 40))
    phantom.write(home / "deep", "birch", 1, (8, 24, 24))
    predict(Request(str(graph)), [home], home / "out")
    return home / "out"


@pytest.fixture
def ask(out):
    (out / "decisions.csv").unlink(missing_ok=True)
    app = create_review(Run(out), Guard(), lambda line: None)

    def asked(method, path, **options):
        async def send():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    return asked


def test_a_decision_is_written_beside_the_run(out, ask):
    run = Run(out)
    name, (mask, *_) = next(iter(run.outputs.items()))
    said = {"file": name, "decision": "reject", "remark": "=cut", "reviewer": "Ann"}
    assert ask("PUT", "/decisions", json=said).status_code == 204
    (row,) = csv.DictReader((out / "decisions.csv").read_text().splitlines())
    assert (row["decision"], row["remark"], row["reviewer"]) == ("reject", "'=cut", "Ann")
    assert row["mask_sha256"] == hashlib.sha256((out / mask).read_bytes()).hexdigest()
    (told,) = ask("GET", "/decisions").json()["decisions"]
    assert (told["file"], told["remark"]) == (name, "=cut")
    assert ask("GET", "/decisions.csv").content == (out / "decisions.csv").read_bytes()
    ask("PUT", "/decisions", json={"file": name})
    assert read(out / "decisions.csv") == []


def test_what_others_wrote_into_the_file_stays(out, ask):
    names = list(Run(out).outputs)
    other = Decision(file="elsewhere.png", decision="accept", slice=3)
    write(out / "decisions.csv", [other])
    ask("PUT", "/decisions", json={"file": names[0], "decision": "accept"})
    assert other in read(out / "decisions.csv")
    (out / "decisions.csv").write_text("a,b\n")
    with pytest.raises(InvalidSetting, match=r"decisions\.csv cannot be read"):
        Run(out)
    assert (out / "decisions.csv").read_text() == "a,b\n"


def test_only_masks_of_the_run_are_served(out, ask):
    (mask, *_) = next(iter(Run(out).outputs.values()))
    assert ask("GET", f"/{mask}").content == (out / mask).read_bytes()
    for path in ("/run.json", "/.sitta", "/masks/../run.json", "/..%2f..%2fetc%2fpasswd"):
        assert ask("GET", path).status_code == 404
    page = ask("GET", "/")
    policy = page.headers["content-security-policy"]
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert "Security-Policy" not in page.text


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"file": "none.png"}, 404),
        ({"decision": "accept"}, 422),
        ({"file": "x", "slice": 1}, 422),
    ],
)
def test_what_is_refused(ask, said, status):
    assert ask("PUT", "/decisions", json=said).status_code == status
    evil = {"Origin": "http://elsewhere.example"}
    assert ask("PUT", "/decisions", json=said, headers=evil).status_code == 403


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="no folder of a finished run"):
        Run(tmp_path)
