"""A job that is followed: the image at once, each slice as it comes, then the answer."""

import gzip
import json

import nibabel as nib
import numpy as np
import pytest

from sitta.data import phantom
from sitta.serve.negotiation import LINES

FOLLOW = {"accept": LINES}


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    home = tmp_path_factory.mktemp("volume")
    phantom.write(home, "birch", 1, (9, 40, 32))
    return next((home / "phantom" / "birch" / "images").iterdir())


def followed(small, path, **fields):
    """The events, and what could be drawn while the job was still running."""
    files = {"file": (path.name, path.read_bytes(), "application/octet-stream")}
    answer = small.ask("POST", "/api/predict", files=files, data=fields, headers=FOLLOW)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(LINES)
    return [json.loads(line) for line in answer.text.splitlines()]


def test_slices_come_from_the_middle_and_are_those_of_the_answer(small, volume):
    events = followed(small, volume)
    assert [e["event"] for e in events] == ["image", *["slice"] * 9, "answer"]
    image, *slices, last = events
    answer = last["answer"]
    assert [e["row"]["slice"] for e in slices] == [4, 3, 5, 2, 6, 1, 7, 0, 8]
    for name in ("id", "shape", "spacing", "marks", "ends", "intensity", "region", "slices"):
        assert image["answer"][name] == answer[name], name
    rows = {row["slice"]: row for row in answer["rows"]}
    for event in slices:
        row = event["row"]
        wanted = rows[row["slice"]]
        assert row["agreement"] == pytest.approx(wanted["agreement"], abs=1e-5)
        assert (row["notes"], row["look"]) == (wanted["notes"], wanted["look"])
    for kind, final in (("draft", "mask"), ("draft-source", "source")):
        late, mask = (
            small.get(f"/api/results/{answer['id']}/{name}.raw", params={"slice": 2})
            for name in (kind, final)
        )
        assert late.status_code == 200  # the mask has taken the place of the draft
        assert late.content == mask.content


def test_the_answer_is_that_of_a_job_that_is_not_followed(small, volume):
    plain = small.send(volume.read_bytes(), volume.name).json()
    answer = followed(small, volume)[-1]["answer"]
    masks = [small.get(f"/api/results/{one['id']}/mask.nii.gz").content for one in (plain, answer)]
    one, other = (np.asarray(nib.Nifti1Image.from_bytes(gzip.decompress(m)).dataobj) for m in masks)
    np.testing.assert_array_equal(one, other)


def test_what_is_drawn_meanwhile_is_the_mask_of_the_end(small, volume, monkeypatch):
    """The image and each slice can be had from the moment they are told of."""
    seen = {}
    begin = small.service.store.begin

    def begun(name, answer, layout):
        begin(name, answer, layout)
        seen["draft"] = small.service.store.get(name, draft=True)
        with pytest.raises(Exception, match="no such result"):
            small.service.store.get(name)  # nothing can be said of it yet

    monkeypatch.setattr(small.service.store, "begin", begun)
    from sitta.serve.render import Rendering

    taken = {}
    ask = small.service.pool._workers[0].ask

    def asked(job, tell):
        def told(event):
            tell(event)
            if event["event"] == "image":
                seen["layout"] = event.get("layout")
            if event["event"] == "slice":
                number = event["row"]["slice"]
                taken[number] = np.load(f"{job['out']}/draft.npy")[number].copy()
                taken["image"] = np.load(f"{job['out']}/image.npy").copy()

        return ask(job, told)

    monkeypatch.setattr(small.service.pool._workers[0], "ask", asked)
    answer = followed(small, volume)[-1]["answer"]
    entry = small.service.store.get(answer["id"])
    for number in range(9):
        content, sides = Rendering(entry).raw("mask", number)
        final = np.frombuffer(content, np.uint8).reshape(sides[:2])
        np.testing.assert_array_equal(taken[number], final)
    assert taken["image"].shape[1:] == nib.load(volume).shape
    assert seen["draft"].is_draft
    assert not entry.is_draft


def test_what_fails_at_once_is_an_error_and_no_stream(small):
    files = {"file": ("a.png", b"\x89PNG\r\n\x1a\n and nothing", "image/png")}
    answer = small.ask("POST", "/api/predict", files=files, headers=FOLLOW)
    assert answer.status_code in (415, 422)
    assert answer.json()["error"]["message"]


def test_other_planes_are_cuts_of_the_same_volume(small, volume):
    answer = small.send(volume.read_bytes(), volume.name).json()
    sides = answer["shape"]

    def plane(kind, number, side):
        query = {"slice": number, "plane": side}
        got = small.get(f"/api/results/{answer['id']}/{kind}.raw", params=query)
        assert got.status_code == 200, got.text
        high, wide = (int(got.headers[f"X-{name}"]) for name in ("Height", "Width"))
        kind_of = got.headers["X-Values"]
        return np.frombuffer(got.content, kind_of).reshape(high, wide, -1)[..., 0]

    for kind in ("image", "mask", "source"):
        slices = np.stack([plane(kind, n, 0) for n in range(sides[0])])
        np.testing.assert_array_equal(plane(kind, 7, 1), slices[:, 7])
        np.testing.assert_array_equal(plane(kind, 9, 2), slices[:, :, 9])
    out = {"slice": sides[1], "plane": 1}
    assert small.get(f"/api/results/{answer['id']}/mask.raw", params=out).status_code == 422
    query = {"slice": 20, "plane": 1}  # a file is never cut along its rows
    assert small.get(f"/api/results/{answer['id']}/mask.png", params=query).status_code == 422
