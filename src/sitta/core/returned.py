"""What a network returned: its entries by name, and the one that is the segmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from sitta.errors import InvalidSetting, UnsupportedModel

Output = str | int | Callable[[Any], Tensor] | None


def logits_of(raw: Any, output: Output, shape: Sequence[int]) -> Tensor:
    """The tensor of logits in what the model returned for rows of this shape."""
    if isinstance(raw, Tensor) and not (output is None or callable(output)):
        raise InvalidSetting(
            f"The model returns one tensor, in which there is no output {output!r} to choose.",
            fix="leave output= out",
        )
    try:
        chosen = choose(raw, output)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InvalidSetting(
            f"output={output!r} is not in what the model returns.", allowed=describe(raw)
        ) from error
    if not isinstance(chosen, Tensor):
        raise UnsupportedModel(
            "The model does not return a tensor of logits.",
            got=describe(chosen),
            fix="name the logits by output=, a key, an index or a function of what it returns",
        )
    if chosen.dim() < 3 or chosen.shape[0] != shape[0] or not chosen.is_floating_point():
        raise UnsupportedModel(
            "The model's output is not a map of logits (N, C, *S) with a row for each image.",
            got=f"{describe(chosen)} for an input of shape {tuple(shape)}",
            fix=remedy(chosen, tuple(shape[2:])),
        )
    return chosen


def choose(raw: Any, output: Output) -> Any:
    """What a model returned at an output: a key, an index, an attribute, or a path of them.

    Example:
        >>> choose({"maps": ["large", "small"]}, "maps.0")
        'large'
    """
    if output is None or callable(output):
        return raw if output is None else output(raw)
    if isinstance(output, int) or (isinstance(raw, Mapping) and output in raw):
        return raw[output]
    head, _, rest = output.partition(".")
    if isinstance(raw, Mapping):
        inner = raw[head]
    else:
        inner = raw[int(head)] if head.isdecimal() else getattr(raw, head)
    return choose(inner, rest) if rest else inner


def entries(raw: Any) -> Iterator[tuple[str | int, Any]]:
    """What a model returned as names and values: of a dict, a sequence or a dataclass."""
    if isinstance(raw, Mapping):
        yield from ((key, raw[key]) for key in raw if isinstance(key, str | int))
    elif isinstance(raw, tuple | list):
        yield from enumerate(raw)
    elif is_dataclass(raw):
        yield from ((each.name, getattr(raw, each.name)) for each in fields(raw))


def remedy(returned: Tensor, sides: Sequence[int]) -> str:
    """How a map ``(N, C, *S)`` of these sides S would come from what a network returned."""
    sides, shape = tuple(sides), tuple(returned.shape)
    if not returned.is_floating_point():
        how = "gives the scores from which these labels are made"
    elif shape[1:] == sides:
        how = "adds an axis of channels, with .unsqueeze(1)"
    elif len(shape) == len(sides) + 2 and shape[1:-1] == sides:
        how = "puts the channels first, with .movedim(-1, 1)"
    else:
        how = "brings the map back to the size of the input, with torch.nn.functional.interpolate"
    return f"let its factory return a module that {how}"


def describe(raw: Any) -> str:
    """The structure of what a network returned."""
    if isinstance(raw, Tensor):
        return f"a tensor of shape {tuple(raw.shape)} and type {raw.dtype}"
    if isinstance(raw, Mapping):
        return f"a dict with the keys {', '.join(map(repr, raw))}"
    if isinstance(raw, (tuple, list)):
        return f"a {type(raw).__name__} of {len(raw)}, to be indexed from 0 to {len(raw) - 1}"
    if is_dataclass(raw):
        return f"a {type(raw).__name__} with {', '.join(repr(name) for name, _ in entries(raw))}"
    return type(raw).__name__
