"""What the service says of its methods comes from the registry alone."""

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import pytest

from sitta import adaptation
from sitta._util.settings import option
from sitta.adaptation.source import Source
from sitta.data import Preprocess
from sitta.inference import Loaded
from sitta.serve.catalogue import Catalogue
from sitta.serve.quotas import Limits
from sitta.serve.schemas import Method
from tests.nets import case


@dataclass(frozen=True, eq=False)
class Toy(Source):
    """Another name for the source model, with a setting of its own."""

    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "Toy method"
    description: ClassVar[str] = "does nothing new"
    takes_gradients: ClassVar[bool] = True
    shade: float = option(0.5, "of the toy", low=0, below=2, title="toy shade", main=True)


@pytest.fixture
def catalogue(monkeypatch):
    module = ModuleType("toy_methods")
    module.Toy = Toy
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(adaptation.METHODS, "Toy", module.__name__)
    made = Catalogue([], Limits(), 1)
    net, _ = case(2, 1)
    made.loaded["net"] = Loaded("net", net, Preprocess(), ("organ",), "")
    return made


def test_a_method_of_the_registry_is_offered(catalogue):
    described = catalogue.describe()
    toy = Method(**next(m for m in described["methods"] if m["name"] == "toy"))
    assert (toy.title, toy.summary, toy.takes_gradients) == ("Toy method", Toy.description, True)
    assert [m["name"] for m in described["methods"]] == list(adaptation.methods())
    assert "toy" in described["models"][0]["methods"]
    shade = toy.settings[-1]
    assert (shade.name, shade.title, shade.main, shade.default) == ("shade", "toy shade", True, 0.5)
    assert (shade.kind, shade.minimum, shade.maximum) == ("number", 0, 2)
    assert catalogue.adapter("net", "toy", {"shade": "1.5"})


def test_every_method_shows_a_setting_at_once(catalogue):
    for method in catalogue.describe()["methods"]:
        assert any(setting["main"] for setting in method["settings"]), method["name"]
