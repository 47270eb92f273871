"""Source statistics of layers that keep none: measured in-domain, mixed like running ones.

InstanceNorm and GroupNorm normalise every image by its own statistics, so the model as trained is
the member of lambda 0. A lambda above 0 mixes in the mean of these statistics over in-domain
images. LayerNorm is left out: its statistics are those of one position, and stand for no image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sitta.core.census import census
from sitta.core.entropy import Activation, probabilities
from sitta.core.integration import ballots
from sitta.core.moments import row_moments
from sitta.core.norm import Pair, StatisticsMixer
from sitta.core.norm_adapters import NormAdapter, calibrated_families, norm_layers
from sitta.core.twin import twin, unwrap
from sitta.core.validate import as_batch
from sitta.errors import InvalidImage, InvalidSetting, UnsupportedModel

# The full range of lambdas loses points: deep layers of such networks never saw other statistics.
SHORT_GRID = (0.0, 0.2, 0.4)
TRAINED = 0.0  # the lambda at which such a network is the model as trained
NEAR = 0.7  # Dice with the model as trained below which a member does not count


def calibrated_layers(model: nn.Module) -> dict[str, tuple[nn.Module, NormAdapter]]:
    """Layers of a network that such statistics are for, by name.

    Empty if it has running statistics, whose lambdas mean something else.
    """
    root = unwrap(model)
    if census(root).mixable:
        return {}
    layers = norm_layers(root)
    return {n: (m, a) for n, m, a in layers if a.calibrates and a.source(m) is None}


def measure_statistics(model: nn.Module, images: Iterable[Any]) -> dict[str, Pair]:
    """Mean and variance of each such layer: the mean over images of each image's own.

    Args:
        model: A network with InstanceNorm or GroupNorm, and without running statistics.
        images: In-domain images ``(C, *S)``, of any sizes; a batch ``(N, C, *S)`` counts as N.

    Returns:
        The mean and the variance of each layer, ``(C,)``, or ``(G,)`` for GroupNorm.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.Conv2d(4, 1, 1))
        >>> mean, variance = measure_statistics(net, [torch.rand(1, 8, 8)])["1"]
        >>> mean.shape, variance.shape
        (torch.Size([4]), torch.Size([4]))
    """
    names, about = calibrated_layers(model), census(model)
    if not names:
        raise UnsupportedModel(
            f"There is nothing to measure: no {calibrated_families()} layer, or running statistics "
            "that make it needless.",
            got=f"{about.model} with {about}",
        )
    copy, _ = twin(model, StatisticsMixer())
    seen: dict[str, list[Pair]] = {name: [] for name in names}
    for name, (_, adapter) in names.items():
        copy.get_submodule(name).register_forward_pre_hook(_Watch(adapter, seen[name]))
    with torch.no_grad():
        for image in images:
            for row in as_batch(image, model, about)[0]:
                copy(row[None])
    unused = [name for name, pairs in seen.items() if not pairs]
    if len(unused) == len(seen):
        raise InvalidImage("There is no image to measure statistics on.")
    return {name: _mean(pairs) for name, pairs in seen.items() if pairs}


class _Watch:
    """Notes what a layer sees."""

    def __init__(self, adapter: NormAdapter, seen: list[Pair]) -> None:
        self.adapter, self.seen = adapter, seen

    def __call__(self, layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        x = self.adapter.grouped(layer, args[0].detach())
        mean, var, _ = row_moments(x, len(x))  # all rows are of one image
        self.seen.append((mean[0], var[0]))


def _mean(pairs: list[Pair]) -> Pair:
    means, variances = zip(*pairs, strict=True)
    return torch.stack(means).mean(dim=0), torch.stack(variances).mean(dim=0)


def checked_statistics(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Pair]:
    """Statistics by layer as tensors, if they are for layers of this network."""
    layers, about = calibrated_layers(model), census(model)
    if about.mixable:
        raise InvalidSetting(
            "This model keeps running statistics, which need none from elsewhere.",
            got=f"{about.model} with {about}",
            fix="leave source_statistics out",
        )
    unknown = [name for name in given if name not in layers]
    if unknown or not given:
        raise InvalidSetting(
            "source_statistics are for layers that this model does not have.",
            allowed=f"{calibrated_families()} layers: {', '.join(layers)}"[:300],
            got=", ".join(map(repr, unknown))[:100] or "none",
            fix="measure them on this model",
        )
    return {name: _pair(name, *layers[name], *given[name]) for name in given}


def _pair(name: str, layer: nn.Module, adapter: NormAdapter, mean: Any, var: Any) -> Pair:
    pair = torch.as_tensor(mean), torch.as_tensor(var)
    wanted = (adapter.statistics(layer),)
    good = all(t.shape == wanted and t.isfinite().all() for t in pair) and (pair[1] >= 0).all()
    if not good:
        raise InvalidSetting(
            f"The statistics of layer '{name}' cannot be used.",
            allowed=f"{wanted[0]} finite means and as many variances >= 0",
            got=" and ".join(str(tuple(t.shape)) for t in pair),
        )
    return pair


def near(logits: Tensor, activation: Activation, anchor: int, least: float = NEAR) -> Tensor:
    """Which members ``(K, N)`` of logits ``(K, N, C, *S)`` have a mask like that of the anchor.

    By the mean Dice over the classes that either finds; two empty masks are alike.
    """
    each = probabilities(logits.nan_to_num(0.0).flatten(0, 1), activation)
    maps = ballots(each.unflatten(0, logits.shape[:2]), activation)  # (K, N, C, *S)
    maps = (maps[:, :, 1:] if activation == "softmax" else maps).flatten(3).to(each.dtype)
    total = maps.sum(dim=3) + maps[anchor].sum(dim=2)  # (K, N, F)
    dice = 2 * (maps * maps[anchor]).sum(dim=3) / total.clamp(min=1)
    there = total > 0
    mean = (dice * there).sum(dim=2) / there.sum(dim=2).clamp(min=1)
    return (mean >= least) | ~there.any(dim=2)
