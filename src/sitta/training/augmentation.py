"""Random changes of training images, by MONAI's transforms. Off unless asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

STRENGTH = {"light": 0.5, "strong": 1.0}


class Augment:
    """Changes intensity and geometry of images and masks alike.

    Every change is drawn from the seed, the epoch and the row alone, so that a run that was
    interrupted draws the same ones.

    Args:
        name: ``light`` or ``strong``.
        seed: Of the run.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.seed = seed
        self.transform = _transforms(STRENGTH[name])

    def __call__(
        self, images: Tensor, masks: Tensor, epoch: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Images ``(B, C, *s)`` and masks ``(B, *s)``, changed."""
        changed = [
            self._one(image, mask, (self.seed * 100_003 + epoch) * 1_000_003 + row)
            for image, mask, row in zip(images, masks, rows, strict=True)
        ]
        return torch.stack([x for x, _ in changed]), torch.stack([y for _, y in changed])

    def _one(self, image: Tensor, mask: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        self.transform.set_random_state(seed=seed % 2**32)
        found: dict[str, Any] = self.transform({"image": image, "mask": mask[None].float()})
        changed = found["image"].as_tensor()
        low, high = changed.amin(), changed.amax()
        return (changed - low) / (high - low).clamp(min=1e-6), found["mask"].as_tensor()[0].long()


def _transforms(strength: float) -> Any:
    from monai import transforms as m

    keys, k = ["image", "mask"], strength
    return m.Compose(
        [
            m.RandAffined(
                keys,
                prob=0.8,
                rotate_range=0.25 * k,
                scale_range=0.2 * k,
                translate_range=12 * k,
                mode=("bilinear", "nearest"),
                padding_mode="border",
            ),
            m.RandAdjustContrastd("image", prob=0.5 * k, gamma=(0.5, 2.0)),
            m.RandBiasFieldd("image", prob=0.4 * k, coeff_range=(0.0, 0.3)),
            m.RandGaussianSmoothd("image", prob=0.3 * k, sigma_x=(0.3, 1.5), sigma_y=(0.3, 1.5)),
            m.RandGaussianNoised("image", prob=0.4 * k, std=0.08),
        ]
    )
