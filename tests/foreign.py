"""Networks as others write them: what they return is not what Sitta takes by itself.

A copy of this file lies beside the profiles of the tests, which name these functions.
"""

import torch
from torch import nn


class Two(nn.Module):
    """A W-Net: two outputs, of which the second is the refined one."""

    def __init__(self, inputs=1, width=4):
        super().__init__()
        self.first = body(inputs, width, 1)
        self.second = body(inputs + 1, width, 1)

    def forward(self, x):
        rough = self.first(x)
        return rough, self.second(torch.cat([x, rough.sigmoid()], dim=1))


class Inside(nn.Module):
    """Probabilities of three classes, in a dictionary with another size for training."""

    def __init__(self):
        super().__init__()
        self.net = body(1, 6, 3)

    def forward(self, x):
        maps = self.net(x)
        maps = 4 * (maps - maps.mean(dim=(2, 3), keepdim=True))  # so that every class is somewhere
        maps = maps.softmax(dim=1)
        return {"small": maps[..., ::2, ::2], "main": maps}


def body(inputs, width, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, outputs, 1),
    )


def wnet(width):
    return made(Two(1, width), 1)


def four():
    return made(body(1, 6, 4), 1)


def inside():
    return made(Inside(), 1)


def colours():
    return made(body(3, 6, 1), 3, low=-2.0, high=2.0)


def made(net, channels, low=0.0, high=1.0):
    """The net in evaluation mode, with weights that spread what it says, and used statistics."""
    chance = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(
                torch.randn(p.shape, generator=chance) * (0.4 if p.dim() > 1 else 0.2) + (p == 1)
            )
        for _ in range(4):
            noise = torch.rand((2, channels, 32, 32), generator=chance)
            net(low + (high - low) * noise)
        last = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1)]
        for layer in last:
            layer.weight *= 3
    return net.eval()
