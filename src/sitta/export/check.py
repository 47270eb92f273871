"""Whether a graph that was written says what torch says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sitta.adaptation import InTEnt
from sitta.core.entropy import Activation
from sitta.core.integration import ballots, integrate, weigh
from sitta.data.image import Array
from sitta.errors import SittaError
from sitta.inference.backends.ort import runtime, session
from sitta.prediction.scores import computed

TOLERANCE = 1e-4
REPORT = "use the model in torch, and report this with the model's code"


def images(channels: int, rank: int, multiple: int, pads: bool) -> list[Tensor]:
    """Images to compare on: of two sizes and numbers, noise on a slope, from 0 to 1."""
    maps = 4 if rank < 3 else 2  # a single value in the deepest map has no variance
    side = multiple * max(maps, -(-16 // multiple))
    odd = 3 if pads and multiple > 1 else 0  # sides that do not fit
    sizes = [[side + i * multiple for i in range(rank)], [side + multiple - odd] * rank]
    noise = torch.Generator().manual_seed(0)
    slopes = [
        torch.linspace(0.2, 0.8, size[-1]).expand(number, channels, *size)
        for number, size in enumerate(sizes, start=1)
    ]
    return [(x + 0.2 * torch.randn(x.shape, generator=noise)).clamp(0, 1) for x in slopes]


def compare(path: Path, method: InTEnt, activation: Activation, given: list[Tensor]) -> float:
    """The largest difference between a graph on onnxruntime and torch.

    Members and their entropies are compared with those of torch; what follows from them, with what
    follows in torch from the graph's own. So rounding cannot grow on its way through a hard mask or
    a small range of entropies, and a mistake cannot hide behind it. Above ``TOLERANCE`` it raises.
    """
    with _explained():
        graph = session(path)
    worst = 0.0
    for image in given:
        with _explained():
            outputs = _outputs(graph, image)
        for name, apart in differences(outputs, method, activation, image).items():
            if not apart <= TOLERANCE:
                raise SittaError(
                    f"The graph is not what the model is: {name} differs by {apart:.2g} from "
                    f"torch on {' x '.join(map(str, image.shape))}. No file was written.",
                    allowed=f"{TOLERANCE:g}",
                    fix=REPORT,
                )
            worst = max(worst, apart)
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
    whole = integrate(members, weights, method.strategy, activation, method.ties)
    far = theirs["distance"]
    return {
        "members": _apart(outputs["members"], theirs["members"]),
        "usable": float((outputs["usable"] != theirs["usable"]).any()),
        "entropies": _apart(outputs["entropies"][same], theirs["entropies"][same]),
        "distance": _apart(outputs["distance"] / (1 + far), far / (1 + far)),
        "weights": _apart(weights, weigh(method.strategy, scores, method.topk)),
        "probability": _apart(mine["probability"], whole),
        **{
            name: _apart(mine[name], compute(whole, members, usable, activation))
            for name, compute in computed().items()
        },
    }


def _apart(one: Any, other: Any) -> float:
    one, other = np.asarray(one), np.asarray(other)
    if not one.size:
        return 0.0
    both = np.isnan(one) & np.isnan(other)
    return float(np.where(both, 0.0, np.abs(one - other)).max())
