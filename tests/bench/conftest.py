"""A tiny benchmark, run once."""

import pytest

from sitta.bench.plan.load import read_plan
from sitta.bench.run.scheduler import run
from tests.bench import tiny


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    tiny.make(folder, tiny.ONCE)
    return folder


@pytest.fixture(scope="session")
def plan(place):
    return read_plan(place / "plan.toml")


@pytest.fixture(scope="session")
def results(place, plan):
    """Of a run in one process that nothing disturbed."""
    return run(plan, place / "whole")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a plan and its images, of which nothing has been run."""
    made = tmp_path_factory.mktemp("plan")
    tiny.make(made)
    return made
