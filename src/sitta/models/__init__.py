"""Networks and their checkpoints."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitta.models.checkpoint import load, save
    from sitta.models.unet import UNet

# Loaded when first used (PEP 562), so that `sitta zoo` never waits for torch.
_HOMES = {
    "UNet": "sitta.models.unet",
    "load": "sitta.models.checkpoint",
    "save": "sitta.models.checkpoint",
}

__all__ = ["UNet", "load", "save"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sitta.models' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
