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
        _check_output(loaded, part, "window" if window else "size")
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


def _check_output(loaded: Loaded, values: Array, sides: str) -> None:
    """Refuse what no image would get right."""
    import torch

    from sitta.core.twin import logits_of
    from sitta.inference.probe import described, run

    image = torch.from_numpy(np.ascontiguousarray(values))
    try:
        raw = run(loaded.model, image)  # type: ignore[arg-type]  # no graph
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise _failed(loaded, image, error, sides) from error
    if loaded.profile.output is None and not isinstance(raw, torch.Tensor):
        raise _several(raw)
    chosen = logits_of(raw, loaded.profile.output, image.shape)
    _check_sides(image, chosen)
    if not torch.isfinite(chosen).all() and float(image.std()) > 0:
        raise UnsupportedModel(
            "The network returns values that are not finite numbers, before any adaptation.",
            got=f"{int((~torch.isfinite(chosen)).sum())} of {chosen.numel()}",
            fix="check its weights, and scale under [preprocess] (--scale)",
        )
    if chosen.dim() >= 4:
        output = described(chosen)[0]
        _check_activation(loaded.profile.activation, output)
        _check_classes(loaded, output)


def _several(raw: Any) -> UnsupportedModel:
    """Which output is the segmentation has to be said."""
    from sitta.inference.probe import described

    maps = described(raw)
    key = next((one.key for one in reversed(maps)), 0)
    shown = f'"{key}"' if isinstance(key, str) else key
    return UnsupportedModel(
        "The network returns several things, of which one is the segmentation.",
        got="; ".join(map(str, maps)) or type(raw).__name__,
        fix=f"say which, such as output = {shown} under [model] (--output {key})",
    )


def _check_sides(image: Tensor, chosen: Tensor) -> None:
    if chosen.shape[2:] != image.shape[2:]:
        raise UnsupportedModel(
            "The network returns a map of another size than its input.",
            allowed=_sides(image),
            got=_sides(chosen),
            fix="let its factory return a module that brings the map back to the size of the "
            "input, with torch.nn.functional.interpolate",
        )


def _check_activation(said: str | None, output: Output) -> None:
    """Refuse probabilities that are read as logits, and logits that are read as probabilities."""
    seen, values = output.activation, f"values from {output.low:.4g} to {output.high:.4g}"
    if said in INSIDE:
        exact = said == "probabilities" and seen == "probabilities-sigmoid"
        if seen != "logits" and not exact:
            return
        fix = f'activation = "{seen}" under [model] (--activation {seen})'
        why = "do not sum to 1 over their channels" if exact else "are not between 0 and 1"
        raise UnsupportedModel(
            f"The network returns values that {why}, so they are no {said}.", got=values, fix=fix
        )
    if seen == "logits" or said == "logits":
        return
    whole = ", which sum to 1" if output.sums_to_one else ""
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
