"""How many threads compute, and how they wait for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# A thousand turns are microseconds: long enough for the end of a short layer on an idle machine.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}


def wait_passively() -> None:
    """Let threads of OpenMP soon sleep while they wait. Call it before torch is imported.

    By default they spin: on a machine where other programs run, threads that wait then take the
    cores from the ones that they wait for. Variables that the user has set stay.
    """
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)


def use_threads(count: int | None) -> None:
    """Let torch compute with that many threads; as many as there are cores if None."""
    if count is not None:
        import torch

        torch.set_num_threads(count)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Threads of torch in a block. They change the order of sums: one gives the same anywhere."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
