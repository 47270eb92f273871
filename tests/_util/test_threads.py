"""Threads sleep while they wait, and there are as many of them as was said."""

import importlib
import os
import subprocess
import sys

import pytest
import torch

from sitta._util.threads import PASSIVE, use_threads, wait_passively
from sitta.data import phantom
from sitta.inference.backends import ort
from tests import ROOT

STARTED = """
import os, sys
sys.argv = ["sitta", "--version"]
from sitta.cli import main
try:
    main()
except SystemExit:
    assert "torch" not in sys.modules
    print(*(os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")))
"""


@pytest.fixture
def images(tmp_path):
    phantom.write(tmp_path, "rowan", 1, (32, 32))
    return tmp_path / "phantom" / "rowan" / "images"


@pytest.fixture
def as_before(monkeypatch):
    for name in PASSIVE:
        monkeypatch.delenv(name, raising=False)
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)


@pytest.mark.parametrize(
    ("given", "seen"),
    [({}, "PASSIVE 1000"), ({"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "9"}, "ACTIVE 9")],
)
def test_commands_wait_passively_unless_the_user_says_otherwise(given, seen, as_before):
    done = subprocess.run(
        [sys.executable, "-c", STARTED],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == seen


def test_a_variable_that_is_set_stays(as_before, monkeypatch):
    monkeypatch.setenv("KMP_BLOCKTIME", "5")
    wait_passively()
    assert os.environ["KMP_BLOCKTIME"] == "5"
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    for name in PASSIVE:
        os.environ.pop(name)


def test_torch_computes_with_as_many_threads_as_given(as_before):
    use_threads(3)
    assert torch.get_num_threads() == 3
    use_threads(None)
    assert torch.get_num_threads() == 3


def test_onnxruntime_computes_with_as_many_threads_and_does_not_spin(tmp_path):
    onnx = pytest.importorskip("onnx")
    shape = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "relu", [shape], [out])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "g.onnx")
    options = ort.session(tmp_path / "g.onnx", threads=2).get_session_options()
    assert options.intra_op_num_threads == 2
    for name in ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning"):
        assert options.get_session_config_entry(name) == "0"


def test_the_benchmark_of_threads_measures_every_combination(monkeypatch, capsys, images):
    pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    threads = importlib.import_module("threads")
    monkeypatch.setattr(threads, "apart", lambda model, waits, *_: 1.0 + (waits == "spinning"))
    monkeypatch.setattr("sitta.export.export_onnx", lambda *_: None)  # nothing runs it here
    monkeypatch.setattr(sys, "argv", ["threads.py", "--quick"])
    threads.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if "| 2.0 | 1.0 | 2.00 |" in line]
    assert len(rows) == 4  # torch and onnx, idle and busy
    monkeypatch.undo()
    assert threads.apart("phantom-alder", "passive", 1, images) > 0
