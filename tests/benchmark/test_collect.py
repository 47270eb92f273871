"""What is published: every row, every split's means, and no name of a file."""

import gzip

import pandas as pd
import pytest

from sitta.benchmark import collect, rows
from sitta.errors import SittaError
from tests.benchmark.synthetic import make


@pytest.fixture(scope="module")
def found():
    return make(images=6, repeats=1, drawn=3)


def test_rows_come_back_without_names(found, tmp_path):
    collect.collect(found, tmp_path)
    back = rows.load(tmp_path)
    assert len(back) == len(found)
    assert b"image-" not in gzip.decompress((tmp_path / "rows.csv.gz").read_bytes())
    assert set(back["image"]) == {str(n) for n in range(1, 7)}
    assert back["dice"].mean() == pytest.approx(found["dice"].mean(), abs=1e-4)
    first = (tmp_path / "rows.csv.gz").read_bytes()
    collect.collect(found.sample(frac=1, random_state=1), tmp_path)
    assert (tmp_path / "rows.csv.gz").read_bytes() == first


def test_names_that_mean_missing_elsewhere_are_names_here(found, tmp_path):
    named = found.assign(image=found["image"].replace({"image-000": "NA", "image-001": "null"}))
    rows.write(named, tmp_path / "named.csv")
    back = rows.load(tmp_path / "named.csv")
    assert back["image"].tolist() == named["image"].tolist()
    assert (back["settings"] == "").all()
    assert back["distance"].isna().equals(named["distance"].isna())


def test_an_image_keeps_one_number_under_all_models(found):
    shuffled = found.sample(frac=1, random_state=3)
    numbers = collect.anonymous(shuffled)["image"]
    pairs = pd.DataFrame({"task": shuffled["task"], "target": shuffled["target"]})
    pairs = pairs.assign(name=shuffled["image"], number=numbers).drop_duplicates()
    assert not pairs.duplicated(["task", "target", "name"]).any()
    assert not pairs.duplicated(["task", "target", "number"]).any()


def test_runs_on_several_machines_come_together(tmp_path):
    whole = make(images=12, repeats=2, drawn=3)  # twelve: as text, 10 comes before 2
    collect.collect(whole, tmp_path / "whole")
    for repeat in (0, 1):
        collect.collect(whole[whole["repeat"] == repeat], tmp_path / str(repeat))
    published = rows.load(tmp_path / "0")
    again = collect.merge([published, whole[whole["repeat"] == 1], rows.load(tmp_path / "1")])
    collect.collect(again, tmp_path / "merged")
    ours, usual = (tmp_path / place / "rows.csv.gz" for place in ("merged", "whole"))
    assert ours.read_bytes() == usual.read_bytes()
    assert collect.merge([whole]) is whole


def test_runs_on_other_images_do_not_come_together():
    with pytest.raises(SittaError, match="different images: chest/"):
        collect.merge([make(images=6), make(images=5)])


def test_means_of_a_split_are_over_its_images(found):
    means = collect.splits(found)
    where = "task == 'chest' and source == 'mcu' and target == 'chn' and training == 'plain'"
    where += " and strategy == 'vote'"
    for scope, count in (("all", 6), ("drawn", 3)):
        row = means.query(f"{where} and scope == '{scope}'").iloc[0]
        own = found.query(where)
        own = own if scope == "all" else own[own["drawn"]]
        assert row["images"] == len(own) == count
        assert row["hd95"] == pytest.approx(sum(own["hd95"]) / count)


def test_too_many_rows_are_refused(found, tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "MOST", 1000)
    with pytest.raises(SittaError, match="too large"):
        collect.collect(found, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n"])
def test_what_is_no_table_of_results_is_refused(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SittaError, match="not a table of results"):
        rows.load(tmp_path / "a.csv")
    with pytest.raises(SittaError, match="holds no results"):
        rows.load(tmp_path)
    with pytest.raises(SittaError, match="not a table of results"):
        rows.load(tmp_path / "none.csv")
