"""DICOM SEG: its frames as one mask, and masks out by highdicom (extra ``dicom-seg``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta._version import __version__
from sitta.data.formats.dicom_geometry import Place, frame_groups
from sitta.data.image import Array, Image
from sitta.errors import InvalidImage, InvalidSetting, MissingExtra


def merged(
    path: Path, dataset: Any, values: Array, places: Sequence[Place]
) -> tuple[Array, list[Place]]:
    """One frame a place, (1, D, H, W), with the numbers of the segments."""
    groups = frame_groups(path, dataset, "SegmentIdentificationSequence", len(places))
    numbers = [int(group.get("ReferencedSegmentNumber") or 0) for group in groups]
    keys = [str((place.position.round(3) + 0.0).tolist()) for place in places]  # never -0.0
    slices = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    labels = np.zeros((len(slices), *values.shape[2:]), np.uint16)
    for frame, (key, number) in enumerate(zip(keys, numbers, strict=True)):
        here, there = labels[slices[key]], values[0, frame] != 0
        if (here[there] != 0).any():
            raise InvalidImage(f"{path} is no mask of classes: its segments overlap.")
        here[there] = number
    return labels[None], [places[keys.index(key)] for key in slices]


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
    if like.header.frames is not None:  # back in the order of the frames of their file
        planes = planes[np.argsort(like.header.frames)]
    try:
        segmentation: Any = hd.seg.Segmentation(
            source_images=list(like.header.datasets),
            pixel_array=planes.astype(np.uint8),
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
    except (AttributeError, KeyError, TypeError, ValueError):  # its message may quote the header
        raise InvalidImage(
            f"The header of {like.path} lacks what a DICOM SEG needs to refer to it.",
            fix="write NIfTI, TIFF or PNG instead",
        ) from None
    segmentation.save_as(path)


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
