"""The places of a network's parameters, where other tensors can stand in for one pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

Slot = tuple[dict[str, nn.Parameter | None], str]


class Slots:
    """Where each parameter of a network stands, under all its names.

    ``torch.func.functional_call`` does this too, but looks every name up in every pass, some
    milliseconds for a U-Net, and leaves a layer that has two names with the tensors it was lent.

    Args:
        module: The network. Its parameters must stay the same objects.

    Example:
        >>> import torch
        >>> net = nn.Linear(1, 1)
        >>> with Slots(net).lend({"weight": torch.ones(1, 1), "bias": torch.ones(1)}):
        ...     net(torch.ones(1, 1)).item()
        2.0
    """

    def __init__(self, module: nn.Module) -> None:
        places: dict[int, list[Slot]] = defaultdict(list)
        for part in module.modules():
            for key, parameter in part._parameters.items():
                if parameter is not None:
                    places[id(parameter)].append((part._parameters, key))
        self._slots = {n: places[id(p)] for n, p in module.named_parameters()}

    @contextmanager
    def lend(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Put tensors in place of the parameters of these names, until the block ends."""
        slots = [(slot, t) for name, t in tensors.items() for slot in self._slots[name]]
        before = [holder[key] for (holder, key), _ in slots]
        try:
            for (holder, key), tensor in slots:
                holder[key] = tensor  # type: ignore[assignment]  # a layer takes any tensor
            yield
        finally:
            for ((holder, key), _), own in zip(slots, before, strict=True):
                holder[key] = own
