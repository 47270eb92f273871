"""Photographs of the retina with vessels: CHASE_DB1, HRF, and DRIVE with the labels of RITE."""

from __future__ import annotations

from sitta.data.prepare.base import Part, Preparer

CHASE, HRF = r"(?P<key>Image_\d{2}[LR])", r"(?P<key>\d{2}_(?:dr|g|h))"
DRIVE = r"(?P<name>(?P<key>\d{2})_(?:training|test))"

SETS = (
    Preparer(
        task="retina",
        domain="chase",
        title="CHASE_DB1",
        image=Part("image", "Image_01L.jpg", rf"{CHASE}\.jpe?g"),
        labels=((Part("first observer's mask", "Image_01L_1stHO.png", rf"{CHASE}_1stHO\.png"),),),
    ),
    Preparer(
        task="retina",
        domain="hrf",
        title="HRF",
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
    Preparer(
        task="retina",
        domain="rite",
        title="RITE or DRIVE",
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
)
