"""What a method says about N inputs, in NumPy: all that masks, summary and report are made of.

The same record whether torch or a graph computed it. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from sitta.data.picture import Array
from sitta.notes import Limits, codes

BY_IMAGE = ("images", "probability", "agreement", "uncertainty", "disagreement", "distance")
BY_MEMBER = ("members", "entropies", "weights", "usable")  # and then by image


@dataclass(frozen=True, eq=False)
class Answer:
    """N independent adaptations by K members, each array with its N axis.

    Attributes:
        images: ``(N, C, *S)``, as the model took them.
        lambdas: ``(K,)``.
        probability: ``(N, C, *S)``, integrated.
        members: ``(K, N, C, *S)`` probabilities; None if they were not kept.
        entropies: ``(K, N)``, what the strategy weighed.
        weights: ``(K, N)``.
        usable: ``(K, N)``, False where a member was not finite.
        agreement: ``(N,)``.
        uncertainty: ``(N, *S)``.
        disagreement: ``(N, *S)``.
        distance: ``(N,)``; NaN if it was not measured.
        activation: ``sigmoid`` or ``softmax``.
        limits: From where on a person should look.
        codes: Notes on how each of the N went.
        updated: Whether parameters were changed, so that lambda 1 is not the source.

    Example:
        >>> maps = np.array([0.9, 0.2, 0.6, 0.1], dtype=np.float32).reshape(1, 1, 2, 2)
        >>> one, many, flat = np.ones(1), np.ones((1, 1)), np.zeros((1, 2, 2))
        >>> a = Answer(maps, one, maps, maps[None], many, many, many > 0, one, flat, flat, one,
        ...            "sigmoid", Limits(), ((),))
        >>> a.mask.tolist(), a.area.tolist(), a.change.tolist(), a.notes
        ([[[1, 0], [1, 0]]], [0.5], [0.0], ((),))
    """

    images: Array
    lambdas: Array
    probability: Array
    members: Array | None
    entropies: Array
    weights: Array
    usable: Array
    agreement: Array
    uncertainty: Array
    disagreement: Array
    distance: Array
    activation: str
    limits: Limits
    codes: tuple[tuple[str, ...], ...]
    updated: bool = False

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Answer:
        """What is said about one of them, still with an N axis."""
        n = range(len(self))[index]
        cut = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in (*BY_IMAGE, "codes"):
            cut[name] = cut[name][n : n + 1]
        for name in BY_MEMBER:
            cut[name] = None if cut[name] is None else cut[name][:, n : n + 1]
        return Answer(**cut)

    def __iter__(self) -> Iterator[Answer]:
        return (self[n] for n in range(len(self)))

    @cached_property
    def mask(self) -> Array:
        """``(N, *S)`` classes; ``(N, C, *S)`` of 0 and 1 if there are several labels."""
        return labels(self.probability, self.activation)

    @cached_property
    def member_masks(self) -> Array | None:
        """``(K, N, *S)`` what each member alone would answer."""
        if self.members is None:
            return None
        flat = labels(_flat(self.members), self.activation)
        return flat.reshape(*self.members.shape[:2], *flat.shape[1:])

    @cached_property
    def source_member(self) -> int | None:
        """Which member is the unadapted model: lambda 1, nothing updated, all of it finite."""
        found = np.flatnonzero((self.lambdas == 1) & self.usable.all(axis=1))
        return None if self.updated or not len(found) else int(found[0])

    @cached_property
    def source_mask(self) -> Array | None:
        """``(N, *S)`` the mask of the unadapted model, if it is among the members and usable."""
        at, masks = self.source_member, self.member_masks
        return None if at is None or masks is None else masks[at]

    @cached_property
    def areas(self) -> Array:
        """``(K, N)`` share of the pixels that each member takes for foreground of any class."""
        if self.members is None:
            return np.full(self.weights.shape, np.nan, dtype=np.float32)
        found = _share(foreground(_flat(self.members), self.activation))
        return found.reshape(self.members.shape[:2])

    @cached_property
    def area(self) -> Array:
        """``(N,)`` share of foreground pixels of the integrated mask."""
        return _share(foreground(self.probability, self.activation))

    @cached_property
    def change(self) -> Array | None:
        """``(N,)`` how far source and final mask differ: 1 - Dice; None without a source member."""
        at = self.source_member
        if at is None or self.members is None:
            return None
        before = foreground(self.members[at], self.activation)
        return np.asarray(1 - _dice(before, foreground(self.probability, self.activation)))

    @cached_property
    def notes(self) -> tuple[tuple[str, ...], ...]:
        """Codes of what a person should know, for each image; ``sitta.notes.NOTES`` explains."""
        values = self.images.reshape(len(self), -1)
        found = codes(
            self.areas,
            self.area,
            self.entropies,
            self.usable,
            self.agreement,
            self.distance,
            values.max(axis=1) == values.min(axis=1),
            self.limits,
        )
        return tuple((*seen, *went) for seen, went in zip(found, self.codes, strict=True))


def labels(probability: Array, activation: str) -> Array:
    """The mask: ``(B, *S)`` classes, or ``(B, C, *S)`` of 0 and 1 if there are several labels.

    A pixel is foreground above one half; a tie goes to the background, or to the lower class.
    """
    if activation == "softmax":
        return np.asarray(probability.argmax(axis=1))
    mask = (probability > 0.5).astype(np.int64)
    return mask[:, 0] if mask.shape[1] == 1 else mask


def foreground(probability: Array, activation: str) -> Array:
    """Where the foreground classes are, flat: ``(B, C, *S)`` becomes ``(B, F, P)``."""
    if activation == "softmax":
        hard = probability.argmax(axis=1)
        maps = np.stack([hard == c for c in range(1, probability.shape[1])], axis=1)
    else:
        maps = probability > 0.5
    return maps.reshape(*maps.shape[:2], -1)


def _flat(members: Array) -> Array:
    return members.reshape(-1, *members.shape[2:])


def _share(maps: Array) -> Array:
    """Of pixels in any class, ``(B,)``; in single precision, as torch has it."""
    found = maps.any(axis=1).sum(axis=1).astype(np.float32)
    return np.asarray(found / np.float32(maps.shape[2]))


def _dice(one: Array, other: Array) -> Array:
    """Mean over the classes that either has, ``(B,)``; 1 if neither has any."""
    total = (one.sum(axis=2) + other.sum(axis=2)).astype(np.float32)  # (B, F)
    shared = (one & other).sum(axis=2).astype(np.float32)
    there = total > 0
    each = np.where(there, 2 * shared / np.maximum(total, 1), 0)
    number = there.sum(axis=1).astype(np.float32)
    return np.where(number > 0, each.sum(axis=1) / np.maximum(number, 1), np.float32(1))
