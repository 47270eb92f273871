"""Which cells share a pass, and what it costs."""

import pytest

from sitta.benchmark.cells import ORACLE, Cell, Model, Variant, Work, by_pass, cost
from sitta.benchmark.plan import Plan

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
