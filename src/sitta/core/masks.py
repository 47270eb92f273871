"""From probabilities to masks: one rule for tensors and NumPy arrays. Nothing here needs torch."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Values = TypeVar("Values")


def labels(probability: Values, activation: str) -> Values:
    """The mask: ``(B, *S)`` classes, or ``(B, C, *S)`` of 0 and 1 if there are several labels.

    A pixel is foreground above one half; a tie goes to the background, or to the lower class.

    Example:
        >>> import numpy as np
        >>> labels(np.array([[[0.2, 0.5, 0.7]]]), "sigmoid").tolist()
        [[0, 0, 1]]
    """
    values: Any = probability
    if activation == "softmax":
        values = values.argmax(1)
    else:
        values = (values > 0.5) * 1  # int64 in either library
        values = values.squeeze(1) if values.shape[1] == 1 else values
    mask: Values = values
    return mask


def one_class(masks: NDArray[Any], axis: int = 0) -> NDArray[Any]:
    """One class per pixel: of labels along ``axis``, which may overlap, the last that is set."""
    numbers = np.arange(1, masks.shape[axis] + 1, dtype=np.uint8)
    return np.asarray((np.moveaxis(masks, axis, -1) * numbers).max(axis=-1))
