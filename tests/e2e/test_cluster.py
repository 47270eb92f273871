"""What Ray does over several processes is what one process does. One cluster serves all tests."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from sitta.inference import Request
from sitta.inference import predict as run
from tests import ROOT
from tests.e2e.test_predict import contents
from tests.onnx_stub import export

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def ray():
    """A cluster on this machine, joined as ``--ray local`` joins one."""
    pytest.importorskip("ray")
    from sitta._util.ray import joined

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")  # and not one that another test has started meanwhile
        with joined("local") as started:
            yield started


def stations():
    """Processes of the actors of this machine's Ray."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::Station" in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_cluster_whose_worker_is_killed_gives_the_same_masks(ray, images, tmp_path):
    local, spread = tmp_path / "local", tmp_path / "spread"
    plan = Request("phantom-alder", preprocess={"size": (48, 48)})
    run(plan, [images], local)
    killed = []

    def kill():
        while len(list(spread.glob(".sitta/[!.]*.json"))) < 3:
            time.sleep(0.02)
        killed.append(stations()[0])
        os.kill(killed[0], signal.SIGKILL)
        draft = spread / "masks" / f".draft-{killed[0]}-0123abcd.scene-0000.png"
        draft.write_bytes(b"")  # as if it had been killed while it wrote

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    found = run(plan, [images], spread, cluster="local")
    assert killed
    assert found.failures == []
    assert len(found.records) == 24
    assert contents(spread) == contents(local)


def test_a_graph_over_a_cluster_gives_the_same_masks(ray, images, tmp_path):
    export(tmp_path / "net.onnx")
    plan = Request(str(tmp_path / "net.onnx"))
    two = sorted(images.iterdir())[:2]
    run(plan, two, tmp_path / "local")
    assert run(plan, two, tmp_path / "spread", cluster="local").counts["done"] == 2
    assert contents(tmp_path / "spread") == contents(tmp_path / "local")


def test_a_whole_benchmark_on_this_machine_and_on_ray(ray, tmp_path, monkeypatch, capsys):
    """What ``make bench-smoke`` runs: plan, run, status, tables, figures and the page."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(sys, "argv", [])  # the steps set their own
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    from smoke import smoke

    smoke(tmp_path)
    said = capsys.readouterr().out
    assert said.count("78 of 78 done") == 3
    assert "the tables of both runs are equal" in said
    for name in ("overall", "lambda-phantom", "change-phantom", "trust-phantom", "sweep"):
        assert f"figures/{name}.svg" in said
    assert "report.html" in said.split("$ sitta bench report")[1].split("\n", 1)[1]
