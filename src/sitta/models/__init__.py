"""Networks and their checkpoints."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitta.models.checkpoint import load, save
    from sitta.models.unet import UNet

__all__ = ["UNet", "load", "save"]


def __getattr__(name: str) -> Any:
    """Loaded when first used (PEP 562), so that `sitta zoo` never waits for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'sitta.models' has no attribute {name!r}")
    home = "unet" if name == "UNet" else "checkpoint"
    return getattr(importlib.import_module(f"sitta.models.{home}"), name)
