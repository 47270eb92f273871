"""A 3x3 convolution of a map that was doubled by repeating its pixels, on the map before that.

Each of the four copies of a pixel sees only 2x2 different pixels, with sums of the weights: 16
products for 36, and no large map to make and read again.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Of a copy before and one after, on one axis: which of three weights fall on each of two pixels.
SHARES = ([[1.0, 0, 0], [0, 1, 1]], [[1.0, 1, 0], [0, 0, 1]])


def is_doubling(layer: nn.Module) -> bool:
    """Whether a layer repeats every pixel twice in both directions, and does nothing else.

    Example:
        >>> [is_doubling(nn.Upsample(scale_factor=s)) for s in (2, (2.0, 2.0), 3)]
        [True, True, False]
    """
    if type(layer) not in (nn.Upsample, nn.UpsamplingNearest2d):
        return False
    twice = bool(layer.scale_factor in (2, (2, 2)))
    return twice and bool(layer.mode == "nearest")


def is_fitting(layer: nn.Module) -> bool:
    """Whether a layer is a 3x3 convolution whose result is as large as its input."""
    if not isinstance(layer, nn.Conv2d) or layer.padding_mode != "zeros":
        return False
    shape = (layer.kernel_size, layer.stride, layer.dilation, layer.padding, layer.groups)
    return shape == ((3, 3), (1, 1), (1, 1), (1, 1), 1)


def convolve_doubled(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution of a map, doubled: ``(N, O, 2 H, 2 W)`` of ``(N, C, H, W)``, channels last.

    Args:
        x: The map before it is doubled.
        weight: ``(O, C, 3, 3)``.
        bias: ``(O,)``, or none.

    Example:
        >>> x, weight = torch.rand(1, 2, 3, 4), torch.rand(5, 2, 3, 3)
        >>> large = F.conv2d(F.interpolate(x, scale_factor=2), weight, padding=1)
        >>> torch.allclose(convolve_doubled(x, weight, None), large, atol=1e-5)
        True
    """
    count, inputs = weight.shape[:2]
    rows, _, high, wide = x.shape
    share = torch.tensor(SHARES, dtype=weight.dtype, device=weight.device)  # (2, 2, 3)
    parts = torch.einsum("pih,ochw,qjw->pqocij", share, weight, share)
    shift = None if bias is None else bias.repeat(4)
    # One row and column more than there are: each copy takes those that it sees.
    found = F.conv2d(x, parts.reshape(4 * count, inputs, 2, 2), shift, padding=1)
    y = x.new_empty((rows, 2 * high, 2 * wide, count)).permute(0, 3, 1, 2)
    for number, copy in enumerate(found.split(count, dim=1)):
        down, across = divmod(number, 2)
        y[:, :, down::2, across::2] = copy[:, :, down : down + high, across : across + wide]
    return y
