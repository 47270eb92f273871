"""Profiles: read strictly, written so that they read back, and kept inside checkpoints."""

import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import sitta
from sitta.core.masks import labels
from sitta.data import Preprocess
from sitta.models.profile import ClassInfo, Profile, ProfileError, profile_of_card
from sitta.models.profile.card import card_of_profile
from sitta.models.profile.writing import text as toml

MODEL = '[model]\nfactory = "net.py:build"\n'
HEAD = "profile = 1\n" + MODEL
CLASSES = '[[classes]]\nname = "disc"\n[[classes]]\nname = "cup"\n'

BROKEN = {  # text of a file, and what the message must say
    "no TOML": ("profile = ", "is not TOML"),
    "no text": (b"\xff\xfe", "not a text file"),
    "empty": ("", "does not say its version.*profile = 1"),
    "newer": ("profile = 2", "Allowed: 1. Got: 2.*update Sitta"),
    "version as text": ('profile = "1"', "profile: The profile has a version.*Got: '1'"),
    "version true": ("profile = true", "version.*Got: True"),
    "misspelt table": ("profile = 1\n[modle]", "no entry 'modle'.*Did you mean 'model'"),
    "misspelt key": (HEAD + 'wieghts = "a.pt"', "model: .*'wieghts'.*Did you mean 'weights'"),
    "old spelling": ('profile = 1\nlicense = "MIT"', "'license'.*Did you mean 'licence'"),
    "model is text": ('profile = 1\nmodel = "a"', "model: This is not a table"),
    "two sources": (HEAD + 'checkpoint = "chest-mcu"', "two places.*factory and checkpoint"),
    "no function": ('profile = 1\n[model]\nfactory = "net.py"', "factory: .*file.py:function"),
    "no such name": ('profile = 1\n[model]\nfactory = "net:a-b"', "'factory' cannot be used"),
    "weights alone": ('profile = 1\n[model]\nweights = "a.pt"', "weights: .*goes with a factory"),
    "weights pickled": (HEAD + 'weights = "a.pkl"', "weights: .*safetensors, .pt"),
    "arguments": (HEAD + "arguments = [1]", "arguments: .*Allowed: a table"),
    "arguments of none": (
        'profile = 1\n[model]\ncheckpoint = "a"\narguments = {a = 1}',
        "'arguments' goes with a factory",
    ),
    "no graph": ('profile = 1\n[model]\nonnx = "a.pt"', "onnx: .*an .onnx file"),
    "graph read otherwise": (
        'profile = 1\n[model]\nonnx = "a.onnx"\nactivation = "sigmoid"',
        "activation: .*part of an exported graph.*leave it out",
    ),
    "graph by windows": (
        'profile = 1\n[model]\nonnx = "a.onnx"\n[inference]\nwindow = [8, 8]',
        "inference.window: .*takes each input whole",
    ),
    "output": (HEAD + "output = 1.5", "output: .*a key.*an index.*Got: 1.5"),
    "activation": (
        HEAD + 'activation = "probability"',
        "activation: .*Did you mean 'probabilities'.*logits, sigmoid, softmax",
    ),
    "classes are names": ('profile = 1\nclasses = ["a"]\n' + MODEL, r"\[\[classes\]\]"),
    "class without name": (HEAD + '[[classes]]\ncolour = "#000000"', r"classes\[0\]: .*no name"),
    "background named": (HEAD + '[[classes]]\nname = "Background"', r"classes\[0\]: .*class 0"),
    "two of one name": (HEAD + CLASSES.replace("cup", "disc"), r"classes\[1\].name: Two classes"),
    "colour": (HEAD + CLASSES + 'colour = "red"', r"classes\[1\].colour: .*#d55e00.*Got: 'red'"),
    "threshold": (HEAD + CLASSES + "threshold = 40", r"classes\[1\].threshold: .*> 0 and < 1"),
    "class key": (HEAD + CLASSES + "color = 1", "'color'.*Did you mean 'colour'"),
    "scale": (HEAD + '[preprocess]\nscale = "minmax"', "preprocess: .*Did you mean 'min-max'"),
    "preprocess key": (HEAD + "[preprocess]\nsizes = [1, 1]", "preprocess: .*'sizes'.*'size'"),
    "sides": (HEAD + "[preprocess]\nsize = [8]", "preprocess: size needs one number a side"),
    "fit": (HEAD + '[preprocess]\nfit = "none"\nsize = [8, 8]', "preprocess: .*takes no size"),
    "window": (HEAD + "[inference]\nwindow = [64]", "inference.window: .*2 or 3 whole numbers"),
    "window of another rank": (
        HEAD + "[preprocess]\nsize = [8, 8]\n[inference]\nwindow = [8, 8, 8]",
        "inference.window: A window needs one number a side.*Allowed: 2. Got: .8, 8, 8",
    ),
    "overlap": (HEAD + "[inference]\noverlap = 1.0", "inference.overlap: .*>= 0 and < 1"),
    "statistics": (HEAD + '[inference]\nstatistics = "image"', "volume, window.*Got: 'image'"),
    "holes": (HEAD + '[postprocess]\nfill_holes = "yes"', "postprocess.fill_holes: .*true, false"),
    "unknown class": (
        HEAD + '[postprocess]\nlargest_component = ["cap"]\n' + CLASSES,
        "postprocess.largest_component: There is no class 'cap'.*disc, cup",
    ),
    "limits": (HEAD + '[trust]\nagreement = "low"', "trust.agreement: .*a number"),
    "calibration elsewhere": ('calibration = "../a.json"\n' + HEAD, "calibration: .*not beside"),
    "calibration lost": ('calibration = "a.json"\n' + HEAD, "sitta calibrate"),
    "calibration is a picture": ('calibration = "a.png"\n' + HEAD, "'calibration' cannot be used"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_profile_is_told_in_a_sentence_of_its_own(kind, tmp_path):
    content, said = BROKEN[kind]
    path = tmp_path / "model.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ProfileError, match=said) as raised:
        Profile.read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}")
    assert message.count(str(path)) == 1
    assert len(message) < 400
    assert "\n" not in message


def test_the_messages_differ(tmp_path):
    path, seen = tmp_path / "model.toml", set()
    for content, _ in BROKEN.values():
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ProfileError) as raised:
            Profile.read(path)
        seen.add(str(raised.value))
    assert len(seen) == len(BROKEN) > 25


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ProfileError, match=r"no such profile.*sitta profile new"):
        Profile.read(tmp_path / "model.toml")


def test_a_folder_is_no_profile(tmp_path):
    with pytest.raises(ProfileError, match="is a folder"):
        Profile.read(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders")
def test_a_pipe_is_no_profile(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ProfileError, match="is a pipe"):
        Profile.read(tmp_path / "pipe.toml")


def whole():
    return Profile(
        factory="nets.py:build",
        arguments={"width": 8, "name": 'a "b" \\ \x7f ü\n', "deep": {"x": [1, 2.5, True]}},
        weights="net.safetensors",
        output="out",
        activation="probabilities-sigmoid",
        classes=(ClassInfo("disc", "#d55e00", 0.4), ClassInfo("cup")),
        preprocess=Preprocess(size=None, fit="none", channels=3, spacing=(0.5, 0.5)),
        window=(64, 64),
        overlap=0.5,
        statistics="window",
        largest_component=("disc",),
        fill_holes=True,
        source="chest/mcu",
        licence="CC BY 4.0",
        citation="A. Author, 2024",
        note="for tests",
        trust={"agreement": 0.8, "distance": 1.5},
        calibration={"version": 1, "mean": "AAAA" * 1000},
    )


def test_what_is_written_reads_back(tmp_path):
    whole().write(tmp_path / "model.toml")
    again = Profile.read(tmp_path / "model.toml")
    assert dict(again.calibration) == dict(whole().calibration)
    assert again.changed(calibration=whole().calibration) == whole()
    assert again.folder == tmp_path
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.calibration.json", "model.toml"]


def test_the_calibration_is_read_when_it_is_used(tmp_path):
    whole().write(tmp_path / "model.toml")
    (tmp_path / "model.calibration.json").write_text("{")
    profile = Profile.read(tmp_path / "model.toml")
    assert profile.licence == "CC BY 4.0"
    with pytest.raises(sitta.InvalidSetting, match="no JSON"):
        profile.calibration["version"]


def test_toml_is_what_python_reads():
    tables = {
        "a": 1,
        "b c": [1.5, -2e-9, "x", []],
        "t": {"q": "\x00\x1f\x7f\"'\\\n\té", "ok": False, "in": {"d": [{"e": 1}]}},
        "l": [{"n": 1}, {"n": 2, "m": {}}],
    }
    assert tomllib.loads(toml(tables)) == tables


def test_every_entry_that_is_left_out_has_its_usual_value():
    profile = Profile.from_dict(tomllib.loads(HEAD))
    assert profile == Profile(factory="net.py:build")
    assert (profile.preprocess, profile.thresholds, profile.reading) == (None, (), {})


def test_a_profile_goes_over_what_a_checkpoint_says():
    base = Profile(
        checkpoint="a",
        classes=(ClassInfo("organ"),),
        preprocess=Preprocess(size=(64, 64), scale="z-score"),
        note="old",
    )
    own = tomllib.loads('profile = 1\nnote = "new"\n[preprocess]\nsize = [32, 32]')
    both = Profile.from_dict(own).over(base)
    assert (both.note, both.names) == ("new", ("organ",))
    assert both.preprocess == Preprocess(size=(32, 32), scale="z-score")


def test_changes_are_checked_like_entries():
    profile = Profile(classes=(ClassInfo("a"), ClassInfo("b")))
    assert profile.changed(thresholds=(0.3,)).thresholds == (0.3, 0.3)
    assert profile.changed(thresholds=(0.3, 0.7)).thresholds == (0.3, 0.7)
    assert profile.changed(output=None, activation=None) is profile
    with pytest.raises(sitta.InvalidSetting, match="one for each of a, b"):
        profile.changed(thresholds=(0.1, 0.2, 0.3))
    with pytest.raises(sitta.InvalidSetting, match="> 0 and < 1"):
        profile.changed(thresholds=(1.5,))
    with pytest.raises(sitta.InvalidSetting, match="Did you mean 'softmax'"):
        profile.changed(activation="softmaxx")


def test_a_card_of_before_is_a_profile():
    card = {
        "source": "chest/mcu",
        "classes": ["background", "lung"],
        "preprocess": {"size": [64, 64]},
        "trust": {"agreement": 0.9, "distance": 0.1, "images": 60, "rule": "r", "more": 1},
        "note": "n",
    }
    profile = profile_of_card(card)
    assert profile.names == ("lung",)
    assert profile.preprocess.size == (64, 64)
    assert profile.trust == {"agreement": 0.9, "distance": 0.1, "images": 60, "rule": "r"}
    assert (profile.source, profile.note) == ("chest/mcu", "n")
    assert profile_of_card({}).names == ()


def test_a_card_holds_the_whole_profile_but_where_it_is():
    card = card_of_profile(whole())
    assert card["classes"] == ["background", "disc", "cup"]  # for older versions
    again = profile_of_card(card)
    home = {"factory": None, "arguments": {}, "weights": None}
    assert {**vars(again), "folder": None, "said": None} == {**vars(whole()), **home}


def test_a_plain_card_gets_no_entry_that_older_versions_do_not_know():
    plain = Profile(classes=(ClassInfo("lung"),), preprocess=Preprocess(), note="n")
    assert set(card_of_profile(plain)) == {"classes", "preprocess", "note"}


def test_a_damaged_profile_in_a_card_names_its_file():
    with pytest.raises(sitta.UnsupportedModel, match=r"profile in a.safetensors.*'speed'"):
        profile_of_card({"profile": {"profile": 1, "speed": 3}}, "a.safetensors")


def test_a_checkpoint_keeps_a_profile(tmp_path):
    net = sitta.models.UNet(3, 2, channels=4, multipliers=(1, 2))
    profile = whole().changed(output=0, activation="sigmoid")
    sitta.models.save(net, tmp_path / "net.safetensors", profile)
    again = sitta.load(tmp_path / "net.safetensors").profile
    assert again.classes == profile.classes
    assert again.calibration == profile.calibration
    assert (again.licence, again.fill_holes) == ("CC BY 4.0", True)


def slow_mask(p, activation, thresholds):
    """One pixel after the other, as the documentation says it."""
    mask = np.zeros((len(p), *p.shape[2:]) if activation == "softmax" else p.shape, dtype=int)
    for n, *at in np.ndindex(len(p), *p.shape[2:]):
        here = p[(n, slice(None), *at)]
        if activation == "sigmoid":
            for c, t in enumerate(thresholds):
                mask[(n, c, *at)] = here[c] > (0.5 if t is None else t)
            continue
        best, most = 0, 0.0
        for c, t in enumerate(thresholds, start=1):
            takes_part = here.argmax() == c if t is None else here[c] > t
            if takes_part and here[c] > most:
                best, most = c, here[c]
        mask[(n, *at)] = best
    return mask


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
@pytest.mark.parametrize("thresholds", [(0.2, 0.6, 0.3), (None, 0.25, None), (0.9, 0.9, 0.9)])
def test_thresholds_against_a_slow_mask(activation, thresholds):
    chance = np.random.default_rng(0)
    channels = 3 + (activation == "softmax")
    p = chance.random((2, channels, 5, 6)).astype(np.float32) ** 2
    p = p / p.sum(1, keepdims=True) if activation == "softmax" else p
    wanted = slow_mask(p, activation, thresholds)
    assert np.array_equal(labels(p, activation, thresholds), wanted)
    import torch

    assert np.array_equal(labels(torch.from_numpy(p), activation, thresholds).numpy(), wanted)


def test_without_thresholds_classes_are_the_most_probable_ones():
    p = np.random.default_rng(1).random((2, 4, 6))
    assert np.array_equal(labels(p, "softmax", (None, None, None)), p.argmax(1))
    with pytest.raises(sitta.InvalidSetting, match="do not fit"):
        labels(p, "softmax", (0.5,))


def test_reading_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import sitta.models.profile"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
