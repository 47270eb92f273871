"""What Sitta can do with a model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sitta.adaptation import methods
from sitta.core.census import Census, census


@dataclass(frozen=True)
class Inspection:
    """The census of a model and which methods apply."""

    census: Census  # normalisation layers, spatial rank, channels, number of parameters
    problems: dict[str, str]  # for each method, why it does not apply; empty if it does

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
    return Inspection(layers, {name: kind.problem(layers) for name, kind in methods().items()})
