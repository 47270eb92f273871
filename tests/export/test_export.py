"""Exported graphs: on onnxruntime the numbers of torch, for any batch and sides."""

import copy
import json
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import sitta
from sitta.cli import app, export  # noqa: F401  (verbs register themselves)
from sitta.core.members import Rows
from sitta.errors import MissingExtra
from sitta.export import build, check
from sitta.export.build import with_classes
from sitta.export.nodes import after
from sitta.inference.backends.onnx import Graph
from tests.export.halves import remembered
from tests.nets import assert_untouched, snapshot, trained

PLAIN = {"BatchNormalization", "Dropout", "InstanceNormalization"}
NAMES = ("members", "entropies", "probability", "weights", "uncertainty", "disagreement")


class Small(nn.Module):
    """A stem without BatchNorm, a step down and up, and a skip around it."""

    def __init__(self, outputs=1, dims=2):
        super().__init__()
        conv, norm = (nn.Conv2d, nn.BatchNorm2d) if dims == 2 else (nn.Conv3d, nn.BatchNorm3d)
        self.stem = conv(1, 4, 3, padding=1, bias=False)
        self.first = nn.Sequential(norm(4), nn.ReLU(), conv(4, 4, 3, stride=2, padding=1))
        self.deep = nn.Sequential(
            norm(4), nn.SiLU(), conv(4, 4, 3, padding=1), nn.Upsample(None, 2)
        )
        self.last = nn.Sequential(norm(8, affine=False), nn.ReLU(), conv(8, outputs, 1))

    def forward(self, x):
        stem = self.stem(x)
        return {"logits": self.last(torch.cat([stem, self.deep(self.first(stem))], dim=1))}


def small(outputs=1, dims=2):
    torch.manual_seed(2)
    return trained(Small(outputs, dims), (1, *[16] * dims), passes=2)


CASES = {
    "binary": (1, 2, {}),
    "classes": (3, 2, {"strategy": "vote", "variance": "unbiased", "lambdas": (0.5, 0.0, 1.0)}),
    "labels": (2, 2, {"activation": "sigmoid", "strategy": "ent-topk", "statistics": "in-layer"}),
    "volumes": (2, 3, {"step": 0.5, "strategy": "ent-norm", "empty": "uninformative"}),
    "power": (1, 2, {"strategy": "ent-power", "step": 0.5}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    outputs, dims, settings = CASES[request.param]
    net = small(outputs, dims)
    path = tmp_path_factory.mktemp("export") / "net.onnx"
    before = snapshot(net)
    done = sitta.export_onnx(net, path, output="logits", **settings)
    assert_untouched(net, before)
    return done, sitta.InTEnt(net, output="logits", **settings), dims


def test_the_numbers_are_those_of_torch(case):
    done, method, dims = case
    graph = Graph(done.path, threads=1)
    for number, sides in ((1, (16, 20, 8)), (3, (30, 12, 10))):
        images = torch.rand(number, 1, *sides[:dims])
        ours, theirs = graph(images.numpy()), method(images).record
        for name in NAMES:
            mine, other = getattr(ours, name), getattr(theirs, name)
            np.testing.assert_allclose(mine, other, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(ours.distance, theirs.distance, rtol=1e-4)
        decided = np.abs(np.diff(np.sort(theirs.probability, axis=1), axis=1)).min(
            axis=1, initial=1
        )
        near = np.abs(theirs.probability - 0.5).min(axis=1) if decided.min() == 1 else decided
        same = (ours.mask == theirs.mask).reshape(number, -1, *near.shape[1:]).all(axis=1)
        assert (same | (near < 1e-4)).all()
        assert ours.notes == theirs.notes


def test_a_network_of_monai(tmp_path):
    nets = pytest.importorskip("monai.networks.nets")
    torch.manual_seed(1)
    net = trained(nets.AttentionUnet(2, 1, 2, channels=(4, 8), strides=(2,)), (1, 16, 16), passes=2)
    done = sitta.export_onnx(net, tmp_path / "net.onnx", step=0.5)
    images = torch.rand(2, 1, 12, 20)
    ours, theirs = Graph(done.path, threads=1)(images.numpy()), sitta.InTEnt(net, step=0.5)(images)
    for name in NAMES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-4)


def test_it_holds_plain_reductions_and_tells_no_path(case):
    done, _, _ = case
    graph = onnx.load(done.path).graph
    assert not PLAIN & {node.op_type for node in graph.node}
    assert not any(node.doc_string or node.metadata_props for node in graph.node)
    assert str(sys.prefix).encode() not in done.path.read_bytes()
    assert len(graph.node) == done.nodes


def test_what_comes_before_the_first_norm_is_computed_once(case):
    done, _, _ = case
    model = onnx.load(done.path)
    stem = next(n for n in model.graph.node if n.op_type == "Conv")
    ahead = onnx.shape_inference.infer_shapes(model).graph.value_info
    batch = next(v for v in ahead if v.name == stem.output[0]).type.tensor_type.shape.dim[0]
    assert batch.dim_param == "N"


def test_sides_that_do_not_fit_are_refused_by_name(case):
    done, _, dims = case
    assert done.multiple == 2
    with pytest.raises(sitta.InvalidImage, match=r"multiples of 2.*Got: 16 x 15.*--size"):
        Graph(done.path)(np.zeros((1, 1, *(16, 15, 16)[:dims])))


NAMED = [
    (1, "sigmoid", ["background", "foreground"]),
    (2, "sigmoid", ["background", "class 1", "class 2"]),
    (2, "softmax", ["background", "foreground"]),
    (3, "softmax", ["background", "class 1", "class 2"]),
]


@pytest.mark.parametrize(("outputs", "activation", "usual"), NAMED)
def test_classes_are_as_many_as_the_model_tells_apart(outputs, activation, usual):
    """Wrong names in a card are replaced, wrong ones that were given are refused."""
    alone = with_classes({}, False, outputs, activation)
    assert alone.get("classes", ["background", "foreground"]) == usual
    for card in ({"classes": ["background"]}, {"classes": usual}):
        found = with_classes({**card, "a": 1}, False, outputs, activation)
        assert found == {"a": 1, "classes": usual}
    mine = [f"mine {n}" for n in range(len(usual))]
    assert with_classes({"classes": mine}, True, outputs, activation)["classes"] == mine
    for wrong in ([*mine, "more"], mine[:-1]):
        with pytest.raises(sitta.InvalidSetting, match=f"{len(usual)} names") as error:
            with_classes({"classes": wrong}, True, outputs, activation)
        assert ",".join(usual) in str(error.value)


@pytest.fixture(scope="module")
def trace():
    """Of ``small(3)``, for tests of what is done with it: tracing is slow."""
    return remembered(build.trace)


@pytest.fixture
def traced_once(trace, monkeypatch):
    monkeypatch.setattr(build, "trace", trace)


@pytest.mark.usefixtures("traced_once")
def test_classes_are_named_in_the_file(tmp_path, monkeypatch):
    (tmp_path / "threenets.py").write_text(
        "from tests.export.test_export import small\n\ndef three():\n    return small(3)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["export", "threenets:three", "t.onnx", "--output", "logits", "--step", "1"]
    refused = CliRunner().invoke(app, [*words, "--classes", "bg,a"])
    assert isinstance(refused.exception, sitta.InvalidSetting)
    assert "3 names, background first" in str(refused.exception)
    assert not Path("t.onnx").exists()
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    assert Graph("t.onnx", threads=1).card["classes"] == ["background", "class 1", "class 2"]
    again = CliRunner().invoke(app, [*words, "--classes", "bg, a, b", "--overwrite"])
    assert again.exit_code == 0
    assert Graph("t.onnx", threads=1).card["classes"] == ["bg", "a", "b"]


@pytest.mark.usefixtures("traced_once")
def test_a_graph_that_differs_is_never_written(tmp_path, monkeypatch):
    real = check.differences

    def off(*given):
        return real(*given) | {"weights": 2e-4}

    monkeypatch.setattr(check, "differences", off)
    path = tmp_path / "net.onnx"
    with pytest.raises(sitta.SittaError, match=r"weights differs by 0.0002 from torch on 1 x 1"):
        sitta.export_onnx(small(3), path, output="logits", step=1.0)
    assert not list(tmp_path.iterdir())


def test_what_is_left_out_is_no_tensor():
    node = onnx.helper.make_node
    split = node("Dropout", ["x"], ["y", ""])
    assert after([split, node("Conv", ["z", "w", ""], ["v"])], {"x"}) == {"x", "y"}


def test_rows_are_those_of_torch():
    assert Rows.of((1.0, 0.0), True, True).lambdas == (0.0, 1.0, 0.0)
    assert Rows.of((1.0, 0.0), True, True).order == (1, 2)
    assert not Rows.of((1.0, 1.0), True, False).captured


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    torch.manual_seed(0)
    net = sitta.models.UNet(channels=4, multipliers=(1, 2), blocks=1, heads=2)
    for p in net.parameters():
        if not p.any():
            nn.init.normal_(p, std=0.1)
    trained(net, (1, 16, 16), passes=2)
    path = tmp_path_factory.mktemp("unet") / "net.onnx"
    return net, sitta.export_onnx(net, path, lambdas=(1.0, 0.5, 0.0), card={"note": "mine"})


@pytest.mark.parametrize("shape", [(1, 1, 32, 32), (2, 1, 25, 35), (1, 1, 2, 2)])
def test_our_network_takes_any_sides(ours, shape):
    net, done = ours
    images = torch.rand(shape)
    mine = Graph(done.path, threads=1)(images.numpy())
    theirs = sitta.InTEnt(net, lambdas=(1.0, 0.5, 0.0))(images).record
    np.testing.assert_allclose(mine.members, theirs.members, atol=1e-4)
    assert mine.notes == theirs.notes
    assert ("tiny-feature-map" in mine.notes[0]) == (shape[-1] == 2)


def test_a_member_that_overflows_does_not_count(ours):
    net, done = ours
    images = torch.rand(1, 1, 16, 16) * 1e30
    mine = Graph(done.path)(images.numpy())
    theirs = sitta.InTEnt(net, lambdas=(1.0, 0.5, 0.0))(images)
    assert mine.usable[:, 0].tolist() == theirs.arrays()["usable"][:, 0].tolist()
    assert not mine.usable.all()


def test_the_file_tells_what_it_holds(ours):
    _, done = ours
    told = json.loads(Graph(done.path)._session.get_modelmeta().custom_metadata_map["sitta"])
    assert told["settings"]["lambdas"] == told["lambdas"] == [1.0, 0.5, 0.0]
    assert told["settings"].keys() >= {"strategy", "statistics", "variance", "topk", "ties"}
    assert "rho" not in told["settings"]
    assert told["card"] == {"note": "mine"}
    assert done.compared == ((1, 1, 16, 18), (2, 1, 15, 15))
    assert re.search(r"any sides\n.* at 1x1x16x18, .* within ", str(done))


def test_a_graph_that_cannot_be_run_is_told_in_words(ours, tmp_path):
    net, done = ours
    method = sitta.InTEnt(net, lambdas=(1.0, 0.5, 0.0))
    with pytest.raises(sitta.SittaError, match=r"cannot run the graph.*No file was written"):
        check.compare(done.path, method, "sigmoid", [torch.rand(1, 2, 16, 16)])
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(sitta.SittaError, match="cannot run the graph"):
        check.compare(tmp_path / "text.onnx", method, "sigmoid", [])


def test_differences_see_a_wrong_number(ours):
    net, done = ours
    method, image = sitta.InTEnt(net, lambdas=(1.0, 0.5, 0.0)), torch.rand(1, 1, 16, 16)
    graph = Graph(done.path)
    names = graph.outputs
    found = dict(zip(names, graph._session.run(None, {"image": image.numpy()}), strict=True))
    assert max(check.differences(found, method, "sigmoid", image).values()) < 1e-5
    for name in (*NAMES, "distance", "agreement"):
        wrong = found | {name: found[name] + np.float32(0.01)}
        seen = check.differences(wrong, method, "sigmoid", image)
        assert seen[name] > 5e-3, name


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"strategy": "sharpness"}, r"needs gradients.*Allowed: .*ent-baln"),
        ({"members_at_once": 2}, "no use for members_at_once"),
        ({"card": {"x": object()}}, "cannot be written as JSON"),
        ({"step": 2.0}, "step is out of range"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(tmp_path, settings, said):
    with pytest.raises(sitta.InvalidSetting, match=said):
        sitta.export_onnx(small(), tmp_path / "net.onnx", **settings)


def test_names_of_files(tmp_path):
    (tmp_path / "a.onnx").write_text("mine")
    with pytest.raises(sitta.InvalidSetting, match=r"there already.*--overwrite"):
        sitta.export_onnx(small(), tmp_path / "a.onnx")
    with pytest.raises(sitta.InvalidSetting, match=r"does not end in \.onnx"):
        sitta.export_onnx(small(), tmp_path / "a.pt")
    assert (tmp_path / "a.onnx").read_text() == "mine"


def test_a_model_that_looks_at_values_is_refused(tmp_path):
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(self.conv(x)) if x.sum() > 0 else x

    with pytest.raises(sitta.UnsupportedModel, match=r"torch.export cannot trace .*--multiple"):
        sitta.export_onnx(Looks(), tmp_path / "net.onnx", multiple=1)
    assert not list(tmp_path.iterdir())


def test_without_the_extra_its_line_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtra, match=r"'\.\[onnx\]'"):
        sitta.export_onnx(small(), tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["phantom-alder", "x.onnx", "--strategy", "sharpness"], "needs gradients"),
        (["phantom-alder", "x.onnx", "--set", "speed=3"], "no setting 'speed'"),
        (["y.onnx", "x.onnx"], "is a graph already"),
        (["phantom-alder", "x.bin"], "does not end in .onnx"),
    ],
)
def test_wrong_words(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["export", *words])
    assert isinstance(result.exception, sitta.SittaError)
    assert said in str(result.exception)
    assert not list(tmp_path.iterdir())


class Heads(nn.Module):
    """Two heads with layers of their own, of which one is chosen, and one that never runs."""

    def __init__(self):
        super().__init__()
        self.stem, self.idle = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        head = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1))
        self.first, self.second = head, copy.deepcopy(head)

    def forward(self, x):
        x = self.stem(x)
        return self.first(x), self.second(5 * x)


@pytest.mark.parametrize("output", [0, 1])
def test_layers_of_an_output_that_is_not_chosen_count_for_the_distance(output, tmp_path):
    torch.manual_seed(0)
    net = trained(Heads(), (1, 16, 16))
    sitta.export_onnx(net, tmp_path / "net.onnx", output=output, step=0.5)
    image = torch.rand(2, 1, 16, 16)
    record = Graph(tmp_path / "net.onnx")(image.numpy())
    theirs = sitta.InTEnt(net, output=output, step=0.5)(image)
    np.testing.assert_allclose(record.distance, theirs.distance.numpy(), rtol=1e-4)
    np.testing.assert_allclose(record.probability, theirs.probability.numpy(), atol=1e-5)
