"""The improved U-Net of the paper (after Nichol and Dhariwal, 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sitta._util.names import unknown_name
from sitta._util.settings import Constraint
from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.models.blocks import CONV, Attention, Down, ResBlock, Up, norm_silu_conv, pad_to_multiple

M = TypeVar("M", bound=nn.Module)
PRESETS: dict[str, dict[str, Any]] = {
    "compact": {"channels": 16, "multipliers": (1, 2, 4, 4), "blocks": 1},
    "paper": {"channels": 64, "multipliers": (1, 2, 4, 8), "dropout": 0.1},
    "reference": {"channels": 64, "multipliers": (1, 2, 4, 8), "full_blocks": False},
    "compact3d": {"channels": 12, "multipliers": (1, 2, 4), "blocks": 1, "dims": 3, "flat": 1},
}
_width = partial(Constraint, low=1, high=1024, whole=True)
BOUNDS = {  # a card may come from anyone: what is built stays small until its weights are there
    "in_channels": _width("channels of the image"),
    "out_channels": _width("channels of the logits"),
    "channels": _width("channels at full resolution"),
    "multipliers": _width("channels of each level", high=64, many=True),
    "blocks": _width("residual blocks of each level", high=16),
    "heads": _width("attention heads"),
    "dropout": Constraint("dropout in training", low=0, high=1),
    "dims": Constraint("of an image", low=2, high=3, whole=True),
    "flat": Constraint("levels that keep the number of slices", low=0, high=10, whole=True),
}
LEVELS = 10  # halvings of the sides


class UNet(nn.Module):
    """A U-Net of residual blocks with attention at the deepest resolution, for logits.

    Takes any image size: pads inside to a multiple of the deepest stride and cuts back.

    Args:
        in_channels: Channels of the image.
        out_channels: Channels of the logits: 1 for binary, else classes or labels.
        channels: Channels at full resolution.
        multipliers: Channels of each level, in units of ``channels``; a level halves the size.
        blocks: Residual blocks of each level on the way down; one more on the way up.
        heads: Attention heads.
        full_blocks: Both halves of each residual block, or the first one alone.
        dropout: Dropout in the second half, in training.
        dims: 2 for images, 3 for volumes.
        flat: Levels, from the finest on, that halve rows and columns of a volume, and not its
            slices: for slices that are far apart.

    Example:
        >>> net = UNet.preset("compact", in_channels=1, out_channels=1)
        >>> net(torch.rand(2, 1, 50, 37)).shape
        torch.Size([2, 1, 50, 37])
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        channels: int = 64,
        multipliers: Sequence[int] = (1, 2, 4, 8),
        blocks: int = 2,
        heads: int = 4,
        full_blocks: bool = True,
        dropout: float = 0.0,
        dims: int = 2,
        flat: int = 0,
    ) -> None:
        super().__init__()
        self.config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        self._check()
        if not flat:  # as configurations were before there were such levels
            del self.config["flat"]
        self.config["multipliers"] = tuple(multipliers)
        self.stride = 2 ** (len(multipliers) - 1)
        widths = [channels * m for m in multipliers]

        def block(inputs: int, width: int, level: int) -> list[nn.Module]:
            res = ResBlock(dims, inputs, width, full=full_blocks, dropout=dropout)
            return [res, Attention(width, heads)] if level == len(widths) - 1 else [res]

        self.down = nn.ModuleList([CONV[dims](in_channels, channels, 3, padding=1)])
        skips, now = [channels], channels
        for level, width in enumerate(widths):
            for _ in range(blocks):
                self.down.append(nn.Sequential(*block(now, width, level)))
                skips.append(now := width)
            if level < len(widths) - 1:
                self.down.append(Down(dims, now, flat=level < flat))
                skips.append(now)
        deepest = len(widths) - 1
        self.middle = nn.Sequential(*block(now, now, deepest), *block(now, now, 0)[:1])
        self.up = nn.ModuleList()
        for level, width in reversed(list(enumerate(widths))):
            for i in range(blocks + 1):
                parts = block(now + skips.pop(), width, level)
                now = width
                if level and i == blocks:
                    parts.append(Up(dims, now, flat=level <= flat))
                self.up.append(nn.Sequential(*parts))
        self.head = norm_silu_conv(dims, now, out_channels, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(N, out_channels, *S)`` of images ``(N, in_channels, *S)``."""
        size = x.shape[2:]
        x = pad_to_multiple(x, self.stride)
        skips = []
        for part in self.down:
            x = part(x)
            skips.append(x)
        x = self.middle(x)
        for part in self.up:
            x = torch.cat([x, skips.pop()], dim=1)  # not in the call: frees the previous x
            x = part(x)
        x = self.head(x)
        for axis, n in enumerate(size, start=2):
            x = x.narrow(axis, 0, n)
        return x

    @classmethod
    def preset(cls, name: str, in_channels: int = 1, out_channels: int = 1, **more: Any) -> UNet:
        """A network by name; ``more`` are other arguments of ``UNet``.

        ``compact`` has 16 channels, for CPUs; ``compact3d`` is for volumes whose slices are far
        apart; ``paper`` has 64 channels and full residual blocks; ``reference`` is the network that
        the published code runs.
        """
        if name not in PRESETS:
            raise unknown_name("preset", name, PRESETS)
        return cls(in_channels, out_channels, **{**PRESETS[name], **more})

    @classmethod
    def from_reference(cls, state_dict: Mapping[str, Tensor], heads: int = 4) -> UNet:
        """The network of a checkpoint of the published code, with its weights.

        The configuration is read off the shapes, except the attention heads. Only what the
        published forward pass uses is loaded: it never calls the second half of its residual
        blocks. Names may start with ``module.``.
        """
        from sitta.models.reference import read_reference

        try:
            config, weights = read_reference(state_dict)
            net = filled(cls, {**config, "heads": heads}, weights)
        except (RuntimeError, KeyError, ValueError, IndexError, ZeroDivisionError) as error:
            raise UnsupportedModel(f"The checkpoint does not fit the network: {error}") from error
        return net.eval()

    def _check(self) -> None:
        c = self.config
        for name, bounds in BOUNDS.items():
            bounds.check(name, c[name])
        if not isinstance(c["full_blocks"], bool):
            raise InvalidSetting(
                "full_blocks is out of range.", allowed="True or False", got=shown(c["full_blocks"])
            )
        if c["flat"] and c["dims"] != 3:
            raise InvalidSetting("flat levels are for volumes.", got=f"dims={c['dims']}")
        if len(c["multipliers"]) > LEVELS:
            raise InvalidSetting(
                "multipliers holds too many levels.",
                allowed=f"up to {LEVELS}",
                got=str(len(c["multipliers"])),
            )
        deepest = c["channels"] * c["multipliers"][-1]
        if deepest % c["heads"]:
            raise InvalidSetting(
                "heads must divide the channels of the deepest level.",
                got=f"{c['heads']} heads for {deepest} channels",
            )


def filled(kind: type[M], config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> M:
    """A network of a configuration and its weights; both may come from anyone.

    It is built without memory, so that only as much is used as the weights themselves take.
    """
    with torch.device("meta"):
        net = kind(**config)
    types = {name: tensor.dtype for name, tensor in net.state_dict().items()}
    own = {  # copies: tensors of a file change with it, or end the process if it is cut short
        name: tensor.detach().to("cpu", types.get(name), copy=True).contiguous()
        for name, tensor in weights.items()
    }
    net.load_state_dict(own, assign=True)
    return net
