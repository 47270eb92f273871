"""Counts and times for operators, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
VERBS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")


class Metrics:
    """What one service counted since its start, and what ``gauges`` measures when asked."""

    def __init__(self, gauges: Collector) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # times of creation, one for each series
        own = CollectorRegistry()  # services of one process share no counts
        own.register(gauges)
        self._registry = own
        self._requests = Counter(
            "sitta_requests", "Requests answered.", ("method", "route", "status"), registry=own
        )
        self._jobs = Counter("sitta_jobs", "Jobs by outcome.", ("outcome",), registry=own)
        self._seconds = Histogram(
            "sitta_job_seconds", "From upload to answer.", buckets=BUCKETS, registry=own
        )

    def request(self, method: str, route: str, status: int) -> None:
        """A request was answered; ``route`` is the pattern, so that no id is kept."""
        self._requests.labels(method if method in VERBS else "other", route, str(status)).inc()

    def job(self, outcome: str, seconds: float) -> None:
        """A job ended: ``done``, the code of its error, or ``abandoned``."""
        self._jobs.labels(outcome).inc()
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self._registry)
