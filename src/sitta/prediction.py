"""What every method returns: the integrated map, the members behind it, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from sitta import trust
from sitta.entropy import Activation, labels, probability_entropy
from sitta.notes import codes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Outcome:
    """The figures of N images that a method computes, all with their N axis."""

    method: str
    images: Tensor  # (N, C, *S)
    lambdas: Tensor  # (K,)
    members: Tensor  # (K, N, C, *S), probabilities
    figures: Tensor  # (K, N), what was weighed
    weights: Tensor  # (K, N)
    probability: Tensor  # (N, C, *S), integrated
    usable: Tensor  # (K, N), False where a member was not finite
    activation: Activation
    codes: tuple[tuple[str, ...], ...]  # notes on how each of the N images went
    distance: Tensor  # (N,), from the source's statistics; NaN if no layer measured the image
    limits: trust.Limits  # from where on a person should look
    updated: bool = False  # whether parameters were changed, so that lambda 1 is not the source

    def pick(self, at: slice) -> Outcome:
        """The outcome of some images alone."""
        cut = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("members", "figures", "weights", "usable"):
            cut[name] = cut[name][:, at]
        for name in ("images", "probability", "codes", "distance"):
            cut[name] = cut[name][at]
        return Outcome(**cut)


class Prediction:
    """The result for one image, or for each of N independent images.

    Shapes below are those of N images; for one image ``(C, *S)`` the N axis is not there.
    K is the number of members. Derived figures are computed when first asked for.

    Attributes:
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

    def __init__(self, outcome: Outcome, *, batched: bool) -> None:
        self._outcome, self._batched = outcome, batched
        self.method = outcome.method
        self.activation = outcome.activation
        self.lambdas = outcome.lambdas
        self.image = self._drop(outcome.images)
        self.probability = self._drop(outcome.probability)
        self.members = self._drop(outcome.members, 1)
        self.entropies = self._drop(outcome.figures, 1)
        self.weights = self._drop(outcome.weights, 1)
        self.distance = self._drop(outcome.distance)

    def _drop(self, figures: Tensor, axis: int = 0) -> Tensor:
        return figures if self._batched else figures.squeeze(axis)

    def __len__(self) -> int:
        return len(self._outcome.images)

    def __getitem__(self, index: int | slice) -> Prediction:
        """The prediction of one image, without the N axis; or, for a slice, of several."""
        if isinstance(index, slice):
            return Prediction(self._outcome.pick(index), batched=True)
        n = range(len(self))[index]
        return Prediction(self._outcome.pick(slice(n, n + 1)), batched=False)

    def __iter__(self) -> Iterator[Prediction]:
        return (self[n] for n in range(len(self)))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self._outcome.images.shape[2:]))
        return f"Prediction({self.method}, {len(self)} x {shape}, {len(self.lambdas)} members)"

    @cached_property
    def mask(self) -> Tensor:
        """``(N, *S)`` classes; ``(N, C, *S)`` of 0 and 1 if there are several labels."""
        return self._drop(labels(self._outcome.probability, self.activation))

    @cached_property
    def member_masks(self) -> Tensor:
        """``(K, N, *S)`` what each member alone would answer."""
        members = self._outcome.members
        flat = labels(members.flatten(0, 1), self.activation)
        return self._drop(flat.unflatten(0, members.shape[:2]), 1)

    @cached_property
    def source_mask(self) -> Tensor | None:
        """``(N, *S)`` the mask of the unadapted model, if it is among the members and usable."""
        at = self.source_member
        return None if at is None else self.member_masks[at]

    @cached_property
    def source_member(self) -> int | None:
        """Which member is the unadapted model: lambda 1, nothing updated, all of it finite."""
        o = self._outcome
        usable = (self.lambdas == 1) & o.usable.all(dim=1).cpu()
        return None if o.updated or not usable.any() else int(usable.nonzero()[0])

    @cached_property
    def uncertainty(self) -> Tensor:
        """``(N, *S)`` entropy of the integrated map in bits, from 0 to 1."""
        return self._drop(probability_entropy(self._outcome.probability, self.activation))

    @cached_property
    def disagreement(self) -> Tensor:
        """``(N, *S)`` mutual information between the members in bits: 0 where they all agree."""
        o = self._outcome
        return self._drop(trust.disagreement(o.members, o.activation, o.usable))

    @cached_property
    def _foreground(self) -> Tensor:
        return trust.foreground(self._outcome.members, self.activation)  # (K, N, F, P)

    @cached_property
    def agreement(self) -> Tensor:
        """``(N,)`` mean pairwise Dice of the members' masks: 1 = all members agree."""
        return self._drop(trust.agreement(self._foreground, self._outcome.usable))

    @cached_property
    def areas(self) -> Tensor:
        """``(K, N)`` share of the pixels that each member takes for foreground of any class."""
        return self._drop(self._foreground.amax(dim=2).mean(dim=2), 1)

    @cached_property
    def area(self) -> Tensor:
        """``(N,)`` share of foreground pixels of the integrated mask."""
        maps = trust.foreground(self._outcome.probability[None], self.activation)
        return self._drop(maps.amax(dim=2).mean(dim=2)[0])

    @cached_property
    def change(self) -> Tensor | None:
        """``(N,)`` how far source and final mask differ: 1 - Dice; None without a source member."""
        at = self.source_member
        if at is None:
            return None
        final = trust.foreground(self._outcome.probability[None], self.activation)
        both = torch.cat([self._foreground[at : at + 1], final])  # (2, N, F, P)
        usable = torch.ones(both.shape[:2], dtype=torch.bool, device=both.device)
        return self._drop(1 - trust.agreement(both, usable))

    @cached_property
    def notes(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """Codes of what a person should know, for each image; ``sitta.notes.NOTES`` explains."""
        o, values = self._outcome, self._outcome.images.flatten(1)
        found = codes(
            _array(self.areas.reshape(-1, len(self))),
            _array(self.area.reshape(-1)),
            _array(o.figures),
            _array(o.usable),
            _array(self.agreement.reshape(-1)),
            _array(o.distance),
            _array(values.amax(dim=1) == values.amin(dim=1)),
            o.limits,
        )
        every = tuple((*seen, *went) for seen, went in zip(found, o.codes, strict=True))
        return every if self._batched else every[0]

    def arrays(self) -> dict[str, Any]:
        """All that was computed, as NumPy arrays with their N axis, for what does without torch.

        Besides the attributes of this class: ``images``; ``usable`` ``(K, N)``, False where a
        member was not finite; ``codes``, the notes on how each image went; ``limits``; ``updated``.

        Example:
            >>> import sitta, torch
            >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
            >>> sitta.InTEnt(model)(torch.rand(1, 16, 16)).arrays()["members"].shape
            (6, 1, 1, 16, 16)
        """
        o, whole = self._outcome, self if self._batched else self[:]
        tensors = {
            "images": o.images,
            "lambdas": o.lambdas,
            "probability": o.probability,
            "members": o.members,
            "entropies": o.figures,
            "weights": o.weights,
            "usable": o.usable,
            "agreement": whole.agreement,
            "uncertainty": whole.uncertainty,
            "disagreement": whole.disagreement,
            "distance": o.distance,
        }
        plain = {"activation": o.activation, "codes": o.codes, "limits": o.limits}
        return {name: _array(t) for name, t in tensors.items()} | plain | {"updated": o.updated}

    def summary(self) -> str:
        """A short text for people: members, areas, trust and notes of each image."""
        from sitta.summary import summary

        return summary(self)

    def plot(self, index: int = 0) -> Figure:
        """A matplotlib figure of one image.

        The image, the source mask, the integrated mask and its uncertainty; below, the members
        with lambda, entropy and weight. Of a volume, the slice with most foreground.
        """
        from sitta.plotting import plot

        return plot(self[index])


def _array(figures: Tensor) -> NDArray[Any]:
    """As NumPy has it: on the CPU, and no type that it does not know."""
    short = figures.is_floating_point() and figures.element_size() < 4
    found: NDArray[Any] = (figures.float() if short else figures).detach().cpu().numpy()
    return found
