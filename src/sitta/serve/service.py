"""What the routes share: the workers, the results, the limits and the counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sitta.serve.limits import Limits
from sitta.serve.metrics import Metrics
from sitta.serve.pool import Pool
from sitta.serve.refusal import Refusal
from sitta.serve.render import kinds
from sitta.serve.store import Store
from sitta.serve.upload import Parcel
from sitta.serve.worker import Orders


class Service:
    """A service that is started, and leaves nothing behind when it is closed.

    Args:
        orders: Models, limits and threads of a worker.
        workers: How many.
        log: Takes a line for the operator.
    """

    def __init__(self, orders: Orders, workers: int, log: Callable[[str], None]) -> None:
        self.limits: Limits = orders.limits
        self.metrics, self.log = Metrics(), log
        self.pool = Pool(orders, workers, log)
        self.pool.start()
        self.store = Store(self.limits)

    @property
    def known(self) -> dict[str, Any]:
        """Models and methods, as a worker describes them."""
        return self.pool.known

    def close(self) -> None:
        """End the workers, and remove all results."""
        self.pool.close()
        self.store.close()

    async def predict(self, parcel: Parcel) -> dict[str, Any]:
        """The answer for an upload, which is kept for a while."""
        model = self._model(parcel.fields.get("model", ""))
        method = self._method(model, parcel.fields.get("method", ""))
        name = self.store.new()
        job = {
            "files": [str(path) for path in parcel.files],
            "out": str(self.store.root / f"result-{name}"),
            "model": model["name"],
            "method": method,
            "settings": dict(parcel.settings),
        }
        try:
            found = await self.pool.run(job)
        except BaseException as error:
            self.store.drop(name)
            if isinstance(error, Refusal):
                raise _renamed(error, parcel) from None
            raise
        links = {kind: f"/api/results/{name}/{kind}" for kind in kinds(found)}
        answer = {"id": name, "name": parcel.name, **found, "links": links}
        self.store.add(name, answer)
        return answer

    def _model(self, name: str) -> dict[str, Any]:
        models: list[dict[str, Any]] = self.known["models"]
        for model in models:
            if model["name"] == name or (not name and model["default"]):
                return model
        raise Refusal(
            404,
            "no-model",
            "There is no such model here.",
            allowed=", ".join(m["name"] for m in models),
        )

    def _method(self, model: dict[str, Any], name: str) -> str:
        wanted = name or model["method"]
        if wanted in model["methods"]:
            return str(wanted)
        known = any(wanted == method["name"] for method in self.known["methods"])
        raise Refusal(
            404,
            "no-method",
            "The method does not apply to this model." if known else "There is no such method.",
            allowed=", ".join(model["methods"]),
        )

    def gauges(self) -> dict[str, tuple[str, str, float]]:
        """What is measured now, for the metrics."""
        pool, store = self.pool, self.store
        return {
            "queue_length": ("gauge", "Requests that wait for a worker.", pool.waiting),
            "jobs_running": ("gauge", "Jobs that workers are at.", pool.running),
            "workers": ("gauge", "Worker processes.", len(pool.pids)),
            "worker_restarts_total": ("counter", "Workers ended and replaced.", pool.restarts),
            "results": ("gauge", "Results that are kept.", len(store)),
            "results_bytes": ("gauge", "Bytes of all results.", store.size),
        }

    def __repr__(self) -> str:
        return f"Service({json.dumps([m['name'] for m in self.known['models']])})"


def _renamed(error: Refusal, parcel: Parcel) -> Refusal:
    """The client's name for its file in place of ours, wherever the worker said it."""

    def mended(text: str | None) -> str | None:
        if text is None:
            return None
        for path in parcel.files:
            text = text.replace(str(path), parcel.name)
        return text.replace(str(parcel.files[0].parent), parcel.name)

    said = mended(error.message) or ""
    told = {"allowed": mended(error.allowed), "fix": mended(error.fix), "headers": error.headers}
    return Refusal(error.status, error.code, said, **told)  # type: ignore[arg-type]
