"""A service whose disk is full answers 507, keeps no part of a result, and works again after."""

import errno

import numpy as np
import pytest

from sitta.data import Preprocess, phantom
from sitta.inference import Loaded
from sitta.serve.catalogue import Catalogue
from sitta.serve.draft import save
from sitta.serve.errors import ApiError, fault
from sitta.serve.quotas import Limits
from sitta.serve.worker import _reply
from tests.faults import failing
from tests.nets import case


def test_an_upload_that_finds_no_room(without_models):
    asked = without_models()
    with failing(asked.service.store.root, 1):
        answer = asked.send()
    assert answer.status_code == 507, asked.log
    assert answer.json()["error"]["code"] == "disk-full"
    assert asked.send().status_code != 507


@pytest.mark.parametrize("at", [1, 2])
def test_a_result_that_finds_no_room(tmp_path, at):
    phantom.write(tmp_path, "elm", 1, (12, 14))
    catalogue = Catalogue([], Limits(), 1)
    preprocess = Preprocess(size=None, fit="none")
    catalogue.loaded["net"] = Loaded("net", case(2, 1)[0], preprocess, ("c",), "")
    out = tmp_path / "out"
    out.mkdir()
    files = [str(next(tmp_path.glob("phantom/elm/images/*")))]
    job = {"model": "net", "method": "intent", "settings": {}, "files": files, "out": str(out)}
    with failing(out, at):
        kind, error = _reply(job, catalogue)
    assert (kind, error.status, error.code) == ("refused", 507, "disk-full")
    assert _reply(job, catalogue)[0] == "done"


def test_other_faults_stay_faults():
    assert fault(OSError(errno.EIO, "")).status == fault(ValueError()).status == 500
    assert isinstance(fault(OSError(errno.EDQUOT, "")), ApiError)


@pytest.mark.parametrize("kind", ["u1", "<f4", ">i2", "?"])
def test_arrays_are_those_of_numpy(tmp_path, kind):
    values = np.arange(24).reshape(2, 3, 4).astype(kind)
    save(tmp_path / "a.npy", values)
    kept = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert kept.dtype == values.dtype
    np.testing.assert_array_equal(kept, values)
