"""Which cells share a pass, and what it costs."""

from dataclasses import replace

import pytest

from sitta.benchmark.cells import (
    ORACLE,
    Cell,
    Model,
    Variant,
    Work,
    asked_variants,
    by_pass,
    cost,
    expand,
    sweep_variants,
)
from sitta.benchmark.plan import Asked, Plan, Sweep, Task
from sitta.benchmark.planfile import read_plan
from sitta.benchmark.results import Results
from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidSetting
from tests.benchmark.synthetic import make as rows
from tests.benchmark.tiny import PLAN as TINY
from tests.benchmark.tiny import make

PLAN = Plan(tasks=())
UNBIASED = Variant("intent", {"variance": "unbiased"})
OTHER_OUTPUT = Variant("intent", {"output": "out"})
FIXED = Variant("source", {"lam": 0.3})
TENT = Variant("tent")


def cells(*variants):
    return tuple(Cell(Model("phantom", "alder", 0), "birch", variant) for variant in variants)


def test_a_pass_has_one_variance_and_one_output():
    asked = cells(UNBIASED, Variant(ORACLE), TENT, FIXED, OTHER_OUTPUT, Variant("intent"))
    unbiased, oracle, tent, fixed, other, plain = asked
    groups, alone = by_pass(PLAN, asked)
    assert groups == [[unbiased], [oracle, fixed, plain], [other]]
    assert alone == [tent]


@pytest.mark.parametrize(
    ("variants", "passes"),
    [
        ((Variant("source"),), 1),
        ((FIXED,), 2),  # one captures the statistics
        ((Variant("intent"), Variant("intent", {"strategy": "vote"})), 6),
        ((Variant("intent"), FIXED), 7),
        ((UNBIASED,), 7),  # under its variance, even lambda 0 is not the pass that captures
        ((FIXED, UNBIASED), 2 + 7),
        ((Variant(ORACLE),), 6),
        ((Variant(ORACLE), UNBIASED, FIXED), 7 + 7),
        ((TENT, FIXED), 2 + 2 + 2),
    ],
)
def test_every_pass_is_counted(variants, passes):
    work = Work(Model("phantom", "alder", 0), "methods", "birch", cells(*variants), drawn=True)
    assert cost(PLAN, work) == passes


def asking(*asked, **changes):
    return replace(PLAN, asked=tuple(Asked(*each) for each in asked), **changes)


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
    found = asked_variants(plan)
    assert len(found) == 6
    columns = [v.columns(plan.step) for v in found]
    assert [c["settings"] for c in columns[1:5]] == [
        "op=vote step=0.1",
        "step=0.3",
        "step=0.28",
        "",
    ]
    assert [c["members"] for c in columns[2:5]] == [5, 5, 5]


def test_a_plan_with_a_step_of_its_own_has_plain_members():
    plan = asking(("intent", {"lambdas": [1.0, 0.75, 0.5, 0.25, 0.0]}), step=0.3)
    own = Variant("intent", {"strategy": "ent-baln", "step": 0.3}).columns(plan.step)
    assert (own["members"], own["settings"]) == (5, "")
    (even,) = asked_variants(plan)  # as many, and others
    assert even.columns(plan.step)["settings"] == "lambdas=5"
    assert Variant(ORACLE).columns(plan.step)["members"] == 5


def test_the_sweep_leaves_out_what_the_members_are_and_no_more():
    sweep = Sweep((), (3, 5, 6), ("ent-baln",))
    assert [len(v.settings["lambdas"]) for v in sweep_variants(asking(sweep=sweep))] == [3, 5]
    plan = asking(sweep=sweep, step=0.3)
    assert [len(v.settings["lambdas"]) for v in sweep_variants(plan)] == [3, 5, 6]


def test_lambdas_that_differ_have_files_of_their_own():
    near = [Variant("source", {"lam": lam}) for lam in (0.3333333, 0.33333333, 1 / 3)]
    assert len({*map(str, near)}) == 3
    assert str(Variant("source", {"lam": 0.1 + 0.2})) == "source-lam=0.3"


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
    left = {str(cell.variant) for work in elsewhere for cell in results.missing(work)}
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
