"""How good a mask is: metrics of each image, by MONAI where it has them.

The rule for empty masks: if truth and prediction are both empty, all is right (Dice, IoU and
surface Dice 1, distance 0). If only one of them is, all is wrong (0), and the distance is the
image's diagonal.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from monai.metrics import (
    calibration_binning,
    compute_dice,
    compute_hausdorff_distance,
    compute_iou,
    compute_surface_dice,
)
from torch import Tensor

from sitta.bench.plan.schema import TOLERANCE
from sitta.bench.stats.rows import by_class
from sitta.inference.postprocess import cleaned
from sitta.models.profile import Profile
from sitta.prediction.prediction import Prediction

Metrics = dict[str, Any]

BINS = 15  # of the expected calibration error


def measure(
    prediction: Prediction,
    truth: Tensor,
    tolerance: float = TOLERANCE,
    profile: Profile | None = None,
    classes: Sequence[str] = (),
) -> list[Metrics]:
    """Metrics of N images against their classes ``(N, *S)``, means over foreground classes.

    ``dice``, ``iou``, ``hd95`` (pixels), ``surface_dice``, and ``ece``, the expected calibration
    error of the foreground's probability over all pixels. Masks are taken after the thresholds and
    the post-processing of the model's profile. With the names of several classes, ``classes`` has
    the Dice of each, as text.
    """
    probability = prediction.probability
    mask = _foreground(prediction, profile).to(probability)  # (N, F, *S)
    wanted = torch.stack([truth == k for k in range(1, 1 + mask.shape[1])], dim=1).float()
    stated = probability[:, 1:] if prediction.activation == "softmax" else probability
    metrics = {
        "dice": compute_dice(mask, wanted, include_background=True, ignore_empty=False),
        "iou": compute_iou(mask, wanted, include_background=True, ignore_empty=False),
        **surfaces(mask, wanted, tolerance),
        "ece": calibration_error(stated.float(), wanted),
    }
    means = {name: values.double().mean(dim=1).tolist() for name, values in metrics.items()}
    rows: list[Metrics] = [
        dict(zip(means, each, strict=True)) for each in zip(*means.values(), strict=True)
    ]
    if len(classes) == mask.shape[1] > 1:
        for row, dice in zip(rows, metrics["dice"].double().tolist(), strict=True):
            row["classes"] = by_class(dict(zip(classes, dice, strict=True)))
    return rows


def _foreground(prediction: Prediction, profile: Profile | None) -> Tensor:
    """Masks of the classes but the background, ``(N, F, *S)``."""
    masks, channels = prediction.mask, prediction.probability.shape[1]
    exclusive = prediction.activation == "softmax"
    labels = not exclusive and channels > 1
    if profile is not None and (profile.largest_component or profile.fill_holes):
        clean = [cleaned(profile, one.numpy(), labels=labels) for one in masks.cpu()]
        masks = torch.from_numpy(np.stack(clean)).to(masks)
    if labels:
        return masks
    return torch.stack([masks == k for k in range(1, channels if exclusive else 2)], dim=1)


def surfaces(mask: Tensor, wanted: Tensor, tolerance: float) -> dict[str, Tensor]:
    """Distance of the boundaries (95th percentile) and the share of them within a tolerance."""
    marked, due = mask.flatten(2).any(dim=2), wanted.flatten(2).any(dim=2)  # (N, F)
    diagonal = math.dist(mask.shape[2:], [0] * (mask.dim() - 2))
    hd95 = torch.where(marked == due, 0.0, diagonal)
    near = (marked == due).to(mask.dtype)
    with warnings.catch_warnings():  # MONAI passes itself an argument that it has deprecated
        warnings.filterwarnings("ignore", ".*always_return_as_numpy.*", FutureWarning)
        for n, k in (marked & due).nonzero().tolist():
            pair = mask[n : n + 1, k : k + 1], wanted[n : n + 1, k : k + 1]
            hd95[n, k] = compute_hausdorff_distance(*pair, include_background=True, percentile=95)
            near[n, k] = compute_surface_dice(*pair, [tolerance], include_background=True)
    return {"hd95": hd95, "surface_dice": near}


def calibration_error(probability: Tensor, wanted: Tensor) -> Tensor:
    """Expected calibration error ``(N, F)``: how far stated probabilities are off on average."""
    stated, seen, counts = calibration_binning(probability, wanted, num_bins=BINS)  # (N, F, B)
    gap = (stated - seen).abs().nan_to_num(0.0)
    error: Tensor = (gap * counts).sum(dim=2) / counts.sum(dim=2)
    return error
