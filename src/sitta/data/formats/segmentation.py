"""DICOM SEG out, by highdicom (extra ``dicom-seg``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta._version import __version__
from sitta.data.picture import Array, Image
from sitta.errors import InvalidImage, InvalidSetting, MissingExtra


def write(path: Path, mask: Array, like: Image, labels: Sequence[str]) -> None:
    """A segmentation (*S) that refers to the images it was drawn on."""
    try:
        import highdicom as hd
    except ImportError as error:
        raise MissingExtra("DICOM SEG", "dicom-seg") from error
    if like.kind != "DICOM":
        raise InvalidImage(
            f"A DICOM SEG refers to DICOM images, and {like.path} is {like.kind}.",
            fix="write NIfTI, TIFF or PNG instead",
        )
    if mask.max() > len(labels):
        raise InvalidSetting(
            "Each class of a DICOM SEG has a name.",
            allowed=f"{mask.max()} labels",
            got=f"{len(labels)}",
        )
    planes = mask if mask.ndim == 3 else mask[None]
    try:
        found: Any = hd.seg.Segmentation(
            source_images=list(like.header.datasets),
            pixel_array=_stored_order(planes, like).astype(np.uint8),
            segmentation_type=hd.seg.SegmentationTypeValues.BINARY,
            segment_descriptions=_segments(labels),
            series_instance_uid=hd.UID(),
            series_number=300,
            sop_instance_uid=hd.UID(),
            instance_number=1,
            manufacturer="Sitta",
            manufacturer_model_name="sitta",
            software_versions=__version__,
            device_serial_number="0",
            omit_empty_frames=False,  # the file has the whole geometry of its images
        )
    except (AttributeError, KeyError, TypeError, ValueError):  # whose words may quote the header
        raise InvalidImage(
            f"The header of {like.path} lacks what a DICOM SEG needs to refer to it.",
            fix="write NIfTI, TIFF or PNG instead",
        ) from None
    found.save_as(path)


def _segments(labels: Sequence[str]) -> list[Any]:
    import highdicom as hd
    from pydicom.sr.codedict import codes

    maker = hd.AlgorithmIdentificationSequence(
        name="Sitta", family=codes.DCM.ArtificialIntelligence, version=__version__
    )
    return [
        hd.seg.SegmentDescription(
            segment_number=number,
            segment_label=label,
            segmented_property_category=codes.SCT.AnatomicalStructure,
            segmented_property_type=codes.SCT.Organ,
            algorithm_type=hd.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
            algorithm_identification=maker,
        )
        for number, label in enumerate(labels, start=1)
    ]


def _stored_order(planes: Array, like: Image) -> Array:
    """Slices back in the order of the frames of their file."""
    if like.header.frames is None:
        return planes
    stored = np.empty_like(planes)
    stored[list(like.header.frames)] = planes
    return stored
