"""Sharpness of a member's entropy: how far it rises close by in parameter space (Eq. 10 to 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sitta.core.capture import CapturedStatistics
from sitta.core.entropy import mean_entropy, resolve
from sitta.core.members import Statistics
from sitta.core.twin import Twin

Parameters = dict[str, Tensor]


def member_sharpness(
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    activation: str,
    *,
    statistics: Statistics = "captured",
    unbiased: bool = False,
    rho: float = 0.1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits and sharpness in bits of every member for every image.

    Two forward passes and one backward pass for each member and image, over all parameters, each
    with gradients of its own. Captured statistics are constants; the first pass of the member of
    lambda 0 captures them, or if there is none (or none that equals it), one more pass does.

    The other arguments are those of ``member_logits``; ``rho`` is the radius of the neighbourhood,
    in the L2 norm over all parameters.

    Returns:
        Logits ``(K, N, C, *S)``, each image's distance from the source's statistics ``(N,)`` (of
        the capturing pass, or of the last one in layers), and sharpness ``(K, N)``.
    """
    with torch.inference_mode(False), torch.enable_grad():
        leaves = free_parameters(twin)
        pairs, distances = [], []
        for image in images.clone().unsqueeze(1):  # (1, C, *S)
            captured = CapturedStatistics() if statistics == "captured" else None
            how: Any = {"unbiased": unbiased, "captured": captured}
            how["pool"] = "own" if captured is None else "first"

            def forward(lam: float, at: Parameters, rows: Tensor = image, how: Any = how) -> Tensor:
                lambdas = torch.tensor([lam], dtype=torch.float64)
                return twin.run(rows, lambdas, parameters=at, **how)[0]  # (1, C, *S)

            order = sorted(range(len(lambdas)), key=lambda i: lambdas[i] != 0)  # 0 comes first
            if captured is not None and (unbiased or lambdas[order[0]] != 0):
                with torch.no_grad():
                    forward(0.0, {})
            rises_at = {
                i: _rise(partial(forward, lambdas[i]), leaves, activation, rho) for i in order
            }
            pairs += [rises_at[i] for i in range(len(lambdas))]
            distances.append(twin.distance)
    logits, rises = (
        torch.stack(values).unflatten(0, (len(images), len(lambdas))).transpose(0, 1)
        for values in zip(*pairs, strict=True)
    )
    return logits, torch.cat(distances), rises


def _rise(
    forward: Callable[[Parameters], Tensor], at: Parameters, activation: str, rho: float
) -> tuple[Tensor, Tensor]:
    """Logits here, and the entropy at the worst parameters nearby less that here (Eq. 12)."""
    logits = forward(at)
    measure = partial(mean_entropy, activation=resolve(activation, logits.shape[1]))
    here = measure(logits)
    if not here.requires_grad:  # nothing to move: nothing rises
        return logits[0], torch.zeros_like(here[0])
    gradients = torch.autograd.grad(here.sum(), list(at.values()), allow_unused=True)
    with torch.no_grad():
        rise = measure(forward(worst_nearby(at, gradients, rho, spent=True))) - here
    return logits[0].detach(), rise[0].detach()


def worst_nearby(
    at: Parameters, gradients: Sequence[Tensor | None], rho: float, spent: bool = False
) -> Parameters:
    """The parameters at distance ``rho`` (L2) where the loss is highest, to first order (Eq. 11).

    A gradient of zero moves nothing; nor is a parameter moved that has none. If the gradients are
    ``spent``, not needed again, their memory may hold the result.
    """
    with torch.no_grad():
        used = [g for g in gradients if g is not None]
        scale = float(rho / (torch.nn.utils.get_total_norm(used) + 1e-12))
        alone = len({g.data_ptr() for g in used}) == len(used)  # two may be one and the same
        moved = zip(at.items(), gradients, strict=True)
        return {name: _moved(p, g, scale, spent and alone) for (name, p), g in moved}


def _moved(p: Tensor, gradient: Tensor | None, scale: float, spent: bool) -> Tensor:
    if gradient is None:
        return p
    if spent and gradient.is_contiguous() and gradient.dtype == p.dtype:
        return gradient.mul_(scale).add_(p)
    return p.add(gradient, alpha=scale)


def free_parameters(twin: Twin) -> Parameters:
    """The model's parameters as leaves of a graph of their own: same numbers, no copy."""
    return {
        name: (p.clone() if p.is_inference() else p.detach()).requires_grad_()
        for name, p in twin.module.named_parameters()
        if p.is_floating_point()
    }
