"""Checkpoints: one safetensors file that holds weights and all that is needed to use them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from sitta.errors import SittaError, UnsupportedModel
from sitta.models.unet import UNet
from sitta.models.zoo import card, entries, lookup, verify
from sitta.storage import finished

__all__ = ["card", "find", "load", "save"]

ARCHITECTURES: dict[str, type[nn.Module]] = {"UNet": UNet}


def save(model: UNet, path: str | Path, about: Mapping[str, Any], *, half: bool = False) -> None:
    """Write a checkpoint: to a temporary name first, so that there is never half a file.

    Args:
        model: The trained network.
        path: Where to, ``.safetensors``.
        about: What else to know: source, preprocessing, figures, the command that made it.
        half: Store in half precision.
    """
    from safetensors.torch import save as serialise

    tensors = {
        name: (t.half() if half and t.is_floating_point() else t).contiguous()
        for name, t in model.state_dict().items()
    }
    described = {"architecture": type(model).__name__, "config": model.config, **about}
    with finished(Path(path)) as draft:
        draft.write_bytes(serialise(tensors, metadata={"sitta": json.dumps(described)}))


def find(name_or_path: str | Path) -> Path:
    """The file that a name or a path stands for.

    Args:
        name_or_path: A model that ships with Sitta, one of the zoo, or a path; in that order.

    Raises:
        SittaError: There is none, or the zoo's file is not the one that its checksum tells of.

    Example:
        >>> find("phantom-alder").name
        'phantom-alder.safetensors'
    """
    entry = lookup(str(name_or_path))
    if entry is not None:
        verify(entry)
        return entry.path
    path = Path(name_or_path)
    if path.is_file():
        return path
    names = ", ".join(known.name for known in entries())
    raise SittaError(
        f"There is no model or file '{name_or_path}'.",
        allowed=f"a path to a .safetensors checkpoint, or one of: {names}",
        fix="sitta zoo tells what these are, and where more come from",
    )


def load(name_or_path: str | Path) -> nn.Module:
    """A trained model, ready to use, by name or from a checkpoint file.

    Args:
        name_or_path: A model that ships with Sitta, such as ``phantom-alder``; one of the zoo,
            such as ``chest-mcu``; or a path.

    Returns:
        The network in evaluation mode, in float32, with what its file says about it in ``.card``.

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
    weights = {k: v.float() if v.is_floating_point() else v for k, v in load_file(path).items()}
    try:
        model = ARCHITECTURES[about["architecture"]](**about["config"])
        model.load_state_dict(weights)
    except (RuntimeError, KeyError, TypeError) as error:
        raise UnsupportedModel(f"The weights in {path} do not fit their own card.") from error
    model.card = about  # type: ignore[assignment]  # a plain attribute
    return model.eval()
