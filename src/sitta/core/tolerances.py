"""Tolerances: smaller differences are rounding. Nothing here needs torch."""

FLAT = 1e-6  # bits: members whose scores differ by less have equal weights
