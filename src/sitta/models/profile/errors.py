"""Mistakes in a profile: each names the file and the place, such as ``classes[1].threshold``."""

from sitta._util.placed import PlacedError


class ProfileError(PlacedError):
    """A profile that cannot be used."""
