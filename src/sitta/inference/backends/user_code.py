"""Modules of users: imported from their own folders, where two folders may have the same names."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module, invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from sitta.errors import InvalidSetting

_LOCK = threading.RLock()  # over sys.path and sys.modules
_USED: set[Path] = set()  # folders that came first at some time


@contextmanager
def folders_first(*folders: Path) -> Iterator[None]:
    """Import from these folders before all others, as ``python -m`` does from the current one.

    A module that another user's folder has under the same name is forgotten, so that each network
    is built from the code beside it. What is printed goes to the standard error: the standard
    output of a command may be JSON.
    """
    here = [folder.absolute() for folder in folders]
    paths = [str(folder) for folder in here]
    with _LOCK, redirect_stdout(sys.stderr):
        _forget_namesakes(here)
        _USED.update(here)
        sys.path[:0] = paths
        try:
            yield
        finally:
            for path in paths:
                sys.path.remove(path)


def _forget_namesakes(folders: list[Path]) -> None:
    """Forget modules of folders used before, if these have others of the same name."""
    for name in [each for each in sys.modules if "." not in each]:
        home = _home(sys.modules[name], name)
        owner = next((f for f in folders if _has(f, name)), None)
        if owner is not None and home in _USED and home != owner:
            for each in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
                del sys.modules[each]
            invalidate_caches()


def _home(module: ModuleType, name: str) -> Path | None:
    """The folder in which a module or package of this name lies."""
    places = [*getattr(module, "__path__", ()), getattr(module, "__file__", None)]
    inside = Path(places[0]) if isinstance(places[0], str) else None
    return inside.parent if inside is not None and inside.stem == name else None


def _has(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def from_file(path: Path, folder: Path) -> ModuleType:
    """The module in a file, which may import others beside it, or as a part of a package."""
    path, folder = (Path(os.path.normpath(each.absolute())) for each in (path, folder))
    name = f"sitta_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidSetting(f"{path} is no Python file.")
    module = sys.modules[name] = module_from_spec(spec)  # by its name for pickles of what it makes
    with folders_first(path.parent):
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if not (isinstance(error, ImportError) and "relative import" in str(error)):
                raise
        else:
            return module
    root = _above_package(path, folder)
    with folders_first(path.parent, root):
        return import_module(".".join(path.relative_to(root).with_suffix("").parts))


def _above_package(path: Path, folder: Path) -> Path:
    """The folder from which relative imports in a file make sense: above its outermost package."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    if root != path.parent:
        return root
    return folder if folder in path.parent.parents else path.parent.parent
