"""The methods, and the registry of them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torch import nn

from sitta.adaptation.base import Method
from sitta.adaptation.fseg import FSeg
from sitta.adaptation.intent import InTEnt
from sitta.adaptation.memo import MEMO
from sitta.adaptation.sar import SAR
from sitta.adaptation.sita import SITA
from sitta.adaptation.source import Source
from sitta.adaptation.tent import Tent
from sitta.errors import InvalidSetting
from sitta.settings import require_known

__all__ = ["MEMO", "SAR", "SITA", "FSeg", "InTEnt", "Method", "Source", "Tent", "method", "methods"]

# The one list that feeds the API, the command line, the documentation and the tests.
KINDS: tuple[type[Method], ...] = (Source, InTEnt, Tent, SAR, FSeg, SITA, MEMO)
REGISTRY = MappingProxyType({kind.name: kind for kind in KINDS})


def methods() -> MappingProxyType[str, type[Method]]:
    """All methods by name.

    Example:
        >>> list(methods())
        ['source', 'intent', 'tent', 'sar', 'fseg', 'sita', 'memo']
    """
    return REGISTRY


def method(name: str, model: nn.Module, **settings: Any) -> Method:
    """A method by name, for those who choose it at run time.

    Args:
        name: One of ``methods()``.
        model: The model to adapt.
        **settings: Settings of that method.

    Example:
        >>> import sitta
        >>> method("source", sitta.models.UNet(channels=4, multipliers=(1, 2)), lam=0.5)
        Source(activation='auto', output=None, lam=0.5, statistics='captured', variance='biased')
    """
    if name not in REGISTRY:
        raise InvalidSetting(
            "There is no such method.", allowed=", ".join(REGISTRY), got=repr(name)
        )
    require_known(REGISTRY[name].__name__, settings, REGISTRY[name])
    return REGISTRY[name](model, **settings)
