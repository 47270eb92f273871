"""The methods, and the registry of them.

Nothing here imports torch until a method is used, so that ``import sitta`` stays fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; at run time __getattr__ loads from METHODS
    from torch import nn

    from sitta.adaptation.adapt import Adapt as Adapt
    from sitta.adaptation.base import Method as Method
    from sitta.adaptation.fseg import FSeg as FSeg
    from sitta.adaptation.intent import InTEnt as InTEnt
    from sitta.adaptation.memo import MEMO as MEMO
    from sitta.adaptation.sar import SAR as SAR
    from sitta.adaptation.sita import SITA as SITA
    from sitta.adaptation.source import Source as Source
    from sitta.adaptation.tent import Tent as Tent

# The registry: the class of each method and its module, in the order of tables and menus. It feeds
# the API, the command line, the service, the benchmark, the documentation and the tests.
METHODS: dict[str, str] = {
    "Source": "sitta.adaptation.source",
    "Adapt": "sitta.adaptation.adapt",
    "InTEnt": "sitta.adaptation.intent",
    "Tent": "sitta.adaptation.tent",
    "SAR": "sitta.adaptation.sar",
    "FSeg": "sitta.adaptation.fseg",
    "SITA": "sitta.adaptation.sita",
    "MEMO": "sitta.adaptation.memo",
}
DEFAULT = "adapt"  # the method of predict, serve and the demo unless another is asked for


def __getattr__(name: str) -> Any:
    homes = {"Method": "sitta.adaptation.base", **METHODS}
    if name not in homes:
        raise AttributeError(f"module 'sitta.adaptation' has no attribute {name!r}")
    return getattr(importlib.import_module(homes[name]), name)


def methods() -> Mapping[str, type[Method]]:
    """All methods by name.

    Example:
        >>> methods()["intent"].title
        'InTEnt'
    """
    classes = [getattr(importlib.import_module(module), name) for name, module in METHODS.items()]
    return MappingProxyType({cls.name: cls for cls in classes})


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
    from sitta._util.names import unknown_name
    from sitta._util.settings import require_known

    registry = methods()
    if name not in registry:
        raise unknown_name("method", name, registry)
    require_known(registry[name].__name__, settings, registry[name])
    return registry[name](model, **settings)
