"""A short soak: what ``benchmarks/soak.py`` does for ten minutes."""

import importlib

from tests import ROOT


def test_the_service_survives_a_short_soak(graph, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("soak")
    monkeypatch.setattr(module, "KILL_SECONDS", 0.5)
    result = module.soak(str(graph), 1.0, 6)
    assert result["faults"] == []
    kinds = {name.split()[0] for name in result["counts"]}
    assert kinds == {"damaged", "hung", "image", "kills"}
