"""Decisions, chosen and corrected masks: what is kept is what was said, in the file's geometry."""

import csv
import gzip
import hashlib
import io

import nibabel
import numpy as np
import pytest
from PIL import Image as Pillow

from sitta.data import phantom
from sitta.prediction.decisions import COLUMNS
from sitta.serve.choice import Choice
from tests.data.files import dataset, save


@pytest.fixture(scope="module")
def sent(small, tmp_path_factory):
    """Answers for a film and for a volume whose file runs another way than it is shown."""
    root = tmp_path_factory.mktemp("files")
    phantom.write(root, "rowan", 1, (40, 30))
    picture = next(root.glob("phantom/rowan/images/*"))
    chance = np.random.default_rng(0)
    affine = np.array([[0, -2, 0, 0], [1.5, 0, 0, 0], [0, 0, -3, 0], [0, 0, 0, 1.0]])
    volume = nibabel.Nifti1Image(chance.random((12, 16, 5)).astype(np.float32), affine)
    nibabel.save(volume, root / "scan.nii.gz")

    def send(file, **fields):
        answer = small.send(file.read_bytes(), file.name, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return {
        "film": lambda: send(picture, path="monday/../film.png"),
        "volume": lambda: send(root / "scan.nii.gz"),
        "affine": affine,
    }


def put(asked, answer, **said):
    return asked.ask("PUT", f"/api/results/{answer['id']}/review", json=said)


def plane(asked, answer, number=0, **query):
    got = asked.get(f"/api/results/{answer['id']}/mask.raw", params={"slice": number, **query})
    assert got.status_code == 200, got.text
    sides = [int(got.headers[name]) for name in ("X-Height", "X-Width")]
    return np.frombuffer(got.content, np.uint8).reshape(sides)


def members(asked, answer, number=0):
    got = asked.get(f"/api/results/{answer['id']}/members.raw?slice={number}")
    return np.frombuffer(got.content, np.uint8).reshape(-1, *answer["shape"][-2:])


def test_masks_of_two_thresholds_are_two_files(small, sent):
    answer, apart = sent["film"](), (0.50001, 0.50002)
    assert len({Choice(threshold=threshold).key for threshold in apart}) == 2
    for threshold in apart:
        put(small, answer, decision="accept", threshold=threshold)
    folder = small.service.store.folder(answer["id"])
    assert len(list(folder.glob("chosen-*"))) == 1  # not one for each decision


def test_a_decision_is_a_row_of_the_file(small, sent):
    answer = sent["film"]()
    assert answer["path"] == "monday/film.png"
    said = put(small, answer, decision="needs-fix", remark="=look", reviewer="A. B.")
    assert said.status_code == 200, said.text
    got = small.ask("POST", "/api/decisions.csv", json={"ids": [answer["id"]]})
    assert got.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(got.text))
    assert tuple(row) == COLUMNS
    assert row["file"] == "monday/film.png"
    assert row["remark"] == "'=look"
    assert row["time"].endswith("+00:00")
    mask = small.get(answer["links"]["mask.png"]).content
    assert row["mask_sha256"] == hashlib.sha256(mask).hexdigest()
    put(small, answer, decision="", remark="", mask="adapted")
    got = small.ask("POST", "/api/decisions.csv", json={"ids": [answer["id"]]})
    assert len(got.text.splitlines()) == 1  # nothing is said any more


def test_every_offered_mask_is_that_member(small, sent):
    answer = sent["film"]()
    assert answer["masks"][:2] == ["adapted", "unadapted"]
    all_ = members(small, answer)
    np.testing.assert_array_equal(plane(small, answer, mask="unadapted"), all_[0])
    for lam, member in zip(answer["lambdas"], all_, strict=True):
        name = f"member@{lam:.2f}"
        assert name in answer["masks"]
        np.testing.assert_array_equal(plane(small, answer, mask=name), member)
        got = small.get(f"/api/results/{answer['id']}/mask.png", params={"mask": name})
        picture = np.asarray(Pillow.open(io.BytesIO(got.content)))
        np.testing.assert_array_equal(picture > 0, member > 0)


def test_a_threshold_moves_the_mask_as_the_probability_says(small, sent):
    answer = sent["film"]()
    link = answer["links"]["probability.nii.gz"]
    image = nibabel.Nifti1Image.from_bytes(gzip.decompress(small.get(link).content))
    probability = np.squeeze(np.asarray(image.dataobj)).T
    for threshold in (0.2, 0.5, 0.8):
        expected = probability > threshold
        np.testing.assert_array_equal(plane(small, answer, threshold=threshold) > 0, expected)
    refused = small.get(
        f"/api/results/{answer['id']}/mask.raw", params={"mask": "unadapted", "threshold": 0.3}
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "bad-threshold")


def test_slices_have_masks_of_their_own_in_the_geometry_of_the_file(small, sent):
    answer = sent["volume"]()
    depth = answer["slices"]
    put(small, answer, mask="unadapted")
    said = put(small, answer, slice=2, mask="member@0.00", decision="accept").json()["decisions"]
    assert [one["slice"] for one in said] == [None, 2]
    drawn = np.zeros(answer["shape"][-2:], np.uint8)
    drawn[2:5, 3:9] = 1
    got = small.ask(
        "PUT",
        f"/api/results/{answer['id']}/corrected?slice=1",
        content=drawn.tobytes(),
    )
    assert got.status_code == 204, got.text
    np.testing.assert_array_equal(plane(small, answer, 1, mask="corrected"), drawn)
    for n in set(range(depth)) - {1}:
        np.testing.assert_array_equal(
            plane(small, answer, n, mask="corrected"),
            plane(small, answer, n, mask="member@0.00" if n == 2 else "unadapted"),
        )
    said = put(small, answer, slice=1, mask="corrected").json()["decisions"]
    assert len({one["mask_sha256"] for one in said}) == 1
    got = small.get(f"/api/results/{answer['id']}/mask.nii.gz", params={"mask": "corrected"})
    back = nibabel.Nifti1Image.from_bytes(gzip.decompress(got.content))
    np.testing.assert_allclose(back.affine, sent["affine"])
    shown = nibabel.as_closest_canonical(back)  # by an independent reader, and by hand from there
    whole = np.asarray(shown.dataobj)
    found = [whole[:, :, z][::-1, ::-1].T for z in range(depth)]
    kept = [plane(small, answer, n, mask="corrected") for n in range(depth)]
    flipped = [whole[:, :, depth - 1 - z][::-1, ::-1].T for z in range(depth)]
    assert any(
        all((a == b).all() for a, b in zip(way, kept, strict=True)) for way in (found, flipped)
    )


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"decision": "maybe"}, 422),
        ({"mask": "corrected"}, 404),
        ({"mask": "member@0.33"}, 404),
        ({"slice": 7}, 422),
        ({"slice": "1"}, 422),
        ({"threshold": 2.0}, 422),
        ({"remark": "x" * 600}, 422),
        ({"other": 1}, 422),
    ],
)
def test_what_cannot_be_said_is_refused(small, sent, said, status):
    answer = sent["film"]()
    got = put(small, answer, **said)
    assert got.status_code == status, got.text
    assert set(got.json()["error"]) == {"code", "message", "allowed", "fix"}
    path = f"/api/results/{answer['id']}/corrected"
    assert small.ask("PUT", path, content=b"\1" * 7).status_code == 422
    assert small.ask("PUT", path, content=b"\1" * 10_000).status_code == 413
    assert small.ask("PUT", path, content=b"\7" * 1200).status_code == 422
    assert small.ask("POST", "/api/decisions.csv", content=b"x" * (2**20 + 1)).status_code == 413
    assert put(small, {"id": "none"}).status_code == 404


def test_a_corrected_dicom_film_lies_on_its_film(small, tmp_path):
    film = save(tmp_path / "film.dcm", dataset(np.arange(24 * 20, dtype=np.int16).reshape(24, 20)))
    answer = small.send(film.read_bytes(), "film.dcm").json()
    drawn = np.zeros((24, 20), np.uint8)
    drawn[3:8, 5:17] = 1
    small.ask("PUT", f"/api/results/{answer['id']}/corrected", content=drawn.tobytes())
    got = small.get(f"/api/results/{answer['id']}/mask.nii.gz", params={"mask": "corrected"})
    mask = nibabel.Nifti1Image.from_bytes(gzip.decompress(got.content))
    usual = small.get(answer["links"]["mask.nii.gz"]).content
    np.testing.assert_array_equal(
        mask.affine, nibabel.Nifti1Image.from_bytes(gzip.decompress(usual)).affine
    )
    assert np.asarray(mask.dataobj).sum() == drawn.sum()
    at = np.argwhere(np.squeeze(np.asarray(mask.dataobj)) > 0)
    assert (at.min(0).tolist(), at.max(0).tolist()) in (([5, 3], [16, 7]), ([3, 5], [7, 16]))


def test_an_image_comes_as_it_is_or_in_steps(small, tmp_path):
    chance = np.random.default_rng(1)
    pixels = chance.integers(0, 65535, (50, 37), np.uint16)
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "png")
    answer = small.send(file.getvalue(), "film.png").json()

    def raw(kind, **query):
        got = small.get(f"/api/results/{answer['id']}/{kind}.raw", params=query)
        sides = [int(got.headers[name]) for name in ("X-Height", "X-Width")]
        return np.frombuffer(got.content, got.headers["X-Values"]).reshape(sides)

    np.testing.assert_array_equal(raw("image"), pixels)
    assert raw("image").dtype == np.uint16
    quarter = raw("image", step=4)
    assert quarter.shape == (13, 10)
    blocks = [
        [pixels[y : y + 4, x : x + 4].mean() for x in range(0, 37, 4)] for y in range(0, 50, 4)
    ]
    np.testing.assert_allclose(quarter, blocks, atol=0.5)
    np.testing.assert_array_equal(raw("mask", step=4), raw("mask")[::4, ::4])
    packed = small.get(f"/api/results/{answer['id']}/mask.raw", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.content) == pixels.size
    assert small.get(f"/api/results/{answer['id']}/mask.raw?step=0").status_code == 422


def test_marks_say_where_the_patient_lies(small, sent):
    assert sent["film"]()["marks"] is None
    assert sent["volume"]()["marks"] == ["R", "L", "A", "P"]
