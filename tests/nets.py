"""Small networks with statistics of their own, to adapt in tests."""

import copy
import functools

import torch
from torch import nn

CONV = {2: nn.Conv2d, 3: nn.Conv3d}
NORM = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
SIDE = {2: 12, 3: 6}


class Net(nn.Module):
    """Two scales, a skip connection, dropout that must stay off, and BatchNorm everywhere."""

    def __init__(self, dims=2, inputs=1, outputs=1, norm=None):
        super().__init__()
        conv, norm = CONV[dims], norm or NORM[dims]
        self.enter = nn.Sequential(conv(inputs, 6, 3, padding=1), norm(6), nn.SiLU())
        self.deep = nn.Sequential(
            conv(6, 8, 3, stride=2, padding=1), norm(8), nn.ReLU(), nn.Dropout(0.5)
        )
        self.up = nn.Upsample(scale_factor=2)
        self.leave = nn.Sequential(conv(14, 6, 3, padding=1), norm(6), nn.SiLU())
        self.head = conv(6, outputs, 1)

    def forward(self, x):
        high = self.enter(x)
        low = self.up(self.deep(high))
        return 3 * self.head(self.leave(torch.cat([high, low], dim=1)))


def trained(net, shape, passes=6):
    """The net in evaluation mode with running statistics that fit no test image."""
    net.train()
    with torch.no_grad():
        for i in range(passes):
            net(torch.rand(4, *shape) * (1 + 0.3 * i) + 0.2)
        for p in net.parameters():
            if p.dim() == 1:  # affine parameters and biases away from 1 and 0
                p += 0.3 * torch.randn_like(p)
    return net.eval()


def case(dims=2, outputs=1, dtype=torch.float32, images=3, inputs=1, seed=0):
    """A net and a batch of images for it, from another distribution than its statistics."""
    net, batch, chance = _made(dims, outputs, dtype, images, inputs, seed)
    torch.set_rng_state(chance)  # as if it had been made now
    return copy.deepcopy(net), batch.clone()


@functools.cache
def _made(dims, outputs, dtype, images, inputs, seed):
    torch.manual_seed(seed)
    shape = (inputs, *[SIDE[dims]] * dims)
    net = trained(Net(dims, inputs, outputs), shape).to(dtype)
    batch = (torch.rand(images, *shape) ** 2 * 1.7 - 0.1).to(dtype)
    return net, batch, torch.get_rng_state()


def snapshot(net):
    """Everything about a model that nobody may change."""
    return {
        "tensors": {
            k: (id(v), v.detach().clone()) for k, v in net.state_dict(keep_vars=True).items()
        },
        "grads": {k: None if p.grad is None else p.grad.clone() for k, p in net.named_parameters()},
        "frozen": {k: p.requires_grad for k, p in net.named_parameters()},
        "modes": {k: m.training for k, m in net.named_modules()},
        "classes": {k: type(m) for k, m in net.named_modules()},
        "modules": {k: id(m) for k, m in net.named_modules()},
        "hooks": {
            k: (list(m._forward_hooks.values()), list(m._forward_pre_hooks.values()))
            for k, m in net.named_modules()
        },
        "attributes": {k: sorted(vars(m)) for k, m in net.named_modules()},
    }


def assert_untouched(net, before):
    """The model is, bit for bit and object for object, what it was."""
    after = snapshot(net)
    for part in ("frozen", "modes", "classes", "modules", "hooks", "attributes"):
        assert after[part] == before[part], part
    assert after["tensors"].keys() == before["tensors"].keys()
    for name, (identity, value) in before["tensors"].items():
        assert after["tensors"][name][0] == identity, name
        assert torch.equal(after["tensors"][name][1], value), name
    for name, grad in before["grads"].items():
        now = after["grads"][name]
        assert (now is None) == (grad is None), name
        assert grad is None or torch.equal(now, grad), name
