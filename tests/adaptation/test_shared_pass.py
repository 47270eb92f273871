"""Methods that share their members give what each gives alone."""

import pytest
import torch

import sitta
from sitta.adaptation.shared_pass import run_shared, shares
from sitta.core.integration import STRATEGIES

PLAIN = [name for name, s in STRATEGIES.items() if not s.needs_own_passes]


@pytest.fixture
def model():
    net = sitta.models.UNet(channels=8, multipliers=(1, 2)).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


@pytest.mark.parametrize("at_once", [None, 2])
@pytest.mark.parametrize("variance", ["biased", "unbiased"])
def test_each_gives_what_it_gives_alone(model, variance, at_once):
    asked = [sitta.Source(model, lam=lam, variance=variance) for lam in (1.0, 0.3, 0.0)]
    asked += [sitta.InTEnt(model, strategy=name, variance=variance) for name in PLAIN]
    asked += [sitta.InTEnt(model, step=0.5, variance=variance)]
    images = torch.rand(3, 1, 24, 24)
    for method, shared in zip(
        asked, run_shared(asked, images, members_at_once=at_once), strict=True
    ):
        alone = method(images)
        assert torch.equal(shared.lambdas, alone.lambdas)
        for name in ("probability", "members", "entropies", "weights", "distance"):
            mine, theirs = getattr(shared, name), getattr(alone, name)
            torch.testing.assert_close(mine, theirs, atol=2e-6, rtol=1e-5, equal_nan=True)
        assert shared.notes == alone.notes
        assert (shared.source_mask is None) == (alone.source_mask is None)


def test_one_image_comes_back_as_one(model):
    (p,) = run_shared([sitta.InTEnt(model)], torch.rand(1, 16, 16))
    assert p.mask.shape == (16, 16)


def test_it_is_one_pass(model):
    passes = []
    model.register_forward_pre_hook(lambda _m, args: passes.append(len(args[0])))
    run_shared([sitta.Source(model, lam=0.5), sitta.InTEnt(model)], torch.rand(2, 1, 16, 16))
    assert passes in ([], [7 * 2])  # hooks of the user's model may not be the twin's


@pytest.mark.parametrize(
    "settings", [{"strategy": "sharpness"}, {"statistics": "in-layer"}, {"variance": "unbiased"}]
)
def test_what_does_not_share_is_refused(model, settings):
    other = sitta.InTEnt(model, **settings)
    assert shares(other) == ("variance" in settings)
    with pytest.raises(sitta.InvalidSetting, match="share"):
        run_shared([sitta.InTEnt(model), other], torch.rand(1, 16, 16))
    with pytest.raises(sitta.InvalidSetting, match="share"):
        run_shared([], torch.rand(1, 16, 16))
    assert not shares(sitta.Tent(model))
