"""Images to work on: files of any format, domains on disk, preprocessing, phantoms."""

from sitta.data import domains, images, phantom
from sitta.data.preprocess import Preprocess

__all__ = ["Preprocess", "domains", "images", "phantom"]
