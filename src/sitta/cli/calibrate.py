"""``sitta calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sitta.cli import app, command
from sitta.cli import options as o
from sitta.cli.show import print_json, print_table, progress, say


@command(app, "sitta calibrate chest-mcu --images data/images --masks data/masks -o model.toml")
def calibrate(
    model: o.Model,
    *,
    images: Annotated[Path, typer.Option(help="Folder of in-domain images; 100 are enough.")],
    masks: Annotated[
        Path | None, typer.Option(help="Folder of masks with the same names; optional.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The profile to write, and a .json beside it.")
    ] = Path("model.toml"),
    public: Annotated[
        bool, typer.Option("--public", help="Public images: keep mean shapes of few subjects.")
    ] = False,
    weights: o.Weights = None,
    reading: o.Reading,
    preprocessing: o.Preprocessing,
    folds: Annotated[o.Text, o.option(o.PRE, "Of nnU-Net: the one to calibrate.")] = None,
    trust_checkpoint: Annotated[
        bool, o.option(o.PRE, "Of nnU-Net: unpickle its checkpoint.", "--trust-checkpoint")
    ] = False,
    overwrite: o.Overwrite = False,
    threads: o.Threads = None,
    as_json: o.AsJson = False,
) -> None:
    """Learn from in-domain images, for the expected Dice, Adapt and the input check.

    If it was stopped, run the same command again to resume.
    """
    from dataclasses import replace

    from sitta._util.files import require_free
    from sitta._util.threads import use_threads
    from sitta.calibration.run import calibrate_folder, first_of
    from sitta.errors import UnsupportedModel
    from sitta.inference.backends.onnx import Graph
    from sitta.inference.checkup import about_scale
    from sitta.inference.contact import first_contact, require_scale
    from sitta.inference.loading import find_profile, load_profile
    from sitta.models.profile.record import calibration_path

    inputs = [path for folder in (images, masks) if folder for path in folder.glob("*")]
    require_free(out, overwrite, inputs)
    require_free(calibration_path(out), overwrite, inputs)
    use_threads(threads)
    if model.startswith("nnunet:"):
        _require_own_references(masks, out)
        chosen = o.comma_separated(folds or "")
        _nnunet(model, images, out, chosen, trust_checkpoint, as_json)
        return
    profile = replace(find_profile(model, weights), calibration=None)  # one of other weights
    require_free(out, overwrite, _files(profile))
    loaded = load_profile(model, profile, preprocessing.changes, reading=reading.changes)
    if isinstance(loaded.model, Graph):
        raise UnsupportedModel(
            "A graph cannot be calibrated.", fix="calibrate the model, then export it"
        )

    def meet(found: Any) -> None:
        warnings = first_contact(loaded, found[:1].numpy(), loaded.profile.window)
        require_scale(loaded)
        for warning in [*warnings, *about_scale(loaded, first_of(images))]:
            say(f"warning: {warning}", err=True)

    journal = out.with_name(f"{out.stem}.calibration.partial")
    with progress("calibrating", silent=as_json) as watch:
        made = calibrate_folder(
            loaded.model,
            loaded.preprocess,
            loaded.classes if loaded.profile.names or masks is not None else None,
            images,
            masks,
            public=public,
            watch=watch,
            meet=meet,
            journal=journal,
        )
    names = ("classes", "output", "activation")
    kept: dict[str, Any] = {name: getattr(loaded.profile, name) for name in names}
    kept["preprocess"] = loaded.preprocess
    moved: dict[str, Any] = _moved(profile, out.absolute().parent)
    replace(profile, **moved, **kept, said=None, calibration=made.as_dict()).write(out)
    journal.unlink(missing_ok=True)
    if as_json:
        print_json(told(made))
        return
    show(made)
    if made.inputs is not None and made.inputs.image is None:
        say(_unkept(made))
    say(f"{out}: use it wherever a model is asked for, such as sitta predict {out} scans/ -o out")


def _require_own_references(masks: Path | None, out: Path) -> None:
    """An nnU-Net is compared with its own predictions, and has no profile to write."""
    from sitta.errors import InvalidSetting

    if masks is not None:
        raise InvalidSetting(
            "--masks cannot be used with an nnU-Net model.",
            fix="leave them out: its own predictions serve as the reference",
        )
    if out.suffix != ".json":
        raise InvalidSetting(
            "The calibration of an nnU-Net is a file of its own.",
            allowed="a .json file",
            got=str(out),
            fix="-o fold_0.json",
        )


def _nnunet(
    model: str, images: Path, out: Path, folds: tuple[str, ...], trusted: bool, as_json: bool
) -> None:
    """Calibrate one fold of a trained nnU-Net, which has no profile: the calibration alone."""
    import json

    from sitta._util.files import atomic_write
    from sitta.integrations.nnunet_run import calibrate_folder

    how: Any = {"folds": folds, "trust_checkpoint": trusted}
    with progress("calibrating", silent=as_json) as watch:
        made = calibrate_folder(model, images, watch=watch, **how)
    with atomic_write(out) as draft:
        draft.write_text(json.dumps(made.as_dict()), encoding="utf-8")
    if as_json:
        print_json(told(made))
        return
    show(made)
    say(f"{out}: use it with this fold: sitta predict nnunet:FOLDER ... --calibration {out}")


def _unkept(made: Any) -> str:
    """Why means of few subjects are not kept, and what to do about it."""
    from sitta.prediction.calibration import SUBJECTS

    shapes = any(c.prior is not None for c in made.classes)
    what = "No mean image is kept" if shapes else "No mean image and no mean shape are kept"
    return (
        f"{what}: the images are of {made.subjects} subjects, and a mean of fewer than {SUBJECTS} "
        "could show one of them. Give images of more"
        + ("." if shapes else ", or --public for mean shapes of public images.")
    )


def _files(profile: Any) -> list[Path]:
    """The files that a profile names: weights, checkpoint, graph, and code of the factory."""
    code = (profile.factory or "").rpartition(":")[0]
    named = (profile.weights, profile.checkpoint, profile.onnx, code)
    return [profile.path(name) for name in named if name]


def _moved(profile: Any, home: Path) -> dict[str, str]:
    """Paths of a profile as seen from the folder of the one that is written."""
    import os

    moved = {}
    for name in ("weights", "checkpoint", "onnx"):
        value = getattr(profile, name)
        path = None if value is None else profile.path(value)
        if path is not None and path.exists():
            moved[name] = os.path.relpath(path.absolute(), home)
    where, colon, call = (profile.factory or "").rpartition(":")
    if where.endswith(".py"):
        moved["factory"] = os.path.relpath(profile.path(where).absolute(), home) + colon + call
    return moved


def show(made: Any) -> None:
    """What a calibration found, for people."""
    labels = "their masks" if made.labelled else "the model's own clean predictions"
    say(f"{made.images} images of {made.subjects} subjects, compared with {labels}")
    rows = [
        [kind, f"{table['images']:.0f}", _share(table.get("member 0")), _share(table["adapt"])]
        for kind, table in made.members.items()
    ]
    columns = ["synthetic shift", "images", "Dice as trained", "Dice of Adapt"]
    print_table(columns, rows, right=columns[1:])
    for one in made.classes:
        word = "adapted" if one.adapts else "left as trained: adapting did not help in-domain"
        say(f"{one.name}: {word} ({100 * one.gain:+.1f} Dice points on shifted images)")


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def told(made: Any) -> dict[str, Any]:
    """A calibration without its arrays, in plain types."""
    names = ("images", "subjects", "labelled", "limit", "members")
    classes = [{"name": c.name, "adapts": c.adapts, "gain": c.gain} for c in made.classes]
    return {**{name: getattr(made, name) for name in names}, "classes": classes}
