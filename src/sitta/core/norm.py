"""Normalisation under statistics mixed from training and from this image (Eq. 5).

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

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sitta.core.capture import CapturedStatistics
from sitta.core.moments import divergence, over_views, precise, row_moments
from sitta.core.norm_adapters import NormAdapter
from sitta.core.surgery import specialise
from sitta.errors import UnsupportedModel

Pool = Literal["first", "own", "mean", "half", "pooled"]
Pair = tuple[Tensor, Tensor]  # a mean and a variance
TINY_MAP = "tiny-feature-map"


def mean_distance(layers: list[Tensor], like: Tensor) -> Tensor:
    """Mean over layers of distances ``(N,)``; NaN if there is none, as many as ``like`` has."""
    return torch.stack(layers).mean(dim=0) if layers else torch.full_like(like, torch.nan)


class StatisticsMixer:
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
        captured: CapturedStatistics | None = None,
        depths: Tensor | None = None,
    ) -> None:
        """Set up the next pass over N images; the other arguments are those of ``Twin.run``."""
        self._asked, self._depths = lambdas.view(-1, 1, 1), depths
        self._set(self._asked)  # (R, 1, 1)
        self.is_source = bool(self._ones.all())  # nothing of the image is needed
        self._images, self._rows = images, images * len(lambdas)
        self._pool, self._unbiased = pool, unbiased
        self._captured, self._replay = captured, bool(captured)
        self._lowest = int(lambdas.argmin())
        if not self._replay:
            self._far = []
        self._position = self.served = 0

    def _set(self, lambdas: Tensor) -> None:
        """Mix the next layers by these lambdas ``(R, 1, 1)``."""
        self._lambdas, self._rest, self._ones = lambdas, 1 - lambdas, lambdas == 1
        self._some_source = bool(self._ones.any())

    def distance(self) -> Tensor:
        """How far each image's statistics are from the source's, ``(N,)``, mean over layers.

        NaN if no layer measured an image: at lambda 1 none does.
        """
        return mean_distance(self._far, self._lambdas.new_empty(self._images))

    def _measure(self, source: Pair, mean: Tensor, var: Tensor, eps: float) -> None:
        far = divergence(mean.detach(), var.detach(), *source, eps)
        self._far.append(far if far.dim() == 1 else far[min(self._lowest, len(far) - 1)])

    def normalise(self, layer: MixedNorm, x: Tensor, out: Tensor | None) -> Tensor:
        """Normalise ``x`` ``(R*N*fold, C, *S)`` with mixed statistics, each ``(R*N*fold, C)``."""
        if self._depths is not None:  # split members are at the source up to their depth
            below = (self._depths > self.served).view(-1, 1, 1)
            self._set(torch.where(below, 1.0, self._asked))
        self.served += 1
        fold, source = self._fold(layer, x), layer.source
        seen = layer.adapter.grouped(layer, x)
        if source is None:
            mean, var, _ = row_moments(seen, fold)  # no source to mix with: each row by itself
        else:
            source = source[0].to(x.device, precise(x)), source[1].to(x.device, precise(x))
            mean, var = self._mixed(layer, source, seen, fold)  # (R*N, C)
        if fold > 1:
            mean, var = (t.repeat_interleave(fold, dim=0) for t in (mean, var))
        return layer.adapter.normalise(layer, x, mean, var, out)

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

    def _mixed(self, layer: MixedNorm, source: Pair, x: Tensor, fold: int) -> Pair:
        if x[0, 0].numel() * fold == 1 and not self.is_source:
            self.notes.add(TINY_MAP)  # one value has no variance: this layer stays at its source
        elif not self.is_source:
            mix = self._first if self._pool == "first" else self._own
            mixed = mix(layer, source, x, fold)
            return mixed[0].flatten(0, 1), mixed[1].flatten(0, 1)
        return source[0].expand(self._rows, -1), source[1].expand(self._rows, -1)

    def _own(self, layer: MixedNorm, source: Pair, x: Tensor, fold: int) -> Pair:
        mean, var, values = row_moments(x, fold)
        mean, var = (t.view(-1, self._images, t.shape[1]) for t in (mean, var))  # (R, N, C)
        if self._pool != "own":
            mean, var, values = over_views(mean, var, values, self._pool)
        self._measure(source, mean, var, layer.adapter.eps(layer))
        return self._mix(source[0], mean), self._mix(source[1], self._recorded(var, values))

    def _first(self, layer: MixedNorm, source: Pair, x: Tensor, fold: int) -> Pair:
        if self._captured is not None and self._replay:
            mean, var = self._captured.read(self._position, layer.label)  # (N, C)
            self._position += 1
            return self._mix(source[0], mean), self._mix(source[1], var)
        # What is captured is a constant: no gradient flows through it.
        mean, biased, values = row_moments(x[: self._images * fold].detach(), fold)  # (N, C)
        self._measure(source, mean, biased, layer.adapter.eps(layer))
        var = self._recorded(biased, values)
        if self._captured is not None:
            self._captured.write(layer.label, mean, var)
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


class MixedNorm(nn.Module):
    """Comes before the class of a normalisation layer, and leaves its statistics to ``mixing``.

    Never built by hand: ``mix_norm`` turns a copy of the user's layer into one.
    """

    adapter: NormAdapter
    mixing: StatisticsMixer
    label: str
    served: int
    given: Pair | None  # source statistics of a calibration, for a layer that keeps none

    @property
    def source(self) -> Pair | None:
        """Mean and variance ``(C,)`` of the source; None if there are none."""
        return self.adapter.source(self) if self.given is None else self.given

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row with its own mixed statistics."""
        return self.normalise(x)

    def normalise(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """As ``forward``; into ``out`` where that is possible, which may be ``x`` itself."""
        self.adapter.require_fits(self, x)
        self.served += 1
        return self.mixing.normalise(self, x, out)

    @staticmethod
    def around(kind: type[nn.Module]) -> Callable[..., Any]:
        """The forward of a user's subclass, which must reach the one above.

        It does by ``super().forward(x)``, or by ``F.batch_norm`` on its own tensors.
        """

        def forward(self: MixedNorm, *args: Any, **kwargs: Any) -> Any:
            before = self.served
            with _Routed(self):
                out = kind.forward(self, *args, **kwargs)
            if self.served == before:
                raise UnsupportedModel(
                    f"Layer '{self.label}' ({kind.__name__}) normalises in a forward of its own "
                    f"that never calls {self.adapter.family}'s, so its statistics cannot be mixed.",
                    fix="let its forward call super().forward(x), or F.batch_norm with the "
                    "layer's own statistics, weight, bias and eps",
                )
            return out

        return forward


class _Routed(TorchFunctionMode):
    """While a layer runs, in this thread: its ``F.batch_norm`` becomes its mixed normalisation.

    timm's ``BatchNormAct2d`` and its like call that in a forward of their own. A call on other
    tensors than the layer's own, or with another eps, is left alone.
    """

    def __init__(self, layer: MixedNorm) -> None:
        super().__init__()
        self._layer: Any = layer

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        own = self._own_input(*args, **kwargs) if func is F.batch_norm else None
        return func(*args, **kwargs) if own is None else self._layer.normalise(own)

    def _own_input(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor | None:
        """The input of a call of ``F.batch_norm`` that normalises as the layer does, else None."""
        layer = self._layer
        statistics, scales = layer.adapter.buffers(layer), layer.adapter.affine(layer)
        pairs = zip(
            (running_mean, running_var, weight, bias),
            (*(statistics or (None, None)), *scales),
            strict=True,
        )
        alike = all(given is own for given, own in pairs) and eps == layer.adapter.eps(layer)
        return input if alike and training == (running_mean is None) else None


def mix_norm(
    layer: nn.Module,
    adapter: NormAdapter,
    mixing: StatisticsMixer,
    label: str,
    given: Pair | None = None,
) -> None:
    """Turn a normalisation layer, in place, into a ``MixedNorm`` of the same tensors and hooks."""
    how = {"adapter": adapter, "mixing": mixing, "label": label, "served": 0, "given": given}
    specialise(layer, MixedNorm, "Mixed", adapter.base(type(layer)), **how)
