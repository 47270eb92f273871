"""A model and its preprocessing: a checkpoint, the user's own code, or a graph without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitta.data.preprocess import TASKS, Preprocess
from sitta.errors import InvalidSetting
from sitta.models import zoo
from sitta.runs.graph import Graph, is_graph

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Loaded:
    """A model that is ready for files.

    Attributes:
        name: As it was asked for.
        model: The network, in evaluation mode; or the graph of an ``.onnx`` file.
        preprocess: What it takes.
        classes: Names of its foreground classes.
        digest: SHA-256 of its weights.
        runtime: What runs it, with its version.
        settings: Of the method, if the model has them built in.
    """

    name: str
    model: nn.Module | Graph
    preprocess: Preprocess
    classes: tuple[str, ...]
    digest: str
    runtime: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def load_model(
    name: str,
    weights: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Loaded:
    """A model by the name of a shipped one, a checkpoint, a graph, or ``package.module:factory``.

    Args:
        name: Which.
        weights: For a factory: a safetensors file, or a ``.pt`` with tensors alone.
        changes: Settings of the preprocessing that differ from the model's own or the usual ones.
        threads: For a graph: how many it may use; all cores if None.

    Example:
        >>> load_model("phantom-alder").classes
        ('organ',)
    """
    if ":" in name and not Path(name).exists():
        return _from_factory(name, weights, changes or {})
    if weights is not None:
        raise InvalidSetting(
            "Weights of their own go with a network of your own.",
            allowed="package.module:factory --weights FILE",
            got=f"{name} --weights {weights}",
        )
    if is_graph(name):
        return _from_graph(name, changes or {}, threads)
    return _from_checkpoint(name, changes or {})


def _from_graph(name: str, changes: Mapping[str, Any], threads: int | None) -> Loaded:
    graph = Graph(name, threads)
    described = _described(graph.card, changes)
    return Loaded(name, graph, *described, zoo.digest(Path(name)), graph.runtime, graph.settings)


def _from_checkpoint(name: str, changes: Mapping[str, Any]) -> Loaded:
    import torch

    from sitta.models import checkpoint

    path = checkpoint.find(name)
    described = _described(checkpoint.card(path), changes)
    runtime = {"torch": str(torch.__version__)}
    return Loaded(name, checkpoint.load(path), *described, zoo.digest(path), runtime)


def _from_factory(name: str, weights: str | Path | None, changes: Mapping[str, Any]) -> Loaded:
    import torch

    from sitta.runs import network

    model, preprocess = network.from_factory(name, weights), Preprocess(**changes)
    runtime = {"torch": str(torch.__version__)}
    return Loaded(name, model, preprocess, ("foreground",), network.digest(model), runtime)


def _described(
    card: Mapping[str, Any], changes: Mapping[str, Any]
) -> tuple[Preprocess, tuple[str, ...]]:
    """What a model takes and finds, as its card says."""
    usual = TASKS.get(str(card.get("source", "")).split("/")[0], Preprocess()).as_dict()
    settings = {**usual, **card.get("preprocess", {}), **changes}
    classes = tuple(card.get("classes", ["background", "foreground"])[1:])
    return Preprocess.from_dict(settings), classes
