"""Every method through the common contract, and the registry."""

import pytest
import torch

import sitta
from sitta.core.integration import STRATEGIES
from tests.contract import MethodContract, assert_same
from tests.nets import case


class TestSource(MethodContract):
    name = "source"


class TestSourceHalfway(MethodContract):
    name = "source"
    settings = {"lam": 0.5}  # noqa: RUF012


class TestSourceInLayer(MethodContract):
    name = "source"
    settings = {"lam": 0.3, "statistics": "in-layer", "variance": "unbiased"}  # noqa: RUF012


class TestInTEnt(MethodContract):
    name = "intent"


class TestInTEntUnbiasedInParts(MethodContract):
    name = "intent"
    settings = {"variance": "unbiased", "members_at_once": 2}  # noqa: RUF012


class TestInTEntSharpness(MethodContract):
    name = "intent"
    settings = {"strategy": "sharpness", "step": 0.5}  # noqa: RUF012


class TestTent(MethodContract):
    name = "tent"
    settings = {"steps": 2, "lam": 0.5}  # noqa: RUF012


class TestSAR(MethodContract):
    name = "sar"
    settings = {"margin": 0.9, "rate": 0.1}  # noqa: RUF012


class TestFSeg(MethodContract):
    name = "fseg"


class TestSITA(MethodContract):
    name = "sita"
    settings = {"views": 3}  # noqa: RUF012


class TestSITAByVote(MethodContract):
    name = "sita"
    settings = {"views": 3, "op": "vote", "step": 0.5}  # noqa: RUF012


class TestMEMO(MethodContract):
    name = "memo"
    settings = {"views": 3, "rate": 0.05}  # noqa: RUF012


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("statistics", ["captured", "in-layer"])
@pytest.mark.parametrize("variance", ["biased", "unbiased"])
def test_every_combination_runs(strategy, statistics, variance):
    net, images = case()
    settings = {"strategy": strategy, "statistics": statistics, "variance": variance}
    p = sitta.InTEnt(net, **settings)(images)
    torch.testing.assert_close(p.weights.sum(0), torch.ones(len(images)))


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5, 6, 7, 50])
@pytest.mark.parametrize("variance", ["biased", "unbiased"])
@pytest.mark.parametrize("statistics", ["captured", "in-layer"])
def test_members_at_once_does_not_matter(at_once, variance, statistics):
    net, images = case()
    settings = {"variance": variance, "statistics": statistics}
    whole = sitta.InTEnt(net, **settings)(images)
    parts = sitta.InTEnt(net, **settings, members_at_once=at_once)(images)
    torch.testing.assert_close(parts.members, whole.members, rtol=0, atol=1e-6)
    torch.testing.assert_close(parts.probability, whole.probability, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "lambdas", [[0.5], [0.0], [1.0], [0.0, 1.0], [0.3, 0.9, 0.0, 0.6], [0.2] * 3]
)
@pytest.mark.parametrize("variance", ["biased", "unbiased"])
def test_lambdas_in_any_order_and_number(lambdas, variance):
    net, images = case()
    p = sitta.InTEnt(net, lambdas=lambdas, variance=variance)(images)
    assert p.lambdas.tolist() == pytest.approx(lambdas)
    for k, lam in enumerate(lambdas):
        alone = sitta.Source(net, lam, variance=variance)(images)
        torch.testing.assert_close(p.members[k], alone.probability, rtol=0, atol=1e-6)


def test_in_layer_and_captured_coincide_at_the_ends_only():
    net, images = case()
    for lam, same in ((0.0, True), (0.5, False), (1.0, True)):
        a = sitta.Source(net, lam)(images).probability
        b = sitta.Source(net, lam, statistics="in-layer")(images).probability
        assert torch.allclose(a, b, atol=1e-6) == same


def test_registry():
    assert list(sitta.methods()) == [
        "source",
        "adapt",
        "intent",
        "tent",
        "sar",
        "fseg",
        "sita",
        "memo",
    ]
    net, images = case()
    for name, kind in sitta.methods().items():
        assert kind.name == name
        assert kind.description
        assert kind.citation
        one = sitta.method(name, net)
        assert type(one) is kind
        assert_same(one(images), kind(net)(images), 0)


def test_registry_refuses_what_it_does_not_know():
    net, _ = case()
    with pytest.raises(sitta.InvalidSetting, match=r"no such method.*source, adapt, intent, tent"):
        sitta.method("tempt", net)
    with pytest.raises(sitta.InvalidSetting, match=r"no setting 'lambda'.*lam"):
        sitta.method("source", net, **{"lambda": 1})
    with pytest.raises(TypeError):
        sitta.methods()["mine"] = object


def test_real_images(real_data):
    from PIL import Image

    files = sorted((real_data / "chest" / "mcu" / "images").iterdir())[:3]
    adapt = sitta.InTEnt(sitta.load("phantom-alder"))
    for file in files:
        with Image.open(file) as picture:
            grey = picture.convert("F").resize((128, 128))
        image = torch.frombuffer(bytearray(grey.tobytes()), dtype=torch.float32).view(1, 128, 128)
        p = adapt(image / 255)
        assert p.probability.isfinite().all()
        assert float(p.weights.sum()) == pytest.approx(1)
