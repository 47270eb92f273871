"""Figures show what the rows say: values, panels, shares; and their files are clean and small."""

import functools
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from sitta.bench import figures
from sitta.bench.figures import style
from sitta.bench.figures.overall import estimates as of_selection
from sitta.bench.figures.style import panels
from sitta.bench.stats.scores import shifted
from sitta.bench.tables.table_data import TableData
from sitta.core.integration import STRATEGIES
from sitta.errors import InvalidSetting
from tests.bench import synthetic

LIGHT = 300_000  # bytes
ONE_OF_EACH = ("overall", "lambda-chest", "change-chest", "trust-chest", "sweep", "members")


def estimates(rows):
    return of_selection(TableData(rows))


@functools.cache
def sample():
    """Rows, and one figure of each kind drawn from them."""
    rows = synthetic.make(images=8, repeats=2, drawn=3)
    return rows, {plate.name: plate for plate in figures.render(rows, ONE_OF_EACH)}


@pytest.fixture(scope="module")
def rows():
    return sample()[0]


@pytest.fixture(scope="module")
def plates():
    return sample()[1]


def usual(rows, strategy="ent-baln", members=6):
    kept = (rows["method"] == "intent") & (rows["strategy"] == strategy)
    return rows[kept & (rows["members"] == members)]


def points(rows):
    return 100 * rows["dice"].to_numpy(float)


def few(gains, repeats=1):
    """Rows of one split: source and InTEnt, the latter with these gains in points."""
    kept = synthetic.make(images=len(gains), repeats=repeats, drawn=1)
    kept = kept[(kept["source"] == "mcu") & (kept["target"] == "chn")]
    kept = kept[kept["training"] == "plain"]
    source = kept[(kept["method"] == "source") & (kept["lam"] == 1)].assign(dice=0.5)
    own = usual(kept)
    gained = own["image"].str[-3:].astype(int).map(dict(enumerate(gains))) / 100
    return pd.concat([source, own.assign(dice=0.5 + gained)])


def split_of(ax):
    return tuple(ax.get_title().split(" → "))


def shown(figure):
    return [ax for ax in figure.axes if ax.get_visible()]


def test_lambda_curves_are_the_means(rows):
    figure = figures.draw(rows, "lambda-chest")
    axes = shown(figure)
    assert len(axes) == 6
    plain = rows[(rows["training"] == "plain") & (rows["task"] == "chest")]
    for ax in axes:
        source, target = split_of(ax)
        part = plain[(plain["source"] == source) & (plain["target"] == target)]
        wanted = 100 * part[part["method"] == "source"].groupby("lam")["dice"].mean()
        lines = {line.get_label(): line for line in ax.get_lines()}
        curve = lines["Fixed lambda"]
        np.testing.assert_allclose(curve.get_xdata(), wanted.index)
        np.testing.assert_allclose(curve.get_ydata(), wanted.to_numpy())
        others = {f"InTEnt {s}": s for s in STRATEGIES if s not in ("ent-baln", "sharpness")}
        for name, strategy in {"InTEnt": "ent-baln", **others}.items():
            level = points(usual(part, strategy)).mean()
            np.testing.assert_allclose(lines[name].get_ydata(), level)
        star = lines["Oracle lambda (at its mean)"]
        assert star.get_ydata()[0] == pytest.approx(points(part[part.method == "oracle"]).mean())
        assert 0 <= star.get_xdata()[0] <= 1
        band = ax.collections[0].get_paths()[0].vertices
        assert band[:, 1].min() < wanted.min() < wanted.max() < band[:, 1].max()


def test_a_lambda_on_the_draw_alone_is_not_on_the_curve(rows):
    some = rows[(rows["method"] == "source") & (rows["lam"] == 0.8) & rows["drawn"]]
    figure = figures.draw(pd.concat([rows, some.assign(lam=0.3)]), "lambda-chest")
    lambdas = sorted({*rows.loc[rows["method"] == "source", "lam"]})
    for ax in shown(figure):
        lines = {line.get_label(): line for line in ax.get_lines()}
        np.testing.assert_allclose(lines["Fixed lambda"].get_xdata(), lambdas)


def test_a_strategy_on_the_draw_alone_is_no_line(rows):
    late = (rows["method"] == "intent") & (rows["strategy"] == "average") & ~rows["drawn"]
    whole, figure = (figures.draw(some, "lambda-chest") for some in (rows, rows[~late]))
    for ax, before in zip(shown(figure), shown(whole), strict=True):
        lines = {line.get_label(): line for line in ax.get_lines()}
        expected = {line.get_label(): line for line in before.get_lines()}
        assert lines.keys() == expected.keys() - {"InTEnt average"}
        for name, line in lines.items():
            np.testing.assert_array_equal(line.get_xydata(), expected[name].get_xydata())
    (legend,) = figure.legends
    named = {text.get_text() for text in legend.get_texts()}
    assert {"Fixed lambda", "InTEnt", "Oracle lambda (at its mean)"} <= named
    assert "InTEnt average" not in named


def test_strategies_are_lines_of_the_draw_where_all_fixed_lambdas_are(rows):
    kept = rows[rows["drawn"] | (rows["method"] != "source")]
    for ax in shown(figures.draw(kept, "lambda-chest")):
        source, target = split_of(ax)
        part = rows[(rows["training"] == "plain") & rows["drawn"]]
        part = part[(part["source"] == source) & (part["target"] == target)]
        lines = {line.get_label(): line for line in ax.get_lines()}
        np.testing.assert_allclose(lines["InTEnt"].get_ydata(), points(usual(part)).mean())


def test_lambda_star_stands_at_the_mean_best_lambda():
    kept = few([0, 0, 0, 0])
    fixed = kept[kept["method"] == "source"]
    best = {0.0: [0.9, 0.1, 0.1, 0.1], 0.5: [0.2, 0.8, 0.7, 0.2], 1.0: [0.1, 0.2, 0.2, 0.9]}
    grid = pd.concat([fixed.assign(lam=lam, dice=dice) for lam, dice in best.items()])
    oracle = fixed.assign(method="oracle", lam=math.nan, members=6, dice=[0.9, 0.8, 0.7, 0.9])
    (ax,) = shown(figures.draw(pd.concat([grid, oracle]), "lambda-chest"))
    star = ax.get_lines()[-1]
    assert star.get_xdata()[0] == pytest.approx((0 + 0.5 + 0.5 + 1) / 4)
    assert star.get_ydata()[0] == pytest.approx(82.5)


def test_lambda_star_is_among_what_the_oracle_chooses_from():
    rows = synthetic.make(images=2, repeats=1, drawn=1)
    split = rows.query("source == 'mcu' and target == 'chn' and training == 'plain'")
    fixed = split[split["method"] == "source"]
    best = {0.5: 0.9, 0.2: 0.8, 0.8: 0.8, 1.0: 0.8}  # 0.5 is no member; of equals the middle
    fixed = fixed.assign(dice=fixed["lam"].map(best).fillna(0.5))
    (ax,) = shown(
        figures.draw(pd.concat([fixed, split.query("method == 'oracle'")]), "lambda-chest")
    )
    assert ax.get_lines()[-1].get_xdata()[0] == pytest.approx((0.2 + 0.8 + 1.0) / 3)


def test_other_trainings_and_the_source_itself_do_not_count(rows, plates):
    cross = rows[(rows["training"] == "plain") & (rows["source"] != rows["target"])]
    assert len(cross) < len(rows)
    chosen = ["overall", "trust-chest"]
    assert [p.svg for p in figures.render(cross, chosen)] == [plates[n].svg for n in chosen]


@pytest.mark.parametrize(
    ("sources", "each", "wanted"), [(6, 5, (5, 6)), (3, 2, (2, 3)), (1, 8, (2, 4)), (2, 1, (1, 2))]
)
def test_panels_are_in_a_grid_that_fits(sources, each, wanted):
    splits = [(f"s{a}", f"t{b}") for a in range(sources) for b in range(each)]
    figure, axes = panels(splits)
    assert list(axes) == splits
    assert figure.axes[0].get_gridspec().get_geometry() == wanted
    places = {ax.get_subplotspec().num1 for ax in axes.values()}
    assert len(places) == len(splits)


def test_sweep_is_the_mean_over_splits_of_common_images(rows):
    figure = figures.draw(rows, "sweep")
    (ax,) = figure.axes
    cross = shifted(rows)
    cross = cross[(cross["task"] == "chest") & cross["drawn"]]
    bold = {line.get_label(): line for line in ax.get_lines() if line.get_linewidth() > 2}
    assert set(bold) == {"InTEnt", "InTEnt average"}
    for name, strategy in {"InTEnt": "ent-baln", "InTEnt average": "average"}.items():
        counts = list(bold[name].get_xdata())
        assert counts == [2, 3, 5, 6, 13, 50]
        wanted = [
            100 * usual(cross, strategy, k).groupby(["source", "target"])["dice"].mean().mean()
            for k in counts
        ]
        np.testing.assert_allclose(bold[name].get_ydata(), wanted)
    thin = [line for line in ax.get_lines() if line.get_linewidth() < 1]
    assert len(thin) == 6 * 2
    np.testing.assert_allclose(
        np.mean([line.get_ydata() for line in thin[:6]], axis=0), bold["InTEnt"].get_ydata()
    )
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2", "3", "5", "6", "13", "50"]


@pytest.mark.parametrize(
    ("gains", "better", "worse"),
    [
        ([5, 7, 0.2, -20], "50 % better", "25 % worse"),
        ([1, 1, -1, 0], "0 % better", "0 % worse"),
        ([-3, -2, -30, 0.5, 2], "20 % better", "60 % worse"),
    ],
)
def test_change_writes_the_shares(gains, better, worse):
    (ax,) = shown(figures.draw(few(gains), "change-chest"))
    assert {text.get_text() for text in ax.texts} == {better, worse}
    heights = [v for patch in ax.collections for v in patch.get_paths()[0].vertices[:, 1] if v]
    assert {round(v, 6) for v in heights} == {v for v in gains if v}
    low, high = ax.get_ylim()
    assert low < min(gains)
    assert high > max(gains)


def test_change_has_each_image_in_each_repeat():
    kept = few([4, 0], repeats=2)
    kept.loc[(kept["method"] == "intent") & (kept["repeat"] == 1), "dice"] = 0.5
    (ax,) = shown(figures.draw(kept, "change-chest"))
    heights = [v for patch in ax.collections for v in patch.get_paths()[0].vertices[:, 1]]
    assert {round(v, 6) for v in heights} == {0, 4}  # 4 points in one repeat, none in the other
    assert "25 % better" in {text.get_text() for text in ax.texts}
    caption = figures.FIGURES["change"].caption
    assert "for each image under each trained network, sorted" in caption
    assert "mean" not in caption


def test_trust_has_a_point_for_each_image_and_the_right_correlation(rows):
    figure = figures.draw(rows, "trust-chest")
    (ax,) = figure.axes
    own = usual(shifted(rows)[lambda r: r["task"] == "chest"])
    clouds = [c for c in ax.collections if isinstance(c, PathCollection)]
    counts = [len(c.get_offsets()) for c in clouds]
    flagged = int(own["notes"].str.contains("members-disagree").sum())
    assert counts == [len(own) - flagged, flagged]
    drawn = np.concatenate([np.asarray(c.get_offsets()) for c in clouds])
    wanted = np.stack([own["agreement"], points(own)], axis=1)
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(wanted, axis=0))
    rho = spearmanr(own["agreement"], own["dice"]).statistic
    each = [spearmanr(p["agreement"], p["dice"])[0] for _, p in own.groupby(["source", "target"])]
    title = ax.get_title(loc="left")
    assert title == (
        f"Spearman's rank correlation {rho:.2f} over all, "
        f"{np.mean(each):.2f} within a split on average"
    )


def test_trust_flags_and_constants(rows):
    own = usual(rows)
    far = own.assign(notes="equal-entropies far-from-source", agreement=1.0)
    (ax,) = figures.draw(far, "trust-chest").axes
    assert [len(c.get_offsets()) for c in ax.collections] == [0, 6 * 2 * 8]
    assert "not defined" in ax.get_title(loc="left")


def test_many_points_are_a_picture_and_few_are_not(rows, plates):
    own = usual(rows)
    many = pd.concat([own.assign(image=own["image"] + f"-{i}") for i in range(25)])
    (plate,) = figures.render(many, ["trust-chest"])
    assert plate.svg.count("<image") == 1
    assert len(plate.svg) < LIGHT
    assert "<image" not in plates["trust-chest"].svg


def test_overall_has_the_mean_differences_of_the_draw(rows):
    figure = figures.draw(rows, "overall")
    assert len(figure.axes) == 3
    cross = shifted(rows)
    drawn = cross[(cross["task"] == "retina") & cross["drawn"]]
    by = ["source", "target"]
    source = drawn[(drawn["method"] == "source") & (drawn["lam"] == 1)]
    ax = figure.axes[1]
    assert ax.get_title() == "retina 9 images\nin 6 splits, 18 in all\n2 repeats"
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names[0] == "InTEnt"
    assert names[-1] == "Oracle lambda"
    assert len(names) == 8 + 7 + 8 + 1
    dots = {line.get_ydata()[0]: line.get_xdata()[0] for line in ax.get_lines()[1:]
            if len(line.get_xdata()) == 1}  # fmt: skip
    kinds = {"InTEnt": usual(drawn), "Tent, lambda 0.5": drawn.query("method=='tent' & lam==0.5")}
    for name, some in kinds.items():
        wanted = (some.groupby(by)["dice"].mean() - source.groupby(by)["dice"].mean()).mean()
        assert dots[names.index(name)] == pytest.approx(100 * wanted)


def test_overall_is_on_the_draw_even_if_all_methods_ran_on_more(rows):
    both = rows[(rows["method"] == "source") & (rows["task"] == "chest")]
    (ax,) = figures.draw(both, "overall").axes
    assert ax.get_title() == "chest 9 images\nin 6 splits, 18 in all\n2 repeats"


def test_overall_is_on_images_that_all_methods_have(rows):
    drawn = shifted(rows)[lambda r: r["drawn"] & (r["task"] == "chest")]
    gone = (drawn["method"] == "sar") & (drawn["image"] == "image-001")
    without = estimates(drawn[~gone])["chest"]
    assert without.extent == "chest 6 images in 6 splits, 12 in all, 2 repeats"
    late = (drawn["method"] == "sar") & (drawn["image"] == "image-001") & (drawn["repeat"] == 1)
    fewer = estimates(drawn[~late])["chest"].extent
    assert fewer == "chest 9 images in 6 splits, 18 in all, 1 to 2 repeats"
    pd.testing.assert_frame_equal(
        without.ends, estimates(drawn[drawn["image"] != "image-001"])["chest"].ends
    )
    assert (without.ends["low"] <= without.ends["mean"]).all()
    assert (without.ends["mean"] <= without.ends["high"]).all()


def overlap(mask, truth):
    return 2 * float((mask * truth).sum()) / float(mask.sum() + truth.sum())


def test_members_shows_phantoms_with_their_figures(plates):
    from sitta import InTEnt, load
    from sitta.data import phantom

    text = plates["members"].svg
    words = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    for site in ("birch", "elm", "rowan"):
        image, truth = phantom.draw(site, 0)
        p = InTEnt(load("phantom-alder"))(image)
        wanted = [f"Dice {100 * overlap(mask, truth):.1f}" for mask in [*p.member_masks, p.mask]]
        assert set(wanted) <= set(words)
        assert {f"weight {float(w):.2f}" for w in p.weights} <= set(words)
    assert [f"λ = {lam}" for lam in ("1", "0.8", "0.6", "0.4", "0.2", "0")] == [
        w for w in words if w.startswith("λ")
    ]
    assert text.count("<image") == 3  # one picture per phantom, however many panels show it


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_files_are_clean(plates, name):
    plate = plates[name]
    root = ET.fromstring(plate.svg)  # noqa: S314  (ours)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title.text == plate.alt
    assert plate.alt.startswith(plate.title)
    assert not re.search(r"\bnan\b|\binf\b", re.sub('base64,[^"]*', "", plate.svg.lower()))
    assert not re.search(r"<script|matplotlib v|20\d\d-\d\d", plate.svg.lower())
    links = re.findall(r'href="([^"]{5})', plate.svg)
    assert all(link[0] == "#" or link == "data:" for link in links)  # nothing is fetched
    assert len(plate.svg.encode()) < LIGHT


def test_missing_figures_leave_no_gap_in_paths():
    alone = few([3])  # one image: no interval, no correlation
    for plate in figures.render(alone, ["overall", "lambda", "change", "trust"]):
        assert "nan" not in plate.svg.lower()


def test_the_same_rows_give_the_same_bytes(rows, plates, tmp_path):
    paths = figures.save(rows, tmp_path / "new", ["trust-chest", "sweep"])
    assert [path.name for path in paths] == ["trust-chest.svg", "sweep.svg"]
    for path in paths:
        assert path.read_text(encoding="utf-8") == plates[path.stem].svg
    assert sorted(path.name for path in paths[0].parent.iterdir()) == [
        "sweep.svg",
        "trust-chest.svg",
    ]


def test_other_formats_and_kinds(rows, tmp_path):
    some = rows[rows["task"] != "spinal"]
    paths = figures.save(some, tmp_path, ["trust"], ("png", "pdf"))
    names = ["trust-chest.png", "trust-chest.pdf", "trust-retina.png", "trust-retina.pdf"]
    assert [path.name for path in paths] == names
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert b"CreationDate" not in paths[1].read_bytes()


def test_wrong_names(rows, tmp_path):
    with pytest.raises(InvalidSetting, match="lambda-chest"):
        figures.save(rows, tmp_path, ["lambda-liver"])
    with pytest.raises(InvalidSetting, match="svg, png, pdf"):
        figures.save(rows, tmp_path, ["sweep"], ["gif"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "kind", ["overall", "lambda-chest", "change-chest", "trust-chest", "sweep"]
)
def test_without_its_rows_a_figure_is_none(rows, tmp_path, kind):
    nothing = rows[rows["method"] == "tent"]
    assert figures.draw(nothing, kind) is None
    assert figures.save(nothing, tmp_path, [kind]) == []


def test_every_figure_has_its_words():
    assert list(figures.FIGURES) == ["overall", "lambda", "change", "trust", "sweep", "members"]
    for kind in figures.FIGURES.values():
        assert kind.title
        assert kind.caption.endswith(".")


def test_a_figure_is_one_function(rows, monkeypatch):
    monkeypatch.setattr(style, "KINDS", dict(style.KINDS))

    @style.figure("count", "Number of rows", order=9, by_task=True)
    def count(selection):
        """A bar.

        Of all rows.
        """
        return Figure(label=f"{len(selection.rows)} rows")

    monkeypatch.setattr(figures, "FIGURES", style.KINDS)
    (panel,) = figures.render(rows, ["count-chest"])
    own = shifted(rows)[lambda r: r["task"] == "chest"]
    assert panel.alt == f"Number of rows: chest. {len(own)} rows"
    assert panel.caption == "A bar. Of all rows."
