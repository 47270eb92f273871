"""MONAI: geometry that is kept, the inferer, and a bundle that MONAI itself runs."""

import importlib.util
import os
import subprocess
import sys

import nibabel
import numpy as np
import pytest
import torch
from monai.data import MetaTensor, decollate_batch, list_data_collate
from monai.inferers import sliding_window_inference
from monai.transforms import Compose, EnsureChannelFirstd, Invertd, LoadImaged, Orientationd

import sitta
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.integrations.monai import SittaInferer, write_bundle
from sitta.models import UNet, checkpoint
from tests.nets import case

pytestmark = pytest.mark.filterwarnings("ignore:NvImgCodec")  # a decoder that MONAI looks for
AFFINE = np.array([[-1.5, 0, 0, 40], [0, 0, 2.0, -7], [0, 1.2, 0, 3], [0, 0, 0, 1.0]])


def scan(path, shape=(12, 10, 14), affine=AFFINE):
    values = np.random.default_rng(0).random(shape).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(values, affine), path)
    return path


def loaded(path, *more):
    keys = {"keys": "image"}
    first = [LoadImaged(reader="NibabelReader", **keys), EnsureChannelFirstd(**keys)]
    return Compose([*first, *more])({"image": path})


def plain(tensor):
    return tensor.as_tensor() if isinstance(tensor, MetaTensor) else tensor


class TestGeometry:
    def test_maps_and_masks_carry_the_affine_that_nibabel_reads(self, tmp_path):
        net, _ = case(dims=3)
        path = scan(tmp_path / "scan.nii.gz")
        image = loaded(path)["image"]
        p = sitta.InTEnt(net)(image)
        expected = nibabel.load(path).affine
        for values in (p.image, p.probability, p.mask, p.uncertainty, p.disagreement, p.members):
            assert isinstance(values, MetaTensor)
            np.testing.assert_allclose(values.affine.numpy(), expected)
        np.testing.assert_allclose(p.source_mask.affine.numpy(), expected)
        np.testing.assert_allclose(p.members[2].affine.numpy(), expected)
        assert p.probability.meta["filename_or_obj"] == image.meta["filename_or_obj"]

    def test_nothing_else_changes(self, tmp_path):
        net, _ = case(dims=3)
        image = loaded(scan(tmp_path / "scan.nii.gz"))["image"]
        with_affine, without = (sitta.InTEnt(net)(x) for x in (image, image.as_tensor()))
        assert type(without.probability) is type(without.mask) is torch.Tensor
        for name in ("weights", "entropies", "agreement", "change", "area", "areas", "distance"):
            assert type(getattr(with_affine, name)) is torch.Tensor
            assert torch.equal(getattr(with_affine, name), getattr(without, name))
        for name in ("probability", "mask", "members", "member_masks", "uncertainty"):
            assert torch.equal(plain(getattr(with_affine, name)), getattr(without, name))
        assert with_affine.summary() == without.summary()
        assert all(isinstance(v, np.ndarray) for v in (with_affine.record.mask,))

    def test_each_image_of_a_batch_keeps_its_own(self, tmp_path):
        net, _ = case(dims=3)
        other = AFFINE @ np.diag([1, 1, 1.5, 1])
        images = [
            loaded(scan(tmp_path / "a.nii.gz"))["image"],
            loaded(scan(tmp_path / "b.nii.gz", affine=other))["image"],
        ]
        for batch in (list_data_collate(images), images):
            p = sitta.InTEnt(net)(batch)
            for n, affine in enumerate((AFFINE, other)):
                np.testing.assert_allclose(p[n].mask.affine.numpy(), affine)
                np.testing.assert_allclose(p[n].members.affine.numpy(), affine)
                one = decollate_batch(p.probability)[n]
                np.testing.assert_allclose(one.affine.numpy(), affine)
            assert type(p.members) is torch.Tensor
            np.testing.assert_allclose(p[1:][0].mask.affine.numpy(), other)

    def test_windows_and_shared_passes_keep_it_too(self, tmp_path):
        from sitta.adaptation.shared_pass import run_shared
        from sitta.adaptation.sliding_window import windowed

        net, _ = case(dims=3)
        image = loaded(scan(tmp_path / "scan.nii.gz"))["image"]
        predictions = [
            windowed(sitta.InTEnt(net), (8, 8, 8))(image),
            *run_shared([sitta.Source(net), sitta.InTEnt(net)], image),
        ]
        for p in predictions:
            np.testing.assert_allclose(p.mask.affine.numpy(), AFFINE)


class TestInferer:
    @pytest.mark.parametrize("outputs", [1, 3])
    def test_activations_after_it_give_the_integrated_map(self, outputs):
        net, images = case(outputs=outputs)
        expected = sitta.InTEnt(net)(images).probability
        logits = SittaInferer()(images, net)
        seen = logits.sigmoid() if outputs == 1 else logits.softmax(dim=1)
        torch.testing.assert_close(seen, expected, rtol=0, atol=1e-6)
        whole = SittaInferer(returns="probability")(images, net)
        assert torch.equal(whole, expected)

    def test_the_source_gives_the_networks_own_logits(self):
        net, images = case()
        torch.testing.assert_close(SittaInferer("source")(images, net), net(images))

    @pytest.mark.parametrize("statistics", ["volume", "window"])
    def test_windows(self, statistics):
        net, _ = case(dims=3)
        image = torch.rand(1, 1, 10, 12, 9)
        inferer = SittaInferer("source", roi_size=(6, 6, 6), overlap=0.5, statistics=statistics)
        expected = sliding_window_inference(image, (6, 6, 6), 1, net, overlap=0.5, mode="gaussian")
        torch.testing.assert_close(inferer(image, net), expected, rtol=1e-4, atol=1e-5)

    def test_any_method_goes_window_by_window(self):
        net, _ = case()
        image = torch.rand(1, 1, 20, 12)
        inferer = SittaInferer("tent", roi_size=(12, -1), statistics="window", overlap=0)
        # Without overlap, the first window counts alone where the second does not reach.
        first = sitta.Tent(net)(image[..., :8, :].contiguous())
        assert inferer(image, net).shape == image.shape
        assert inferer.prediction is None
        expected = sitta.Tent(net)(image[..., :12, :]).probability[..., :8, :]
        assert not torch.allclose(first.probability, expected)  # the window matters
        torch.testing.assert_close(inferer(image, net).sigmoid()[..., :8, :], expected)

    def test_what_cannot_be_is_said(self):
        net, images = case()
        with pytest.raises(InvalidSetting, match="statistics='window'"):
            SittaInferer("tent", roi_size=(6, 6))(images, net)
        with pytest.raises(UnsupportedModel, match="not a torch"):
            SittaInferer()(images, lambda x: x)
        with pytest.raises(InvalidSetting, match="probability"):
            SittaInferer(returns="mask")
        with pytest.raises(InvalidSetting, match="strategy"):
            SittaInferer(stratgy="average")

    @pytest.mark.parametrize("method", sitta.methods())
    def test_every_method_serves(self, method):
        net, images = case()
        settings = {"sar": {"margin": 1.0}, "memo": {"views": 2}, "sita": {"views": 2}}
        inferer = SittaInferer(method, **settings.get(method, {}))
        expected = sitta.method(method, net, **settings.get(method, {}))(images).probability
        torch.testing.assert_close(inferer(images, net).sigmoid(), expected, rtol=0, atol=1e-5)
        parts = SittaInferer(method, (6, 6), statistics="window", **settings.get(method, {}))
        assert parts(images, net).shape == expected.shape

    @pytest.mark.parametrize("statistics", ["volume", "window"])
    def test_adapt_goes_over_windows_as_it_does_elsewhere(self, statistics):
        from sitta.adaptation.sliding_window import windowed

        net, _ = case(dims=3)
        image = torch.rand(1, 1, 10, 12, 9)
        how = {"statistics": statistics, "overlap": 0.5}
        inferer = SittaInferer("adapt", roi_size=(6, 6, 6), **how)
        expected = windowed(sitta.Adapt(net), (6, 6, 6), **how)(image).probability
        torch.testing.assert_close(inferer(image, net).sigmoid(), expected, rtol=0, atol=1e-5)
        assert len(inferer.prediction.lambdas) == 7

    def test_more_arguments_go_to_the_network(self):
        class Scaled(torch.nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, x, times=1.0, *, shift=0.0):
                return times * self.net(x) + shift

        net, images = case()
        scaled = Scaled(net).train()
        seen = SittaInferer("source", returns="logits")(images, scaled, 2.0, shift=0.5)
        torch.testing.assert_close(seen, 2 * net.eval()(images) + 0.5)
        assert scaled.training
        mixed = SittaInferer()(images, scaled, 0.5).sigmoid()
        assert not torch.allclose(mixed, SittaInferer()(images, scaled).sigmoid(), atol=1e-3)

    def test_measured_statistics_can_be_given(self):
        from tests.adaptation.test_adapt_calibrated import calibration
        from tests.core.test_calibrated_statistics import made

        net, images, domain = made("instance 3d")
        held = calibration(net, domain)
        seen = SittaInferer("adapt", calibration=held)(images, net).sigmoid()
        expected = sitta.Adapt(net, calibration=held)(images).probability
        torch.testing.assert_close(seen, expected, rtol=0, atol=1e-5)

    def test_scores_are_there_after_a_call_and_another_network_is_taken(self):
        inferer = SittaInferer()
        for seed in (0, 1):
            net, images = case(seed=seed)
            inferer(images, net)
            assert torch.equal(inferer.prediction.weights, sitta.InTEnt(net)(images).weights)

    def test_inversion_gives_native_geometry(self, tmp_path):
        net, _ = case(dims=3)
        path = scan(tmp_path / "scan.nii.gz")
        turned = Compose([Orientationd(keys="image", axcodes="RAS", labels=None)])
        item = turned(loaded(path))
        pred = SittaInferer("source", returns="probability")(item["image"][None], net)[0]
        item = {**item, "pred": pred}
        back = Invertd(keys="pred", transform=turned, orig_keys="image")(item)["pred"]
        np.testing.assert_allclose(back.affine.numpy(), nibabel.load(path).affine)
        # Axes 1 and 2 of the file change places and axis 0 is turned, as its affine says.
        native = np.asarray(nibabel.load(path).dataobj)
        seen = torch.from_numpy(np.ascontiguousarray(native[::-1].transpose(0, 2, 1)))[None, None]
        expected = net(seen).sigmoid()[0, 0].detach().numpy().transpose(0, 2, 1)[::-1]
        np.testing.assert_allclose(back[0].numpy(), expected, atol=1e-6)


class TestBundle:
    @pytest.fixture
    def bundle(self, tmp_path):
        torch.manual_seed(0)
        net = UNet(channels=4, multipliers=(1, 2), dims=3)
        net.head[-1].weight.data.normal_(std=0.3)
        (tmp_path / "models").mkdir()
        (tmp_path / "images").mkdir()
        checkpoint.save(net, tmp_path / "models" / "model.safetensors", {"source": "phantom/alder"})
        image = sitta.data.phantom.draw("cedar", size=(16, 18, 20))[0][0].numpy()
        nibabel.save(nibabel.Nifti1Image(image, AFFINE), tmp_path / "images" / "scan.nii.gz")
        write_bundle(tmp_path)
        return tmp_path

    def check(self, folder):
        image = nibabel.load(folder / "images" / "scan.nii.gz")
        mask = nibabel.load(folder / "masks" / "scan_mask.nii.gz")
        np.testing.assert_allclose(mask.affine, image.affine)
        assert mask.shape == image.shape
        values = np.asarray(mask.dataobj)
        assert mask.get_data_dtype() == np.uint8
        assert set(np.unique(values)) == {0, 1}

    @pytest.mark.filterwarnings("ignore")  # of MONAI itself
    def test_monai_runs_it(self, bundle, monkeypatch):
        from monai.bundle import run

        configs = bundle / "configs"
        run(
            bundle_root=str(bundle),
            config_file=str(configs / "inference.json"),
            meta_file=str(configs / "metadata.json"),
        )
        self.check(bundle)

    @pytest.mark.skipif(
        importlib.util.find_spec("fire") is None, reason="python -m monai.bundle needs fire"
    )
    def test_the_command_runs_it(self, bundle):
        paths = ["--config_file", "configs/inference.json", "--meta_file", "configs/metadata.json"]
        command = [sys.executable, "-m", "monai.bundle", "run", *paths, "--bundle_root", "."]
        done = subprocess.run(command, cwd=bundle, env=os.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        self.check(bundle)

    def test_nothing_is_replaced_and_changes_are_taken(self, tmp_path):
        configs = write_bundle(tmp_path, dataset_dir="/scans")
        assert '"dataset_dir": "/scans"' in (configs / "inference.json").read_text()
        with pytest.raises(InvalidSetting, match="already"):
            write_bundle(tmp_path)
        with pytest.raises(InvalidSetting, match="no entry datasetdir"):
            write_bundle(tmp_path / "other", datasetdir="/scans")
