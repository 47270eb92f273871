"""One upload in a worker: decoded under the limits, adapted, and left as arrays for drawing."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data import phantom
from sitta.data.picture import Array, Image, TooLarge
from sitta.data.preprocess import Preprocess
from sitta.data.reading import READERS, read
from sitta.data.sniff import sniff
from sitta.errors import InvalidImage, InvalidSetting, SittaError
from sitta.runs.inputs import Item
from sitta.runs.one import SERIOUS, Done, predict_file
from sitta.serve.catalogue import Catalogue
from sitta.serve.limits import Limits
from sitta.serve.refusal import Refusal

SAVE = frozenset({"probability", "uncertainty", "disagreement", "labels"})
MOST_EXTENSIONS = 2**20  # bytes of NIfTI extensions: none of them is needed here
SAMPLE = 2**20  # pixels from which the window is chosen
RASTER = ("PNG", "JPEG", "GIF", "BMP")


def work(job: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Do one job, and leave all that can be asked for later in ``job["out"]``.

    Args:
        job: ``files`` and ``out`` (paths of this service's own making), ``model``, ``method``,
            ``settings``.
        catalogue: The models.

    Returns:
        The answer in plain types, without what only the server knows.

    Raises:
        Refusal: Whatever a client can mend.
    """
    try:
        adapt = catalogue.adapter(job["model"], job["method"], job["settings"])
    except SittaError as error:
        raise Refusal.of(422, "bad-setting", error) from error
    loaded = catalogue.loaded[job["model"]]
    path, limits = _checked_kind([Path(f) for f in job["files"]]), catalogue.limits
    reader = _reader(loaded.preprocess, limits)
    try:
        done = predict_file(Item(path, "", ""), adapt, loaded.preprocess, SAVE, reader=reader)
    except TooLarge as error:
        raise Refusal.of(413, "too-large", _mended(error)) from error
    except InvalidSetting as error:
        raise Refusal.of(422, "bad-setting", error) from error
    except SittaError as error:
        raise Refusal.of(422, "bad-image", error) from error
    return left(done, Path(job["out"]), job, loaded.classes, loaded.preprocess.dims)


def warm(catalogue: Catalogue) -> None:
    """Take the whole way once, so that no client waits for what the first image sets up."""
    for reader in set(READERS.values()):
        import_module(f"sitta.data.formats.{reader}")
    catalogue.warm()
    name = next(iter(catalogue.loaded))
    usual = {"model": name, "method": catalogue.usual_method(name), "settings": {}}
    with tempfile.TemporaryDirectory(prefix="sitta-warm-") as folder:
        phantom.write(folder, "alder", 1, (64, 64))
        files = [str(path) for path in Path(folder).glob("phantom/alder/images/*")]
        with suppress(Refusal):  # a model that needs more than a PNG tells
            work({**usual, "files": files, "out": folder}, catalogue)


def _checked_kind(files: list[Path]) -> Path:
    """The file, or the folder of a series; refuses what is no image by its first bytes."""
    try:
        kinds = {sniff(path) for path in files}
    except InvalidImage as error:
        raise Refusal.of(415, "not-an-image", error) from error
    if len(files) == 1:
        return files[0]
    if kinds != {"DICOM"}:
        raise Refusal(
            422,
            "several-files",
            "Several files in one request are the slices of one DICOM series.",
            allowed="one image, or DICOM files of one series",
            fix="send each image by itself",
        )
    return files[0].parent


def _mended(error: TooLarge) -> TooLarge:
    return TooLarge(
        error.what,
        allowed=error.allowed,
        fix="send a smaller one; who runs the service can raise the limit",
    )


def _reader(preprocess: Preprocess, limits: Limits) -> Callable[[Path], Image]:
    """Reads no more than the limits allow, and forgets what the header says of the patient."""

    def found(path: Path) -> Image:
        _check_extensions(path)
        image = read(path, limits.pixels)
        orientation = preprocess.place(image).orientation
        slices = orientation.shape[orientation.axes[0]]
        if slices > limits.slices:
            raise TooLarge(f"{path} has {slices} slices.", allowed=f"at most {limits.slices}")
        return Image(image.pixels, image.geometry, image.kind, image.path, _scrubbed(image))

    return found


def _check_extensions(path: Path) -> None:
    """Refuse a NIfTI file with a heap of extensions, which would be parsed one by one."""
    if path.is_dir() or sniff(path) != "NIfTI":
        return
    import gzip

    with open(path, "rb") as plain:
        zipped = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else open(path, "rb") as file:
        head = file.read(540)
    order = "little" if head[0] in (0x5C, 0x1C) else "big"  # 348 or 540, the length of the header
    if head[4:8] == b"n+2\0":
        before = float(int.from_bytes(head[168:176], order, signed=True))  # type: ignore[arg-type]
    else:
        before = float(np.frombuffer(head[108:112], "<f4" if order == "little" else ">f4")[0])
    if not 0 <= before <= MOST_EXTENSIONS:
        raise InvalidImage(
            f"{path} puts {before:,.0f} bytes between its header and its pixels.",
            allowed=f"at most {MOST_EXTENSIONS:,} bytes of extensions",
            fix="save it without extensions",
        )


def _scrubbed(image: Image) -> Any:
    """What writing a mask needs of a header, and nothing that people may have written there."""
    if image.kind in RASTER:
        return image.header
    if image.kind != "NIfTI":
        return None
    header = image.header.copy()
    header.extensions.clear()
    for name in ("descrip", "aux_file", "intent_name", "db_name", "data_type"):
        if name in header:
            header[name] = b""
    return header


def left(
    done: Done, out: Path, job: Mapping[str, Any], classes: tuple[str, ...], dims: int
) -> dict[str, Any]:
    """Write arrays and layout to a folder, and return the answer."""
    channels = 3 if len(done.image.pixels) == 3 else 1
    image = done.image.pixels[:channels]
    several = done.mask.ndim == done.image.pixels.ndim  # labels that may overlap
    mask = _one_class(done.mask[None])[0] if several else done.mask
    arrays = {"image": image, "mask": mask}
    arrays |= {name: done.maps[name] for name in ("uncertainty", "disagreement")}
    arrays["probability"] = np.stack([v for k, v in done.maps.items() if k[:11] == "probability"])
    if several:
        arrays["labels"] = done.mask
    if "labels" in done.maps:
        arrays["members"] = _one_class(done.maps["labels"]) if several else done.maps["labels"]
    for name, values in arrays.items():
        np.save(out / f"{name}.npy", values)
    (out / "layout.json").write_text(json.dumps(_layout(done)))
    if done.image.kind == "NIfTI":
        (out / "header.bin").write_bytes(done.image.header.binaryblock)
    answer: dict[str, Any] = plain(_answer(done, job, classes, dims, arrays))
    return answer


def _one_class(masks: Array) -> Array:
    """``(K, C, *S)`` of labels that may overlap to one number a pixel: the last that is set."""
    numbers = np.arange(1, masks.shape[1] + 1, dtype=np.uint8)
    return np.asarray((masks * numbers.reshape(-1, *[1] * (masks.ndim - 2))).max(axis=1))


def _layout(done: Done) -> dict[str, Any]:
    """How the arrays lie: all that is needed to show them, and to write them back."""
    geometry, orientation = done.image.geometry, done.placement.orientation
    return {
        "kind": done.image.kind,
        "shape": list(geometry.shape),
        "affine": None if geometry.affine is None else geometry.affine.tolist(),
        "spacing": None if geometry.spacing is None else list(geometry.spacing),
        "column_major": geometry.column_major,
        "sides": list(orientation.shape),
        "axes": list(orientation.axes),
        "flips": list(orientation.flips),
        "reverse": done.placement.reverse,
        "dots": _dots(done.image),
    }


def _dots(image: Image) -> list[float] | None:
    header = image.header if image.kind in RASTER else None
    return [float(d) for d in header] if header else None


def _answer(
    done: Done,
    job: Mapping[str, Any],
    classes: tuple[str, ...],
    dims: int,
    arrays: Mapping[str, Array],
) -> dict[str, Any]:
    record, rows = done.record, done.record["rows"]
    cut = done.placement.slices(arrays["mask"][None])[0]  # (D, H, W)
    shown = record["shown"] if dims == 2 else int((cut > 0).sum(axis=(1, 2)).argmax())
    single = len(cut) == 1
    spacing = _spacing(done)
    kept = ("lambdas", "source_member", "activation", "doubt")
    return {
        "model": job["model"],
        "method": job["method"],
        "settings": job["settings"],
        "kind": record["kind"].lower(),
        "shape": list(cut.shape[1:] if single else cut.shape),
        "spacing": spacing and (spacing[1:] if single else spacing),
        "channels": len(arrays["image"]),
        "slices": len(cut),
        "shown": shown,
        "dims": dims,
        "classes": list(done.names(classes)),
        **{name: record[name] for name in kept},
        "intensity": _intensity(arrays["image"]),
        "look": any(SERIOUS & set(row["notes"]) for row in rows),
        "seconds": rows[0]["seconds"],
        "rows": [_row(row) for row in rows],
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in ("file", "seconds")}
    return {**kept, "look": bool(SERIOUS & set(row["notes"]))}


def _spacing(done: Done) -> list[float] | None:
    """Millimetres along slices, rows and columns as they are shown."""
    geometry, orientation = done.image.geometry, done.placement.orientation
    if geometry.affine is not None:
        sides = np.linalg.norm(geometry.affine[:3, :3], axis=0)
        return [float(sides[a]) for a in orientation.axes]
    known = geometry.raster().spacing
    return None if known is None else [float(s) for s in (1.0, *known)[-3:]]


def _intensity(image: Array) -> dict[str, Any]:
    flat = image.reshape(-1)
    some = flat[:: max(1, len(flat) // SAMPLE)]
    window = [float(v) for v in np.percentile(some, (0.5, 99.5))]
    low, high = float(flat.min()), float(flat.max())
    return {"low": low, "high": high, "window": window if window[1] > window[0] else [low, high]}


def plain(value: Any) -> Any:
    """Plain types that JSON has: what is not a finite number is not known.

    Example:
        >>> plain({"a": (1.0, float("nan"))})
        {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
