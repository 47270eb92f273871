"""The record of a prediction in NumPy: everything that is derived from what a method computed.

The same whether torch or an exported graph computed it. Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, Self, TypeVar

import numpy as np

from sitta.core.masks import labels
from sitta.prediction.calibration import Calibration
from sitta.prediction.evidence import evidence
from sitta.prediction.notes import Array, Limits, codes
from sitta.prediction.scores import every

T = TypeVar("T")


class Lazy(dict[str, T]):
    """Values that are computed when they are first asked for."""

    def __init__(self, compute: Callable[[str], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, name: str) -> T:
        value = self[name] = self._compute(name)
        return value


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodOutput(Generic[T]):
    """What a method computes for N images with K members: tensors or arrays with their N axis."""

    images: T  # (N, C, *S), the model's input
    lambdas: T  # (K,)
    probability: T  # (N, C, *S), integrated
    members: T | None  # (K, N, C, *S) probabilities; None if they were not kept
    entropies: T  # (K, N), what the strategy weighed
    weights: T  # (K, N)
    usable: T  # (K, N), False where a member was not finite
    distance: T  # (N,) from the source's statistics; NaN if it was not measured
    activation: str
    limits: Limits
    codes: tuple[tuple[str, ...], ...]  # notes that the method raised on each of the N images
    ran: T  # (K, N), False where a member was not needed
    names: tuple[str, ...]  # of the members: the lambda, or what says more
    ends: T | None  # (2, N, C, *S) probabilities at lambda 1 and 0, if there is a calibration
    calibration: Calibration | None  # what is known of the model in-domain
    thresholds: tuple[float | None, ...] = ()  # of the classes, if the model's profile has any
    updated: bool = False  # whether parameters were changed
    trained: int | None = None  # which member is the model as trained; None if no member is

    def pick(self, at: slice) -> Self:
        """The part that is about some of the images."""
        whole: Any = self
        by_image = ("images", "probability", "distance", "codes")
        by_member = ("entropies", "weights", "usable", "ran", "members", "ends")
        cut = {name: getattr(whole, name)[at] for name in by_image}
        held = {name: getattr(whole, name) for name in by_member}
        cut |= {name: None if values is None else values[:, at] for name, values in held.items()}
        return replace(self, **cut)


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionRecord(MethodOutput[Array]):
    """N independent adaptations, with masks, scores and notes."""

    # By name, what ``scores.computed()`` lists: the agreement (N,), and maps (N, *S).
    computed: Mapping[str, Array]
    saturation: float | None = None  # of the file, if its colours became grey for the model

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> PredictionRecord:
        """The record of one image, still with an N axis."""
        n = range(len(self))[index]
        return self.pick(slice(n, n + 1))

    def __iter__(self) -> Iterator[PredictionRecord]:
        return (self[n] for n in range(len(self)))

    def pick(self, at: slice) -> Self:
        """The record of some of the images."""
        return replace(super().pick(at), computed=Lazy(partial(_part, self.computed, at)))

    def with_members(self, chosen: Array) -> Self:
        """The record without the other members, none of which may count."""
        whole: Any = self
        names = ("lambdas", "entropies", "weights", "usable", "ran", "members")
        held = {name: getattr(whole, name) for name in names}
        cut: dict[str, Any] = {n: None if v is None else v[chosen] for n, v in held.items()}
        kept = [int(k) for k in chosen]
        cut["trained"] = kept.index(self.trained) if self.trained in kept else None
        return replace(self, **cut, names=tuple(self.names[k] for k in kept))

    @cached_property
    def input_codes(self) -> list[tuple[str, ...]]:
        """Codes of notes on what the images look like, if the calibration knows."""
        known = self.calibration.inputs if self.calibration else None
        return [()] * len(self) if known is None else known.codes(self.images, self.saturation)

    @property
    def agreement(self) -> Array:
        """``(N,)`` mean pairwise Dice of the members' masks."""
        return self.computed["agreement"]

    @property
    def uncertainty(self) -> Array:
        """``(N, *S)`` entropy of the integrated map."""
        return self.computed["uncertainty"]

    @property
    def disagreement(self) -> Array:
        """``(N, *S)`` mutual information between the members."""
        return self.computed["disagreement"]

    @cached_property
    def mask(self) -> Array:
        """``(N, *S)`` classes; ``(N, C, *S)`` of 0 and 1 if there are several labels."""
        return labels(self.probability, self.activation, self.thresholds)

    @cached_property
    def member_masks(self) -> Array | None:
        """``(K, N, *S)`` the mask of each member alone."""
        if self.members is None:
            return None
        maps = self.members.reshape(-1, *self.members.shape[2:])
        flat = labels(maps, self.activation, self.thresholds)
        return flat.reshape(*self.members.shape[:2], *flat.shape[1:])

    @property
    def anchor(self) -> int | None:
        """The member that is the model as trained, if one is and all of it is finite."""
        at = self.trained
        return None if at is None or not self.usable[at].all() else at

    @cached_property
    def source_mask(self) -> Array | None:
        """``(N, *S)`` the mask of the anchor, if there is one."""
        masks = self.member_masks
        return None if self.anchor is None or masks is None else masks[self.anchor]

    @cached_property
    def areas(self) -> Array:
        """``(K, N)`` share of the pixels that each member takes for foreground of any class."""
        if self.member_masks is None:
            return np.full(self.weights.shape, np.nan, dtype=np.float32)
        shares = np.stack([self._share(masks) for masks in self.member_masks])
        return np.where(self.ran, shares, np.nan).astype(shares.dtype)

    @cached_property
    def area(self) -> Array:
        """``(N,)`` share of foreground pixels of the integrated mask."""
        return self._share(self.mask)

    @cached_property
    def change(self) -> Array | None:
        """``(N,)`` how far source and final mask differ: 1 - Dice; None without an anchor."""
        if self.source_mask is None:
            return None
        before, after = self.foreground(self.source_mask), self.foreground(self.mask)
        return np.asarray(1 - _dice(before, after))

    @cached_property
    def expected(self) -> Array | None:
        """``(F, 3, N)`` expected Dice of each foreground class, and the ends of its interval.

        None without a calibration that was made for it.
        """
        known = self.calibration.classes if self.calibration else ()
        if not known or len(known) != self.foreground(self.mask).shape[1]:
            return None
        each = [
            np.full((3, len(self)), np.nan)
            if c.dice is None
            else np.stack(c.dice.interval(evidence(self, n, c)))
            for n, c in enumerate(known)
        ]
        return None if all(c.dice is None for c in known) else np.stack(each)

    @cached_property
    def expected_dice(self) -> Array | None:
        """``(3, N)`` the same as a mean over the classes for which it is known."""
        return None if self.expected is None else np.nanmean(self.expected, axis=0)

    @cached_property
    def notes(self) -> tuple[tuple[str, ...], ...]:
        """Codes of the notes on each image; ``sitta.prediction.notes.NOTES`` explains them."""
        return tuple(codes(self))

    @cached_property
    def scores(self) -> dict[str, Array]:
        """Every score of ``sitta.prediction.scores`` by name, each ``(N,)``."""
        return {score.name: score.of(self) for score in every()}

    def rows(self) -> list[dict[str, Any]]:
        """Scores, notes and members of each image by itself, in plain types."""
        return [
            {
                **{name: _plain(values[0]) for name, values in one.scores.items()},
                "notes": list(one.notes[0]),
                "weights": one.weights[:, 0].tolist(),
                "entropies": one.entropies[:, 0].tolist(),
                "areas": [_plain(area) for area in one.areas[:, 0]],
                "classes": one.by_class(),
            }
            for one in self
        ]

    def by_class(self) -> list[dict[str, Any]]:
        """Name and expected Dice of each class, of the first image, in plain types."""
        if self.expected is None or self.calibration is None:
            return []
        names = ("expected_dice", "expected_dice_low", "expected_dice_high")
        return [
            {"name": c.name, **{k: _plain(v) for k, v in zip(names, values[:, 0], strict=True)}}
            for c, values in zip(self.calibration.classes, self.expected, strict=True)
        ]

    def foreground(self, masks: Array) -> Array:
        """Where the foreground classes are, flat: ``(N, F, P)``."""
        classes = self.probability.shape[1]
        if self.activation == "softmax":
            maps = np.stack([masks == c for c in range(1, classes)], axis=1)
        else:
            maps = masks > 0
        return maps.reshape(len(masks), classes - (self.activation == "softmax"), -1)

    def _share(self, masks: Array) -> Array:
        """Of pixels in any class, ``(N,)``, in the precision of the probabilities."""
        pixels = self.foreground(masks).any(axis=1)
        kind = self.probability.dtype
        return np.asarray(pixels.sum(axis=1).astype(kind) / kind.type(pixels.shape[1]))


def _part(values: Mapping[str, Array], at: slice, name: str) -> Array:
    return values[name][at]


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _dice(one: Array, other: Array) -> Array:
    """Mean over the classes that either has, ``(N,)``; 1 if neither has any."""
    total = (one.sum(axis=2) + other.sum(axis=2)).astype(np.float32)  # (N, F)
    shared = (one & other).sum(axis=2).astype(np.float32)
    there = total > 0
    each = np.where(there, 2 * shared / np.maximum(total, 1), 0)
    number = there.sum(axis=1).astype(np.float32)
    return np.where(number > 0, each.sum(axis=1) / np.maximum(number, 1), np.float32(1))
