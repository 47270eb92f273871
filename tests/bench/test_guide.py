"""What the guide tells people to type comes to what is published."""

import re

import pandas as pd
import pytest

from sitta.bench.variant import Variant
from tests import ROOT


def test_the_means_in_pandas_are_those_of_the_table(monkeypatch):
    text = (ROOT / "docs" / "how-to" / "benchmark.md").read_text()
    (code,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    known = {}
    monkeypatch.chdir(ROOT)
    exec(code, known)  # noqa: S102  (our own)
    means = known["means"].drop("sharpness", level="strategy")  # on the draw alone
    table = pd.read_csv("docs/results/tables/members.csv").set_index("method")
    assert {task for task, _ in means.index} == {"chest", "retina", "spinal"}
    for (task, strategy), mean in means.items():
        name = Variant("intent", None, strategy, 6).label
        assert 100 * mean == pytest.approx(table.loc[name, task], abs=0.01), (task, strategy)
