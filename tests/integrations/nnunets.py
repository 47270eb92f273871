"""Folders as nnU-Net's training leaves them, with small networks of its own making."""

import contextlib
import io
import json

import nibabel
import numpy as np
import torch

AFFINE = np.array([[-1.2, 0, 0, 30], [0, 1.2, 0, -20], [0, 0, 2.0, 5], [0, 0, 0, 1.0]])
NORMS = {
    "batch": "torch.nn.modules.batchnorm.BatchNorm{}d",
    "instance": "torch.nn.modules.instancenorm.InstanceNorm{}d",
}
LABELS = {
    "softmax": {"background": 0, "organ": 1, "core": 2},
    "regions": {"background": 0, "whole": [1, 2], "core": [2]},
}


def architecture(dims, norm):
    """A two-stage U-Net in the terms of a plan."""
    name = f"torch.nn.modules.conv.Conv{dims}d"
    return {
        "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
        "arch_kwargs": {
            "n_stages": 2,
            "features_per_stage": [6, 8],
            "conv_op": name,
            "kernel_sizes": [[3] * dims] * 2,
            "strides": [[1] * dims, [2] * dims],
            "n_conv_per_stage": [1, 1],
            "n_conv_per_stage_decoder": [1],
            "conv_bias": True,
            "norm_op": NORMS[norm].format(dims),
            "norm_op_kwargs": {"eps": 1e-05, "affine": True},
            "dropout_op": None,
            "dropout_op_kwargs": None,
            "nonlin": "torch.nn.LeakyReLU",
            "nonlin_kwargs": {"inplace": True},
        },
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
    }


def plans(dims, norm, channels):
    """The plan of one configuration, without resampling in 2D and with it in 3D."""
    fine = {"is_seg": False, "order": 1, "order_z": 0, "force_separate_z": None}
    kit = "resample_data_or_seg_to_shape"
    patch = [12, 16, 16][-dims:]
    name = "2d" if dims == 2 else "3d_fullres"
    seen = {"mean": 0.4, "std": 0.3, "percentile_00_5": 0.0, "percentile_99_5": 1.0}
    seen |= {"min": 0.0, "max": 1.0, "median": 0.4}
    configuration = {
        "data_identifier": f"nnUNetPlans_{name}",
        "preprocessor_name": "DefaultPreprocessor",
        "batch_size": 2,
        "patch_size": patch,
        "median_image_size_in_voxels": [20.0, 24.0, 22.0][-dims:],
        "spacing": [1.6, 1.2, 1.2][-dims:],
        "normalization_schemes": ["ZScoreNormalization"] * channels,
        "use_mask_for_norm": [False] * channels,
        "resampling_fn_data": kit,
        "resampling_fn_seg": kit,
        "resampling_fn_data_kwargs": fine,
        "resampling_fn_seg_kwargs": {**fine, "is_seg": True},
        "resampling_fn_probabilities": kit,
        "resampling_fn_probabilities_kwargs": fine,
        "architecture": architecture(dims, norm),
        "batch_dice": False,
    }
    return {
        "dataset_name": "Dataset999_Phantom",
        "plans_name": "nnUNetPlans",
        "original_median_spacing_after_transp": [2.0, 1.2, 1.2],
        "original_median_shape_after_transp": [20, 24, 22],
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": [0, 1, 2],
        "transpose_backward": [0, 1, 2],
        "configurations": {name: configuration},
        "experiment_planner_used": "ExperimentPlanner",
        "label_manager": "LabelManager",
        "foreground_intensity_properties_per_channel": {str(c): seen for c in range(channels)},
    }


def folder(path, dims=3, norm="batch", heads="softmax", folds=(0,), mirror=None, channels=1):
    """A trained model; its statistics come from passes over noise, as its weights from chance."""
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
    from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

    axes = tuple(range(dims)) if mirror is None else mirror
    plan = plans(dims, norm, channels)
    about = {
        "channel_names": {str(c): f"MR{c}" for c in range(channels)},
        "labels": LABELS[heads],
        "numTraining": 4,
        "file_ending": ".nii.gz",
    }
    if heads == "regions":
        about["regions_class_order"] = [1, 2]
    path.mkdir(parents=True)
    (path / "plans.json").write_text(json.dumps(plan))
    (path / "dataset.json").write_text(json.dumps(about))
    manager = PlansManager(plan)
    (name,) = plan["configurations"]
    configuration = manager.get_configuration(name)
    outputs = manager.get_label_manager(about).num_segmentation_heads
    for fold in folds:
        torch.manual_seed(fold)
        with contextlib.redirect_stdout(io.StringIO()):
            net = nnUNetTrainer.build_network_architecture(
                manager, configuration, channels, outputs, enable_deep_supervision=False
            )
        _lived(net, channels, configuration.patch_size)
        (path / f"fold_{fold}").mkdir()
        kept = {
            "network_weights": net.state_dict(),
            "trainer_name": "nnUNetTrainer",
            "init_args": {"configuration": name},
            "inference_allowed_mirroring_axes": axes or None,
        }
        torch.save(kept, path / f"fold_{fold}" / "checkpoint_final.pth")
    return path


def _lived(net, channels, patch):
    net.train()
    with torch.no_grad():
        for n in range(8):
            net(torch.randn(2, channels, *patch) * (1 + 0.1 * n) + 0.3)
        for p in net.parameters():
            if p.dim() == 1:
                p += 0.4 * torch.randn_like(p)
            else:
                p *= 1.5


def cases(path, count=1, channels=1, shape=(18, 20, 9)):
    """Scans with nnU-Net's names."""
    path.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        chance = np.random.default_rng(n)
        smooth = [np.cumsum(chance.normal(size=shape), axis=a % 3) for a in range(channels)]
        for c, values in enumerate(smooth):
            image = nibabel.Nifti1Image(values.astype(np.float32), AFFINE)
            nibabel.save(image, path / f"scan{n}_{c:04d}.nii.gz")
    return path
