"""The profile of a model: where it comes from, how to feed and to read it. Needs no torch."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from sitta._util.files import atomic_write
from sitta._util.plain import plain
from sitta._util.untrusted import shown
from sitta.data.preprocess import Preprocess
from sitta.data.scaling import merged
from sitta.errors import InvalidSetting
from sitta.models.profile.entries import (
    ENTRIES,
    MOST_CLASSES,
    OF_CLASS,
    TABLES,
    VERSION,
    of_table,
    read_table,
)
from sitta.models.profile.errors import ProfileError
from sitta.models.profile.rules import check_classes, check_source, check_window
from sitta.models.profile.stored import read_stored

LONGEST = 1 << 20  # bytes of a profile
OVERLAP = 0.25  # of windows
NAMED = {entry.key: entry for entry in ENTRIES}


@dataclass(frozen=True)
class ClassInfo:
    """One foreground class, or one label."""

    name: str
    colour: str | None = None  # such as #d55e00
    threshold: float | None = None  # probability that a pixel must exceed


@dataclass(frozen=True, kw_only=True)
class Profile:
    """All that Sitta needs to know of a model.

    Exactly one of ``factory``, ``checkpoint`` and ``onnx`` says where the network comes from, but
    in the record inside a checkpoint or a graph, which is that model's own.

    Example:
        >>> profile = Profile.from_dict({"profile": 1, "model": {"checkpoint": "phantom-alder"}})
        >>> profile.checkpoint, profile.thresholds
        ('phantom-alder', ())
    """

    factory: str | None = None  # ``file.py:function`` or ``package.module:function``
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the factory
    weights: str | None = None  # for the network of the factory
    checkpoint: str | None = None  # of Sitta, or the name of a model of the zoo
    onnx: str | None = None  # a graph of sitta export
    output: str | int | None = None  # where the segmentation is in what the network returns
    activation: str | None = None  # one of ``sitta.core.output.ACTIVATIONS``; None: not said
    classes: tuple[ClassInfo, ...] = ()  # foreground classes, in the order of the channels
    preprocess: Preprocess | None = None  # None: not said
    said: frozenset[str] | None = field(default=None, compare=False)  # its fields; None is all
    window: tuple[int, ...] | None = None  # sides of a sliding window
    overlap: float = OVERLAP  # of windows
    statistics: str = "volume"  # of the whole volume, or of each window
    largest_component: bool | tuple[str, ...] = False  # of every class, or of those named
    fill_holes: bool | tuple[str, ...] = False
    source: str = ""  # what it was trained on, such as chest/mcu
    licence: str = ""
    citation: str = ""
    note: str = ""
    trust: Mapping[str, Any] | None = None  # limits of the notes
    calibration: Mapping[str, Any] | None = None  # what the model looks like in-domain
    folder: Path | None = field(default=None, compare=False)  # what its paths are relative to

    def __post_init__(self) -> None:
        check_source(self)
        check_window(self)
        check_classes(self)

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nothing in it ever changes

    @classmethod
    def read(cls, path: str | Path) -> Profile:
        """The profile in a TOML file; a ProfileError says what is wrong with it, and where."""
        path = Path(path)
        if path.exists() and not (path.is_file() or path.is_dir()):  # it might never end
            raise ProfileError("This is a pipe or a device, and no profile.", file=path)
        try:
            with open(path, "rb") as file:
                raw = file.read(LONGEST + 1)
        except FileNotFoundError as error:
            fix = "sitta profile new FACTORY writes one"
            raise ProfileError("There is no such profile.", file=path, fix=fix) from error
        except IsADirectoryError as error:
            raise ProfileError("This is a folder, and no profile.", file=path) from error
        with ProfileError.at(file=path):
            return cls.from_dict(_toml(raw), folder=path.parent)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, folder: Path | None = None) -> Profile:
        """The profile of plain tables, as in a file; refuses all that it does not know."""
        _check_version(values)
        calibration = values.get("calibration")
        stored = isinstance(calibration, Mapping)  # inside a checkpoint, not beside a file
        apart = ("profile", "calibration") if stored else ("profile",)
        head = {name: value for name, value in values.items() if name not in apart}
        read = read_table(head, of_table(""), *TABLES)
        for name in ("model", "inference", "postprocess"):
            with ProfileError.at(name):
                read |= read_table(values.get(name, {}), of_table(name))
        if "trust" in values:
            with ProfileError.at("trust"):
                read["trust"] = read_table(values["trust"], of_table("trust"))
        read["classes"] = _classes(values.get("classes", []))
        if "preprocess" in values:
            with ProfileError.at("preprocess"):
                read |= _preprocess(values["preprocess"])
        read["calibration"] = calibration if stored else read_stored(calibration, folder)
        lists = {k: tuple(v) for k, v in read.items() if isinstance(v, list)}
        return cls(**{**read, **lists}, folder=folder)

    def as_dict(self) -> dict[str, Any]:
        """Plain tables, from which ``from_dict`` gets it back; the calibration in full."""
        tables: dict[str, Any] = {"profile": VERSION}
        usual = {f.name: f.default for f in fields(self)}
        for entry in ENTRIES:
            value = getattr(self, entry.attribute)
            if value in (None, "", {}) or value == usual[entry.attribute]:
                continue
            home = tables.setdefault(entry.table, {}) if entry.table else tables
            home[entry.key] = plain(dict(value) if isinstance(value, Mapping) else value)
        if self.classes:
            tables["classes"] = [_without_none(vars(one)) for one in self.classes]
        if self.preprocess is not None:
            every = self.preprocess.as_dict()
            told = (
                every if self.said is None else {k: v for k, v in every.items() if k in self.said}
            )
            tables["preprocess"] = _without_none(plain(told))
        if self.trust:
            tables["trust"] = plain(self.trust)
        top = {name: value for name, value in tables.items() if name not in TABLES}
        return {**top, **{name: tables[name] for name in TABLES if name in tables}}

    def write(self, path: str | Path) -> None:
        """Write it as TOML, and its calibration beside it as ``<stem>.calibration.json``."""
        from sitta.models.profile.writing import text

        path, tables = Path(path), self.as_dict()
        if self.calibration is not None:
            beside = calibration_path(path)
            whole = json.dumps(plain(dict(self.calibration)))
            with atomic_write(beside) as draft:
                draft.write_text(whole + "\n", encoding="utf-8")
            tables["calibration"] = beside.name
        with atomic_write(path) as draft:
            draft.write_text(text(tables), encoding="utf-8")

    @property
    def thresholds(self) -> tuple[float | None, ...]:
        """The threshold of each class; empty if none has one."""
        each = tuple(one.threshold for one in self.classes)
        return each if any(value is not None for value in each) else ()

    @property
    def reading(self) -> dict[str, Any]:
        """All that changes the masks besides preprocessing and weights, as far as it is not usual.

        Empty for a model that returns logits alone, with the usual thresholds and no windows.
        """
        names = ("output", "activation", "thresholds", "largest_component", "fill_holes")
        told = {name: getattr(self, name) for name in names}
        told |= {"overlap": self.overlap} if self.overlap != OVERLAP else {}
        return {
            name: plain(value) for name, value in told.items() if value not in (None, (), False)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its classes."""
        return tuple(one.name for one in self.classes)

    @property
    def location(self) -> str:
        """What its network comes from; a path is relative to the folder of the profile."""
        return str(self.factory or self.checkpoint or self.onnx or "")

    def path(self, name: str) -> Path:
        """A file that the profile names."""
        return Path(name) if self.folder is None else self.folder / name

    def over(self, base: Profile) -> Profile:
        """This profile, with all that it does not say taken from another."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        usual = {f.name: f.default for f in fields(self)}
        silent = ("factory", "arguments", "weights", "checkpoint", "onnx", "folder", "said")
        changes = {
            name: getattr(base, name)
            for name, value in own.items()
            if name not in silent and value == usual[name]
        }
        changes["preprocess"], changes["said"] = self._inputs_over(base.preprocess), None
        return replace(self, **changes)

    def _inputs_over(self, base: Preprocess | None) -> Preprocess | None:
        if self.preprocess is None or base is None or self.said is None:
            return self.preprocess or base
        told = self.preprocess.as_dict()
        return changed(base, {name: told[name] for name in self.said if name in told})

    def changed(self, **changes: Any) -> Profile:
        """With other values, as from the command line; None is no change.

        ``preprocess`` is a table of changes; ``thresholds`` is one number, or one for each class.
        """
        changes = {name: value for name, value in changes.items() if value is not None}
        if inputs := changes.pop("preprocess", {}):
            changes |= {"preprocess": changed(self.preprocess or Preprocess(), inputs)}
            changes |= {"said": None if self.said is None else self.said | set(inputs)}
        if thresholds := changes.pop("thresholds", ()):
            changes["classes"] = self._with(thresholds)
        for name in ("output", "activation"):
            if name in changes:
                NAMED[name].check(changes[name])
        return replace(self, **changes) if changes else self

    def _with(self, thresholds: Sequence[float]) -> tuple[ClassInfo, ...]:
        classes = self.classes or tuple(
            ClassInfo("foreground" if len(thresholds) == 1 else f"class {n}")
            for n in range(1, len(thresholds) + 1)
        )
        each = list(thresholds) * (len(classes) if len(thresholds) == 1 else 1)
        if len(each) != len(classes):
            raise InvalidSetting(
                "The thresholds do not fit the classes.",
                allowed=f"one for all, or one for each of {', '.join(one.name for one in classes)}",
                got=", ".join(map(str, thresholds)),
            )
        entry = of_table("classes")["threshold"]
        for value in each:
            entry.check(value)
        return tuple(replace(one, threshold=t) for one, t in zip(classes, each, strict=True))


def calibration_path(path: Path) -> Path:
    """Where the calibration of a profile goes, beside it."""
    return path.with_name(f"{path.stem}.calibration.json")


def changed(base: Preprocess, changes: Mapping[str, Any]) -> Preprocess:
    """Preprocessing with changes; ``fit="none"`` takes the size out unless one is given."""
    size = {"size": None} if changes.get("fit") == "none" else {}
    return Preprocess.from_dict(merged(base.as_dict(), {**size, **changes}))


def _toml(raw: bytes) -> dict[str, Any]:
    try:
        if len(raw) > LONGEST:
            raise ProfileError("The file is too long for a profile.", allowed=f"{LONGEST:,} bytes")
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise ProfileError(f"This is not a text file ({error.reason}).") from error
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"This is not TOML: {error}.") from error
    except (RecursionError, ValueError) as error:
        raise ProfileError(f"This cannot be read ({type(error).__name__}).") from error


def _check_version(values: Mapping[str, Any]) -> None:
    if not isinstance(values, Mapping) or "profile" not in values:
        raise ProfileError(
            "This is no profile: it does not say its version.",
            fix=f"begin with: profile = {VERSION}",
        )
    version = values["profile"]
    if version != VERSION or isinstance(version, bool):
        raise ProfileError(
            "The profile has a version that this Sitta does not know.",
            "profile",
            allowed=str(VERSION),
            got=shown(version),
            fix="update Sitta" if isinstance(version, int) and version > VERSION else "",
        )


def _classes(tables: Any) -> tuple[ClassInfo, ...]:
    with ProfileError.at("classes"):
        if not isinstance(tables, list) or not all(isinstance(one, Mapping) for one in tables):
            raise ProfileError(
                "This is not a list of tables.", allowed="[[classes]]", got=shown(tables)
            )
        if len(tables) > MOST_CLASSES:
            raise ProfileError("There are too many classes.", allowed=f"{MOST_CLASSES}")
        entries = {entry.key: entry for entry in OF_CLASS}
        classes = []
        for number, table in enumerate(tables):
            with ProfileError.at(number):
                values = read_table(table, entries)
                if "name" not in values:
                    raise ProfileError("The class has no name.", fix='add name = "..."')
                classes.append(ClassInfo(**values))
    return tuple(classes)


def _preprocess(table: Any) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise ProfileError("This is not a table.", got=shown(table))
    return {"preprocess": changed(Preprocess(), table), "said": frozenset(table)}


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
