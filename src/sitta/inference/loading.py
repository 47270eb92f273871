"""A model and its preprocessing: a checkpoint, the user's own code, or a graph without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitta.data.preprocess import STRUCTURES, TASKS, Preprocess
from sitta.errors import InvalidSetting
from sitta.inference.backends.onnx import Graph, is_graph
from sitta.inference.pipeline import Adapt
from sitta.inference.request import Request
from sitta.models import zoo

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Loaded:
    """A model that is ready for files."""

    name: str  # as it was asked for
    model: nn.Module | Graph  # the network, in evaluation mode; or the graph of an .onnx file
    preprocess: Preprocess  # what it takes
    classes: tuple[str, ...]  # names of its foreground classes
    digest: str  # SHA-256 of its weights
    runtime: Mapping[str, str] = field(default_factory=dict)  # what runs it, with its version
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method, if built in

    def adapter(self, request: Request, threads: int | None = None) -> Adapt:
        """The model with its method; torch is imported for a network only."""
        if isinstance(self.model, Graph):
            self.model.require(request)
            return self.model
        from sitta.inference.backends.torch import adapter

        return adapter(self.model, request, threads)


def load_model(
    name: str,
    weights: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Loaded:
    """A model by the name of a shipped one, a checkpoint, a graph, or ``package.module:factory``.

    A factory may have weights: a safetensors file, or a ``.pt`` with tensors alone. The changes are
    those of its preprocessing. A graph uses all cores, unless it is told how many threads.
    """
    changes = changes or {}
    if ":" in name and not Path(name).exists():
        from sitta.inference.backends.torch import RUNTIME, digest, from_factory

        net = from_factory(name, weights)
        return Loaded(name, net, Preprocess(**changes), ("foreground",), digest(net), RUNTIME)
    if weights is not None:
        raise InvalidSetting(
            "Weights of their own go with a network of your own.",
            allowed="package.module:factory --weights FILE",
            got=f"{name} --weights {weights}",
        )
    if is_graph(name):
        graph, path = Graph(name, threads), Path(name)
        described = _described(graph.card, changes)
        return Loaded(name, graph, *described, zoo.digest(path), graph.runtime, graph.settings)
    from sitta.inference.backends.torch import RUNTIME
    from sitta.models import checkpoint

    path = checkpoint.find(name)
    described = _described(checkpoint.card(path), changes)
    return Loaded(name, checkpoint.load(path), *described, zoo.digest(path), RUNTIME)


def _described(
    card: Mapping[str, Any], changes: Mapping[str, Any]
) -> tuple[Preprocess, tuple[str, ...]]:
    """What a model takes and finds, as its card says."""
    task = str(card.get("source", "")).split("/")[0]
    usual = TASKS.get(task, Preprocess()).as_dict()
    settings = {**usual, **card.get("preprocess", {}), **changes}
    classes = tuple(card.get("classes", ["background", "foreground"])[1:])
    if classes == ("foreground",):
        classes = (STRUCTURES.get(task, "foreground"),)
    return Preprocess.from_dict(settings), classes
