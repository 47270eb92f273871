"""Networks in torch: from a checkpoint or the user's own code, adapted by any method."""

from __future__ import annotations

import errno
import hashlib
import importlib
import inspect
import sys
import traceback
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sitta._util.devices import pick_device
from sitta._util.threads import use_threads
from sitta.adaptation import method
from sitta.adaptation.sliding_window import windowed
from sitta.data.image import Array
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.inference.pipeline import Adapt
from sitta.inference.request import Request
from sitta.prediction.record import PredictionRecord
from sitta.prediction.scores import computed

FACTORY = "package.module:factory, a function without arguments that returns a network"
RUNTIME = {"torch": str(torch.__version__)}
NESTED = ("state_dict", "model_state_dict", "model", "net")  # where trainers keep the weights


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
    if weights is not None:
        _fill(model, Path(weights))
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
            return dict(load_file(path))
        except SafetensorError as error:
            raise SittaError(f"{path} is not a readable safetensors file ({error}).") from error
    _require_stored(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of the disk, not of bytes
            raise
        raise SittaError(
            f"{path} holds more than tensors, or is damaged ({type(error).__name__}).",
            fix="save model.state_dict() alone: nothing else is unpickled here",
        ) from error
    for _ in NESTED:  # not for ever: a dict may hold itself
        inner = [k for k in NESTED if isinstance(state, Mapping) and k in state]
        state = state[inner[0]] if inner else state
    if not isinstance(state, Mapping) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()
    ):
        raise SittaError(f"{path} holds no state dict.", fix="save model.state_dict()")
    return state


def _require_stored(path: Path) -> None:
    """Refuse an archive that unpacks to more than it is: torch never compresses."""
    try:
        if not zipfile.is_zipfile(path):
            return  # of another format, which torch reads or refuses
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SittaError(f"{path} is a damaged archive ({error}).") from error
    if unpacked > (size := path.stat().st_size):
        raise SittaError(
            f"{path} unpacks to more than torch.save writes.",
            allowed=f"{size:,} bytes, the size of the file",
            got=f"{unpacked:,}",
            fix="save model.state_dict() again",
        )


def digest(model: nn.Module) -> str:
    """SHA-256 of a network's weights."""
    whole = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        whole.update(name.encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        whole.update(flat.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
