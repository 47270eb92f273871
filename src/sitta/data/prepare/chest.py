"""Chest radiographs with lungs: Montgomery County, Shenzhen, JSRT with the masks of SCR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from sitta.data.images import Geometry, Image
from sitta.data.prepare.base import Masks, Part, Preparer, foreground
from sitta.errors import InvalidImage

SIDE, WHITE = 2048, 4095  # a film of JSRT, without any header
SCR_SCALE = 2  # SCR drew on films reduced to 1024 x 1024
MCU, CHN, JSRT = r"(?P<key>MCUCXR_\d{4}_\d)", r"(?P<key>CHNCXR_\d{4}_\d)", r"(?P<key>JPC[LN]N\d{3})"


def read_film(path: Path) -> Image:
    """One film of JSRT: 2048 x 2048 big-endian words of 12 bits, turned so that bone is bright.

    JSRT's numbers grow with the blackness of the film; the other two sets hold brightness.

    Raises:
        InvalidImage: Another number of bytes, or numbers of more than 12 bits.
    """
    size, expected = path.stat().st_size, 2 * SIDE * SIDE
    if size != expected:
        raise InvalidImage(
            f"{path} is no film of JSRT: it has another number of bytes.",
            allowed=f"{expected:,} ({SIDE} x {SIDE} words)",
            got=f"{size:,}",
            fix="copy or unpack it again",
        )
    blackness = np.fromfile(path, dtype=">u2").reshape(1, SIDE, SIDE)
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


def lungs_of_scr(image: Image, labels: Sequence[Path]) -> Masks:
    """Both lungs, each pixel of SCR's masks repeated for the pixels of the film that it covers."""
    shape = image.geometry.shape
    found = [foreground(path, shape, scale=SCR_SCALE) for path in labels]
    return {"masks": np.logical_or.reduce(found)}


SETS = (
    Preparer(
        task="chest",
        domain="mcu",
        title="the Montgomery County chest X-ray set",
        image=Part("image", "CXR_png/MCUCXR_0001_0.png", rf"CXR_png/{MCU}\.png"),
        labels=(
            tuple(
                Part(
                    f"{side} lung mask",
                    f"ManualMask/{side}Mask/MCUCXR_0001_0.png",
                    rf"{side}Mask/{MCU}\.png",
                )
                for side in ("left", "right")
            ),
        ),
    ),
    Preparer(
        task="chest",
        domain="chn",
        title="the Shenzhen chest X-ray set",
        image=Part("image", "CXR_png/CHNCXR_0001_0.png", rf"{CHN}\.png"),
        labels=((Part("lung mask", "mask/CHNCXR_0001_0_mask.png", rf"{CHN}_mask\.png"),),),
    ),
    Preparer(
        task="chest",
        domain="jsrt",
        title="JSRT with the lung masks of SCR",
        image=Part("image", "JPCLN001.IMG", rf"{JSRT}\.IMG"),
        labels=(
            tuple(
                Part(
                    f"{side} lung mask",
                    f"fold1/masks/{side} lung/JPCLN001.gif",
                    rf"{side}[ _]lung/{JSRT}\.gif",
                )
                for side in ("left", "right")
            ),
        ),
        load=read_film,
        masks=lungs_of_scr,
        store=write_film,
        ending=".png",
    ),
)
