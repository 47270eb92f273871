"""Networks in torch: from a checkpoint or the user's own code, adapted by any method."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sitta.adaptation import method
from sitta.adaptation.windows import windowed
from sitta.data.picture import Array
from sitta.devices import pick_device
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.runs.answer import Answer
from sitta.runs.one import Adapt
from sitta.runs.plan import Plan

NESTED = ("state_dict", "model_state_dict", "model", "net")  # where trainers keep the weights


def adapter(model: nn.Module, plan: Plan, threads: int | None = None) -> Adapt:
    """A method on a network.

    Args:
        model: The network.
        plan: Which method, with which settings and windows, and where.
        threads: Of this process; as torch has it if None.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    adapt: Any = method(plan.method, model.to(pick_device(plan.device)), **plan.settings)
    if plan.window is not None:
        adapt = windowed(adapt, plan.window, statistics=plan.statistics)

    def answer(images: Array) -> Answer:
        return Answer(**adapt(images).arrays())

    return answer


def from_factory(name: str, weights: str | Path | None) -> nn.Module:
    """The network that ``package.module:factory`` returns, with weights from a file."""
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
    return model.eval()


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


def digest(model: nn.Module) -> str:
    """SHA-256 of a network's weights."""
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(name.encode())
        found.update(
            tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
    return found.hexdigest()
