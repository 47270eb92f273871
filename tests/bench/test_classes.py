"""A task with several classes: trained as such, measured by class, and shown by class."""

import nibabel
import numpy as np
import pandas as pd
import pytest
import torch

import sitta
from sitta.bench.plan.errors import PlanError
from sitta.bench.plan.load import read_plan
from sitta.bench.publish.collect import Part, collect
from sitta.bench.run.measure import measure
from sitta.bench.run.scheduler import run
from sitta.bench.stats import rows
from sitta.bench.tables import build
from sitta.data import phantom
from sitta.models import load
from tests.bench.synthetic import make

PLAN = """\
data = "data"
[train]
preset = "compact3d"
steps = 2
batch = 2
[tasks.body]
domains = ["alder", "birch"]
classes = ["cord", "grey matter"]
dims = 3
size = [8, 16, 16]
fit = "crop"
[members]
lambdas = [1.0, 0.0]
strategies = ["ent-baln"]
[[methods]]
name = "adapt"
every_image = true
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Volumes whose masks hold a structure and, inside it, another one."""
    folder = tmp_path_factory.mktemp("classes")
    for site in ("alder", "birch"):
        for kind in ("images", "masks"):
            (folder / "data" / "body" / site / kind).mkdir(parents=True)
        for n in range(2):
            image, mask = phantom.draw(site, n, (8, 16, 16))
            labels = mask.numpy().astype(np.uint8)
            labels[labels.astype(bool) & (np.arange(16) % 2 == 0)] = 2
            for kind, values in (("images", image[0].numpy()), ("masks", labels)):
                file = nibabel.Nifti1Image(np.ascontiguousarray(values.T), np.eye(4))
                nibabel.save(file, folder / "data" / "body" / site / kind / f"v{n}.nii.gz")
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.fixture(scope="module")
def results(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sitta.calibration.calibrate.PER_IMAGE", (1, 1))
        done = run(read_plan(place / "plan.toml"), place / "out")
    assert done.failures() == {}
    return place / "out"


def test_a_plan_trains_and_measures_them(results):
    net = load(sorted((results / "models").iterdir())[0])
    assert net.card["classes"] == ["background", "cord", "grey matter"]
    assert net.config["out_channels"] == 3
    table = rows.load(results)
    assert {"source", "intent", "adapt"} <= {*table["method"]}
    for row in table.to_dict("records"):
        parts = dict(pair.split("=") for pair in row["classes"].split("; "))
        assert list(parts) == ["cord", "grey matter"]
        assert np.mean([float(v) for v in parts.values()]) == pytest.approx(row["dice"], abs=1e-5)


def test_tables_show_them_also_when_published(results, tmp_path):
    collect(Part.load(results), tmp_path)
    for path in (results, tmp_path):
        made = {t.name: t for t in build(rows.load(path))}
        by_class, whole = made["classes"], made["overall"]
        names = ["body: cord", "body: grey matter"]
        assert [c for c in by_class.cells if c != "Method"] == names
        means = by_class.data[names].mean(axis=1)
        assert by_class.data["method"].tolist() == whole.data["method"].tolist()
        np.testing.assert_allclose(means, whole.data["body"], atol=1e-2)


def test_the_dice_of_a_class_is_its_own():
    logits = torch.full((1, 3, 4, 4), -4.0)
    logits[:, 0] = 0.0
    logits[0, 1, :2], logits[0, 2, 3] = 4.0, 4.0

    class Fixed(torch.nn.Module):
        def forward(self, images):
            return logits

    truth = torch.zeros(1, 4, 4, dtype=torch.long)
    truth[0, 0], truth[0, 3, :2] = 1, 2
    p = sitta.Source(Fixed())(torch.zeros(1, 1, 4, 4))
    (row,) = measure(p, truth, classes=("one", "two"))
    assert row["classes"] == f"one={2 * 4 / 12:.6g}; two={2 * 2 / 6:.6g}"
    assert row["dice"] == pytest.approx((8 / 12 + 4 / 6) / 2)
    assert "classes" not in measure(p, truth)[0]


def test_rows_of_one_class_have_no_table_by_class():
    made = make(images=3, drawn=3, repeats=1)
    assert rows.each_class(made).empty
    assert build(made, ["classes"]) == []


def test_rows_of_before_are_read(tmp_path):
    made = make(images=3, drawn=3, repeats=1).drop(columns="classes")
    rows.write(made, tmp_path / "rows.csv.gz")
    assert (rows.load(tmp_path)["classes"] == "").all()


def test_each_class_has_its_own_rows():
    text = rows.by_class({"cord": 0.5, "grey matter": 0.25})
    one = make(images=2, drawn=2, repeats=1).head(1).assign(classes=text, task="body")
    apart = rows.each_class(pd.concat([one, one.assign(classes="")]))
    assert apart["task"].tolist() == ["body: cord", "body: grey matter"]
    assert apart["dice"].tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("[]", "needs a class"), ('["a=b"]', "no name for a class"), ('["a", "a"]', "twice")],
)
def test_wrong_classes_are_refused_in_their_place(place, wrong, message):
    text = PLAN.replace('["cord", "grey matter"]', wrong)
    path = place / "wrong.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=message) as told:
        read_plan(path)
    assert "tasks.body.classes" in str(told.value)
