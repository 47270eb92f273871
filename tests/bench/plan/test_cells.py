"""Which cells share a pass, and what it costs."""

from dataclasses import replace

import pytest

from sitta.bench.plan.cells import (
    Cell,
    Job,
    Model,
    by_pass,
    cost,
    expand,
    requests,
)
from sitta.bench.plan.load import read_plan
from sitta.bench.plan.request import MethodRequest
from sitta.bench.plan.schema import Plan, Sweep, Task
from sitta.bench.run.results import Results
from sitta.bench.variant import ORACLE
from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidSetting
from tests.bench.synthetic import make as rows
from tests.bench.tiny import PLAN as TINY
from tests.bench.tiny import make

PLAN = Plan(tasks=())
UNBIASED = MethodRequest("intent", {"variance": "unbiased"})
OTHER_OUTPUT = MethodRequest("intent", {"output": "out"})
FIXED = MethodRequest("source", {"lam": 0.3})
TENT = MethodRequest("tent")


def cells(*variants):
    return tuple(Cell(Model("phantom", "alder", 0), "birch", variant) for variant in variants)


def test_a_pass_has_one_variance_and_one_output():
    asked = cells(
        UNBIASED, MethodRequest(ORACLE), TENT, FIXED, OTHER_OUTPUT, MethodRequest("intent")
    )
    unbiased, oracle, tent, fixed, other, plain = asked
    groups = by_pass(PLAN, asked)
    assert groups == [[unbiased], [oracle, fixed, plain], [tent], [other]]


@pytest.mark.parametrize(
    ("variants", "passes"),
    [
        ((MethodRequest("source"),), 1),
        ((FIXED,), 2),  # one captures the statistics
        ((MethodRequest("intent"), MethodRequest("intent", {"strategy": "vote"})), 6),
        ((MethodRequest("intent"), FIXED), 7),
        ((UNBIASED,), 7),  # under its variance, even lambda 0 is not the pass that captures
        ((FIXED, UNBIASED), 2 + 7),
        ((MethodRequest(ORACLE),), 6),
        ((MethodRequest(ORACLE), UNBIASED, FIXED), 7 + 7),
        ((TENT, FIXED), 2 + 2 + 2),
    ],
)
def test_every_pass_is_counted(variants, passes):
    work = Job(Model("phantom", "alder", 0), "methods", "birch", cells(*variants), drawn=True)
    assert cost(PLAN, work) == passes


def asking(*asked, **changes):
    return replace(PLAN, requests=tuple(MethodRequest(*each) for each in asked), **changes)


def test_members_on_other_lambdas_are_other_variants():
    even = {"lambdas": [1.0, 0.75, 0.5, 0.25, 0.0]}
    plan = asking(
        ("sita", {"op": "vote"}),
        ("sita", {"op": "vote", "step": 0.1}),
        ("intent", {"step": 0.3}),
        ("intent", {"step": 0.28}),
        ("intent", even),
        ("intent", {"step": 0.25}),  # the same five
        ("sita", {}),
        ("sita", {"step": 0.1}),  # which searches nothing
    )
    found = requests(plan)["methods"]
    assert len(found) == 6
    columns = [request.variant(plan.step).columns for request in found]
    assert [c["settings"] for c in columns[1:5]] == [
        "op=vote step=0.1",
        "step=0.3",
        "step=0.28",
        "",
    ]
    assert [c["members"] for c in columns[2:5]] == [5, 5, 5]


def test_a_plan_with_a_step_of_its_own_has_plain_members():
    plan = asking(("intent", {"lambdas": [1.0, 0.75, 0.5, 0.25, 0.0]}), step=0.3)
    own = MethodRequest("intent", {"strategy": "ent-baln", "step": 0.3}).variant(plan.step)
    assert (own.members, own.settings) == (5, ())
    (even,) = requests(plan)["methods"]  # as many, and others
    assert even.variant(plan.step).settings == (("lambdas", "5"),)
    assert MethodRequest(ORACLE).variant(plan.step).members == 5


def test_the_sweep_leaves_out_what_the_members_are_and_no_more():
    sweep = Sweep(tasks=(), members=(3, 5, 6), strategies=("ent-baln",))
    assert [len(v.settings["lambdas"]) for v in requests(asking(sweep=sweep))["sweep"]] == [3, 5]
    plan = asking(sweep=sweep, step=0.3)
    assert [len(v.settings["lambdas"]) for v in requests(plan)["sweep"]] == [3, 5, 6]


def test_lambdas_that_differ_have_files_of_their_own():
    near = [MethodRequest("source", {"lam": lam}) for lam in (0.3333333, 0.33333333, 1 / 3)]
    assert len({*map(str, near)}) == 3
    assert str(MethodRequest("source", {"lam": 0.1 + 0.2})) == "source-lam=0.3"


def test_what_was_on_the_draw_is_filled_when_members_serve_it(tmp_path):
    make(tmp_path)
    asked = '[[methods]]\nname = "source"\nlambdas = [0.3]\n\n'
    asked += '[[methods]]\nname = "intent"\nsettings = { strategy = "average" }\n\n[sweep]'
    (tmp_path / "few.toml").write_text(TINY.replace("[sweep]", asked))
    text = TINY.replace("[1.0, 0.5, 0.0]", "[1.0, 0.5, 0.3, 0.0]").replace("vote", "average", 1)
    (tmp_path / "more.toml").write_text(text)
    few, more = (read_plan(tmp_path / f"{name}.toml") for name in ("few", "more"))
    results = Results(tmp_path / "out")
    row = rows(images=1, repeats=1, drawn=1).head(1)
    for work in expand(few):
        for cell in work.cells:
            results.write(cell, row)
    elsewhere = [work for work in expand(more) if work.target not in ("", work.model.source)]
    left = {str(cell.request) for work in elsewhere for cell in results.missing(work)}
    assert left == {"source-lam=0.3", "intent-strategy=average"}


def images_of(place, *tasks):
    """A plan of tasks: a name, a folder, its masks."""
    found = tuple(
        Task(name, (find_domain(place, folder, "alder", masks),), Preprocess())
        for name, folder, masks in tasks
    )
    return Plan(found)


def test_images_belong_to_a_task_and_not_to_a_folder(tmp_path):
    phantom.write(tmp_path, "alder", 3, (16, 16))
    folder = tmp_path / "phantom" / "alder"
    (folder / "other").mkdir()
    for path in (folder / "masks").iterdir():
        (folder / "other" / path.name).write_bytes(path.read_bytes() + b"longer")
    one, two = ("cord", "phantom", "masks"), ("grey", "phantom", "other")
    results = Results(tmp_path / "out")
    results.open(images_of(tmp_path, one), [])
    results.open(images_of(tmp_path, one, two), [])  # a task more
    (tmp_path / "elsewhere").symlink_to(tmp_path / "phantom")
    results.open(images_of(tmp_path, ("cord", "elsewhere", "masks")), [])  # the same images
    with pytest.raises(InvalidSetting, match=r"images of cord/alder"):
        results.open(images_of(tmp_path, ("cord", "phantom", "other")), [])


def test_other_subjects_are_other_data(tmp_path):
    phantom.write(tmp_path, "alder", 3, (16, 16))
    plan = images_of(tmp_path, ("phantom", "phantom", "masks"))
    results = Results(tmp_path / "out")
    results.open(plan, [])
    names = sorted(p.stem for p in (tmp_path / "phantom/alder/images").iterdir())
    listed = "".join(f"{name},one\n" for name in names)
    (tmp_path / "phantom/alder/subjects.csv").write_text(f"name,subject\n{listed}")
    with pytest.raises(InvalidSetting, match="images of phantom/alder"):
        results.open(plan, [])
