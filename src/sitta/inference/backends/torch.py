"""Networks in torch: from a checkpoint or the user's own code, adapted by any method."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sitta._util.devices import pick_device
from sitta._util.threads import use_threads
from sitta.adaptation import method
from sitta.adaptation.sliding_window import windowed
from sitta.data.image import Array
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.inference.backends.weights import fill, torchscript
from sitta.inference.pipeline import Adapt
from sitta.inference.request import Request
from sitta.prediction.record import PredictionRecord
from sitta.prediction.scores import computed

FACTORY = "package.module:factory, a function without arguments that returns a network"
RUNTIME = {"torch": str(torch.__version__)}


def adapter(model: nn.Module, request: Request, threads: int | None = None) -> Adapt:
    """The method of a request on a network, with that many threads (as torch has it if None)."""
    use_threads(threads)
    adapt: Any = method(request.method, model.to(pick_device(request.device)), **request.settings)
    if request.window is not None:
        adapt = windowed(adapt, request.window, statistics=request.statistics)

    def predict(images: Array) -> PredictionRecord:
        record: PredictionRecord = adapt(images).record
        # All at once: a score computed later keeps tensors on the device, and is not timed.
        return replace(record, computed={name: record.computed[name] for name in computed()})

    return predict


def from_factory(name: str, weights: str | Path | None) -> nn.Module:
    """The network that ``package.module:factory`` returns, with weights from a file."""
    factory = _imported(name)
    try:
        inspect.signature(factory).bind()
    except ValueError:
        pass  # built in: its signature is not known
    except TypeError as error:
        raise InvalidSetting(
            f"{name} cannot be called without arguments ({error}).", allowed=FACTORY
        ) from error
    try:
        model = factory()
    except Exception as error:
        raise UnsupportedModel(f"{name} failed: {_told(error)}.", allowed=FACTORY) from error
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"{name} returns no torch.nn.Module.", got=type(model).__name__)
    if isinstance(model, torch.jit.ScriptModule):
        raise torchscript(f"What {name} returns")
    if weights is not None:
        fill(model, Path(weights))
    return model.eval()


def _imported(name: str) -> Any:
    where, _, call = name.partition(":")
    sys.path.insert(0, "")  # modules in the folder the user is in, as with python -m
    try:
        return getattr(importlib.import_module(where), call)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(
            f"There is no {call!r} to import from {where!r} ({error}).", allowed=FACTORY
        ) from error
    except Exception as error:
        raise UnsupportedModel(f"{where} cannot be imported: {_told(error)}.") from error
    finally:
        sys.path.remove("")


def _told(error: Exception) -> str:
    """What the user's code raised, and its last line in that."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    return f"{said} ({Path(frame.filename).name}, line {frame.lineno})"


def digest(model: nn.Module) -> str:
    """SHA-256 of a network's weights."""
    whole = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        whole.update(name.encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        whole.update(flat.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
