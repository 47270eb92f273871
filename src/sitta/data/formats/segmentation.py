"""DICOM SEG out, by highdicom (extra ``dicom-seg``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sitta._version import __version__
from sitta.data.picture import Array, Image
from sitta.errors import InvalidImage, MissingExtra


def write(path: Path, mask: Array, like: Image, labels: list[str]) -> None:
    """A segmentation (*S) that refers to the images it was drawn on."""
    try:
        import highdicom as hd
        from pydicom.sr.codedict import codes
    except ImportError as error:
        raise MissingExtra("DICOM SEG", "dicom-seg") from error
    if like.kind != "DICOM":
        raise InvalidImage(
            f"{path}: a DICOM SEG refers to DICOM images, and {like.path} is {like.kind}.",
            fix="write NIfTI, TIFF or PNG instead",
        )
    maker = hd.AlgorithmIdentificationSequence(
        name="Sitta", family=codes.DCM.ArtificialIntelligence, version=__version__
    )
    segments = [
        hd.seg.SegmentDescription(
            segment_number=number,
            segment_label=label,
            segmented_property_category=codes.SCT.Organ,
            segmented_property_type=codes.SCT.Organ,
            algorithm_type=hd.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
            algorithm_identification=maker,
        )
        for number, label in enumerate(labels, start=1)
    ]
    planes = mask if mask.ndim == 3 else mask[None]
    found: Any = hd.seg.Segmentation(
        source_images=list(like.header.datasets),
        pixel_array=_stored_order(planes, like).astype(np.uint8),
        segmentation_type=hd.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=segments,
        series_instance_uid=hd.UID(),
        series_number=300,
        sop_instance_uid=hd.UID(),
        instance_number=1,
        manufacturer="Sitta",
        manufacturer_model_name="sitta",
        software_versions=__version__,
        device_serial_number="0",
        omit_empty_frames=bool(planes.any()),
    )
    found.save_as(path)


def _stored_order(planes: Array, like: Image) -> Array:
    """Slices back in the order of the frames of their file."""
    if like.header.frames is None:
        return planes
    stored = np.empty_like(planes)
    stored[list(like.header.frames)] = planes
    return stored
