"""Weights from a file into a network of the user's own, whatever wrapper saved them."""

from __future__ import annotations

import errno
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sitta.errors import SittaError, UnsupportedModel

NESTED = ("state_dict", "model_state_dict", "network_weights", "model", "net", "network", "module")
PREFIXES = ("model.", "module.", "net.", "network.", "_orig_mod.")  # that wrappers put in front
SHOWN = 5  # keys of each kind in a message
DEPTH = 4  # of dicts in dicts
Tensors = dict[str, Tensor]


def fill(model: nn.Module, path: Path) -> None:
    """Load weights into a network; refuses a file in which none fit, and says what differs."""
    if not path.is_file():
        raise SittaError(
            f"There is no file of weights {path}.",
            fix="check the path; in a profile, it is relative to the profile's folder",
        )
    candidates = list(_sets(_read(path), ""))
    if not candidates:
        raise SittaError(f"{path} holds no state dict.", fix="save model.state_dict()")
    fitting = {name: fit for name, each in candidates if (fit := _fitting(each, model)) is not None}
    usual = [name for name in fitting if not name or name.split(".")[-1] in NESTED]
    if not usual and len(fitting) > 1:
        raise SittaError(
            f"{path} holds several sets of weights that fit the network.",
            got=", ".join(fitting),
            fix="save the one that you want alone",
        )
    if not fitting:
        closest = max((each for _, each in candidates), key=lambda each: _common(each, model))
        raise _mismatch(path, closest, model)
    model.load_state_dict(fitting[(usual or list(fitting))[0]])


def is_torchscript(path: Path) -> bool:
    """Whether a file is a TorchScript archive."""
    if not path.is_file():
        return False
    try:
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def torchscript(what: str) -> UnsupportedModel:
    """Why a TorchScript model is refused."""
    return UnsupportedModel(
        f"{what} is TorchScript, which cannot be adapted: its layers cannot be exchanged.",
        fix="give the eager network it was made from, as package.module:factory, and its "
        "state dict (torch.save(model.state_dict(), FILE)) as --weights",
    )


def _read(path: Path) -> Any:
    """What a file holds, which is never unpickled beyond tensors and plain values."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise SittaError(f"{path} is not a readable safetensors file ({error}).") from error
    if is_torchscript(path):
        raise torchscript(str(path))
    _require_stored(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of the disk, not of bytes
            raise
        raise SittaError(
            f"{path} holds more than tensors, or is damaged ({type(error).__name__}).",
            fix="save model.state_dict() alone: nothing else is unpickled here",
        ) from error


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


def _sets(state: Any, name: str, depth: int = DEPTH) -> Iterator[tuple[str, Tensors]]:
    """Every dict of tensors in a file with where it lies, those of usual names first.

    What else lies beside tensors (epochs, optimisers, hyperparameters) is left out.
    """
    if not isinstance(state, Mapping) or not depth:
        return
    tensors = {k: v for k, v in state.items() if isinstance(k, str) and isinstance(v, Tensor)}
    if tensors:
        yield name, tensors
    usual = [key for key in NESTED if key in state]
    others = [key for key in state if isinstance(key, str) and key not in usual]
    for key in (*usual, *(key for key in others if not key.startswith("optim"))):
        yield from _sets(state[key], f"{name}.{key}".lstrip("."), depth - 1)


def _fitting(tensors: Tensors, model: nn.Module) -> Tensors | None:
    """The tensors under the network's own names; None if they do not fit."""
    return next(
        (names for names in _renamed(tensors, model) if not any(_apart(names, model))), None
    )


def _renamed(tensors: Tensors, model: nn.Module) -> Iterator[Tensors]:
    """The tensors under their names, then without what wrappers put in front of them."""
    yield tensors
    while len(heads := {key.partition(".")[0] for key in tensors}) == 1 and all(
        "." in key for key in tensors
    ):
        tensors = {key.removeprefix(f"{min(heads)}."): v for key, v in tensors.items()}
        yield tensors
    if any("_orig_mod." in key for key in tensors):
        tensors = {key.replace("_orig_mod.", ""): v for key, v in tensors.items()}
        yield tensors
    own = model.state_dict().keys()
    for prefix in PREFIXES:  # beside others, such as the weights of a loss
        inside = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if inside.keys() <= own:
            yield from [inside] if inside else []
        elif len(inside) < len(tensors):  # of a wrapper in a wrapper
            yield from _renamed(inside, model)


def _apart(tensors: Tensors, model: nn.Module) -> tuple[list[str], list[str], list[str]]:
    """Keys that are missing, unexpected, and of another shape."""
    own = model.state_dict()
    missing = [k for k in own if k not in tensors and not k.endswith("num_batches_tracked")]
    other = [
        f"{key} ({_shape(tensors[key])} in the file, {_shape(value)} in the network)"
        for key, value in own.items()
        if key in tensors and isinstance(value, Tensor) and tensors[key].shape != value.shape
    ]
    return missing, [key for key in tensors if key not in own], other


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"


def _common(tensors: Tensors, model: nn.Module) -> int:
    """How many names a set shares with the network."""
    return max(len(names.keys() & model.state_dict().keys()) for names in _renamed(tensors, model))


def _mismatch(path: Path, tensors: Tensors, model: nn.Module) -> UnsupportedModel:
    """What differs, in a few keys: a network may have thousands."""
    own = model.state_dict()
    names = max(_renamed(tensors, model), key=lambda each: len(each.keys() & own.keys()))
    missing, unexpected, other = _apart(names, model)
    said = {"missing": missing, "unexpected": unexpected, "of another shape": other}
    if not names.keys() & own.keys():
        fix = "no name is the same: check that the factory builds the network that was trained"
    elif not missing and not unexpected:
        fix = "check the channels, classes and widths with which the factory builds the network"
    else:
        fix = "check the version and the arguments with which the factory builds the network"
    raised = "; ".join(f"{len(keys)} {kind}: {_first(keys)}" for kind, keys in said.items() if keys)
    return UnsupportedModel(
        f"The weights in {path} do not fit the network.",
        allowed=f"the {len(own)} tensors of {type(model).__name__}",
        got=f"{len(names)} tensors; {raised}",
        fix=fix,
    )


def _first(keys: Sequence[str]) -> str:
    shown = [key if len(key) <= 120 else f"{key[:117]}..." for key in keys[:SHOWN]]
    more = [f"and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else []
    return ", ".join([*shown, *more])
