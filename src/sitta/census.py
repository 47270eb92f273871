"""What a model is made of, as far as adaptation is concerned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from sitta.twin import unwrap

RANKS: tuple[tuple[type[nn.Module], int], ...] = (
    (nn.Conv1d, 1),
    (nn.Conv2d, 2),
    (nn.Conv3d, 3),
    (nn.BatchNorm1d, 1),
    (nn.BatchNorm2d, 2),
    (nn.BatchNorm3d, 3),
    (nn.InstanceNorm1d, 1),
    (nn.InstanceNorm2d, 2),
    (nn.InstanceNorm3d, 3),
)
NORMS: tuple[tuple[type[nn.Module], str], ...] = (
    (_BatchNorm, "BatchNorm"),
    (_InstanceNorm, "InstanceNorm"),
    (nn.GroupNorm, "GroupNorm"),
    (nn.LayerNorm, "LayerNorm"),
)


@dataclass(frozen=True)
class Layer:
    """One normalisation layer.

    Attributes:
        name: Its path in the model.
        family: BatchNorm, InstanceNorm, GroupNorm or LayerNorm.
        kind: Its class.
        features: How many channels or features it normalises.
        running: Whether it keeps running statistics from training.
        affine: Whether it has a scale or a shift to learn.
    """

    name: str
    family: str
    kind: str
    features: int
    running: bool
    affine: bool


@dataclass(frozen=True)
class Census:
    """The normalisation layers of a model, and what its input looks like.

    Attributes:
        model: Class of the model, without its wrapper.
        layers: Every normalisation layer, in order.
        rank: Spatial dimensions of an image: 2 or 3; None if no layer tells.
        in_channels: Channels of the first convolution listed, most often the entrance; or None.
        parameters: How many numbers the model has learned.
    """

    model: str
    layers: tuple[Layer, ...]
    rank: int | None
    in_channels: int | None
    parameters: int

    @property
    def mixable(self) -> tuple[Layer, ...]:
        """BatchNorm layers with running statistics: the ones a lambda acts on."""
        return tuple(x for x in self.layers if x.family == "BatchNorm" and x.running)

    @property
    def affine(self) -> tuple[Layer, ...]:
        """Layers with a scale and a shift: the ones that gradient methods act on."""
        return tuple(x for x in self.layers if x.affine)

    def __str__(self) -> str:
        counts = Counter((x.kind, x.running) for x in self.layers)
        said = [
            f"{n} {kind} {'with' if running else 'without'} running statistics"
            for (kind, running), n in counts.items()
        ]
        return ", ".join(said) or "no normalisation layer"


def census(model: nn.Module) -> Census:
    """Count the normalisation layers of a model.

    Example:
        >>> print(census(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GroupNorm(2, 8))))
        1 BatchNorm2d with running statistics, 1 GroupNorm without running statistics
    """
    root = unwrap(model)
    layers = [_layer(name, m) for name, m in root.named_modules()]
    rank = _rank(root)
    first = (m for m in root.modules() if isinstance(m, _ConvNd) and len(m.kernel_size) == rank)
    entrance = next(first, None)
    return Census(
        model=type(root).__name__,
        layers=tuple(x for x in layers if x is not None),
        rank=rank,
        in_channels=entrance.in_channels if entrance is not None else None,
        parameters=sum(p.numel() for p in root.parameters()),
    )


def _rank(root: nn.Module) -> int | None:
    """The most common rank of the layers; 1 only if there is no other (attention has Conv1d)."""
    ranks = Counter(rank for m in root.modules() for kind, rank in RANKS if isinstance(m, kind))
    spatial = {rank: count for rank, count in ranks.items() if rank > 1} or ranks
    return max(spatial, key=lambda rank: (spatial[rank], rank), default=None)


def _layer(name: str, module: nn.Module) -> Layer | None:
    for kind, family in NORMS:
        if isinstance(module, kind):
            features = next(
                getattr(module, a)
                for a in ("num_features", "num_channels", "normalized_shape")
                if hasattr(module, a)
            )
            return Layer(
                name=name,
                family=family,
                kind=type(module).__name__,
                features=features if isinstance(features, int) else features[-1],
                running=getattr(module, "running_mean", None) is not None,
                affine=getattr(module, "weight", None) is not None,
            )
    return None
