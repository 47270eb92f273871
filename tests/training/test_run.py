"""A training run: its files, its repeatability, and what it refuses."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import sitta
from sitta._util import files
from sitta._util.devices import pick_device
from sitta.calibration.limits import limits
from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.preprocess import Preprocess
from sitta.data.samples import load
from sitta.models import UNet, checkpoint
from sitta.training import Callback, Job, Recipe, loop, train
from sitta.training.loop import Fit
from sitta.training.run_folder import Epoch


class Stop(Exception):
    """The machine goes down."""


class Dies(Callback):
    """After so many epochs, or steps."""

    def __init__(self, epochs=10**9, steps=10**9):
        self.left, self.steps = epochs, steps

    def epoch(self, row, better):
        self.left -= 1
        if self.left < 0:
            raise Stop

    def step(self, loss):
        self.steps -= 1
        if self.steps < 0:
            raise Stop


def weights(path):
    return sitta.load(path).state_dict()


def assert_same(a, b):
    for (name, x), y in zip(weights(a).items(), weights(b).values(), strict=True):
        assert torch.equal(x, y), name


def test_a_run_leaves_one_checkpoint_with_all_that_is_needed(job, tmp_path):
    before = torch.random.get_rng_state()
    result = train(job, tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())
    names = {p.name for p in tmp_path.iterdir()}
    expected = {"phantom-alder.safetensors", "log.csv", "curve.png", "split.json", "state.pt"}
    assert names == expected
    card = checkpoint.card(result.checkpoint)
    assert card["source"] == "phantom/alder"
    assert card["classes"] == ["background", "foreground"]
    assert Preprocess.from_dict(card["preprocess"]) == job.preprocess
    assert Recipe(**card["recipe"]) == job.recipe
    assert card["training"]["validation_dice"] == pytest.approx(result.dice, abs=1e-6)
    assert card["training"]["epochs"] == result.epochs == 4
    assert 0.5 <= card["trust"]["agreement"] <= 0.99
    assert card["trust"]["distance"] > 0
    assert card["trust"]["images"] == 2
    assert card["images"] == {"train": 10, "validation": 2}
    assert "scene" not in json.dumps(card)  # names of files may identify people
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [int(r["epoch"]) for r in rows] == [1, 2, 3, 4]
    assert max(float(r["validation_dice"]) for r in rows) == pytest.approx(result.dice)
    kept = json.loads((tmp_path / "split.json").read_text())
    assert len(kept["train"]) == 10
    assert not {tuple(x) for x in kept["train"]} & {tuple(x) for x in kept["validation"]}


def test_the_checkpoint_reaches_the_dice_that_its_card_tells(job, tmp_path):
    longer = Job(job.domain, Recipe.named("fast", steps=60, batch=4), job.preprocess)
    result = train(longer, tmp_path)
    model = sitta.load(result.checkpoint)
    held = json.loads((tmp_path / "split.json").read_text())["validation"]
    pairs = {p.name: p for p in longer.domain.pairs()}
    scores = []
    for name, _ in held:
        image = sitta.data.images.read(pairs[name].image)
        ready = longer.preprocess.apply(image)
        truth = ready.inverse.masks(sitta.data.images.read_mask(pairs[name].mask, image))
        found = (model(torch.from_numpy(ready.values))[:, 0] > 0).long().numpy()
        scores.append(float(2 * (found * truth).sum() / (found.sum() + truth.sum())))
    assert sum(scores) / len(scores) == pytest.approx(result.dice, abs=1e-5)
    assert result.dice > 0.5  # it learns


def test_limits_of_trust_follow_their_rule_on_held_out_images(job):
    found = load(job.domain, job.preprocess)
    model = sitta.load("phantom-alder")
    kept = limits(model, found, batch=5)
    p = sitta.InTEnt(model)(found.images)
    q = np.quantile(p.agreement.numpy(), 0.05)
    assert kept["agreement"] == pytest.approx(np.clip(1 - 3 * (1 - q), 0.5, 0.99), abs=1e-4)
    assert kept["distance"] == pytest.approx(3 * np.quantile(p.distance.numpy(), 0.95), rel=1e-3)


def test_the_same_job_gives_the_same_weights_and_another_seed_does_not(job, trained, tmp_path):
    a, b = trained, train(job, tmp_path / "b")
    assert_same(a.checkpoint, b.checkpoint)
    other = Job(job.domain, Recipe.named("fast", steps=12, batch=4, seed=1), job.preprocess)
    c = train(other, tmp_path / "c")
    first, third = next(iter(weights(a.checkpoint).values())), weights(c.checkpoint)
    assert not torch.equal(first, next(iter(third.values())))


@pytest.mark.parametrize(
    ("augment", "dies"),
    [("none", {"epochs": 0}), ("none", {"steps": 7}), ("light", {"epochs": 2})],
)
def test_a_run_that_died_goes_on_to_the_same_weights(job, trained, tmp_path, augment, dies):
    job = Job(job.domain, replace(job.recipe, augment=augment), job.preprocess)
    whole = trained if augment == "none" else train(job, tmp_path / "whole")
    with pytest.raises(Stop):
        train(job, tmp_path / "cut", watch=Dies(**dies), save_every=0)
    again = train(job, tmp_path / "cut", resume=True, save_every=0)
    assert_same(whole.checkpoint, again.checkpoint)
    assert (whole.dice, whole.epoch, whole.epochs) == (again.dice, again.epoch, again.epochs)
    done = train(job, tmp_path / "cut", resume=True)  # nothing is left to do
    assert_same(done.checkpoint, again.checkpoint)


def test_dropout_goes_on_too(job):
    found = load(job.domain, job.preprocess)

    def fresh():
        torch.manual_seed(0)
        net = UNet(channels=4, multipliers=(1, 2), dropout=0.3)
        return Fit(net, Recipe(epochs=3, batch=5, rate=1e-3), found, found, torch.device("cpu"))

    whole, cut, later = fresh(), fresh(), fresh()
    for _ in range(3):
        whole.epoch(Callback())
    cut.epoch(Callback())
    later.load_state_dict(cut.state_dict())
    torch.rand(5)  # whatever else the machine did meanwhile
    later.epoch(Callback())
    later.epoch(Callback())
    for x, y in zip(whole.net.state_dict().values(), later.net.state_dict().values(), strict=True):
        assert torch.equal(x, y)


def test_patience_ends_a_run(job, tmp_path, monkeypatch):
    dice = iter([0.0, 0.0, 0.0, 0.3, 0.4, 0.35, 0.4, 0.39, 0.9])
    monkeypatch.setattr(loop, "validate", lambda *_: next(dice))
    recipe = Recipe(epochs=50, patience=3, batch=10)
    result = train(Job(job.domain, recipe, job.preprocess), tmp_path)
    assert (result.epoch, result.epochs, result.dice) == (5, 8, 0.4)


def test_patience_does_not_start_before_anything_is_found(job, tmp_path):
    found = load(job.domain, job.preprocess)
    fit = Fit(job.network(), Recipe(epochs=9, patience=2), found, found, torch.device("cpu"))
    fit.history = [Epoch(i + 1, 1.0, 0.5, 0.5, 0.0, 1e-4, 1.0) for i in range(5)]
    fit.best = 0.0
    assert not fit.is_finished
    fit.history[0], fit.best = Epoch(1, 1.0, 0.5, 0.5, 0.1, 1e-4, 1.0), 0.1
    assert fit.is_finished


def test_a_run_is_not_lost_by_mistake(job, tmp_path):
    train(job, tmp_path)
    with pytest.raises(sitta.InvalidSetting, match=r"holds a run already.*--resume.*--overwrite"):
        train(job, tmp_path)
    train(job, tmp_path, overwrite=True)
    other = Job(job.domain, Recipe.named("fast", steps=12, batch=4, rate=2e-3), job.preprocess)
    with pytest.raises(sitta.InvalidSetting, match=r"other settings: recipe.*0.001.*0.002"):
        train(other, tmp_path, resume=True)
    (tmp_path / "state.pt").write_bytes(b"rubbish")
    for other_state in (None, torch.zeros(3), {"settings": 3}):
        if other_state is not None:
            torch.save(other_state, tmp_path / "state.pt")
        with pytest.raises(sitta.InvalidSetting, match="not the state of a run"):
            train(job, tmp_path, resume=True)


def test_other_data_is_not_taken_for_the_same(root, job, tmp_path):
    with pytest.raises(Stop):
        train(job, tmp_path, watch=Dies(epochs=1), save_every=0)
    phantom.write(tmp_path / "other", "alder", 12, (32, 32), seed=1)
    changed = Job(find_domain(tmp_path / "other", "phantom", "alder"), job.recipe, job.preprocess)
    with pytest.raises(sitta.InvalidSetting, match="other settings: data"):
        train(changed, tmp_path, resume=True)


def test_a_full_disk_leaves_the_last_checkpoint_whole(job, tmp_path, monkeypatch):
    with pytest.raises(Stop):
        train(job, tmp_path, watch=Dies(epochs=1), save_every=0)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        train(job, tmp_path, resume=True, save_every=0)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_several_classes_and_volumes(tmp_path):
    phantom.write(tmp_path, "alder", 4, (8, 16, 16))
    domain = find_domain(tmp_path, "phantom", "alder")
    volumes = Preprocess(size=(8, 16, 16), dims=3)
    recipe = Recipe.named("fast", steps=2, batch=2)
    result = train(Job(domain, recipe, volumes, classes=("organ", "none of it")), tmp_path / "out")
    model = sitta.load(result.checkpoint)
    assert model(torch.rand(1, 1, 8, 16, 16)).shape == (1, 3, 8, 16, 16)


def test_batch_norm_keeps_its_momentum(job, tmp_path):
    found = load(job.domain, job.preprocess)
    fit = Fit(job.network(), Recipe(momentum=0.3), found, found, torch.device("cpu"))
    norms = [m for m in fit.net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms
    assert {m.momentum for m in norms} == {0.3}


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(sitta.InvalidSetting, match="'abacus' cannot be used"):
        pick_device("abacus")
