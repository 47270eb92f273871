"""What a worker holds: its models, the methods that go with them, and how both are described."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sitta._util.settings import constraints, parse
from sitta.adaptation import DEFAULT
from sitta.errors import InvalidSetting
from sitta.inference.backends.onnx import Graph
from sitta.inference.loading import Loaded, load_model
from sitta.inference.pipeline import Adapt
from sitta.inference.request import Request
from sitta.serve.quotas import Limits

ADAPTERS = 16  # kept at once: one for each model, method and settings that were asked for


class Catalogue:
    """Models that are loaded, by the names that clients use; the first is the usual one."""

    def __init__(
        self,
        models: Sequence[str],
        limits: Limits,
        threads: int,
        given: Mapping[str, Any] | None = None,  # in place of the profile: see ``load_model``
    ) -> None:
        self.limits, self.threads = limits, threads
        self.loaded: dict[str, Loaded] = {}
        self._adapter = lru_cache(ADAPTERS)(self._made)
        for model in models:
            name = _name(model)
            if name in self.loaded:
                raise InvalidSetting(f"Two models are called {name}.", fix="name each once")
            self.loaded[name] = load_model(model, threads=threads, **(given or {}))

    def usual_method(self, name: str) -> str:
        """What is done if a client does not say."""
        return self.loaded[name].usual_method

    def adapter(self, name: str, method: str, settings: Mapping[str, Any]) -> Adapt:
        """A method on a model, made once and kept for the next image."""
        return self._adapter(name, method, json.dumps(settings, sort_keys=True))

    def _made(self, name: str, method: str, settings: str) -> Adapt:
        loaded, request = self.loaded[name], Request(name, method, json.loads(settings))
        if not isinstance(loaded.model, Graph):
            from sitta.adaptation import methods

            parsed = parse(method, request.settings, methods()[method])
            self._require_few_passes(methods()[method], loaded.model, parsed)
            request = replace(request, settings=parsed)
        return loaded.adapter(request, self.threads)  # with the windows of its profile

    def _require_few_passes(self, method: Any, model: Any, settings: Mapping[str, Any]) -> None:
        """Refuse settings that would keep a worker busy for hours, before any is computed."""
        step, most = settings.get("step"), self.limits.passes
        tiny = isinstance(step, int | float) and 0 < step < 1 / most  # too many even to list
        cost = None if tiny else method(model, **settings).cost
        if cost is None or cost.forward + 2 * cost.backward > most:
            raise InvalidSetting(
                "These settings need more passes through the network than this service allows.",
                allowed=f"at most {most} forward passes for one image",
                fix="fewer members, views or steps",
            )

    def describe(self) -> dict[str, Any]:
        """Models and methods in plain types."""
        models = [self._model(name, loaded) for name, loaded in self.loaded.items()]
        models[0]["default"] = True
        return {"models": models, "methods": self._methods()}

    def _model(self, name: str, loaded: Loaded) -> dict[str, Any]:
        card = getattr(loaded.model, "card", None) or {}
        source = str(card.get("source", ""))
        task = str(card.get("task", source.partition("/")[0]))
        target = task if loaded.classes == ("foreground",) else ", ".join(loaded.classes)
        words = ", ".join(filter(None, [target, source and f"trained on {source}"]))
        return {
            "name": name,
            "title": f"{name}: {words}" if words else name,
            "task": task,
            "source": source,
            "classes": list(loaded.classes),
            "channels": loaded.preprocess.channels,
            "dims": loaded.preprocess.dims,
            "size": loaded.preprocess.size and list(loaded.preprocess.size),
            "default": False,
            "graph": isinstance(loaded.model, Graph),
            "method": self.usual_method(name),
            "methods": _applicable(loaded),
            "settings": dict(loaded.settings),
            "note": str(card.get("note", "")),
        }

    def _methods(self) -> list[dict[str, Any]]:
        graphs = [m.model for m in self.loaded.values() if isinstance(m.model, Graph)]
        if len(graphs) < len(self.loaded):
            from sitta.adaptation import methods

            return [_method(kind) for kind in methods().values()]
        names = dict.fromkeys(graph.manifest.method for graph in graphs)  # built in: no torch here
        about = {"summary": "as exported, with its settings built in", "takes_gradients": False}
        usual = DEFAULT if DEFAULT in names else next(iter(names))
        return [
            {"name": n, "title": n, "default": n == usual, "settings": [], **about} for n in names
        ]


def _name(model: str) -> str:
    """What clients call a model: no folders of this machine."""
    path = Path(model)
    if path.suffix == ".toml":
        return path.stem
    return path.name if ".py:" in model or ":" not in model else model


def _applicable(loaded: Loaded) -> list[str]:
    """The methods that can adapt a model."""
    if isinstance(loaded.model, Graph):
        return [loaded.model.manifest.method]
    from sitta.adaptation import methods
    from sitta.adaptation.inspection import inspect
    from sitta.adaptation.sliding_window import Windowed

    fit = [name for name, problem in inspect(loaded.model).problems.items() if not problem]
    if loaded.profile.window is None:
        return fit
    return [name for name in fit if issubclass(methods()[name], Windowed)]


def _method(kind: Any) -> dict[str, Any]:
    """A method of the registry, with its settings as a form can show them."""
    return {
        "name": kind.name,
        "title": kind.title,
        "summary": kind.description,
        "takes_gradients": kind.takes_gradients,
        "default": kind.name == DEFAULT,
        "settings": [
            {
                "name": name,
                "title": rule.title or name.replace("_", " "),
                "kind": "text" if rule.many else rule.kind,  # a list is text with commas, or JSON
                **{key: getattr(rule, key) for key in ("main", "many", "optional", "help")},
                "default": default,
                "choices": list(rule.choices) or None,
                "minimum": rule.low if rule.above is None else rule.above,
                "maximum": rule.high if rule.below is None else rule.below,
            }
            for name, (default, rule) in constraints(kind).items()
        ],
    }
