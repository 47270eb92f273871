"""The twin: what it shares, what it refuses, and what models may return."""

import threading

import pytest
import torch
from torch import nn

import sitta
from sitta.core.norm import StatisticsMixer
from sitta.core.twin import Twins, twin
from tests.nets import NORM, assert_untouched, case, snapshot


def test_wrappers():
    net, images = case()
    expected = sitta.InTEnt(net)(images).probability
    wrapped = nn.DataParallel(net)
    before = snapshot(wrapped)
    assert torch.equal(sitta.InTEnt(wrapped)(images).probability, expected)
    assert_untouched(wrapped, before)
    inside = nn.Sequential(nn.Identity(), nn.DataParallel(net))
    other, _ = twin(inside, StatisticsMixer())
    assert not any(isinstance(m, nn.DataParallel) for m in other.modules())
    assert torch.equal(sitta.InTEnt(inside)(images).probability, expected)
    compiled = torch.compile(net, backend="eager")
    assert torch.equal(sitta.InTEnt(compiled)(images).probability, expected)
    assert sitta.inspect(wrapped).census.model == "Net"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_is_refused():
    net, _ = case()
    with pytest.raises(sitta.UnsupportedModel, match="TorchScript"):
        twin(torch.jit.script(net), StatisticsMixer())


def test_the_twin_copies_no_weights():
    net, _ = case()
    other, _ = twin(net, StatisticsMixer())
    assert {id(p) for p in other.parameters()} == {id(p) for p in net.parameters()}
    shared = dict(other.named_buffers())
    for name, buffer in net.named_buffers():
        assert "running" not in name or shared[name] is buffer


def test_later_changes_of_the_model_are_seen():
    net, images = case()
    adapt = sitta.InTEnt(net)
    before = adapt(images).probability
    with torch.no_grad():
        net.head.weight.mul_(2)
    assert torch.equal(adapt(images).probability, sitta.InTEnt(net)(images).probability)
    assert not torch.equal(adapt(images).probability, before)
    net.double()  # gives the model new buffers
    assert adapt(images).probability.dtype == torch.float64


def test_a_model_that_counts_its_calls_starts_over_each_time():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.norm(x) * self.calls

    net = Counting().eval()
    for model in (net, nn.DataParallel(net), nn.Sequential(nn.Identity(), nn.DataParallel(net))):
        adapt, image = sitta.InTEnt(model), torch.rand(1, 6, 6)
        first, second = adapt(image), adapt(image)
        assert torch.equal(first.probability, second.probability)
        assert net.calls == 0


def test_a_model_that_cannot_be_copied_is_refused():
    net, _ = case()
    net.lock = threading.Lock()
    with pytest.raises(sitta.UnsupportedModel, match="cannot be copied"):
        sitta.InTEnt(net)


def test_a_computed_tensor_among_the_attributes_is_no_obstacle():
    net, images = case()
    net.last = net(images)  # has a graph, which deepcopy refuses
    before = net.last.detach().clone()
    sitta.InTEnt(net)(images)
    assert torch.equal(net.last, before)


class Branching(nn.Module):
    """Its path depends on the values that it sees."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.BatchNorm2d(1), nn.BatchNorm2d(1)
        self.first.running_mean.fill_(-5)

    def forward(self, x):
        h = self.first(x)
        return self.second(h) if h.mean() > 1 else h


def test_a_path_that_depends_on_values_is_refused():
    with pytest.raises(sitta.UnsupportedModel, match="depends on the values"):
        sitta.InTEnt(Branching().eval(), members_at_once=1)(torch.rand(1, 6, 6))


def test_twins_are_lent_to_one_at_a_time():
    net, _ = case()
    twins = Twins(net)
    with twins.borrow() as one, twins.borrow() as other:
        assert one is not other
    with twins.borrow() as again:
        assert again in (one, other)


class Outputs(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form, self.norm, self.conv = form, NORM[2](1), nn.Conv2d(1, 2, 1)

    def forward(self, x):
        z = self.conv(self.norm(x))
        return self.form(z)


@pytest.mark.parametrize(
    ("form", "output"),
    [
        (lambda z: {"out": z, "aux": z * 0}, "out"),
        (lambda z: (z * 0, z), 1),
        (lambda z: [z, z * 0], 0),
        (lambda z: {"deep": [z]}, lambda raw: raw["deep"][0]),
        (lambda z: z, None),
    ],
)
def test_outputs(form, output):
    net = Outputs(form).eval()
    image = torch.rand(1, 5, 5)
    p = sitta.InTEnt(net, output=output)(image)
    expected = net.conv(net.norm(image[None])).softmax(1)[0].detach()
    torch.testing.assert_close(p.members[0], expected)


@pytest.mark.parametrize(
    ("form", "output", "message"),
    [
        (lambda z: {"out": z}, None, r"dict with the keys 'out'.*output="),
        (lambda z: {"out": z}, "logits", r"output='logits' is not in.*'out'"),
        (lambda z: (z, z), 2, r"tuple of 2, to be indexed from 0 to 1"),
        (lambda z: z.mean((2, 3)), None, r"not a map of logits"),
        (lambda z: z.mean(0, keepdim=True)[:, :, 0], "x", r"no output 'x' to choose"),
        (lambda z: z.argmax(1, keepdim=True), None, r"not a map of logits.*int64"),
        (lambda z: "text", None, r"str"),
    ],
)
def test_outputs_that_are_not_logits(form, output, message):
    with pytest.raises(sitta.SittaError, match=message):
        sitta.InTEnt(Outputs(form).eval(), output=output)(torch.rand(1, 5, 5))


def test_a_function_that_leads_back_to_the_model_is_refused():
    net, images = case()
    outer = nn.Module()
    outer.net = net
    outer.forward = lambda x: outer.net(x)
    before = snapshot(outer.train())
    with pytest.raises(sitta.UnsupportedModel, match="'forward' of module '' is a function"):
        sitta.InTEnt(outer)
    assert_untouched(outer, before)
    net.activation = torch.relu  # a function that refers to no module is welcome
    sitta.InTEnt(net)(images)


def test_a_model_that_uses_none_of_its_norms_is_refused():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)

        def forward(self, x):
            return self.conv(x)

    with pytest.raises(sitta.UnsupportedModel, match="uses none of the model's BatchNorm"):
        sitta.InTEnt(Idle())(torch.rand(1, 6, 6))
    assert sitta.Source(Idle())(torch.rand(1, 6, 6)).probability.isfinite().all()
