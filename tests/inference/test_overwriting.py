"""No input is ever overwritten, and no result of another input is replaced unasked."""

import csv
import dataclasses
import os
import shutil
import unicodedata

import numpy as np
import pytest
from PIL import Image

import sitta
from sitta.inference import outputs, predict
from sitta.inference.inputs import find_inputs
from sitta.inference.request import Request

REQUEST = Request("phantom-alder", "intent", {"step": 0.5})


def film(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (32, 32), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def sources(out):
    with open(out / "outputs.csv", newline="") as stream:
        return {row["output"]: row["input"] for row in csv.DictReader(stream)}


@pytest.mark.parametrize("linked", ["", "folder", "files", "hard"])
def test_an_output_that_is_an_input_is_refused_before_anything_runs(tmp_path, linked):
    data = tmp_path / "data"
    film(data / "masks" / "a.png")
    given, out = data / "masks", data
    if linked:
        out = tmp_path / "out"
        (out / "masks").mkdir(parents=True)
    if linked == "folder":
        (out / "masks").rmdir()
        (out / "masks").symlink_to(data / "masks")
    elif linked:
        link = os.symlink if linked == "files" else os.link
        link(data / "masks" / "a.png", out / "masks" / "a.png")
    before = contents(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(sitta.InvalidSetting, match="is an input"):
            predict(REQUEST, [given], out, overwrite=overwrite)
    assert contents(tmp_path) == before


def test_results_may_go_beside_the_folder_of_the_images(tmp_path):
    film(tmp_path / "images" / "a.png")
    assert predict(REQUEST, [tmp_path / "images"], tmp_path).counts["done"] == 1
    assert sources(tmp_path) == {"masks/a.png": str(tmp_path / "images" / "a.png")}


def test_results_of_another_input_are_not_replaced_unasked(tmp_path):
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    film(one / "a.png", 1)
    film(two / "a.png", 2)
    predict(REQUEST, [one], out)
    before = contents(out)
    with pytest.raises(sitta.InvalidSetting, match="results of other inputs") as error:
        predict(REQUEST, [two], out)
    assert str(one / "a.png") in str(error.value)
    assert "--overwrite" in str(error.value)
    assert contents(out) == before
    assert sources(out) == {"masks/a.png": str(one / "a.png")}
    assert predict(REQUEST, [two], out, overwrite=True).counts["done"] == 1
    assert sources(out) == {"masks/a.png": str(two / "a.png")}
    assert contents(out) != before


def test_a_file_that_no_run_has_written_is_not_replaced_unasked(tmp_path):
    film(tmp_path / "in" / "a.png")
    (tmp_path / "out" / "masks").mkdir(parents=True)
    (tmp_path / "out" / "masks" / "a.png").write_bytes(b"drawn by hand")
    with pytest.raises(sitta.InvalidSetting, match=r"masks/a\.png"):
        predict(REQUEST, [tmp_path / "in"], tmp_path / "out")
    assert (tmp_path / "out" / "masks" / "a.png").read_bytes() == b"drawn by hand"


def test_the_same_images_elsewhere_resume_and_changed_ones_are_done_again(tmp_path):
    film(tmp_path / "one" / "a.png")
    predict(REQUEST, [tmp_path / "one"], tmp_path / "out")
    shutil.move(tmp_path / "one", tmp_path / "moved")
    assert predict(REQUEST, [tmp_path / "moved"], tmp_path / "out").counts["skipped"] == 1
    film(tmp_path / "one" / "a.png", 3)  # the path of the first run, with other bytes
    assert predict(REQUEST, [tmp_path / "one"], tmp_path / "out").counts["done"] == 1


@pytest.mark.parametrize("ends_at", ["mask", "record"])
def test_a_run_killed_between_mask_and_record_resumes(tmp_path, monkeypatch, ends_at):
    """As after ``kill -9``: the mask is there, and the record that it is done is not."""
    film(tmp_path / "in" / "a.png")
    keep = outputs._keep

    def killed(path, *rest):
        if ends_at == "mask" or path.suffix == ".json":
            raise KeyboardInterrupt
        keep(path, *rest)

    monkeypatch.setattr(outputs, "write_mask" if ends_at == "mask" else "_keep", killed)
    with pytest.raises(KeyboardInterrupt):
        predict(REQUEST, [tmp_path / "in"], tmp_path / "out")
    monkeypatch.undo()
    assert predict(REQUEST, [tmp_path / "in"], tmp_path / "out").counts["done"] == 1


def test_a_run_of_other_settings_killed_at_a_mask_leaves_no_record_of_before(tmp_path, monkeypatch):
    film(tmp_path / "in" / "a.png")
    inputs, out = [tmp_path / "in"], tmp_path / "out"
    predict(REQUEST, inputs, out)
    other = Request("phantom-alder", "intent", {"step": 0.25})

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sitta.inference.outputs.write_mask", killed)
    with pytest.raises(KeyboardInterrupt):
        predict(other, inputs, out)
    monkeypatch.undo()
    assert predict(REQUEST, inputs, out).counts["skipped"] == 0


def outputs_of(folder, *names):
    for name in names:
        film(folder / name)
    return {i.name: i.output for i in find_inputs([folder], folder / "out")}


def test_names_that_keep_their_ending_do_not_meet_another_name(tmp_path):
    named = outputs_of(tmp_path, "a.jpg", "a.png", "a.jpg.png")
    assert named == {"a.jpg": "a.jpg-2.png", "a.jpg.png": "a.jpg.png", "a.png": "a.png.png"}
    run = predict(REQUEST, [tmp_path], tmp_path / "out")
    assert run.counts["done"] == 3
    assert len(list((tmp_path / "out" / "masks").iterdir())) == 3


def test_names_that_differ_in_capitals_or_unicode_alone_are_told_apart(tmp_path):
    one, two = (unicodedata.normalize(form, "Müller") for form in ("NFC", "NFD"))
    named = outputs_of(tmp_path, "Film.png", "film.jpg", f"{one}.png", f"{two}.png", "S/x.png")
    alike = [unicodedata.normalize("NFC", name).casefold() for name in named.values()]
    assert len(set(alike)) == len(named) == 5
    assert named["S/x.png"] == "S/x.png"


def test_a_mask_and_a_folder_of_masks_have_other_names(tmp_path):
    named = outputs_of(tmp_path, "a.jpg", "a.png/b.png")
    assert named == {"a.jpg": "a.jpg.png", "a.png/b.png": "a.png/b.png"}


def test_names_do_not_depend_on_the_order_of_what_is_given(tmp_path):
    named = outputs_of(tmp_path, "a.jpg", "a.png", "a.jpg.png", "A.bmp")
    given = [tmp_path / name for name in named]
    again = find_inputs(given[::-1], tmp_path / "out")
    assert {i.name: i.output for i in again} == named


def test_each_folder_is_read_once_however_many_links_lead_to_it(tmp_path):
    """Twelve folders that link to each other hold 12! paths."""
    folders = [tmp_path / "in" / f"{n:02}" for n in range(12)]
    for folder in folders:
        film(folder / "a.png")
    for one in folders:
        for other in folders:
            if one != other:
                (one / f"to-{other.name}").symlink_to(other)
    inputs = find_inputs([tmp_path / "in"], tmp_path / "out")
    assert [i.name for i in inputs] == [f"{n:02}/a.png" for n in range(12)]


def test_linked_files_outside_keep_their_names_and_a_missing_one_fails_by_name(tmp_path):
    film(tmp_path / "store" / "0f3a.png")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ann.png").symlink_to(tmp_path / "store" / "0f3a.png")
    (tmp_path / "in" / "bob.png").symlink_to(tmp_path / "store" / "not-fetched")
    run = predict(REQUEST, [tmp_path / "in"], tmp_path / "out")
    assert [r["name"] for r in run.records] == ["ann.png"]
    assert [f["name"] for f in run.failures] == ["bob.png"]
    assert "not-fetched" in run.failures[0]["error"]


@pytest.mark.parametrize("name", outputs.WHOLE)
def test_a_summary_that_no_run_has_written_is_not_replaced_unasked(tmp_path, name):
    film(tmp_path / "images" / "a.png")
    (tmp_path / name).write_text("by hand")
    before = contents(tmp_path)
    with pytest.raises(sitta.InvalidSetting, match=name):
        predict(REQUEST, [tmp_path / "images"], tmp_path)
    assert contents(tmp_path) == before
    assert predict(REQUEST, [tmp_path / "images"], tmp_path, overwrite=True).counts["done"] == 1
    assert predict(REQUEST, [tmp_path / "images"], tmp_path).counts["skipped"] == 1


def test_a_map_that_no_run_has_written_is_not_replaced_unasked(tmp_path):
    film(tmp_path / "images" / "a.png")
    film(tmp_path / "uncertainty" / "a.png", 5)
    drawn = (tmp_path / "uncertainty" / "a.png").read_bytes()
    request = dataclasses.replace(REQUEST, save=("uncertainty",))
    run = predict(request, [tmp_path / "images"], tmp_path)
    assert "no result of a.png" in run.failures[0]["error"]
    assert (tmp_path / "uncertainty" / "a.png").read_bytes() == drawn
    assert not (tmp_path / "masks").exists()
    assert predict(request, [tmp_path / "images"], tmp_path, overwrite=True).counts["done"] == 1
    assert predict(REQUEST, [tmp_path / "images"], tmp_path).counts["done"] == 1
    assert predict(request, [tmp_path / "images"], tmp_path).counts["done"] == 1  # its own map


def test_a_mask_that_was_replaced_does_not_count_as_done(tmp_path):
    """Two names, one output: the first run's record must not vouch for the second's mask."""
    film(tmp_path / "one" / "a.bmp", 1)
    film(tmp_path / "two" / "a.png", 2)
    out = tmp_path / "out"
    predict(REQUEST, [tmp_path / "one"], out)
    predict(REQUEST, [tmp_path / "two"], out, overwrite=True)
    with pytest.raises(sitta.InvalidSetting, match=r"masks/a\.png"):
        predict(REQUEST, [tmp_path / "one"], out)
    assert sources(out) == {"masks/a.png": str(tmp_path / "two" / "a.png")}


def test_a_name_that_another_input_has_left_behind_is_not_taken(tmp_path):
    given, out = tmp_path / "in", tmp_path / "out"
    film(given / "a.bmp", 1)
    predict(REQUEST, [given], out)
    film(given / "a.png", 2)
    predict(REQUEST, [given], out)  # a.png.png: a.png is the mask of a.bmp
    (given / "a.bmp").unlink()
    film(given / "a.png", 3)
    mask = (out / "masks" / "a.png").read_bytes()
    assert "masks/a.png" in predict(REQUEST, [given], out).failures[0]["error"]
    assert (out / "masks" / "a.png").read_bytes() == mask


def test_a_mask_that_was_corrected_by_hand_is_not_replaced_unasked(tmp_path):
    film(tmp_path / "in" / "a.png")
    inputs, out = [tmp_path / "in"], tmp_path / "out"
    predict(REQUEST, inputs, out)
    film(out / "masks" / "a.png", 5)
    drawn = (out / "masks" / "a.png").read_bytes()
    other = Request("phantom-alder", "intent", {"step": 0.25})
    assert predict(REQUEST, inputs, out).counts["skipped"] == 1
    assert "was changed" in predict(other, inputs, out).failures[0]["error"]
    assert (out / "masks" / "a.png").read_bytes() == drawn
    assert predict(other, inputs, out, overwrite=True).counts["done"] == 1
    assert predict(REQUEST, inputs, out).counts["done"] == 1  # a run's own result


def test_a_record_that_takes_the_place_of_its_claim_is_found(tmp_path, monkeypatch):
    """Another process ends a file between two looks: it is no file of another program."""
    film(tmp_path / "in" / "a.png")
    predict(REQUEST, [tmp_path / "in"], tmp_path / "out")
    path = outputs.record_path(tmp_path / "out", "a.png")
    path.rename(path.with_suffix(".later"))
    read = outputs._kept

    def ends_now(place):
        if place.suffix == outputs.CLAIM:
            path.with_suffix(".later").rename(path)
        return read(place)

    monkeypatch.setattr(outputs, "_kept", ends_now)
    assert outputs.origin(tmp_path / "out", "a.png")["output"] == "masks/a.png"
