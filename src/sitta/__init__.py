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
from sitta.adaptation import METHODS

if TYPE_CHECKING:
    from sitta import data as data
    from sitta import models as models
    from sitta.adaptation import *  # noqa: F403  (the methods)
    from sitta.adaptation.inspection import inspect as inspect
    from sitta.calibration.calibrate import calibrate as calibrate
    from sitta.errors import InvalidImage as InvalidImage
    from sitta.errors import InvalidSetting as InvalidSetting
    from sitta.errors import SittaError as SittaError
    from sitta.errors import UnsupportedModel as UnsupportedModel
    from sitta.export import export_onnx as export_onnx
    from sitta.inference.loading import load as load
    from sitta.prediction.prediction import Prediction as Prediction

# Names are loaded when first used (PEP 562), so that `sitta --help` never waits for torch.
_HOMES = {
    "InvalidImage": "sitta.errors",
    "InvalidSetting": "sitta.errors",
    "Prediction": "sitta.prediction.prediction",
    "SittaError": "sitta.errors",
    "UnsupportedModel": "sitta.errors",
    "calibrate": "sitta.calibration.calibrate",
    "data": "sitta.data",
    "export_onnx": "sitta.export",
    "inspect": "sitta.adaptation.inspection",
    "load": "sitta.inference.loading",
    "method": "sitta.adaptation",
    "methods": "sitta.adaptation",
    "models": "sitta.models",
}

__all__ = [*sorted(METHODS | _HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    homes = METHODS | _HOMES
    if name not in homes:
        raise AttributeError(f"module 'sitta' has no attribute {name!r}")
    home = importlib.import_module(homes[name])
    value = home if home.__name__ == f"sitta.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
