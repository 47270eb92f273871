"""Reading checkpoints of the published code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sitta.errors import UnsupportedModel

# What a published name becomes, in order. Blocks keep their numbers.
RENAMES = (
    (r"^module\.", ""),
    (r"^input_blocks\.", "down."),
    (r"^middle_block\.", "middle."),
    (r"^output_blocks\.", "up."),
    (r"^out\.", "head."),
    (r"^down\.(\d+)\.op\.", r"down.\1.conv."),
    (r"\.in_layers\.", ".first."),
    (r"\.skip_connection\.", ".skip."),
    (r"\.proj_out\.", ".out."),
)


def read_reference(state_dict: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Configuration and weights for ``UNet`` from a published state dict."""
    weights = {_rename(k): v for k, v in state_dict.items() if ".out_layers." not in k}
    if "down.0.weight" not in weights or "head.2.weight" not in weights:
        raise UnsupportedModel(
            "This is not a checkpoint of the published U-Net: it has no input_blocks.0 or no out.2."
        )
    return _config(weights), weights


def _rename(name: str) -> str:
    for pattern, new in RENAMES:
        name = re.sub(pattern, new, name)
    return name


def _config(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    stem = weights["down.0.weight"]
    count = 1 + max(int(k.split(".")[1]) for k in weights if k.startswith("down."))
    levels: list[list[int]] = [[]]
    for i in range(1, count):
        if f"down.{i}.conv.weight" in weights:
            levels.append([])
        else:
            levels[-1].append(len(weights[f"down.{i}.0.first.2.weight"]))
    channels = len(stem)
    return {
        "in_channels": stem.shape[1],
        "out_channels": len(weights["head.2.weight"]),
        "channels": channels,
        "multipliers": tuple(widths[0] // channels for widths in levels),
        "blocks": len(levels[0]),
        "dims": stem.dim() - 2,
        "full_blocks": False,
    }
