"""Images in and masks out, in the formats of the field, without loss.

>>> image = read("scan.nii.gz")                                     # doctest: +SKIP
>>> write_mask(mask, "masks/scan.nii.gz", like=image)               # doctest: +SKIP
"""

from sitta.data.detect import stem, suffix
from sitta.data.image import Geometry, Image
from sitta.data.masks import read_mask, shareable, write_map, write_mask
from sitta.data.reading import read

__all__ = [
    "Geometry",
    "Image",
    "read",
    "read_mask",
    "shareable",
    "stem",
    "suffix",
    "write_map",
    "write_mask",
]
