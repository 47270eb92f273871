"""Networks and their checkpoints."""

from sitta.models.checkpoint import load, save
from sitta.models.unet import UNet

__all__ = ["UNet", "load", "save"]
