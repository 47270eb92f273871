"""Networks in torch: from a checkpoint or the user's own code, adapted by any method."""

from __future__ import annotations

import copy
import hashlib
import inspect
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sitta._util.devices import pick_device
from sitta._util.threads import use_threads
from sitta.adaptation import DEFAULT, method
from sitta.adaptation.sliding_window import windowed
from sitta.data.image import Array
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.inference.backends.user_code import folders_first, from_file
from sitta.inference.backends.weights import fill, torchscript
from sitta.inference.pipeline import Adapt
from sitta.inference.request import STATISTICS, Request
from sitta.prediction.record import PredictionRecord
from sitta.prediction.scores import computed

FACTORY = "package.module:factory or file.py:factory, a function that returns a network"
RUNTIME = {"torch": str(torch.__version__)}


def adapter(
    model: nn.Module, request: Request, threads: int | None = None, overlap: float | None = None
) -> Adapt:
    """The method of a request on a network, with that many threads (as torch has it if None)."""
    use_threads(threads)
    name = request.method or DEFAULT
    adapt: Any = method(name, model.to(pick_device(request.device)), **request.settings)
    if request.window is not None:
        how: dict[str, Any] = {} if overlap is None else {"overlap": overlap}
        how["statistics"] = request.statistics or STATISTICS[0]
        adapt = windowed(adapt, request.window, **how)

    def predict(images: Array) -> PredictionRecord:
        record: PredictionRecord = adapt(images).record
        # All at once: a score computed later keeps tensors on the device, and is not timed.
        return replace(record, computed={name: record.computed[name] for name in computed()})

    return predict


def from_factory(
    name: str,
    weights: str | Path | None,
    arguments: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> nn.Module:
    """The network that a factory returns, with weights from a file.

    The factory is ``package.module:function``, or ``file.py:function`` relative to ``folder``.
    """
    home, arguments = folder or Path(), arguments or {}
    with folders_first(home, Path()):
        factory = _imported(name, home)
        _require_callable(factory, name, arguments)
        _require_builder(name, factory)
        try:
            model = factory(**copy.deepcopy(dict(arguments)))
        except (Exception, SystemExit) as error:
            raise UnsupportedModel(f"{name} failed: {_told(error)}.", allowed=FACTORY) from error
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"{name} returns no torch.nn.Module.", got=type(model).__name__)
    if isinstance(model, torch.jit.ScriptModule):
        raise torchscript(f"What {name} returns")
    if weights is not None:
        fill(model, Path(weights))
    return model.eval()


def _require_callable(factory: Any, name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what is no function, or not one of these arguments, before it is called."""
    if not callable(factory):
        raise InvalidSetting(f"{name} is no function.", allowed=FACTORY, got=type(factory).__name__)
    try:
        signature = inspect.signature(factory)
    except ValueError:
        return  # built in: its signature is not known
    try:
        signature.bind(**arguments)
    except TypeError as error:
        how = f"with {', '.join(arguments)}" if arguments else "without arguments"
        raise InvalidSetting(
            f"{name} cannot be called {how} ({error}).",
            allowed=FACTORY,
            fix=f'write a profile (.toml) with factory = "{name}" and '
            f"arguments = {{ {_missing(signature)} }} under [model], as sitta profile new does "
            "with --argument NAME=VALUE",
        ) from error


def _missing(signature: inspect.Signature) -> str:
    """The arguments that a function must be given, as a profile has them."""
    named = [
        f"{each.name} = ..."
        for each in signature.parameters.values()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    return ", ".join(named) or "..."


def _require_builder(name: str, factory: Any) -> None:
    """Refuse functions of Python and torch: a profile of others could call any, such as a shell.

    None of them returns a trained network; classes of layers do.
    """
    package = name.rpartition(":")[0].partition(".")[0]
    is_layer = isinstance(factory, type) and issubclass(factory, nn.Module)
    if package in {*sys.stdlib_module_names, "torch", "numpy"} and not is_layer:
        raise InvalidSetting(
            f"{name} is no factory: '{package}' builds no network.",
            allowed=FACTORY,
            fix="if it is a file of yours, name it so: file.py:function",
        )


def _imported(name: str, folder: Path) -> Any:
    where, _, call = name.rpartition(":")
    path = folder / where
    if where.endswith(".py") and not path.is_file():
        raise InvalidSetting(f"There is no file {path}.", allowed=FACTORY)
    try:
        module = from_file(path, folder) if where.endswith(".py") else import_module(where)
        return getattr(module, call)
    except SittaError:  # which says it all
        raise
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(
            f"There is no {call!r} to import from {where!r} ({error}).", allowed=FACTORY
        ) from error
    except (Exception, SystemExit) as error:
        raise UnsupportedModel(f"{where} cannot be imported: {_told(error)}.") from error


def _told(error: BaseException) -> str:
    """What the user's code raised, and its last line in that."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    if isinstance(error, SyntaxError):  # says itself where it is
        return said
    if isinstance(error, SystemExit):
        return "it ends the program, as code that reads the command line does"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{said} ({Path(frame.filename).name}, line {frame.lineno})"


def digest(model: nn.Module) -> str:
    """SHA-256 of a network's weights."""
    whole = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        whole.update(name.encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        whole.update(flat.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
