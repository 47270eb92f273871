"""Rewrites of a graph's nodes. Those of a target keep the numbers and change only the speed."""

from __future__ import annotations

from sitta.export.passes.winograd import Winograd

# Passes for each target of ``sitta export``. Libraries for GPUs have schemes of their own.
TARGETS: dict[str, tuple[type[Winograd], ...]] = {"cpu": (Winograd,), "any": ()}
