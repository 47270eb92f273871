"""Phantom images to try the page with, drawn when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sitta.data import phantom

MODEL = "phantom-alder"


@dataclass(frozen=True)
class Sample:
    """A phantom image.

    Attributes:
        title: One line for people.
        site: The scanner that saw it.
        size: Two sides for an image, three for a volume.
    """

    title: str
    site: str
    size: tuple[int, ...] = (128, 128)


SAMPLES = {
    "phantom-birch.png": Sample("A dark scanner (birch)", "birch"),
    "phantom-cedar.png": Sample("A bright scanner (cedar)", "cedar"),
    "phantom-fir.png": Sample("A strong bias field (fir)", "fir"),
    "phantom-rowan.png": Sample("An old scanner, far from the source (rowan)", "rowan"),
    "phantom-volume.nii.gz": Sample("A volume of 16 slices (birch)", "birch", (16, 128, 128)),
}
_lock = threading.Lock()


def listing(models: Sequence[str]) -> list[dict[str, str]]:
    """All samples, each with the model to try it with.

    Example:
        >>> listing(["phantom-alder"])[0]["name"]
        'phantom-birch.png'
    """
    model = MODEL if MODEL in models else models[0]
    return [{"name": n, "title": s.title, "model": model} for n, s in SAMPLES.items()]


def made(name: str, folder: Path) -> Path:
    """The file of a sample below a folder; ``name`` is one of ``SAMPLES``."""
    sample = SAMPLES[name]
    home = folder / "samples" / name
    with _lock:
        found = next(home.glob("phantom/*/images/*"), None)
        if found is None:
            phantom.write(home, sample.site, 1, sample.size)
            found = next(home.glob("phantom/*/images/*"))
    return found
