"""Calibration of a small network on phantoms: what it keeps, and what it never keeps."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import sitta
from sitta.calibration import calibrate as module
from sitta.data import phantom
from sitta.prediction.calibration import Calibration, calibration_from, calibration_of
from sitta.prediction.evidence import SCORES
from sitta.prediction.expected import Curve
from tests.nets import Net, trained


@pytest.fixture(autouse=True)
def few_looks(monkeypatch):
    monkeypatch.setattr(module, "PER_IMAGE", (2, 2))


@pytest.fixture(scope="module")
def scenes():
    return phantom.batch("alder", 12, (24, 24))


@pytest.fixture(scope="module")
def net(scenes):
    """A small network that has learnt a little, so that its masks are not all empty."""
    torch.manual_seed(0)
    net = Net().train()
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    images, masks = scenes
    for _ in range(40):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            net(images)[:, 0], masks.float()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


@pytest.fixture(scope="module")
def made(net, scenes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PER_IMAGE", (2, 2))
        return sitta.calibrate(net, *scenes, classes=["organ"])


def text(calibration):
    return json.dumps(calibration.as_dict(), sort_keys=True)


def test_what_it_keeps(made):
    assert (made.images, made.subjects, made.labelled) == (12, 12, True)
    (organ,) = made.classes
    assert organ.name == "organ"
    assert organ.prior.components.shape == (12, 1024)
    assert set(organ.dice.weights) <= set(SCORES)
    assert made.inputs.image.shape == (16, 16)
    assert 0 <= made.limit <= 1
    assert organ.limit == made.limit  # the only class
    assert made.members["none"]["images"] == 12
    assert {"adapt", "member 0", "member 5"} <= set(made.members["none"])
    assert set(made.members) - {"none"} <= set(sitta.calibration.shifts.KINDS)


def test_it_is_the_same_bit_for_bit(net, scenes, made):
    assert text(sitta.calibrate(net, *scenes, classes=["organ"])) == text(made)
    other = sitta.calibrate(net, *scenes, classes=["organ"], seed=1)
    assert text(other) != text(made)


def test_the_model_is_left_as_it_was(net, scenes):
    before = copy.deepcopy(net.state_dict())
    sitta.calibrate(net, *scenes)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_it_comes_back_from_plain_values_and_is_small(made, net, scenes):
    again = Calibration.from_dict(json.loads(text(made)))
    assert text(again) == text(made)
    assert len(text(made)) < 150_000
    images = scenes[0][:4]
    one, other = (sitta.Adapt(net, profile=c)(images) for c in (made, again))
    torch.testing.assert_close(one.weights, other.weights, atol=0.02, rtol=0)
    np.testing.assert_allclose(one.record.expected, other.record.expected, atol=2e-3)


def test_a_calibration_comes_from_anywhere(made, tmp_path):
    path = tmp_path / "kept.json"
    path.write_text(text(made))
    for given in (made, made.as_dict(), path, str(path)):
        assert text(calibration_from(given)) == text(made)
    assert calibration_from(None) is None
    assert calibration_of(Net()) is None


def test_no_name_is_kept(net, scenes):
    names = [f"Jane Doe {n} 1980-01-01" for n in range(12)]
    made = sitta.calibrate(net, *scenes, subjects=names)
    assert "Jane" not in text(made)
    assert "1980" not in text(made)


@pytest.mark.parametrize("people", [1, 2, 9])
def test_few_people_leave_no_mean_image_and_no_mean_shape(net, scenes, people):
    subjects = [str(n % people) for n in range(12)]
    made = sitta.calibrate(net, *scenes, subjects=subjects)
    assert made.subjects == people
    assert made.inputs.image is None
    assert made.classes[0].prior is None
    assert made.classes[0].dice is not None
    public = sitta.calibrate(net, *scenes, subjects=subjects, public=True)
    assert public.inputs.image is None  # a mean of few would mislead the input check
    assert public.classes[0].prior is not None


def test_ten_people_are_enough(net, scenes):
    made = sitta.calibrate(net, *scenes, subjects=[str(n % 10) for n in range(12)])
    assert made.subjects == 10
    assert made.inputs.image is not None


def test_without_masks_the_clean_prediction_is_the_reference(net, scenes):
    images, _ = scenes
    made = sitta.calibrate(net, images)
    assert not made.labelled
    assert made.members["none"]["member 0"] == 1.0
    own = sitta.Source(net)(images).mask
    masks = sitta.calibrate(net, images, own)
    assert masks.labelled
    plain, given = (json.loads(text(c)) for c in (made, masks))
    assert plain.pop("labelled") != given.pop("labelled")
    assert plain == given


def test_masks_of_classes_and_of_labels_are_the_same(scenes):
    torch.manual_seed(1)
    images, masks = scenes
    net = trained(Net(outputs=3), (1, 24, 24))
    classes = masks + (masks * (torch.arange(24) > 12))  # 0, 1 and 2
    labels = torch.stack([classes == 1, classes == 2], dim=1)
    one, other = (sitta.calibrate(net, images, given) for given in (classes, labels))
    assert text(one) == text(other)
    assert [c.name for c in one.classes] == ["class 1", "class 2"]
    assert len(text(one)) < 150_000


def test_progress_is_told(net, scenes):
    told = []
    images, masks = scenes
    sitta.calibrate(net, images[:3], masks[:3], watch=lambda *done: told.append(done))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_at_most_a_hundred_images_are_looked_at(net, monkeypatch):
    monkeypatch.setattr(module, "MOST_IMAGES", 5)
    images, masks = phantom.batch("alder", 9, (24, 24))
    assert sitta.calibrate(net, images, masks).images == 5


def test_the_fingerprint_is_that_of_the_weights(net):
    own = module.fingerprint(net)
    rounded = copy.deepcopy(net).half().float()
    assert module.fingerprint(rounded) == own
    changed = copy.deepcopy(net)
    with torch.no_grad():
        changed.head.bias += 0.5
    assert module.fingerprint(changed) != own


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"images": torch.rand(1, 24, 24)}, "batch of images"),
        ({"subjects": ["a"]}, "one name per image"),
        ({"classes": ["a", "b"]}, "one name per foreground class"),
    ],
)
def test_wrong_use(net, scenes, wrong, message):
    given = {"images": scenes[0], "masks": scenes[1], **wrong}
    with pytest.raises(sitta.SittaError, match=message):
        sitta.calibrate(net, given.pop("images"), given.pop("masks"), **given)


def looks(gain, spread=0.0):
    rng = np.random.default_rng(0)
    for n in range(40):
        own = 0.7 + 0.1 * rng.random()
        adapted = own + gain + spread * rng.standard_normal()
        scores = {name: float(adapted + 0.02 * rng.standard_normal()) for name in SCORES}
        members = np.full((7, 1), own)
        yield module._Look(
            str(n % 8), ("gamma",), [scores], np.array([adapted]), members, np.ones(1), False
        )


@pytest.mark.parametrize(
    ("gain", "spread", "opens"), [(0.05, 0.01, True), (-0.05, 0.01, False), (0.0, 0.0, False)]
)
def test_the_gate_opens_where_adapting_helps(gain, spread, opens):
    from sitta.prediction.calibration import ClassCalibration

    known = module._class(ClassCalibration("organ", True, 0.0), 0, list(looks(gain, spread)))
    assert known.adapts == opens
    assert known.gain == pytest.approx(gain, abs=0.01)


@pytest.mark.parametrize("method", ["source", "tent", "intent", "adapt"])
def test_every_method_gets_an_expected_dice(net, scenes, made, method):
    calibrated = copy.deepcopy(net)
    calibrated.card = {"calibration": made.as_dict()}
    p = sitta.method(method, calibrated)(scenes[0][:3])
    assert p.record.expected.shape == (1, 3, 3)
    middle, low, high = p.record.expected_dice
    assert ((low <= middle) & (middle <= high)).all()
    ends = sitta.InTEnt(net, lambdas=[1.0, 0.0], statistics="in-layer")(scenes[0][:3])
    np.testing.assert_allclose(p.record.ends, ends.record.members, atol=1e-5)
    assert f"{middle[0]:.2f} ({low[0]:.2f} to {high[0]:.2f})" in p[0].summary()


def test_without_a_calibration_no_figure_is_invented(net, scenes):
    p = sitta.Adapt(net)(scenes[0][:2])
    assert p.record.expected_dice is None
    assert "not calibrated" in p[0].summary()
    for row in p.record.rows():
        assert row["expected_dice"] is None
        assert row["expected_dice_low"] is None
        assert row["classes"] == []


def test_a_low_expected_dice_asks_for_a_check(net, scenes, made):
    p = sitta.Adapt(net, profile=made)(scenes[0][:3])
    record = p.record
    for least, flagged in ((0.0, False), (1.0, True)):
        limits = replace(record.limits, dice=least, usual=float("inf"))  # as for --min-dice
        judged = replace(record, limits=limits)
        assert all(("low-expected-dice" in codes) == flagged for codes in judged.notes)


@pytest.mark.parametrize(
    ("low", "usual", "flagged"),
    [
        (0.72, 0.95, False),  # the middle of 0.9 and 0.72 is above 0.8
        (0.68, 0.95, True),
        (0.68, 0.89, False),  # as many in-domain masks are expected to be
    ],
)
def test_a_mask_that_may_well_be_low_asks_for_a_check(net, scenes, made, low, usual, flagged):
    ends = {n: Curve((0.0, 1.0), (v, v)) for n, v in (("low", low), ("middle", 0.9), ("high", 1))}
    organ = replace(made.classes[0], dice=replace(made.classes[0].dice, **ends), limit=usual)
    known = replace(made, classes=(organ,), limit=usual)
    p = sitta.Adapt(net, calibration=known)(scenes[0][0])
    assert ("low-expected-dice" in p.notes) == flagged


def test_one_of_several_classes_with_a_low_expected_dice_asks_for_a_check(net, scenes, made):
    def always(value, **more):
        flat = Curve((0.0, 1.0), (value, value))
        told = replace(made.classes[0].dice, low=flat, middle=flat, high=flat)
        return replace(made.classes[0], dice=told, **more)

    two = torch.nn.Sequential(net, torch.nn.Conv2d(1, 3, 1)).eval()
    for limit, flagged in ((None, False), (0.5, False), (0.65, True), (0.95, True)):
        known = replace(made, classes=(always(0.9, limit=0.5), always(0.6, name="b", limit=limit)))
        record = sitta.Adapt(two, calibration=known)(scenes[0][:2]).record
        assert record.expected_dice[0] == pytest.approx([0.75, 0.75])
        judged = replace(record, limits=replace(record.limits, dice=0.7))
        assert [("low-expected-dice" in codes) for codes in judged.notes] == [flagged] * 2


DAMAGE = {
    "no table": lambda c: [c],
    "another version": lambda c: {**c, "version": 99},
    "no version": lambda c: {k: v for k, v in c.items() if k != "version"},
    "an unknown entry": lambda c: {**c, "imags": 3},
    "no classes": lambda c: {k: v for k, v in c.items() if k != "classes"},
    "classes no list": lambda c: {**c, "classes": 3},
    "a class that is text": lambda c: {**c, "classes": ["organ"]},
    "a class without a name": lambda c: _with(c, lambda k: k.pop("name")),
    "an unknown entry of a class": lambda c: _with(c, lambda k: k.update(size=1)),
    "images no number": lambda c: {**c, "images": "many"},
    "a mean of another length": lambda c: _prior(c, "mean", {"shape": [2], "float16": "ADwAPA=="}),
    "no base64": lambda c: _prior(c, "mean", {"shape": [2], "float16": "?"}),
    "numbers that are not finite": lambda c: _prior(c, "mean", {"shape": [1], "float16": "AHw="}),
    "a grid of letters": lambda c: _prior(c, "grid", "ab"),
    "a curve that falls back": lambda c: _with(c, lambda k: k["dice"]["low"].update(x=[1, 0])),
    "weights of no curve": lambda c: _with(c, lambda k: k["dice"].update(weights={"luck": 1})),
    "quantiles of another number": lambda c: {**c, "inputs": {**c["inputs"], "quantiles": [1]}},
    "members no table": lambda c: {**c, "members": 3},
    "an absurd shape": lambda c: _prior(c, "mean", {"shape": [10**9], "float16": ""}),
}


def _with(values, change):
    change(values["classes"][0])
    return values


def _prior(values, name, value):
    values["classes"][0]["prior"][name] = value
    return values


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_calibrations_are_refused_in_one_sentence(made, kind):
    values = DAMAGE[kind](json.loads(text(made)))
    with pytest.raises(sitta.InvalidSetting) as told:
        Calibration.from_dict(values)
    assert len(str(told.value)) < 600


def test_a_model_with_a_damaged_calibration_can_be_calibrated_again(net, scenes, made):
    plain = copy.deepcopy(net)
    plain.card = {"calibration": {"version": 1, "classes": [{"name": "organ", "dice": {"low": 1}}]}}
    assert text(sitta.calibrate(plain, *scenes, classes=["organ"])) == text(made)
    assert "calibration" in plain.card  # the model itself is left as it was


def test_predictions_are_judged_on_images_that_were_held_out(net, scenes):
    made = sitta.calibrate(net, *scenes, held_out=[3, 5, 11])
    assert made.images == 12  # shapes and inputs are of all
    assert made.members["none"]["images"] == 6  # three and as many others
    assert module._judged([1, 3, 5, 7, 9], [5]) == [0, 2]
    assert module._judged([1, 3], None) == [0, 1]
    assert module._judged([1, 3], []) == [0, 1]


def test_shapes_of_few_subjects_count_less(net, scenes):
    subjects = [str(n % 2) for n in range(12)]
    few = sitta.calibrate(net, *scenes, subjects=subjects, public=True)
    assert few.shape_trust == 0.2
    assert sitta.calibrate(net, *scenes).shape_trust == 1
