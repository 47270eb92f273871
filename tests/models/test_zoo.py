"""The zoo: models by name, and clear words for files that are not what they should be."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import sitta
import sitta.cli.inspect
import sitta.cli.predict
import sitta.cli.zoo
from sitta.cli import app
from sitta.data.images import read
from sitta.data.phantom import write
from sitta.models import UNet, checkpoint, zoo

REAL = Path(__file__).parents[2] / "zoo"
LICENCES = re.compile(r"^- Licence: .*(owners' terms|CC0|CC BY)", re.MULTILINE)


def model(folder, name, **about):
    net = UNet(1, 1, channels=4, multipliers=(1, 2)).eval()
    said = {
        "source": name.replace("-", "/"),
        "images": {"train": 11, "validation": 3},
        "training": {"validation_dice": 0.9123},
        "preprocess": {"size": [32, 32]},
        **about,
    }
    sitta.models.save(net, folder / f"{name}.safetensors", said, half=True)
    (folder / f"{name}.md").write_text(f"# {name}\n\nA card.\n")
    return net


def record(folder):
    files = sorted(folder.glob("*.safetensors"))
    lines = [f"{zoo.digest(path)}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two models in SITTA_ZOO, and no clone."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in ("retina-rite", "chest-mcu"):
        model(folder, name)
    record(folder)
    monkeypatch.setenv("SITTA_ZOO", str(folder))
    monkeypatch.setattr(zoo, "CLONE", tmp_path / "nowhere")
    return folder


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_entries_tell_what_the_cards_say(folder):
    found = {e.name: e for e in zoo.entries()}
    assert list(found) == ["phantom-alder", "chest-mcu", "retina-rite"]
    assert [e.shipped for e in found.values()] == [True, False, False]
    mcu = found["chest-mcu"]
    assert (mcu.task, mcu.source, mcu.images, mcu.dice) == ("chest", "chest/mcu", 11, 0.9123)
    assert mcu.size == mcu.path.stat().st_size
    assert mcu.sha256 == zoo.digest(mcu.path)
    assert mcu.page.read_text().startswith("# chest-mcu")
    assert found["phantom-alder"].dice == 0.9302
    for entry in found.values():
        zoo.verify(entry)


def test_a_model_loads_by_name(folder):
    again = sitta.load("chest-mcu")
    assert again.card["source"] == "chest/mcu"
    image = torch.rand(1, 32, 32)
    assert sitta.InTEnt(again)(image).mask.shape == (32, 32)
    assert checkpoint.find("chest-mcu") == folder / "chest-mcu.safetensors"


def test_shipped_first_then_the_variable_then_the_clone(folder, tmp_path, monkeypatch):
    clone = tmp_path / "clone"
    (clone / "zoo").mkdir(parents=True)
    for name in ("chest-mcu", "chest-chn"):
        model(clone / "zoo", name)
    model(folder, "phantom-alder")
    record(folder)
    monkeypatch.setattr(zoo, "CLONE", clone)
    assert zoo.folders() == [folder]  # without checksums it is some other folder called zoo
    record(clone / "zoo")
    assert zoo.folders() == [folder, clone / "zoo"]
    assert [e.name for e in zoo.entries()] == [
        "phantom-alder",
        "chest-mcu",
        "retina-rite",
        "chest-chn",
    ]
    assert checkpoint.find("phantom-alder").parent == zoo.SHIPPED
    assert checkpoint.find("chest-mcu").parent == folder
    assert checkpoint.find("chest-chn").parent == clone / "zoo"
    monkeypatch.delenv("SITTA_ZOO")
    assert checkpoint.find("chest-mcu").parent == clone / "zoo"


def test_a_name_comes_before_a_path_and_a_path_is_no_name(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model(tmp_path, "chest-mcu")
    Path("chest-mcu").write_text("in the way")
    assert checkpoint.find("chest-mcu").parent == folder
    assert checkpoint.find("chest-mcu.safetensors") == Path("chest-mcu.safetensors")
    assert checkpoint.find(folder / "chest-mcu.safetensors").parent == folder
    assert zoo.lookup("../zoo/chest-mcu") is None


def test_an_unknown_name_is_told_all_names(folder):
    with pytest.raises(
        sitta.SittaError,
        match=r"no model or file 'chest-chn'.*phantom-alder, chest-mcu, retina-rite.*sitta zoo",
    ):
        sitta.load("chest-chn")


def test_a_changed_byte_is_refused(folder):
    path = folder / "chest-mcu.safetensors"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(
        sitta.SittaError, match=r"chest-mcu.safetensors is damaged or was changed.*git checkout zoo"
    ):
        sitta.load("chest-mcu")
    sitta.load("retina-rite")


def lfs(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 34\n")


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lfs, r"pointer of Git LFS.*git lfs pull"),
        (cut, r"not a readable safetensors file: cut short.*git checkout zoo"),
        (lambda path: path.write_bytes(b""), "not a readable safetensors file"),
        (Path.unlink, r"is not there.*git checkout zoo"),
    ],
)
def test_what_is_no_model_any_more(folder, harm, said):
    path = folder / "chest-mcu.safetensors"
    harm(path)
    with pytest.raises(sitta.SittaError, match=said):
        sitta.load("chest-mcu")
    if path.exists():
        with pytest.raises(sitta.SittaError, match=said):
            sitta.load(path)
    broken = next(e for e in zoo.entries() if e.name == "chest-mcu")
    assert re.search(said, broken.problem)
    assert (broken.task, broken.dice) == ("", None)


def test_a_model_without_a_checksum_has_no_name(folder):
    model(folder, "chest-chn")
    with pytest.raises(sitta.SittaError, match=r"not in SHA256SUMS.*sha256sum"):
        sitta.load("chest-chn")
    assert sitta.load(folder / "chest-chn.safetensors") is not None
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(sitta.SittaError, match="not in SHA256SUMS"):
        sitta.load("chest-mcu")


@pytest.mark.parametrize("line", ["nonsense", f"{'0' * 64}  ../other.safetensors", "0  a"])
def test_checksums_that_make_no_sense(folder, line):
    sums = folder / "SHA256SUMS"
    sums.write_text(f"{sums.read_text()}\n{line}\n")
    with pytest.raises(sitta.SittaError, match=r"Line 4 of .*SHA256SUMS is no checksum"):
        sitta.load("chest-mcu")
    assert sitta.load("phantom-alder") is not None


def test_checksums_as_other_programs_write_them(folder):
    sums = folder / "SHA256SUMS"
    sums.write_text(
        sums.read_text().replace("  ", " *").replace("\n", "\r\n") + "0" * 64 + "  x.md"
    )
    assert sitta.load("chest-mcu") is not None
    assert len(zoo.entries()) == 3


def test_a_variable_that_names_no_folder(folder, monkeypatch):
    monkeypatch.setenv("SITTA_ZOO", "nowhere")
    with pytest.raises(sitta.InvalidSetting, match=r"SITTA_ZOO names no folder.*nowhere"):
        sitta.load("chest-mcu")
    assert sitta.load("phantom-alder") is not None
    assert sitta.load(folder / "chest-mcu.safetensors") is not None


def test_cards_of_strangers(folder):
    model(folder, "a", images=[1], training={"validation_dice": "high"}, dice=3, source=None)
    found = next(e for e in zoo.entries() if e.name == "a")
    assert (found.images, found.dice) == (None, None)


def test_nothing_here_needs_torch():
    code = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("zoo", {str(zoo.__file__)!r})
sys.modules["zoo"] = made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
assert made.entries()[0].name == "phantom-alder"
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_the_listing(folder):
    done = run("zoo")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    line = next(x for x in done.stdout.splitlines() if "chest-mcu" in x)
    assert line.split() == ["chest-mcu", "chest/mcu", "11", "0.912", "0.1", "MB"]
    assert "no zoo here" not in done.stdout
    found = json.loads(run("zoo", "--json").stdout)
    assert [e["name"] for e in found] == ["phantom-alder", "chest-mcu", "retina-rite"]
    assert found[1]["path"] == str(folder / "chest-mcu.safetensors")
    lfs(folder / "chest-mcu.safetensors")
    assert "cannot be read" in run("zoo").stdout


def test_no_zoo_at_all(folder, monkeypatch):
    monkeypatch.delenv("SITTA_ZOO")
    done = run("zoo")
    assert done.exit_code == 0
    for word in ("phantom-alder", "no zoo here", "clone", "SITTA_ZOO"):
        assert word in done.stdout
    assert [e["name"] for e in json.loads(run("zoo", "--json").stdout)] == ["phantom-alder"]


def test_a_card(folder):
    assert run("zoo", "chest-mcu").stdout == "# chest-mcu\n\nA card.\n"
    found = json.loads(run("zoo", "chest-mcu", "--json").stdout)
    assert found["text"] == "# chest-mcu\n\nA card.\n"
    assert found["card"]["source"] == "chest/mcu"
    assert found["sha256"] == zoo.digest(folder / "chest-mcu.safetensors")
    assert "phantom/alder" in run("zoo", "phantom-alder").stdout  # which has no page
    assert "no such model" in str(run("zoo", "chest-chn").exception)


def test_verify_exits_with_1_if_a_file_differs(folder):
    done = run("zoo", "--verify")
    assert done.exit_code == 0
    assert "chest-mcu: whole" in done.stdout
    cut(folder / "chest-mcu.safetensors")
    done = run("zoo", "--verify")
    assert done.exit_code == 1
    assert "chest-mcu.safetensors is not a readable" in done.stdout
    assert "retina-rite: whole" in done.stdout
    assert run("zoo", "retina-rite", "--verify").exit_code == 0
    done = run("zoo", "--verify", "--json")
    assert done.exit_code == 1
    assert [e["whole"] for e in json.loads(done.stdout)] == [True, False, True]


def test_predict_and_inspect_by_name(folder, tmp_path):
    write(tmp_path, "rowan", 1, (40, 40))
    image = next((tmp_path / "phantom" / "rowan" / "images").iterdir())
    done = run("predict", "chest-mcu", image, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "o" / "masks" / image.name).geometry.shape == (40, 40)
    told = json.loads(run("inspect", "chest-mcu", "--json").stdout)
    assert told["card"]["source"] == "chest/mcu"
    assert told["sha256"] == zoo.digest(folder / "chest-mcu.safetensors")


def test_the_zoo_of_the_repository(monkeypatch):
    monkeypatch.delenv("SITTA_ZOO", raising=False)
    found = [e for e in zoo.entries() if not e.shipped]
    assert found
    assert {e.path.parent for e in found} == {REAL}
    assert sum(e.size for e in found) <= 45_000_000
    for entry in found:
        zoo.verify(entry)
        assert entry.size <= 6_000_000, entry.name
        assert entry.page.read_text("utf-8").startswith(f"# {entry.name}\n")
        assert LICENCES.search(entry.page.read_text("utf-8")), entry.name
        net = sitta.load(entry.name)
        image = torch.rand(1, net.config["in_channels"], 32, 32)
        assert net(image).isfinite().all(), entry.name
