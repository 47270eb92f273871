"""Publishing: half precision, cards and checksums; all or nothing, and the same bytes each time."""

import re

import pandas as pd
import pytest
import torch

import sitta
from sitta.bench.publish import zoo as module
from sitta.bench.publish.model_card import dataset, datasets, page
from sitta.bench.publish.zoo import publish
from sitta.bench.stats.rows import COLUMNS, load
from sitta.data.prepare import PREPARERS
from sitta.models import UNet, checkpoint, zoo
from tests import ROOT
from tests.nets import trained

TRUST = {"agreement": 0.83, "distance": 0.05, "images": 28, "rule": "agreement: 1 - 3 * (1 - q)."}
ABOUT = {
    "source": "chest/mcu",
    "task": "chest",
    "masks": "masks",
    "recipe": {"rate": 0.001, "batch": None, "seed": 7},
    "preprocess": {
        "size": [32, 48],
        "fit": "resize",
        "spacing": None,
        "channels": 1,
        "scale": "min-max",
        "plane": "axial",
        "dims": 2,
    },
    "preset": "compact",
    "classes": ["background", "foreground"],
    "data": "ee0934743ae965f0",
    "note": "cite | the\nowners.",
    "images": {"train": 110, "validation": 28},
    "split": "28 of 138 subjects are held out",
    "versions": {"sitta": "0.1.0", "torch": "2.13.0"},
    "training": {"validation_dice": 0.968533, "epoch": 19, "epochs": 20, "minutes": 9.08},
    "trust": TRUST,
}


def save(path, seed=0, **changes):
    torch.manual_seed(seed)
    net = UNet(1, 1, channels=4, multipliers=(1, 2))
    for p in net.parameters():
        if not p.any():  # where training starts at 0, there would be nothing to compare
            torch.nn.init.normal_(p, std=0.1)
    sitta.models.save(trained(net, (1, 16, 16)), path, {**ABOUT, **changes})
    return path


@pytest.fixture
def made(tmp_path):
    return {
        "chest-mcu": save(tmp_path / "run" / "a.safetensors"),
        "spinal-ucl": save(
            tmp_path / "run" / "b.safetensors",
            seed=1,
            source="spinal/ucl",
            task="spinal",
            masks="masks_cord",
        ),
    }


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def row(target, image, method, dice, **more):
    usual = {
        "task": "chest",
        "training": "plain",
        "source": "mcu",
        "repeat": 0,
        "lam": 1.0 if method == "source" else float("nan"),
        "strategy": "ent-baln" if method == "intent" else "",
        "members": 1 if method == "source" else 6,
        "settings": "",
        "slice": float("nan"),
    }
    return {**usual, "target": target, "image": image, "method": method, "dice": dice, **more}


def results(*more):
    figures = {"source": (0.8, 0.6, 0.7, 0.9), "intent": (0.78, 0.7, 0.695, 0.9)}
    figures["oracle"] = (0.82, 0.72, 0.75, 0.91)
    found = [
        row(target, f"i{i}", method, dice)
        for target in ("chn", "jsrt", "mcu")
        for method, values in figures.items()
        for i, dice in enumerate(values)
    ]
    return pd.DataFrame([*found, *more], columns=list(COLUMNS))


def test_the_zoo_that_comes_of_it(made, tmp_path, monkeypatch):
    place = tmp_path / "zoo"
    publish(made, place)
    assert list(contents(place)) == [
        "SHA256SUMS",
        "chest-mcu.md",
        "chest-mcu.safetensors",
        "spinal-ucl.md",
        "spinal-ucl.safetensors",
    ]
    monkeypatch.setenv("SITTA_ZOO", str(place))
    for name, path in made.items():
        assert checkpoint.card(checkpoint.find(name)) == checkpoint.card(path)
        assert (place / f"{name}.safetensors").stat().st_size < 0.7 * path.stat().st_size
    assert zoo.lookup("chest-mcu").dice == 0.968533


def test_half_precision_costs_little(made, tmp_path):
    publish(made, tmp_path / "zoo")
    image = torch.rand(4, 1, 32, 32)
    for name, path in made.items():
        before = sitta.InTEnt(sitta.load(path))(image)
        after = sitta.InTEnt(sitta.load(tmp_path / "zoo" / f"{name}.safetensors"))(image)
        assert before.probability.std() > 0.01
        torch.testing.assert_close(before.probability, after.probability, rtol=0, atol=5e-3)
        assert (before.mask != after.mask).float().mean() < 0.01


def test_the_same_bytes_again_and_again(made, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    publish(made, one, results())
    first = contents(one)
    publish(made, one, results())
    assert contents(one) == first
    publish(dict(reversed(made.items())), two, results().sample(frac=1, random_state=0))
    assert contents(two) == first
    publish({n: one / f"{n}.safetensors" for n in made}, one, results())  # from the zoo itself
    assert contents(one) == first
    publish({n: two / f"{n}.safetensors" for n in made}, tmp_path / "three", results())
    assert contents(tmp_path / "three") == first


def test_others_stay_as_they_are_and_what_is_gone_is_forgotten(made, tmp_path):
    place = tmp_path / "zoo"
    publish({"chest-mcu": made["chest-mcu"]}, place)
    other = (place / "chest-mcu.safetensors").read_bytes()
    (place / "chest-mcu.safetensors").write_bytes(other[:-1] + b"x")  # harm must not be blessed
    publish({"spinal-ucl": made["spinal-ucl"]}, place)
    assert list(zoo.recorded(place)) == ["chest-mcu", "spinal-ucl"]
    assert zoo.recorded(place)["chest-mcu"] != zoo.digest(place / "chest-mcu.safetensors")
    (place / "chest-mcu.safetensors").unlink()
    publish({"spinal-ucl": made["spinal-ucl"]}, place)
    assert list(zoo.recorded(place)) == ["spinal-ucl"]


def test_too_large_leaves_nothing_behind(made, tmp_path, monkeypatch):
    place = tmp_path / "zoo"
    publish({"chest-mcu": made["chest-mcu"]}, place)
    before = contents(place)
    size = len(before["chest-mcu.safetensors"])
    monkeypatch.setattr(module, "ZOO_LIMIT_BYTES", 2 * size - 1)
    with pytest.raises(sitta.SittaError, match=r"2 models together are too large.*Allowed:.*MB"):
        publish({"spinal-ucl": made["spinal-ucl"]}, place)
    publish({"chest-mcu": made["chest-mcu"]}, place)  # one that takes its own place counts once
    monkeypatch.setattr(module, "FILE_LIMIT_BYTES", size - 1)
    with pytest.raises(sitta.SittaError, match=r"chest-mcu is too large for the zoo.*compact"):
        publish({"chest-mcu": made["chest-mcu"]}, place)
    assert contents(place) == before


def test_the_limits_are_those_that_were_agreed():
    assert (module.FILE_LIMIT_BYTES, module.ZOO_LIMIT_BYTES) == (6_000_000, 45_000_000)


def test_what_cannot_be_published(made, tmp_path):
    for name in ("../chest-mcu", "a.safetensors", ""):
        with pytest.raises(sitta.InvalidSetting, match="no name"):
            publish({name: made["chest-mcu"]}, tmp_path / "zoo")
    net = sitta.load(made["chest-mcu"])
    with torch.no_grad():
        next(net.parameters()).fill_(1e6)
    sitta.models.save(net, tmp_path / "large.safetensors", ABOUT)
    with pytest.raises(sitta.SittaError, match="half precision cannot"):
        publish({"chest-chn": tmp_path / "large.safetensors"}, tmp_path / "zoo")
    (tmp_path / "text").write_text("no tensors")
    with pytest.raises(sitta.SittaError, match="not a readable safetensors"):
        publish({"chest-chn": tmp_path / "text"}, tmp_path / "zoo")
    assert not (tmp_path / "zoo").exists()


def test_a_card_tells_it_all(made):
    text = page("chest-mcu", sitta.load(made["chest-mcu"]))
    for words in (
        "# chest-mcu\n\nFinds both lungs in chest radiographs.",
        "| source domain | `chest/mcu` |",
        "preset `compact`, ",
        "| input | 1 channel (grey), 32 x 48, resized, intensities of each input: min-max |",
        "| classes | background, foreground |",
        "- Data set: Montgomery County chest X-ray set.",
        "110 for training, 28 held out: 28 of 138 subjects are held out.",
        "Jaeger et al.",
        "- Licence: ",
        "owners' terms.",
        "- Note: cite | the owners\n",
        "| `seed` | 7 |\n",
        "| `batch` | none |\n",
        "| epochs run | 20, the best one 19 |",
        "| version of torch | 2.13.0 |",
        "Validation Dice: 0.9685, on 28 held-out images",
        "below an agreement of 0.83",
        "above a distance of 0.05 nats",
        "agreement: 1 - 3 * (1 - q).\n",
        'sitta.load("chest-mcu")',
        "sitta predict chest-mcu image.png --out out",
        "Not a medical device",
        "It sees 32 x 48 pixels",
    ):
        assert words in text, words
    assert "Across domains" not in text
    assert "single subject" not in text
    net = sitta.load(made["chest-mcu"])
    assert f"{sum(p.numel() for p in net.parameters()):,} parameters" in text


def test_a_card_is_clean_markdown(made):
    text = page("chest-mcu", sitta.load(made["chest-mcu"]), results())
    assert text.endswith("\n")
    assert "\n\n\n" not in text
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)
    assert text.count("```") == 4
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    for mark in ("## ", "### "):
        for heading in re.findall(rf"^{mark}.+\n(.*)\n", text, re.MULTILINE):
            assert heading == ""


def test_a_spinal_card_says_what_one_subject_is_worth(made):
    text = page("spinal-ucl", sitta.load(made["spinal-ucl"]))
    assert "Trained on a single subject" in text
    assert "it shows that the method runs, and no more" in text
    assert "the spinal cord in axial slices" in text
    assert "image.nii.gz" in text


def lines(text):
    found = re.findall(r"^\| (.+) \|$", text.split("### Across domains")[1], re.MULTILINE)
    return [line.split(" | ") for line in found]


def test_figures_of_the_benchmark(made):
    distractors = [
        row("chn", "i0", "source", 0.0, lam=0.5),
        row("chn", "i0", "source", 0.0, repeat=1),
        row("chn", "i0", "source", 0.0, training="augmented"),
        row("chn", "i0", "source", 0.0, source="jsrt"),
        row("chn", "i0", "source", 0.0, task="retina"),
        row("chn", "i0", "intent", 0.0, strategy="average"),
        row("chn", "i0", "intent", 0.0, members=13),
        row("chn", "i0", "intent", 0.0, settings="variance=unbiased"),
        row("chn", "i0", "tent", 0.0),
    ]
    net = sitta.load(made["chest-mcu"])
    text = page("chest-mcu", net, results(*distractors))
    assert lines(text) == [
        ["target", "images", "Source", "InTEnt", "oracle lambda", "harmed"],
        ["---", "---:", "---:", "---:", "---:", "---:"],
        ["mcu (held out)", "4", "0.750", "0.769", "0.800", "25%"],
        ["chn", "4", "0.750", "0.769", "0.800", "25%"],
        ["jsrt", "4", "0.750", "0.769", "0.800", "25%"],
    ]
    without = results()
    without = without[without["method"] != "oracle"]
    assert lines(page("chest-mcu", net, without))[2][4] == ""
    by_slice = results()
    by_slice["slice"] = range(len(by_slice))
    by_slice["slice"] %= 4
    assert lines(page("chest-mcu", net, by_slice))[0][1] == "slices"


def test_figures_are_of_the_task_that_the_name_tells(made):
    """Two tasks of a plan may have one folder of images: the cord, and its grey matter."""
    net = sitta.load(made["spinal-ucl"])
    cord = results().assign(task="spinal", source="ucl")
    grey = cord.assign(task="grey", dice=cord["dice"] / 2)
    both = pd.concat([cord, grey])
    means = {name: lines(page(name, net, both))[2][2] for name in ("spinal-ucl", "grey-ucl")}
    assert means == {"spinal-ucl": "0.750", "grey-ucl": "0.375"}
    assert lines(page("my-model", net, both))[2][2] == "0.750"  # of the folder, if it tells none


def test_figures_are_of_the_members_of_the_plan(made):
    fine = results()
    fine["members"] = fine["members"].replace(6, 11)
    swept = row("chn", "i0", "intent", 0.0)
    text = page(
        "chest-mcu", sitta.load(made["chest-mcu"]), pd.concat([fine, results(swept).tail(1)])
    )
    assert lines(text)[3] == ["chn", "4", "0.750", "0.769", "0.800", "25%"]


def test_no_figures_no_table(made):
    net = sitta.load(made["spinal-ucl"])
    assert "Across domains" not in page("spinal-ucl", net, results())
    assert "Across domains" not in page("spinal-ucl", net, results().head(0))


def test_a_card_that_says_little(tmp_path):
    net = UNet(1, 1, channels=4, multipliers=(1, 2))
    sitta.models.save(net, tmp_path / "a.safetensors", {})
    text = page("a", sitta.load(tmp_path / "a.safetensors"), results())
    assert "- Licence: see the owners' terms." in text
    assert "Validation Dice: unknown" in text


def test_every_known_domain_has_its_papers_and_terms():
    spinal = {f"spinal/{site}" for site in ("ucl", "nwu", "philips", "juntendo", "milan", "ceitec")}
    domains = spinal | {n for n in PREPARERS if not n.startswith("spinal")}
    assert len(domains) == 12
    for name in domains:
        data = dataset(*name.split("/"))
        assert re.search(r"20\d\d", data["citation"]), name
        assert re.search(r"owners' terms|CC0", data["terms"]), name
        for text in (data["citation"], data["terms"], data["copy"]):
            assert text.endswith("."), name
        assert "{" not in data["title"]
    assert dataset("spinal", "ucl")["title"].endswith("site ucl")
    listed = {f"{t}/{n}" for t, names in datasets().items() if t != "objects" for n in names}
    assert listed - {"spinal/*"} == {n for n in domains if not n.startswith("spinal")}


@pytest.mark.parametrize("name", ["chest-jsrt", "retina-rite", "spinal-milan"])
def test_cards_beside_the_weights_are_of_the_published_rows(name, published_rows):
    text = (zoo.SHIPPED / f"{name}.md").read_text(encoding="utf-8")
    assert text == page(name, sitta.load(name), published_rows)


@pytest.fixture(scope="module")
def published_rows():
    return load(ROOT / "docs" / "results")
