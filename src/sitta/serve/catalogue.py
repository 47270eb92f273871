"""What a worker holds: its models, the methods that go with them, and how both are described."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta.errors import InvalidSetting
from sitta.runs.graph import Graph
from sitta.runs.loading import Loaded, load_model
from sitta.runs.one import Adapt
from sitta.runs.plan import Plan
from sitta.serve.limits import Limits

ADAPTERS = 16  # kept at once: one for each model, method and settings that were asked for
USUAL = "intent"


def served_name(model: str) -> str:
    """What clients call a model: its name, or that of its file without the folder.

    Example:
        >>> served_name("chest-mcu"), served_name("/srv/models/lungs.onnx")
        ('chest-mcu', 'lungs.onnx')
    """
    return model if ":" in model else Path(model).name


class Catalogue:
    """Models that are loaded, by the names that clients use.

    Args:
        models: As on the command line; the first is the usual one.
        limits: What one image may cost.
        threads: How many a worker may use.
    """

    def __init__(self, models: Sequence[str], limits: Limits, threads: int) -> None:
        self.limits, self.threads = limits, threads
        self.loaded: dict[str, Loaded] = {}
        self._adapters: OrderedDict[str, Adapt] = OrderedDict()
        for model in models:
            name = served_name(model)
            if name in self.loaded:
                raise InvalidSetting(f"Two models are called {name}.", fix="name each once")
            self.loaded[name] = load_model(model, threads=threads)

    def warm(self) -> None:
        """Run the usual model once, so that no client waits for what the first pass sets up."""
        name, first = next(iter(self.loaded.items()))
        size = first.preprocess.size or (64,) * first.preprocess.dims
        noise = np.random.default_rng(0).random((1, first.preprocess.channels, *size))
        self.adapter(name, self.usual_method(name), {})(noise.astype(np.float32))

    def usual_method(self, name: str) -> str:
        """What is done if a client does not say."""
        model = self.loaded[name].model
        return model.manifest.method if isinstance(model, Graph) else USUAL

    def adapter(self, name: str, method: str, settings: Mapping[str, Any]) -> Adapt:
        """A method on a model, made once and kept for the next image.

        Raises:
            InvalidSetting: An unknown setting, one out of range, or one that costs too much.
            UnsupportedModel: The method does not apply to the model.
        """
        key = json.dumps([name, method, settings], sort_keys=True)
        if key not in self._adapters:
            self._adapters[key] = self._made(self.loaded[name], Plan(name, method, settings))
            if len(self._adapters) > ADAPTERS:
                self._adapters.popitem(last=False)
        self._adapters.move_to_end(key)
        return self._adapters[key]

    def _made(self, loaded: Loaded, plan: Plan) -> Adapt:
        if isinstance(loaded.model, Graph):
            loaded.model.require(plan)
            return loaded.model
        from sitta.adaptation import method
        from sitta.runs.network import adapter

        plan = replace(plan, settings=_typed(plan.method, plan.settings))
        self._require_passes(plan.settings.get("step"), fewest=1)
        cost = method(plan.method, loaded.model, **plan.settings).cost
        self._require_passes(None, cost.forward + 2 * cost.backward)
        return adapter(loaded.model, plan, self.threads)

    def _require_passes(self, step: Any, fewest: int) -> None:
        """Refuse settings that would keep a worker busy for hours, before any is computed."""
        tiny = isinstance(step, int | float) and 0 < step < 1 / self.limits.passes
        if tiny or fewest > self.limits.passes:
            raise InvalidSetting(
                "These settings need more passes through the network than this service allows.",
                allowed=f"at most {self.limits.passes} forward passes for one image",
                fix="fewer members, views or steps",
            )

    def describe(self) -> dict[str, Any]:
        """Models and methods in plain types."""
        models = [self._model(name, loaded) for name, loaded in self.loaded.items()]
        models[0]["default"] = True
        return {"models": models, "methods": self._methods()}

    def _model(self, name: str, loaded: Loaded) -> dict[str, Any]:
        card = getattr(loaded.model, "card", None) or {}
        source, graph = str(card.get("source", "")), isinstance(loaded.model, Graph)
        task = str(card.get("task", source.partition("/")[0]))
        finds = task if loaded.classes == ("foreground",) else ", ".join(loaded.classes)
        words = [finds, f"trained on {source}" if source else ""]
        return {
            "name": name,
            "title": ": ".join(filter(None, [name, ", ".join(filter(None, words))])),
            "task": task,
            "source": source,
            "classes": list(loaded.classes),
            "channels": loaded.preprocess.channels,
            "dims": loaded.preprocess.dims,
            "size": loaded.preprocess.size and list(loaded.preprocess.size),
            "default": False,
            "graph": graph,
            "method": self.usual_method(name),
            "methods": self._applying(loaded),
            "settings": dict(loaded.settings),
            "note": str(card.get("note", "")),
        }

    def _applying(self, loaded: Loaded) -> list[str]:
        if isinstance(loaded.model, Graph):
            return [loaded.model.manifest.method]
        from sitta.inspection import inspect

        return [name for name, problem in inspect(loaded.model).problems.items() if not problem]

    def _methods(self) -> list[dict[str, Any]]:
        graphs = [m.model for m in self.loaded.values() if isinstance(m.model, Graph)]
        if len(graphs) == len(self.loaded):  # of which each has its own built in, and no torch
            names = dict.fromkeys(g.manifest.method for g in graphs)
            about = "as exported, with its settings built in"
            return [_method(n, n, about, n == USUAL or len(names) == 1, []) for n in names]
        from sitta.adaptation import methods
        from sitta.settings import rules

        return [
            _method(name, kind.__name__, kind.description, name == USUAL, _settings(rules(kind)))
            for name, kind in methods().items()
        ]


def _typed(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the registry alone, of which forms send numbers and lists as text."""
    from sitta.adaptation import methods
    from sitta.settings import rules

    known = rules(methods()[method])
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InvalidSetting(
            f"{method} has no setting {', '.join(map(repr, unknown))[:100]}.",
            allowed=", ".join(known),
        )
    return {
        name: known[name][1].parse(value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def _method(
    name: str, title: str, summary: str, usual: bool, settings: list[Any]
) -> dict[str, Any]:
    told = {"name": name, "title": title, "summary": summary, "default": usual}
    return {**told, "settings": settings}


def _settings(found: Mapping[str, tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Settings of a method, as a form can show them; a list is text with commas, or JSON."""
    return [
        {
            "name": name,
            "kind": "text" if rule.many else rule.kind,
            "many": rule.many,
            "optional": rule.optional,
            "default": default,
            "choices": list(rule.choices) or None,
            "minimum": rule.low if rule.above is None else rule.above,
            "maximum": rule.high if rule.below is None else rule.below,
            "help": rule.help,
        }
        for name, (default, rule) in found.items()
    ]
