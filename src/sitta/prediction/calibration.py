"""What a model looks like on images of its own domain, as ``sitta calibrate`` stores it.

A calibration is kept in a profile, a checkpoint or an exported graph, as plain values. It holds no
image, no file name, and nothing of a single person. Nothing here needs torch.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sitta._util.names import did_you_mean
from sitta._util.packing import packed, unpacked
from sitta._util.untrusted import read_json, shown
from sitta.core.prior import GRIDS, ShapePrior
from sitta.errors import InvalidSetting
from sitta.prediction.expected import DiceModel
from sitta.prediction.input_check import InputModel

VERSION = 1
# Fewest subjects whose mean image or mean shape can be kept of private images, and from which on a
# shape prior counts in full.
SUBJECTS = 10
CALIBRATE_AGAIN = "calibrate the model again: sitta calibrate MODEL --images FOLDER"
MOST_SHOWN = 200  # characters of what is wrong, in a message
SIZES = (0.001, 10.0)  # of shapes, in shares of the mean side of their image
MOST_BYTES = 1 << 20  # of a file with a calibration
Pair = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ClassCalibration:
    """One foreground class of a model, in-domain."""

    name: str
    # Whether weighted members were better than the model itself on shifted in-domain images.
    adapts: bool
    gain: float  # by how much, in Dice
    prior: ShapePrior | None = None  # None if too few subjects or images show the class
    dice: DiceModel | None = None
    # Plausibility that a shape must reach where the model as trained finds nothing of the class.
    plausible: float = 0.0
    limit: float | None = None  # of its expected Dice: the lowest twentieth in-domain


@dataclass(frozen=True, eq=False)
class Calibration:
    """In-domain knowledge of a model."""

    images: int  # how many it was made from
    subjects: int
    labelled: bool  # with masks; else against the model's own clean predictions
    weights: str  # fingerprint of the weights that it belongs to
    classes: tuple[ClassCalibration, ...]
    inputs: InputModel | None = None
    # Mean Dice by kind of shift: of each member of Adapt, its result, and the model as trained.
    members: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # Mean and variance of layers that keep none themselves, by the name of the layer.
    statistics: Mapping[str, Pair] = field(default_factory=dict)
    limit: float | None = None  # of the expected Dice: the lowest twentieth in-domain

    @property
    def shape_trust(self) -> float:
        """How much shapes count, from 0 to 1: those of few subjects say little of others."""
        return min(1.0, self.subjects / SUBJECTS)

    @property
    def adapts(self) -> bool:
        """Whether adapting any class helps."""
        return any(c.adapts for c in self.classes)

    def as_dict(self) -> dict[str, Any]:
        """As plain values, which ``from_dict`` reads back."""
        return {
            "version": VERSION,
            **{n: getattr(self, n) for n in ("images", "subjects", "labelled", "weights")},
            "limit": self.limit,
            "members": {kind: dict(dice) for kind, dice in self.members.items()},
            "classes": [_class_dict(c) for c in self.classes],
            "inputs": None if self.inputs is None else self.inputs.as_dict(),
            "statistics": {k: [packed(m), packed(v)] for k, (m, v) in self.statistics.items()},
        }

    @classmethod
    def from_dict(cls, values: Any, where: str = "The calibration") -> Calibration:
        """From plain values, which may come from anyone; an InvalidSetting says what is wrong."""
        names = ("version", "images", "subjects", "labelled", "weights", "limit", "members")
        table = _table(values, (*names, "classes", "inputs", "statistics"), where)
        if table.get("version") != VERSION:
            raise InvalidSetting(
                f"{where} has a version that this Sitta does not know.",
                allowed=str(VERSION),
                got=shown(table.get("version")),
                fix=CALIBRATE_AGAIN,
            )
        try:
            return cls(
                images=_count(table["images"], where),
                subjects=_count(table["subjects"], where),
                labelled=bool(table["labelled"]),
                weights=str(table["weights"]),
                classes=tuple(_class(c, where) for c in table["classes"]),
                inputs=None
                if table.get("inputs") is None
                else InputModel.from_dict(table["inputs"]),
                members={
                    str(k): {str(n): _finite(d) for n, d in v.items()}
                    for k, v in table.get("members", {}).items()
                },
                statistics={
                    str(k): (unpacked(m, where), unpacked(v, where))
                    for k, (m, v) in table.get("statistics", {}).items()
                },
                limit=None if table.get("limit") is None else _finite(table["limit"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, InvalidSetting):
                raise
            got = f"{type(error).__name__}: {error}"[:MOST_SHOWN]
            raise InvalidSetting(f"{where} is damaged.", got=got, fix=CALIBRATE_AGAIN) from error


def calibration_of(model: Any) -> Calibration | None:
    """The calibration that came with a model or a graph, in its profile or its card."""
    table = getattr(model, "card", None)
    table = table if isinstance(table, Mapping) else {}
    inside = table.get("profile")
    held = getattr(getattr(model, "profile", None), "calibration", None)
    held = held or table.get("calibration")
    held = held or (inside.get("calibration") if isinstance(inside, Mapping) else None)
    return Calibration.from_dict(held) if isinstance(held, Mapping) else None


def without_calibration(model: Any) -> Any:
    """The model without its calibration, so that a new one can be made."""
    plain, table = copy(model), getattr(model, "card", None)
    profile: Any = getattr(model, "profile", None)
    if isinstance(table, Mapping):
        plain.card = {k: v for k, v in table.items() if k not in ("calibration", "profile")}
    if profile is not None and getattr(profile, "calibration", None) is not None:
        plain.profile = replace(profile, calibration=None)
    return plain


def calibration_from(given: Any) -> Calibration | None:
    """The calibration that a user hands over: itself, a profile, a path to one, or none."""
    if given is None or isinstance(given, Calibration):
        return given
    if isinstance(given, str | Path):
        tables = _tables(Path(given))
        if "profile" in tables and "calibration" not in tables:
            raise InvalidSetting(f"{given} is not calibrated.", fix=CALIBRATE_AGAIN)
        inside = tables.get("calibration", tables)
        if isinstance(inside, str):  # a profile, which names the file beside it
            return calibration_from(Path(given).with_name(Path(inside).name))
        return Calibration.from_dict(inside, str(given))
    held = given if isinstance(given, Mapping) else given.calibration
    return None if held is None else Calibration.from_dict(held)


def _tables(path: Path) -> dict[str, Any]:
    """What a file in JSON or TOML holds."""
    with open(path, "rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise InvalidSetting(f"{path} is too long.", allowed=f"{MOST_BYTES:,} bytes")
    try:
        text = raw.decode()
        held = read_json(text, str(path)) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidSetting):
            raise
        got = f"{type(error).__name__}: {error}"[:MOST_SHOWN]
        raise InvalidSetting(f"{path} is neither JSON nor TOML.", got=got) from error
    return dict(held)


def _class_dict(c: ClassCalibration) -> dict[str, Any]:
    prior = c.prior and {
        "mean": packed(c.prior.mean),
        "components": packed(c.prior.components),
        "grid": list(c.prior.grid),
        "size": c.prior.size,
    }
    dice = None if c.dice is None else c.dice.as_dict()
    plain = {n: getattr(c, n) for n in ("name", "adapts", "gain", "plausible", "limit")}
    return {**plain, "prior": prior, "dice": dice}


def _class(values: Any, where: str) -> ClassCalibration:
    names = ("name", "adapts", "gain", "plausible", "limit", "prior", "dice")
    table = _table(values, names, where)
    prior, dice = table.get("prior"), table.get("dice")
    return ClassCalibration(
        name=str(table["name"]),
        adapts=bool(table["adapts"]),
        gain=_finite(table["gain"]),
        plausible=_finite(table.get("plausible", 0.0)),
        limit=None if table.get("limit") is None else _finite(table["limit"]),
        prior=None if prior is None else _prior(prior, where),
        dice=None if dice is None else DiceModel.from_dict(dice),
    )


def _prior(values: Any, where: str) -> ShapePrior:
    table = _table(values, ("mean", "components", "grid", "size"), where)
    mean, axes = unpacked(table["mean"], where), unpacked(table["components"], where)
    grid = tuple(int(n) for n in table["grid"])
    fits = grid in GRIDS.values() and mean.shape == (math.prod(grid),)
    if not fits or axes.ndim != 2 or axes.shape[1:] != mean.shape:
        raise InvalidSetting(f"{where} holds a shape prior that does not fit its grid.")
    size = _finite(table["size"])
    if not SIZES[0] <= size <= SIZES[1]:
        allowed = "from {} to {} of the side of the image".format(*SIZES)
        raise InvalidSetting(f"{where} holds a shape of no size.", allowed=allowed, got=shown(size))
    return ShapePrior(mean, axes, grid, size)


def _count(value: Any, where: str) -> int:
    number = int(value)
    if not 0 <= number <= MOST_BYTES:
        raise InvalidSetting(f"{where} holds no number of images or people.", got=shown(value))
    return number


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise InvalidSetting("The calibration holds a number that is not finite.", got=shown(value))
    return number


def _table(values: Any, names: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InvalidSetting(f"{where} is not a table.", got=shown(values), fix=CALIBRATE_AGAIN)
    unknown = [key for key in values if key not in names]
    if unknown:
        raise InvalidSetting(
            f"{where} has an unknown entry {shown(unknown[0])}.{did_you_mean(unknown[0], names)}",
            allowed=", ".join(names),
        )
    return dict(values)
