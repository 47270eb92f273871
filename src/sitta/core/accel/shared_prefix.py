"""Layers before the first normalisation see the same rows for every member: compute them once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class SharedPrefix:
    """Which tensors of the pass under way hold the same N rows for every member."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """End the pass."""
        self._times, self._tensors = 1, list[tuple[weakref.ref[Tensor], int]]()

    def begin(self, rows: Tensor, times: int) -> None:
        """Begin a pass in which ``rows`` holds its first rows so many times."""
        self.forget()
        self._times = times
        self._note(rows)

    def _note(self, rows: Tensor) -> None:
        if self._times > 1 and not rows.is_inference():  # those do not count their changes
            self._tensors.append((weakref.ref(rows), rows._version))

    def once(self, layer: Callable[[Tensor], Tensor], x: Any) -> Tensor:
        """What ``layer`` makes of ``x``, computed for one member if all have the same rows."""
        if not isinstance(x, Tensor) or not any(
            ref() is x and x._version == version for ref, version in self._tensors
        ):
            return layer(x)
        y = layer(x[: len(x) // self._times])
        y = torch.cat([y] * self._times)  # keeps the memory format
        self._note(y)
        return y


class SharedPrefixForward(nn.Module):
    """Comes before the class of a layer that sees each row by itself."""

    prefix: SharedPrefix

    def forward(self, input: Tensor) -> Tensor:
        """As the layer's, once for all members if they have the same rows."""
        if getattr(self, "inplace", False):  # its input changes with it, in all rows
            return super().forward(input)  # type: ignore[no-any-return]
        return self.prefix.once(super().forward, input)
