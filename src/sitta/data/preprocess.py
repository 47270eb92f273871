"""From a file's pixels to a model's input, and from the model's output back to the file.

The preprocessing of a model is kept in its checkpoint; training, prediction, benchmark, export and
service all apply it from there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sitta._util.settings import check, option, require_known
from sitta.data.image import Array, Image
from sitta.data.orientation import PLANES, Orientation
from sitta.data.resample import crop, largest_share, resize, resize_mask
from sitta.data.scaling import SCALES, SETTINGS, after, before, completed
from sitta.errors import InvalidImage, InvalidSetting, SittaError

LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue (ITU-R BT.601)
SIDE, PIXELS = 1 << 16, 1 << 28  # of an input: one side, and all in all (a GB of float32)
AMOUNT = 1e12  # of an intensity, either way


@dataclass(frozen=True)
class Preprocess:
    """The preprocessing of images for a model.

    Sizes and spacings are of rows and columns, or of slices, rows and columns. ``fit="resize"``
    ignores the spacing. Colours become grey for one channel, grey is repeated for several.
    Intensities are scaled last; ``SCALES`` lists the scales and which settings each takes.

    Example:
        >>> from sitta.data.images import Geometry, Image
        >>> film = Image(np.random.rand(3, 40, 30), Geometry((40, 30)), "PNG", "film.png")
        >>> inputs = Preprocess(size=(16, 16)).apply(film)
        >>> inputs.values.shape
        (1, 1, 16, 16)
        >>> inputs.inverse.restore(inputs.values).shape
        (1, 40, 30)
    """

    size: Sequence[int] | None = option(
        (256, 256), "sides of the input", low=1, high=SIDE, optional=True, many=True, whole=True
    )
    fit: str = option(
        "resize",
        "resize: squash to size; crop: cut or pad the middle to size; none: keep",
        choices=("resize", "crop", "none"),
    )
    spacing: Sequence[float] | None = option(
        None, "mm a pixel to resample to first", low=1e-5, high=1000, optional=True, many=True
    )
    channels: int = option(1, "channels of the input", low=1, high=1024, whole=True)
    scale: str = option("min-max", "intensities of each input", choices=tuple(SCALES))
    plane: str = option("axial", "slices of a volume", choices=tuple(PLANES))
    dims: int = option(2, "2: images or slices; 3: volumes", low=2, high=3, whole=True)
    percentiles: Sequence[float] | None = option(
        None, "of percentile: what becomes 0 and 1", low=0, high=100, optional=True, many=True
    )
    divisor: float | None = option(
        None, "of divide and standardise: 255 for 8 bits", above=0, high=AMOUNT, optional=True
    )
    mean: Sequence[float] | None = option(
        None, "of standardise, per channel", low=-AMOUNT, high=AMOUNT, optional=True, many=True
    )
    std: Sequence[float] | None = option(
        None, "of standardise, per channel", above=0, high=AMOUNT, optional=True, many=True
    )
    bounds: Sequence[float] | None = option(
        None, "of window: what becomes 0 and 1", low=-AMOUNT, high=AMOUNT, optional=True, many=True
    )

    def __post_init__(self) -> None:
        check(self)
        for name, value in completed(self).items():
            object.__setattr__(self, name, value)
        for name in ("size", "spacing"):
            given = getattr(self, name)
            if given is not None and len(given) != self.dims:
                raise InvalidSetting(
                    f"{name} needs one number a side.", allowed=f"{self.dims}", got=str(given)
                )
        _require_pixels(self.size or (), InvalidSetting)
        keeps = self.fit == "none"
        if keeps != (self.size is None):
            leave = "leave the size out (in Python: size=None), or choose another fit"
            raise InvalidSetting(
                f'fit="{self.fit}" {"takes no" if keeps else "needs a"} size.',
                allowed='fit="resize" or fit="crop" with a size, fit="none" without',
                got=f"size {self.size}",
                fix=leave if keeps else 'give a size, or fit="none"',
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocess:
        """As kept in a checkpoint; refuses unknown names."""
        require_known("Preprocess", values, cls)
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """For a checkpoint, without the settings of other scales."""
        unused = set(SETTINGS) - set(SCALES[self.scale].settings)
        return {name: value for name, value in asdict(self).items() if name not in unused}

    def apply(
        self, image: Image, spacing: Sequence[float] | None = None, rotate: int = 0
    ) -> ModelInput:
        """The inputs of a model: one image, the N slices of a volume, or one volume.

        ``spacing`` is in millimetres (slices, rows, columns), for files that do not have it;
        ``rotate`` turns slices clockwise by so many degrees.
        """
        inverse = self.place(image, spacing, rotate)
        pixels = before(_channels(image, self.channels), self, image)  # (C, *S)
        with np.errstate(over="ignore", invalid="ignore"):  # a model refuses what is not finite
            inputs = resize(inverse.inputs(pixels), inverse.resized)  # (N, C, *resized)
        if self.size is not None and self.fit == "crop":
            inputs = np.stack([crop(x, self.size, fill=None) for x in inputs])
        return ModelInput(after(inputs, self), inverse)

    def place(
        self, image: Image, spacing: Sequence[float] | None = None, rotate: int = 0
    ) -> InverseTransform:
        """Where the inputs of a model lie in a file."""
        orientation = Orientation.of(image.geometry, self.plane).turned(rotate)
        native = orientation.sides[3 - self.dims :]
        resized = native
        if self.fit == "resize":
            resized = tuple(self.size or native)
        elif self.spacing is not None:
            current = _spacing(image, orientation, spacing)[3 - self.dims :]
            ratios = zip(native, current, self.spacing, strict=True)
            resized = tuple(max(1, round(n * mm / wanted)) for n, mm, wanted in ratios)
            _require_pixels(resized, InvalidImage)
        size = tuple(self.size or resized)
        return InverseTransform(image.geometry.shape, orientation, native, resized, size)


@dataclass(frozen=True)
class InverseTransform:
    """The way from a file's pixels to a model's inputs, and back."""

    shape: tuple[int, ...]  # sides S in the file
    orientation: Orientation  # how they become slices, rows and columns
    native: tuple[int, ...]  # sides of an input at the file's own resolution
    resized: tuple[int, ...]  # the same after resampling
    size: tuple[int, ...]  # sides s of the input

    def inputs(self, values: Array) -> Array:
        """``(C, *S)`` as in the file to ``(N, C, *native)``."""
        cut = self.slices(values)
        planes = np.moveaxis(cut, 1, 0) if len(self.native) == 2 else cut[None]
        return np.array(planes, dtype=np.float32, order="C")  # a copy: flips are views

    def slices(self, values: Array) -> Array:
        """``(C, *S)`` as in the file to ``(C, slices, rows, columns)``; a view if possible."""
        return self.orientation.apply(values)

    def masks(self, labels: Array, classes: int = 2) -> Array:
        """Labels ``(*S)`` as in the file to ``(N, *s)``."""
        native = self.inputs(labels[None])[:, 0].astype(np.int64)
        return crop(resize_mask(native, self.resized, classes), self.size)

    def restore(self, maps: Array) -> Array:
        """Maps ``(N, C, *s)`` of the inputs back to ``(C, *S)`` of the file; 0 outside a crop."""
        full = resize(crop(np.asarray(maps, dtype=np.float32), self.resized), self.native)
        cut = np.moveaxis(full, 1, 0) if len(self.native) == 2 else full[0]
        return self.orientation.undo(cut).reshape(len(cut), *self.shape)

    def restore_mask(self, labels: Array, classes: int = 2) -> Array:
        """Labels ``(N, *s)`` of the inputs back to ``(*S)`` of the file; 0 outside a crop."""
        shares = np.stack([labels == c for c in range(1, classes)], axis=1)  # (N, C - 1, *s)
        return largest_share(self.restore(shares)).astype(np.uint8)


@dataclass(frozen=True)
class ModelInput:
    """The inputs of a model, and the way back to the file."""

    values: Array  # (N, C, *s), float32
    inverse: InverseTransform


def _require_pixels(sides: Sequence[int], kind: type[SittaError]) -> None:
    """Refuse inputs that no network takes, before memory is asked for."""
    if math.prod(sides) > PIXELS:
        raise kind(
            "The input of the model would be too large.",
            allowed=f"{PIXELS:,} pixels",
            got=" x ".join(map(str, sides)),
            fix="choose a smaller size, or a larger spacing",
        )


def _spacing(image: Image, turn: Orientation, given: Sequence[float] | None) -> tuple[float, ...]:
    """Millimetres along slices, rows and columns."""
    spacing = turn.spacing(image.geometry) or (given and (1.0, *given)[-3:])
    if spacing:
        return tuple(spacing)
    raise InvalidImage(
        f"{image.path} does not say how large its pixels are, and this model needs to know.",
        fix="give it in mm, such as --pixel-size 0.5x0.5 (in Python, Request(pixel_size=(0.5, "
        "0.5))), or use a format that holds it (NIfTI, DICOM)",
    )


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


# What the models of a task find, for cards that call it foreground.
STRUCTURES = {"chest": "lungs", "retina": "vessels", "spinal": "spinal cord", "phantom": "organ"}
TASKS: dict[str, Preprocess] = {
    "chest": Preprocess(size=(128, 128)),
    "retina": Preprocess(size=(256, 256), channels=3),
    "spinal": Preprocess(size=(144, 144), fit="crop", spacing=(0.5, 0.5)),
    "phantom": Preprocess(size=(128, 128)),
}
