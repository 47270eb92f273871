"""A part of a plan's work, and the order in which a cluster is handed it."""

import pytest

from sitta.bench.plan.cells import expand, models, select
from sitta.bench.plan.estimate import estimate
from sitta.bench.plan.load import read_plan
from sitta.bench.run.cluster import upcoming
from sitta.bench.run.scheduler import run
from sitta.errors import InvalidSetting
from tests.bench.tiny import PLAN

SECOND = """
[tasks.other]
folder = "phantom"
domains = ["alder", "birch"]
size = [16, 16]
"""


def test_a_part_of_the_work_is_that_of_some_repeats_and_tasks(folder):
    (folder / "two.toml").write_text(PLAN.replace("[members]", f"{SECOND}\n[members]"))
    plan = read_plan(folder / "two.toml")
    every = expand(plan)
    assert select(plan) == every
    for repeats, tasks in (((1,), ()), ((), ("other",)), ((0, 1), ("other",)), ((1,), ("other",))):
        kept = [
            work
            for work in every
            if work.model.repeat in (repeats or (0, 1))
            and work.model.task in (tasks or ("phantom", "other"))
        ]
        assert 0 < len(kept) < len(every)
        assert select(plan, repeats, tasks) == kept
        assert estimate(plan, kept)["work"].sum() == len(kept)
    first, second = select(plan, [0]), select(plan, [1])
    assert [*first, *second] == every
    assert select(plan, [1, 0, 1]) == every  # named twice, in any order


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"repeats": [0, 2]}, r"no such repeat\. Allowed: 0 to 1\. Got: 2"),
        ({"repeats": [-1]}, r"no such repeat\. Allowed: 0 to 1\. Got: -1"),
        ({"tasks": ["phantom", "chest"]}, r"no such task\. Allowed: phantom\. Got: 'chest'"),
    ],
)
def test_a_part_that_the_plan_does_not_have_is_refused(folder, tmp_path, part, said):
    plan = read_plan(folder / "plan.toml")
    with pytest.raises(InvalidSetting, match=said):
        select(plan, **part)
    with pytest.raises(InvalidSetting, match=said):
        run(plan, tmp_path / "out", **part)
    assert not (tmp_path / "out").exists()


def test_a_cluster_is_handed_models_in_order(folder):
    plan = read_plan(folder / "plan.toml")
    left, running, done = expand(plan), [], []
    while left or running:
        given = upcoming(left, running, most=2)
        assert len(running) + len(given) <= 2
        for work in given:
            trained = {w.model for w in done if w.kind == "train"}
            assert work.kind == "train" or work.model in trained
            left.remove(work)
            running.append(work)
        done.append(running.pop(0))  # the first that was handed out is done first
    assert sorted(map(str, done)) == sorted(map(str, expand(plan)))
    begun = [n for n, work in enumerate(done) if work.kind == "train"]
    for at, model in enumerate(models(plan)):
        own = [n for n, work in enumerate(done) if work.model == model]
        assert own[0] == begun[at]
        assert own[-1] < begun[at + 2] if at + 2 < len(begun) else True  # two are under way
