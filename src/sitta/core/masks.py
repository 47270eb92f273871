"""From probabilities to masks: one rule for tensors and NumPy arrays. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sitta.errors import InvalidSetting

Values = TypeVar("Values")
HALF = 0.5


def labels(probability: Values, activation: str, thresholds: Sequence[float | None] = ()) -> Values:
    """The mask: ``(B, *S)`` classes, or ``(B, C, *S)`` of 0 and 1 if there are several labels.

    A pixel is foreground above one half; a tie goes to the background, or to the lower class.

    With thresholds, one for each foreground class or label, a label is where its probability is
    above its threshold. Of exclusive classes, a pixel goes to the most probable of those above
    their thresholds, and to the background if there is none; a class without a threshold (None)
    takes part where it is the most probable of all.

    Example:
        >>> import numpy as np
        >>> labels(np.array([[[0.2, 0.5, 0.7]]]), "sigmoid").tolist()
        [[0, 0, 1]]
        >>> labels(np.array([[[0.2, 0.5, 0.7]]]), "sigmoid", [0.3]).tolist()
        [[0, 1, 1]]
    """
    values: Any = probability
    if thresholds:
        _require_fitting(thresholds, values.shape[1] - (activation == "softmax"))
    if activation == "softmax":
        values = _above(values, thresholds) if thresholds else values.argmax(1)
    else:
        cuts = [HALF if t is None else t for t in thresholds]
        values = (values > (_beside(values, cuts) if cuts else HALF)) * 1  # int64 in either library
        values = values.squeeze(1) if values.shape[1] == 1 else values
    mask: Values = values
    return mask


def _above(values: Any, thresholds: Sequence[float | None]) -> Any:
    """Classes ``(B, *S)``: the most probable of those above their thresholds."""
    foreground, most = values[:, 1:], values.argmax(1)[:, None]
    never = [np.inf if t is None else t for t in thresholds]
    number = [0 if t is not None else n for n, t in enumerate(thresholds, start=1)]
    first = (most == _beside(most, number)) & (most > 0)  # classes without a threshold
    eligible = (foreground > _beside(foreground, never)) | first
    return ((foreground * eligible).argmax(1) + 1) * eligible.any(1)


def _beside(values: Any, numbers: Sequence[float]) -> Any:
    """Numbers of the classes, to be compared with maps ``(B, C, *S)`` of either library."""
    shape = (1, -1, *[1] * (values.ndim - 2))
    if isinstance(values, np.ndarray):
        return np.array(numbers, dtype=values.dtype).reshape(shape)
    return values.new_tensor(numbers).reshape(shape)


def _require_fitting(thresholds: Sequence[float | None], classes: int) -> None:
    if len(thresholds) != classes:
        raise InvalidSetting(
            "The thresholds do not fit the classes of the model.",
            allowed=f"{classes}, one for each foreground class or label",
            got=", ".join(map(str, thresholds)),
        )


def one_class(masks: NDArray[Any], axis: int = 0) -> NDArray[Any]:
    """One class per pixel: of labels along ``axis``, which may overlap, the last that is set."""
    numbers = np.arange(1, masks.shape[axis] + 1, dtype=np.uint8)
    return np.asarray((np.moveaxis(masks, axis, -1) * numbers).max(axis=-1))
