"""The methods, and the registry of them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torch import nn

from sitta.adaptation.base import REGISTRY, Method
from sitta.adaptation.intent import InTEnt  # isort: split

from sitta.adaptation.source import Source  # isort: split  (the order of import is that of lists)
from sitta.adaptation.tent import Tent  # isort: split

from sitta.adaptation.sar import SAR  # isort: split

from sitta.adaptation.fseg import FSeg  # isort: split

from sitta.adaptation.sita import SITA  # isort: split

from sitta.adaptation.memo import MEMO  # isort: split

from sitta.errors import InvalidSetting
from sitta.settings import require_known

__all__ = ["MEMO", "SAR", "SITA", "FSeg", "InTEnt", "Method", "Source", "Tent", "method", "methods"]


def methods() -> MappingProxyType[str, type[Method]]:
    """All methods by name.

    Example:
        >>> sorted(methods())
        ['fseg', 'intent', 'memo', 'sar', 'sita', 'source', 'tent']
    """
    return MappingProxyType(REGISTRY)


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
