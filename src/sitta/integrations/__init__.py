"""Sitta inside other frameworks: MONAI and nnU-Net."""
