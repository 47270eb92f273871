"""Strategies that Sitta does not know: each is one entry of ``STRATEGIES``."""

import torch

from sitta.core.integration import Strategy
from sitta.core.members import member_logits_chunked


def peak(logits, _activation):
    return logits.flatten(1).amax(dim=1).sigmoid()


def by_score(scores, _topk):
    share = torch.where(scores.isfinite(), 2 - scores, 0.0)
    return share / share.sum(dim=0)


def own_passes(twin, images, lambdas, _activation, *, rho, **how):
    logits, distance = member_logits_chunked(twin, images, lambdas, **how)
    return logits, distance, rho * torch.arange(float(len(logits)))[:, None].expand(-1, len(images))


TOY = Strategy(by_score, "the dimmer the better", score=peak)
SLOW = Strategy(by_score, "by place on the grid", own_passes=own_passes, passes=(3, 1))
