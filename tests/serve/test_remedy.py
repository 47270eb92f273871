"""An image that is read another way: the masks lie in the file as if it had always been upright."""

import io

import numpy as np
import pytest
from PIL import Image as Pillow

from sitta.data import phantom


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    root = tmp_path_factory.mktemp("film")
    phantom.write(root, "alder", 1, (48, 48))
    return np.asarray(Pillow.open(next(root.glob("phantom/alder/images/*"))))


def sent(asked, pixels, **fields):
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "png")
    answer = asked.send(file.getvalue(), "film.png", **fields)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    kinds = ("mask", "source", "uncertainty")
    maps = [asked.get(f"/api/results/{said['id']}/{kind}.raw").content for kind in kinds]
    return said, [np.frombuffer(one, np.uint8).reshape(said["shape"]) for one in maps]


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_film_that_lies_on_its_side(small, film, degrees):
    _, upright = sent(small, film)
    lying = np.ascontiguousarray(np.rot90(film, degrees // 90))  # counter-clockwise
    said, maps = sent(small, lying, rotate=str(degrees))
    assert (said["rotate"], said["invert"]) == (degrees, False)
    for found, expected in zip(maps, upright, strict=True):
        back = np.rot90(expected, degrees // 90)
        assert np.abs(found.astype(int) - back).max() <= 1


def test_a_film_in_negative(small, film):
    usual, upright = sent(small, film)
    negative = (film.max() + film.min() - film).astype(film.dtype)
    said, maps = sent(small, negative, invert="true")
    assert said["invert"]
    for found, expected in zip(maps, upright, strict=True):
        assert np.abs(found.astype(int) - expected).max() <= 1
    row, other = usual["rows"][0], said["rows"][0]
    assert other["agreement"] == pytest.approx(row["agreement"], abs=1e-3)


@pytest.mark.parametrize("fields", [{"rotate": "45"}, {"invert": "yes"}])
def test_what_cannot_be_done_is_refused(small, fields):
    answer = small.send(b"x", "a.png", **fields)
    assert answer.status_code == 422
    assert answer.json()["error"]["allowed"]
