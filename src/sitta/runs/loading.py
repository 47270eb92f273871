"""A model and its preprocessing, from a checkpoint or from the user's own code."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sitta.data.preprocess import TASKS, Preprocess
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.models import checkpoint

NESTED = ("state_dict", "model_state_dict", "model", "net")  # where trainers keep the weights


@dataclass(frozen=True)
class Loaded:
    """A model that is ready for files.

    Attributes:
        name: As it was asked for.
        model: The network, in evaluation mode.
        preprocess: What it takes.
        classes: Names of its foreground classes.
        digest: SHA-256 of its weights.
    """

    name: str
    model: nn.Module
    preprocess: Preprocess
    classes: tuple[str, ...]
    digest: str


def load_model(
    name: str, weights: str | Path | None = None, changes: Mapping[str, Any] | None = None
) -> Loaded:
    """A model by the name of a shipped one, a checkpoint, or ``package.module:factory``.

    Args:
        name: Which.
        weights: For a factory: a safetensors file, or a ``.pt`` with tensors alone.
        changes: Settings of the preprocessing that differ from the checkpoint's or the usual ones.
    """
    if ":" in name and not Path(name).exists():
        return _from_factory(name, weights, dict(changes or {}))
    if weights is not None:
        raise InvalidSetting(
            "Weights of their own go with a network of your own.",
            allowed="package.module:factory --weights FILE",
            got=f"{name} --weights {weights}",
        )
    path = checkpoint.find(name)
    card = checkpoint.card(path)
    usual = TASKS.get(str(card.get("source", "")).split("/")[0], Preprocess()).as_dict()
    settings = {**usual, **card.get("preprocess", {}), **(changes or {})}
    classes = tuple(card.get("classes", ["background", "foreground"])[1:])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Loaded(name, checkpoint.load(path), Preprocess.from_dict(settings), classes, digest)


def _from_factory(name: str, weights: str | Path | None, changes: dict[str, Any]) -> Loaded:
    where, _, call = name.partition(":")
    sys.path.insert(0, "")  # modules in the folder the user is in, as with python -m
    try:
        factory = getattr(importlib.import_module(where), call)
    except (ImportError, AttributeError) as error:
        raise InvalidSetting(
            f"There is no {call!r} to import from {where!r} ({error}).",
            allowed="package.module:factory, a function without arguments that returns a network",
        ) from error
    finally:
        sys.path.remove("")
    model = factory()
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"{name} returns no torch.nn.Module.", got=type(model).__name__)
    if weights is not None:
        _fill(model, Path(weights))
    return Loaded(name, model.eval(), Preprocess(**changes), ("foreground",), _digest(model))


def _fill(model: nn.Module, path: Path) -> None:
    tensors = {k.removeprefix("module."): v for k, v in _tensors(path).items()}
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).splitlines()[1:3]
        raise UnsupportedModel(
            f"The weights in {path} do not fit the network: {' '.join(map(str.strip, first))}"
        ) from error


def _tensors(path: Path) -> Mapping[str, Tensor]:
    """Tensors by name, from a file that is never unpickled."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors: Mapping[str, Tensor] = load_file(path)
            return tensors
        except SafetensorError as error:
            raise SittaError(f"{path} is not a readable safetensors file ({error}).") from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise SittaError(
            f"{path} holds more than tensors, or is damaged ({type(error).__name__}).",
            fix="save model.state_dict() alone: nothing else is unpickled here",
        ) from error
    while isinstance(found, Mapping) and (inner := next((k for k in NESTED if k in found), None)):
        found = found[inner]
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise SittaError(f"{path} holds no state dict.", fix="save model.state_dict()")
    return found


def _digest(model: nn.Module) -> str:
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(name.encode())
        found.update(
            tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
    return found.hexdigest()
