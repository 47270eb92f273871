"""What a plan expands to, how much that is, and which folders take its results."""

import math

import pytest

from sitta.bench.plan.cells import (
    expand,
    models,
    requests,
)
from sitta.bench.plan.estimate import estimate
from sitta.bench.plan.images import drawn
from sitta.bench.plan.load import read_plan
from sitta.bench.plan.request import MethodRequest, even
from sitta.bench.run.results import Results
from sitta.bench.stats.rows import VARIANT
from sitta.data import phantom
from sitta.data.samples import load
from sitta.errors import InvalidSetting
from tests.bench.tiny import PLAN, make, reading


def test_a_plan_expands_to_every_split_repeat_and_variant(folder):
    plan = read_plan(folder / "plan.toml")
    works = expand(plan)
    assert [str(m) for m in models(plan)] == [
        "phantom-alder-r0",
        "phantom-birch-r0",
        "phantom-alder-augmented-r0",
        "phantom-alder-r1",
        "phantom-birch-r1",
    ]
    kinds = [work.kind for work in works]
    assert kinds.count("train") == 5
    assert kinds.count("members") == 5 * 2  # every target, the source's own held-out images too
    assert kinds.count("methods") == 5  # the other domain
    assert kinds.count("sweep") == 2  # the first repeat of the two plain models
    assert [str(v) for v in requests(plan)["members"]] == [
        "source-lam=1",
        "source-lam=0.5",
        "source-lam=0",
        "intent-strategy=vote",
        "intent-strategy=ent-baln",
        "oracle",
    ]
    assert [str(v) for v in requests(plan)["methods"]] == [
        "tent-lam=1",
        "tent-lam=0",
        "sita-op=vote-views=2",
    ]
    keys = [str(cell) for work in works for cell in work.cells]
    assert len(set(keys)) == len(keys)


def test_work_is_ordered_model_by_model(folder):
    plan = read_plan(folder / "plan.toml")
    works = expand(plan)
    order = list(dict.fromkeys(str(work.model) for work in works))
    assert order == [str(model) for model in models(plan)]
    for model in models(plan):
        at = [n for n, work in enumerate(works) if work.model == model]
        assert at == list(range(at[0], at[-1] + 1))  # nothing of another model between
        kinds = [works[n].kind for n in at]
        swept = model.repeat == 0 and model.training == "plain"
        assert kinds == ["train", "members", "members", "methods", *["sweep"] * swept]
    assert [work.model.repeat for work in works] == sorted(work.model.repeat for work in works)


def test_the_draw_is_seeded_and_the_same_for_every_model(folder):
    plan = read_plan(folder / "plan.toml")
    once = drawn(plan, "phantom", "birch", 5)
    assert once == drawn(plan, "phantom", "birch", 5)
    assert len(once) == 2
    assert once <= set(range(5))
    assert len(drawn(plan, "phantom", "birch", 1)) == 1
    many = {drawn(plan, "phantom", name, 100) for name in ("a", "b", "c", "d")}
    assert len(many) == 4


@pytest.mark.parametrize(
    ("variant", "columns"),
    [
        (MethodRequest("source", {"lam": 0.5}), ("source", 0.5, "", 1, "")),
        (MethodRequest("intent", {"strategy": "vote"}), ("intent", math.nan, "vote", 6, "")),
        (MethodRequest("intent", {"lambdas": even(3)}), ("intent", math.nan, "ent-baln", 3, "")),
        (
            MethodRequest("intent", {"lambdas": [1, 0.3, 0]}),
            ("intent", math.nan, "ent-baln", 3, "lambdas=1+0.3+0"),
        ),
        (MethodRequest("sita", {"op": "vote"}), ("sita", math.nan, "", 1, "op=vote")),
        (MethodRequest("sita"), ("sita", 0.8, "", 1, "")),
        (MethodRequest("memo", {"views": 8}), ("memo", math.nan, "", 1, "views=8")),
        (MethodRequest("tent"), ("tent", 0.0, "", 1, "")),
        (MethodRequest("oracle"), ("oracle", math.nan, "", 6, "")),
    ],
)
def test_a_variant_is_named_by_what_it_does(variant, columns):
    found = variant.variant(step=0.2).columns
    assert tuple(found) == VARIANT
    for mine, theirs in zip(found.values(), columns, strict=True):
        assert mine == theirs or (mine != mine and theirs != theirs)


def test_the_scope_counts_what_the_plan_expands_to(folder):
    plan = read_plan(folder / "plan.toml")
    found = estimate(plan).set_index("kind")
    assert found.loc["train", "work"] == 5
    assert found.loc["members", "cells"] == 10 * 6
    assert found.loc["members", "images"] == 5 * (5 + 1)  # all of the other, a fifth of its own
    assert found.loc["methods", "images"] == 5 * 2
    # Tent twice: two forward and one backward; SITA: three rows under six lambdas.
    assert found.loc["methods", "passes"] == 10 * (2 * (2 + 2) + 6 * 3)
    assert found.loc["members", "passes"] == 30 * 7


def test_the_scope_counts_the_slices_of_volumes_that_have_a_mask(tmp_path):
    for site in ("alder", "birch"):
        phantom.write(tmp_path / "data", site, 2, (8, 16, 16))
    text = PLAN.replace("size = [16, 16]", 'size = [16, 16]\nplane = "axial"')
    plan = reading(tmp_path, text)
    found = estimate(plan).set_index("kind")
    counts = [len(load(domain, plan.tasks[0].preprocess)) for domain in plan.tasks[0].domains]
    assert min(counts) > 2
    own = [max(1, round(0.2 * count)) for count in counts]
    alder, birch = counts[1] + own[0], counts[0] + own[1]
    assert found.loc["members", "images"] == 3 * alder + 2 * birch


def test_a_folder_of_other_images_is_refused(tmp_path):
    place = make(tmp_path).parent
    plan = read_plan(place / "plan.toml")
    results = Results(tmp_path / "out")
    results.open(plan, expand(plan))
    phantom.write(tmp_path / "data", "birch", 6, (16, 16))
    with pytest.raises(InvalidSetting, match="other settings: images of phantom/birch"):
        results.open(plan, expand(plan))


def test_a_folder_of_other_settings_is_refused(folder, tmp_path):
    plan = read_plan(folder / "plan.toml")
    results = Results(tmp_path / "out")
    results.open(plan, expand(plan))
    results.open(plan, expand(plan))
    more = reading(folder, PLAN.replace("repeats = 2", "repeats = 3"))
    results.open(more, expand(more))  # more of the same is fine
    other = reading(folder, PLAN.replace("steps = 2", "steps = 3"))
    with pytest.raises(InvalidSetting, match=r"other settings: .*train"):
        results.open(other, expand(other))
