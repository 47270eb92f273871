"""Small files in exactly the form in which the owners of ten data sets give them.

Each function fills a folder and returns what ought to come of it: the masks by name and folder,
and the owners' image file, or its pixels where that file is converted.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
import tifffile
from PIL import Image as Pillow

FILM = 2048  # the only size that JSRT has
AFFINE = np.array([[-0.5, 0, 0, 20], [0, 0.5, 0, -30], [0, 0, 5.0, 40], [0, 0, 0, 1]])


@dataclass
class Sample:
    image: Path
    masks: dict[str, np.ndarray]
    pixels: np.ndarray | None = None


def chance(seed):
    return np.random.default_rng(seed)


def blob(seed, shape=(12, 16)):
    """A label that no flip, turn or shift leaves as it is."""
    found = chance(seed).random(shape) < 0.3
    found[0, 0], found[-1, -1] = True, False
    return found


def photograph(seed, shape=(12, 16)):
    return chance(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def save(pixels, path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(pixels).save(path, **options)
    return path


def white(label):
    return label.astype(np.uint8) * 255


def montgomery(root):
    found = {}
    for seed, name in enumerate(["MCUCXR_0001_0", "MCUCXR_0104_1"]):
        film = chance(seed).integers(0, 4096, (12, 16), dtype=np.uint16)  # 12 bits in 16
        image = save(film, root / f"MontgomerySet/CXR_png/{name}.png")
        left, right = blob(10 + seed), blob(20 + seed)
        left[:, :8] = False
        right[:, 8:] = False
        for side, lung in (("left", left), ("right", right)):
            save(white(lung), root / f"MontgomerySet/ManualMask/{side}Mask/{name}.png")
        readings = root / f"MontgomerySet/ClinicalReadings/{name}.txt"
        readings.parent.mkdir(exist_ok=True)
        readings.write_text("Patient's Sex: F")
        found[name] = Sample(image, {"masks": left | right})
    return found


def shenzhen(root):
    found = {}
    for seed, name in enumerate(["CHNCXR_0001_0", "CHNCXR_0662_1"]):
        shape = (10, 12 + seed)
        image = save(photograph(seed, shape), root / f"ChinaSet_AllFiles/CXR_png/{name}.png")
        save(white(blob(seed, shape)), root / f"mask/{name}_mask.png")
        found[name] = Sample(image, {"masks": blob(seed, shape)})
    save(photograph(9), root / "ChinaSet_AllFiles/CXR_png/CHNCXR_0025_0.png")  # one of 96 such
    return found


def jsrt(root):
    found = {}
    for fold, name in ((1, "JPCLN001"), (2, "JPCNN002")):
        blackness = np.zeros((FILM, FILM), dtype=">u2")
        blackness[:, :64] = np.arange(64) * 65  # 0 to 4095
        blackness[5, 7] = 0x0102 * fold  # tells one order of bytes from the other
        image = root / f"All247images/{name}.IMG"
        image.parent.mkdir(parents=True, exist_ok=True)
        blackness.tofile(image)
        lungs = np.zeros((FILM, FILM), dtype=bool)
        for side, rows, columns in (
            ("left", (300, 700), (600, 801)),
            ("right", (301, 702), (150, 400)),
        ):
            small = np.zeros((1024, 1024), dtype=bool)
            small[slice(*rows), slice(*columns)] = True
            save(white(small), root / f"scratch/fold{fold}/masks/{side} lung/{name}.gif")
            lungs[2 * rows[0] : 2 * rows[1], 2 * columns[0] : 2 * columns[1]] = True
        for other in ("heart", "left clavicle", "right clavicle"):
            save(
                np.full((1024, 1024), 255, np.uint8),
                root / f"scratch/fold{fold}/masks/{other}/{name}.gif",
            )
        found[name] = Sample(image, {"masks": lungs}, (4095 - blackness.astype(int))[None])
    return found


def chase(root):
    found = {}
    for seed, name in enumerate(["Image_01L", "Image_01R"]):
        image = save(photograph(seed), root / f"CHASEDB1/{name}.jpg", quality=90)
        Pillow.fromarray(blob(seed)).save(root / f"CHASEDB1/{name}_1stHO.png")  # 1 bit
        Pillow.fromarray(blob(50 + seed)).save(root / f"CHASEDB1/{name}_2ndHO.png")
        found[name] = Sample(image, {"masks": blob(seed)})
    return found


def hrf(root):
    found = {}
    for seed, name in enumerate(["01_dr.JPG", "01_g.jpg", "15_h.jpg"]):
        image = save(photograph(seed), root / f"images/{name}", format="JPEG")
        bare = name.split(".")[0]
        for folder, file, label in (
            ("manual1", f"{bare}.tif", blob(seed)),
            ("mask", f"{bare}_mask.tif", np.ones((12, 16), bool)),
        ):
            (root / folder).mkdir(exist_ok=True)
            tifffile.imwrite(root / folder / file, white(label))
        found[bare] = Sample(image, {"masks": blob(seed)})
    return found


def drive_image(root, part, number):
    path = root / f"{part}/images/{number}_{part}.tif"
    path.parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(path, photograph(int(number)), photometric="rgb")
    return path


def drive(root):
    found = {}
    for part, number in (("training", "21"), ("test", "01")):
        image, label = drive_image(root / "DRIVE", part, number), blob(int(number))
        save(white(label), root / f"DRIVE/{part}/1st_manual/{number}_manual1.gif")
        save(white(blob(7)), root / f"DRIVE/{part}/2nd_manual/{number}_manual2.gif")
        view = root / f"DRIVE/{part}/mask/{number}_{part}_mask.gif"
        save(np.full((12, 16), 255, np.uint8), view)
        found[f"{number}_{part}"] = Sample(image, {"masks": label})
    return found


def coloured(label):
    """Arteries red, veins blue, crossings green, uncertain white, in turn along the label."""
    colours = np.array([[255, 0, 0], [0, 0, 255], [0, 255, 0], [255, 255, 255]], dtype=np.uint8)
    pixels = np.zeros((*label.shape, 3), dtype=np.uint8)
    pixels[label] = colours[np.arange(label.sum()) % 4]
    return pixels


def rite(root, vessel=True):
    found = {}
    for part, number in (("training", "21"), ("test", "01")):
        home, label = root / "AV_groundTruth", blob(int(number))
        image = drive_image(home, part, number)
        save(coloured(label), home / f"{part}/av/{number}_{part}.png")
        if vessel:  # one pixel more than is coloured, to tell the two apart
            label[-1, -1] = True
            save(white(label), home / f"{part}/vessel/{number}_{part}.png")
        found[f"{number}_{part}"] = Sample(image, {"masks": label})
    return found


def volume(path, values, affine=AFFINE):
    path.parent.mkdir(parents=True, exist_ok=True)
    file = nib.Nifti1Image(values, affine)
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(file.to_bytes(), mtime=0))
    else:
        path.write_bytes(file.to_bytes())
    return path


# What four raters say of eight voxels: 1 is grey matter, 2 white matter.
RATERS = np.array(
    [
        [1, 1, 1, 1, 2, 2, 0, 1],
        [1, 1, 1, 0, 2, 2, 0, 1],
        [1, 1, 2, 0, 2, 0, 0, 2],
        [1, 0, 2, 0, 1, 0, 2, 2],
    ],
    dtype=np.uint8,
)
GREY = np.array([1, 1, 0, 0, 0, 0, 0, 0], dtype=bool)  # three of four, not two
CORD = np.array([1, 1, 1, 0, 1, 0, 0, 1], dtype=bool)


def raised(row, shape=(5, 4, 3)):
    """Eight voxels somewhere in a volume."""
    values = np.zeros(shape, dtype=row.dtype)
    values.reshape(-1)[11:19] = row
    return values


def scgm(root, site=1):
    found = {}
    for subject in ("01", "02"):
        start = f"site{site}-sc{subject}"
        values = chance(int(subject)).integers(0, 900, (5, 4, 3)).astype(np.int16)
        image = volume(root / f"training-data-gm-sc-challenge/{start}-image.nii.gz", values)
        for rater, row in enumerate(RATERS, start=1):
            volume(image.with_name(f"{start}-mask-r{rater}.nii.gz"), raised(row))
        image.with_name(f"{start}-levels.txt").write_text("0 2\n1 2\n2 3\n")
        found[start] = Sample(image, {"masks": raised(GREY), "masks_cord": raised(CORD)})
    volume(root / f"test-data-gm-sc-challenge/site{site}-sc11-image.nii.gz", values)
    return found


ALL = {
    "chest/mcu": montgomery,
    "chest/chn": shenzhen,
    "chest/jsrt": jsrt,
    "retina/chase": chase,
    "retina/hrf": hrf,
    "retina/rite": drive,
    **{f"spinal/site{n}": (lambda root, n=n: scgm(root, n)) for n in range(1, 5)},
}
