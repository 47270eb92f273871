"""Arrays as plain values, in half precision, for files in JSON. They may come from anyone."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting

MOST_NUMBERS = 1 << 20  # numbers of one array; a shape prior has about 13,000
AXES = 4


def packed(values: NDArray[Any]) -> dict[str, Any]:
    """An array in plain values.

    Example:
        >>> packed(np.ones(2))
        {'shape': [2], 'float16': 'ADwAPA=='}
    """
    raw = np.ascontiguousarray(values, dtype="<f2").tobytes()
    return {"shape": list(values.shape), "float16": base64.b64encode(raw).decode()}


def unpacked(values: Any, what: str) -> NDArray[np.float32]:
    """What ``packed`` made, called ``what`` in an InvalidSetting."""
    shape = values.get("shape") if isinstance(values, dict) else None
    raw = values.get("float16") if isinstance(values, dict) else None
    sides = shape if isinstance(shape, list) and len(shape) <= AXES else [-1]
    if not all(isinstance(n, int) and 0 <= n <= MOST_NUMBERS for n in sides) or not isinstance(
        raw, str
    ):
        raise InvalidSetting(f"{what} is no array.", got=shown(values))
    try:
        numbers = np.frombuffer(base64.b64decode(raw, validate=True), dtype="<f2").reshape(sides)
    except (binascii.Error, ValueError) as error:
        raise InvalidSetting(f"{what} is a damaged array ({error}).") from error
    if numbers.size > MOST_NUMBERS or not np.isfinite(numbers).all():
        raise InvalidSetting(f"{what} holds too many numbers, or some that are not finite.")
    return numbers.astype(np.float32)
