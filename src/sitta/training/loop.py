"""The training loop: epochs of steps, a validation after each, the best weights kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sitta.data.samples import Samples
from sitta.training.augmentation import Augment
from sitta.training.callback import Callback
from sitta.training.recipe import Recipe
from sitta.training.run_folder import Epoch

LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}  # forward alone is a third faster


@dataclass
class Fit:
    """A network in training."""

    net: nn.Module  # trained in place
    recipe: Recipe
    train: Samples
    held_out: Samples  # to validate on
    device: torch.device
    history: list[Epoch] = field(default_factory=list)  # epochs that are done
    best: float = -1.0  # best validation Dice so far
    weights: dict[str, Tensor] = field(default_factory=dict)  # that reached it

    def __post_init__(self) -> None:
        pixels = self.train.masks[0].numel()
        self.epochs, self.steps = self.recipe.length(len(self.train), pixels)
        self.layout = LAYOUTS[self.train.images.dim()]
        self.net.to(self.device, memory_format=self.layout)  # type: ignore[call-overload]
        for module in self.net.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = self.recipe.momentum
        self.forward: Callable[[Tensor], Tensor] = self.net
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=self.recipe.rate, fused=True)
        self.schedule: torch.optim.lr_scheduler.OneCycleLR | None = None
        if self.recipe.schedule == "one-cycle":
            total = max(2, self.epochs * self.steps)
            self.schedule = torch.optim.lr_scheduler.OneCycleLR(
                self.optimiser, self.recipe.rate, total_steps=total, cycle_momentum=False
            )
        name = self.recipe.augment
        self.augment = None if name == "none" else Augment(name, self.recipe.seed)
        self.loss = Loss(self.recipe)

    @property
    def best_epoch(self) -> int:
        """The first epoch that reached the best validation Dice; 0 before any."""
        reached = (row.epoch for row in self.history if row.validation_dice == self.best)
        return next(reached, 0)

    @property
    def minutes(self) -> float:
        """Time of the epochs that are done."""
        return round(sum(row.seconds for row in self.history) / 60, 2)

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        done, patience = len(self.history), self.recipe.patience or self.epochs
        # Patience starts with the first correct foreground: small organs take longer.
        return done >= self.epochs or (self.best > 0 and done - self.best_epoch >= patience)

    def epoch(self, watch: Callback) -> Epoch:
        """One pass over the training images, then validation."""
        start, number = time.perf_counter(), len(self.history) + 1
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # the caller's random state stays as it is
            torch.manual_seed(self.recipe.seed * 100_003 + number)
            losses = self._pass(number, watch)
        rate = float(self.optimiser.param_groups[0]["lr"])
        dice = validate(self.net, self.held_out, self.device)
        better = dice > self.best
        if better:
            self.best = dice
            self.weights = {k: v.detach().cpu().clone() for k, v in self.net.state_dict().items()}
        seconds = round(time.perf_counter() - start, 3)
        row = Epoch(number, sum(losses), *losses, dice, rate, seconds)
        self.history.append(row)
        watch.epoch(row, better)
        return row

    def _pass(self, number: int, watch: Callback) -> tuple[float, float]:
        """Mean cross-entropy and mean Dice loss, as weighted by the recipe."""
        self.net.train()
        total = torch.zeros(2)
        order = torch.randperm(len(self.train))
        for rows in order.tensor_split(self.steps):  # even batches: none of a single image
            images, masks = self._batch(rows, number)
            parts = self.loss(self.forward(images), masks)
            self.optimiser.zero_grad(set_to_none=True)
            parts.sum().backward()
            self.optimiser.step()
            if self.schedule is not None:
                self.schedule.step()
            total += parts.detach().cpu() / self.steps
            watch.step(float(parts.detach().sum()))
        return float(total[0]), float(total[1])

    def _batch(self, rows: Tensor, number: int) -> tuple[Tensor, Tensor]:
        images, masks = self.train.images[rows], self.train.masks[rows]
        if self.augment is not None:
            images, masks = self.augment(images, masks, number, rows.tolist())
        return images.to(self.device).contiguous(memory_format=self.layout), masks.to(self.device)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue to the same weights."""
        return {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict() if self.schedule else None,
            "history": [asdict(row) for row in self.history],
            "best": self.best,
            "weights": self.weights,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.schedule:
            self.schedule.load_state_dict(state["schedule"])
        self.history = [Epoch(**row) for row in state["history"]]
        self.best, self.weights = state["best"], state["weights"]


class Loss:
    """Cross-entropy and Dice loss, weighted by the recipe, for one mask or several classes."""

    def __init__(self, recipe: Recipe) -> None:
        from monai.losses import DiceLoss

        self.bce, self.weight = recipe.bce, recipe.dice
        self.binary = DiceLoss(sigmoid=True)
        self.classes = DiceLoss(softmax=True, to_onehot_y=True)

    def __call__(self, logits: Tensor, masks: Tensor) -> Tensor:
        """``(2,)``: cross-entropy and Dice loss of logits ``(B, C, *s)``, masks ``(B, *s)``."""
        if logits.shape[1] == 1:
            truth = masks[:, None].float()
            entropy = F.binary_cross_entropy_with_logits(logits, truth)
            overlap = self.binary(logits, truth)
        else:
            entropy = F.cross_entropy(logits, masks)
            overlap = self.classes(logits, masks[:, None])
        return torch.stack([self.bce * entropy, self.weight * overlap])


@torch.inference_mode()
def validate(net: nn.Module, samples: Samples, device: torch.device, batch: int = 10) -> float:
    """Mean Dice over images, of several classes over the foreground's; 1 where both are empty."""
    from monai.metrics import compute_dice

    net.eval()
    scores = []
    for images, masks in zip(samples.images.split(batch), samples.masks.split(batch), strict=True):
        layout = LAYOUTS[images.dim()]
        logits = net(images.to(device).contiguous(memory_format=layout)).cpu()
        classes = max(2, logits.shape[1])
        labels = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(dim=1)
        maps = [F.one_hot(m, classes).movedim(-1, 1)[:, 1:] for m in (labels, masks)]
        scores.append(compute_dice(*maps, include_background=True, ignore_empty=False))
    return float(torch.cat(scores).mean())
