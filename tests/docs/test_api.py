"""The API reference lists names that exist, with the parameters that they take."""

import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

import sitta

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
PUBLIC, IMPORTS = TEXT.split("## Prediction")[0].split("Import these by hand")
CALL = re.compile(r"^([A-Za-z_.]+)(?:\((.*)\))?$")


def first_cells(text):
    """Code in the first column of the tables."""
    cells = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


LISTED = [CALL.match(code).groups() for code in first_cells(PUBLIC)]


@pytest.mark.parametrize(("name", "parameters"), LISTED)
def test_every_listed_name_can_be_reached(name, parameters):
    value = reduce(getattr, name.split("."), sitta)
    if parameters is not None:
        listed = [word.strip(" *") for word in parameters.split(",") if word.strip(" *")]
        taken = list(inspect.signature(value).parameters)
        assert listed == [known for known in taken if known in listed], (listed, taken)


def test_methods_that_list_settings_list_all_of_them():
    calls = {name: parameters for name, parameters in LISTED if parameters}
    for name in ("InTEnt", "Source"):
        listed = set(re.findall(r"\w+", calls[name]))
        about = sitta.methods()[name.lower()].describe()
        common = {"model", "output", "accelerate", "source_statistics"}
        assert listed == {s["name"] for s in about["settings"]} | common


@pytest.mark.parametrize("line", first_cells(IMPORTS))
def test_imports_by_hand_work(line):
    assert line.startswith("from sitta.")
    exec(line, {})  # noqa: S102  (our own page)


def test_every_listed_attribute_is_one_of_a_prediction():
    listed = first_cells(TEXT.split("## Prediction")[1].split("## Notes")[0])
    assert {"mask", "weights", "agreement"} < set(listed)
    image, _ = sitta.data.phantom.draw("cedar", size=(32, 32))
    prediction = sitta.InTEnt(sitta.load("chest-mcu"))(image)  # calibrated: it knows everything
    for name in listed:
        assert getattr(prediction, name) is not None, name
    own = {name for name in dir(prediction) if not name.startswith("_")}
    assert own - {"arrays", "plot", "summary"} == set(listed)
