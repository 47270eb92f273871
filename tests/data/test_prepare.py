"""Official distributions come out in the project's layout, pixel for pixel."""

import re
import shutil

import numpy as np
import pytest
from PIL import Image as Pillow

from sitta._util import files
from sitta.data.domains import Domain
from sitta.data.images import read, read_mask
from sitta.data.prepare import PREPARERS, prepare
from sitta.errors import InvalidImage, InvalidSetting, SittaError
from tests.data import distributions as official

QUICK = [place for place in official.ALL if place != "chest/jsrt"]


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "from"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path):
    return tmp_path / "to"


def only(report):
    """The reason for which the one pair that is missing was left out."""
    ((name, reason),) = report.left_out
    return name, reason


def check(report, target, expected):
    assert report.written == sorted(expected)
    home = target / report.task / report.domain
    for name, sample in expected.items():
        (image,) = (home / "images").glob(f"{name}.*")
        if sample.pixels is None:
            assert image.read_bytes() == sample.image.read_bytes()
        else:
            np.testing.assert_array_equal(read(image).pixels, sample.pixels)
        for folder, mask in sample.masks.items():
            (path,) = (home / folder).glob(f"{name}.*")
            np.testing.assert_array_equal(read_mask(path, like=read(image)), mask)
    for folder in ("images", *sample.masks):
        assert len(list((home / folder).iterdir())) == len(expected)
    for folder in sample.masks:
        pairs = Domain(report.task, report.domain, home, folder).pairs()
        assert [pair.name for pair in pairs] == report.written


@pytest.mark.parametrize("place", official.ALL)
def test_the_official_form(place, source, target):
    expected = official.ALL[place](source)
    report = prepare(place, source, target)
    assert f"{report.task}/{report.domain}" == place
    check(report, target, expected)


def test_there_are_ten():
    assert list(PREPARERS) == list(official.ALL)


@pytest.mark.parametrize("place", QUICK)
def test_any_folders_and_case(place, source, target):
    """Without the outer folder, or deep in others, and in the other case."""
    expected = official.ALL[place](source / "a")
    (source / "B").mkdir()
    for path in sorted((source / "a").rglob("*")):
        if path.is_file():
            below = path.relative_to(source / "a").as_posix()
            new = source / "B" / (below if below == below.lower() else below.lower())
            new.parent.mkdir(parents=True, exist_ok=True)
            path.rename(new)
    shutil.rmtree(source / "a")
    report = prepare(place.split("/")[1].upper(), source, target)
    assert report.written == [name.lower() for name in sorted(expected)]
    name, sample = next(iter(expected.items()))
    (path,) = (target / place / "masks").glob(f"{name.lower()}.*")
    np.testing.assert_array_equal(read_mask(path), sample.masks["masks"])


def test_montgomery_needs_both_lungs(source, target):
    official.montgomery(source)
    (source / "MontgomerySet/ManualMask/rightMask/MCUCXR_0104_1.png").unlink()
    report = prepare("mcu", source, target)
    assert report.written == ["MCUCXR_0001_0"]
    assert only(report) == ("MCUCXR_0104_1", "There is no right lung mask.")


def test_montgomery_keeps_its_depth(source, target):
    expected = official.montgomery(source)
    prepare("mcu", source, target)
    pixels = read(target / "chest/mcu/images/MCUCXR_0001_0.png").pixels
    assert pixels.dtype == np.uint16
    assert pixels.max() == np.asarray(Pillow.open(expected["MCUCXR_0001_0"].image)).max() > 255


def test_shenzhen_has_fewer_masks_than_images(source, target):
    official.shenzhen(source)
    assert only(prepare("chn", source, target)) == ("CHNCXR_0025_0", "There is no lung mask.")


def test_a_mask_without_image(source, target):
    expected = official.shenzhen(source)
    expected["CHNCXR_0001_0"].image.unlink()
    found = dict(prepare("chn", source, target).left_out)
    assert found["CHNCXR_0001_0"] == "There is a label, but no image."


def test_jsrt_is_turned_and_its_masks_fit(source, target):
    official.jsrt(source)
    prepare("jsrt", source, target)
    image = read(target / "chest/jsrt/images/JPCLN001.png")
    assert image.pixels.dtype == np.uint16
    assert image.pixels[0, 5, 7] == 4095 - 0x0102
    assert image.pixels[0, 0, 0] == 4095  # clear film, where bone is
    assert image.pixels[0, 0, 63] == 0  # black film, where air is
    mask = read_mask(target / "chest/jsrt/masks/JPCLN001.png", like=image)
    assert mask[600, 1200] == mask[1399, 1601] == 1
    assert mask[599, 1200] == mask[600, 1602] == mask[1400, 1601] == 0


def film(path, words):
    np.asarray(words).tofile(path)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:-2]), r"8,388,608 \(2048 x 2048.*Got: 8,388,606"),
        (lambda p: p.write_bytes(b""), "Got: 0"),
        (lambda p: film(p, np.fromfile(p, "<u2").astype(">u2")), "more than 12 bits.*high byte"),
    ],
)
def test_films_that_are_none(source, target, spoil, reason):
    expected = official.jsrt(source)
    spoil(expected["JPCLN001"].image)
    report = prepare("jsrt", source, target)
    assert report.written == ["JPCNN002"]
    name, said = only(report)
    assert name == "JPCLN001"
    assert re.search(reason, said)


def test_jsrt_masks_of_another_size(source, target):
    official.jsrt(source)
    label = source / "scratch/fold1/masks/left lung/JPCLN001.gif"
    official.save(np.zeros((1024, 1000), np.uint8), label)
    _, reason = only(prepare("jsrt", source, target))
    assert "Allowed: 1024 x 1024. Got: 1024 x 1000." in reason


def test_hrf_in_three_archives(source, target):
    """As one archive a disease, with the field of view beside the labels."""
    expected = official.hrf(source / "all")
    kinds = {"dr": "diabetic_retinopathy", "g": "glaucoma", "h": "healthy"}
    for path in [p for p in source.rglob("*") if p.is_file()]:
        bare = path.name.split(".")[0].removesuffix("_mask")
        part = {"images": "", "manual1": "_manualsegm", "mask": "_fovmask"}[path.parent.name]
        new = source / f"{kinds[bare.split('_')[1]]}{part}" / path.name
        new.parent.mkdir(exist_ok=True)
        path.rename(new)
        if not part:
            expected[bare].image = new
    check(prepare("hrf", source, target), target, expected)


@pytest.mark.parametrize(("vessel", "kind"), [(True, "vessel"), (False, "artery and vein")])
def test_rite(source, target, vessel, kind):
    expected = official.rite(source, vessel)
    report = prepare("rite", source, target)
    check(report, target, expected)
    assert report.notes == [f"labels: {kind} mask of RITE"]


def test_rite_never_mixes_two_kinds_of_labels(source, target):
    """DRIVE's own label is no stand-in where RITE's is absent."""
    official.drive(source)
    label = official.blob(3)
    official.save(official.white(label), source / "AV_groundTruth/test/vessel/01_test.png")
    report = prepare("rite", source, target)
    assert report.written == ["01_test"]
    assert only(report) == ("21_training", "There is no vessel mask of RITE.")
    found = read_mask(target / "retina/rite/masks/01_test.png")
    np.testing.assert_array_equal(found, label)


def test_unlabelled_subjects_of_scgm(source, target):
    official.scgm(source)
    name, reason = only(prepare("spinal/site1", source, target))
    assert name == "site1-sc11"
    assert reason.startswith("There is no mask of rater 1 and no mask of rater 2")


def test_other_sites_stay_out(source, target):
    official.scgm(source, 2)
    with pytest.raises(InvalidImage, match=r"site 1 of.*0 of image.*site2-sc01-image"):
        prepare("site1", source, target)


def test_absent_raters(source, target):
    """More than half of those that are there: two of three, both of two."""
    official.scgm(source)
    folder = source / "training-data-gm-sc-challenge"
    (folder / "site1-sc01-mask-r4.nii.gz").unlink()
    for rater in (1, 2):
        (folder / f"site1-sc02-mask-r{rater}.nii.gz").unlink()
    report = prepare("site1", source, target)
    assert report.notes == [
        "site1-sc01: without mask of rater 4",
        "site1-sc02: without mask of rater 1, mask of rater 2",
    ]
    three = read(target / "spinal/site1/masks/site1-sc01.nii.gz").pixels[0].reshape(-1)[11:19]
    assert three.tolist() == [1, 1, 1, 0, 0, 0, 0, 1]
    two = read(target / "spinal/site1/masks/site1-sc02.nii.gz").pixels[0].reshape(-1)[11:19]
    assert two.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_masks_of_scgm_lie_where_the_image_does(source, target):
    official.scgm(source)
    prepare("site1", source, target)
    for folder in ("images", "masks", "masks_cord"):
        file = read(target / f"spinal/site1/{folder}/site1-sc01.nii.gz")
        np.testing.assert_array_equal(file.geometry.affine, official.AFFINE)
    assert file.pixels.dtype == np.uint8


def rater(source, values, affine):
    path = source / "training-data-gm-sc-challenge/site1-sc01-mask-r1.nii.gz"
    official.volume(path, values, affine)


def test_a_rater_who_saved_in_another_order(source, target):
    expected = official.scgm(source)
    turned = official.AFFINE @ np.diag([-1, 1, 1, 1])
    turned[:3, 3] = official.AFFINE[:3] @ [4, 0, 0, 1]
    rater(source, official.raised(official.RATERS[0])[::-1], turned)
    check(prepare("site1", source, target), target, expected)


def test_a_rater_whose_file_has_no_place(source, target):
    expected = official.scgm(source)
    rater(source, official.raised(official.RATERS[0]), None)
    check(prepare("site1", source, target), target, expected)


@pytest.mark.parametrize(
    ("values", "affine", "reason"),
    [
        (official.raised(official.RATERS[0]), official.AFFINE + np.eye(4, k=3) * 9, "9.00 mm away"),
        (official.raised(official.RATERS[0], (5, 4, 4)), None, "another size.*5 x 4 x 3"),
        (official.raised(official.RATERS[0], (5, 4, 4)), official.AFFINE, "another size"),
        (official.raised(official.RATERS[0] * 7), official.AFFINE, "no mask of 3 classes"),
    ],
)
def test_raters_that_do_not_fit(source, target, values, affine, reason):
    official.scgm(source)
    rater(source, values, affine)
    report = prepare("site1", source, target)
    assert report.written == ["site1-sc02"]
    assert re.search(reason, dict(report.left_out)["site1-sc01"])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda image, label: image.write_bytes(image.read_bytes()[:300]), "cut short"),
        (lambda image, label: label.write_text("<html>"), "named as PNG, but its content is not"),
        (
            lambda image, label: official.save(np.zeros((11, 16), np.uint8), label),
            "another size than its image.*12 x 16. Got: 11 x 16",
        ),
        (
            lambda image, label: official.save(official.photograph(1)[..., 0], label),
            "no label: it holds .* values",
        ),
        (lambda image, label: image.unlink(), "a label, but no image"),
    ],
)
def test_one_broken_file_does_not_stop_the_rest(source, target, spoil, reason):
    expected = official.chase(source)
    image = expected.pop("Image_01L").image
    spoil(image, image.with_name("Image_01L_1stHO.png"))
    report = prepare("chase", source, target)
    check(report, target, expected)
    assert re.search(reason, only(report)[1])


def test_copies_are_one_file_and_others_are_not(source, target):
    expected = official.chase(source)
    image = expected["Image_01L"].image
    (source / "again").mkdir()
    shutil.copy(image, source / "again")
    check(prepare("chase", source, target), target, expected)
    official.save(official.photograph(5), source / "again" / image.name)
    name, reason = only(prepare("chase", source, target, overwrite=True))
    assert name == "Image_01L"
    assert "two different files" in reason


def test_what_systems_leave_behind(source, target):
    expected = official.chase(source)
    for junk in ("__MACOSX/CHASEDB1/Image_01L.jpg", "CHASEDB1/._Image_01L.jpg", ".x/Image_01R.jpg"):
        (source / junk).parent.mkdir(parents=True, exist_ok=True)
        (source / junk).write_bytes(b"junk")
    check(prepare("chase", source, target), target, expected)


def test_a_target_inside_the_source(source):
    """What was prepared before is not taken for the owners' files."""
    expected = official.chase(source)
    for overwrite in (False, True):
        check(prepare("chase", source, source, overwrite=overwrite), source, expected)
    with pytest.raises(InvalidSetting, match="is where the result goes"):
        prepare("chase", source / "retina/chase/images", source, overwrite=True)
    assert (source / "retina/chase/images/Image_01L.jpg").exists()


def test_a_target_that_is_taken(source, target):
    official.chase(source)
    prepare("chase", source, target)
    stale = target / "retina/chase/masks/Image_99L.png"
    stale.touch()
    with pytest.raises(InvalidSetting, match=r"retina/chase is not empty.*overwrite"):
        prepare("chase", source, target)
    assert stale.exists()
    notes = target / "retina/chase/subjects.csv"
    notes.write_text("name,subject\n")
    assert len(prepare("chase", source, target, overwrite=True).written) == 2
    assert not stale.exists()
    assert notes.exists()


def test_what_was_prepared_stays_if_nothing_can_take_its_place(source, target):
    expected = official.chase(source)
    prepare("chase", source, target)
    for case in expected.values():
        case.image.write_bytes(b"damaged")
    assert not prepare("chase", source, target, overwrite=True).written
    assert len(list((target / "retina/chase/images").iterdir())) == len(expected)


def test_sources_that_are_none(source, target, tmp_path):
    with pytest.raises(InvalidSetting, match="There is no folder"):
        prepare("mcu", tmp_path / "nowhere", target)
    with pytest.raises(InvalidImage, match="holds no files"):
        prepare("mcu", source, target)
    archive = source / "NLM-MontgomeryCXRSet.zip"
    archive.write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidSetting, match=r"is a file.*unpack it"):
        prepare("mcu", archive, target)
    with pytest.raises(InvalidImage, match=r"unpack NLM-MontgomeryCXRSet.zip first"):
        prepare("mcu", source, target)
    assert not target.exists()


def test_another_data_set(source, target):
    official.chase(source)
    with pytest.raises(InvalidImage) as caught:
        prepare("mcu", source, target)
    said = str(caught.value)
    assert "does not hold the images and labels of the Montgomery County" in said
    assert "left lung mask: .../ManualMask/leftMask/MCUCXR_0001_0.png" in said
    assert "0 of image, 0 of left lung mask, 0 of right lung mask, 6 other files" in said
    with pytest.raises(SittaError, match=r"no data set 'drive'.*chest/mcu, .*spinal/site4"):
        prepare("drive", source, target)


def test_images_without_any_label(source, target):
    official.shenzhen(source)
    shutil.rmtree(source / "mask")
    with pytest.raises(InvalidImage, match=r"Got: 3 of image, 0 of lung mask\."):
        prepare("chn", source, target)


def test_progress(source, target):
    official.chase(source)
    seen = []

    def progress(cases, total):
        for case in cases:
            seen.append((case.name, total))
            yield case

    prepare("chase", source, target, progress=progress)
    assert seen == [("Image_01L", 2), ("Image_01R", 2)]


def test_nothing_is_half_written(source, target, monkeypatch):
    official.chase(source)

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        prepare("chase", source, target)
    assert not [path for path in target.rglob("*") if path.is_file()]
