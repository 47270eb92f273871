"""Random changes of training images, by MONAI's transforms. Off by default."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

STRENGTH = {"light": 0.5, "strong": 1.0}


class Augment:
    """Random intensity of images, and random geometry of images and masks alike.

    Every change is drawn from the seed, the epoch and the row alone, so that an interrupted run
    draws the same ones.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.seed = seed
        self.transform = _transforms(STRENGTH[name])

    def __call__(
        self, images: Tensor, masks: Tensor, epoch: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Images ``(B, C, *s)`` and masks ``(B, *s)``, changed."""
        new_images, new_masks = [], []
        for image, mask, row in zip(images, masks, rows, strict=True):
            seed = (self.seed * 100_003 + epoch) * 1_000_003 + row
            self.transform.set_random_state(seed=seed % 2**32)
            changed: dict[str, Any] = self.transform({"image": image, "mask": mask[None].float()})
            values = changed["image"].as_tensor()
            low, high = values.amin(), values.amax()
            new_images.append((values - low) / (high - low).clamp(min=1e-6))
            new_masks.append(changed["mask"].as_tensor()[0].long())
        return torch.stack(new_images), torch.stack(new_masks)


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
