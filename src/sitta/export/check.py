"""Whether a graph that was written says what torch says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sitta.adaptation import InTEnt
from sitta.data.picture import Array
from sitta.entropy import Activation, probability_entropy
from sitta.errors import SittaError
from sitta.integration import ballots, integrate, weigh
from sitta.ort import runtime, session
from sitta.trust import agreement, disagreement, foreground

TOLERANCE = 1e-4


def images(channels: int, rank: int, multiple: int, pads: bool) -> list[Tensor]:
    """Images to compare on: of two sizes and numbers, noise on a slope, from 0 to 1."""
    maps = 4 if rank < 3 else 2  # a single value in the deepest map would tell nothing
    side = multiple * max(maps, -(-16 // multiple))
    odd = 3 if pads and multiple > 1 else 0  # sides that do not fit
    sizes = [[side + i * multiple for i in range(rank)], [side + multiple - odd] * rank]
    noise = torch.Generator().manual_seed(0)
    found = []
    for number, size in enumerate(sizes, start=1):
        slope = torch.linspace(0.2, 0.8, size[-1]).expand(number, channels, *size)
        found.append((slope + 0.2 * torch.randn(slope.shape, generator=noise)).clamp(0, 1))
    return found


def compare(path: Path, method: InTEnt, activation: Activation, given: list[Tensor]) -> float:
    """The largest difference between a graph on onnxruntime and torch.

    Members and their entropies are compared with those of torch; what follows from them, with what
    follows in torch from the graph's own. So rounding cannot grow on its way through a hard mask or
    a small range of entropies, and a mistake cannot hide behind it.

    Raises:
        SittaError: It exceeds ``TOLERANCE``.
    """
    run = _runner(path)
    worst = 0.0
    for image in given:
        found = run(image)
        for name, apart in differences(found, method, activation, image).items():
            if not apart <= TOLERANCE:
                raise SittaError(
                    f"The graph is not what the model is: {name} differs by {apart:.2g} from "
                    f"torch on {' x '.join(map(str, image.shape))}. No file was written.",
                    allowed=f"{TOLERANCE:g}",
                    fix="use the model in torch, and report this with the model's code",
                )
            worst = max(worst, apart)
    return worst


def _runner(path: Path) -> Callable[[Tensor], dict[str, Array]]:
    """From images to the outputs of a graph, by name."""

    def failed(error: Exception) -> SittaError:
        said = " ".join(str(error).split())[:300]
        return SittaError(
            f"onnxruntime {runtime().__version__} cannot run the graph of this model ({said}). "
            "No file was written.",
            fix="use the model in torch, and report this with the model's code",
        )

    try:
        graph = session(path)
    except Exception as error:  # onnxruntime's own kinds have no base but this
        raise failed(error) from error
    names = [output.name for output in graph.get_outputs()]

    def run(image: Tensor) -> dict[str, Array]:
        try:
            return dict(zip(names, graph.run(None, {"image": image.numpy()}), strict=True))
        except Exception as error:  # as above
            raise failed(error) from error

    return run


def differences(
    found: dict[str, Array], method: InTEnt, activation: Activation, image: Tensor
) -> dict[str, float]:
    """By what each output differs, in the way that ``compare`` says."""
    theirs = method(image).arrays()
    mine: dict[str, Any] = {name: torch.from_numpy(value) for name, value in found.items()}
    members, usable, weights = mine["members"], mine["usable"], mine["weights"]
    hard = [ballots(m, activation).flatten(2) for m in (members, torch.tensor(theirs["members"]))]
    same = (hard[0] == hard[1]).all(dim=2).numpy()  # (K, N): no pixel is tied
    figures = torch.where(usable, mine["entropies"], torch.inf)
    whole = integrate(members, weights, method.strategy, activation, method.ties)
    far = theirs["distance"]
    return {
        "members": _apart(found["members"], theirs["members"]),
        "usable": float((found["usable"] != theirs["usable"]).any()),
        "entropies": _apart(found["entropies"][same], theirs["entropies"][same]),
        "distance": _apart(found["distance"] / (1 + far), far / (1 + far)),
        "weights": _apart(weights, weigh(method.strategy, figures, method.topk)),
        "probability": _apart(mine["probability"], whole),
        "uncertainty": _apart(mine["uncertainty"], probability_entropy(whole, activation)),
        "agreement": _apart(mine["agreement"], agreement(foreground(members, activation), usable)),
        "disagreement": _apart(mine["disagreement"], disagreement(members, activation, usable)),
    }


def _apart(one: Any, other: Any) -> float:
    one, other = np.asarray(one), np.asarray(other)
    if not one.size:
        return 0.0
    both = np.isnan(one) & np.isnan(other)
    return float(np.where(both, 0.0, np.abs(one - other)).max())
