"""Changes of a module's class in place, and their undo.

A twin's layers keep their tensors, hooks and attributes and get a class of their own, derived from
the one they had. Nothing else in Sitta assigns to ``__class__``.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import nn


def specialise(
    module: nn.Module, front: Any, prefix: str, base: Any = None, /, **attributes: Any
) -> None:
    """Give a module a class in which ``front`` comes before the class ``base``.

    Args:
        module: Changed in place.
        front: Its methods come first.
        prefix: Of the new class's name.
        base: One of the bases of the module's class, which itself stays in front of ``front``: a
            user's subclass that does more around ``super().forward`` keeps doing so, in the
            forward that ``front.around`` makes of its own. The module's class if not given.
        **attributes: What ``front`` needs on the module.
    """
    before: Any = type(module)
    vars(module)["before_surgery"] = before, tuple(attributes)
    for name, value in attributes.items():
        setattr(module, name, value)
    module.__class__ = _derived(front, before, base or before, prefix)


def restore(root: nn.Module) -> None:
    """Undo all changes of class in a network."""
    for module in root.modules():
        before = vars(module).pop("before_surgery", None)
        if before is not None:
            module.__class__ = before[0]
            for name in before[1]:
                delattr(module, name)


@functools.cache
def _derived(front: Any, kind: Any, base: Any, prefix: str) -> Any:
    inner = type(f"{prefix}{base.__name__}", (front, base), {})
    if kind is base:
        return inner
    own = {"forward": front.around(kind)} if hasattr(front, "around") else {}
    return type(f"{prefix}{kind.__name__}", (kind, inner), own)


def class_before(module: nn.Module) -> type[nn.Module]:
    """The class that a module had before any change."""
    before = vars(module).get("before_surgery")
    return type(module) if before is None else before[0]
