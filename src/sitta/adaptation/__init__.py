"""The methods, and the registry of them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torch import nn

from sitta.adaptation.base import REGISTRY, Method
from sitta.adaptation.intent import InTEnt
from sitta.adaptation.source import Source
from sitta.errors import InvalidSetting
from sitta.settings import require_known

__all__ = ["InTEnt", "Method", "Source", "method", "methods"]


def methods() -> MappingProxyType[str, type[Method]]:
    """All methods by name.

    Example:
        >>> sorted(methods())
        ['intent', 'source']
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
