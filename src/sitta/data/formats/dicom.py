"""DICOM: one file, and DICOM SEG for masks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sitta.data.formats.base import Format
from sitta.data.image import Array, Image


class Dicom(Format):
    """Read by pydicom; masks are written by highdicom (extra ``dicom-seg``)."""

    name = "DICOM"
    suffixes = (".dcm", ".dicom", ".ima")
    decoders = ("sitta.data.formats.dicom_file", "sitta.data.dicom_series")
    masks = volumes = True
    mask_suffix = ".nii.gz"  # DICOM SEG needs an extra

    def matches(self, head: bytes) -> bool:
        """By the four letters after the preamble."""
        return head[128:132] == b"DICM"

    def may_match(self, head: bytes) -> bool:
        """Old files have no preamble and start with a low group number."""
        return len(head) > 8 and head[0] in (2, 8) and head[1] == 0

    def read(self, path: Path, limit: int) -> Image:
        """Read one file; ``sitta.data.dicom_series`` reads a folder of them."""
        from sitta.data.formats import dicom_file

        return dicom_file.read(path, limit)

    def write(self, path: Path, values: Array, like: Image, labels: Sequence[str]) -> None:
        """Write a DICOM SEG."""
        from sitta.data.formats import dicom_seg

        dicom_seg.write(path, values, like, labels)
