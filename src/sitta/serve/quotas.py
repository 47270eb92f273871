"""How much one client may ask for, and how much is kept for how long."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sitta._util.settings import check, option

count = partial(option, low=1, whole=True)


@dataclass(frozen=True)
class Limits:
    """What the service takes and keeps. Plain numbers, so that they travel to the workers."""

    upload_bytes: int = count(2**28, "of one request, all files together")
    pixels: int = count(2**25, "rows x columns x slices x channels of one image")
    slices: int = count(512, "of one volume")
    files: int = count(512, "of one request, the slices of a DICOM series")
    seconds: float = option(120.0, "to read and adapt one image; then its worker ends", above=0.0)
    queue: int = count(16, "requests that wait, besides those at a worker", low=0)
    keep_bytes: int = count(2**31, "of all results; the oldest go first")
    keep_seconds: float = option(3600.0, "how long a result is kept", above=0.0)
    memory_bytes: int = count(
        2**32, "address space of a worker besides what its models need", low=2**26
    )
    passes: int = count(400, "forward passes for one image, which bound settings")

    def __post_init__(self) -> None:
        check(self)
