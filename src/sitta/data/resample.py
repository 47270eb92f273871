"""Other sizes for images, masks and maps. Pixels are areas, and their corners stay in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def resize(values: Tensor, size: Sequence[int]) -> Tensor:
    """Images ``(N, C, *S)`` to another size: linear, with antialiasing.

    Volumes go side by side, since torch has no antialiasing for them: the filter is separable.

    Example:
        >>> resize(torch.tensor([[[[0.0, 0.0, 4.0, 4.0]]]]), (1, 2)).shape
        torch.Size([1, 1, 1, 2])
    """
    if values.dim() == 4:
        return _plane(values, size)
    n, c, depth, height, width = values.shape
    flat = _plane(values.reshape(n, c, depth, height * width), (size[0], height * width))
    flat = _plane(flat.reshape(n, c * size[0], height, width), size[1:])
    return flat.reshape(n, c, *size)


def _plane(values: Tensor, size: Sequence[int]) -> Tensor:
    if values.shape[2:] == tuple(size):
        return values  # bit for bit
    if size[1] == 1 and values.shape[2] != size[0]:  # torch 2.13 repeats the first row there
        column = _plane(values, (values.shape[2], 1))
        return _plane(column.expand(*column.shape[:3], 2), (size[0], 2))[..., :1]
    return F.interpolate(
        values, size=tuple(size), mode="bilinear", antialias=True, align_corners=False
    )


def resize_mask(labels: Tensor, size: Sequence[int], classes: int = 2) -> Tensor:
    """Labels ``(N, *S)`` to another size: by area, and cut at one half.

    Of more than two classes, a pixel gets the one with the largest area in it.
    """
    if labels.shape[1:] == tuple(size):
        return labels
    areas = torch.stack([_by_area(labels == c, size) for c in range(1, classes)])
    if classes == 2:
        return (areas[0] >= 0.5).to(labels.dtype)
    rest = 1 - areas.sum(dim=0, keepdim=True)
    return torch.cat([rest, areas]).argmax(dim=0).to(labels.dtype)


def _by_area(inside: Tensor, size: Sequence[int]) -> Tensor:
    """The share of each new pixel that is inside."""
    share = inside.double()  # exact sums, so that one half is one half
    for axis, n in enumerate(size, start=1):
        overlap = overlaps(share.shape[axis], n)
        share = torch.movedim(torch.movedim(share, axis, -1) @ overlap.T, -1, axis)
    return share.round(decimals=9)


def overlaps(old: int, new: int) -> Tensor:
    """``(new, old)``: the share of each new pixel along a side that each old one covers.

    Example:
        >>> overlaps(3, 2)
        tensor([[0.6667, 0.3333, 0.0000],
                [0.0000, 0.3333, 0.6667]], dtype=torch.float64)
    """
    ends = torch.arange(1, new + 1, dtype=torch.float64)[:, None] / new
    edges = torch.arange(1, old + 1, dtype=torch.float64)[None] / old
    low = torch.maximum(ends - 1 / new, edges - 1 / old)
    return (torch.minimum(ends, edges) - low).clamp(min=0) * new


def crop(values: Tensor, size: Sequence[int], fill: float | None = 0.0) -> Tensor:
    """The middle of ``(..., *S)``, padded where it is smaller.

    Args:
        values: Images, masks or maps.
        size: The last sides of the result.
        fill: What to pad with; None: the lowest value.
    """
    new = values.new_full(
        (*values.shape[: -len(size)], *size), float(values.min()) if fill is None else fill
    )
    here, there = _windows(values.shape[-len(size) :], size)
    new[*_lead(values, size), *there] = values[*_lead(values, size), *here]
    return new


def _lead(values: Tensor, size: Sequence[int]) -> list[slice]:
    return [slice(None)] * (values.dim() - len(size))


def _windows(old: Sequence[int], new: Sequence[int]) -> tuple[list[slice], list[slice]]:
    """The part that both share, in each of them. Swapped, it undoes itself."""
    here, there = [], []
    for a, b in zip(old, new, strict=True):
        both, shift = min(a, b), (max(a, b) - min(a, b)) // 2
        here.append(slice(shift, shift + both) if a > b else slice(0, both))
        there.append(slice(shift, shift + both) if b > a else slice(0, both))
    return here, there
