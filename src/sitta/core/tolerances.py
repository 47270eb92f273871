"""Below which differences are rounding. Nothing here needs torch."""

FLAT = 1e-6  # bits: the range of the members' scores under which all of them count alike
