"""Old names that still work: each is declared once, and warns until the version that removes it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass


@dataclass(frozen=True)
class Deprecation:
    """An old name of something public, and what to write instead."""

    old: str
    use: str
    since: str  # version that first warned
    removed: str  # version that no longer knows it

    def __str__(self) -> str:
        return (
            f"{self.old} is deprecated since Sitta {self.since} and will be removed in "
            f"{self.removed}: use {self.use}."
        )

    def warn(self, stacklevel: int = 3) -> None:
        """Warn whoever called the function that calls this.

        A ``FutureWarning`` is shown by default; Python hides a ``DeprecationWarning`` outside of
        ``__main__``, so that users would first learn of a removal when it happens.
        """
        warnings.warn(str(self), FutureWarning, stacklevel=stacklevel)


EXPORT_WINOGRAD = Deprecation("winograd= of export_onnx", 'target="cpu" or "any"', "0.2", "0.4")
EXPORT_OPTION = Deprecation("sitta export --no-winograd", "--target any", "0.2", "0.4")
DEPRECATIONS = (EXPORT_WINOGRAD, EXPORT_OPTION)
