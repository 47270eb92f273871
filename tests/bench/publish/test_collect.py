"""What is published: every row, every split's means, and no name of a file."""

import gzip
import hashlib
import json

import pandas as pd
import pytest

from sitta.bench.publish import collect
from sitta.bench.publish.collect import Part
from sitta.bench.stats import rows
from sitta.data.domains import find_domain
from sitta.errors import SittaError
from tests import ROOT
from tests.bench.synthetic import make

PUBLISHED = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def found():
    return make(images=6, repeats=1, drawn=3)


def of(table):
    """As from the folder of a run, where images have their names."""
    return Part.of_run(table)


def run_of(table, folder):
    """The folder of a run, in a single cell."""
    rows.write(table, folder / "cells" / "model" / "target" / "variant.csv")
    return folder


def test_rows_come_back_without_names(found, tmp_path):
    collect.collect(of(found), tmp_path)
    back = rows.load(tmp_path)
    assert len(back) == len(found)
    assert b"image-" not in gzip.decompress((tmp_path / "rows.csv.gz").read_bytes())
    assert set(back["image"]) == {str(n) for n in range(1, 7)}
    assert back["dice"].mean() == pytest.approx(found["dice"].mean(), abs=1e-4)
    first = (tmp_path / "rows.csv.gz").read_bytes()
    collect.collect(of(found.sample(frac=1, random_state=1)), tmp_path)
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
    collect.collect(of(whole), tmp_path / "whole")
    for repeat in (0, 1):
        collect.collect(of(whole[whole["repeat"] == repeat]), tmp_path / str(repeat))
    folder = run_of(whole[whole["repeat"] == 1], tmp_path / "run")
    parts = [Part.load(path) for path in (tmp_path / "0", folder, tmp_path / "1" / "rows.csv.gz")]
    assert all(part.has_digests for part in parts)
    again = collect.merge(parts)
    collect.collect(again, tmp_path / "merged")
    for name in ("rows.csv.gz", "images.csv"):
        ours, usual = (tmp_path / place / name for place in ("merged", "whole"))
        assert ours.read_bytes() == usual.read_bytes()
    assert collect.merge(parts[:1]) is parts[0]


def test_runs_on_other_images_do_not_come_together():
    with pytest.raises(SittaError, match="different images: chest/"):
        collect.merge([of(make(images=6)), of(make(images=5))])


@pytest.mark.parametrize("change", ["name", "slice"])
@pytest.mark.parametrize("publish", [(), (0,), (1,), (0, 1)])
def test_as_many_other_images_are_told_from_these(found, tmp_path, publish, change):
    here = (found["target"] == "hrf") & (found["image"] == "image-003")
    other = found.assign(repeat=1)
    if change == "name":
        other["image"] = other["image"].mask(here, "image-3")
    else:
        other["slice"] = other["slice"].mask(here, 7)
    paths = []
    for number, table in enumerate((found, other)):
        paths.append(run_of(table, tmp_path / f"run{number}"))
        if number in publish:
            collect.collect(Part.load(paths[-1]), tmp_path / f"out{number}")
            paths[-1] = tmp_path / f"out{number}"
    with pytest.raises(SittaError, match=r"different images: retina/hrf\.") as caught:
        collect.merge([Part.load(path) for path in paths])
    assert "image-" not in str(caught.value)


def test_rows_published_without_digests_are_compared_by_number(found, tmp_path):
    old = tmp_path / "old"
    collect.collect(of(found), old)
    (old / "images.csv").unlink()
    before, now = Part.load(old), of(found.assign(repeat=1))
    assert not before.has_digests
    both = collect.merge([before, now])
    assert len(both.rows) == 2 * len(found)
    assert not both.has_digests  # one of the two was never seen by name
    collect.collect(both, tmp_path / "new")
    assert not Part.load(tmp_path / "new").has_digests
    fewer = found[found["image"] != "image-000"]
    with pytest.raises(SittaError, match="different images"):
        collect.merge([before, of(fewer)])


def test_images_are_counted_by_target_and_nobody_is_named(found, tmp_path):
    collect.collect(of(found), tmp_path)
    text = (tmp_path / "images.csv").read_text()
    assert "image" not in text.replace("images,digest", "")
    table = pd.read_csv(tmp_path / "images.csv")
    assert table.columns.tolist() == ["task", "target", "images", "digest"]
    assert (table["images"] == 6).all()
    assert table["digest"].str.fullmatch("[0-9a-f]{64}").all()
    pairs = json.dumps([[f"image-{n:03d}", 0] for n in range(6)])
    assert (table["digest"] == hashlib.sha256(pairs.encode()).hexdigest()).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace(",6,", ",7,", 1), "not of the rows beside it"),
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "not of the rows beside it"),
        (lambda text: text.replace("digest", "sum"), r"cannot be read.*task,target,images,digest"),
        (lambda text: "", "cannot be read"),
    ],
)
def test_digests_of_other_rows_are_refused(found, tmp_path, change, said):
    collect.collect(of(found), tmp_path)
    text = (tmp_path / "images.csv").read_text()
    assert change(text) != text
    (tmp_path / "images.csv").write_text(change(text))
    with pytest.raises(SittaError, match=said):
        Part.load(tmp_path)


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


def test_too_many_rows_are_refused(found, tmp_path):
    with pytest.raises(SittaError, match=r"too large.*0\.001 MB.*--limit"):
        collect.collect(of(found), tmp_path, limit_mb=0.001)
    assert not list(tmp_path.iterdir())


def test_what_was_published_stays_when_there_is_too_much(found, tmp_path):
    collect.collect(of(found), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SittaError, match="too large"):
        collect.collect(of(found.assign(repeat=1)), tmp_path, limit_mb=0.001)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_names_that_look_like_numbers_are_names(found):
    reverse = {f"image-{n:03d}": str(6 - n) for n in range(6)}  # 6 to 1, as if published
    assert set(found["image"]) == {*reverse}
    named = found.assign(image=found["image"].map({**reverse, "image-005": "10"}))
    told = pd.Series(of(named).rows["image"].to_numpy(), named["image"]).drop_duplicates()
    assert told.to_dict() == {"10": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6"}
    assert (of(named.iloc[::-1]).rows["image"].iloc[::-1] == of(named).rows["image"]).all()


def test_a_target_may_have_any_name(found, tmp_path):
    other = found.assign(target=found["target"].replace("hrf", "NA"))
    collect.collect(of(other), tmp_path)
    assert Part.load(tmp_path).has_digests


def test_runs_with_other_settings_do_not_come_together(found, tmp_path):
    paths = []
    for repeat, tolerance in enumerate((2.0, 2.0, 3.0)):
        paths.append(run_of(found.assign(repeat=repeat), tmp_path / str(repeat)))
        known = {"tolerance": tolerance, "images of chest/mcu": f"size {repeat}"}
        (paths[-1] / "settings.json").write_text(json.dumps(known))
    parts = [Part.load(path) for path in paths]
    assert len(collect.merge(parts[:2]).rows) == 2 * len(found)
    with pytest.raises(SittaError, match=r"other settings: tolerance\..*tolerance = 2"):
        collect.merge(parts)


def test_rows_that_contradict_each_other_are_counted(found):
    changed = found.copy()
    changed.loc[changed.index[:3], "dice"] += [1e-4, 0.01, 0.2]
    assert collect.contradictions([of(found), of(changed)]) == 2
    assert collect.contradictions([of(found), of(found.assign(repeat=7))]) == 0
    assert collect.merge([of(found), of(changed)]).rows["dice"].tolist() == found["dice"].tolist()


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n"])
def test_what_is_no_table_of_results_is_refused(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SittaError, match="not a table of results"):
        rows.load(tmp_path / "a.csv")
    with pytest.raises(SittaError, match="holds no results"):
        rows.load(tmp_path)
    with pytest.raises(SittaError, match=r"no file or folder '.*none\.csv'"):
        rows.load(tmp_path / "none.csv")


def test_what_is_published_has_its_digests():
    part = Part.load(PUBLISHED)
    assert part.has_digests
    assert part.images["images"].sum() == 951 + 113 + 143


def test_digests_published_are_of_the_real_images(real_data):
    """Where files hold one image each, the names alone tell."""
    kept = Part.load(PUBLISHED).images.set_index(["task", "target"])["digest"]
    for task in ("chest", "retina"):
        for target in kept[task].index:
            names = [pair.name for pair in find_domain(real_data, task, target).pairs()]
            listed = pd.DataFrame({"task": task, "target": target, "image": names, "slice": 0})
            assert collect.survey(listed)["digest"][0] == kept[task, target]
