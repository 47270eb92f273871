"""Images to work on."""

from sitta.data import phantom

__all__ = ["phantom"]
