"""Validate the input of a user and turn it into a batch that the model takes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sitta.core.census import Census
from sitta.errors import InvalidImage


def as_batch(image: Any, model: nn.Module, census: Census) -> tuple[Tensor, bool]:
    """The image or images as ``(N, C, *S)`` in the model's type and on its device.

    Takes ``(C, *S)`` or ``(N, C, *S)``, a tensor or anything for ``torch.as_tensor``; returns a
    copy that nothing else changes, and whether it was a batch already.
    """
    try:
        tensor = _tensor(image)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidImage(
            "The image is not an array of numbers.",
            allowed="a tensor or an array, (C, *S) or (N, C, *S)",
            got=type(image).__name__,
        ) from error
    if not tensor.is_floating_point():
        raise InvalidImage(
            "The image does not hold floating-point numbers.",
            allowed="values scaled as in training, most often to [0, 1]",
            got=str(tensor.dtype),
            fix="scale it first, for 8-bit images image.float() / 255",
        )
    batched = _is_batch(tensor, census)
    # To the type and the device of the model.
    home = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    tensor = (tensor if batched else tensor[None]).to(home, copy=True)
    if not tensor.numel():
        raise InvalidImage("The image is empty.", got=f"shape {tuple(tensor.shape)}")
    _require_finite(tensor)
    return tensor, batched


def _tensor(image: Any) -> Tensor:
    """A plain tensor of arrays of any layout, lists of images, subclasses of tensors."""
    if isinstance(image, np.ndarray):
        image = np.array(image, dtype=image.dtype.newbyteorder("="), order="C")
    elif isinstance(image, (list, tuple)) and image and isinstance(image[0], Tensor):
        image = torch.stack(list(image))
    return torch.as_tensor(image).detach().as_subclass(Tensor)


def explain(error: Exception, images: Tensor) -> None:
    """Explain why the model failed on these images: raise an error, or add a note."""
    channels = images.shape[1]
    said = re.search(r"to have (\d+) channels, but got (\d+) channels", str(error))
    if said and int(said[2]) == channels:
        raise InvalidImage(
            "The image has the wrong number of channels.",
            allowed=f"{said[1]}, as a convolution of the model takes",
            got=f"{channels} in an image of shape {tuple(images.shape[1:])}",
        ) from error
    error.add_note(f"The model raised this on images of shape {tuple(images.shape)}.")


def _is_batch(tensor: Tensor, census: Census) -> bool:
    rank = census.rank or max(2, tensor.dim() - 2)
    if tensor.dim() in (rank + 1, rank + 2):
        return tensor.dim() == rank + 2
    space = ", ".join("DHW"[-rank:])
    raise InvalidImage(
        f"The image has {tensor.dim()} axes, but the model works in {rank}D.",
        allowed=f"(C, {space}) for one image, (N, C, {space}) for several",
        got=f"shape {tuple(tensor.shape)}",
        fix="add the channel axis: image[None]" if tensor.dim() == rank else "",
    )


def _require_finite(tensor: Tensor) -> None:
    if torch.isfinite(tensor).all():
        return
    nan, infinite = int(tensor.isnan().sum()), int(tensor.isinf().sum())
    raise InvalidImage(
        "The image holds values that are not finite numbers.",
        got=f"{nan} NaN and {infinite} infinite of {tensor.numel()} values, as {tensor.dtype}",
        fix="replace them before (torch.nan_to_num), or scale the image into the type's range",
    )
