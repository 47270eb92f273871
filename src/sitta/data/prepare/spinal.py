"""Spinal cords with grey matter: the four sites of the segmentation challenge of 2016 (SCGM)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sitta.data.images import Image, read, read_mask
from sitta.data.picture import Array
from sitta.data.prepare.base import Masks, Part, Preparer, check_size

SITES, RATERS = range(1, 5), range(1, 5)
GREY, CLASSES = 1, 3  # a rater's numbers: background, grey matter, white matter


def majority(votes: Array) -> Array:
    """Where more than half of the raters ``(R, *S)`` agree; a tie is background.

    Example:
        >>> majority(np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool))
        array([ True, False, False])
    """
    return np.asarray(2 * votes.sum(axis=0) > len(votes))


def voted(image: Image, labels: Sequence[Path]) -> Masks:
    """Grey matter, and the cord, which is grey and white matter; each by its own vote."""
    raters = np.stack([_rater(path, image) for path in labels])
    return {"masks": majority(raters == GREY), "masks_cord": majority(raters > 0)}


def _rater(path: Path, image: Image) -> Array:
    """What one rater drew, in the order of the image's voxels.

    A header that does not say where its voxels lie is no reason to move any.
    """
    known = _is_placed(image) and _is_placed(read(path))
    drawn = read_mask(path, like=image if known else None, classes=CLASSES)
    check_size(path, drawn.shape, image.geometry.shape)
    return drawn


def _is_placed(image: Image) -> bool:
    return bool(image.header["sform_code"] or image.header["qform_code"])


def _site(number: int) -> Preparer:
    key = rf"(?P<key>site{number}-sc\d{{2}})"
    return Preparer(
        task="spinal",
        domain=f"site{number}",
        title=f"site {number} of the Spinal Cord Grey Matter Segmentation Challenge",
        image=Part("image", f"site{number}-sc01-image.nii.gz", rf"{key}-image\.nii(?:\.gz)?"),
        labels=(
            tuple(
                Part(
                    f"mask of rater {rater}",
                    f"site{number}-sc01-mask-r{rater}.nii.gz",
                    rf"{key}-mask-r{rater}\.nii(?:\.gz)?",
                )
                for rater in RATERS
            ),
        ),
        fewest=1,
        masks=voted,
    )


SETS = tuple(_site(number) for number in SITES)
