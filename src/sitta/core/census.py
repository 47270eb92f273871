"""The census of a model: normalisation layers, spatial rank, channels, parameters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from sitta.core import norm_adapters
from sitta.core.norm_adapters import NormAdapter, norm_layers
from sitta.core.twin import require_eager, unwrap

FROZEN = {"weight", "bias", "running_mean", "running_var"}  # buffers of a FrozenBatchNorm2d
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
    # mixed: by a lambda; untrained: so too, but its statistics are still 0 and 1; per image: has
    # none, and normalises each image by itself; left alone: of a kind that Sitta does not replace
    use: str = "mixed"


@dataclass(frozen=True)
class Census:
    """The normalisation layers of a model, and what its input looks like."""

    model: str  # its class, without its wrapper
    layers: tuple[Layer, ...]  # every normalisation layer, in order
    rank: int | None  # spatial dimensions of an image, 2 or 3; None if no layer says
    in_channels: int | None  # of the first convolution listed, most often the entrance
    parameters: int  # how many numbers the model has learned
    convolutions: int = 0  # how many it has
    frozen: tuple[str, ...] = ()  # BatchNorm that became constants, such as FrozenBatchNorm2d

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
    require_eager(root)
    rank = _rank(root)
    first = (m for m in root.modules() if isinstance(m, _ConvNd) and len(m.kernel_size) == rank)
    entrance = next(first, None)
    return Census(
        model=type(root).__name__,
        layers=tuple(_layer(*entry) for entry in norm_layers(root)),
        rank=rank,
        in_channels=entrance.in_channels if entrance is not None else None,
        parameters=sum(p.numel() for p in root.parameters()),
        convolutions=sum(isinstance(m, _ConvNd) for m in root.modules()),
        frozen=tuple(name for name, m in root.named_modules() if _is_frozen(m)),
    )


def _is_frozen(module: nn.Module) -> bool:
    """Whether a module keeps all tensors of a BatchNorm as constants."""
    held = {name for name, t in module.named_buffers(recurse=False) if t.dim() == 1}
    return held >= FROZEN and not any(True for _ in module.parameters(recurse=False))


def _rank(root: nn.Module) -> int | None:
    """The most common rank of the layers; 1 only if there is no other (attention has Conv1d)."""
    kinds = CONVOLUTIONS | {k: rank for a in norm_adapters.ADAPTERS for k, rank in a.ranks.items()}
    ranks = Counter(rank for m in root.modules() for k, rank in kinds.items() if isinstance(m, k))
    spatial = {rank: count for rank, count in ranks.items() if rank > 1} or ranks
    return max(spatial, key=lambda rank: (spatial[rank], rank), default=None)


def _layer(name: str, module: nn.Module, adapter: NormAdapter) -> Layer:
    running, affine = adapter.source(module) is not None, bool(adapter.parameters(module))
    kind, features = type(module).__name__, adapter.features(module)
    return Layer(name, adapter.family, kind, features, running, affine, _use(module, adapter))


def _use(module: nn.Module, adapter: NormAdapter) -> str:
    source = adapter.source(module)
    if not adapter.replaces(module):
        return "left alone"
    if source is None:
        return "per image"
    if source[0].is_meta or is_lazy(source[0]):  # no values yet
        return "untrained"
    initial = not source[0].any() and bool((source[1] == 1).all())
    return "untrained" if initial else "mixed"
