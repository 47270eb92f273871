"""Train small real nnU-Nets on phantoms: 2D and 3D, BatchNorm and InstanceNorm.

    python scripts/train_nnunet.py --out nnunets --dims 3 --norm batch --epochs 6

nnU-Net itself plans, preprocesses and trains; two things differ from its defaults: the network is
small, and ``norm_op`` in its plan is what ``--norm`` says. The folder of the trained model is
printed; `sitta predict nnunet:FOLDER` takes it. Give each network an ``--out`` of its own; a second
run in it keeps plan and preprocessed data. Needs nnunetv2: docs/how-to/nnunet.md.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch

from sitta.data import phantom

NORMS = {"batch": "batchnorm.BatchNorm", "instance": "instancenorm.InstanceNorm"}
SIZE = {2: (64, 64), 3: (24, 40, 40)}
NUMBER, NAME, SEED = 990, "Phantom", 5


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dims", type=int, choices=(2, 3), default=3)
    parser.add_argument("--norm", choices=tuple(NORMS), default="batch")
    parser.add_argument("--site", choices=tuple(phantom.SITES), default="alder")
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20, help="of an epoch")
    return parser.parse_args()


def write_dataset(raw: Path, given: argparse.Namespace) -> Path:
    """Phantom scenes with nnU-Net's names; a 2D image is a volume of one slice, as nnU-Net asks."""
    import SimpleITK

    folder = raw / f"Dataset{NUMBER}_{NAME}"
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for n in range(given.images):
        image, mask = phantom.draw(given.site, n, SIZE[given.dims], seed=SEED)
        values, labels = image[0].numpy(), mask.numpy().astype("uint8")
        if given.dims == 2:
            values, labels = values[None], labels[None]
        ending = f"scene{n:03d}"
        for where, array in ((f"imagesTr/{ending}_0000", values), (f"labelsTr/{ending}", labels)):
            picture = SimpleITK.GetImageFromArray(array)
            picture.SetSpacing((1.0, 1.0, 999.0 if given.dims == 2 else 1.0))
            SimpleITK.WriteImage(picture, str(folder / f"{where}.nii.gz"))
    about = {
        "channel_names": {"0": "MRI"},
        "labels": {"background": 0, "organ": 1},
        "numTraining": given.images,
        "file_ending": ".nii.gz",
        "overwrite_image_reader_writer": "SimpleITKIO",
    }
    (folder / "dataset.json").write_text(json.dumps(about))
    return folder


def smaller(plans: Path, configuration: str, given: argparse.Namespace) -> None:
    """A network of three stages with the wanted normalisation, in place of the planned one."""
    about = json.loads(plans.read_text())
    held = about["configurations"][configuration]
    dims, kwargs = given.dims, held["architecture"]["arch_kwargs"]
    kwargs |= {
        "n_stages": 3,
        "features_per_stage": [8, 16, 24],
        "kernel_sizes": [[3] * dims] * 3,
        "strides": [[1] * dims, [2] * dims, [2] * dims],
        "n_conv_per_stage": [1, 1, 1],
        "n_conv_per_stage_decoder": [1, 1],
        "norm_op": f"torch.nn.modules.{NORMS[given.norm]}{dims}d",
    }
    held |= {"patch_size": [32, 32] if dims == 2 else [16, 32, 32], "batch_size": 4}
    plans.write_text(json.dumps(about))


def train(given: argparse.Namespace) -> Path:
    """Plan, preprocess and train one fold, all by nnU-Net."""
    from nnunetv2.experiment_planning.plan_and_preprocess_api import (
        extract_fingerprints,
        plan_experiments,
        preprocess,
    )
    from nnunetv2.run.run_training import get_trainer_from_args

    configuration = "2d" if given.dims == 2 else "3d_fullres"
    plans = given.out / "preprocessed" / f"Dataset{NUMBER}_{NAME}" / "nnUNetPlans.json"
    if not plans.is_file():
        extract_fingerprints([NUMBER], num_processes=1)
        plan_experiments([NUMBER])
        smaller(plans, configuration, given)
        preprocess([NUMBER], configurations=(configuration,), num_processes=(1,))
    trainer = get_trainer_from_args(str(NUMBER), configuration, 0, device=torch.device("cpu"))
    os.environ |= {"nnUNet_n_proc_DA": "0"}  # none beside this one, where planning needs one
    trainer.num_epochs, trainer.num_iterations_per_epoch = given.epochs, given.steps
    trainer.num_val_iterations_per_epoch = 4
    trainer.run_training()
    return Path(trainer.output_folder_base)


def main() -> None:
    """Write phantoms, train, and say where the model is."""
    given = options()
    for name in ("raw", "preprocessed", "results"):
        os.environ[f"nnUNet_{name}"] = str(given.out / name)
    os.environ |= {"nnUNet_n_proc_DA": "1", "nnUNet_compile": "f"}
    write_dataset(given.out / "raw", given)
    print(train(given))


if __name__ == "__main__":
    main()
