"""Sitta adapts a trained medical segmentation model to the one image in front of it.

>>> import sitta, torch
>>> model = sitta.load("phantom-alder")
>>> p = sitta.InTEnt(model)(torch.rand(1, 64, 64))
>>> p.mask.shape
torch.Size([64, 64])

For research. Sitta is not a medical device.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sitta._version import __version__

if TYPE_CHECKING:
    from sitta import data, models
    from sitta.adaptation import MEMO, SAR, SITA, FSeg, InTEnt, Source, Tent, method, methods
    from sitta.errors import InvalidImage, InvalidSetting, SittaError, UnsupportedModel
    from sitta.export import export_onnx
    from sitta.inspection import inspect
    from sitta.models import load
    from sitta.prediction import Prediction

# Names are loaded when first used (PEP 562), so that `sitta --help` never waits for torch.
_HOMES = {
    "FSeg": "sitta.adaptation",
    "InTEnt": "sitta.adaptation",
    "InvalidImage": "sitta.errors",
    "InvalidSetting": "sitta.errors",
    "MEMO": "sitta.adaptation",
    "Prediction": "sitta.prediction",
    "SAR": "sitta.adaptation",
    "SITA": "sitta.adaptation",
    "SittaError": "sitta.errors",
    "Source": "sitta.adaptation",
    "Tent": "sitta.adaptation",
    "UnsupportedModel": "sitta.errors",
    "data": "sitta.data",
    "export_onnx": "sitta.export",
    "inspect": "sitta.inspection",
    "load": "sitta.models",
    "method": "sitta.adaptation",
    "methods": "sitta.adaptation",
    "models": "sitta.models",
}

__all__ = [
    "MEMO",
    "SAR",
    "SITA",
    "FSeg",
    "InTEnt",
    "InvalidImage",
    "InvalidSetting",
    "Prediction",
    "SittaError",
    "Source",
    "Tent",
    "UnsupportedModel",
    "__version__",
    "data",
    "export_onnx",
    "inspect",
    "load",
    "method",
    "methods",
    "models",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sitta' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    value = home if home.__name__ == f"sitta.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
