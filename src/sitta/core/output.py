"""How the output of a network is read: where the segmentation is, and whether it has logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from sitta.core.activations import ACTIVATIONS, INSIDE
from sitta.core.twin import Output
from sitta.errors import InvalidSetting


@runtime_checkable
class Described(Protocol):
    """The part of a profile that describes the output of the network."""

    output: Any
    activation: str | None
    thresholds: tuple[float | None, ...]


@dataclass(frozen=True)
class FromProbabilities:
    """Logits of a network that returns probabilities: safe where they are 0 or 1.

    Example:
        >>> import torch
        >>> logits = FromProbabilities()(torch.tensor([[[[0.0, 0.5, 1.0]]]]))
        >>> [round(p, 3) for p in logits.sigmoid().flatten().tolist()]
        [0.0, 0.5, 1.0]
    """

    output: Any = None  # where they are: as ``Output``
    overlapping: bool = False  # whether several channels are labels that may overlap

    def __call__(self, raw: Any) -> Any:
        """The logits in what the network returned."""
        if isinstance(raw, Tensor) and isinstance(self.output, str | int):
            raise InvalidSetting(
                "The model returns one tensor, in which there is no output "
                f"{self.output!r} to choose.",
                fix="leave output= out",
            )
        chosen = _chosen(raw, self.output)
        if not isinstance(chosen, Tensor) or chosen.dim() < 2:
            return chosen  # which is refused where logits are
        return to_logits(chosen, self.overlapping)


def _chosen(raw: Any, output: Any) -> Any:
    if output is None:
        return raw
    return output(raw) if callable(output) else raw[output]


def to_logits(probabilities: Tensor, overlapping: bool = False) -> Tensor:
    """Logits ``(N, C, *S)`` of probabilities, whose sigmoid or softmax gives them back."""
    p = probabilities if probabilities.element_size() > 2 else probabilities.float()
    least = torch.finfo(p.dtype).eps
    if p.shape[1] > 1 and not overlapping:
        return p.clamp(min=least).log()
    p = p.clamp(least, 1 - least)
    return p.log() - (1 - p).log()


def as_described(model: nn.Module, output: Output, activation: str) -> tuple[Output, str]:
    """Where the logits are and how they are read, by the caller, or else the model's profile."""
    profile = getattr(model, "profile", None)
    if isinstance(profile, Described):
        output = profile.output if output is None else output
        activation = (profile.activation or "auto") if activation == "auto" else activation
    if activation in INSIDE and not isinstance(output, FromProbabilities):
        output = FromProbabilities(output, ACTIVATIONS[activation] == "sigmoid")
    return output, ACTIVATIONS.get(activation, activation)


def thresholds_of(model: nn.Module) -> tuple[float | None, ...]:
    """The threshold of each class in the model's profile; empty if it has none."""
    profile = getattr(model, "profile", None)
    return profile.thresholds if isinstance(profile, Described) else ()
