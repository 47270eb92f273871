"""Prediction: text, picture, indexing, several labels, volumes."""

import pytest
import torch

import sitta
from sitta.prediction.notes import NOTES
from tests.nets import case


@pytest.fixture
def prediction():
    net, images = case()
    return sitta.InTEnt(net)(images)


def test_summary_is_short_and_says_it_all(prediction):
    text = prediction[0].summary()
    assert len(text.splitlines()) < 14
    for word in ("InTEnt", "6 members", "12 x 12", "lambda", "entropy", "weight", "agreement"):
        assert word in text
    assert text.count("0.80") == 1
    assert "% unadapted" in text
    whole = prediction.summary()
    assert [f"image {i}" in whole for i in range(4)] == [True, True, True, False]


def test_summary_explains_notes():
    net, images = case()
    p = sitta.InTEnt(net)(torch.zeros_like(images[0]))
    assert "constant-image" in p.notes
    assert NOTES["constant-image"].sentence in p.summary()


def test_summary_without_a_source_member():
    net, images = case()
    p = sitta.InTEnt(net, lambdas=[0.5, 0.0])(images[0])
    assert p.source_mask is None
    assert "unadapted" not in p.summary()


def test_summary_of_one_member_claims_no_agreement():
    net, images = case()
    text = sitta.Source(net)(images[0]).summary()
    assert "1 member," in text
    assert "agreement" not in text


def test_indexing(prediction):
    assert len(prediction) == 3
    assert [p.image.shape for p in prediction] == [(1, 12, 12)] * 3
    assert torch.equal(prediction[-1].mask, prediction.mask[2])
    with pytest.raises(IndexError):
        prediction[3]
    assert torch.equal(prediction[1:].mask, prediction.mask[1:])
    assert prediction[1:].notes == prediction.notes[1:]
    assert repr(prediction) == "Prediction(InTEnt, 3 x 12x12, 6 members)"


def titles(figure):
    return [ax.get_title() for sub in figure.subfigs for ax in sub.axes]


def test_plot_shows_every_panel(prediction):
    figure = prediction.plot(1)
    found = titles(figure)
    assert found[0] == "image"
    assert found[1] == "source"
    assert found[2].startswith("InTEnt, agreement")
    assert found[3] == "uncertainty"
    strip = [t for t in found if "lambda" in t]
    assert len(strip) == 6
    assert all("entropy" in t and "weight" in t for t in strip)


@pytest.mark.parametrize(
    ("dims", "outputs", "activation", "inputs"),
    [
        (2, 1, "auto", 3),
        (2, 4, "auto", 1),
        (2, 3, "sigmoid", 2),
        (3, 1, "auto", 1),
        (3, 2, "sigmoid", 1),
    ],
)
def test_plot_of_every_kind(dims, outputs, activation, inputs, tmp_path):
    net, images = case(dims, outputs, inputs=inputs)
    p = sitta.InTEnt(net, activation=activation)(images[0])
    p.plot().savefig(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5000


def test_plot_thins_a_long_strip():
    net, images = case()
    p = sitta.InTEnt(net, step=0.02)(images[0])
    strip = [t for t in titles(p.plot()) if "lambda" in t]
    assert len(strip) == 11
    assert "1.00" in strip[0]
    assert "0.00" in strip[-1]
    titles(sitta.Source(net)(images[0]).plot())


def test_several_labels():
    net, images = case(outputs=3)
    p = sitta.InTEnt(net, activation="sigmoid")(images)
    assert p.mask.shape == (3, 3, 12, 12)
    assert p.member_masks.shape == (6, 3, 3, 12, 12)
    assert p.uncertainty.shape == (3, 12, 12)
    one = sitta.InTEnt(net, activation="sigmoid", output=lambda z: z[:, :1])(images)
    torch.testing.assert_close(p.members[:, :, :1], one.members)


def test_areas_count_foreground_of_any_class():
    net, images = case(outputs=4)
    p = sitta.InTEnt(net)(images)
    torch.testing.assert_close(p.areas, (p.member_masks > 0).float().mean((2, 3)))
    torch.testing.assert_close(p.area, (p.mask > 0).float().mean((1, 2)))


def test_notes_are_explained():
    net, images = case()
    for p in (sitta.InTEnt(net)(images), sitta.Source(net)(images)):
        assert all(code in NOTES for codes in p.notes for code in codes)


def test_disagreeing_members_are_noted():
    net, _ = case()
    with torch.no_grad():
        net.head.bias.fill_(-1.5)
    notes = [sitta.InTEnt(net)(torch.rand(1, 12, 12) * s).notes for s in (0.1, 1, 10, 100)]
    assert any("members-disagree" in n for n in notes)


def test_an_updated_model_is_not_called_source():
    net, images = case()
    for p in (sitta.Tent(net, 1.0)(images[0]), sitta.SAR(net, 1.0)(images[0])):
        assert p.source_mask is None
        assert "unadapted" not in p.summary()
    assert sitta.SITA(net, op="vote", views=1)(images[0]).source_mask is not None


def test_a_source_that_overflowed_is_not_shown():
    class Cube(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(x) ** 3

    p = sitta.InTEnt(Cube().eval())(torch.rand(1, 8, 8) * 1e15)
    assert "member-overflow" in p.notes
    assert p.source_mask is None
    assert "unadapted" not in p.summary()
