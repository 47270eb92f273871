"""What every method returns: the integrated map, the members behind it, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sitta.core.entropy import Activation
from sitta.core.masks import labels
from sitta.prediction.geometry import ImageGeometry
from sitta.prediction.notes import Array
from sitta.prediction.record import Lazy, MethodOutput, PredictionRecord
from sitta.prediction.scores import computed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class RawPrediction(MethodOutput[Tensor]):
    """What a method computed for N images, as tensors with their N axis."""

    method: str  # name of its class
    members: Tensor
    activation: Activation


class Prediction:
    """The result for one image, or for each of N independent images.

    Shapes below are those of N images; for one image ``(C, *S)`` the N axis is not there.
    K is the number of members. Derived values are computed when first asked for. If the image is a
    MetaTensor of MONAI, image, maps and masks are MetaTensors with its affine; those of the members
    of several images are plain tensors, as their first axis is not that of the images.

    Attributes:
        image: ``(N, C, *S)``, as the model saw it.
        lambdas: ``(K,)`` weight of the source statistics in each member: 1 source, 0 this image.
        probability: ``(N, C, *S)`` integrated probabilities.
        members: ``(K, N, C, *S)`` probabilities of the members.
        entropies: ``(K, N)`` what the strategy weighed, in bits.
        weights: ``(K, N)``, sum to 1 over K.
        distance: ``(N,)`` how far the image's statistics are from the source's: the mean over
            BatchNorm layers and channels of their Kullback-Leibler divergence, in nats. NaN if
            the method did not look at them (lambda 1).

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> p = sitta.InTEnt(model)(torch.rand(1, 16, 16))
        >>> p.probability.shape, p.mask.shape, p.weights.shape
        (torch.Size([1, 16, 16]), torch.Size([16, 16]), torch.Size([6]))
    """

    def __init__(
        self, raw: RawPrediction, *, batched: bool, geometry: ImageGeometry | None = None
    ) -> None:
        self._raw, self._batched, self._geometry = raw, batched, geometry
        self._computed: Lazy[Tensor] = Lazy(partial(_compute, raw))
        self.method = raw.method
        self.activation = raw.activation
        self.lambdas = raw.lambdas
        self.image = self._map(raw.images)
        self.probability = self._map(raw.probability)
        self.members = self._map(raw.members, 1)
        self.entropies = self._drop(raw.entropies, 1)
        self.weights = self._drop(raw.weights, 1)
        self.distance = self._drop(raw.distance)

    def __len__(self) -> int:
        return len(self._raw.images)

    def __getitem__(self, index: int | slice) -> Prediction:
        """The prediction of one image, without the N axis; or, for a slice, of several."""
        geometry = None if self._geometry is None else self._geometry[index]
        if isinstance(index, slice):
            return Prediction(self._raw.pick(index), batched=True, geometry=geometry)
        n = range(len(self))[index]
        return Prediction(self._raw.pick(slice(n, n + 1)), batched=False, geometry=geometry)

    def __iter__(self) -> Iterator[Prediction]:
        return (self[n] for n in range(len(self)))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self._raw.images.shape[2:]))
        return f"Prediction({self.method}, {len(self)} x {shape}, {len(self.lambdas)} members)"

    @cached_property
    def record(self) -> PredictionRecord:
        """Everything in NumPy, with its N axis; masks, scores and notes are derived there."""
        arrays = {f.name: _array(getattr(self._raw, f.name)) for f in fields(MethodOutput)}
        return PredictionRecord(**arrays, computed=Lazy(partial(_computed_array, self._computed)))

    @cached_property
    def mask(self) -> Tensor:
        """``(N, *S)`` classes; ``(N, C, *S)`` of 0 and 1 if there are several labels."""
        raw = self._raw
        return self._map(labels(raw.probability, self.activation, raw.thresholds))

    @cached_property
    def _member_masks(self) -> Tensor:
        members = self._raw.members
        flat: Tensor = labels(members.flatten(0, 1), self.activation, self._raw.thresholds)
        masks: Tensor = flat.unflatten(0, members.shape[:2])
        return masks

    @property
    def member_masks(self) -> Tensor:
        """``(K, N, *S)`` the mask of each member alone."""
        return self._map(self._member_masks, 1)

    @property
    def source_member(self) -> int | None:
        """Which member is the unadapted model, if one is; see ``PredictionRecord.anchor``."""
        return self.record.anchor

    @property
    def source_mask(self) -> Tensor | None:
        """``(N, *S)`` the mask of the unadapted model, if it is among the members and usable."""
        at = self.source_member
        return None if at is None else self._map(self._member_masks[at])

    @property
    def uncertainty(self) -> Tensor:
        """``(N, *S)`` entropy of the integrated map in bits, from 0 to 1."""
        return self._map(self._computed["uncertainty"])

    @property
    def disagreement(self) -> Tensor:
        """``(N, *S)`` mutual information between the members in bits: 0 where they all agree."""
        return self._map(self._computed["disagreement"])

    @property
    def agreement(self) -> Tensor:
        """``(N,)`` mean pairwise Dice of the members' masks: 1 = all members agree."""
        return self._drop(self._computed["agreement"])

    @cached_property
    def areas(self) -> Tensor:
        """``(K, N)`` share of the pixels that each member takes for foreground of any class."""
        return self._drop(self._tensor(self.record.areas), 1)

    @cached_property
    def area(self) -> Tensor:
        """``(N,)`` share of foreground pixels of the integrated mask."""
        return self._drop(self._tensor(self.record.area))

    @cached_property
    def change(self) -> Tensor | None:
        """``(N,)`` how far source and final mask differ: 1 - Dice; None without a source member."""
        change = self.record.change
        return None if change is None else self._drop(self._tensor(change))

    @cached_property
    def expected_dice(self) -> Tensor | None:
        """``(N,)`` the Dice to expect, mean over classes; None without a calibration."""
        dice = self.record.expected_dice
        return None if dice is None else self._drop(self._tensor(dice[0]))

    @cached_property
    def expected_interval(self) -> Tensor | None:
        """``(2, N)`` the ends of its 80 % interval."""
        dice = self.record.expected_dice
        return None if dice is None else self._drop(self._tensor(dice[1:]), 1)

    @property
    def notes(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """Codes of the notes on each image; ``sitta.prediction.notes.NOTES`` explains them."""
        notes = self.record.notes
        return notes if self._batched else notes[0]

    def arrays(self) -> dict[str, Any]:
        """All that was computed, as NumPy arrays with their N axis, for what does without torch.

        Besides attributes of this class: ``images``; ``usable`` ``(K, N)``, False where a member
        was not finite; ``codes``, notes that the method raised; ``limits``; ``updated``.

        Example:
            >>> import sitta, torch
            >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
            >>> sitta.InTEnt(model)(torch.rand(1, 16, 16)).arrays()["members"].shape
            (6, 1, 1, 16, 16)
        """
        record = self.record
        stored = {f.name: getattr(record, f.name) for f in fields(MethodOutput)}
        return stored | {name: record.computed[name] for name in computed()}

    def summary(self) -> str:
        """A short text for people: members, areas, trust and notes of each image."""
        from sitta.prediction.summary import summary

        return summary(self)

    def plot(self, index: int = 0) -> Figure:
        """A matplotlib figure of one image.

        The image, the source mask, the integrated mask and its uncertainty; below, the members
        with lambda, entropy and weight. Of a volume, the slice with most foreground.
        """
        from sitta.prediction.plot import plot

        return plot(self[index])

    def _drop(self, values: Tensor, axis: int = 0) -> Tensor:
        return values if self._batched else values.squeeze(axis)

    def _map(self, values: Tensor, axis: int = 0) -> Tensor:
        """A map of the image, with its geometry; ``axis`` is that of the images."""
        values = self._drop(values, axis)
        plain = self._geometry is None or (self._batched and axis)
        return values if plain or self._geometry is None else self._geometry.on(values)

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self._raw.probability)


def _compute(raw: RawPrediction, name: str) -> Tensor:
    return computed()[name](raw.probability, raw.members, raw.usable, raw.activation)


def _computed_array(tensors: Lazy[Tensor], name: str) -> Any:
    return _array(tensors[name])


def _array(values: Any) -> Any:
    """A tensor as NumPy has it: on the CPU, of a type that it knows. All else is left as it is."""
    if not isinstance(values, Tensor):
        return values
    short = values.is_floating_point() and values.element_size() < 4
    return (values.float() if short else values).detach().cpu().numpy()
