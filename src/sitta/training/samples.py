"""A domain in memory, decoded once, and its split into training and validation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sitta.data.domains import Domain, Pair
from sitta.data.images import read, read_mask
from sitta.data.picture import Array
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidImage

Track = Callable[[Iterable[Any], int], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class Samples:
    """Images of one domain, as the model takes them.

    Attributes:
        images: ``(N, C, *s)``, float32.
        masks: ``(N, *s)``, classes.
        names: The file of each.
        subjects: Whose each is.
        slices: The slice of each in its file; 0 for an image.
        left_out: Slices without a mask, which are taken for not annotated.
    """

    images: Tensor
    masks: Tensor
    names: tuple[str, ...]
    subjects: tuple[str, ...]
    slices: tuple[int, ...]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: Sequence[int]) -> Samples:
        """Some of them."""
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
        found = hashlib.sha256("\n".join(self.names).encode())
        for tensor in (self.images, self.masks.to(torch.uint8)):
            found.update(tensor.contiguous().numpy().tobytes())
        return found.hexdigest()[:16]


def load(
    domain: Domain, preprocess: Preprocess, classes: int = 2, track: Track = lambda done, _: done
) -> Samples:
    """Decode and preprocess every pair of a domain.

    Args:
        domain: Where the files are.
        preprocess: What the model takes.
        classes: Values of a mask.
        track: Wraps the loop over the files, with their number, to show its progress.
    """
    pairs = domain.pairs()
    with ThreadPoolExecutor(4) as pool:  # decoders release the lock
        done = pool.map(lambda pair: _decode(pair, preprocess, classes), pairs)
        found = list(track(done, len(pairs)))
    rows = [(f.pair, number) for f in found for number in f.kept]
    if not any(f.masks.any() for f in found):
        raise InvalidImage(f"Every mask of {domain} is empty.", fix="check the masks")
    sizes = sorted({tuple(f.images.shape[1:]) for f in found})
    if len(sizes) > 1:
        raise InvalidImage(
            f"The images of {domain} differ in size: {sizes[0]} and {sizes[-1]}.",
            fix="train with a size and fit resize or crop",
        )
    return Samples(
        torch.from_numpy(np.concatenate([f.images for f in found])),
        torch.from_numpy(np.concatenate([f.masks for f in found])),
        tuple(pair.name for pair, _ in rows),
        tuple(pair.subject for pair, _ in rows),
        tuple(number for _, number in rows),
        sum(f.left_out for f in found),
    )


@dataclass(frozen=True)
class _File:
    """What one pair gives: its inputs and masks, which slices they are, and how many are not."""

    pair: Pair
    images: Array
    masks: Array
    kept: list[int]
    left_out: int


def _decode(pair: Pair, preprocess: Preprocess, classes: int) -> _File:
    image = read(pair.image)
    labels = read_mask(pair.mask, like=image, classes=classes)
    ready = preprocess.apply(image)
    masks = ready.placement.masks(labels, classes)
    kept = list(range(len(masks)))
    if len(masks) > 1:  # raters mark some slices of a volume: the others are unknown, not empty
        kept = [i for i in kept if masks[i].any()]
    return _File(pair, ready.values[kept], masks[kept], kept, len(masks) - len(kept))
