"""What must hold for every method: each joins by subclassing, with nothing to write but a name."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import sitta
from tests.nets import assert_untouched, case, snapshot

FIGURES = ("probability", "members", "entropies", "weights", "uncertainty", "disagreement")


def assert_same(one, other, tolerance):
    """Two predictions agree in all their figures."""
    for name in FIGURES:
        a, b = getattr(one, name), getattr(other, name)
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")
    assert one.notes == other.notes


class MethodContract:
    """Subclass, name the method, and its settings if the defaults are not what to test."""

    name: str
    settings: dict = {}  # noqa: RUF012  (a constant of each subclass)
    tolerance = 1e-5

    def method(self, net, **more):
        return sitta.method(self.name, net, **{**self.settings, **more})

    @pytest.fixture(
        params=[(d, c, t) for d in (2, 3) for c in (1, 4) for t in (torch.float32, torch.float64)],
        ids=lambda p: f"{p[0]}D-{p[1]}ch-{str(p[2])[6:]}",
    )
    def setup(self, request):
        dims, outputs, dtype = request.param
        return case(dims, outputs, dtype)

    def test_shapes_and_ranges(self, setup):
        net, images = setup
        p = self.method(net)(images)
        k, (n, _, *space) = len(p.lambdas), images.shape
        channels = net.head.out_channels
        assert p.probability.shape == (n, channels, *space)
        assert p.members.shape == (k, n, channels, *space)
        assert p.mask.shape == p.uncertainty.shape == p.disagreement.shape == (n, *space)
        assert p.entropies.shape == p.weights.shape == (k, n)
        assert p.agreement.shape == (n,)
        assert len(p.notes) == len(p) == n
        assert p.probability.dtype == images.dtype
        torch.testing.assert_close(p.weights.sum(0), torch.ones(n, dtype=images.dtype))
        for name in FIGURES:
            assert getattr(p, name).isfinite().all(), name
        for name in ("probability", "members", "uncertainty", "disagreement"):
            assert getattr(p, name).min() >= 0, name
            assert getattr(p, name).max() <= 1 + 1e-6, name

    def test_model_is_untouched(self, setup):
        net, images = setup
        net.train()  # a mode that must survive, and must not matter
        net.deep[1].eval()
        net.head.weight.requires_grad_(False)
        net.enter[0].weight.grad = torch.ones_like(net.enter[0].weight)
        before = snapshot(net)
        self.method(net)(images)
        assert_untouched(net, before)

    def test_model_is_untouched_by_a_failure(self, setup):
        net, images = setup
        adapt = self.method(net)
        expected = adapt(images)

        def fail(*_):
            raise RuntimeError("in the middle")

        hook = net.leave[1].register_forward_hook(fail)  # deep inside, after other layers ran
        broken = self.method(net)
        before = snapshot(net)
        with pytest.raises(RuntimeError, match="in the middle"):
            broken(images)
        assert_untouched(net, before)
        hook.remove()
        assert_same(adapt(images), expected, 0)

    def test_mode_of_the_model_does_not_matter(self, setup):
        net, images = setup
        expected = self.method(net)(images)
        assert_same(self.method(net.train())(images), expected, 0)

    def test_deterministic(self, setup):
        net, images = setup
        adapt = self.method(net)
        assert_same(adapt(images), adapt(images), 0)

    def test_batch_equals_singles(self, setup):
        net, images = setup
        adapt = self.method(net)
        together = adapt(images)
        for n, image in enumerate(images):
            assert_same(together[n], adapt(image), self.tolerance)

    def test_order_does_not_matter(self, setup):
        net, images = setup
        adapt = self.method(net)
        straight, reverse = adapt(images), adapt(images.flip(0))
        for n in range(len(images)):
            assert_same(straight[n], reverse[len(images) - 1 - n], self.tolerance)

    def test_threads_equal_serial(self, setup):
        net, images = setup
        adapt = self.method(net)
        jobs = [images[i % len(images)] * (1 + i / 10) for i in range(16)]
        expected = [adapt(x) for x in jobs]
        before = snapshot(net)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(adapt, jobs))
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, self.tolerance)
        assert_untouched(net, before)

    def test_grad_mode_does_not_matter(self, setup):
        net, images = setup
        expected = self.method(net)(images)
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                found = self.method(net)(images)
            assert_same(found, expected, 0)
            assert not found.probability.requires_grad

    def test_unbatched_drops_the_axis(self, setup):
        net, images = setup
        p = self.method(net)(images[0])
        assert p.probability.shape == (net.head.out_channels, *images.shape[2:])
        assert p.mask.shape == images.shape[2:]
        assert p.weights.shape == p.lambdas.shape
        assert p.agreement.shape == ()
        assert all(isinstance(code, str) for code in p.notes)

    def test_odd_images_give_finite_results(self, setup):
        net, images = setup
        adapt = self.method(net)
        odd = {
            "constant": torch.full_like(images, 0.7),
            "zero": torch.zeros_like(images),
            "huge": images * 1e12,
            "negative": -images * 1e3,
        }
        for kind, given in odd.items():
            p = adapt(given)
            for name in FIGURES:
                assert getattr(p, name).isfinite().all(), (kind, name)
            torch.testing.assert_close(p.weights.sum(0), torch.ones_like(p.weights[0]), msg=kind)

    def test_a_copy_of_the_model_gives_the_same(self, setup):
        net, images = setup
        assert_same(self.method(copy.deepcopy(net))(images), self.method(net)(images), 0)
