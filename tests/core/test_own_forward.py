"""Subclasses of BatchNorm that call ``F.batch_norm`` in a forward of their own, as timm's do."""

import copy
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sitta
from tests import slow
from tests.nets import Net, assert_untouched, snapshot, trained

GRID = (1.0, 0.8, 0.5, 0.2, 0.0)


class NormAct(nn.BatchNorm2d):
    """Normalises, drops and activates in one layer; of the shape of timm's ``BatchNormAct2d``."""

    def __init__(self, channels, act=nn.SiLU, **settings):
        super().__init__(channels, **settings)
        self.drop, self.act = nn.Identity(), act(inplace=True)

    def forward(self, x):
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        kept = not self.training or self.track_running_stats
        x = F.batch_norm(
            x,
            self.running_mean if kept else None,
            self.running_var if kept else None,
            self.weight,
            self.bias,
            use_batch,
            self.momentum or 0.0,
            self.eps,
        )
        return self.act(self.drop(x))


class ByName(NormAct):
    """The same call with every argument by its name."""

    def forward(self, x):
        how = {"training": self.training, "momentum": self.momentum, "eps": self.eps}
        how |= {"weight": self.weight, "bias": self.bias}
        y = F.batch_norm(
            input=x, running_var=self.running_var, running_mean=self.running_mean, **how
        )
        return self.act(self.drop(y))


@pytest.fixture(params=[NormAct, ByName])
def case(request):
    torch.manual_seed(0)
    net = trained(Net(norm=request.param), (1, 12, 12))
    return net, torch.rand(3, 1, 12, 12) ** 2 * 1.7


def plain(net):
    """The same network of layers that Sitta has always known."""

    class Pair(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.norm = nn.BatchNorm2d(layer.num_features, eps=layer.eps, affine=layer.affine)
            self.norm.load_state_dict(layer.state_dict())
            self.act = copy.deepcopy(layer.act)

        def forward(self, x):
            return self.act(self.norm(x))

    other = copy.deepcopy(net)
    for parent in list(other.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, NormAct):
                setattr(parent, name, Pair(child))
    return other.eval()


@pytest.mark.parametrize(
    ("accelerate", "variance"), [(True, "biased"), (False, "biased"), (True, "unbiased")]
)
def test_members_are_mixed_as_by_hand(case, accelerate, variance):
    net, images = case
    net, images = net.double(), images.double()
    before = snapshot(net)
    p = sitta.InTEnt(net, lambdas=GRID, accelerate=accelerate, variance=variance)(images)
    assert_untouched(net, before)
    for n, image in enumerate(images):
        expected = slow.member_logits(net, image, GRID, variance).sigmoid()
        torch.testing.assert_close(p.members[:, n], expected, rtol=0, atol=1e-11)
    with torch.no_grad():
        torch.testing.assert_close(p.members[0], net(images).sigmoid(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["tent", "sar", "fseg", "memo", "sita", "intent"])
def test_every_method_is_as_on_plain_layers(case, name):
    net, images = case
    more = {
        "tent": {"steps": 2, "rate": 0.05},
        "sar": {"margin": 1.0, "steps": 2, "rate": 0.05},
        "fseg": {"steps": 2, "rate": 0.05},
        "memo": {"steps": 2, "rate": 0.05},
        "intent": {"strategy": "sharpness"},
    }.get(name, {})
    one, other = (sitta.method(name, m, **more)(images[:2]) for m in (net, plain(net)))
    torch.testing.assert_close(one.probability, other.probability, rtol=0, atol=2e-5)


def test_autocast(case):
    net, images = case
    with torch.autocast("cpu", dtype=torch.bfloat16):
        one, other = sitta.InTEnt(net)(images), sitta.InTEnt(plain(net))(images)
    torch.testing.assert_close(one.members, other.members, rtol=0, atol=2e-2)
    assert one.probability.dtype == torch.float32


def test_threads_do_not_see_each_other(case):
    net, images = case
    adapt = sitta.InTEnt(net)
    alone, found = [adapt(x) for x in images], {}

    def work(n):
        for _ in range(5):
            found[n] = adapt(images[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    with torch.no_grad():
        truth = net(images)
        for t in threads:
            t.start()
        for _ in range(20):
            assert torch.equal(net(images), truth)  # the user's own layers, meanwhile
        for t in threads:
            t.join()
    for n in range(3):
        assert torch.equal(found[n].probability, alone[n].probability)


def test_after_an_exception_nothing_is_routed(case):
    net, images = case

    class Fails(NormAct):
        def forward(self, x):
            super().forward(x)
            raise ValueError("later")

    torch.manual_seed(0)
    broken = nn.Sequential(nn.Conv2d(1, 4, 3), Fails(4), nn.Conv2d(4, 1, 1)).eval()
    with pytest.raises(ValueError, match="later"):
        sitta.InTEnt(broken)(images)
    assert not torch.overrides._get_current_function_mode_stack()
    with torch.no_grad():
        torch.testing.assert_close(sitta.Source(net)(images).probability, net(images).sigmoid())


def call(**changed):
    class Other(NormAct):
        def forward(self, x):
            how = {"weight": self.weight, "bias": self.bias, "eps": self.eps}
            statistics = self.running_mean, self.running_var
            how |= {key: change(self) for key, change in changed.items()}
            statistics = how.pop("statistics", statistics)
            return F.batch_norm(x, *statistics, **how)

    return Other


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": lambda m: m.weight.abs()},
        {"bias": lambda m: None},
        {"eps": lambda m: 1e-2},
        {"training": lambda m: True},
        {"statistics": lambda m: (m.running_mean * 1.0, m.running_var)},
    ],
)
def test_a_call_on_other_tensors_is_refused(changed):
    torch.manual_seed(0)
    net = trained(nn.Sequential(nn.Conv2d(1, 4, 3), call(**changed)(4)), (1, 8, 8))
    with pytest.raises(sitta.UnsupportedModel, match=r"Layer '1' \(Other\).*F.batch_norm with the"):
        sitta.InTEnt(net)(torch.rand(1, 8, 8))


def test_another_layers_call_is_left_alone():
    class Outer(NormAct):
        """Its own call is mixed, that on another layer's tensors is not."""

        def __init__(self, channels):
            super().__init__(channels)
            self.others = nn.ParameterList([torch.zeros(channels), torch.full((channels,), 2.0)])

        def forward(self, x):
            return F.batch_norm(super().forward(x), *self.others)

    torch.manual_seed(0)
    net = trained(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), Outer(4)), (1, 8, 8))
    image = torch.rand(1, 8, 8)
    p = sitta.InTEnt(net, lambdas=GRID, activation="sigmoid")(image)
    expected = slow.member_logits(net, image, GRID).sigmoid()
    torch.testing.assert_close(p.members, expected, rtol=0, atol=1e-6)


def test_without_running_statistics_each_image_stays_by_itself():
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 4, 3), NormAct(4, track_running_stats=False), nn.BatchNorm2d(4)
    net, images = nn.Sequential(*layers, nn.Conv2d(4, 1, 1)).eval(), torch.rand(3, 1, 8, 8)
    p = sitta.InTEnt(net)(images)
    with torch.no_grad():
        for n in range(3):
            alone = net(images[n : n + 1])[0].sigmoid()
            torch.testing.assert_close(p.members[0, n], alone)


def test_it_is_exported(case, tmp_path):
    pytest.importorskip("onnxruntime")
    from sitta.inference.backends.onnx import Graph

    net, images = case
    done = sitta.export_onnx(net, tmp_path / "net.onnx", lambdas=GRID)
    members = Graph(done.path, threads=1)(images.numpy()).members
    expected = sitta.InTEnt(net, lambdas=GRID)(images).members
    torch.testing.assert_close(torch.from_numpy(members), expected, rtol=0, atol=1e-4)
