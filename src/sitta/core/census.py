"""What a model is made of, as far as adaptation is concerned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.conv import _ConvNd

from sitta.core import norm_adapters
from sitta.core.norm_adapters import NormAdapter, norm_layers
from sitta.core.twin import unwrap

CONVOLUTIONS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


@dataclass(frozen=True)
class Layer:
    """One normalisation layer."""

    name: str  # its path in the model
    family: str  # such as BatchNorm; see ``norm_adapters``
    kind: str  # its class
    features: int  # channels or features that it normalises
    running: bool  # whether it keeps running statistics from training
    affine: bool  # whether it has a scale or a shift to learn


@dataclass(frozen=True)
class Census:
    """The normalisation layers of a model, and what its input looks like."""

    model: str  # its class, without its wrapper
    layers: tuple[Layer, ...]  # every normalisation layer, in order
    rank: int | None  # spatial dimensions of an image, 2 or 3; None if no layer says
    in_channels: int | None  # of the first convolution listed, most often the entrance
    parameters: int  # how many numbers the model has learned

    @property
    def mixable(self) -> tuple[Layer, ...]:
        """Layers, such as BatchNorm, with running statistics that a lambda acts on."""
        families = {adapter.family for adapter in norm_adapters.ADAPTERS if adapter.mixes}
        return tuple(x for x in self.layers if x.family in families and x.running)

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
    rank = _rank(root)
    first = (m for m in root.modules() if isinstance(m, _ConvNd) and len(m.kernel_size) == rank)
    entrance = next(first, None)
    return Census(
        model=type(root).__name__,
        layers=tuple(_layer(*entry) for entry in norm_layers(root)),
        rank=rank,
        in_channels=entrance.in_channels if entrance is not None else None,
        parameters=sum(p.numel() for p in root.parameters()),
    )


def _rank(root: nn.Module) -> int | None:
    """The most common rank of the layers; 1 only if there is no other (attention has Conv1d)."""
    kinds = CONVOLUTIONS | {k: rank for a in norm_adapters.ADAPTERS for k, rank in a.ranks.items()}
    ranks = Counter(rank for m in root.modules() for k, rank in kinds.items() if isinstance(m, k))
    spatial = {rank: count for rank, count in ranks.items() if rank > 1} or ranks
    return max(spatial, key=lambda rank: (spatial[rank], rank), default=None)


def _layer(name: str, module: nn.Module, adapter: NormAdapter) -> Layer:
    running, affine = adapter.source(module) is not None, bool(adapter.parameters(module))
    kind, features = type(module).__name__, adapter.features(module)
    return Layer(name, adapter.family, kind, features, running, affine)
