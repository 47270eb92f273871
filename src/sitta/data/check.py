"""Is a data root what training and the benchmark need? A survey with every problem named."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.domains import Domain, subject_of
from sitta.data.images import Image, read, read_mask
from sitta.errors import SittaError

Track = Callable[[Iterable[Any], int], Iterable[Any]]


@dataclass
class Survey:
    """What a domain holds.

    Attributes:
        domain: Task and name.
        pairs: Images with a mask, both readable and of one size.
        sizes: How often each size occurs, largest count first.
        types: How often each format and pixel type occurs.
        fraction: Mean share of foreground pixels.
        subjects: How many people.
        problems: What is wrong, one sentence each.
    """

    domain: str
    pairs: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    fraction: float = 0.0
    subjects: int = 0
    problems: list[str] = field(default_factory=list)


def survey(domain: Domain, classes: int = 2, track: Track = lambda x, _: x) -> Survey:
    """Read every file of a domain and say what is there and what is wrong."""
    found = Survey(str(domain))
    try:
        images, masks = domain.files()
        known = domain.subjects()
    except SittaError as error:
        found.problems.append(str(error))
        return found
    found.problems += _lonely(domain, images, masks)
    names = sorted(images.keys() & masks.keys())
    seen = _Seen()
    for name in track(names, len(names)):
        try:
            image = read(images[name])
            labels = read_mask(masks[name], like=image, classes=classes)
        except (SittaError, OSError) as error:
            found.problems.append(str(error))
            continue
        found.problems += seen.add(domain, name, image, labels)
    found.pairs, found.fraction = len(seen.fractions), float(np.mean(seen.fractions or [0.0]))
    found.sizes, found.types = dict(seen.sizes.most_common()), dict(seen.types.most_common())
    found.subjects = len({known.get(n, subject_of(n)) for n in names})
    return found


@dataclass
class _Seen:
    """Sizes, types and contents of the pairs so far."""

    sizes: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    fractions: list[float] = field(default_factory=list)
    contents: dict[bytes, str] = field(default_factory=dict)

    def add(self, domain: Domain, name: str, image: Image, labels: Any) -> list[str]:
        """Count a pair, and say what is odd about it."""
        sides = "x".join(map(str, image.geometry.shape))
        colours = {1: "", 3: " RGB"}.get(len(image.pixels), f" {len(image.pixels)} channels")
        self.sizes[sides] += 1
        self.types[f"{image.kind} {image.pixels.dtype}{colours}"] += 1
        self.fractions.append(float((labels > 0).mean()))
        odd = []
        if not self.fractions[-1]:
            odd.append(f"{domain}: the mask of {name} is empty.")
        if float(np.ptp(image.pixels.astype(np.float64))) == 0:
            odd.append(f"{domain}: {name} has the same value everywhere.")
        twin = self.contents.setdefault(hashlib.sha256(image.pixels.tobytes()).digest(), name)
        if twin != name:
            odd.append(f"{domain}: {name} has the same pixels as {twin}.")
        return odd


def _lonely(domain: Domain, images: dict[str, Path], masks: dict[str, Path]) -> list[str]:
    """Files without a partner, and folders without files."""
    found = [
        f"{domain}: {place}/ holds no files."
        for place, files in (("images", images), (domain.masks, masks))
        if not files
    ]
    if found:
        return found
    found += [f"{domain}: {name} has no mask." for name in sorted(images.keys() - masks.keys())]
    found += [
        f"{domain}: mask {name} has no image." for name in sorted(masks.keys() - images.keys())
    ]
    return found


def summary(counts: dict[str, int], most: int = 2) -> str:
    """Such as '256x256 (120), 255x256 (3), 4 others'."""
    items: Sequence[tuple[str, int]] = list(counts.items())
    if len(items) == 1:
        return items[0][0]
    shown = [f"{text} ({number})" for text, number in items[:most]]
    return ", ".join(shown + ([f"{len(items) - most} others"] if len(items) > most else []))
