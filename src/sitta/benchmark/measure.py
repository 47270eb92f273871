"""How good a mask is: figures of each image, by MONAI where it has them.

The rule for empty masks: if truth and prediction are both empty, all is right (Dice, IoU and
surface Dice 1, distance 0). If only one of them is, all is wrong (0), and the distance is the
image's diagonal.
"""

from __future__ import annotations

import math
import warnings

import torch
from monai.metrics import (
    calibration_binning,
    compute_dice,
    compute_hausdorff_distance,
    compute_iou,
    compute_surface_dice,
)
from torch import Tensor

from sitta.prediction import Prediction
from sitta.trust import foreground

Figures = dict[str, float]

BINS = 15  # of the expected calibration error
TOLERANCE = 2.0  # pixels of the network's input: a boundary that near counts as right


def measure(prediction: Prediction, truth: Tensor, tolerance: float = TOLERANCE) -> list[Figures]:
    """Figures of every image, each the mean over foreground classes.

    Args:
        prediction: Of N images, with the N axis.
        truth: Classes, ``(N, *S)``.
        tolerance: Of the surface Dice, in pixels of the network's input.

    Returns:
        For each image ``dice``, ``iou``, ``hd95`` (pixels), ``surface_dice``, and ``ece``, the
        expected calibration error of the foreground's probability over all pixels.
    """
    probability = prediction.probability
    maps = foreground(probability[None], prediction.activation)[0]  # (N, F, P)
    found = maps.view(*maps.shape[:2], *truth.shape[1:])  # (N, F, *S)
    wanted = one_hot(truth, found.shape[1])
    sure = probability[:, 1:] if prediction.activation == "softmax" else probability
    figures = {
        "dice": compute_dice(found, wanted, include_background=True, ignore_empty=False),
        "iou": compute_iou(found, wanted, include_background=True, ignore_empty=False),
        **surfaces(found, wanted, tolerance),
        "ece": calibration_error(sure.float(), wanted),
    }
    means = {name: values.double().mean(dim=1).tolist() for name, values in figures.items()}
    return [{name: means[name][n] for name in means} for n in range(len(truth))]


def one_hot(truth: Tensor, classes: int) -> Tensor:
    """0/1 maps ``(N, F, *S)`` of the foreground classes 1 to F."""
    return torch.stack([truth == k for k in range(1, classes + 1)], dim=1).float()


def surfaces(found: Tensor, wanted: Tensor, tolerance: float) -> dict[str, Tensor]:
    """Distance of the boundaries (95th percentile) and the share of them within a tolerance."""
    some, due = found.flatten(2).any(dim=2), wanted.flatten(2).any(dim=2)  # (N, F)
    diagonal = math.dist(found.shape[2:], [0] * (found.dim() - 2))
    hd95 = torch.where(some == due, 0.0, diagonal)
    near = (some == due).to(found.dtype)
    with warnings.catch_warnings():  # MONAI passes itself an argument that it has deprecated
        warnings.filterwarnings("ignore", ".*always_return_as_numpy.*", FutureWarning)
        for n, k in (some & due).nonzero().tolist():
            pair = found[n : n + 1, k : k + 1], wanted[n : n + 1, k : k + 1]
            hd95[n, k] = compute_hausdorff_distance(*pair, include_background=True, percentile=95)
            near[n, k] = compute_surface_dice(*pair, [tolerance], include_background=True)
    return {"hd95": hd95, "surface_dice": near}


def calibration_error(probability: Tensor, wanted: Tensor) -> Tensor:
    """Expected calibration error ``(N, F)``: how far stated probabilities are off on average."""
    stated, seen, counts = calibration_binning(probability, wanted, num_bins=BINS)  # (N, F, B)
    gap = (stated - seen).abs().nan_to_num(0.0)
    error: Tensor = (gap * counts).sum(dim=2) / counts.sum(dim=2)
    return error
