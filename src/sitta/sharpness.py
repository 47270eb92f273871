"""Sharpness of a member's entropy: how far it rises close by in parameter space (Eq. 10 to 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from sitta.entropy import mean_entropy, resolve
from sitta.members import Statistics
from sitta.statistics import Pool
from sitta.tape import Tape
from sitta.twin import Twin

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

    Args:
        twin: A borrowed twin.
        images: ``(N, C, *S)``.
        lambdas: One for each member.
        activation: How logits become probabilities, or ``auto``.
        statistics: Captured, or mixed in each layer anew.
        unbiased: Mix with the unbiased variance.
        rho: Radius of the neighbourhood, in the L2 norm over all parameters.

    Returns:
        Logits ``(K, N, C, *S)``, sharpness ``(K, N)``, and each image's distance from the source's
        statistics ``(N,)``: of the capturing pass, or of the last one in layers.
    """
    with torch.inference_mode(False), torch.enable_grad():
        leaves = free_parameters(twin)
        pairs, far = [], []
        for image in images.clone().unsqueeze(1):  # (1, C, *S)
            tape = Tape() if statistics == "captured" else None
            forward = partial(_member, twin, image, tape, unbiased)
            order = sorted(range(len(lambdas)), key=lambda i: lambdas[i] != 0)  # 0 comes first
            if tape is not None and (unbiased or lambdas[order[0]] != 0):
                _capture(twin, image, tape, unbiased)
            found = {i: _rise(partial(forward, lambdas[i]), leaves, activation, rho) for i in order}
            pairs += [found[i] for i in range(len(lambdas))]
            seen = twin.distance
            far.append(image.new_full((1,), torch.nan) if seen is None else seen)
    shape = (len(images), len(lambdas))
    logits, rises = zip(*pairs, strict=True)
    return _members_first(logits, shape), _members_first(rises, shape), torch.cat(far)


def _members_first(values: Sequence[Tensor], shape: tuple[int, int]) -> Tensor:
    """From a list, image by image, to (K, N, ...)."""
    stacked = torch.stack(list(values))
    return stacked.view(*shape, *stacked.shape[1:]).transpose(0, 1)


def _member(
    twin: Twin, image: Tensor, tape: Tape | None, unbiased: bool, lam: float, at: Parameters
) -> Tensor:
    """Logits (1, C, *S) of one member with these parameters."""
    pool: Pool = "own" if tape is None else "first"
    lambdas = torch.tensor([lam], dtype=torch.float64)
    return twin.run(image, lambdas, pool=pool, unbiased=unbiased, tape=tape, parameters=at)[0]


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
    """The parameters at distance ``rho`` where the loss is highest, to first order (Eq. 11).

    A gradient of zero moves nothing; nor is a parameter moved that has none.

    Args:
        at: Where to start.
        gradients: Of the loss there.
        rho: How far to go, in the L2 norm over all parameters.
        spent: Whether nobody needs the gradients again, so that their memory may hold the result.
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


def _capture(twin: Twin, image: Tensor, tape: Tape, unbiased: bool) -> None:
    with torch.no_grad():
        twin.run(image, torch.zeros(1), pool="first", unbiased=unbiased, tape=tape)
