"""The paper's procedure once more, slowly, in another way: deep copies, hooks, loops and NumPy.

Shares no code with the package.
"""

import copy

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm


def _norms(net):
    return [m for m in net.modules() if isinstance(m, _BatchNorm)]


def capture(model, image, variance):
    """Mean and variance of every BatchNorm's input while all layers use this image's statistics."""
    net = copy.deepcopy(model).eval()
    counts = {}
    for norm in _norms(net):
        norm.train()
        norm.momentum = 1.0
        norm.register_forward_pre_hook(
            lambda m, args: counts.__setitem__(m, args[0].numel() // args[0].shape[1])
        )
    with torch.no_grad():
        net(image[None])
    pairs = []
    for norm in _norms(net):
        n = counts[norm]
        factor = 1.0 if variance == "unbiased" else (n - 1) / n
        pairs.append((norm.running_mean.clone(), norm.running_var * factor))
    return pairs


def member_logits(model, image, lambdas, variance="biased"):
    """Logits of each member, one deep copy and one pass for each."""
    captured = capture(model, image, variance)
    rows = []
    for lam in lambdas:
        net = copy.deepcopy(model).eval()
        for norm, (mean, var) in zip(_norms(net), captured, strict=True):
            norm.running_mean.copy_(lam * norm.running_mean + (1 - lam) * mean)
            norm.running_var.copy_(lam * norm.running_var + (1 - lam) * var)
        with torch.no_grad():
            rows.append(net(image[None])[0])
    return torch.stack(rows)


def probability(logits):
    """(C, *S) logits to class probabilities (C or 2, *S) in float64."""
    z = np.asarray(logits, dtype=np.float64)
    if len(z) == 1:
        p = 1 / (1 + np.exp(-z))
        return np.concatenate([1 - p, p])
    e = np.exp(z - z.max(axis=0))
    return e / e.sum(axis=0)


def pixel_entropy(p):
    """Entropy of (C, *S) class probabilities in bits over log2 C."""
    safe = np.where(p > 0, p, 1)
    return -(p * np.log2(safe)).sum(axis=0) / np.log2(len(p))


def balanced_entropy(logits):
    """Mean over the classes present of the mean entropy inside the class."""
    p = probability(logits)
    entropy = pixel_entropy(p)
    z = np.asarray(logits)  # classes from logits: probabilities lose ties that differ by 1e-17
    classes = (z[0] >= 0).astype(int) if len(z) == 1 else z.argmax(axis=0)
    return np.mean([entropy[classes == c].mean() for c in np.unique(classes)])


def intent(model, image, lambdas, variance="biased"):
    """Weights and integrated class probabilities of InTEnt."""
    members = member_logits(model, image, lambdas, variance).numpy()
    h = np.array([balanced_entropy(m) for m in members])
    score = -(h - h.min()) / (h.max() - h.min())
    weights = np.exp(score) / np.exp(score).sum()
    maps = np.stack([probability(m) for m in members])
    return weights, np.tensordot(weights, maps, axes=1)
