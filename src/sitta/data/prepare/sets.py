"""The public data sets: chest radiographs, photographs of the retina, spinal cords."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from sitta.data.image import Array
from sitta.data.images import Geometry, Image, read, read_mask
from sitta.data.prepare.base import Masks, Part, Preparer, check_size, union
from sitta.errors import InvalidImage

PIXELS, WHITE = 2048, 4095  # along a side of a film of JSRT, which has no header
SCR_SCALE = 2  # SCR drew on films reduced to 1024 x 1024
GREY, CLASSES = 1, 3  # a rater's numbers: background, grey matter, white matter
MCU, CHN, JSRT = r"(?P<key>MCUCXR_\d{4}_\d)", r"(?P<key>CHNCXR_\d{4}_\d)", r"(?P<key>JPC[LN]N\d{3})"
CHASE, HRF = r"(?P<key>Image_\d{2}[LR])", r"(?P<key>\d{2}_(?:dr|g|h))"
DRIVE = r"(?P<name>(?P<key>\d{2})_(?:training|test))"


def read_film(path: Path) -> Image:
    """One film of JSRT: 2048 x 2048 big-endian words of 12 bits, inverted so that bone is bright.

    JSRT's numbers grow with the blackness of the film; the other two sets hold brightness.
    """
    size, expected = path.stat().st_size, 2 * PIXELS * PIXELS
    if size != expected:
        raise InvalidImage(
            f"{path} is no film of JSRT: it has another number of bytes.",
            allowed=f"{expected:,} ({PIXELS} x {PIXELS} words)",
            got=f"{size:,}",
            fix="copy or unpack it again",
        )
    blackness = np.fromfile(path, dtype=">u2").reshape(1, PIXELS, PIXELS)
    if blackness.max() > WHITE:
        raise InvalidImage(
            f"{path} is no film of JSRT: its numbers have more than 12 bits.",
            allowed=f"0 to {WHITE}, high byte first",
            got=f"up to {blackness.max()}",
            fix="take the owners' file, whose bytes were never swapped",
        )
    pixels = (WHITE - blackness).astype(np.uint16)
    return Image(pixels, Geometry(pixels.shape[1:]), "IMG", path)


def write_film(image: Image, path: Path) -> None:
    """A grey PNG of 16 bits; the numbers stay those of 12 bits."""
    Pillow.fromarray(image.pixels[0]).save(path, format="PNG")


def majority(votes: Array) -> Array:
    """Where more than half of the raters ``(R, *S)`` agree; a tie is background."""
    return np.asarray(2 * votes.sum(axis=0) > len(votes))


def voted(image: Image, labels: Sequence[Path]) -> Masks:
    """Grey matter, and the cord, which is grey and white matter; each by its own vote."""
    raters = np.stack([_rater(path, image) for path in labels])
    return {"masks": majority(raters == GREY), "masks_cord": majority(raters > 0)}


def _rater(path: Path, image: Image) -> Array:
    """One rater's mask in the order of the image's voxels; moved only if both have a geometry."""
    placed = _is_placed(image) and _is_placed(read(path))
    drawn = read_mask(path, like=image if placed else None, classes=CLASSES)
    check_size(path, drawn.shape, image.geometry.shape)
    return drawn


def _is_placed(image: Image) -> bool:
    return bool(image.header["sform_code"] or image.header["qform_code"])


def _lungs(example: str, pattern: str) -> tuple[tuple[Part, ...], ...]:
    """Masks of the left and the right lung, whose names have the side in place of SIDE."""
    return (
        tuple(
            Part(f"{s} lung mask", example.replace("SIDE", s), pattern.replace("SIDE", s))
            for s in ("left", "right")
        ),
    )


def _site(number: int) -> Preparer:
    key = rf"(?P<key>site{number}-sc\d{{2}})"
    return Preparer(
        f"site {number} of the Spinal Cord Grey Matter Segmentation Challenge",
        image=Part("image", f"site{number}-sc01-image.nii.gz", rf"{key}-image\.nii(?:\.gz)?"),
        labels=(
            tuple(
                Part(
                    f"mask of rater {rater}",
                    f"site{number}-sc01-mask-r{rater}.nii.gz",
                    rf"{key}-mask-r{rater}\.nii(?:\.gz)?",
                )
                for rater in range(1, 5)
            ),
        ),
        fewest=1,
        masks=voted,
    )


PREPARERS: dict[str, Preparer] = {  # by task and domain
    "chest/mcu": Preparer(
        "the Montgomery County chest X-ray set",
        image=Part("image", "CXR_png/MCUCXR_0001_0.png", rf"CXR_png/{MCU}\.png"),
        labels=_lungs("ManualMask/SIDEMask/MCUCXR_0001_0.png", rf"SIDEMask/{MCU}\.png"),
    ),
    "chest/chn": Preparer(
        "the Shenzhen chest X-ray set",
        image=Part("image", "CXR_png/CHNCXR_0001_0.png", rf"{CHN}\.png"),
        labels=((Part("lung mask", "mask/CHNCXR_0001_0_mask.png", rf"{CHN}_mask\.png"),),),
    ),
    "chest/jsrt": Preparer(
        "JSRT with the lung masks of SCR",
        image=Part("image", "JPCLN001.IMG", rf"{JSRT}\.IMG"),
        labels=_lungs("fold1/masks/SIDE lung/JPCLN001.gif", rf"SIDE[ _]lung/{JSRT}\.gif"),
        load=read_film,
        masks=partial(union, scale=SCR_SCALE),
        store=write_film,
        ending=".png",
    ),
    "retina/chase": Preparer(
        "CHASE_DB1",
        image=Part("image", "Image_01L.jpg", rf"{CHASE}\.jpe?g"),
        labels=((Part("first observer's mask", "Image_01L_1stHO.png", rf"{CHASE}_1stHO\.png"),),),
    ),
    "retina/hrf": Preparer(
        "HRF",
        image=Part("image", "images/01_dr.JPG", rf"{HRF}\.jpe?g"),
        # The folder is asked for: the field of view is a .tif of a similar name.
        labels=(
            (
                Part(
                    "vessel mask",
                    "manual1/01_dr.tif",
                    rf"(?:manual1|[a-z_]*manualsegm)/{HRF}\.tiff?",
                ),
            ),
        ),
    ),
    "retina/rite": Preparer(
        "RITE or DRIVE",
        image=Part("image", "training/images/21_training.tif", rf"images/{DRIVE}\.(?:tiff?|png)"),
        labels=(
            (Part("vessel mask of RITE", "vessel/21_training.png", rf"vessel/{DRIVE}\.png"),),
            (Part("artery and vein mask of RITE", "av/21_training.png", rf"av/{DRIVE}\.png"),),
            (
                Part(
                    "first observer's mask of DRIVE",
                    "1st_manual/21_manual1.gif",
                    r"1st_manual/(?P<key>\d{2})_manual1\.gif",
                ),
            ),
        ),
    ),
    **{f"spinal/site{number}": _site(number) for number in range(1, 5)},
}
