"""The zoo: models by name, and clear words for files that are not what they should be."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
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
from tests import ROOT

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
    """Two models in SITTA_ZOO, and one that ships."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in ("retina-rite", "chest-mcu"):
        model(folder, name)
    record(folder)
    monkeypatch.setenv("SITTA_ZOO", str(folder))
    shipped = tmp_path / "package"
    shipped.mkdir()
    shutil.copy(zoo.SHIPPED / "phantom-alder.safetensors", shipped)
    record(shipped)
    monkeypatch.setattr(zoo, "SHIPPED", shipped)
    return folder


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_entries_tell_what_the_cards_say(folder):
    found = {e.name: e for e in zoo.entries()}
    assert list(found) == ["chest-mcu", "retina-rite", "phantom-alder"]
    assert [e.shipped for e in found.values()] == [False, False, True]
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


def test_the_variable_comes_before_the_package(folder, monkeypatch):
    model(folder, "phantom-alder")
    record(folder)
    assert zoo.folders() == [folder, zoo.SHIPPED]
    assert [(e.name, e.shipped) for e in zoo.entries()] == [
        ("chest-mcu", False),
        ("phantom-alder", False),
        ("retina-rite", False),
    ]
    assert checkpoint.find("phantom-alder").parent == folder
    monkeypatch.delenv("SITTA_ZOO")
    assert zoo.folders() == [zoo.SHIPPED]
    assert checkpoint.find("phantom-alder").parent == zoo.SHIPPED
    with pytest.raises(sitta.SittaError, match="no model or file 'chest-mcu'"):
        checkpoint.find("chest-mcu")


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
        match=r"no model or file 'chest-chn'.*chest-mcu, retina-rite, phantom-alder.*sitta zoo",
    ):
        sitta.load("chest-chn")


def test_a_changed_byte_is_refused(folder):
    path = folder / "chest-mcu.safetensors"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(
        sitta.SittaError, match=r"chest-mcu.safetensors is damaged or was changed.*copy the file"
    ):
        sitta.load("chest-mcu")
    sitta.load("retina-rite")
    shipped = zoo.SHIPPED / "phantom-alder.safetensors"
    shipped.write_bytes(shipped.read_bytes()[:-1] + b"x")
    with pytest.raises(
        sitta.SittaError, match=r"damaged or was changed.*git checkout src/sitta/models/weights"
    ):
        sitta.load("phantom-alder")


def lfs(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 34\n")


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lfs, r"pointer of Git LFS.*git lfs pull"),
        (cut, r"not a readable safetensors file: cut short.*copy the file"),
        (lambda path: path.write_bytes(b""), "not a readable safetensors file"),
        (Path.unlink, r"is not there.*copy the file"),
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
assert "phantom-alder" in [e.name for e in made.entries()]
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
    found = json.loads(run("zoo", "--json").stdout)
    assert [e["name"] for e in found] == ["chest-mcu", "retina-rite", "phantom-alder"]
    assert found[0]["path"] == str(folder / "chest-mcu.safetensors")
    lfs(folder / "chest-mcu.safetensors")
    assert "cannot be read" in run("zoo").stdout


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
    assert [e["whole"] for e in json.loads(done.stdout)] == [False, True, True]


def test_predict_and_inspect_by_name(folder, tmp_path):
    write(tmp_path, "rowan", 1, (40, 40))
    image = next((tmp_path / "phantom" / "rowan" / "images").iterdir())
    done = run("predict", "chest-mcu", image, "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "o" / "masks" / image.name).geometry.shape == (40, 40)
    told = json.loads(run("inspect", "chest-mcu", "--json").stdout)
    assert told["card"]["source"] == "chest/mcu"
    assert told["sha256"] == zoo.digest(folder / "chest-mcu.safetensors")


def test_the_models_that_ship(monkeypatch):
    monkeypatch.delenv("SITTA_ZOO", raising=False)
    entries = zoo.entries()
    assert len(entries) == 13
    assert {e.path.parent for e in entries} == {zoo.SHIPPED}
    assert sum(e.size for e in entries) <= 45_000_000
    for entry in entries:
        zoo.verify(entry)
        assert entry.size <= 6_000_000, entry.name
        net = sitta.load(entry.name)
        image = torch.rand(1, net.config["in_channels"], 32, 32)
        assert net(image).isfinite().all(), entry.name
    for entry in entries:
        if entry.task != "phantom":
            assert entry.page.read_text("utf-8").startswith(f"# {entry.name}\n")
            assert LICENCES.search(entry.page.read_text("utf-8")), entry.name


def pip(*words):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *map(str, words)]
    subprocess.run([*command, "--no-deps", "--no-build-isolation"], check=True, capture_output=True)


def test_a_wheel_and_an_sdist_hold_every_file_of_the_zoo(tmp_path):
    build = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    files = {p.name for p in zoo.SHIPPED.iterdir()}
    assert len(files) == 13 + 12 + 1  # models, cards, checksums
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # as PEP 517 asks for
        wheel, sdist = build.build_wheel(str(tmp_path)), build.build_sdist(str(tmp_path))
    with zipfile.ZipFile(tmp_path / wheel) as packed:
        names = {n for n in packed.namelist() if n.startswith("sitta/models/weights/")}
    assert {Path(n).name for n in names} == files
    with tarfile.open(tmp_path / sdist) as packed:
        names = {n for n in packed.getnames() if "/src/sitta/models/weights/" in n}
    assert {Path(n).name for n in names} == files
    pip("install", "--target", tmp_path / "site", tmp_path / wheel)
    variables = {n: v for n, v in os.environ.items() if n != "SITTA_ZOO"}
    done = subprocess.run(
        [sys.executable, "-m", "sitta", "zoo", "--json"],
        cwd=tmp_path,
        env={**variables, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = json.loads(done.stdout)
    assert len(listed) == 13
    assert all(Path(e["path"]).is_relative_to(tmp_path / "site") for e in listed)
