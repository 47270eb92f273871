"""InTEnt as graphs of plain tensor operations: members, entropies, weights, integration, trust.

What ``sitta.export_onnx`` traces, in two parts: a network may need other sides than the image has,
and what is weighed are the pixels of the image. The numbers are those of ``sitta.InTEnt``; only
what depends on values there (where something overflowed) is a choice between tensors here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sitta.adaptation import InTEnt
from sitta.entropy import labels, probabilities, probability_entropy, resolve
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.integration import STRATEGIES, integrate, weigh
from sitta.statistics import MixedNorm, Mixing, channel_divergence
from sitta.trust import agreement, disagreement, foreground
from sitta.twin import logits_of, twin

MEMBERS = ("logits", "distance")
ANSWERS = (
    "probability",
    "mask",
    "members",
    "weights",
    "entropies",
    "usable",
    "agreement",
    "uncertainty",
    "disagreement",
)


class Members(nn.Module):
    """Logits of all members ``(K, N, C, *S)`` and the distance ``(N,)`` of images ``(N, C, *S)``.

    Args:
        method: Any InTEnt but of the strategy ``sharpness``.
    """

    def __init__(self, method: InTEnt) -> None:
        super().__init__()
        if STRATEGIES[method.strategy].figure == "sharpness":
            raise InvalidSetting(
                "The strategy 'sharpness' needs gradients, which a graph for inference has not.",
                allowed=", ".join(n for n, s in STRATEGIES.items() if s.figure != "sharpness"),
            )
        captured, unbiased = method.statistics == "captured", method.variance == "unbiased"
        rows, self.order = _rows(list(method.grid), captured, unbiased)
        self.output = method.output
        self.mixing = GraphMixing(rows, captured, unbiased)
        self.network, _ = twin(method.model, self.mixing)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """In the order of ``MEMBERS``."""
        self.mixing.start()
        rows = image.repeat(self.mixing.count, *[1] * (image.dim() - 1))
        logits = logits_of(self.network(rows), self.output, rows)
        logits = logits.unflatten(0, (self.mixing.count, -1))
        if self.order != list(range(self.mixing.count)):
            logits = logits[self.order]
        return logits, self.mixing.distance()


def _rows(grid: list[float], captured: bool, unbiased: bool) -> tuple[list[float], list[int]]:
    """Lambdas of the rows, and which row each member is: as in ``members.member_logits``."""
    if not captured:
        return grid, list(range(len(grid)))
    member = 0.0 in grid and not unbiased  # the row that captures is a member itself
    rows = [0.0, *(lam for lam in grid if lam != 0 or not member)]
    free = iter(range(1, len(rows)))
    return rows, [0 if member and lam == 0 else next(free) for lam in grid]


class GraphMixing(Mixing):
    """Statistics for any number of images, without a look at their number: R rows of each.

    Args:
        lambdas: Of the rows; with captured statistics the first one is 0.
        captured: Whether what the first row sees serves all.
        unbiased: Whether to mix with the unbiased variance.
    """

    def __init__(self, lambdas: Sequence[float], captured: bool, unbiased: bool) -> None:
        super().__init__()
        self.begin(torch.tensor(lambdas), 1, "first" if captured else "own", unbiased)
        self.count = len(lambdas)
        self.start()

    def start(self) -> None:
        """Forget the pass before."""
        self._seen: list[tuple[MixedNorm, Tensor, Tensor]] = []

    def statistics(self, layer: MixedNorm, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance for each row and channel, ``(R*N, C)``."""
        rows = x.unflatten(0, (self.count, -1))  # (R, N, C, *S)
        if layer.running_mean is None or layer.running_var is None:
            mean, var = _moments(rows)
            return mean.flatten(0, 1), var.flatten(0, 1)
        source = layer.running_mean, layer.running_var
        if all(n == 1 for n in x.shape[2:]):  # one value has no variance: stay at the source
            return source[0] + 0 * x.flatten(1), source[1] + 0 * x.flatten(1)
        mean, biased = _moments(rows[:1] if self._pool == "first" else rows)  # (1 or R, N, C)
        at = min(self._lowest, mean.shape[0] - 1)
        self._seen.append((layer, mean[at], biased[at]))
        mixed = self._mix(source[1], self._recorded(biased, x[0, 0].numel()))
        if self._unbiased and self._pool == "first":  # that row normalises by the biased one
            mixed = torch.cat([biased, mixed[1:]])
        return self._mix(source[0], mean).flatten(0, 1), mixed.flatten(0, 1)

    def distance(self) -> Tensor:
        """As ``Mixing.distance``, with the channels of all layers in one expression."""
        if not self._seen:
            raise UnsupportedModel("The forward pass uses none of the model's BatchNorm layers.")
        layers, means, variances = zip(*self._seen, strict=True)
        ones = [torch.ones_like(layer.running_mean) for layer in layers]
        eps = torch.cat([one * layer.eps for one, layer in zip(ones, layers, strict=True)])
        far = channel_divergence(
            torch.cat(means, dim=1),  # (N, all channels)
            torch.cat(variances, dim=1),
            torch.cat([layer.running_mean for layer in layers]),
            torch.cat([layer.running_var for layer in layers]),
            eps,
        )
        share = torch.cat([one / (len(one) * len(layers)) for one in ones])
        return far @ share  # layers count alike, and channels within a layer


def _moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over space of ``(R, N, C, *S)``."""
    space = list(range(3, rows.dim()))
    mean = rows.mean(dim=space, keepdim=True)
    return mean.flatten(2), (rows - mean).square().mean(dim=space)


class Answers(nn.Module):
    """From the logits of all members ``(K, N, C, *S)`` to all that ``ANSWERS`` names.

    Args:
        method: The same InTEnt.
    """

    def __init__(self, method: InTEnt) -> None:
        super().__init__()
        self.method = [method]  # not a child: its network is none of this graph's business

    def forward(self, logits: Tensor) -> tuple[Tensor, ...]:
        """In the order of ``ANSWERS``."""
        method = self.method[0]
        activation = resolve(method.activation, logits.shape[2])
        figures = method.figures(logits, activation)
        usable = logits.flatten(2).isfinite().all(dim=2) & figures.isfinite()  # (K, N)
        shape = (*usable.shape, *[1] * (logits.dim() - 2))
        logits = torch.where(usable.view(shape), logits, 0.0)
        figures = torch.where(usable, figures, 1.0)
        weights = weigh(method.strategy, torch.where(usable, figures, torch.inf), method.topk)
        members = probabilities(logits.flatten(0, 1), activation).unflatten(0, usable.shape)
        whole = integrate(members, weights, method.strategy, activation, method.ties)
        return (
            whole,
            labels(whole, activation),
            members,
            weights,
            figures,
            usable,
            agreement(foreground(members, activation), usable),
            probability_entropy(whole, activation),
            disagreement(members, activation, usable),
        )
