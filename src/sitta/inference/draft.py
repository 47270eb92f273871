"""The first draft of a profile, from what a network shows: commented TOML, ready to be edited."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sitta._util.settings import constraints
from sitta.core.census import census
from sitta.core.returned import Output as Where
from sitta.core.returned import describe, remedy
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.inference.probe import (
    BASES,
    NO_MAP,
    USUAL,
    Output,
    all_maps,
    described,
    fitting_side,
    noise,
    run,
    smallest_multiple,
)
from sitta.models.profile import Profile
from sitta.models.profile.entries import VERSION
from sitta.models.profile.writing import value

CHECK = "CHECK"  # marks what the network cannot tell
SIDE = {2: 256, 3: 64}  # of the input, if any multiple will do


@dataclass(frozen=True)
class Seen:
    """What a network shows."""

    channels: int  # of its input
    dims: int
    side: int  # of an image that it takes
    multiple: int | None  # sides must be multiples of this; None if only that side is known
    outputs: tuple[Output, ...]

    @property
    def whole(self) -> list[Output]:
        """Outputs of the size of the image."""
        return [one for one in self.outputs if set(one.sides) == {self.side}]

    @property
    def output(self) -> Output | None:
        """The one that is the segmentation, if that is clear."""
        whole = self.whole
        usual = [one for one in whole if one.key in USUAL]
        alone = len(whole) == 1 or len(usual) == 1
        return (usual or whole)[0] if alone else None


def look(model: nn.Module, channels: int | None = None, output: Where = None) -> Seen:
    """Run a network on noise, and on several sizes."""
    about = census(model)
    dims, channels = about.rank or 2, channels or about.in_channels or 1
    side = fitting_side(model, channels, dims) if dims in SIDE else None
    if side is None:
        raise _no_map(model, channels, dims)
    outputs = described(run(model, noise(channels, [side] * dims)))
    multiple = smallest_multiple(model, channels, dims, side)
    kept = outputs if output is None else tuple(one for one in outputs if one.key == output)
    if not kept:
        raise InvalidSetting(
            "The network returns no such output.",
            allowed="; ".join(map(str, outputs)),
            got=str(output),
        )
    return Seen(channels, dims, side, multiple, kept)


def _no_map(model: nn.Module, channels: int, dims: int) -> UnsupportedModel:
    """Why no side was found: what the network returns instead, or how it fails."""
    sides = [BASES.get(dims, (64,))[0]] * dims
    try:
        raw = run(model, noise(channels, sides))
    except Exception as error:  # a user's network has its own kinds
        got = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        fix = "say how many channels it takes (--channels), or let its factory return a module "
        fix += "that takes an image and nothing else"
    else:
        maps = tuple(all_maps(raw))
        got = "; ".join(map(str, described(raw))) or describe(raw)
        first = maps[0][1] if maps else raw
        fix = remedy(first, sides) if isinstance(first, Tensor) else NO_MAP
    size = " x ".join(map(str, sides))
    return UnsupportedModel(
        "The network returns no map of the size of its input.",
        allowed=f"a map of {size} for an image of {channels} x {size}",
        got=got,
        fix=fix,
    )


def require_readable(text: str, folder: Path, seen: Seen) -> None:
    """Refuse a draft whose given entries do not go together, before it is written."""
    profile = Profile.from_dict(tomllib.loads(text), folder=folder)
    size = profile.preprocess and profile.preprocess.size
    multiple = seen.multiple or 1
    if size and any(side % multiple for side in size):
        fits = "x".join(str(-(-side // multiple) * multiple) for side in size)
        raise InvalidSetting(
            "The network does not take images of these sides.",
            allowed=f"multiples of {multiple}",
            got="x".join(map(str, size)),
            fix=f"--size {fits}, or another that was used in training",
        )
    output = _read(seen, profile.output)
    exclusive = output and output.channels > 1 and "sigmoid" not in (profile.activation or "")
    count = output.channels - bool(exclusive) if output else None
    if count and profile.names and len(profile.names) != count:
        raise InvalidSetting(
            f"The network has {count} classes besides the background."
            if exclusive
            else f"The network has {count} label{'s' if count > 1 else ''}.",
            allowed=f"{count} names",
            got=", ".join(profile.names),
        )


def draft(
    seen: Seen,
    factory: str,
    *,
    weights: Path | None = None,
    said: dict[str, Any] | None = None,
) -> str:
    """The file: what the network shows is filled in, what it cannot show is marked to be checked.

    ``said`` holds ``output``, ``activation``, ``classes`` and fields of the preprocessing that are
    known already.
    """
    said = said or {}
    blocks = (
        _head(factory),
        _model(seen, factory, weights, said),
        _classes(seen, said),
        _preprocess(seen, said),
        _rest(seen),
    )
    return "\n".join("\n".join([*block, ""]) for block in blocks)


def _head(factory: str) -> Iterator[str]:
    yield f"# Profile of {factory}: what Sitta needs to know of this model."
    yield f"# Lines marked {CHECK} are what the network itself cannot tell."
    yield f"profile = {VERSION}"
    yield '# source = "hospital-a"  # the images it was trained on'
    yield '# licence = ""           # of the weights'
    yield '# citation = ""'
    yield '# note = ""              # what users must know'


def _model(seen: Seen, factory: str, weights: Path | None, said: dict[str, Any]) -> Iterator[str]:
    yield "[model]"
    yield f"factory = {value(factory)}"
    given = said.get("arguments")
    yield f"arguments = {value(given)}" if given else "# arguments = { width = 32 }"
    yield f"weights = {value(str(weights))}" if weights else '# weights = "weights.safetensors"'
    yield from _output(seen, said.get("output"))
    yield from _activation(_read(seen, said.get("output")), said.get("activation"))


def _output(seen: Seen, said: Any) -> Iterator[str]:
    if [one.key for one in seen.outputs] == [None]:
        return
    many = f"{len(seen.outputs)} maps" if len(seen.outputs) > 1 else "one map among other things"
    yield f"# The network returns {many}, for an image of side {seen.side}:"
    yield from (f"#   {one}" for one in seen.outputs)
    if len(seen.whole) < len(seen.outputs):
        yield "# Smaller ones are for training (deep supervision)."
    chosen = said if said is not None else seen.output and seen.output.key
    if chosen is not None:
        yield f"output = {value(chosen)}"
    else:
        keys = " or ".join(value(one.key) for one in seen.whole)
        yield f"# output = ...  # {CHECK}: {keys}; which one is the segmentation?"


def _activation(output: Output | None, said: str | None) -> Iterator[str]:
    if said is not None:
        yield f"activation = {value(said)}"
        return
    if output is None:
        yield f'# activation = "logits"  # {CHECK}, once the output is chosen'
        return
    span = f"values from {output.low:.3g} to {output.high:.3g} on noise"
    if output.hard:
        yield f"# {CHECK}: all values are 0 or 1. A mask has no probabilities to weigh."
    if output.activation == "logits":
        yield f'# activation = "logits"  # seen: {span}'
        if output.channels > 1:
            yield f'# activation = "sigmoid"  # {CHECK}: if the classes may overlap'
    else:
        sums = ", which sum to 1" if output.sums_to_one else ""
        sure = output.channels == 1 or output.sums_to_one
        seen = "seen" if sure else f"{CHECK}: labels that may overlap? Seen"
        yield f"activation = {value(output.activation)}  # {seen}: {span}{sums}"


def _read(seen: Seen, said: Any) -> Output | None:
    named = [one for one in seen.outputs if said is not None and one.key == said]
    return named[0] if named else seen.output


def _classes(seen: Seen, said: dict[str, Any]) -> Iterator[str]:
    output = _read(seen, said.get("output"))
    names: Sequence[str] = said.get("classes") or ()
    if output is None and not names:
        yield f"# [[classes]]  # {CHECK}: one table for each class but the background"
        yield '# name = "vessel"'
        return
    channels = output.channels if output else 0
    overlapping = "sigmoid" in (said.get("activation") or (output.activation if output else ""))
    exclusive = channels > 1 and not overlapping
    if not names:
        count = channels - exclusive
        names = ["foreground"] if count == 1 else [f"class {n}" for n in range(1, count + 1)]
    kind = "class 0 is the background and has no table" if exclusive else "one for each channel"
    told = f"{channels} channel{'s' if channels > 1 else ''}"
    yield f"# {told}: {kind}. {CHECK} the names and their order."
    for number, name in enumerate(names):
        yield "[[classes]]"
        yield f"name = {value(name)}"
        if not number:
            yield '# colour = "#d55e00"'
            yield "# threshold = 0.5       # probability that a pixel must exceed"


def _preprocess(seen: Seen, said: dict[str, Any]) -> Iterator[str]:
    rules = {name: rule for name, (_, rule) in constraints(Preprocess).items()}
    told = {name: v for name, v in said.items() if name in rules and v is not None}
    yield "[preprocess]"
    yield f"dims = {told.pop('dims', seen.dims)}"
    yield f"channels = {told.pop('channels', seen.channels)}"
    if told.get("fit") != "none":
        size = value(list(told.pop("size", None) or [_side(seen)] * seen.dims))
        why = "only this was found to work"
        if seen.multiple is not None:
            why = f"sides must be multiples of {seen.multiple}" if seen.multiple > 1 else "any size"
        yield f"size = {size}  # {CHECK}: as in training; {why}"
    fit, scale = told.pop("fit", None), told.pop("scale", None)
    yield f"fit = {value(fit)}" if fit else f'fit = "resize"  # {CHECK}: {rules["fit"].help}'
    if scale:
        yield f"scale = {value(scale)}"
    else:
        yield f"# {CHECK}: how were images scaled in training? One of {rules['scale'].range}"
        yield '# scale = "min-max"'
    yield from (
        f"{name} = {value(list(v) if isinstance(v, tuple) else v)}" for name, v in told.items()
    )


def _side(seen: Seen) -> int:
    wanted, multiple = SIDE[seen.dims], seen.multiple
    return seen.side if multiple is None else -(-wanted // multiple) * multiple


def _rest(seen: Seen) -> Iterator[str]:
    yield "# [inference]             # for inputs too large for one pass"
    yield f"# window = {value([_side(seen)] * seen.dims)}"
    yield "# overlap = 0.25"
    yield ""
    yield "# [postprocess]           # true, or names of classes"
    yield "# largest_component = true"
    yield "# fill_holes = true"
