"""``sitta review``: the report of a run is served, and decisions are written beside it."""

import asyncio
import csv
import hashlib
import json
import os
import shutil
import sys

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
    for verb, path in (("GET", "/decisions"), ("GET", "/decisions.csv"), ("PUT", "/decisions")):
        answer = ask(verb, path, json={"file": names[0], "decision": "accept"})
        assert answer.status_code == 409
        assert "decisions.csv cannot be read" in answer.json()["error"]["message"]
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


@pytest.fixture
def copy(out, tmp_path):
    """A copy of the run's folder that a stranger may have changed, and one of its records."""
    shutil.copytree(out, tmp_path / "out")
    return tmp_path / "out", min((tmp_path / "out" / ".sitta").glob("*.json"))


@pytest.mark.parametrize(
    "changed",
    [
        {"outputs": ["../../../../../../../../etc/passwd"]},
        {"outputs": ["/etc/passwd"]},
        {"outputs": ["masks/../run.json"]},
        {"outputs": ["run.json"]},
        {"outputs": []},
        {"outputs": "masks/a.png"},
        {"outputs": [1]},
        {"outputs": None},
        {"name": ["a"]},
        {"name": None},
    ],
    ids=str,
)
def test_a_record_that_names_no_mask_is_refused(copy, changed):
    folder, record = copy
    record.write_text(json.dumps({**json.loads(record.read_text()), **changed}))
    with pytest.raises(InvalidSetting, match="is no record of a run"):
        Run(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_record_without_an_end_is_not_read(copy, kind):
    folder, record = copy
    record.unlink()
    if kind == "pipe":
        os.mkfifo(record)
    else:
        record.symlink_to("/dev/zero")
    with pytest.raises(InvalidSetting, match="is damaged"):
        Run(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"name": "a', b"\xff", b"[" * 100_000])
def test_a_damaged_record_is_said_in_a_sentence(copy, content):
    folder, record = copy
    record.write_bytes(content)
    with pytest.raises(InvalidSetting, match="is damaged"):
        Run(folder)


def test_a_link_shows_no_other_file(copy, tmp_path):
    folder, record = copy
    kept = json.loads(record.read_text())
    mask = folder / kept["outputs"][0]
    mask.rename(tmp_path / "store")
    mask.symlink_to(tmp_path / "store")  # as git-annex does: the mask of the run itself
    assert Run(folder).file(kept["outputs"][0]) == mask
    (tmp_path / "store").write_text("secret")
    run = Run(folder)
    assert run.file(kept["outputs"][0]) is None
    app = create_review(run, Guard(), lambda line: None)

    async def send():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            said = {"file": kept["name"], "decision": "accept"}
            first = await client.get(f"/{kept['outputs'][0]}")
            return first, await client.put("/decisions", json=said)

    shown, decided = asyncio.run(send())
    assert (shown.status_code, decided.status_code) == (404, 404)
    assert not (folder / "decisions.csv").exists()


@pytest.mark.parametrize(
    "content",
    [
        "default-src *; script-src * &#39;unsafe-inline&#39; {own}; connect-src *",
        "a&#13;&#10;Set-Cookie: x=1; script-src {own}",
        "\u0416 {own}",
    ],
)
def test_a_report_of_others_chooses_no_policy(copy, content):
    folder, _ = copy
    own = f"&#39;sha256-{'A' * 43}=&#39;"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{content.format(own=own)}">'
    (folder / "report.html").write_text(f"<html>{meta}<script>1</script>")
    text, policy = Run(folder).page()
    hashed = f"'sha256-{'A' * 43}='"
    assert policy.startswith(f"default-src 'none'; style-src {hashed}; script-src {hashed}; ")
    assert "connect-src 'self'" in policy
    assert "*" not in policy
    assert "unsafe" not in policy
    assert policy.isascii()
    assert policy.isprintable()
    assert "Security-Policy" not in text


def test_a_report_that_leads_elsewhere_is_refused(copy, tmp_path):
    folder, _ = copy
    (tmp_path / "secret").write_bytes(b"root:x:0\xff")
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidSetting, match="is no report of Sitta") as caught:
        Run(folder)
    assert "x:0" not in str(caught.value)


def test_decisions_that_no_program_wrote_are_refused(copy):
    folder, _ = copy
    (folder / "decisions.csv").mkdir()
    with pytest.raises(InvalidSetting, match="is no file"):
        Run(folder)


def test_a_review_asks_for_its_token(out):
    app = create_review(Run(out), Guard(token="t" * 20), lambda line: None)
    mask = next(iter(Run(out).outputs.values()))[0]

    async def send(method, path):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            return await client.request(method, path, json={})

    paths = ["/", "/decisions", "/decisions.csv", f"/{mask}", "/openapi.json"]
    for method, path in [("PUT", "/decisions"), *(("GET", path) for path in paths)]:
        assert asyncio.run(send(method, path)).status_code == 401
