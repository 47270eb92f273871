"""Models from strangers: absurd sizes, wrong types and loops get a clear error, at once."""

import copy
import json
import math
import shutil
import sys
import zipfile
from contextlib import suppress

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, parser
from safetensors.torch import save_file

import sitta
from sitta.bench.plan.load import read_plan
from sitta.inference import load_model
from sitta.inference.backends.onnx import Graph
from sitta.inference.backends.operators import require_finite
from sitta.models import UNet, checkpoint
from sitta.prediction.calibration import Calibration
from tests.bench import tiny
from tests.data import fuzz, fuzz_tables
from tests.onnx_stub import ABOUT, CARD, export

SMALL = {"channels": 4, "multipliers": [1, 2]}
HUGE = 2**63 - 1
DEEP = "[" * 900 + "]" * 900


def with_card(path, card):
    text = card if isinstance(card, str) else json.dumps(card)
    save_file({"w": torch.zeros(1)}, path, metadata={"sitta": text})
    return path


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"blocks": 1e8}, r"blocks is out of range.*>= 1 and <= 16. Got: 100000000.0"),
        ({"blocks": 10**8}, r"blocks is out of range.*>= 1 and <= 16. Got: 100000000"),
        ({"blocks": 0}, "blocks is out of range"),
        ({"blocks": True}, "blocks is out of range"),
        ({"channels": HUGE}, "channels is out of range"),
        ({"channels": "4"}, r"channels is out of range.*Got: '4'"),
        ({"channels": None}, "channels is out of range"),
        ({"in_channels": -1}, "in_channels is out of range"),
        ({"out_channels": HUGE}, "out_channels is out of range"),
        ({"multipliers": [1] * 40}, r"too many levels.*up to 10. Got: 40"),
        ({"multipliers": [1] * 100_000}, "multipliers holds too many values"),
        ({"multipliers": 3}, "multipliers holds no value"),
        ({"multipliers": [HUGE]}, "multipliers is out of range"),
        ({"multipliers": [[1]]}, "multipliers is out of range"),
        ({"heads": 0}, "heads is out of range"),
        ({"dropout": 7}, "dropout is out of range"),
        ({"full_blocks": "no"}, "full_blocks is out of range"),
        ({"dims": 1e300}, "dims is out of range"),
    ],
)
def test_a_network_of_absurd_size_or_type_is_not_built(tmp_path, config, said):
    card = {"architecture": "UNet", "config": {**SMALL, **config}}
    with pytest.raises(sitta.UnsupportedModel, match=said) as caught:
        sitta.load(with_card(tmp_path / "a.safetensors", card))
    assert "a.safetensors describes a network that cannot be built" in str(caught.value)


def test_a_large_network_takes_no_memory_before_its_weights_fit(tmp_path):
    """1,024 x 64 channels a convolution are 155 GB: more than this machine can promise."""
    config = {"channels": 1024, "multipliers": [64, 64], "blocks": 16}
    card = {"architecture": "UNet", "config": config}
    with pytest.raises(sitta.UnsupportedModel, match="do not fit their own card"):
        sitta.load(with_card(tmp_path / "a.safetensors", card))


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"architecture": ["UNet"]}, "entry 'architecture'"),
        ({"config": [1]}, "entry 'config'"),
        ({"source": {"a": 1}}, "entry 'source'"),
        ({"preprocess": "none"}, "entry 'preprocess' that cannot be used. Allowed: a table"),
        ({"classes": "organ"}, "entry 'classes'"),
        ({"classes": []}, "entry 'classes'"),
        ({"classes": [1, 2]}, "entry 'classes'"),
        ({"classes": ["a"] * 10_000}, "entry 'classes'"),
        ({"trust": {"agreement": "high"}}, "entry 'trust'"),
        ({"trust": [0.5]}, "entry 'trust'"),
        (f'{{"note": {DEEP}}}', "too many lists in each other"),
        (f'{{"note": {"9" * 4400}}}', "a whole number is too long"),
        ('{"note": "' + "x" * (1 << 20) + '"}', "the text is too long"),
    ],
)
def test_a_card_of_wrong_types_or_absurd_length_is_refused(tmp_path, card, said):
    if isinstance(card, dict):
        card = {"architecture": "UNet", "config": SMALL, **card}
    with pytest.raises(sitta.UnsupportedModel, match=said) as caught:
        load_model(str(with_card(tmp_path / "a.safetensors", card)))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("size", [[HUGE, HUGE], [65536, 65536], ["a", 1], [[1], 2], {"a": 1}])
def test_preprocessing_of_absurd_size_is_refused(tmp_path, size):
    path = tmp_path / "net.safetensors"
    checkpoint.save(UNet(**SMALL), path, {"preprocess": {"size": size}})
    with pytest.raises(sitta.InvalidSetting, match="Allowed"):
        load_model(str(path))


PRIOR = ("classes", 0, "prior")
DICE = ("classes", 0, "dice")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("images",), math.inf, "is damaged"),
        (("version",), 10**30, "version that this Sitta does not know"),
        (("limit",), math.nan, "not finite"),
        (("statistics",), [1], "is damaged"),
        (("statistics", "1"), [1], "is damaged"),
        (("members", "none", "adapt"), "x" * 20_000, "is damaged"),
        (("classes", 0, "gain"), "nan", "not finite"),
        ((*PRIOR, "size"), math.nan, "not finite"),
        ((*PRIOR, "size"), 0, "no size"),
        ((*PRIOR, "size"), 1e308, "no size"),
        ((*PRIOR, "grid"), [1024], "does not fit its grid"),
        ((*PRIOR, "grid"), [2**40, 32], "does not fit its grid"),
        ((*PRIOR, "grid"), [math.inf, 32], "is damaged"),
        ((*PRIOR, "mean"), {"shape": [2**20] * 4, "float16": ""}, "damaged array"),
        ((*DICE, "weights", "sharp"), math.nan, "weights of the expected Dice"),
        ((*DICE, "weights", "sharp"), "x" * 20_000, "is damaged"),
        ((*DICE, "curves", "sharp", "x"), [1, 0], "curve of the expected Dice"),
        (("subjects",), -1, "no number of images or people"),
        (("inputs", "margin"), math.nan, "input check is damaged"),
    ],
)
def test_a_calibration_of_absurd_values_is_refused(place, value, said):
    table = copy.deepcopy(fuzz_tables.CALIBRATION)
    home = table
    for key in place[:-1]:
        home = home[key]
    home[place[-1]] = value
    with pytest.raises(sitta.InvalidSetting, match=said) as caught:
        Calibration.from_dict(table)
    assert len(str(caught.value)) < 600


def test_a_calibration_of_other_dimensions_is_refused():
    net = UNet(**SMALL, dims=3)
    adapt = sitta.Adapt(net, profile=Calibration.from_dict(fuzz_tables.CALIBRATION))
    with pytest.raises(sitta.InvalidSetting, match=r"other dimensions.*2D.*3D"):
        adapt(torch.rand(1, 1, 8, 8, 8))


def test_weights_are_copies_of_the_file_in_the_types_of_the_network(tmp_path):
    path, net = tmp_path / "net.safetensors", UNet(**SMALL)
    checkpoint.save(net, path, {}, half=True)
    loaded = sitta.load(path)
    before = {k: v.clone() for k, v in loaded.state_dict().items()}
    path.write_bytes(b"\xff" * path.stat().st_size)  # in place, as a copy over it would
    for name, tensor in net.state_dict().items():
        assert loaded.state_dict()[name].dtype == tensor.dtype
        assert torch.equal(loaded.state_dict()[name], before[name])
    assert all(p.requires_grad and p.is_leaf for p in loaded.parameters())


@pytest.mark.parametrize(
    "names",
    [("input_blocks.x.weight",), ("input_blocks.99999999999.op.weight",), ("input_blocks.0",)],
)
def test_a_published_checkpoint_with_absurd_names_is_refused(names):
    state = {"input_blocks.0.weight": torch.zeros(4, 1, 3, 3), "out.2.weight": torch.zeros(1)}
    with pytest.raises(sitta.SittaError):
        UNet.from_reference({**state, **{name: torch.zeros(1) for name in names}})


@pytest.fixture
def factory(tmp_path, monkeypatch):
    code = "from torch import nn\ndef net():\n    return nn.BatchNorm2d(1)\n"
    (tmp_path / "hostilenets.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    yield lambda weights: load_model("hostilenets:net", weights)
    sys.modules.pop("hostilenets", None)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("subprocess:call", 'args = ["touch", "here"]'),
        ("os:mkdir", 'path = "here"'),
        ("builtins:open", 'file = "here", mode = "w"'),
        ("torch:load", 'f = "here", weights_only = false'),
        ("torch.hub:load", 'repo_or_dir = "here", model = "a"'),
    ],
)
def test_a_profile_calls_no_function_of_python_or_torch(tmp_path, monkeypatch, name, arguments):
    monkeypatch.chdir(tmp_path)
    model = f'factory = "{name}"\narguments = {{ {arguments} }}'
    (tmp_path / "net.toml").write_text(f"profile = 1\n[model]\n{model}\n")
    with pytest.raises(sitta.InvalidSetting, match="is no factory"):
        load_model("net.toml")
    assert not (tmp_path / "here").exists()


def test_weights_that_hold_themselves_end(factory, tmp_path):
    state: dict = {}
    state["state_dict"] = state
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(sitta.SittaError, match="holds no state dict"):
        factory(tmp_path / "w.pt")


def test_weights_that_unpack_to_more_than_their_file_are_refused(factory, tmp_path):
    torch.save({"weight": torch.zeros(1 << 20)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for member in plain.infolist():
            bomb.writestr(member.filename, plain.read(member))
    with pytest.raises(sitta.SittaError, match=r"unpacks to more.*4,19\d,\d\d\d"):
        factory(tmp_path / "bomb.pt")


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"lambdas": [10**19]}, "does not tell its lambdas"),
        ({"lambdas": [True]}, "does not tell its lambdas"),
        ({"lambdas": [float("nan")]}, "does not tell its lambdas"),
        ({"multiple": "all"}, "does not tell its multiple"),
        ({"multiple": 0}, "does not tell its multiple"),
        ({"multiple": HUGE}, "does not tell its multiple"),
        ({"multiple": [2]}, "does not tell its multiple"),
        ({"trained": 99}, "does not tell its trained"),
        ({"trained": "first"}, "does not tell its trained"),
        ({"activation": ["sigmoid"]}, "does not tell its activation"),
        ({"card": {**CARD, "preprocess": 3}}, "entry 'preprocess'"),
        ({"card": {**CARD, "classes": 3}}, "entry 'classes'"),
        ({"format": [[[[1]]]]}, "format that this version does not know"),
    ],
)
def test_a_manifest_of_wrong_types_is_refused(tmp_path, about, said):
    with pytest.raises(sitta.UnsupportedModel, match=said):
        load_model(str(export(tmp_path / "x.onnx", about={**ABOUT, **about})))


LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
endless (float[N] image) => (float[N] y) {
    turns = Constant <value = int64 {9223372036854775807}> ()
    go = Constant <value = bool {1}> ()
    y = Loop (turns, go, image) <body = turn (int64 i, bool on, float[N] x)
        => (bool again, float[N] z) { again = Identity (on)
        z = Identity (x) }>
}
"""


def test_a_loop_is_refused_before_it_runs(tmp_path):
    path = tmp_path / "loop.onnx"
    onnx.save(parser.parse_model(LOOP), path)
    with pytest.raises(sitta.UnsupportedModel, match=r"may never end \(Loop\).*sitta export"):
        Graph(path)


def nested(model):
    """The same graph as a branch of another."""
    then = helper.make_graph(model.graph.node, "then", [], model.graph.output)
    node = helper.make_node("If", ["go"], ["y"], then_branch=then, else_branch=then)
    graph = helper.make_graph([node], "outer", model.graph.input, model.graph.output)
    return helper.make_model(graph)


def test_a_loop_in_a_branch_and_a_function_are_found(tmp_path):
    path = tmp_path / "x.onnx"
    onnx.save(nested(parser.parse_model(LOOP)), path)
    with pytest.raises(sitta.UnsupportedModel, match="Loop"):
        require_finite(path)
    model = onnx.load(export(path))
    imports = [helper.make_opsetid("", 17)]
    call = [helper.make_node("f", ["x"], ["y"], domain="own")]
    model.functions.append(helper.make_function("own", "f", ["x"], ["y"], call, imports))
    onnx.save(model, path)
    with pytest.raises(sitta.UnsupportedModel, match="a function"):
        require_finite(path)


@pytest.mark.parametrize("before", [b"\x0b\x0c", b"\xfb\x01\xfc\x01"], ids=["group 1", "group 31"])
def test_nothing_hides_behind_bytes_that_parsers_skip(tmp_path, before):
    path = tmp_path / "x.onnx"
    path.write_bytes(before + parser.parse_model(LOOP).SerializeToString())
    with pytest.raises(sitta.UnsupportedModel, match="damaged"):
        Graph(path)


def test_a_loop_under_a_tag_that_parsers_cut_to_32_bits_is_found(tmp_path):
    graph = parser.parse_model(LOOP).graph.SerializeToString()
    length = bytes([len(graph) & 127 | 128, len(graph) >> 7])
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\xba\x80\x80\x80\x10" + length + graph)  # 7 << 3 | 2, and bit 32
    with pytest.raises(sitta.UnsupportedModel, match="Loop"):
        require_finite(path)


def test_a_graph_whose_metadata_is_no_text_is_refused_without_a_word_on_the_screen(tmp_path, capfd):
    whole = export(tmp_path / "whole.onnx").read_bytes()
    for word in (b"phantom/alder", b"probability"):  # in the card, and the name of an output
        (tmp_path / "x.onnx").write_bytes(whole.replace(word, b"\xff" * len(word)))
        with pytest.raises(sitta.UnsupportedModel, match=r"x\.onnx"):
            Graph(tmp_path / "x.onnx")
    assert capfd.readouterr() == ("", "")


def test_models_and_plans_with_any_damage_are_clear_errors_or_fine(factory, tmp_path):
    net = UNet(**SMALL)
    torch.save({"weight": torch.ones(1)}, tmp_path / "w.pt")
    checkpoint.save(net, tmp_path / "net.safetensors", {"classes": ["background", "organ"]})
    export(tmp_path / "net.onnx")
    tiny.make(tmp_path)
    readers = {"w.pt": factory, "net.safetensors": sitta.load, "net.onnx": Graph}
    readers["plan.toml"] = read_plan
    corpus = {name: (tmp_path / name).read_bytes() for name in readers}
    for number in range(200):
        name, content = fuzz.damaged(number, 0, corpus)
        (tmp_path / f"x-{name}").write_bytes(content)
        with suppress(sitta.SittaError):
            readers[name](tmp_path / f"x-{name}")


def test_any_damage_is_a_clear_error_or_none(tmp_path):
    whole = export(tmp_path / "whole.onnx").read_bytes()
    path, chance = tmp_path / "x.onnx", np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole[: chance.integers(len(whole) + 1)])
        for place in chance.integers(max(1, len(damaged)), size=4 if damaged else 0):
            damaged[place] = chance.integers(256)
        path.write_bytes(damaged)
        try:
            require_finite(path)
        except sitta.UnsupportedModel:
            continue


def test_what_sitta_writes_is_read(tmp_path):
    shutil.copy(export(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    require_finite(tmp_path / "b.onnx")
