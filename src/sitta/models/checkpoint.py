"""Checkpoints: one safetensors file with the weights and the metadata to use them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from sitta._util.files import atomic_write
from sitta._util.names import did_you_mean
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.models.profile import Profile
from sitta.models.profile.card import card_of_profile
from sitta.models.unet import UNet, filled
from sitta.models.zoo import card, entries, lookup, verify

__all__ = ["card", "find", "load", "save"]

ARCHITECTURES: dict[str, type[nn.Module]] = {"UNet": UNet}


def save(
    model: UNet, path: str | Path, about: Mapping[str, Any] | Profile, *, half: bool = False
) -> None:
    """Write a trained network to a ``.safetensors`` file, atomically; ``half`` halves its size.

    ``about`` is its profile, or a card: source, preprocessing, metrics, the command that made it.
    """
    from safetensors.torch import save as serialise

    tensors = {
        name: (t.half() if half and t.is_floating_point() else t).contiguous()
        for name, t in model.state_dict().items()
    }
    about = card_of_profile(about) if isinstance(about, Profile) else about
    described = {"architecture": type(model).__name__, "config": model.config, **about}
    with atomic_write(Path(path)) as draft:
        draft.write_bytes(serialise(tensors, metadata={"sitta": json.dumps(described)}))


def find(name_or_path: str | Path) -> Path:
    """The file of a model of the zoo, compared with its checksum, or else of a path."""
    entry = lookup(str(name_or_path))
    if entry is not None:
        verify(entry)
        return entry.path
    path = Path(name_or_path)
    if path.is_file():
        return path
    names = [entry.name for entry in entries()]
    raise SittaError(
        f"There is no model or file '{name_or_path}'.{did_you_mean(name_or_path, names)}",
        allowed=f"a path to a .safetensors checkpoint, or one of: {', '.join(names)}",
        fix="sitta zoo lists these models",
    )


def load(name_or_path: str | Path) -> nn.Module:
    """A trained model, ready to use, by name or from a checkpoint file.

    Args:
        name_or_path: A model of the zoo, such as ``chest-mcu``, or a path.

    Returns:
        The network in evaluation mode, in float32, with the metadata of its file in ``.card``.

    Example:
        >>> import torch
        >>> model = load("phantom-alder")
        >>> model(torch.rand(1, 1, 64, 64)).shape
        torch.Size([1, 1, 64, 64])
    """
    from safetensors.torch import load_file

    path = find(name_or_path)
    about = card(path)
    if about.get("architecture") not in ARCHITECTURES:
        raise UnsupportedModel(
            f"{path} holds an architecture that this version does not know.",
            allowed=", ".join(ARCHITECTURES),
            got=str(about.get("architecture")),
        )
    try:
        model = filled(ARCHITECTURES[about["architecture"]], about["config"], load_file(path))
    except InvalidSetting as error:
        raise UnsupportedModel(
            f"The card in {path} describes a network that cannot be built: {error.what}",
            allowed=error.allowed,
            got=error.got,
        ) from error
    except (RuntimeError, KeyError, TypeError) as error:
        raise UnsupportedModel(f"The weights in {path} do not fit their own card.") from error
    model.card = about  # type: ignore[assignment]  # a plain attribute
    return model.eval()
