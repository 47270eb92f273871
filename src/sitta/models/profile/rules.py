"""What the entries of a profile must be together; each entry alone is checked by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sitta._util.untrusted import shown
from sitta.models.profile.entries import SOURCES
from sitta.models.profile.errors import ProfileError

if TYPE_CHECKING:
    from sitta.models.profile.record import Profile

LONGEST_LIST = 500  # characters of the names of classes, in a message


def check_source(profile: Profile) -> None:
    """The network comes from one place, and what goes with it fits."""
    given = [name for name in SOURCES if getattr(profile, name)]
    if len(given) > 1:
        raise ProfileError(
            "The network comes from two places.",
            "model",
            allowed=f"one of {', '.join(SOURCES)}",
            got=" and ".join(given),
        )
    for name in ("weights", "arguments"):
        if getattr(profile, name) and not profile.factory:
            raise ProfileError(
                f"'{name}' goes with a factory.",
                "model",
                name,
                allowed='factory = "file.py:function" beside it',
                got=", ".join(given) or "no factory",
            )
    for name in ("output", "activation"):
        if profile.onnx and getattr(profile, name) is not None:
            raise ProfileError(
                f"'{name}' is part of an exported graph.", "model", name, fix="leave it out"
            )
    if profile.onnx and profile.window:
        raise ProfileError(
            "An exported graph takes each input whole: no window slides over it.",
            "inference",
            "window",
            fix="leave it out, or give what the graph was exported from",
        )


def check_window(profile: Profile) -> None:
    """A window has a side for each dimension."""
    dims = profile.preprocess.dims if profile.preprocess else 0
    if profile.window and dims and len(profile.window) != dims:
        raise ProfileError(
            "A window needs one number a side.",
            "inference",
            "window",
            allowed=str(dims),
            got=str(list(profile.window)),
        )


def check_classes(profile: Profile) -> None:
    """Names of classes are there once, and those of the post-processing are there."""
    seen: set[str] = set()
    for number, one in enumerate(profile.classes):
        if one.name.lower() == "background":
            raise ProfileError(
                "The background has no table: it is class 0.",
                "classes",
                number,
                fix="leave it out",
            )
        if one.name in seen:
            raise ProfileError(f"Two classes are called {one.name!r}.", "classes", number, "name")
        seen.add(one.name)
    for name in ("largest_component", "fill_holes"):
        value = getattr(profile, name)
        unknown = [one for one in ([] if isinstance(value, bool) else value) if one not in seen]
        if unknown:
            raise ProfileError(
                f"There is no class {shown(unknown[0])}.",
                "postprocess",
                name,
                allowed=", ".join(profile.names)[:LONGEST_LIST] or "true, or names of [[classes]]",
            )
