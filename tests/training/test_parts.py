"""Recipes, samples, splits, losses and scores."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import sitta
from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.images import Geometry, Image, write_map, write_mask
from sitta.data.preprocess import Preprocess
from sitta.data.samples import Samples, load, split
from sitta.training import Recipe
from sitta.training.augmentation import Augment
from sitta.training.loop import Loss, validate

SMALL = Preprocess(size=(32, 32))


def samples(subjects, names=None, slices=None):
    n = len(subjects)
    names = tuple(names or (f"image-{i}" for i in range(n)))
    spread = torch.arange(float(n)).view(n, 1, 1, 1).expand(n, 1, 2, 2)
    numbers = tuple(slices or [0] * n)
    return Samples(spread, torch.ones(n, 2, 2).long(), names, tuple(subjects), numbers)


def test_the_recipe_of_the_paper():
    r = Recipe.named("paper")
    assert (r.rate, r.batch, r.momentum, r.epochs, r.patience) == (1e-4, 10, 0.1, 200, 20)
    assert (r.bce, r.dice, r.validation, r.augment) == (1, 1, 0.2, "none")
    assert Recipe.named("fast").augment == "none"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0},
        {"batch": 1},
        {"validation": 1.0},
        {"patience": 0},
        {"seed": -1},
        {"bce": -1},
        {"schedule": "cosine"},
        {"augment": "wild"},
        {"steps": 0},
        {"bce": 0, "dice": 0},
    ],
)
def test_recipes_that_make_no_sense(wrong):
    with pytest.raises(sitta.InvalidSetting):
        Recipe(**wrong)


def test_recipes_by_name():
    with pytest.raises(sitta.InvalidSetting, match=r"no such recipe.*paper, fast.*slow"):
        Recipe.named("slow")
    with pytest.raises(sitta.InvalidSetting, match="no setting 'speed'"):
        Recipe.named("fast", speed=1)


def test_length_in_steps_is_rounded_to_whole_epochs():
    assert Recipe(batch=10).length(110, 128**2) == (200, 11)
    assert Recipe(batch=10, steps=300).length(110, 128**2) == (27, 11)
    assert Recipe(batch=None, steps=300).length(32, 256**2) == (38, 8)  # four a step
    assert Recipe(batch=10, steps=3).length(110, 128**2) == (1, 11)


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=40), st.floats(0.05, 0.9), st.integers(0, 99)
)
def test_a_subject_stays_on_one_side(owners, share, seed):
    found = split(samples([str(o) for o in owners]), share, seed)
    assert sorted(found.train + found.held_out) == list(range(len(owners)))
    assert found.train
    assert found.held_out
    if len(set(owners)) > 1:
        sides = [{owners[i] for i in rows} for rows in (found.train, found.held_out)]
        assert not sides[0] & sides[1]


def test_a_share_is_held_out_and_the_seed_decides_whom():
    people = samples([str(i) for i in range(100)])
    assert len(split(people, 0.2, 0).held_out) == 20
    assert split(people, 0.2, 0) == split(people, 0.2, 0)
    assert split(people, 0.2, 0).held_out != split(people, 0.2, 1).held_out


@given(st.integers(2, 30), st.integers(2, 30), st.integers(0, 50))
@settings(max_examples=50)
def test_of_a_single_subject_blocks_of_slices_are_held_out(first, second, seed):
    names = ["ses-1"] * first + ["ses-2"] * second
    found = split(
        samples(["sub-1"] * len(names), names, [*range(first), *range(second)]), 0.2, seed
    )
    for name, start in (("ses-1", 0), ("ses-2", first)):
        rows = [i - start for i in found.held_out if names[i] == name]
        assert rows == list(range(rows[0], rows[-1] + 1))
    assert "one subject" in found.how
    assert "neighbouring slices" in found.how


def test_one_image_cannot_be_split():
    with pytest.raises(sitta.InvalidImage, match="only 1 image"):
        split(samples(["a"]), 0.2, 0)


def test_a_domain_in_memory(root):
    found = load(find_domain(root, "phantom", "alder"), SMALL)
    image, mask = phantom.draw("alder", 3, (32, 32))
    assert len(found) == 12
    torch.testing.assert_close(found.images[3], image, atol=2e-5, rtol=0)
    assert torch.equal(found.masks[3], mask)
    assert found[[3]].fingerprint() != found[[4]].fingerprint()
    assert found[[3]].fingerprint() == found[[3]].fingerprint()


def volume(root, name, masks):
    like = Image(np.zeros((1, 4, 16, 16)), Geometry((4, 16, 16)), "test", Path("x"))
    write_map(np.random.default_rng(0).random((4, 16, 16)), root / "images" / name, like)
    write_mask(masks, root / "masks" / name, like)


def test_slices_without_a_mask_are_left_out_and_counted(tmp_path):
    masks = np.zeros((4, 16, 16), dtype=np.uint8)
    masks[1:3, 4:8, 4:8] = 1
    volume(tmp_path / "t" / "d", "sub-1.nii.gz", masks)
    found = load(find_domain(tmp_path, "t", "d"), SMALL)
    assert (len(found), found.slices, found.left_out) == (2, (1, 2), 2)
    assert found.subjects == ("sub-1", "sub-1")


def test_a_domain_without_any_foreground(tmp_path):
    volume(tmp_path / "t" / "d", "a.nii.gz", np.zeros((4, 16, 16), dtype=np.uint8))
    with pytest.raises(sitta.InvalidImage, match="Every mask of t/d is empty"):
        load(find_domain(tmp_path, "t", "d"), SMALL)


def test_images_of_different_sizes_need_a_size(tmp_path):
    phantom.write(tmp_path, "alder", 1, (32, 32))
    folder = tmp_path / "phantom" / "alder"
    for kind in ("images", "masks"):
        (folder / kind / "scene-0000.png").rename(folder / kind / "small.png")
    phantom.write(tmp_path, "alder", 1, (40, 32))
    with pytest.raises(sitta.InvalidImage, match="differ in size"):
        load(find_domain(tmp_path, "phantom", "alder"), Preprocess(size=None, fit="none"))


def test_the_loss_is_cross_entropy_and_dice_equally():
    logits, masks = torch.randn(3, 1, 5, 4), torch.randint(0, 2, (3, 5, 4))
    found = Loss(Recipe())(logits, masks)
    p, y = 1 / (1 + np.exp(-logits.numpy()[:, 0])), masks.numpy()
    entropy = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    dice = np.mean([1 - 2 * (a * b).sum() / (a.sum() + b.sum()) for a, b in zip(p, y, strict=True)])
    np.testing.assert_allclose(found.numpy(), [entropy, dice], rtol=1e-4)
    assert torch.equal(Loss(Recipe(bce=2, dice=0))(logits, masks), found * torch.tensor([2, 0]))


def test_the_loss_of_several_classes():
    logits, masks = torch.randn(2, 3, 5, 4), torch.randint(0, 3, (2, 5, 4))
    found = Loss(Recipe())(logits, masks)
    p = torch.softmax(logits, 1).numpy()
    y = np.stack([masks.numpy() == c for c in range(3)], axis=1)
    entropy = -np.log(p[y.nonzero()[0], y.nonzero()[1], y.nonzero()[2], y.nonzero()[3]]).mean()
    dice = np.mean(1 - 2 * (p * y).sum((2, 3)) / (p.sum((2, 3)) + y.sum((2, 3))))
    np.testing.assert_allclose(found.numpy(), [entropy, dice], rtol=1e-4)


class Fixed(nn.Module):
    """Says what it is told: logits come as the image."""

    def forward(self, x):
        return x


def test_validation_is_the_mean_dice_over_images_and_empty_pairs_count_as_one():
    logits = torch.full((3, 1, 4, 4), -1.0)
    logits[0, 0, :2], logits[1, 0, 0] = 1.0, 1.0
    masks = torch.zeros(3, 4, 4).long()
    masks[0, 1:3] = 1  # half of both overlap; the second is wrong altogether; the third is empty
    found = samples(["a", "b", "c"])
    found = Samples(logits, masks, found.names, found.subjects, found.slices)
    assert validate(Fixed(), found, torch.device("cpu"), batch=2) == pytest.approx(
        (0.5 + 0 + 1) / 3
    )


@pytest.mark.parametrize("name", ["light", "strong"])
def test_augmentation_moves_image_and_mask_alike_and_repeats_itself(name):
    image, mask = phantom.batch("alder", 4, (48, 48))
    changed, moved = Augment(name, 0)(image, mask, 1, [0, 1, 2, 3])
    again, _ = Augment(name, 0)(image, mask, 1, [0, 1, 2, 3])
    later, _ = Augment(name, 0)(image, mask, 2, [0, 1, 2, 3])
    assert torch.equal(changed, again)
    assert not torch.equal(changed, later)
    assert not torch.equal(changed, image)
    assert set(moved.unique().tolist()) == {0, 1}
    assert changed.min() >= 0
    assert changed.max() <= 1


def test_augmentation_keeps_a_shape_under_its_mask():
    mask = torch.zeros(6, 48, 48).long()
    mask[:, 14:34, 10:30] = 1
    image = mask[:, None].float() * 0.8 + 0.1
    changed, moved = Augment("light", 3)(image, mask, 1, list(range(6)))
    found = (changed[:, 0] > 0.5).long()
    dice = 2 * (found * moved).sum((1, 2)) / (found.sum((1, 2)) + moved.sum((1, 2)))
    assert dice.min() > 0.85
