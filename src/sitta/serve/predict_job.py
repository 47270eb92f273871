"""One upload in a worker: decoded under the limits, adapted, and left as arrays for drawing."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from sitta.data.preprocess import InverseTransform, Preprocess
from sitta.data.reading import read
from sitta.errors import InvalidImage, InvalidSetting, SittaError
from sitta.inference.contact import first_contact, noise
from sitta.inference.inputs import InputFile
from sitta.inference.loading import Loaded
from sitta.inference.pipeline import FileResult, predict_prepared, prepare_file
from sitta.prediction.notes import flagged
from sitta.serve.archive import RECORD
from sitta.serve.catalogue import Catalogue
from sitta.serve.described import described, shown_channels
from sitta.serve.draft import Draft, Event, save
from sitta.serve.errors import ApiError
from sitta.serve.quotas import Limits
from sitta.serve.render import Layout

SAVE = frozenset({"probability", "uncertainty", "disagreement", "labels"})
MOST_EXTENSIONS = 2**20  # bytes of NIfTI extensions: none of them is needed here


def work(
    job: Mapping[str, Any], catalogue: Catalogue, tell: Callable[[Event], None] | None = None
) -> tuple[dict[str, Any], Layout]:
    """Do one job, and leave all that can be asked for later in ``job["out"]``.

    Returns the answer in plain types, without what only the server knows, and how the arrays lie.
    If the job says ``follow``, ``tell`` hears of the image at once and of each slice.
    """
    with _in_words():
        adapt = catalogue.adapter(job["model"], job["method"], job["settings"])
    loaded = catalogue.loaded[job["model"]]
    path = _checked_kind([Path(f) for f in job["files"]])
    turned = {name: job[name] for name in ("invert", "rotate") if name in job}
    draft = None
    with _in_words("bad-image"):
        reader = partial(_read, loaded.preprocess, catalogue.limits)
        given = InputFile(path, "", "")
        prepared = prepare_file(given, loaded.preprocess, reader=reader, **turned)
        shown = loaded.preprocess.place(prepared.image)  # as it lies in the file
        if tell is not None and job.get("follow"):
            draft = Draft(job, prepared, shown, loaded.classes, tell)
        each = None if draft is None else draft.slice
        done = predict_prepared([prepared], adapt, SAVE, profile=loaded.profile, each=each)[0]
    done = replace(done, placement=shown)
    arrays = _arrays(done)
    for name, values in arrays.items():
        if name != "image" or draft is None:  # else it is there, and may be being read
            save(Path(job["out"]) / f"{name}.npy", values)
    answer = plain(_answer(done, job, loaded, arrays, prepared.inverse))
    record = json.dumps(plain(done.record)).encode()
    (Path(job["out"]) / RECORD).write_bytes(record)
    return answer, (replace(done.image, pixels=np.empty(0)), done.placement)


@contextmanager
def _in_words(code: str = "bad-setting") -> Iterator[None]:
    """Errors of the package as those of the service."""
    try:
        yield
    except TooLarge as error:
        error.fix = "send a smaller one; who runs the service can raise the limit"
        raise ApiError.of(413, "too-large", error) from error
    except InvalidSetting as error:
        raise ApiError.of(422, "bad-setting", error) from error
    except SittaError as error:
        raise ApiError.of(422, code, error) from error


def warm(catalogue: Catalogue) -> None:
    """Take the whole way once, so that no client waits for what the first image sets up."""
    for decoder in {name for each in FORMATS.values() for name in each.decoders}:
        import_module(decoder)
    for name, loaded in catalogue.loaded.items():  # a model that cannot be right is not served
        for warning in first_contact(loaded, noise(loaded), loaded.profile.window):
            print(f"warning: {name}: {warning}", file=sys.stderr, flush=True)  # noqa: T201
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
    several = done.mask.ndim == done.image.pixels.ndim  # labels that may overlap
    arrays = {"image": shown_channels(done.image)}
    arrays |= {"mask": one_class(done.mask) if several else done.mask}
    arrays |= {name: done.maps[name] for name in ("uncertainty", "disagreement")}
    arrays["probability"] = np.stack([v for k, v in done.maps.items() if k[:11] == "probability"])
    if several:
        arrays["labels"] = done.mask
    if "labels" in done.maps:
        members = done.maps["labels"]
        arrays["members"] = one_class(members, axis=1) if several else members
    return arrays


def _answer(
    done: FileResult,
    job: Mapping[str, Any],
    loaded: Loaded,
    arrays: Mapping[str, Array],
    seen: InverseTransform,
) -> dict[str, Any]:
    record, rows, dims = done.record, done.record["rows"], loaded.preprocess.dims
    cut = done.placement.slices(arrays["mask"][None])[0]  # (D, H, W)
    shown = record["shown"] if dims == 2 else int((cut > 0).sum(axis=(1, 2)).argmax())
    looks = [flagged(row["notes"]) for row in rows]
    kept = ("lambdas", "member_names", "source_member", "activation", "limits", "doubt")
    return {
        **described(job, done.image, done.placement, seen),
        "shown": shown,
        "classes": list(done.names(loaded.classes)),
        "colours": [one.colour for one in loaded.profile.classes],
        **{name: record[name] for name in kept},
        "look": any(looks),
        "seconds": rows[0]["seconds"],
        "rows": [
            {**{name: row[name] for name in row if name not in ("file", "seconds")}, "look": look}
            for row, look in zip(rows, looks, strict=True)
        ],
    }
