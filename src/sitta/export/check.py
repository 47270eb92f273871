"""Whether a graph that was written says what torch says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sitta.adaptation import InTEnt
from sitta.core.entropy import Activation
from sitta.core.integration import STRATEGIES, ballots, integrate, weigh
from sitta.core.masks import labels
from sitta.data.image import Array
from sitta.data.preprocess import Preprocess
from sitta.data.scaling import like_inputs
from sitta.errors import SittaError
from sitta.inference.backends.ort import runtime, session
from sitta.prediction.scores import computed

PROBABILITY = 5e-4  # by which a probability may differ
PIXELS = 1e-4  # share of pixels that may differ by more, or in the mask: rounding at an edge
LIMITS = {"members": PIXELS, "mask": PIXELS, "probability": PROBABILITY, "distance": PROBABILITY}
LIMITS |= {"entropies": 2 * PROBABILITY}  # of a class of few pixels, steeper than they are
EXACT = 1e-4  # of all that follows from the graph's own members
MOST_PIXELS = (
    1 << 20,
    1 << 18,
)  # pixels of the image alone, and of each of two: memory for all members
REPORT = "use the model in torch, and report this with the model's code"


def images(
    channels: int,
    rank: int,
    multiple: int,
    pads: bool,
    size: Sequence[int] | None = None,
    preprocess: Preprocess | None = None,
) -> list[Tensor]:
    """Images to compare on: of two sizes and numbers, noise on a slope.

    Of the model's own size if it is known, since small maps magnify rounding, and in the range
    that its preprocessing gives; else from 0 to 1.
    """
    odd = 3 if pads and multiple > 1 else 0  # sides that do not fit
    if size is not None:
        sizes = [_within(size, most, 1 if pads else multiple) for most in MOST_PIXELS]
        sizes[1] = [*sizes[1][:-1], max(1, sizes[1][-1] + multiple - odd)]
    else:
        maps = 4 if rank < 3 else 2  # a single value in the deepest map has no variance
        side = multiple * max(maps, -(-16 // multiple))
        sizes = [[side + i * multiple for i in range(rank)], [side + multiple - odd] * rank]
    noise = torch.Generator().manual_seed(0)
    slopes = [
        torch.linspace(0.2, 0.8, size[-1]).expand(number, channels, *size)
        for number, size in enumerate(sizes, start=1)
    ]
    unit = [(x + 0.2 * torch.randn(x.shape, generator=noise)).clamp(0, 1) for x in slopes]
    if preprocess is None or preprocess.channels != channels:
        return unit
    return [torch.from_numpy(like_inputs(x.numpy(), preprocess)) for x in unit]


def _within(size: Sequence[int], most: int, multiple: int) -> list[int]:
    """Sides in multiples, smaller alike if they make more pixels than that."""
    shrink = min(1.0, (most / math.prod(size)) ** (1 / len(size)))
    return [max(1, math.ceil(side * shrink / multiple)) * multiple for side in size]


@dataclass(frozen=True)
class Compared:
    """How far a graph is from torch."""

    probability: float  # the largest difference of a probability
    pixels: float  # the largest share of an image's pixels that differ in the mask


def compare(path: Path, method: InTEnt, activation: Activation, given: list[Tensor]) -> Compared:
    """How far a graph on onnxruntime is from torch.

    Members and their entropies are compared with those of torch, the map and the mask with those
    of torch's members; weights and scores, with what follows in torch from the graph's own
    members. So rounding cannot grow on its way through a hard mask or a small range of entropies,
    and a mistake cannot hide behind it. Above ``LIMITS`` it raises.
    """
    with _explained():
        graph = session(path)
    worst = Compared(0.0, 0.0)
    for image in given:
        with _explained():
            outputs = _outputs(graph, image)
        differing = differences(outputs, method, activation, image)
        for name, apart in differing.items():
            if not apart <= LIMITS.get(name, EXACT):
                what = "in a share of " if name in ("members", "mask") else "by "
                raise SittaError(
                    f"The graph is not what the model is: {name} differs {what}{apart:.2g} from "
                    f"torch on {' x '.join(map(str, image.shape))}. No file was written.",
                    allowed=f"{LIMITS.get(name, EXACT):g}",
                    fix=REPORT,
                )
        most = (
            max(worst.probability, differing["probability"]),
            max(worst.pixels, differing["mask"]),
        )
        worst = Compared(*most)
    return worst


def _outputs(graph: Any, image: Tensor) -> dict[str, Array]:
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(None, {"image": image.numpy()}), strict=True))


@contextmanager
def _explained() -> Iterator[None]:
    """Say what onnxruntime cannot do."""
    try:
        yield
    except Exception as error:  # onnxruntime's own kinds have no base but this
        said = " ".join(str(error).split())[:300]
        raise SittaError(
            f"onnxruntime {runtime().__version__} cannot run the graph of this model ({said}). "
            "No file was written.",
            fix=REPORT,
        ) from error


def differences(
    outputs: dict[str, Array], method: InTEnt, activation: Activation, image: Tensor
) -> dict[str, float]:
    """By what each output differs, in the way that ``compare`` says."""
    theirs = method(image).arrays()
    mine: dict[str, Any] = {name: torch.from_numpy(value) for name, value in outputs.items()}
    members, usable, weights = mine["members"], mine["usable"], mine["weights"]
    hard = [ballots(m, activation).flatten(2) for m in (members, torch.tensor(theirs["members"]))]
    same = (hard[0] == hard[1]).all(dim=2).numpy()  # (K, N): no pixel is tied
    scores = torch.where(usable, mine["entropies"], torch.inf)
    how: Any = (weights, method.strategy, activation, method.ties)
    whole = integrate(members, *how)
    votes = STRATEGIES[method.strategy].votes  # of ties that rounding may decide
    wanted = whole if votes else integrate(torch.tensor(theirs["members"]), *how)
    far, other = theirs["distance"], _gaps(outputs["members"], theirs["members"])
    return {
        "members": float((~(other <= PROBABILITY)).mean()),
        "mask": float((mine["mask"] != labels(wanted, activation)).float().mean()),
        "usable": float((outputs["usable"] != theirs["usable"]).any()),
        "entropies": _apart(outputs["entropies"][same], theirs["entropies"][same]),
        "distance": _apart(outputs["distance"] / (1 + far), far / (1 + far)),
        "weights": _apart(weights, weigh(method.strategy, scores, method.topk)),
        "integration": _apart(mine["probability"], whole),
        "probability": _apart(mine["probability"], wanted),
        **{
            name: _apart(mine[name], compute(whole, members, usable, activation))
            for name, compute in computed().items()
        },
    }


def _apart(one: Any, other: Any) -> float:
    return float(_gaps(one, other).max(initial=0.0))


def _gaps(one: Any, other: Any) -> Array:
    one, other = np.asarray(one), np.asarray(other)
    both = np.isnan(one) & np.isnan(other)
    return np.where(both, 0.0, np.abs(one - other))
