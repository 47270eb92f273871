"""Temporary parameter substitution: other tensors stand in for a network's parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

Place = tuple[dict[str, nn.Parameter | None], str]


class ParameterSubstitution:
    """Where each parameter of a network stands, under all its names.

    ``torch.func.functional_call`` does this too, but looks every name up in every pass, which takes
    milliseconds for a U-Net, and never gives a layer of two names its own tensors back. The
    parameters of the network must stay the same objects.
    """

    def __init__(self, module: nn.Module) -> None:
        places: dict[int, list[Place]] = defaultdict(list)
        for part in module.modules():
            for key, parameter in part._parameters.items():
                if parameter is not None:
                    places[id(parameter)].append((part._parameters, key))
        self._places = {n: places[id(p)] for n, p in module.named_parameters()}

    @contextmanager
    def substituted(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Put tensors in place of the parameters of these names, until the block ends."""
        places = [(place, t) for name, t in tensors.items() for place in self._places[name]]
        before = [holder[key] for (holder, key), _ in places]
        try:
            for (holder, key), tensor in places:
                holder[key] = tensor  # type: ignore[assignment]  # a layer takes any tensor
            yield
        finally:
            for ((holder, key), _), own in zip(places, before, strict=True):
                holder[key] = own
