"""Fit the input check: what images of the own domain look like."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta.prediction.input_check import MARGIN, InputModel, alikeness, normalised, saturations

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


def fit_inputs(images: NDArray[Any], *, keep_image: bool) -> InputModel:
    """Of in-domain inputs ``(N, C, *S)``; without ``keep_image``, colours and intensities alone."""
    each = np.quantile(images.reshape(len(images), -1), QUANTILES, axis=1)  # (5, N)
    colours = np.quantile(saturations(images), (0.05, 0.95))
    quantiles = tuple(round(float(q), 4) for q in each.mean(axis=1))
    saturation = (round(float(colours[0]), 4), round(float(colours[1]), 4))
    if not keep_image:
        return InputModel(quantiles, saturation)
    small = normalised(images)
    sizes = np.linalg.norm(small - small.mean(axis=(1, 2), keepdims=True), axis=(1, 2))
    mean = (small / np.maximum(sizes, 1e-9)[:, None, None]).mean(axis=0)
    views = alikeness(small, mean)
    other = views[1:].max(axis=0) - views[0]
    margin = max(MARGIN, float(np.quantile(other, 0.99)) + MARGIN)
    lowest = float(np.quantile(views[0], 0.01))
    return InputModel(quantiles, saturation, mean, round(lowest, 4), round(margin, 4))
