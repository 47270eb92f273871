"""Counts and times, in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
VERBS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What happened since the start.

    Example:
        >>> metrics = Metrics()
        >>> metrics.request("GET", "/healthz", 200)
        >>> 'sitta_requests_total{method="GET",route="/healthz",status="200"} 1' in metrics.text({})
        True
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._jobs: Counter[str] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0

    def request(self, method: str, route: str, status: int) -> None:
        """A request was answered; ``route`` is the pattern, so that no id is kept."""
        self._requests[method if method in VERBS else "other", route, status] += 1

    def job(self, outcome: str, seconds: float) -> None:
        """A job ended: ``done``, the code of its refusal, or ``abandoned``."""
        self._jobs[outcome] += 1
        self._seconds += seconds
        self._buckets.update(bound for bound in BUCKETS if seconds <= bound)

    def text(self, gauges: Mapping[str, tuple[str, str, float]]) -> str:
        """All of it.

        Args:
            gauges: By name: type, help and value of what is measured now.
        """
        lines = [*self._request_lines(), *self._job_lines(), *self._time_lines()]
        for name, (kind, about, value) in gauges.items():
            lines += [*_head(f"sitta_{name}", kind, about), f"sitta_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _request_lines(self) -> Iterator[str]:
        yield from _head("sitta_requests_total", "counter", "Requests answered.")
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"sitta_requests_total{{{labels}}} {count}"

    def _job_lines(self) -> Iterator[str]:
        yield from _head("sitta_jobs_total", "counter", "Jobs by what they came to.")
        for outcome, count in sorted(self._jobs.items()):
            yield f'sitta_jobs_total{{outcome="{outcome}"}} {count}'

    def _time_lines(self) -> Iterator[str]:
        yield from _head("sitta_job_seconds", "histogram", "From the upload's end to the answer.")
        for bound in BUCKETS:
            yield f'sitta_job_seconds_bucket{{le="{bound:g}"}} {self._buckets[bound]}'
        total = self._jobs.total()
        yield f'sitta_job_seconds_bucket{{le="+Inf"}} {total}'
        yield f"sitta_job_seconds_sum {self._seconds:.6f}"
        yield f"sitta_job_seconds_count {total}"


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"
