"""What a cluster loses is done again, but not for ever."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sitta.bench.plan.cells import expand
from sitta.bench.run import cluster
from sitta.bench.run.results import Results


class WorkerCrashedError(Exception):
    """As Ray raises it."""


class Promise:
    def __init__(self, function, shared, work, pause=0.0):
        self.function, self.shared, self.work, self.pause = function, shared, work, pause


class Ray:
    """As much of Ray as ``spread`` asks for, in this process.

    Args:
        losses: What goes wrong with a piece of work, attempt by attempt.
    """

    exceptions = SimpleNamespace(RayError=WorkerCrashedError)

    def __init__(self, losses):
        self.losses = {name: iter(errors) for name, errors in losses.items()}
        self.attempts, self.pauses = Counter(), {}

    def put(self, what):
        return what

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, *, num_cpus, max_retries):
        assert max_retries == 0  # or Ray would go on by itself
        return lambda function: SimpleNamespace(remote=lambda *given: Promise(function, *given))

    def wait(self, promises):
        return promises[:1], promises[1:]

    def get(self, promise):
        self.attempts[str(promise.work)] += 1
        error = next(self.losses.get(str(promise.work), iter(())), None)
        if error is not None:
            raise error
        self.pauses.setdefault(str(promise.work), []).append(promise.pause)
        return promise.function(promise.shared, promise.work)


def finish(results, work):
    """Leave the files that the work leaves."""
    for path in [*map(results.cell, work.cells)] or [results.checkpoint(work.model)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def spread(plan, tmp_path, monkeypatch):
    """Spreads the works of a plan over such a Ray; a node does them at once, or what it is told."""

    def start(losses, node=lambda results, work: finish(results, work)):
        ray, done, told = Ray(losses), [], []
        results, works = Results(tmp_path / "out"), expand(plan)

        def do(shared, work, pause=0.0):
            done.append(str(work))
            return node(shared[1], work)

        def watch(count, total):
            assert (count, total) == (sum(map(results.done, works)), len(works))
            told.append(count)

        monkeypatch.setattr(cluster, "joined", lambda address: nullcontext(ray))
        monkeypatch.setattr(cluster, "_do", do)
        results.open(plan, works)
        cluster.spread(plan, results, works, "local", watch)
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
    assert found.told[-1] == len(expand(plan)) - 1


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


def test_work_that_a_node_hands_back_is_handed_out_again(plan, spread):
    """It did not see the model yet; or it did the work, and that is not seen here yet."""
    behind = [str(work) for work in expand(plan)][:3]
    seen = Counter()

    def node(results, work):
        seen[str(work)] += 1
        if str(work) not in behind or seen[str(work)] > 3:
            finish(results, work)
        return "node n1 saw nothing"

    found = spread({}, node)
    assert found.results.failures() == {}
    assert {found.ray.attempts.pop(name) for name in behind} == {4}
    assert set(found.ray.attempts.values()) == {1}
    assert found.ray.pauses[behind[0]] == pytest.approx([0.0, 0.3, 0.9, 2.1])
    assert all(map(found.results.done, expand(plan)))


def test_work_that_is_handed_back_each_time_fails(plan, spread):
    blind = next(work for work in expand(plan) if work.kind == "members")

    def node(results, work):
        if work != blind:
            finish(results, work)
        elif not results.cell(work.cells[0]).exists():
            finish(results, replace(work, cells=work.cells[:1]))
        return "node n1 saw no model"

    found = spread({}, node)
    assert found.ray.attempts[str(blind)] == 6
    said = found.results.failures()
    assert list(said) == [str(blind)]
    assert said[str(blind)].startswith(
        f"6 attempts on the cluster came to an end, but here {len(blind.cells) - 1} of"
        f" {len(blind.cells)} cells are still missing (at last, node n1 saw no model)."
    )
    assert f"all nodes see the data and {found.results.folder} at the same" in said[str(blind)]
    assert found.told[-1] == len(expand(plan)) - 1


def test_what_waits_for_a_training_that_failed_is_no_failure_of_its_own(plan, spread):
    train = expand(plan)[0]

    def node(results, work):
        if work == train:
            results.fail(work, "The film is wet.\n")
        elif work.model != train.model:
            finish(results, work)
        return "node n1 saw no model"

    found = spread({}, node)
    assert found.results.failures() == {str(train): "The film is wet.\n"}
    assert set(found.ray.attempts.values()) == {1}
    rest = [work for work in expand(plan) if work.model != train.model]
    assert found.told[-1] == len(rest)


def test_a_node_tells_what_it_sees(plan, tmp_path, monkeypatch):
    results, (train, members) = Results(tmp_path / "out"), expand(plan)[:2]
    monkeypatch.setattr(cluster.allocator, "keep_everything", lambda: None)
    monkeypatch.setattr(cluster, "attempt", lambda plan, results, work: finish(results, work))
    monkeypatch.setattr(cluster, "PAUSE", 0.0)
    assert cluster._do((plan, results), members).endswith(
        f"saw no {results.checkpoint(train.model)}"
    )
    assert cluster._do((plan, results), train).endswith("saw it done")
    results.fail(members, "wet")
    assert cluster._do((plan, results), members).endswith("saw it failed")
    results.forgive()
    assert cluster._do((plan, results), members).endswith("saw it done")
