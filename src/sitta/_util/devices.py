"""The device to compute on."""

from __future__ import annotations

import torch

from sitta.errors import InvalidSetting


def pick_device(name: str) -> torch.device:
    """A device by name; ``auto`` is a GPU if this machine has one that torch can use."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        kind = "GPU that torch can use" if name.startswith(("cuda", "mps")) else "such device"
        raise InvalidSetting(
            f"The device {name!r} cannot be used: this machine has no {kind}.",
            allowed=", ".join(usable_devices()),
        ) from error


def usable_devices() -> list[str]:
    """Names that ``pick_device`` accepts on this machine."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = ["cuda", *(f"cuda:{n}" for n in range(1, count))] if count else []
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["auto", "cpu", *gpus, *mps]
