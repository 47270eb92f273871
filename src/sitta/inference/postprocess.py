"""Masks without what their model's profile rules out: small parts and holes. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sitta.data.image import Array
from sitta.models.profile import Profile

Step = Callable[[Array], Array]  # of one class: booleans (*S) to booleans


def cleaned(profile: Profile, mask: Array, *, labels: bool = False) -> Array:
    """A mask in the geometry of its file, after the post-processing of a profile.

    The mask is ``(*S)`` of class numbers, or ``(C, *S)`` if there are several labels. A hole is
    background that a class encloses; parts and holes are those of the whole file, in 3D for a
    volume.
    """
    steps: tuple[tuple[bool | tuple[str, ...], Step], ...] = (
        (profile.largest_component, largest_component),
        (profile.fill_holes, fill_holes),
    )
    for chosen, step in steps:
        if chosen:
            mask = _each(mask, _numbers(profile, chosen), step, labels)
    return mask


def _numbers(profile: Profile, chosen: bool | tuple[str, ...]) -> list[int] | None:
    """Numbers of the classes chosen, from 1; None is all of them."""
    if isinstance(chosen, bool):
        return None
    return [number for number, name in enumerate(profile.names, start=1) if name in chosen]


def _each(mask: Array, numbers: list[int] | None, step: Step, labels: bool) -> Array:
    mask = mask.copy()
    if labels:
        for number in range(len(mask)) if numbers is None else (n - 1 for n in numbers):
            mask[number] = step(mask[number] > 0)
        return mask
    every = [int(n) for n in np.unique(mask) if n]
    for number in every if numbers is None else numbers:
        before = mask == number
        after = step(before)
        mask[before & ~after] = 0
        mask[after & (mask == 0)] = number  # never over another class
    return mask


def largest_component(mask: Array) -> Array:
    """The largest part; of equals, the first. Pixels that touch at a corner are of one part."""
    from scipy.ndimage import generate_binary_structure, label

    parts, count = label(mask, generate_binary_structure(mask.ndim, mask.ndim))
    if count < 2:
        return mask
    sizes = np.bincount(parts.ravel())
    sizes[0] = 0
    return np.asarray(parts == sizes.argmax())


def fill_holes(mask: Array) -> Array:
    """The mask with the background that it encloses; sides of one pixel enclose nothing."""
    from scipy.ndimage import binary_fill_holes

    flat = mask.squeeze()
    if flat.ndim < 2:
        return mask
    return np.asarray(binary_fill_holes(flat)).reshape(mask.shape)
