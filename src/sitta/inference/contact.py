"""First contact: one image goes through a network before a folder does, and all is checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.core.activations import ACTIVATIONS, INSIDE
from sitta.data.image import Array
from sitta.errors import (
    InvalidImage,
    InvalidSetting,
    SittaError,
    UnsupportedModel,
    is_out_of_memory,
)
from sitta.inference.backends.onnx import Graph
from sitta.inference.loading import Loaded

if TYPE_CHECKING:
    from torch import Tensor

    from sitta.inference.probe import Output

MOST = 5  # outputs of a network that a message names
FAR = 20.0  # inputs of networks are most often between -5 and 5
TABLE = {"size": "preprocess", "window": "inference"}  # of a profile
LOGITS = 'activation = "logits" under [model] (--activation logits)'


def first_contact(
    loaded: Loaded, values: Array, window: tuple[int, ...] | None = None
) -> list[str]:
    """Check one image ``(N, C, *S)`` on its way through the unadapted network.

    What would make every file wrong is an error, with what to do about it. What may be as it
    should is returned, in sentences. What a network that Sitta trained or exported returns is
    known: of such, only what it takes is checked.
    """
    warnings = _about_inputs(loaded, values)
    if isinstance(loaded.model, Graph):
        if loaded.preprocess.size is not None:  # else each file has its own sides
            _check_graph(loaded.model, values)
        return warnings
    _check_shape(loaded, values)
    if not loaded.profile.factory:
        return warnings
    if window and len(window) != values.ndim - 2:
        raise InvalidSetting(
            "A window needs one number a side.", allowed=str(values.ndim - 2), got=str(window)
        )
    part = values[:1, :, *(slice(0, n) for n in window)] if window else values[:1]
    try:
        warnings += _check_output(loaded, part, "window" if window else "size")
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    return warnings


def noise(loaded: Loaded) -> Array:
    """One input of the size that a model takes, for want of an image."""
    inputs = loaded.preprocess
    sides = inputs.size or (64,) * inputs.dims
    values = np.random.default_rng(0).random((1, inputs.channels, *sides))
    return values.astype(np.float32)


def require_scale(loaded: Loaded) -> None:
    """Refuse to learn from images that may be scaled wrongly: it would be kept in a profile."""
    said = loaded.profile.said
    if loaded.profile.factory and said is not None and "scale" not in said:
        raise InvalidSetting(
            "Nothing says how images were scaled in training.",
            fix='say so with --scale, or scale = "..." under [preprocess]; sitta profile check '
            "with an image shows which is likely",
        )


def _about_inputs(loaded: Loaded, values: Array) -> list[str]:
    """What may be wrong with what the network is fed."""
    said, scale = loaded.profile.said, loaded.preprocess.scale
    warnings = []
    if loaded.profile.factory and said is not None and "scale" not in said:
        warnings.append(
            f"Nothing says how images were scaled in training: {scale} is assumed. Say so with "
            '--scale, or scale = "..." under [preprocess] of a profile (sitta profile new).'
        )
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if max(abs(low), abs(high)) > FAR:
        warnings.append(
            f"The network is fed values from {low:.4g} to {high:.4g} (scale {scale}), far from "
            "what networks are most often trained on. Check scale under [preprocess] (--scale)."
        )
    return warnings


def _check_graph(graph: Graph, values: Array) -> None:
    """What a graph refuses in this image it would refuse in every other."""
    try:
        graph.require_shape(values.shape)
    except InvalidImage as error:
        how = {"allowed": error.allowed, "got": error.got, "fix": error.fix}
        raise UnsupportedModel(error.what, **how) from error


def _check_shape(loaded: Loaded, values: Array) -> None:
    """Refuse other dimensions, and other channels than a network of Sitta takes."""
    from sitta.core.census import census

    model: Any = loaded.model
    about, dims, channels = census(model), values.ndim - 2, values.shape[1]
    if about.rank in (2, 3) and about.rank != dims:
        raise UnsupportedModel(
            f"The network takes images of {about.rank} dimensions.",
            allowed=str(about.rank),
            got=str(dims),
            fix=f"dims = {about.rank} under [preprocess] (--dims {about.rank})",
        )
    if not loaded.profile.factory and about.in_channels not in (None, channels):
        raise _other_channels(str(about.in_channels), str(channels))


def _other_channels(allowed: str, got: str) -> UnsupportedModel:
    return UnsupportedModel(
        "The network takes another number of channels.",
        allowed=allowed,
        got=got,
        fix=f"channels = {allowed} under [preprocess] (--channels {allowed})",
    )


def _check_output(loaded: Loaded, values: Array, sides: str) -> list[str]:
    """Refuse what no image would get right; returns what may be wrong."""
    import torch

    from sitta.core.returned import logits_of
    from sitta.inference.probe import described, run

    image = torch.from_numpy(np.ascontiguousarray(values))
    try:
        raw = run(loaded.model, image)  # type: ignore[arg-type]  # no graph
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise _failed(loaded, image, error, sides) from error
    if loaded.profile.output is None and not isinstance(raw, torch.Tensor):
        raise _several(raw, image)
    chosen = logits_of(raw, loaded.profile.output, image.shape)
    _check_sides(image, chosen)
    if not torch.isfinite(chosen).all() and float(image.std()) > 0:
        raise UnsupportedModel(
            "The network returns values that are not finite numbers, before any adaptation.",
            got=f"{int((~torch.isfinite(chosen)).sum())} of {chosen.numel()}",
            fix="check its weights, and scale under [preprocess] (--scale)",
        )
    if chosen.dim() < 4:
        return []
    output = described(chosen)[0]
    warnings = _check_activation(loaded.profile.activation, output)
    _check_classes(loaded, output)
    return warnings


def _several(raw: Any, image: Tensor) -> UnsupportedModel:
    """Which output is the segmentation has to be said."""
    from sitta.core.returned import describe
    from sitta.inference.probe import NO_MAP, described

    maps = described(raw)
    if not maps:
        return UnsupportedModel("The network returns no map.", got=describe(raw), fix=NO_MAP)
    whole = [one.key for one in maps if one.sides == tuple(image.shape[2:])] or [maps[0].key]
    keys = " or ".join(f'"{k}"' if isinstance(k, str) else str(k) for k in whole[:MOST])
    return UnsupportedModel(
        "The network returns several things, of which one is the segmentation.",
        got="; ".join(map(str, maps[:MOST])) + ("; ..." if len(maps) > MOST else ""),
        fix=f"say which: output = {keys} under [model] (--output {whole[0]})",
    )


def _check_sides(image: Tensor, chosen: Tensor) -> None:
    from sitta.core.returned import describe, remedy

    if chosen.shape[2:] != image.shape[2:]:
        raise UnsupportedModel(
            "The network returns a map of another size than its input.",
            allowed=_sides(image),
            got=_sides(chosen) if chosen.dim() == image.dim() else describe(chosen),
            fix=remedy(chosen, image.shape[2:]),
        )


def _check_activation(said: str | None, output: Output) -> list[str]:
    """Refuse probabilities that are read as logits, and logits that are read as probabilities.

    What a profile says against what is seen is returned as a warning.
    """
    seen, values = output.activation, f"values from {output.low:.4g} to {output.high:.4g}"
    if output.low == output.high:
        return [f"The network returns {output.low + 0.0:.4g} for every pixel of the first image."]
    if output.hard:
        why = "The network returns a mask: all values are 0 or 1, so there is nothing to weigh."
        if said is not None:
            return [why]
        fix = "let its factory return a module that returns the values before the threshold; if "
        fix += f'they are probabilities all the same, activation = "{seen}" under [model]'
        raise UnsupportedModel(why, fix=f"{fix} (--activation {seen})")
    if said in INSIDE:
        exact = said == "probabilities" and seen == "probabilities-sigmoid"
        if seen != "logits" and not exact:
            return []
        fix = f'activation = "{seen}" under [model] (--activation {seen})'
        why = "do not sum to 1 over their channels" if exact else "are not between 0 and 1"
        raise UnsupportedModel(
            f"The network returns values that {why}, so they are no {said}.", got=values, fix=fix
        )
    if seen == "logits":
        return []
    whole = ", which sum to 1" if output.sums_to_one else ""
    if said == "logits":
        return [
            f"The network seems to return probabilities: all values are between 0 and 1{whole}. "
            f"Check activation under [model] (--activation {seen})."
        ]
    raise UnsupportedModel(
        f"The network returns probabilities, not logits: all values are between 0 and 1{whole}.",
        got=values + (f' with activation = "{said}"' if said else ""),
        fix=f'activation = "{seen}" under [model] of its profile (--activation {seen}); if they '
        f"are logits all the same, {LOGITS}",
    )


def _check_classes(loaded: Loaded, output: Output) -> None:
    """Names that do not fit would be given to the wrong classes."""
    names, channels = loaded.profile.names, output.channels
    activation = ACTIVATIONS[loaded.profile.activation or "logits"]
    exclusive = activation == "softmax" or (activation == "auto" and channels > 1)
    if names and len(names) != channels - exclusive:
        why = "channel 0 is the background, and has no name" if exclusive else "one for each label"
        raise UnsupportedModel(
            f"The network returns {channels} channel{'s' if channels > 1 else ''}, which do not "
            f"fit the classes named: {why}.",
            allowed=f"{channels - exclusive} under [[classes]]",
            got=", ".join(names),
        )


def _failed(loaded: Loaded, image: Tensor, error: Exception, sides: str) -> SittaError:
    """Why the network failed, with what would work if that is found out."""
    from sitta.inference.probe import BASES, smallest_multiple, takes

    said = re.search(r"to have (\d+) channels, but got (\d+) channels", str(error))
    if said and int(said[2]) == image.shape[1]:
        return _other_channels(said[1], said[2])
    model: Any = loaded.model
    dims, channels = image.dim() - 2, image.shape[1]
    base = next((n for n in BASES.get(dims, ()) if takes(model, channels, [n] * dims)), None)
    multiple = base and smallest_multiple(model, channels, dims, base)
    if base and not all(n % (multiple or base) == 0 for n in image.shape[2:]):
        return _wrong_sides(image, multiple, base, sides)
    told = " ".join(str(error).split())[:500]
    return UnsupportedModel(
        f"The network fails on an image of {_sides(image)} with {channels} channels "
        f"({type(error).__name__}: {told}).",
        fix="run it once by hand on an image of this shape; sitta profile check says more",
    )


def _wrong_sides(image: Tensor, multiple: int | None, base: int, entry: str) -> SittaError:
    if multiple is None:
        fits = "x".join([str(base)] * (image.dim() - 2))
        allowed = fits.replace("x", " x ")
    else:
        fits = "x".join(str(-(-n // multiple) * multiple) for n in image.shape[2:])
        allowed = f"multiples of {multiple}"
    size = fits.replace("x", ", ")
    return UnsupportedModel(
        "The network does not take images of these sides.",
        allowed=allowed,
        got=_sides(image),
        fix=f"{entry} = [{size}] under [{TABLE[entry]}] (--{entry} {fits})",
    )


def _sides(image: Tensor) -> str:
    return " x ".join(map(str, image.shape[2:]))
