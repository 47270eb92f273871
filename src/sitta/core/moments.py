"""Means and variances of activations, and normalisation with given ones. Pure tensor functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side, in 1D, 2D or 3D, and those alone."""
    return not x.is_contiguous() and x.movedim(1, -1).is_contiguous()


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each row and channel, in float32 or better.

    Two exact passes, in either memory format: much faster on a CPU than ``torch.var_mean``, nearly
    as precise, and with one temporary that is gone before the output is made. (The kernel of
    ``torch.batch_norm_update_stats`` needs none, but is fifty times less precise far from zero.)
    From activations ``(R, C, *S)`` to two ``(R, C)``.
    """
    exact = x.to(precise(x))
    if exact.requires_grad and torch.is_grad_enabled():
        both: tuple[Tensor, Tensor] = _Moments.apply(exact)  # type: ignore[no-untyped-call]
        return both
    return _moments(exact)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    flat = x.flatten(2)
    mean = flat.mean(dim=2, keepdim=True)
    return mean.squeeze(2), (flat - mean).square_().mean(dim=2)


class _Moments(torch.autograd.Function):
    """``moments`` with a gradient in one pass, and nothing kept for it but the activations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = _moments(x)
        ctx.save_for_backward(x, mean)
        return mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_mean: Tensor, by_var: Tensor) -> Tensor:
        """Of n values x: 1/n for the mean, 2 (x - mean) / n for the variance."""
        x, mean = ctx.saved_tensors
        values = x[0, 0].numel()
        slope = by_var * (2 / values)
        return affine_rows(x, slope, by_mean / values - slope * mean)


def affine_rows(x: Tensor, scale: Tensor, shift: Tensor, out: Tensor | None = None) -> Tensor:
    """``x * scale + shift`` of ``(R, C, *S)``, with a scale and a shift ``(R, C)``.

    ``out`` is memory for the result, of the layout of ``x``, which it may be; without gradients.
    """
    if x.dtype != scale.dtype:
        return affine_rows(x.to(scale.dtype), scale, shift).to(x.dtype)
    if not x.is_contiguous() or torch.compiler.is_compiling():
        # With channels last as fast as the kernel below, and the result has channels last too.
        shape = x.shape[:2] + (1,) * (x.dim() - 2)
        return torch.addcmul(shift.reshape(shape), x, scale.reshape(shape), out=out)
    # Rows as channels of one image: torch's own kernel, twice as fast as a broadcast product,
    # and its gradients reach scale and shift, and through them the statistics.
    one = x.view(1, -1, *x.shape[2:])
    zeros, ones = scale.new_zeros(scale.numel()), scale.new_ones(scale.numel())
    scale, shift = scale.reshape(-1), shift.reshape(-1)
    out = None if out is None else out.view_as(one)
    return fixed_norm(one, (scale, shift, zeros, ones), 0.0, out).view_as(x)


def fixed_norm(
    x: Tensor,
    by: tuple[Tensor | None, Tensor | None, Tensor, Tensor],
    eps: float,
    out: Tensor | None = None,
) -> Tensor:
    """Torch's own normalisation by weight, bias, mean and variance; into ``out`` on a CPU."""
    weight, bias, mean, var = by
    if out is None or x.device.type != "cpu":
        return F.batch_norm(x, mean, var, weight, bias, eps=eps)
    none = x.new_empty(0)
    torch.ops.aten.native_batch_norm.out(
        *(x, weight, bias, mean, var, False, 0.0, eps),
        **{"out": out, "save_mean": none, "save_invstd": none},
    )
    return out


def divergence(
    mean: Tensor, var: Tensor, source_mean: Tensor, source_var: Tensor, eps: float
) -> Tensor:
    """Kullback-Leibler divergence of an image's statistics from the source's, mean over channels.

    Each channel is taken for a normal distribution; in nats. Not finite values count as the
    largest number there is; ``eps``, of the layer, keeps a channel without variance finite.
    """
    ratio = (var + eps) / (source_var + eps)
    shift = (mean - source_mean).square() / (source_var + eps)
    nats = 0.5 * (ratio + shift - 1 - ratio.log())
    return nats.nan_to_num(nan=torch.finfo(nats.dtype).max).clamp(min=0).mean(dim=-1)


def precise(x: Tensor) -> torch.dtype:
    """The type to compute statistics of ``x`` in: float32 or better."""
    return torch.promote_types(x.dtype, torch.float32)


def row_moments(x: Tensor, fold: int) -> tuple[Tensor, Tensor, int]:
    """Mean and biased variance of each row of the batch, and the values they stand for."""
    mean, var = moments(x)
    values = x[0, 0].numel()
    if fold == 1:
        return mean, var, values
    mean, var = (t.view(-1, fold, t.shape[1]).transpose(0, 1) for t in (mean, var))
    mean, var, values = over_views(mean, var, values, "pooled")  # from (fold, rows, C)
    return mean[0], var[0], values


def over_views(mean: Tensor, var: Tensor, values: int, pool: str) -> tuple[Tensor, Tensor, int]:
    """Statistics (V, N, C) of views averaged to (1, N, C), and the values that each stands for."""
    views = len(mean)
    share = mean.new_full((views, 1, 1), 1 / views)
    if pool == "half" and views > 1:
        share = mean.new_full((views, 1, 1), 0.5 / (views - 1))
        share[0] = 0.5
    middle = (share * mean).sum(dim=0, keepdim=True)
    inside = (share * var).sum(dim=0, keepdim=True)
    if pool != "pooled":
        return middle, inside, values
    between = (share * (mean - middle).square()).sum(dim=0, keepdim=True)
    return middle, inside + between, values * views
