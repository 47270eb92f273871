"""What Sitta can do with a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from sitta.adaptation import methods
from sitta.core.calibrated_statistics import calibrated_layers
from sitta.core.census import Census, census
from sitta.core.twin import unwrap
from sitta.prediction.calibration import calibration_of

SPARSE = 4  # convolutions for each layer with running statistics: usual networks have one or two


@dataclass(frozen=True)
class Inspection:
    """The census of a model and which methods apply."""

    census: Census  # normalisation layers, spatial rank, channels, number of parameters
    problems: dict[str, str]  # for each method, why it does not apply; empty if it does
    warnings: tuple[str, ...] = ()  # why adaptation may change little, or go wrong
    hints: tuple[str, ...] = ()  # what else could be tried

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
        lines += [f"  warning: {warning}" for warning in self.warnings]
        lines += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(lines)


def inspect(model: nn.Module) -> Inspection:
    """Census of a model's normalisation layers, and which methods apply to it.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 1, 1))
        >>> inspect(net).problems["intent"]
        'it has no BatchNorm or InstanceNorm layer with running statistics to mix'
    """
    layers = census(model)
    problems = {name: kind.problem(layers) for name, kind in methods().items()}
    hints = []
    if measurable := calibrated_layers(model):
        calibration = calibration_of(unwrap(model))
        if calibration is not None and calibration.statistics:
            problems["adapt"] = ""
        hints.append(
            f"Experimental: {len(measurable)} layers keep no statistics. sitta calibrate measures "
            "those of in-domain images, and Adapt mixes them in. Lambda 0 is the model as trained."
        )
    return Inspection(layers, problems, tuple(_warnings(layers)), tuple(hints))


def _warnings(layers: Census) -> Iterator[str]:
    """What is unusual about the normalisation layers."""
    mixed, every = len(layers.mixable), len(layers.layers)
    if 0 < mixed < every - mixed:
        yield (
            f"Running statistics in {mixed} of {every} normalisation layers only. Lambda changes "
            "no others, so adaptation may change little."
        )
    elif mixed and layers.convolutions > SPARSE * mixed:
        yield (
            f"Running statistics in {mixed} of the normalisation layers only, for "
            f"{layers.convolutions} convolutions: adaptation may change little."
        )
    if layers.frozen:
        yield (
            f"Frozen BatchNorm ({_some(layers.frozen)}): constants in place of statistics, which "
            "no lambda mixes. To adapt such layers, load their tensors into nn.BatchNorm2d."
        )
    single = [x.name for x in layers.layers if x.use == "per image"]
    if single:
        yield (
            f"Without running statistics ({_some(single)}): such layers normalise each image by "
            "itself at every lambda."
        )
    untrained = [x.name for x in layers.layers if x.use == "untrained"]
    if untrained:
        yield (
            f"Never trained ({_some(untrained)}): running statistics are still 0 and 1. Load "
            "trained weights; a layer that the forward pass never calls does no harm."
        )


def _some(names: Sequence[str]) -> str:
    """So many layers, the first of them by name."""
    count = f"{len(names)} layer{'s' if len(names) > 1 else ''}"
    return f"{count}: {', '.join([*names[:3], *(['...'] if len(names) > 3 else [])])}"
