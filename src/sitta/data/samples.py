"""A domain in memory, decoded once, and its split into training and validation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sitta.data.domains import Domain, Pair, Track
from sitta.data.images import read, read_mask
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidImage


@dataclass(frozen=True, eq=False)
class Samples:
    """Images of one domain, as the model takes them."""

    images: Tensor  # (N, C, *s), float32
    masks: Tensor  # (N, *s), classes
    names: tuple[str, ...]  # the file of each
    subjects: tuple[str, ...]  # whose image each is
    slices: tuple[int, ...]  # the slice of each in its file; 0 for an image
    left_out: int = 0  # slices without a mask, which are taken for not annotated

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: Sequence[int]) -> Samples:
        """The samples of these rows."""
        pick = list(rows)
        return Samples(
            self.images[pick],
            self.masks[pick],
            tuple(self.names[i] for i in pick),
            tuple(self.subjects[i] for i in pick),
            tuple(self.slices[i] for i in pick),
        )

    def fingerprint(self) -> str:
        """Changes with any pixel, mask or name."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        for tensor in (self.images, self.masks.to(torch.uint8)):
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def load(
    domain: Domain, preprocess: Preprocess, classes: int = 2, track: Track = lambda done, _: done
) -> Samples:
    """Decode and preprocess every pair of a domain; ``track`` wraps the loop over the files."""
    pairs = domain.pairs()
    with ThreadPoolExecutor(4) as pool:  # decoders release the lock
        decoded = pool.map(lambda pair: _decode(pair, preprocess, classes), pairs)
        files = list(track(decoded, len(pairs)))
    if not any(f.masks.any() for f in files):
        raise InvalidImage(f"Every mask of {domain} is empty.", fix="check the masks")
    sizes = sorted({tuple(f.images.shape[1:]) for f in files})
    if len(sizes) > 1:
        raise InvalidImage(
            f"The images of {domain} differ in size: {sizes[0]} and {sizes[-1]}.",
            fix="train with a size and fit resize or crop",
        )
    return Samples(
        torch.cat([f.images for f in files]),
        torch.cat([f.masks for f in files]),
        tuple(name for f in files for name in f.names),
        tuple(subject for f in files for subject in f.subjects),
        tuple(number for f in files for number in f.slices),
        sum(f.left_out for f in files),
    )


def _decode(pair: Pair, preprocess: Preprocess, classes: int) -> Samples:
    """The images of one file."""
    image = read(pair.image)
    labels = read_mask(pair.mask, like=image, classes=classes)
    inputs = preprocess.apply(image)
    masks = inputs.inverse.masks(labels, classes)
    kept = list(range(len(masks)))
    if len(masks) > 1:  # raters mark a part of a volume's slices: the others are unknown, not empty
        kept = [i for i in kept if masks[i].any()]
    return Samples(
        torch.from_numpy(inputs.values[kept]),
        torch.from_numpy(masks[kept]),
        (pair.name,) * len(kept),
        (pair.subject,) * len(kept),
        tuple(kept),
        len(masks) - len(kept),
    )


@dataclass(frozen=True)
class Split:
    """Rows to train on, rows held out, and a sentence about how they were split."""

    train: tuple[int, ...]
    held_out: tuple[int, ...]
    how: str


def split(samples: Samples, share: float, seed: int) -> Split:
    """Hold out about a share of the images.

    Subjects are drawn at random and stay whole. Of a single subject, a block of neighbouring
    slices is held out, at the same height in each of its volumes.
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
