"""How much one client may ask for, and how much is kept for how long."""

from __future__ import annotations

from dataclasses import dataclass

from sitta.settings import Rule, check, setting


@dataclass(frozen=True)
class Limits:
    """What the service takes and keeps. Plain numbers, so that they travel to the workers.

    Args:
        upload_bytes: Of one request, all its files together.
        pixels: Values of one image or volume: rows x columns x slices x channels.
        slices: Of one volume.
        files: Of one request, the slices of a DICOM series.
        seconds: For reading and adapting one image, after which its worker is ended.
        queue: Requests that wait, besides those that are worked on.
        keep_bytes: Of all results together; the oldest go first.
        keep_seconds: How long a result is kept.
        memory_bytes: Address space that a worker may take besides what its models need.
        passes: Through the network for one image, by which settings are bounded.

    Example:
        >>> Limits(files=2).files
        2
    """

    upload_bytes: int = setting(2**28, Rule("bytes of one request", low=1, whole=True))
    pixels: int = setting(2**25, Rule("values of one image or volume", low=1, whole=True))
    slices: int = setting(512, Rule("slices of a volume", low=1, whole=True))
    files: int = setting(512, Rule("files of a DICOM series", low=1, whole=True))
    seconds: float = setting(120.0, Rule("for one image", above=0.0))
    queue: int = setting(16, Rule("requests that wait", low=0, whole=True))
    keep_bytes: int = setting(2**31, Rule("bytes of all results", low=1, whole=True))
    keep_seconds: float = setting(3600.0, Rule("age of a result", above=0.0))
    memory_bytes: int = setting(2**32, Rule("bytes a worker may add", low=2**26, whole=True))
    passes: int = setting(400, Rule("passes for one image", low=1, whole=True))

    def __post_init__(self) -> None:
        check(self)

    def told(self) -> dict[str, float]:
        """What clients should know."""
        names = ("upload_bytes", "pixels", "slices", "files", "seconds", "keep_seconds")
        return {name: getattr(self, name) for name in names}
