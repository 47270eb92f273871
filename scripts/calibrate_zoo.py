"""Calibrate the models of the zoo on images of their own domains, and put it into their files.

    SITTA_DATA=/path/to/data python scripts/calibrate_zoo.py [NAME ...]

The images are public, so that the mean shapes of a single subject may be kept. Phantoms are drawn
and need no folder. Weights stay bit for bit: half of a number that was half already is the same.
"""

import os
import sys
from pathlib import Path
from typing import Any

import sitta
from sitta._util.files import atomic_write
from sitta.calibration.calibrate import calibrate
from sitta.calibration.run import FROM_TRAINING, calibrate_split
from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.preprocess import Preprocess
from sitta.data.samples import load, split
from sitta.models.checkpoint import save
from sitta.models.zoo import SHIPPED, SUMS, digest, entries
from sitta.prediction.calibration import Calibration

PHANTOM_SEED = 5  # scenes of no other use: scripts/train_phantom.py and benchmarks name the others
BUILT = ("architecture", "config", "profile")  # of a card, which ``save`` writes itself


def calibrated(name: str) -> tuple[Any, dict[str, Any]]:
    """The network of a model of the zoo, and its card with a calibration."""
    net = sitta.load(name)
    card = {k: v for k, v in net.card.items() if k not in BUILT}
    drawn = card["source"].startswith("phantom/")
    made = from_scenes(net, card) if drawn else from_files(net, card)
    return net, {**card, "calibration": made.as_dict()}


def from_scenes(net: Any, card: dict[str, Any]) -> Calibration:
    """The calibration on phantoms of the site that the network was trained on."""
    site = card["source"].partition("/")[2]
    size = card["preprocess"]["size"]
    images, masks = phantom.batch(site, FROM_TRAINING, size, seed=PHANTOM_SEED)
    return calibrate(net, images, masks, classes=card["classes"][1:], public=True)


def from_files(net: Any, card: dict[str, Any]) -> Calibration:
    """The calibration on the images that the network was trained on, those held out first."""
    task, _, domain = card["source"].partition("/")
    home = find_domain(os.environ["SITTA_DATA"], task, domain, card["masks"])
    classes = card["classes"][1:]
    samples = load(home, Preprocess.from_dict(card["preprocess"]), len(classes) + 1)
    recipe = card["recipe"]
    parts = split(samples, recipe["validation"], recipe["seed"])
    return calibrate_split(net, samples, parts, classes, public=True)


def write_sums() -> None:
    """The checksums of all models, as they are now."""
    names = sorted(path.name for path in SHIPPED.glob("*.safetensors"))
    with atomic_write(SHIPPED / SUMS) as draft:
        draft.write_text("".join(f"{digest(SHIPPED / name)}  {name}\n" for name in names))


def main() -> None:
    """Calibrate the models that are named, or all."""
    chosen = sys.argv[1:] or [e.name for e in entries()]
    for name in chosen:
        net, card = calibrated(name)
        save(net, Path(SHIPPED / f"{name}.safetensors"), card, half=True)
        write_sums()
        print(name, [(c["name"], c["adapts"], c["gain"]) for c in card["calibration"]["classes"]])


if __name__ == "__main__":
    main()
