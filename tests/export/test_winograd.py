"""Convolutions with fewer products: the same as torch's, and only where they apply."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional as F

import sitta
from sitta.export.nodes import Nodes, prune
from sitta.export.passes import winograd
from sitta.export.passes.winograd import Winograd

DOUBLE = {"mode": "nearest", "nearest_mode": "floor"}
DOUBLE |= {"coordinate_transformation_mode": "asymmetric"}


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Any convolution is wide enough."""
    monkeypatch.setattr(winograd, "LEAST", 1)
    monkeypatch.setattr(winograd, "LEAST_UPSAMPLED", 1)


def weights(outputs, inputs, seed=0):
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(outputs, inputs, 3, 3, generator=chance), torch.randn(
        outputs, generator=chance
    )


def written(weight, bias=None, *, scales=None, high="s0", **attributes):
    """The nodes of a convolution, after an enlargement if there are scales; and what was done."""
    given = {"w": weight.numpy(), "scales": np.array(scales or [], np.float32)}
    given |= {} if bias is None else {"b": bias.numpy()}
    plain = {"pads": [1, 1, 1, 1], "strides": [1, 1], "dilations": [1, 1], "group": 1}
    told = {k: v for k, v in {**plain, **attributes}.items() if v is not None}
    nodes, x = Nodes("t"), "x"
    sides = {"x": ["n", weight.shape[1], high, "s1"], "y": ["n", len(weight), high, "s1"]}
    shorter = Winograd(nodes, sides, given)
    if scales:
        enlarge = helper.make_node("Resize", ["x", "", "scales"], ["up"], **DOUBLE)
        assert not shorter(enlarge)
        nodes.nodes.append(enlarge)
        x = "up"
    node = helper.make_node("Conv", [x, "w", *(["b"] if bias is not None else [])], ["y"], **told)
    done = shorter(node)
    if not done:
        nodes.nodes.append(node)
    constants = [numpy_helper.from_array(v, k) for k, v in given.items()]
    graph = helper.make_graph(
        nodes.nodes,
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", weight.shape[1], "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", len(weight), "i", "j"])],
        [*constants, *nodes.constants.values()],
    )
    prune(graph)
    return graph, done


def run(graph, x):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return torch.from_numpy(
        onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x.numpy()})[0]
    )


@given(
    rows=st.integers(1, 3),
    inputs=st.integers(1, 5),
    outputs=st.integers(1, 5),
    high=st.integers(1, 13),
    wide=st.integers(1, 9),
    doubled=st.booleans(),
    biased=st.booleans(),
)
def test_the_same_as_torch_at_any_size(rows, inputs, outputs, high, wide, doubled, biased):
    weight, bias = weights(outputs, inputs)
    bias = bias if biased else None
    x = torch.randn(rows, inputs, high, wide, generator=torch.Generator().manual_seed(1))
    graph, done = written(weight, bias, scales=[1, 1, 2, 2] if doubled else None)
    assert done
    large = F.interpolate(x, scale_factor=2.0, mode="nearest") if doubled else x
    expected = F.conv2d(large, weight, bias, padding=1)
    assert run(graph, x).shape == expected.shape
    torch.testing.assert_close(run(graph, x), expected, atol=2e-5, rtol=1e-5)


def test_sides_that_are_known_to_be_multiples_are_not_cut():
    weight, bias = weights(3, 2)
    x = torch.randn(1, 2, 16, 5, generator=torch.Generator().manual_seed(2))
    sure, unsure = (written(weight, bias, high=side)[0] for side in ("8*s0", "2*s0"))
    assert torch.equal(run(sure, x), run(unsure, x))
    assert len(sure.node) < len(unsure.node)


def whole(node):
    """Whether a convolution takes all channels together."""
    return "group" not in {attribute.name for attribute in node.attribute}


def products(graph, x):
    """Multiplications of weights, for one pair of channels."""
    convolutions = [node for node in graph.node if node.op_type == "Conv" and whole(node)]
    maps = [helper.make_empty_tensor_value_info(node.output[0]) for node in convolutions]
    graph = helper.make_graph(graph.node, "maps", graph.input, maps, graph.initializer)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x.numpy()})
    taps = [3 if node.attribute else 1 for node in convolutions]  # those of three have pads
    return sum(m.shape[2] * m.shape[3] * n for m, n in zip(found, taps, strict=True))


@pytest.mark.parametrize(("scales", "side", "count"), [(None, 16, 4.5), ([1, 1, 2, 2], 8, 9 / 4)])
def test_how_many_products_are_left(scales, side, count):
    """F(4, 3) has 6 products of 3 weights for 4 pixels (9 x 4 = 36 of them before): half."""
    graph, _ = written(*weights(2, 2), scales=scales)
    assert products(graph, torch.rand(1, 2, side, side)) == count * 16 * 16
    if scales:
        assert "Resize" not in {node.op_type for node in graph.node}


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 2]},
        {"pads": [0, 0, 0, 0]},
        {"pads": None},
        {"pads": [1, 1, 0, 0]},
        {"dilations": [2, 2]},
        {"pads": None, "auto_pad": "SAME_UPPER"},
    ],
)
def test_other_convolutions_are_left_alone(attributes):
    assert not written(*weights(2, 2), **attributes)[1]


def test_groups_and_other_kernels_are_left_alone():
    assert not written(torch.rand(4, 2, 3, 3), group=2)[1]
    for shape in ((2, 2, 5, 5), (2, 2, 1, 1), (2, 2, 3), (2, 2, 3, 3, 3)):
        assert not written(torch.rand(shape))[1]


def test_a_map_that_was_enlarged_otherwise_is_convolved_by_rows():
    weight, bias = weights(2, 2)
    x = torch.rand(1, 2, 4, 4)
    graph, done = written(weight, bias, scales=[1, 1, 3, 3])
    assert done
    assert "Resize" in {node.op_type for node in graph.node}
    expected = F.conv2d(F.interpolate(x, scale_factor=3.0), weight, bias, padding=1)
    torch.testing.assert_close(run(graph, x), expected, atol=2e-5, rtol=1e-5)


def test_narrow_convolutions_are_left_alone(monkeypatch):
    monkeypatch.setattr(winograd, "LEAST", 7)
    assert not written(*weights(2, 3))[1]
    assert written(*weights(7, 1))[1]


def test_a_network_exported_for_cpus_and_for_any_target(tmp_path, monkeypatch):
    monkeypatch.undo()  # the channels of this network are as many as it takes
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 128, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(128),
        torch.nn.ReLU(),
        torch.nn.Conv2d(128, 64, 3, padding=1),
        torch.nn.Upsample(scale_factor=2),
        torch.nn.Conv2d(64, 64, 3, padding=1),
        torch.nn.Conv2d(64, 1, 3, padding=1),
    ).eval()
    found, outputs, image = {}, {}, torch.rand(2, 1, 16, 24).numpy()
    for on, target in ((True, "cpu"), (False, "any")):
        done = sitta.export_onnx(net, tmp_path / f"{on}.onnx", lambdas=[1.0, 0.0], target=target)
        assert done.difference < 1e-5  # from torch
        nodes = onnx.load(done.path).graph.node
        found[on] = [node.op_type for node in nodes]
        outputs[on] = onnxruntime.InferenceSession(done.path).run(["members"], {"image": image})[0]
        assert found[on].count("Conv") == (1 + (6 + 6) + (8 + 9) + 1 if on else 4)
    assert [found[on].count("Resize") for on in (True, False)] == [0, 1]
    np.testing.assert_allclose(outputs[True], outputs[False], rtol=0, atol=1e-5)
    sizes = [(tmp_path / f"{on}.onnx").stat().st_size for on in (True, False)]
    assert sizes[0] < 1.1 * sizes[1]  # weights are rearranged when the file is loaded


def test_another_target_is_refused(tmp_path):
    with pytest.raises(sitta.InvalidSetting, match=r"no such target.*Allowed: cpu, any"):
        sitta.export_onnx(torch.nn.BatchNorm2d(1), tmp_path / "x.onnx", target="gpu")
