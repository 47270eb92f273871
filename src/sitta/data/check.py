"""Check the data that training and the benchmark need: a survey that names every problem."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sitta.data.domains import Domain, Track, subject_of
from sitta.data.images import Image, read, read_mask
from sitta.errors import SittaError


@dataclass
class Survey:
    """The contents of a domain."""

    domain: str  # task and name
    pairs: int = 0  # images with a mask, both readable and of one size
    sizes: dict[str, int] = field(default_factory=dict)  # counts, largest first
    types: dict[str, int] = field(default_factory=dict)  # counts of formats with pixel types
    fraction: float = 0.0  # mean share of foreground pixels
    subjects: int = 0
    problems: list[str] = field(default_factory=list)  # one sentence each


def survey(domain: Domain, classes: int = 2, track: Track = lambda x, _: x) -> Survey:
    """Read every file of a domain and report its contents and problems."""
    try:
        images, masks = domain.files()
        subjects = domain.subjects()
    except SittaError as error:
        return Survey(str(domain), problems=[str(error)])
    report = Survey(str(domain), problems=_lonely(domain, images, masks))
    names = sorted(images.keys() & masks.keys())
    sizes, types = Counter[str](), Counter[str]()
    fractions: list[float] = []
    contents: dict[bytes, str] = {}
    for name in track(names, len(names)):
        try:
            image = read(images[name])
            labels = read_mask(masks[name], like=image, classes=classes)
        except (SittaError, OSError) as error:
            report.problems.append(str(error))
            continue
        colours = {1: "", 3: " RGB"}.get(len(image.pixels), f" {len(image.pixels)} channels")
        sizes["x".join(map(str, image.geometry.shape))] += 1
        types[f"{image.kind} {image.pixels.dtype}{colours}"] += 1
        fractions.append(float((labels > 0).mean()))
        twin = contents.setdefault(hashlib.sha256(image.pixels.tobytes()).digest(), name)
        report.problems += _oddities(f"{domain}: ", name, image, fractions[-1], twin)
    report.pairs, report.fraction = len(fractions), float(np.mean(fractions or [0.0]))
    report.sizes, report.types = dict(sizes.most_common()), dict(types.most_common())
    report.subjects = len({subjects.get(n, subject_of(n)) for n in names})
    return report


def _oddities(start: str, name: str, image: Image, fraction: float, twin: str) -> Iterator[str]:
    if not fraction:
        yield f"{start}the mask of {name} is empty."
    if image.pixels.min() == image.pixels.max():
        yield f"{start}{name} has the same value everywhere."
    if twin != name:
        yield f"{start}{name} has the same pixels as {twin}."


def _lonely(domain: Domain, images: dict[str, Path], masks: dict[str, Path]) -> list[str]:
    """Folders without files, or else files without a partner."""
    folders = {"images": images, domain.masks: masks}
    if empty := [
        f"{domain}: {name}/ holds no files." for name, files in folders.items() if not files
    ]:
        return empty
    return [
        *(f"{domain}: {name} has no mask." for name in sorted(images.keys() - masks.keys())),
        *(f"{domain}: mask {name} has no image." for name in sorted(masks.keys() - images.keys())),
    ]


def summary(counts: dict[str, int], most: int = 2) -> str:
    """Such as '256x256 (120), 255x256 (3), 4 others'."""
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{text} ({number})" for text, number in counts.items()]
    others = [f"{len(shown) - most} others"] if len(shown) > most else []
    return ", ".join(shown[:most] + others)
