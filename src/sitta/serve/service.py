"""What the routes share: the workers, the results, the limits and the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge

from sitta.serve.choice import offered, takes_threshold
from sitta.serve.draft import Event
from sitta.serve.errors import ApiError
from sitta.serve.metrics import Metrics
from sitta.serve.pool import Pool
from sitta.serve.remedy import Remedy
from sitta.serve.render import kinds
from sitta.serve.session import open_store
from sitta.serve.upload import Upload
from sitta.serve.worker import WorkerConfig


class Service:
    """A service that is started, and leaves nothing behind when it is closed."""

    def __init__(
        self,
        config: WorkerConfig,
        workers: int,
        log: Callable[[str], None],
        session: Path | None = None,  # a folder that keeps all results
    ) -> None:
        self.limits = config.limits
        self.metrics, self.log = Metrics(self), log
        self.pool = Pool(config, workers, log)
        self.description = self.pool.start()
        self.store = open_store(self.limits, session)
        for name in self.store.unread:
            log(f"session: {name} cannot be read, and is left as it is")

    def close(self) -> None:
        """End the workers, and remove all results."""
        self.pool.close()
        self.store.close()

    async def predict(
        self, upload: Upload, tell: Callable[[Event], None] | None = None
    ) -> dict[str, Any]:
        """The answer for an upload, which is kept for a while; ``tell`` hears of its progress."""
        model = self._model(upload.fields.get("model", ""))
        method = self._method(model, upload.fields.get("method", ""))
        remedy = Remedy.of(upload.fields)
        upload = self._with_files(upload)
        name = self.store.new()
        job = {
            "files": [str(path) for path in upload.files],
            "out": str(self.store.folder(name)),
            "model": model["name"],
            "method": method,
            "settings": dict(upload.settings),
            **asdict(remedy),
            "follow": tell is not None,
        }
        group = upload.fields.get("group", "")[:64]
        named = {"id": name, "name": upload.name, "path": upload.path, "group": group}
        try:
            result, layout = await self.pool.run(job, tell and self._shown(name, named, tell))
        except BaseException as error:
            self.store.drop(name)
            if isinstance(error, ApiError):
                raise _with_client_names(error, upload) from None
            raise
        links = {kind: f"/api/results/{name}/{kind}" for kind in kinds(result)}
        told = {"masks": offered(result), "threshold": takes_threshold(result)}
        answer = {**named, **result, **told, "links": links}
        self.store.add(name, answer, layout, upload.files)
        return answer

    def _shown(
        self, name: str, named: dict[str, Any], tell: Callable[[Event], None]
    ) -> Callable[[Event], None]:
        """Tells of a job after its image can be asked for."""

        def told(event: Event) -> None:
            if "layout" in event:
                layout = event.pop("layout")
                event["answer"] = {**named, **event["answer"]}
                self.store.begin(name, event["answer"], layout)
            tell(event)

        return told

    def _with_files(self, upload: Upload) -> Upload:
        """The upload; of one that names an earlier result, with that one's files."""
        if upload.files:
            return upload
        entry = self.store.get(upload.fields["again"])
        files = entry.uploads
        if not files:
            raise ApiError(
                422,
                "no-file",
                "The image of this result is not kept.",
                allowed="results of a service with --session",
                fix="send the image again",
            )
        names = {name: entry.answer[name] for name in ("name", "path")}
        return replace(upload, files=files, **names)

    def _model(self, name: str) -> dict[str, Any]:
        models: list[dict[str, Any]] = self.description["models"]
        for model in models:
            if model["name"] == name or (not name and model["default"]):
                return model
        names = ", ".join(model["name"] for model in models)
        raise ApiError(404, "no-model", "There is no such model here.", allowed=names)

    def _method(self, model: dict[str, Any], name: str) -> str:
        method = str(name or model["method"])
        if method not in model["methods"]:
            message = "There is no such method."
            if any(method == each["name"] for each in self.description["methods"]):
                message = "The method does not apply to this model."
            raise ApiError(404, "no-method", message, allowed=", ".join(model["methods"]))
        return method

    def collect(self) -> Iterator[Metric]:
        """What is measured when ``/metrics`` is read."""
        pool, store = self.pool, self.store
        yield Gauge("sitta_queue_length", "Requests that wait for a worker.", pool.waiting)
        yield Gauge("sitta_jobs_running", "Jobs that workers are doing.", pool.running)
        yield Gauge("sitta_workers", "Worker processes.", len(pool.pids))
        yield Counter("sitta_worker_restarts", "Workers ended and replaced.", pool.restarts)
        yield Gauge("sitta_results", "Results that are kept.", len(store))
        yield Gauge("sitta_results_bytes", "Bytes of all results.", store.size)


def _with_client_names(error: ApiError, upload: Upload) -> ApiError:
    """The client's name for its file in place of ours, wherever the worker said it."""
    for path in (*upload.files, upload.files[0].parent):
        texts = {name: getattr(error, name) for name in ("message", "allowed", "fix")}
        ours, theirs = str(path), upload.name
        error = replace(error, **{k: t and t.replace(ours, theirs) for k, t in texts.items()})
    return error
