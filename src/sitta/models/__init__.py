"""Networks and their checkpoints."""

from sitta.models.unet import UNet

__all__ = ["UNet"]
