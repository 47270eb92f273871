"""What a cluster loses is done again, but not for ever."""

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from sitta.benchmark import cluster
from sitta.benchmark.cells import expand
from sitta.benchmark.results import Results


class WorkerCrashedError(Exception):
    """As Ray raises it."""


class Promise:
    def __init__(self, function, shared, work):
        self.function, self.shared, self.work = function, shared, work


class Ray:
    """As much of Ray as ``spread`` asks for, in this process.

    Args:
        losses: What goes wrong with a piece of work, attempt by attempt.
    """

    exceptions = SimpleNamespace(RayError=WorkerCrashedError)

    def __init__(self, losses):
        self.losses = {name: iter(errors) for name, errors in losses.items()}
        self.attempts = Counter()

    def put(self, what):
        return what

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, *, num_cpus, max_retries):
        assert max_retries == 0  # or Ray would go on by itself
        return lambda function: SimpleNamespace(
            remote=lambda shared, work: Promise(function, shared, work)
        )

    def wait(self, promises):
        return promises[:1], promises[1:]

    def get(self, promise):
        self.attempts[str(promise.work)] += 1
        error = next(self.losses.get(str(promise.work), iter(())), None)
        if error is not None:
            raise error
        promise.function(promise.shared, promise.work)


@pytest.fixture
def spread(plan, tmp_path, monkeypatch):
    """Spreads the works of a plan over such a Ray."""

    def start(losses):
        ray, done, told = Ray(losses), [], []
        monkeypatch.setattr(cluster, "joined", lambda address: nullcontext(ray))
        monkeypatch.setattr(cluster, "_do", lambda shared, work: done.append(str(work)))
        results, works = Results(tmp_path / "out"), expand(plan)
        results.open(plan, works)
        cluster.spread(plan, results, works, "local", lambda *counts: told.append(counts))
        return SimpleNamespace(ray=ray, done=done, told=told, results=results)

    return start


def test_work_that_is_lost_each_time_fails_and_the_rest_goes_on(plan, spread):
    poison = str(next(work for work in expand(plan) if work.kind == "methods"))
    found = spread({poison: [WorkerCrashedError("The worker died.\n")] * 100})
    assert found.ray.attempts.pop(poison) == 6
    assert set(found.ray.attempts.values()) == {1}
    assert sorted([*found.done, poison]) == sorted(map(str, expand(plan)))
    said = found.results.failures()
    assert list(said) == [poison]
    first, last = said[poison].split("\n")[0], said[poison].strip().splitlines()[-1]
    assert first == "The worker died."
    assert last.startswith("None of 6 attempts on the cluster came to an end")
    assert "WorkerCrashedError" in last
    assert found.told[-1] == (len(expand(plan)), len(expand(plan)))


def test_work_that_is_lost_a_few_times_is_done(plan, spread):
    """A training, too: what waits for its model is not handed out before."""
    names = [str(work) for work in expand(plan)]
    found = spread({name: [WorkerCrashedError("gone")] * 5 for name in names[:2]})
    assert found.results.failures() == {}
    assert [found.ray.attempts[name] for name in names[:3]] == [6, 6, 1]
    assert sorted(found.done) == sorted(names)
    assert found.done.index(names[0]) < found.done.index(names[1])


def test_a_person_who_stops_the_run_stops_it(plan, spread, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        spread({str(expand(plan)[0]): [KeyboardInterrupt()]})
    assert Results(tmp_path / "out").failures() == {}
