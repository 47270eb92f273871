"""Values in the types that JSON has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any, digits: int | None = None) -> Any:
    """Dicts, lists and numbers of ``digits`` significant digits; None for what is not finite.

    Example:
        >>> plain({"a": (1.23456, float("nan"))}, digits=3)
        {'a': [1.23, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(v, digits) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, digits) for v in value]
    value = value.item() if hasattr(value, "item") else value  # NumPy's numbers
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{digits}g}") if digits else value
    return rounded if math.isfinite(value) else None
