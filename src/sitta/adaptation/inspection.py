"""What Sitta can do with a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sitta.adaptation import methods
from sitta.core.census import Census, census
from sitta.core.norm_adapters import mixed_families, norm_layers
from sitta.core.twin import unwrap

FEW = 4  # convolutions or normalisation layers for each that can be adapted


@dataclass(frozen=True)
class Inspection:
    """The census of a model and which methods apply."""

    census: Census  # normalisation layers, spatial rank, channels, number of parameters
    problems: dict[str, str]  # for each method, why it does not apply; empty if it does
    warnings: tuple[str, ...] = ()  # why adaptation may change little, or the wrong thing

    @property
    def applies(self) -> tuple[str, ...]:
        """Names of the methods that apply."""
        return tuple(name for name, problem in self.problems.items() if not problem)

    def __str__(self) -> str:
        c = self.census
        rank = "unknown rank" if c.rank is None else f"{c.rank}D"
        entrance = f"first convolution listed takes {c.in_channels or 'unknown'} channels"
        lines = [f"{c.model}: {rank}, {c.parameters:,} parameters, {entrance}", f"  {c}"]
        for name, problem in self.problems.items():
            lines.append(f"  {name:<8} {'no: ' + problem if problem else 'applies'}")
        return "\n".join(lines)


def inspect(model: nn.Module) -> Inspection:
    """Census of a model's normalisation layers, and which methods apply to it.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 1, 1))
        >>> inspect(net).problems["intent"]
        'it has no BatchNorm layer with running statistics to mix'
    """
    layers = census(model)
    problems = {name: kind.problem(layers) for name, kind in methods().items()}
    return Inspection(layers, problems, tuple(_warnings(unwrap(model), layers)))


def _warnings(root: nn.Module, layers: Census) -> Iterator[str]:
    """What lambda cannot reach, or should not."""
    mixable, family = len(layers.mixable), mixed_families()
    convolutions = sum(isinstance(m, _ConvNd) for m in root.modules())
    if 0 < mixable * FEW < max(convolutions, len(layers.layers)):
        others = f"{convolutions} convolutions and {len(layers.layers)} normalisation layers"
        yield (
            f"Only {mixable} of its layers {'is a' if mixable == 1 else 'are'} {family} with "
            f"running statistics, beside {others}: adaptation may change little."
        )
    untouched = [
        name for name, layer, adapter in norm_layers(root) if _is_new(adapter.source(layer))
    ]
    if untouched:
        yield (
            f"{len(untouched)} {family} layers have the statistics they were made with (mean 0, "
            f"variance 1), such as {untouched[0]}: they were never trained, or are frozen."
        )
    normed = {name for name, _, _ in norm_layers(root)}
    frozen = [n for n, m in root.named_modules() if n not in normed and _keeps_statistics(m)]
    if frozen:
        yield (
            f"{len(frozen)} layers keep statistics but are no {family}, such as {frozen[0]} "
            f"({type(root.get_submodule(frozen[0])).__name__}): they are frozen, and lambda has "
            "no effect on them."
        )


def _is_new(source: tuple[Tensor, Tensor] | None) -> bool:
    return source is not None and bool((source[0] == 0).all() and (source[1] == 1).all())


def _keeps_statistics(module: nn.Module) -> bool:
    return isinstance(dict(module.named_buffers(recurse=False)).get("running_mean"), Tensor)
