"""The plot of Adapt shows weights as the package gives them, and the published results."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

import sitta
from sitta.adaptation.adapt import GRID
from sitta.bench.stats.scores import OVER_TASKS
from sitta.data import phantom
from sitta.inference.demo import MODEL
from tests import ROOT


@pytest.fixture(scope="module")
def plot():
    spec = importlib.util.spec_from_file_location("adapt_plot", ROOT / "scripts" / "adapt_plot.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_weighs_as_the_methods_do(plot):
    names, each, mild, sharp = plot.weighed()
    image, _ = phantom.draw(plot.SITE, 0, seed=plot.SEED)
    p = sitta.InTEnt(sitta.load(MODEL), statistics="in-layer", lambdas=GRID[:-1])(image)
    ratios = mild[:-1] / mild[0]  # the last is the split member, which InTEnt does not have
    assert names[-1] == "split"
    assert mild.max() / mild.min() == pytest.approx(np.e)
    assert np.argsort(ratios).tolist() == np.argsort(p.weights.numpy()).tolist()
    assert sharp.sum() == pytest.approx(1)
    assert each[sharp.argmax()] > each[0]


def test_every_task_has_its_row(plot):
    table = pd.read_csv(plot.TABLE)
    figure = plot.picture(table)
    labels = [tick.get_text() for tick in figure.axes[-1].get_yticklabels()]
    tasks = set(table.loc[table["domain"] == "cross-domain", "task"]) - {OVER_TASKS}
    assert set(labels) == {plot.TASKS[task] for task in tasks}
    above, below = figure.axes[:2]
    assert above.get_xlim() == below.get_xlim(), "a member's Dice stands above its weights"
    assert plot.OUT.read_text().lstrip().startswith("<?xml")


def test_the_best_fixed_lambda_is_the_better_of_both_ways_to_mix(plot):
    table = pd.read_csv(plot.TABLE)
    found = table[(table["domain"] == "cross-domain") & table["against"].isin(plot.FIXED)]
    behind = set(found.loc[found["difference"] < 0, "task"]) - {OVER_TASKS}
    lines = {line.get_label(): line.get_xdata() for line in plot.picture(table).axes[-1].lines}
    leads = lines["best fixed lambda, from labels"] > lines["Adapt"]
    shown = [task for task in plot.TASKS if task in set(found["task"])][::-1]
    assert {task for task, lead in zip(shown, leads, strict=True) if lead} == behind
