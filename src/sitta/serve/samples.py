"""Phantom images to try the page with, drawn when they are first asked for."""

from __future__ import annotations

import threading
from pathlib import Path

from sitta.data import phantom

MODEL = "phantom-alder"  # to try them with, if it is served
IMAGES = "phantom/*/images/*"  # where a phantom is written, below its folder


SAMPLES = {  # by file name: what it shows, the scanner that saw it, and its sides
    "phantom-birch.png": ("A dark scanner (birch)", "birch", (128, 128)),
    "phantom-cedar.png": ("A bright scanner (cedar)", "cedar", (128, 128)),
    "phantom-fir.png": ("A strong bias field (fir)", "fir", (128, 128)),
    "phantom-rowan.png": ("An old scanner, far from the source (rowan)", "rowan", (128, 128)),
    "phantom-volume.nii.gz": ("A volume of 16 slices (birch)", "birch", (16, 128, 128)),
}
_lock = threading.Lock()


def draw(name: str, folder: Path) -> Path:
    """The file of a sample below a folder; ``name`` is one of ``SAMPLES``."""
    (_, site, size), home = SAMPLES[name], folder / "samples" / name
    with _lock:
        if not any(home.glob(IMAGES)):
            phantom.write(home, site, 1, size)
    return next(home.glob(IMAGES))
