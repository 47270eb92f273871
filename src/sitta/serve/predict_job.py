"""One upload in a worker: decoded under the limits, adapted, and left as arrays for drawing."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sitta._util.plain import plain
from sitta.core.masks import one_class
from sitta.data import phantom
from sitta.data.detect import detect
from sitta.data.formats import FORMATS
from sitta.data.image import Array, Image, TooLarge
from sitta.data.masks import shareable
from sitta.data.preprocess import Preprocess
from sitta.data.reading import read
from sitta.errors import InvalidImage, InvalidSetting, SittaError
from sitta.inference.contact import first_contact, noise
from sitta.inference.inputs import InputFile
from sitta.inference.loading import Loaded
from sitta.inference.pipeline import FileResult, predict_prepared, prepare_file
from sitta.prediction.notes import flagged
from sitta.serve.archive import RECORD
from sitta.serve.catalogue import Catalogue
from sitta.serve.errors import ApiError
from sitta.serve.quotas import Limits
from sitta.serve.render import Layout

SAVE = frozenset({"probability", "uncertainty", "disagreement", "labels"})
MOST_EXTENSIONS = 2**20  # bytes of NIfTI extensions: none of them is needed here
SAMPLE = 2**20  # pixels from which the window is chosen


def work(job: Mapping[str, Any], catalogue: Catalogue) -> tuple[dict[str, Any], Layout]:
    """Do one job, and leave all that can be asked for later in ``job["out"]``.

    Returns the answer in plain types, without what only the server knows, and how the arrays lie.
    """
    try:
        adapt = catalogue.adapter(job["model"], job["method"], job["settings"])
    except SittaError as error:
        raise ApiError.of(422, "bad-setting", error) from error
    loaded = catalogue.loaded[job["model"]]
    path = _checked_kind([Path(f) for f in job["files"]])
    reader = partial(_read, loaded.preprocess, catalogue.limits)
    try:
        prepared = prepare_file(
            InputFile(path, "", ""),
            loaded.preprocess,
            reader=reader,
            invert=job.get("invert", False),
            rotate=job.get("rotate", 0),
        )
        done = predict_prepared([prepared], adapt, SAVE, profile=loaded.profile)[0]
    except TooLarge as error:
        error.fix = "send a smaller one; who runs the service can raise the limit"
        raise ApiError.of(413, "too-large", error) from error
    except InvalidSetting as error:
        raise ApiError.of(422, "bad-setting", error) from error
    except SittaError as error:
        raise ApiError.of(422, "bad-image", error) from error
    if job.get("rotate"):  # turned for the model alone: it is shown as it lies in the file
        done = replace(done, placement=loaded.preprocess.place(done.image))
    arrays = _arrays(done)
    for name, values in arrays.items():
        _save(Path(job["out"]) / f"{name}.npy", np.ascontiguousarray(values))
    answer = plain(_answer(done, job, loaded, arrays))
    record = json.dumps(plain(done.record)).encode()
    (Path(job["out"]) / RECORD).write_bytes(record)
    return answer, (replace(done.image, pixels=np.empty(0)), done.placement)


def _save(path: Path, values: Array) -> None:
    """As ``np.save``, which does not say why it fails if a disk is full."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_2_0(file, np.lib.format.header_data_from_array_1_0(values))
        file.write(values.data)


def warm(catalogue: Catalogue) -> None:
    """Take the whole way once, so that no client waits for what the first image sets up."""
    for decoder in {name for each in FORMATS.values() for name in each.decoders}:
        import_module(decoder)
    for loaded in catalogue.loaded.values():  # a model that cannot be right is not served
        first_contact(loaded, noise(loaded), loaded.profile.window)
    name, loaded = next(iter(catalogue.loaded.items()))
    usual: dict[str, Any] = {"model": name, "method": catalogue.usual_method(name), "settings": {}}
    with tempfile.TemporaryDirectory(prefix="sitta-warm-") as folder:
        phantom.write(folder, "alder", 1, (64, 64))
        files = [str(path) for path in Path(folder).glob("phantom/alder/images/*")]
        try:
            work({**usual, "files": files, "out": folder}, catalogue)
        except ApiError:  # a model that needs more than a PNG tells
            catalogue.adapter(name, usual["method"], {})(noise(loaded))


def _checked_kind(files: list[Path]) -> Path:
    """The file, or the folder of a series; refuses what is no image by its first bytes."""
    try:
        kinds = {detect(path) for path in files}
    except InvalidImage as error:
        raise ApiError.of(415, "not-an-image", error) from error
    if len(files) == 1:
        return files[0]
    if kinds != {"DICOM"}:
        raise ApiError(
            422,
            "several-files",
            "Several files in one request are the slices of one DICOM series.",
            allowed="one image, or DICOM files of one series",
            fix="send each image by itself",
        )
    return files[0].parent


def _read(preprocess: Preprocess, limits: Limits, path: Path) -> Image:
    """Reads no more than the limits allow, and forgets what the header says of the patient."""
    _check_extensions(path)
    image = read(path, limits.pixels)
    slices = preprocess.place(image).orientation.sides[0]
    if slices > limits.slices:
        raise TooLarge(f"{path} has {slices} slices.", allowed=f"at most {limits.slices}")
    return replace(shareable(image), indices=None)


def _check_extensions(path: Path) -> None:
    """Refuse a NIfTI file with a heap of extensions, which would be parsed one by one."""
    if path.is_dir() or detect(path) != "NIfTI":
        return
    import nibabel as nib

    with open(path, "rb") as plain:
        zipped = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else open(path, "rb") as file:
        head = file.read(nib.Nifti2Header.sizeof_hdr).ljust(nib.Nifti2Header.sizeof_hdr, b"\0")
    kind = nib.Nifti2Header if head[4:8] == b"n+2\0" else nib.Nifti1Header
    before = float(kind(head[: kind.sizeof_hdr], check=False)["vox_offset"])
    if not 0 <= before <= MOST_EXTENSIONS:
        raise InvalidImage(
            f"{path} puts {before:,.0f} bytes between its header and its pixels.",
            allowed=f"at most {MOST_EXTENSIONS:,} bytes of extensions",
            fix="save it without extensions",
        )


def _arrays(done: FileResult) -> dict[str, Array]:
    """All that can be drawn or downloaded, in the geometry of the file."""
    image = done.image.pixels[: 3 if len(done.image.pixels) == 3 else 1]
    several = done.mask.ndim == done.image.pixels.ndim  # labels that may overlap
    arrays = {"image": image, "mask": one_class(done.mask) if several else done.mask}
    arrays |= {name: done.maps[name] for name in ("uncertainty", "disagreement")}
    arrays["probability"] = np.stack([v for k, v in done.maps.items() if k[:11] == "probability"])
    if several:
        arrays["labels"] = done.mask
    if "labels" in done.maps:
        members = done.maps["labels"]
        arrays["members"] = one_class(members, axis=1) if several else members
    return arrays


def _answer(
    done: FileResult, job: Mapping[str, Any], loaded: Loaded, arrays: Mapping[str, Array]
) -> dict[str, Any]:
    record, rows, dims = done.record, done.record["rows"], loaded.preprocess.dims
    cut = done.placement.slices(arrays["mask"][None])[0]  # (D, H, W)
    shown = record["shown"] if dims == 2 else int((cut > 0).sum(axis=(1, 2)).argmax())
    single = len(cut) == 1
    spacing = done.placement.orientation.spacing(done.image.geometry)
    looks = [flagged(row["notes"]) for row in rows]
    kept = ("lambdas", "member_names", "source_member", "activation", "limits", "doubt")
    return {
        **{name: job[name] for name in ("model", "method", "settings")},
        **{"invert": job.get("invert", False), "rotate": job.get("rotate", 0)},
        "kind": record["kind"].lower(),
        "shape": list(cut.shape[1:] if single else cut.shape),
        "spacing": spacing and list(spacing[1:] if single else spacing),
        "marks": _marks(done),
        "channels": len(arrays["image"]),
        "slices": len(cut),
        "shown": shown,
        "dims": dims,
        "classes": list(done.names(loaded.classes)),
        "colours": [one.colour for one in loaded.profile.classes],
        **{name: record[name] for name in kept},
        "intensity": _intensity(arrays["image"]),
        "look": any(looks),
        "seconds": rows[0]["seconds"],
        "rows": [
            {**{name: row[name] for name in row if name not in ("file", "seconds")}, "look": look}
            for row, look in zip(rows, looks, strict=True)
        ],
    }


def _marks(done: FileResult) -> list[str] | None:
    """What lies left, right, above and below on the screen: R, L, A, P, S, I; None if unknown."""
    affine, turn = done.image.geometry.affine, done.placement.orientation
    if affine is None:
        return None
    marks: list[str] = []
    for side in (2, 1):  # columns, then rows
        way = np.asarray(affine)[:3, turn.axes[side]] * (-1 if side in turn.flips else 1)
        at = int(np.abs(way).argmax())
        ends = "LPI"[at], "RAS"[at]
        marks += ends if way[at] > 0 else ends[::-1]
    return marks


def _intensity(image: Array) -> dict[str, Any]:
    flat = image.reshape(-1)
    sample = flat[:: max(1, len(flat) // SAMPLE)]
    window = [float(v) for v in np.percentile(sample, (0.5, 99.5))]
    low, high = float(flat.min()), float(flat.max())
    return {"low": low, "high": high, "window": window if window[1] > window[0] else [low, high]}
