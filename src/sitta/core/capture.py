"""Statistics of images, captured in one pass and replayed in others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from sitta.errors import UnsupportedModel


class CapturedStatistics:
    """Statistics of the images in every layer, in the order in which the layers were called.

    Filled by the pass that captures, replayed by passes over further members. The numbers go to one
    block reserved before the pass: small tensors that outlive it, scattered among its large ones,
    would keep the allocator from reusing that memory.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[str, Tensor, Tensor]] = []
        self._room = torch.empty(0)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        return iter(self._entries)

    def begin(self, numbers: int, like: Tensor) -> None:
        """Empty it, and make room for this many numbers, in the type of ``like``."""
        self._entries.clear()
        self._room = torch.empty(numbers, dtype=like.dtype, device=like.device)

    def write(self, layer: str, mean: Tensor, var: Tensor) -> None:
        """Add what ``layer`` saw."""
        self._entries.append((layer, self._keep(mean), self._keep(var)))

    def _keep(self, values: Tensor) -> Tensor:
        values = values.detach()
        if values.numel() > self._room.numel() or values.dtype != self._room.dtype:
            return values  # a layer used twice: more than was foreseen
        kept, self._room = self._room.split([values.numel(), self._room.numel() - values.numel()])
        block: Tensor = kept.view_as(values)
        return block.copy_(values)

    @classmethod
    def pooled(cls, windows: Sequence[CapturedStatistics]) -> CapturedStatistics:
        """Statistics of one image from those of its windows, as of all their pixels together."""
        whole = cls()
        for entries in zip(*(window._entries for window in windows), strict=True):
            if len({layer for layer, _, _ in entries}) > 1:
                raise UnsupportedModel("The model takes another path in some windows.")
            means = torch.stack([mean for _, mean, _ in entries])  # (windows, N, C)
            mean = means.mean(dim=0)
            inside = torch.stack([var for _, _, var in entries]).mean(dim=0)
            whole.write(entries[0][0], mean, inside + (means - mean).square().mean(dim=0))
        return whole

    def read(self, position: int, layer: str) -> tuple[Tensor, Tensor]:
        """What was seen at ``position``, which must stem from ``layer``."""
        if position < len(self) and self._entries[position][0] == layer:
            return self._entries[position][1:]
        raise UnsupportedModel(
            f"The model calls layer '{layer}' for some members only: its path through the network "
            "depends on the values that it sees.",
            fix="use statistics='in-layer'",
        )
