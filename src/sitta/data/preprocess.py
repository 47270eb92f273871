"""From a file's pixels to what a model takes, and from what it says back to the file's geometry.

A model knows its preprocessing: it is kept in the checkpoint, and training, prediction, benchmark,
export and service all apply this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sitta.data.orientation import PLANES, Orientation
from sitta.data.picture import Array, Image
from sitta.data.resample import crop, resize, resize_mask
from sitta.errors import InvalidImage, InvalidSetting
from sitta.settings import Rule, check, require_known, setting

LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue (ITU-R BT.601)
FLAT = 1e-6  # of the file's range: less contrast than that is the rounding of interpolation


@dataclass(frozen=True)
class Preprocess:
    """What is done to an image before a model sees it.

    Args:
        size: Sides of the model's input: rows and columns, or slices, rows and columns.
        fit: How to get there.
        spacing: Millimetres a pixel to resample to first; not with ``fit="resize"``.
        channels: 1 for grey, 3 for colours, or as many as the files have.
        scale: What is done to the intensities of each input, last.
        plane: Which way a volume is cut into slices for a model of images.

    Example:
        >>> from sitta.data.images import Geometry, Image
        >>> film = Image(np.random.rand(3, 40, 30), Geometry((40, 30)), "PNG", "film.png")
        >>> ready = Preprocess(size=(16, 16)).apply(film)
        >>> ready.values.shape
        (1, 1, 16, 16)
        >>> ready.placement.restore(ready.values).shape
        (1, 40, 30)
    """

    size: Sequence[int] | None = setting(
        (256, 256), Rule("sides of the input", low=1, optional=True, many=True, whole=True)
    )
    fit: str = setting(
        "resize",
        Rule(
            "resize: squash to size; crop: cut or pad the middle to size; none: keep",
            choices=("resize", "crop", "none"),
        ),
    )
    spacing: Sequence[float] | None = setting(
        None, Rule("mm a pixel to resample to first", above=0, optional=True, many=True)
    )
    channels: int = setting(1, Rule("channels of the input", low=1, whole=True))
    scale: str = setting(
        "min-max",
        Rule("intensities of each input", choices=("min-max", "z-score", "none")),
    )
    plane: str = setting("axial", Rule("slices of a volume", choices=tuple(PLANES)))
    dims: int = setting(2, Rule("2: images or slices; 3: volumes", low=2, high=3, whole=True))

    def __post_init__(self) -> None:
        check(self)
        for name in ("size", "spacing"):
            given = getattr(self, name)
            if given is not None and len(given) != self.dims:
                raise InvalidSetting(
                    f"{name} needs one number a side.", allowed=f"{self.dims}", got=str(given)
                )
        self._require_size_or_none()

    def _require_size_or_none(self) -> None:
        """A size is what there is to fit to."""
        keeps = self.fit == "none"
        if keeps == (self.size is None):
            return
        leave = "leave the size out (in Python: size=None), or choose another fit"
        raise InvalidSetting(
            f'fit="{self.fit}" {"takes no" if keeps else "needs a"} size.',
            allowed='fit="resize" or fit="crop" with a size, fit="none" without',
            got=f"size {self.size}",
            fix=leave if keeps else 'give a size, or fit="none"',
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocess:
        """As kept in a checkpoint; refuses names that this version does not know."""
        require_known("Preprocess", values, cls)
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    def apply(self, image: Image, spacing: Sequence[float] | None = None) -> Ready:
        """The inputs of a model from one file.

        Args:
            image: As read.
            spacing: Millimetres a pixel (slices, rows, columns), for files that do not say.

        Returns:
            Values ``(N, C, *s)``, float32: one image, the N slices of a volume, or one volume; and
            the way back.
        """
        placement = self.place(image, spacing)
        pixels = _channels(image, self.channels)  # (C, *S)
        pixels = pixels if self.scale == "none" else _tamed(pixels)
        with np.errstate(over="ignore", invalid="ignore"):  # a model refuses what is not finite
            inputs = resize(placement.inputs(pixels), placement.resized)  # (N, C, *resized)
        if self.size is not None and self.fit == "crop":
            inputs = np.stack([crop(x, self.size, fill=None) for x in inputs])
        return Ready(_scaled(inputs, self.scale), placement)

    def place(self, image: Image, spacing: Sequence[float] | None = None) -> Placement:
        """Where the inputs of a model lie in a file."""
        orientation = Orientation.of(image.geometry, self.plane)
        native = tuple(orientation.shape[a] for a in orientation.axes)[3 - self.dims :]
        if self.fit == "resize":
            resized = tuple(self.size or native)
        elif self.spacing is not None:
            known = _spacing(image, orientation, spacing)[3 - self.dims :]
            ratios = zip(native, known, self.spacing, strict=True)
            resized = tuple(max(1, round(n * mm / wanted)) for n, mm, wanted in ratios)
        else:
            resized = native
        size = tuple(self.size or resized)
        column_major = image.geometry.column_major and image.geometry.affine is None
        return Placement(image.geometry.shape, orientation, native, resized, size, column_major)


@dataclass(frozen=True)
class Placement:
    """The way from a file's pixels to a model's inputs, and back.

    Attributes:
        shape: Sides ``S`` in the file.
        orientation: How they become slices, rows and columns.
        native: Sides of an input at the file's own resolution.
        resized: The same after resampling.
        size: Sides of the input ``s``.
        reverse: Whether the file's sides come in reverse, with no affine to say so.
    """

    shape: tuple[int, ...]
    orientation: Orientation
    native: tuple[int, ...]
    resized: tuple[int, ...]
    size: tuple[int, ...]
    reverse: bool = False

    def inputs(self, values: Array) -> Array:
        """``(C, *S)`` as in the file to ``(N, C, *native)``."""
        cut = self.slices(values)  # (C, D, H, W)
        planes = np.moveaxis(cut, 1, 0) if len(self.native) == 2 else cut[None]
        return np.array(planes, dtype=np.float32, order="C")  # a copy: flips are views

    def slices(self, values: Array) -> Array:
        """``(C, *S)`` as in the file to ``(C, slices, rows, columns)``; a view where it can be."""
        if self.reverse:
            values = values.transpose(0, *range(values.ndim - 1, 0, -1))
        return self.orientation.apply(values.reshape(-1, *self.orientation.shape))

    def masks(self, labels: Array, classes: int = 2) -> Array:
        """Labels ``(*S)`` as in the file to ``(N, *s)``."""
        found = self.inputs(labels[None])[:, 0].astype(np.int64)
        return crop(resize_mask(found, self.resized, classes), self.size)

    def restore(self, maps: Array) -> Array:
        """Maps ``(N, C, *s)`` of the inputs back to ``(C, *S)`` of the file; 0 outside a crop."""
        full = resize(crop(np.asarray(maps, dtype=np.float32), self.resized), self.native)
        cut = np.moveaxis(full, 1, 0) if len(self.native) == 2 else full[0]
        values = self.orientation.undo(cut.reshape(len(cut), *self._turned))
        flat = values.reshape(len(cut), *(self.shape[::-1] if self.reverse else self.shape))
        return flat.transpose(0, *range(flat.ndim - 1, 0, -1)) if self.reverse else flat

    def restore_mask(self, labels: Array, classes: int = 2) -> Array:
        """Labels ``(N, *s)`` of the inputs back to ``(*S)`` of the file; 0 outside a crop."""
        shares = np.stack([labels == c for c in range(1, classes)], axis=1)  # (N, C - 1, *s)
        found = self.restore(shares)
        rest = 1 - found.sum(axis=0, keepdims=True)
        return np.asarray(np.concatenate([rest, found]).argmax(axis=0).astype(np.uint8))

    @property
    def _turned(self) -> tuple[int, ...]:
        return tuple(self.orientation.shape[a] for a in self.orientation.axes)


@dataclass(frozen=True)
class Ready:
    """The inputs of a model, ``(N, C, *s)``, and the way back to the file."""

    values: Array
    placement: Placement


def _spacing(image: Image, turn: Orientation, given: Sequence[float] | None) -> tuple[float, ...]:
    """Millimetres along slices, rows and columns."""
    if given is not None:
        return tuple((1.0, *given)[-3:])
    known = image.geometry.raster().spacing if image.geometry.affine is None else None
    if known is not None:
        return tuple((1.0, *known)[-3:])
    if image.geometry.affine is None:
        raise InvalidImage(
            f"{image.path} does not say how large its pixels are, and this model needs to know.",
            fix="give the spacing in mm, or use a format that holds it (NIfTI, DICOM)",
        )
    sides = np.linalg.norm(image.geometry.affine[:3, :3], axis=0)
    return tuple(float(sides[a]) for a in turn.axes)


def _channels(image: Image, wanted: int) -> Array:
    pixels = image.pixels.astype(np.float64)
    if len(pixels) == wanted:
        return pixels
    if wanted == 1 and len(pixels) == 3:
        return np.tensordot(LUMA, pixels, axes=1)[None]
    if len(pixels) == 1:
        return np.repeat(pixels, wanted, axis=0)
    raise InvalidImage(
        f"{image.path} has {len(pixels)} channels.",
        allowed=f"{wanted}, or 1" + (", or 3" if wanted == 1 else ""),
    )


def _tamed(pixels: Array) -> Array:
    """The whole file in [0, 1], so that neither a large offset nor a large scale costs digits.

    In place, and with few looks at the pixels: of a large film, this takes longest of all.
    """
    low, high = float(pixels.min()), float(pixels.max())
    most = max(abs(low), abs(high), 1e-300)
    pixels /= most  # first: their range may overflow
    pixels -= low / most
    pixels /= max(high / most - low / most, 1e-300)
    return pixels


def _scaled(inputs: Array, scale: str) -> Array:
    """Each input (C, *s) on its own; one without contrast becomes 0."""
    if scale == "none":
        return inputs
    values = inputs.astype(np.float64)
    sides = tuple(range(1, inputs.ndim))
    if scale == "min-max":
        low = values.min(axis=sides, keepdims=True)
        width = values.max(axis=sides, keepdims=True) - low
    else:
        low = values.mean(axis=sides, keepdims=True)
        width = values.std(axis=sides, keepdims=True)
    flat = (values - low) / np.maximum(width, FLAT)
    return np.where(width > FLAT, flat, 0.0).astype(np.float32)


TASKS: dict[str, Preprocess] = {
    "chest": Preprocess(size=(128, 128)),
    "retina": Preprocess(size=(256, 256), channels=3),
    "spinal": Preprocess(size=(144, 144), fit="crop", spacing=(0.5, 0.5)),
    "phantom": Preprocess(size=(128, 128)),
}
