"""A model and its profile: a file that says all, a checkpoint, one's own code, or a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitta.adaptation import DEFAULT
from sitta.data.preprocess import STRUCTURES, Preprocess
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.inference.backends.onnx import Graph
from sitta.inference.backends.onnx import is_graph as is_graph_file
from sitta.inference.pipeline import Adapt
from sitta.inference.request import Request
from sitta.models import zoo
from sitta.models.profile import Profile, profile_of_card
from sitta.models.profile.card import card_of_profile

if TYPE_CHECKING:
    from torch import nn

UNNAMED = ("foreground",)  # the class of a model that names none


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
    profile: Profile = field(default_factory=Profile)  # with all that was changed by the caller

    @property
    def usual_method(self) -> str:
        """The method if none is asked for: that of a graph, else the default."""
        return self.model.manifest.method if isinstance(self.model, Graph) else DEFAULT

    def resolved(self, request: Request) -> Request:
        """The request with a method, also if it leaves that open."""
        return replace(request, method=request.method or self.usual_method)

    def adapter(self, request: Request, threads: int | None = None) -> Adapt:
        """The model with its method; torch is imported for a network only."""
        request = self.resolved(request)
        if isinstance(self.model, Graph):
            self.model.require(request)
            return self.model
        from sitta.inference.backends.torch import adapter

        own, asked = self.profile, request
        request = replace(
            request,
            window=request.window or own.window,
            statistics=request.statistics or own.statistics,
        )
        return adapter(self.model, request, threads, own.overlap if asked.window is None else None)


def load_model(
    name: str,
    weights: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    threads: int | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Loaded:
    """A model of any kind: what ``find_profile`` takes, loaded, with its profile.

    The changes are those of its preprocessing; ``reading`` replaces ``output``, ``activation`` and
    ``thresholds`` of its profile. A graph uses all cores, unless it is told how many threads.
    """
    return load_profile(name, find_profile(name, weights), changes, threads, reading)


def load_profile(
    name: str,
    profile: Profile,
    changes: Mapping[str, Any] | None = None,
    threads: int | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Loaded:
    """As ``load_model``, by a profile in place of a name."""
    changes = {"preprocess": changes or None, **(reading or {})}
    if profile.onnx:
        return _graph(name, profile, changes, threads)
    if profile.factory:
        return _from_factory(name, profile, changes)
    if profile.checkpoint:
        return _from_checkpoint(name, profile, changes)
    raise InvalidSetting(
        f"{name} does not say where its network comes from.",
        fix='add factory, checkpoint or onnx under [model], such as factory = "net.py:build"',
    )


def load(name_or_path: str | Path) -> nn.Module:
    """A trained model, ready to use: by name, from a profile, or from a checkpoint file.

    Args:
        name_or_path: A model of the zoo, such as ``chest-mcu``; the path of a profile or of a
            checkpoint; or ``package.module:factory``.

    Returns:
        The network in evaluation mode, with its profile in ``.profile`` and its card in ``.card``.

    Example:
        >>> import torch
        >>> model = load("phantom-alder")
        >>> model(torch.rand(1, 1, 64, 64)).shape
        torch.Size([1, 1, 64, 64])
        >>> model.profile.names
        ('organ',)
    """
    loaded = load_model(str(name_or_path))
    if isinstance(loaded.model, Graph):
        raise UnsupportedModel(
            f"{name_or_path} is a graph, which is no torch.nn.Module.",
            fix="run it with sitta predict or serve, or load what it was exported from",
        )
    return loaded.model


def is_graph(name: str) -> bool:
    """Whether a model is an ONNX file, itself or by its profile."""
    if name.lower().endswith(".toml"):
        return Profile.read(name).onnx is not None
    return is_graph_file(name)


def find_profile(name: str, weights: str | Path | None = None) -> Profile:
    """The profile of a model by its name, as far as it is known before the model is loaded.

    A model is a profile (``model.toml``), a model of the zoo, a checkpoint, an ``.onnx`` file, or
    a factory: ``package.module:function`` or ``file.py:function``, which may have weights.
    """
    given = None if weights is None else str(Path(weights).absolute())
    if name.lower().endswith(".toml"):
        profile = Profile.read(name)
        return profile if given is None else replace(profile, weights=given)
    if ":" in name and not Path(name).exists():
        return Profile(factory=name, weights=given)
    if given is not None:
        raise InvalidSetting(
            "Weights of their own go with a network of your own.",
            allowed="package.module:factory --weights FILE",
            got=f"{name} --weights {weights}",
        )
    return Profile(onnx=name) if is_graph_file(name) else Profile(checkpoint=name)


def _from_factory(name: str, profile: Profile, changes: Mapping[str, Any]) -> Loaded:
    from sitta.inference.backends.torch import RUNTIME, digest, from_factory

    weights = profile.path(profile.weights) if profile.weights else None
    net = from_factory(profile.location, weights, profile.arguments, profile.folder)
    usual = Preprocess()
    told = profile.said if profile.preprocess else frozenset[str]()
    profile = replace(profile.over(Profile(preprocess=usual)), said=told).changed(**changes)
    return _finished(name, net, profile, digest(net), RUNTIME)


def _from_checkpoint(name: str, profile: Profile, changes: Mapping[str, Any]) -> Loaded:
    from sitta.inference.backends.torch import RUNTIME
    from sitta.inference.backends.weights import is_torchscript, torchscript
    from sitta.models import checkpoint

    where = str(profile.checkpoint)
    beside = profile.path(where)
    path = beside if profile.folder and beside.is_file() else checkpoint.find(where)
    if is_torchscript(path):
        raise torchscript(where)
    profile = profile.over(profile_of_card(checkpoint.card(path), path)).changed(**changes)
    return _finished(name, checkpoint.load(path), profile, zoo.digest(path), RUNTIME)


def _graph(name: str, profile: Profile, changes: Mapping[str, Any], threads: int | None) -> Loaded:
    path = profile.path(str(profile.onnx))
    graph = Graph(path, threads)
    profile = profile.over(profile_of_card(graph.card, path)).changed(**changes)
    graph.profile = profile
    return _finished(name, graph, profile, zoo.digest(path), graph.runtime, graph.settings)


def _finished(
    name: str,
    model: nn.Module | Graph,
    profile: Profile,
    digest: str,
    runtime: Mapping[str, str],
    settings: Mapping[str, Any] | None = None,
) -> Loaded:
    """The model with its profile, and with a card for what reads that."""
    if not isinstance(model, Graph):
        from sitta.core.twin import unwrap

        own = getattr(model, "card", None)
        card = {**(own if isinstance(own, dict) else {}), **card_of_profile(profile)}
        for one in (model, unwrap(model)):  # of a wrapper, what is inside is asked
            one.profile, one.card = profile, card  # type: ignore[assignment]  # plain attributes
        _require_own_calibration(name, model, profile)
    inputs = profile.preprocess or Preprocess()
    classes = profile.names or UNNAMED
    if classes == UNNAMED:
        classes = (STRUCTURES.get(profile.source.split("/")[0], UNNAMED[0]),)
    return Loaded(name, model, inputs, classes, digest, runtime, settings or {}, profile)


def _require_own_calibration(name: str, model: nn.Module, profile: Profile) -> None:
    """Refuse what was learnt of other weights: it would say nothing true of these."""
    if profile.calibration is None:
        return
    from sitta.calibration.calibrate import fingerprint

    if profile.calibration.get("weights") not in (None, fingerprint(model)):
        raise UnsupportedModel(
            f"The calibration of {name} was made with other weights.",
            fix="calibrate again (sitta calibrate), or leave calibration out of the profile",
        )
