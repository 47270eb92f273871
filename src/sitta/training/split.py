"""Training and validation images of one domain, with every subject on one side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitta.errors import InvalidImage
from sitta.training.samples import Samples


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out, and how they were parted, in words."""

    train: tuple[int, ...]
    held_out: tuple[int, ...]
    how: str


def split(samples: Samples, share: float, seed: int) -> Split:
    """Hold out a share of the images.

    Subjects are drawn at random and stay whole. Of a single subject, a block of neighbouring
    slices is held out, at the same height in each of its volumes.

    Args:
        samples: All images of the domain.
        share: The share to hold out, about.
        seed: Another seed, another split.
    """
    if len(samples) < 2:
        raise InvalidImage(
            f"There is only {len(samples)} image to train on.",
            fix="at least two are needed, one of them for validation; many more to be of use",
        )
    chance = np.random.default_rng([seed, 20])
    people = sorted(set(samples.subjects))
    if len(people) == 1 and len(set(samples.names)) < len(samples):
        held = _blocks(samples, share, chance)
        how = f"one subject: a block of {len(held)} neighbouring slices is held out"
    else:
        held = _people(samples, share, chance)
        out = len({samples.subjects[i] for i in held})
        how = f"{out} of {len(people)} subjects are held out ({len(held)} of {len(samples)} images)"
        if len(people) == 1:
            how = f"one subject: {len(held)} of its {len(samples)} images are held out"
    kept = set(range(len(samples))) - held
    return Split(tuple(sorted(kept)), tuple(sorted(held)), how)


def _people(samples: Samples, share: float, chance: np.random.Generator) -> set[int]:
    """Rows of subjects drawn until the share is reached; at least one stays on each side."""
    owners = samples.subjects if len(set(samples.subjects)) > 1 else samples.names
    wanted = max(1, round(share * len(samples)))
    held: set[int] = set()
    everyone = sorted(set(owners))
    for number in chance.permutation(len(everyone))[:-1]:
        if len(held) >= wanted:
            break
        held |= {i for i, owner in enumerate(owners) if owner == everyone[number]}
    return held


def _blocks(samples: Samples, share: float, chance: np.random.Generator) -> set[int]:
    """A contiguous block of each volume, at one relative height for all of them."""
    height = chance.random()
    held: set[int] = set()
    for name in sorted(set(samples.names)):
        rows = [i for i, n in enumerate(samples.names) if n == name]  # in the order of the slices
        count = max(1, round(share * len(rows)))
        start = round(height * (len(rows) - count))
        held |= set(rows[start : start + count])
    return held
