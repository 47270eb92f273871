"""Images in and masks out, in the formats of the field, without loss.

>>> image = read("scan.nii.gz")                                     # doctest: +SKIP
>>> write_mask(mask, "masks/scan.nii.gz", like=image)               # doctest: +SKIP
"""

from sitta.data.masks import read_mask, write_map, write_mask
from sitta.data.picture import Geometry, Image
from sitta.data.reading import read
from sitta.data.sniff import stem, suffix

__all__ = ["Geometry", "Image", "read", "read_mask", "stem", "suffix", "write_map", "write_mask"]
