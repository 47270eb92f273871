"""Train the network that ships in the package on phantoms of one site.

    python scripts/train_phantom.py --site alder --out phantom-alder.safetensors

No augmentation: the network shall know its own scanner and no other. Prints the Dice on unseen
scenes of its own site and of every other one. Its card gets limits of trust as those of ``sitta
train`` do, from 60 further scenes of its own site; ``--limits-only`` chooses them anew for the
checkpoint that is there, whose weights stay as they are.

The loop is not that of ``sitta train``, which holds images out, keeps the epoch that is best on
them and so comes to other weights: the card of the network that ships names this command.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sitta.calibration.limits import limits
from sitta.data import phantom
from sitta.data.samples import Samples
from sitta.models import UNet, load, save

# The demo draws with seed 0, benchmarks/methods.py with 3: scenes that nothing is chosen by.
TRAIN_SEED, TEST_SEED, LIMITS_SEED = 1, 2, 4


def loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Binary cross-entropy and soft Dice, equally."""
    p, truth = logits.sigmoid().flatten(1), masks.flatten(1)
    overlap = (2 * (p * truth).sum(1) + 1e-5) / (p.sum(1) + truth.sum(1) + 1e-5)
    return F.binary_cross_entropy_with_logits(logits, masks) + (1 - overlap).mean()


@torch.no_grad()
def dice(net: UNet, site: str, count: int, size: tuple[int, int]) -> float:
    """Mean Dice over unseen scenes of a site, at source statistics."""
    images, masks = phantom.batch(site, count, size, seed=TEST_SEED)
    found = torch.cat([net(x) for x in images.split(8)])[:, 0] > 0
    both = (found & (masks > 0)).flatten(1).sum(1)
    return float((2 * both / (found.flatten(1).sum(1) + masks.flatten(1).sum(1))).mean())


def train(net: UNet, images: Tensor, masks: Tensor, epochs: int, rate: float, batch: int) -> None:
    """Adam on a one-cycle learning rate."""
    steps = epochs * (len(images) // batch)
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        order = torch.randperm(len(images))
        for rows in order[: len(order) // batch * batch].split(batch):
            value = loss(net(images[rows]), masks[rows])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()
            total += value.item() * batch / len(images)
        print(f"epoch {epoch + 1:3d} of {epochs}  loss {total:.4f}", flush=True)


def unseen(site: str, count: int, size: tuple[int, int]) -> Samples:
    """Scenes of a site that limits of trust are chosen on, and nothing else."""
    images, masks = phantom.batch(site, count, size, seed=LIMITS_SEED)
    names = tuple(f"scene-{index:04d}" for index in range(count))
    return Samples(images, masks, names, names, (0,) * count)


def add_limits(path: str, count: int, size: tuple[int, int]) -> dict[str, Any]:
    """Limits of trust in the card of a checkpoint of ``main``; gives them.

    They are those of the weights in the file: half of a number that was half already is the same
    number, so that the weights stay bit for bit.
    """
    net = load(path)
    about: dict[str, Any] = net.card  # type: ignore[assignment]  # what load puts there
    site = about["source"].removeprefix("phantom/")
    about["trust"] = limits(net, unseen(site, count, size))
    save(net, path, about, half=True)  # type: ignore[arg-type]  # it is a UNet
    return about["trust"]


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", default="alder", choices=list(phantom.SITES))
    parser.add_argument("--out", required=True)
    parser.add_argument("--channels", type=int, default=12)
    parser.add_argument("--images", type=int, default=240)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limits", type=int, default=60, help="scenes that they are chosen on")
    parser.add_argument("--limits-only", action="store_true", help="of --out as it is")
    return parser.parse_args()


def make(given: argparse.Namespace, size: tuple[int, int]) -> None:
    """Train, test on every site, and save."""
    torch.manual_seed(given.seed)
    net = UNet.preset("compact", channels=given.channels)
    images, masks = phantom.batch(given.site, given.images, size, seed=TRAIN_SEED)
    train(net, images, masks[:, None].float(), given.epochs, given.rate, batch=10)
    net.eval()
    figures = {site: round(dice(net, site, 24, size), 4) for site in phantom.SITES}
    about = {
        "source": f"phantom/{given.site}",
        "classes": ["background", "organ"],
        "dice": figures,
        "command": shlex.join(["python", *sys.argv]),
    }
    save(net, given.out, about, half=True)
    print("\n".join(f"{site:8} Dice {figure:.3f}" for site, figure in figures.items()))


def main() -> None:
    """A network and its limits of trust, or these alone."""
    given = options()
    size = (given.size, given.size)
    if not given.limits_only:
        make(given, size)
    chosen = add_limits(given.out, given.limits, size)
    print("limits of trust: agreement {agreement}, distance {distance}".format(**chosen))


if __name__ == "__main__":
    main()
