"""Networks of several classes, of labels that overlap, and of volumes."""

import json

import nibabel
import numpy as np
import pytest
import torch

from sitta import InTEnt
from sitta.data import Preprocess, phantom
from sitta.data.images import read
from sitta.inference import Loaded
from sitta.serve.catalogue import Catalogue
from sitta.serve.predict_job import work
from sitta.serve.quotas import Limits
from sitta.serve.render import Rendering, kinds
from sitta.serve.store import Entry
from tests.nets import case


@pytest.fixture
def done(tmp_path):
    """Does a job on a volume in this process."""
    phantom.write(tmp_path, "elm", 1, (8, 12, 14))
    path = next(tmp_path.glob("phantom/elm/images/*"))

    def made(dims, outputs, seed=0, **settings):
        net, _ = case(dims, outputs, seed=seed)
        classes = tuple(f"c{n}" for n in range(outputs))
        catalogue = Catalogue([], Limits(), 1)
        preprocess = Preprocess(size=None, fit="none", dims=dims)
        catalogue.loaded["net"] = Loaded("net", net, preprocess, classes, "")
        out = tmp_path / "out"
        out.mkdir()
        asked = {"model": "net", "method": "intent", "settings": settings}
        answer, layout = work({**asked, "files": [str(path)], "out": str(out)}, catalogue)
        json.dumps(answer, allow_nan=False)
        values = preprocess.apply(read(path)).values
        rendering = Rendering(Entry(out, answer, layout, since=0, size=0))
        return answer, rendering, InTEnt(net, **settings)(torch.from_numpy(values))

    return made


def slices(rendering, kind, count):
    found = [rendering.raw(kind, n) for n in range(count)]
    return np.stack([np.frombuffer(b, np.uint8).reshape(s[2], *s[:2]) for b, s in found])


def test_classes(done):
    answer, rendering, p = done(2, 3, seed=4)
    assert (answer["activation"], answer["slices"], len(answer["rows"])) == ("softmax", 8, 8)
    assert answer["classes"] == ["class 1", "class 2"]  # three names were given, for two
    assert (slices(rendering, "mask", 8)[:, 0] == p.mask.numpy()).all()
    assert (slices(rendering, "members", 8) == p.member_masks.numpy().swapaxes(0, 1)).all()
    kept = nibabel.load(rendering.file("mask", ".nii.gz", None))
    assert (p.mask.numpy() == np.asarray(kept.dataobj).T).all()
    assert len(np.unique(p.mask)) > 1


def test_labels_that_overlap(done):
    answer, rendering, p = done(2, 2, activation="sigmoid")
    both = p.mask.numpy()  # (N, 2, H, W)
    assert answer["classes"] == ["c0", "c1"]
    assert (both[:, 0] & both[:, 1]).any()
    last = np.where(both[:, 1] > 0, 2, both[:, 0])
    assert (slices(rendering, "mask", 8)[:, 0] == last).all()
    assert {"mask-1.nii.gz", "mask-2.nii.gz", "probability-2.nii.gz"} <= set(kinds(answer))
    for number in (1, 2):
        kept = nibabel.load(rendering.file(f"mask-{number}", ".nii.gz", None))
        assert (both[:, number - 1] == np.asarray(kept.dataobj).T).all()
        kept = nibabel.load(rendering.file(f"probability-{number}", ".nii.gz", None))
        expected = p.probability.numpy()[:, number - 1]
        assert np.allclose(np.asarray(kept.dataobj).T, expected, atol=1e-6)


def test_a_network_of_volumes(done):
    answer, rendering, p = done(3, 1)
    assert (answer["dims"], answer["slices"], len(answer["rows"])) == (3, 8, 1)
    assert answer["rows"][0]["slice"] is None
    assert answer["rows"][0]["weights"] == pytest.approx(p.weights[:, 0].tolist(), abs=1e-6)
    mask = p.mask.numpy()[0]
    assert (slices(rendering, "mask", 8)[:, 0] == mask).all()
    assert answer["shown"] == mask.sum(axis=(1, 2)).argmax()
    shown = slices(rendering, "uncertainty", 8)[:, 0]
    assert np.abs(shown - 255 * p.uncertainty.numpy()[0]).max() <= 0.501
