"""Batch normalisation under statistics mixed from training and from this image (Eq. 5).

Rows of a batch are R members times N independent images, member by member. In every layer, row r of
image n is normalised with ``lambda_r * source + (1 - lambda_r) * image_n``. Where ``image_n`` comes
from is the pooling:

``first``
    Captured statistics: the first member has lambda 0, and what it sees serves all members. All
    members of InTEnt so go through the network in one pass, exactly.
``own``
    In-layer statistics: each row mixes with the statistics of its own activations.
``mean``, ``half``, ``pooled``
    The rows are views of the image, and their statistics are averaged (SITA): over all views; half
    for the first one and half for all others; or pooled as of one large image (MEMO).
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from sitta.errors import UnsupportedModel
from sitta.tape import Tape

Pool = Literal["first", "own", "mean", "half", "pooled"]
TINY_MAP = "tiny-feature-map"


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side, in 1D, 2D or 3D, and those alone."""
    return not x.is_contiguous() and x.movedim(1, -1).is_contiguous()


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each row and channel, in float32 or better.

    Two exact passes, in either memory format: much faster on a CPU than ``torch.var_mean``, nearly
    as precise, and with one temporary that is gone before the output is made. (The kernel of
    ``torch.batch_norm_update_stats`` needs none, but is fifty times less precise far from zero.)

    Args:
        x: Activations, ``(R, C, *S)``.

    Returns:
        Mean and variance, each ``(R, C)``.

    Example:
        >>> mean, var = moments(torch.tensor([[[1.0, 3.0]]]))
        >>> mean.item(), var.item()
        (2.0, 1.0)
    """
    exact = x.to(precise(x))
    if exact.requires_grad and torch.is_grad_enabled():
        found: tuple[Tensor, Tensor] = _Moments.apply(exact)  # type: ignore[no-untyped-call]
        return found
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
    """``x * scale + shift``, with a scale and a shift for each row and channel ``(R, C)``.

    Args:
        x: ``(R, C, *S)``.
        scale: ``(R, C)``.
        shift: ``(R, C)``.
        out: Memory for the result, of the layout of ``x``, which it may be; without gradients.
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
    return _plain_norm(one, (scale, shift, zeros, ones), 0.0, out).view_as(x)


def _plain_norm(
    x: Tensor,
    by: tuple[Tensor | None, Tensor | None, Tensor, Tensor],
    eps: float,
    out: Tensor | None,
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


def _is_plain(x: Tensor, mean: Tensor, *parameters: Tensor | None) -> bool:
    """Whether torch's own kernel can take these: constants, all of one type."""
    return not mean.requires_grad and all(
        t is None or t.dtype == x.dtype for t in (mean, *parameters)
    )


def divergence(
    mean: Tensor, var: Tensor, source_mean: Tensor, source_var: Tensor, eps: float
) -> Tensor:
    """Kullback-Leibler divergence of an image's statistics from the source's, mean over channels.

    Each channel is taken for a normal distribution; in nats. Not finite values count as the
    largest number there is.

    Args:
        mean: Of the image, ``(..., C)``.
        var: Of the image, ``(..., C)``.
        source_mean: ``(C,)``.
        source_var: ``(C,)``.
        eps: Of the layer, which keeps a channel without variance finite.

    Example:
        >>> zero, one = torch.zeros(2), torch.ones(2)
        >>> divergence(zero, one, zero, one, 0.0), divergence(one, one, zero, one, 0.0)
        (tensor(0.), tensor(0.5000))
    """
    return channel_divergence(mean, var, source_mean, source_var, eps).mean(dim=-1)


def channel_divergence(
    mean: Tensor, var: Tensor, source_mean: Tensor, source_var: Tensor, eps: float | Tensor
) -> Tensor:
    """As ``divergence``, for each channel by itself, ``(..., C)``."""
    ratio = (var + eps) / (source_var + eps)
    shift = (mean - source_mean).square() / (source_var + eps)
    nats = 0.5 * (ratio + shift - 1 - ratio.log())
    return nats.nan_to_num(nan=torch.finfo(nats.dtype).max).clamp(min=0)


def precise(x: Tensor) -> torch.dtype:
    """The type to compute statistics of ``x`` in: float32 or better."""
    return torch.promote_types(x.dtype, torch.float32)


class Mixing:
    """How the layers of one twin mix their statistics during the pass that is under way."""

    def __init__(self) -> None:
        self.notes: set[str] = set()
        self.served = 0  # layers that mixed in this pass
        self._far: list[Tensor] = []  # for each layer, how far each image is from the source
        self.begin(torch.ones(1), 1, "own")

    def begin(
        self,
        lambdas: Tensor,
        images: int,
        pool: Pool,
        unbiased: bool = False,
        tape: Tape | None = None,
    ) -> None:
        """Set up the next pass over N images; the other arguments are those of ``Twin.run``."""
        self._lambdas = lambdas.view(-1, 1, 1)  # (R, 1, 1)
        self._rest, self._ones = 1 - self._lambdas, self._lambdas == 1
        self.is_source = bool(self._ones.all())  # nothing of the image is needed
        self._some_source = bool(self._ones.any())
        self._images, self._rows = images, images * len(lambdas)
        self._pool, self._unbiased = pool, unbiased
        self._tape, self._replay = tape, bool(tape)
        self._lowest = int(lambdas.argmin())
        if not self._replay:
            self._far = []
        self._position = self.served = 0

    def distance(self) -> Tensor | None:
        """How far each image's statistics are from the source's, ``(N,)``, mean over layers.

        None if no layer measured an image: at lambda 1 none does.
        """
        return torch.stack(self._far).mean(dim=0) if self._far else None

    def _measure(
        self, source: tuple[Tensor, Tensor], mean: Tensor, var: Tensor, eps: float
    ) -> None:
        far = divergence(mean.detach(), var.detach(), *source, eps)
        self._far.append(far if far.dim() == 1 else far[min(self._lowest, len(far) - 1)])

    def statistics(self, layer: MixedNorm, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance to normalise ``x`` (R*N*fold, C, *S) with, each (R*N*fold, C)."""
        self.served += 1
        fold = self._fold(layer, x)
        if layer.running_mean is None or layer.running_var is None:
            mean, var, _ = _row_moments(x, fold)  # no source to mix with: each row by itself
        else:
            kind = precise(x)
            source = layer.running_mean.to(kind), layer.running_var.to(kind)  # (C,) each
            mean, var = self._mixed(layer, source, x, fold)  # (R*N, C)
        if fold == 1:
            return mean, var
        return mean.repeat_interleave(fold, dim=0), var.repeat_interleave(fold, dim=0)

    def _fold(self, layer: MixedNorm, x: Tensor) -> int:
        """Rows of ``x`` for each row of the batch: above 1 if the model folds an axis into it."""
        fold, rest = divmod(len(x), self._rows)
        if rest or not fold:
            raise UnsupportedModel(
                f"Layer '{layer.label}' sees {len(x)} rows for a batch of {self._rows}, which do "
                "not divide evenly among the images.",
                fix="let every image keep rows of its own on the way through the model",
            )
        return fold

    def _mixed(
        self, layer: MixedNorm, source: tuple[Tensor, Tensor], x: Tensor, fold: int
    ) -> tuple[Tensor, Tensor]:
        if x[0, 0].numel() * fold == 1 and not self.is_source:
            self.notes.add(TINY_MAP)  # one value has no variance: this layer stays at its source
        elif not self.is_source:
            first = self._pool == "first"
            mix = self._first if first else self._own
            mixed = mix(layer, source, x, fold)
            return mixed[0].flatten(0, 1), mixed[1].flatten(0, 1)
        return source[0].expand(self._rows, -1), source[1].expand(self._rows, -1)

    def _own(
        self, layer: MixedNorm, source: tuple[Tensor, Tensor], x: Tensor, fold: int
    ) -> tuple[Tensor, Tensor]:
        mean, var, values = _row_moments(x, fold)
        mean, var = (t.view(-1, self._images, t.shape[1]) for t in (mean, var))  # (R, N, C)
        if self._pool != "own":
            mean, var, values = _over_views(mean, var, values, self._pool)
        self._measure(source, mean, var, layer.eps)
        return self._mix(source[0], mean), self._mix(source[1], self._recorded(var, values))

    def _first(
        self, layer: MixedNorm, source: tuple[Tensor, Tensor], x: Tensor, fold: int
    ) -> tuple[Tensor, Tensor]:
        if self._tape is not None and self._replay:
            mean, var = self._tape.read(self._position, layer.label)  # (N, C)
            self._position += 1
            return self._mix(source[0], mean), self._mix(source[1], var)
        # What is captured is a constant: no gradient flows through it.
        mean, biased, values = _row_moments(x[: self._images * fold].detach(), fold)  # (N, C)
        self._measure(source, mean, biased, layer.eps)
        var = self._recorded(biased, values)
        if self._tape is not None:
            self._tape.write(layer.label, mean, var)
        mixed = self._mix(source[1], var)  # (R, N, C)
        if self._unbiased:  # as in training, the capturing row normalises by the biased variance
            mixed = torch.cat([biased[None], mixed[1:]])
        return self._mix(source[0], mean), mixed

    def _recorded(self, var: Tensor, values: int) -> Tensor:
        return var * (values / (values - 1)) if self._unbiased else var

    def _mix(self, source: Tensor, image: Tensor) -> Tensor:
        """Eq. 5 for all rows: (C,) with (N, C) or (R, N, C) gives (R, N, C)."""
        mixed = self._lambdas * source + self._rest * image
        # At lambda 1 the image must not matter, not even when its statistics have overflowed.
        return torch.where(self._ones, source, mixed) if self._some_source else mixed


def _row_moments(x: Tensor, fold: int) -> tuple[Tensor, Tensor, int]:
    """Mean and biased variance of each row of the batch, and the values they stand for."""
    mean, var = moments(x)
    values = x[0, 0].numel()
    if fold == 1:
        return mean, var, values
    mean, var = (t.view(-1, fold, t.shape[1]).transpose(0, 1) for t in (mean, var))
    mean, var, values = _over_views(mean, var, values, "pooled")  # from (fold, rows, C)
    return mean[0], var[0], values


def _over_views(mean: Tensor, var: Tensor, values: int, pool: Pool) -> tuple[Tensor, Tensor, int]:
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


class MixedNorm(_BatchNorm):
    """A BatchNorm that asks its twin's ``Mixing`` for the statistics to normalise with.

    Never built by hand: ``mix_norm`` turns a copy of the user's layer into one.
    """

    mixing: Mixing
    label: str
    served: int

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row with its own mixed statistics."""
        return self.normalise(x)

    def normalise(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """As ``forward``; into ``out`` where that is possible, which may be ``x`` itself."""
        self._check_input_dim(x)  # type: ignore[no-untyped-call]
        self.served += 1
        mean, var = self.mixing.statistics(self, x)  # (R*N, C)
        if len(x) == 1 and _is_plain(x, mean, self.weight, self.bias):
            return _plain_norm(x, (self.weight, self.bias, mean[0], var[0]), self.eps, out)
        scale = torch.rsqrt(var + self.eps)
        if self.weight is not None:
            scale = scale * self.weight.to(scale.dtype)
        shift = -mean * scale
        if self.bias is not None:
            shift = shift + self.bias.to(scale.dtype)
        return affine_rows(x, scale, shift, out)


def mix_norm(norm: _BatchNorm, mixing: Mixing, label: str) -> None:
    """Turn a BatchNorm, in place, into a ``MixedNorm`` of the same class, tensors and hooks."""
    norm.__class__ = _mixed_class(type(norm))  # type: ignore[arg-type]  # classes do hash
    norm.mixing, norm.label, norm.served = mixing, label, 0  # type: ignore[assignment]


@functools.cache
def _mixed_class(kind: type[_BatchNorm]) -> type[_BatchNorm]:
    """A subclass of ``kind`` in which ``MixedNorm.forward`` stands in for torch's forward.

    A user's subclass that does more around ``super().forward`` keeps doing so, because MixedNorm
    comes after it and before torch's class in the method resolution order.
    """
    torchs = next(c for c in kind.__mro__ if c.__module__.startswith("torch.nn.modules"))
    mixed = type(f"Mixed{torchs.__name__}", (MixedNorm, torchs), {})
    if kind is torchs:
        return mixed
    return type(f"Mixed{kind.__name__}", (kind, mixed), {"forward": _guarded(kind)})


def _guarded(kind: type[_BatchNorm]) -> Any:
    def forward(self: MixedNorm, *args: Any, **kwargs: Any) -> Any:
        before = self.served
        out = kind.forward(self, *args, **kwargs)
        if self.served == before:
            raise UnsupportedModel(
                f"Layer '{self.label}' ({kind.__name__}) normalises in a forward of its own that "
                "never calls BatchNorm's, so its statistics cannot be mixed.",
                fix="let its forward call super().forward(x)",
            )
        return out

    return forward
