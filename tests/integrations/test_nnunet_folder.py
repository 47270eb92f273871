"""Folders of nnU-Net from strangers: refused in a sentence; needs no nnU-Net."""

import json

import pytest

from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.inference import Request
from sitta.integrations.nnunet_folder import TrainedFolder
from sitta.integrations.nnunet_run import Cases, predict_folder

DATASET = {"labels": {"background": 0, "organ": 1}, "file_ending": ".nii.gz"}


@pytest.fixture
def trained(tmp_path):
    """Makes a folder with this in its dataset.json."""

    def made(content):
        folder = tmp_path / "net"
        (folder / "fold_0").mkdir(parents=True)
        (folder / "fold_0" / "checkpoint_final.pth").touch()
        (folder / "plans.json").write_text("{}")
        (folder / "dataset.json").write_bytes(content)
        return TrainedFolder.of(f"nnunet:{folder}")

    return made


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"labels": ' + b"9" * 5000 + b"}",
        *(
            json.dumps({**DATASET, **changed}).encode()
            for changed in (
                {"labels": None},
                {"labels": ["organ"]},
                {"file_ending": 3},
                {"file_ending": ""},
                {"file_ending": "/../../x.nii"},
                {"channel_names": 10**9},
                {"channel_names": ["x"] * 10_000},
                {"modality": "MR"},
            )
        ),
    ],
    ids=range(13),
)
def test_a_damaged_description_is_refused(trained, content):
    with pytest.raises(SittaError, match=r"dataset\.json") as caught:
        _ = trained(content).ending
    assert len(str(caught.value)) < 600


def test_nothing_is_opened_before_it_is_trusted(trained, tmp_path):
    folder = trained(json.dumps(DATASET).encode())
    with pytest.raises(UnsupportedModel, match="runs any code that they hold"):
        predict_folder(Request(f"nnunet:{folder.path}"), [tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cases_whose_masks_some_file_systems_take_for_one_are_refused(trained, tmp_path):
    folder = trained(json.dumps(DATASET).encode())
    for name in ("scan", "Scan"):
        (tmp_path / f"{name}_0000.nii.gz").touch()
    if len(list(tmp_path.glob("*.nii.gz"))) < 2:
        pytest.skip("this file system takes them for one")
    with pytest.raises(InvalidSetting, match="take for one"):
        Cases(folder)([tmp_path], tmp_path / "out")
