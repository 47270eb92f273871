"""Where to compute."""

from __future__ import annotations

import torch

from sitta.errors import InvalidSetting


def pick_device(name: str) -> torch.device:
    """A device by name; ``auto`` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        raise InvalidSetting(
            f"The device {name!r} cannot be used here.", allowed="auto, cpu, cuda, cuda:1, mps"
        ) from error
