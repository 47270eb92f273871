"""Every entry of a profile, declared once: its table, what it may be, and one line for people.

The reader, the writer and its comments follow from here. The entries of ``[preprocess]`` are the
fields of ``sitta.data.Preprocess``, which declares them itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sitta._util.names import did_you_mean
from sitta._util.settings import Constraint
from sitta._util.untrusted import shown
from sitta.core.activations import ACTIVATIONS
from sitta.models.profile.errors import ProfileError

VERSION = 1
MOST_CLASSES = 1023  # with the background, as many as a card may hold
LONGEST = 10_000  # characters of a text
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
SHARE = Constraint("a share", low=0, below=1)
PROBABILITY = Constraint("a probability", above=0, below=1)
SIDE = Constraint("a side", low=1, high=1 << 16, whole=True)


@dataclass(frozen=True)
class Entry:
    """One entry of a profile."""

    key: str
    table: str  # empty at the top of the file
    help: str  # one line, the comment in a draft
    allowed: str  # for error messages
    accepts: Callable[[Any], bool]
    field: str = ""  # of ``Profile``; the key if not given

    @property
    def attribute(self) -> str:
        """The field of ``Profile`` that holds it."""
        return self.field or self.key

    def check(self, value: Any) -> None:
        """Raise a ProfileError unless the value can be used."""
        if not self.accepts(value):
            choices = ACTIVATIONS if self.key == "activation" else ()
            raise ProfileError(
                f"'{self.key}' cannot be used.{did_you_mean(value, choices)}",
                self.key,
                allowed=self.allowed,
                got=shown(value),
            )


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= LONGEST


def _free_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _factory(value: Any) -> bool:
    where, _, call = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(where.strip()) and call.isidentifier()


def _ends(*endings: str) -> Callable[[Any], bool]:
    return lambda value: _text(value) and value.lower().endswith(endings)


def _table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key_or_index(value: Any) -> bool:
    return _text(value) or (isinstance(value, int) and not isinstance(value, bool))


def _window(value: Any) -> bool:
    return _is_list(value) and len(value) in (2, 3) and all(map(SIDE.accepts, value))


def _all_or_names(value: Any) -> bool:
    return isinstance(value, bool) or (_is_list(value) and all(map(_text, value)))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


SOURCES = ("factory", "checkpoint", "onnx")  # exactly one says where the network comes from
TEXT, NAMES = "text", "true, false, or a list of names of classes"
ENTRIES: tuple[Entry, ...] = (
    Entry("source", "", "the images it was trained on", TEXT, _free_text),
    Entry("licence", "", "of the weights", TEXT, _free_text),
    Entry("citation", "", "what to cite", TEXT, _free_text),
    Entry("note", "", "what users must know", TEXT, _free_text),
    Entry(
        "calibration",
        "",
        "written by sitta calibrate",
        "the name of a .json file beside the profile",
        _ends(".json"),
    ),
    Entry(
        "factory",
        "model",
        "a function that returns the network",
        "file.py:function or package.module:function",
        _factory,
    ),
    Entry("arguments", "model", "its keyword arguments", "a table", _table),
    Entry(
        "weights",
        "model",
        "relative to this file",
        "a .safetensors, .pt, .pth or .ckpt file",
        _ends(".safetensors", ".pt", ".pth", ".ckpt", ".bin"),
    ),
    Entry("checkpoint", "model", "a model of the zoo, or a checkpoint of Sitta", TEXT, _text),
    Entry("onnx", "model", "a graph of sitta export", "an .onnx file", _ends(".onnx")),
    Entry(
        "output",
        "model",
        "where the segmentation is, if the network returns several things",
        'a key such as "out", or an index such as 0',
        _key_or_index,
    ),
    Entry(
        "activation",
        "model",
        "what the network returns",
        ", ".join(ACTIVATIONS),
        lambda value: isinstance(value, str) and value in ACTIVATIONS,
    ),
    Entry("window", "inference", "sides of a sliding window", "2 or 3 whole numbers", _window),
    Entry(
        "overlap", "inference", "of windows, a share of their sides", SHARE.allowed(), SHARE.accepts
    ),
    Entry(
        "statistics",
        "inference",
        "of the whole volume, or of each window",
        "volume, window",
        lambda value: value in ("volume", "window"),
    ),
    Entry("largest_component", "postprocess", "keep the largest part", NAMES, _all_or_names),
    Entry("fill_holes", "postprocess", "fill holes", NAMES, _all_or_names),
)
OF_CLASS: tuple[Entry, ...] = (
    Entry("name", "classes", "", TEXT, _text),
    Entry(
        "colour",
        "classes",
        "",
        "a colour such as #d55e00",
        lambda value: isinstance(value, str) and bool(COLOUR.fullmatch(value)),
    ),
    Entry("threshold", "classes", "", PROBABILITY.allowed(), PROBABILITY.accepts),
)
LIMITS: tuple[Entry, ...] = (
    Entry("agreement", "trust", "below it, members disagree", "a number", _number),
    Entry("distance", "trust", "above it, an image is far from the source", "a number", _number),
    Entry("images", "trust", "from which both were found", "a number", _number),
    Entry("rule", "trust", "by which both were found", TEXT, _free_text),
)
TABLES = ("model", "classes", "preprocess", "inference", "postprocess", "trust")


def of_table(name: str) -> dict[str, Entry]:
    """Entries of a table by their keys."""
    return {entry.key: entry for entry in (*ENTRIES, *OF_CLASS, *LIMITS) if entry.table == name}


def read_table(values: Any, entries: Mapping[str, Entry], *more: str) -> dict[str, Any]:
    """The values of a table, if all are known and can be used; ``more`` are other known keys."""
    if not isinstance(values, Mapping):
        raise ProfileError("This is not a table.", got=shown(values))
    allowed = [*entries, *more]
    for key, value in values.items():
        if key not in allowed:
            what = f"There is no entry {shown(key)} here.{did_you_mean(key, allowed)}"
            raise ProfileError(what, allowed=", ".join(allowed))
        if key in entries:
            entries[key].check(value)
    return {key: value for key, value in values.items() if key in entries}
