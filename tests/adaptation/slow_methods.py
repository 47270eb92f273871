"""The competing methods once more: deep copies, layers of their own, loops. No code of the package.

Only the drawing of augmented views is shared, because a reference needs the same views.
"""

import copy
import itertools

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.modules.instancenorm._InstanceNorm)


class InLayer(nn.Module):
    """A BatchNorm that mixes source statistics with those of what it sees."""

    def __init__(self, norm, lam):
        super().__init__()
        self.norm, self.lam, self.mode, self.unbiased = norm, lam, "pooled", False

    def forward(self, x):  # (V, C, *S): views of one image
        space = tuple(range(2, x.dim()))
        if self.mode == "pooled":
            axes = (0, *space)
            mean, var = x.mean(axes), x.var(axes, correction=int(self.unbiased))
        else:
            first = torch.stack([v.mean(tuple(a - 1 for a in space)) for v in x])
            second = torch.stack([v.var(tuple(a - 1 for a in space), correction=0) for v in x])
            share = torch.full((len(x),), 1 / len(x), dtype=x.dtype)
            if self.mode == "half" and len(x) > 1:
                share = torch.full((len(x),), 0.5 / (len(x) - 1), dtype=x.dtype)
                share[0] = 0.5
            mean, var = share @ first, share @ second
        mean = self.lam * self.norm.running_mean + (1 - self.lam) * mean
        var = self.lam * self.norm.running_var + (1 - self.lam) * var
        shape = (1, -1, *[1] * len(space))
        h = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.norm.eps)
        return h * self.norm.weight.view(shape) + self.norm.bias.view(shape)


def prepare(model, lam):
    """A deep copy in evaluation mode whose BatchNorms mix in the layer."""
    net = copy.deepcopy(model).eval()
    for parent in list(net.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(parent, name, InLayer(child, lam))
    return net


def set_mode(net, mode="pooled", unbiased=False):
    for m in net.modules():
        if isinstance(m, InLayer):
            m.mode, m.unbiased = mode, unbiased


def affine(net):
    found = []
    for m in net.modules():
        if isinstance(m, NORMS):
            found += [p for p in (m.weight, m.bias) if p is not None]
    return found


def classes(z):
    """Logits (V, C, *S) to class probabilities, with a background for a sigmoid."""
    if z.shape[1] == 1:
        p = 1 / (1 + torch.exp(-z))
        return torch.cat([1 - p, p], 1)
    return torch.softmax(z, 1)


def entropy_map(p):
    return -(p * torch.log(p)).sum(1)  # nats


def tent(model, image, lam, steps, rate, kind="adam"):
    net = prepare(model, lam)
    found = affine(net)
    if kind == "adam":
        optimiser = torch.optim.Adam(found, lr=rate, betas=(0.9, 0.999))
    else:
        optimiser = torch.optim.SGD(found, lr=rate, momentum=0.9, nesterov=True)
    for _ in range(steps):
        optimiser.zero_grad()
        entropy_map(classes(net(image[None]))).mean().backward()
        optimiser.step()
    return classes(net(image[None]))[0].detach()


def sar(model, image, lam, steps, rate, margin, rho):
    net = prepare(model, lam)
    found = affine(net)
    speed = [torch.zeros_like(p) for p in found]
    for _ in range(steps):
        p = classes(net(image[None]))
        limit = margin * torch.log(torch.tensor(float(p.shape[1])))
        h = entropy_map(p)
        first = h < limit
        g = torch.autograd.grad(h[first].mean(), found)
        length = torch.sqrt(sum((x**2).sum() for x in g))
        moved = [rho * x / (length + 1e-12) for x in g]
        with torch.no_grad():
            for q, m in zip(found, moved, strict=True):
                q += m
        h = entropy_map(classes(net(image[None])))
        g = torch.autograd.grad(h[first & (h < limit)].mean(), found)
        with torch.no_grad():
            for i, (q, m) in enumerate(zip(found, moved, strict=True)):
                speed[i] = 0.9 * speed[i] + g[i]
                q += -m - rate * speed[i]
    return classes(net(image[None]))[0].detach()


def windows(n, size, stride):
    return [range(a, a + size) for a in range(0, n - size + 1, stride)]


def pooled(p, size, stride, pick):
    """Max or min over windows of (C, *S), by loops: (windows, C)."""
    rows = []
    for ranges in itertools.product(*[windows(n, size, stride) for n in p.shape[1:]]):
        part = p
        for axis, r in enumerate(ranges, start=1):
            part = part[(slice(None),) * axis + (list(r),)]
        rows.append(pick(part.flatten(1), 1))
    return torch.stack(rows)


def fseg(model, image, lam, steps, rate, alpha, dense=False, window=4, radius=4):
    net = prepare(model, lam)
    optimiser = torch.optim.Adam(affine(net), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        p = classes(net(image[None]))[0]
        norm = torch.linalg.svdvals(pooled(p, window, window, torch.amax)).sum()
        side = 2 * radius + 1
        if dense:
            pads = [x for _ in p.shape[1:] for x in (radius, radius)]
            high = nn.functional.pad(p, pads, value=-torch.inf)
            low = nn.functional.pad(p, pads, value=torch.inf)
            edges = pooled(high, side, 1, torch.amax) - pooled(low, side, 1, torch.amin)
        else:
            edges = pooled(p, side, side, torch.amax) - pooled(p, side, side, torch.amin)
        (torch.sqrt((edges**2).sum(1)).mean() - alpha * norm).backward()
        optimiser.step()
    return classes(net(image[None]))[0].detach()


def sita(model, rows, lam, mode="mean"):
    """Class probabilities of all views, the image first."""
    net = prepare(model, lam)
    set_mode(net, mode)
    with torch.no_grad():
        return classes(net(rows))


def memo(model, image, rows, backs, lam, steps, rate):
    """``backs`` turn a map of each view back."""
    net = prepare(model, lam)
    found = list(net.parameters())
    for _ in range(steps):
        set_mode(net, "pooled", unbiased=True)
        p = classes(net(rows))
        q = sum(back(m) for back, m in zip(backs, p, strict=True)) / len(rows)
        g = torch.autograd.grad(entropy_map(q[None]).mean(), found)
        with torch.no_grad():
            for x, d in zip(found, g, strict=True):
                x -= rate * d
    set_mode(net, "pooled", unbiased=True)
    return classes(net(image[None]))[0].detach()
