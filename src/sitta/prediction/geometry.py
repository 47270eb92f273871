"""Geometry that an image brings along: a MetaTensor of MONAI in, MetaTensors out.

MONAI is never imported here. Where a MetaTensor came in, its module is loaded already.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor

MODULE = "monai.data.meta_tensor"


class ImageGeometry:
    """Affine, metadata and applied operations of one MetaTensor or of a batch of them."""

    def __init__(self, image: Any) -> None:
        self._image = image

    @classmethod
    def of(cls, image: Any) -> ImageGeometry | None:
        """Of what a user handed over: a MetaTensor, or a list of them; None of anything else."""
        kind = getattr(sys.modules.get(MODULE), "MetaTensor", None)
        if kind is None:
            return None
        if isinstance(image, (list, tuple)) and image and all(isinstance(x, kind) for x in image):
            from monai.data.utils import collate_meta_tensor

            image = collate_meta_tensor(image)
        return cls(image) if isinstance(image, kind) else None

    def __getitem__(self, at: int | slice) -> ImageGeometry:
        """Of some images of a batch; a single image has one geometry, whatever is asked for."""
        batch = getattr(self._image, "is_batch", False)
        return ImageGeometry(self._image[at]) if batch else self

    def on(self, values: Tensor) -> Tensor:
        """The same values with this geometry."""
        dressed: Tensor = type(self._image)(values).copy_meta_from(self._image)
        return dressed
