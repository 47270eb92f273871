"""Imports that succeed without a package which the model at hand does not need.

nnU-Net looks for a trainer by importing all of them, and one of them needs timm, which pulls
torchvision: without these, every trainer but the usual one would be out of reach.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from sitta.errors import UnsupportedModel


class _Module(ModuleType):
    """Has every name: a class that cannot be used."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        package = self.__name__.partition(".")[0]

        def refuse(self: Any, *args: Any, **kw: Any) -> NoReturn:
            fix = f"pip install {package}"
            raise UnsupportedModel(f"This network needs the package {package}.", fix=fix)

        return type(name, (), {"__init__": refuse})


class _Finder(MetaPathFinder, Loader):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        inside = name.partition(".")[0] == self.package
        return ModuleSpec(name, self, is_package=True) if inside else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def stand_in(package: str) -> Iterator[None]:
    """Whatever is imported in here finds a package that is not installed."""
    finder = _Finder(package)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] == package]:
            del sys.modules[name]
