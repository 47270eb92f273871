"""Checkpoints: round trip, never half a file, and clear words for what is not one."""

import hashlib
import json
import runpy
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import sitta
from sitta._util import files
from sitta.calibration.limits import limits
from sitta.models import UNet, checkpoint
from tests import ROOT

SCRIPTS = ROOT / "scripts"
SMALL = {"channels": 4, "multipliers": (1, 2)}


@pytest.mark.parametrize("half", [False, True])
def test_round_trip(tmp_path, half):
    net = UNet(1, 2, **SMALL).eval()
    path = tmp_path / "deep" / "net.safetensors"
    sitta.models.save(net, path, {"source": "phantom/elm"}, half=half)
    again = sitta.load(path)
    assert again.config == net.config
    assert not again.training
    for (name, a), b in zip(net.state_dict().items(), again.state_dict().values(), strict=True):
        torch.testing.assert_close(
            a, b, rtol=1e-3 if half else 0, atol=1e-6 if half else 0, msg=name
        )
    assert checkpoint.card(path)["source"] == "phantom/elm"
    assert [p.name for p in path.parent.iterdir()] == ["net.safetensors"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    net = UNet(**SMALL)
    sitta.models.save(net, path, {})
    before = path.read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        sitta.models.save(net, path, {"other": 1})
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_the_shipped_model():
    path = checkpoint.find("phantom-alder")
    assert path.stat().st_size <= 2_000_000
    about = checkpoint.card(path)
    assert about["command"].startswith("python scripts/train_phantom.py --site alder")
    assert about["dice"]["alder"] > 0.9
    assert all(
        figure < about["dice"]["alder"] - 0.05
        for s, figure in about["dice"].items()
        if s != "alder"
    )


def fingerprint(path):
    """Of names, types and numbers of all tensors."""
    found = hashlib.sha256()
    for name, tensor in sorted(load_file(path).items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()


def test_the_shipped_weights_are_those_that_were_measured():
    """All figures of the docs on phantoms are theirs: new weights need new figures."""
    expected = "efc3345fa0807ec687ccd6e716c7a837c8be52c09a92ceef6c37c22ffe09ed0c"
    assert fingerprint(checkpoint.find("phantom-alder")) == expected


def test_limits_of_trust_are_added_to_the_card_and_change_no_weight(tmp_path):
    script = runpy.run_path(str(SCRIPTS / "train_phantom.py"))
    path = shutil.copy(checkpoint.find("phantom-alder"), tmp_path / "net.safetensors")
    shipped = checkpoint.card(path)
    chosen = script["add_limits"](str(path), 2, (32, 32))
    assert chosen == limits(sitta.load(path), script["unseen"]("alder", 2, (32, 32)))
    assert checkpoint.card(path) == {**shipped, "trust": chosen}
    assert fingerprint(path) == fingerprint(checkpoint.find("phantom-alder"))
    assert (shipped["trust"]["images"], chosen["images"]) == (60, 2)
    assert {"agreement", "distance", "images", "rule"} == set(shipped["trust"])


def test_what_is_not_a_checkpoint(tmp_path):
    with pytest.raises(sitta.SittaError, match=r"no model or file 'phantom-oak'.*phantom-alder"):
        sitta.load("phantom-oak")
    text = tmp_path / "a.safetensors"
    text.write_text("not tensors")
    with pytest.raises(sitta.SittaError, match="not a readable safetensors"):
        sitta.load(text)
    bare = tmp_path / "b.safetensors"
    save_file({"w": torch.zeros(1)}, bare)
    with pytest.raises(sitta.UnsupportedModel, match="does not say which network"):
        sitta.load(bare)
    other = tmp_path / "c.safetensors"
    save_file({"w": torch.zeros(1)}, other, metadata={"sitta": json.dumps({"architecture": "X"})})
    with pytest.raises(sitta.UnsupportedModel, match=r"does not know.*UNet.*X"):
        sitta.load(other)
    wrong = tmp_path / "d.safetensors"
    card = {"architecture": "UNet", "config": {"channels": 4}}
    save_file({"w": torch.zeros(1)}, wrong, metadata={"sitta": json.dumps(card)})
    with pytest.raises(sitta.UnsupportedModel, match="do not fit"):
        sitta.load(wrong)


@pytest.mark.parametrize(
    "card", ["{", '{"architecture": "UNet"}', '{"architecture": "UNet", "config": {"x": 1}}']
)
def test_a_card_that_makes_no_sense(tmp_path, card):
    path = tmp_path / "e.safetensors"
    save_file({"w": torch.zeros(1)}, path, metadata={"sitta": card})
    with pytest.raises(sitta.UnsupportedModel, match="card"):
        sitta.load(path)
